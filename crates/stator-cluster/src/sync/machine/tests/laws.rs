//! Laws: whatever the plan, the order of answers, the faults, the moment of a cancel or a crash.

use super::drive::{Drive, settings, settled, sync};
use super::world::{Fault, Git, World, journals_identity, model_record, reference};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Up to four models, each with up to a claim, two graphs, two adapters and two downloads.
fn any_git() -> impl Strategy<Value = Git> {
    // A graph of another hundred is another graph: some come up beside what they replace.
    let far = prop_oneof![8 => Just(0_u64), 1 => Just(100), 2 => Just(500), 1 => Just(600)];
    let object = ((0..4_usize), (0..2_usize), (1..4_u64), far);
    let model = prop::collection::vec(object, 1..4);
    prop::collection::btree_map(0..4_usize, model, 0..4).prop_map(|models| {
        models
            .into_iter()
            .map(|(model, objects)| {
                let objects = objects.into_iter().map(|(kind, index, payload, far)| match kind {
                    // What a Job does cannot be changed: another one is another Job.
                    3 => ((kind, format!("m{model}-{payload}")), 1),
                    _ => ((kind, format!("m{model}-{index}")), payload + far),
                });
                (format!("m{model}"), objects.collect())
            })
            .collect()
    })
}

fn any_fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        3 => Just(Fault::Before), 3 => Just(Fault::After), 1 => Just(Fault::Invalid), 1 => Just(Fault::Conflict),
        1 => Just(Fault::Full), 1 => Just(Fault::Precondition), 1 => Just(Fault::Forbidden)
    ]
}

/// Faults by model, kind (4 is the record, 5 any journal) and name.
type Faults = BTreeMap<(usize, usize, usize), Vec<Fault>>;

fn any_faults() -> impl Strategy<Value = Faults> {
    prop::collection::btree_map((0..4_usize, 0..6_usize, 0..2_usize), prop::collection::vec(any_fault(), 1..4), 0..5)
}

fn inject(world: &mut World, faults: &Faults) {
    for ((model, kind, index), list) in faults {
        let identity = match kind {
            4 => model_record(&format!("m{model}")),
            5 => journals_identity(),
            _ => reference(*kind, &format!("m{model}-{index}")).identity(),
        };
        world.faults.insert(identity, VecDeque::from(list.clone()));
    }
}

/// A cluster as a sync of `git` leaves it.
fn synced(git: &Git, finalizers: bool) -> World {
    let mut world = World::operated();
    if finalizers {
        world.finalizers = BTreeSet::from([
            stator_core::dynamo::kinds::GRAPH.kind.to_owned(),
            stator_core::dynamo::kinds::ADAPTER.kind.to_owned(),
        ]);
    }
    let ran = sync(&mut world, git, &Drive::default());
    assert!(ran.report.unwrap().is_success());
    world
}

/// The objects that a plan deletes, for good or to be replaced.
fn planned_deletes(world: &World, git: &Git) -> usize {
    use stator_model::plan::PlannedWrite;
    let (plan, _) = world.plan(git);
    plan.changes
        .iter()
        .filter(|change| matches!(change.step.write(), Some(PlannedWrite::Delete(_) | PlannedWrite::Replace { .. })))
        .count()
}

/// Every apply comes after a record of its model, or a journal.
fn assert_named_first(world: &World, from: usize, before: &World) {
    let mut recorded: BTreeSet<String> = before.records.keys().cloned().collect();
    let mut is_journaled = !before.journals.is_empty();
    for write in &world.writes[from..] {
        if let Some(model) = write.strip_prefix("record ") {
            recorded.insert(model.to_owned());
        } else if write == "journal" {
            is_journaled = true;
        } else if write.starts_with("apply") {
            let name = write.split('/').nth(1).unwrap();
            let model = name.split('-').next().unwrap();
            let is_known = recorded.contains(model) || is_journaled;
            assert!(is_known, "{write} before a record of {model} or a journal names it: {:?}", world.writes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn a_sync_ends_where_git_says_and_stays_there(old in any_git(), new in any_git(), order: u64, finalizers: bool) {
        prop_assume!(!new.is_empty());
        let mut world = synced(&old, finalizers);
        let before = world.clone();
        let deletes = planned_deletes(&world, &new);
        let ran = sync(&mut world, &new, &Drive { order, ..Drive::default() });
        let report = ran.report.unwrap();
        prop_assert!(report.is_success(), "{report:#?}");
        prop_assert_eq!(world.deletes() - before.deletes(), deletes);
        assert_named_first(&world, before.writes.len(), &before);
        settled(&mut world, &new);
    }

    #[test]
    fn faults_and_cancels_end_and_delete_nothing_more(
        old in any_git(), new in any_git(), order: u64, faults in any_faults(), cancel_at in prop::option::of(0..60_usize),
        wait: bool, finalizers: bool,
    ) {
        prop_assume!(!new.is_empty());
        let mut world = synced(&old, finalizers);
        let before = world.clone();
        let deletes = planned_deletes(&world, &new);
        inject(&mut world, &faults);
        let ran = sync(&mut world, &new, &Drive { order, cancel_at, settings: settings(wait), ..Drive::default() });
        prop_assert!(ran.report.is_some());
        let deleted = world.deletes() - before.deletes();
        prop_assert!(deleted <= deletes, "{deleted} deleted, {deletes} planned");
        assert_named_first(&world, before.writes.len(), &before);

        // Once the faults are over, two syncs at most: one may still wait for what is being deleted.
        world.faults.clear();
        while !world.operate().is_empty() {}
        let report = sync(&mut world, &new, &Drive::default()).report.unwrap();
        prop_assert!(report.is_success(), "{report:#?}");
        prop_assert!(world.deletes() - before.deletes() <= deletes, "surplus deletes: {:?}", world.writes);
        let mut undisturbed = before.clone();
        sync(&mut undisturbed, &new, &Drive::default());
        prop_assert_eq!(world.state(), undisturbed.state());
        settled(&mut world, &new);
    }

    /// Row E2 of the review: whatever fails, nothing of a model that was renamed goes before the volumes and graphs of its
    /// new name are there; and it goes once they are.
    #[test]
    fn a_renamed_model_goes_after_its_new_name_is_applied(
        mut old in any_git(), mut new in any_git(), order: u64, faults in any_faults(),
        cancel_at in prop::option::of(0..60_usize), wait: bool, finalizers: bool,
    ) {
        old.insert("m0".to_owned(), BTreeMap::from([((1, "m0-0".to_owned()), 1), ((2, "m0-1".to_owned()), 1)]));
        old.remove("m1");
        new.remove("m0");
        let next = new.entry("m1".to_owned());
        next.or_insert_with(|| BTreeMap::from([((0, "m1-0".to_owned()), 1), ((1, "m1-1".to_owned()), 1)]));
        let mut world = synced(&old, finalizers);
        world.sources = ["m0", "m1"].map(|name| (name.to_owned(), "chat/model.yaml".to_owned())).into();
        let from = world.writes.len();
        inject(&mut world, &faults);
        sync(&mut world, &new, &Drive { order, cancel_at, settings: settings(wait), ..Drive::default() });
        let writes = &world.writes[from..];
        if let Some(gone) = writes.iter().position(|write| write.starts_with("delete") && write.contains("/m0-")) {
            for (kind, name) in new["m1"].keys().filter(|(kind, _)| *kind < 2) {
                let applied = format!("apply {} as stator", reference(*kind, name));
                prop_assert!(writes[..gone].contains(&applied), "no {applied} before {}: {writes:?}", writes[gone]);
            }
        }
        world.faults.clear();
        while !world.operate().is_empty() {}
        sync(&mut world, &new, &Drive::default());
        prop_assert!(!world.live.contains_key(&reference(1, "m0-0").identity()) || finalizers);
        settled(&mut world, &new);
    }

    #[test]
    fn a_crash_at_any_write_is_put_right_by_the_next_sync(
        old in any_git(), new in any_git(), order: u64, finalizers: bool, wait: bool,
    ) {
        prop_assume!(!new.is_empty());
        let start = synced(&old, finalizers);
        let deletes = planned_deletes(&start, &new);
        let mut reference = start.clone();
        sync(&mut reference, &new, &Drive::default());
        for crash_at in 0.. {
            let mut world = start.clone();
            let drive = Drive { order, crash_at: Some(crash_at), settings: settings(wait), ..Drive::default() };
            let survived = sync(&mut world, &new, &drive).report.is_some();
            while !world.operate().is_empty() {}
            let report = sync(&mut world, &new, &Drive::default()).report.unwrap();
            prop_assert!(report.is_success(), "after a crash at write {crash_at}: {report:#?}");
            prop_assert_eq!(world.state(), reference.state(), "after a crash at write {}", crash_at);
            let deleted = world.deletes() - start.deletes();
            prop_assert!(deleted <= deletes, "{deleted} deleted, {deletes} planned, crash at write {crash_at}");
            settled(&mut world, &new);
            if survived {
                break;
            }
        }
    }
}
