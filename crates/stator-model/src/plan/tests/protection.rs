//! What an unreadable file protects: every model that it may declare, wherever that model was before.

use super::world::*;
use crate::intent::{BrokenIntent, UnreadCause, UnreadPlace};
use crate::plan::{Change, Plan, PlannedWrite, UnreadableObject};
use crate::render::RenderedModel;
use proptest::prelude::*;
use stator_core::dynamo::kinds::JOURNAL;
use stator_core::object::ObjectRef;
use std::collections::{BTreeMap, BTreeSet};

fn broken(folder: &str, name: Option<&str>) -> BrokenIntent {
    BrokenIntent { source: format!("models/{folder}/model.yaml"), name: name.map(str::to_owned) }
}

fn moved(name: &str, folder: &str) -> RenderedModel {
    RenderedModel { source: format!("models/{folder}/model.yaml"), ..small(name) }
}

fn deleted(plan: &Plan) -> BTreeSet<&str> {
    let goes = |change: &&Change| matches!(change.step.write(), Some(PlannedWrite::Delete(_)));
    let changes = plan.changes.iter().filter(goes).map(|change| change.model.as_str());
    changes.chain(plan.retired.iter().map(String::as_str)).collect()
}

/// Row B1 of the review: one commit moves `a/` to `b/` and `c/` to `a/`, with merge markers in `a/model.yaml`. What was
/// at that path is rendered elsewhere, so the file may be any model that git does not have.
#[test]
fn a_file_that_cannot_be_read_protects_what_may_have_moved_into_it() {
    let mut story = PlanScenario::synced([small("a"), small("c")]);
    story.rendered = vec![moved("a", "b")];
    story.broken = vec![broken("a", None)];
    assert_eq!(deleted(&story.plan()), BTreeSet::new());
    insta::assert_snapshot!(story.show(), @"
    Keep a DynamoGraphDeployment prod/a none 1->1 peak 1
    Keep c DynamoGraphDeployment prod/c none 1->1 peak 1
      - git no longer has it, but models/a/model.yaml has errors, and it may belong to that model
    ");
}

/// Row B1: `a/` moves over `b/`, whose model is removed, and cannot be read there.
#[test]
fn a_file_that_cannot_be_read_protects_more_than_what_was_at_its_path() {
    let mut story = PlanScenario::synced([small("a"), small("b"), small("stays")]);
    story.rendered = vec![small("stays")];
    story.broken = vec![broken("b", None)];
    assert_eq!(deleted(&story.plan()), BTreeSet::new());
}

/// Row B1: a file that claims the name of a model which another folder declares says nothing of whose it is.
#[test]
fn a_claimed_name_that_another_folder_declares_is_no_name() {
    let mut story = PlanScenario::synced([small("a"), small("b"), small("stays")]);
    story.rendered = vec![small("stays"), small("a")];
    story.broken = vec![broken("elsewhere", Some("a"))];
    assert_eq!(deleted(&story.plan()), BTreeSet::new(), "rendered there");
    story.rendered = vec![small("stays")];
    story.broken.push(broken("a", Some("a")));
    assert_eq!(deleted(&story.plan()), BTreeSet::new(), "as broken there");
    // Two files of one folder are one model's.
    story.broken = vec![
        broken("a", Some("a")),
        BrokenIntent { source: "models/a/model.prod.yaml".into(), name: Some("a".into()) },
    ];
    assert_eq!(deleted(&story.plan()), BTreeSet::from(["b"]));
}

/// A journal names what a sync may have created, so one that cannot be read may name anything: nothing is deleted until it
/// is settled, and what git wants is applied all the same.
#[test]
fn nothing_is_pruned_beside_a_journal_that_cannot_be_read() {
    let mut story = PlanScenario::synced([small("a"), small("b")]);
    story.rendered = vec![small("a"), small("c")];
    story.damaged = vec![UnreadableObject {
        object: ObjectRef { api_version: JOURNAL.api_version(), ..reference(JOURNAL.kind, "sync-1-0") },
        message: "SyncJournal prod/sync-1-0: `spec` cannot be read".to_owned(),
        is_foreign: false,
    }];
    assert_eq!(deleted(&story.plan()), BTreeSet::new());
    insta::assert_snapshot!(story.show(), @"
    Keep a DynamoGraphDeployment prod/a none 1->1 peak 1
    Blocked b DynamoGraphDeployment prod/b none 1->1 peak 1
      - git no longer has it; it is kept until SyncJournal prod/sync-1-0 is readable or deleted
    Create c DynamoGraphDeployment prod/c none 0->1 peak 1 [apply]
      - is not in the cluster yet
    warning[plan/damaged] : nothing is pruned: a journal of an earlier sync cannot be read: SyncJournal prod/sync-1-0: `spec` cannot be read
    ");
    story.damaged.clear();
    assert_eq!(deleted(&story.plan()), BTreeSet::from(["b"]));
}

/// What a file of the next commit is like.
#[derive(Clone, Debug)]
enum NextFile {
    Valid,
    /// Not even its name can be read.
    Unreadable,
    /// It has errors, and says its name.
    Named,
    /// It has errors, and says the name of another model.
    Claims(usize),
}

const NAMES: [&str; 6] = ["m0", "m1", "m2", "m3", "m4", "m5"];

fn next_file() -> impl Strategy<Value = NextFile> {
    prop_oneof![
        4 => Just(NextFile::Valid),
        1 => Just(NextFile::Unreadable),
        1 => Just(NextFile::Named),
        1 => (0..NAMES.len()).prop_map(NextFile::Claims),
    ]
}

/// Which folder each model moves to, which models git still has, and what each file is like.
fn next_commit() -> impl Strategy<Value = Vec<(usize, Option<NextFile>)>> {
    let folders = Just((0..NAMES.len()).collect::<Vec<usize>>()).prop_shuffle();
    let files = proptest::collection::vec(proptest::option::weighted(0.6, next_file()), NAMES.len());
    (folders, files).prop_map(|(folders, files)| folders.into_iter().zip(files).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 2))]

    /// Row B1: no graph is deleted that a file with errors may declare, through swaps, chains, removals and false
    /// claims; and everything else that git no longer has goes.
    #[test]
    fn no_graph_is_deleted_that_an_unreadable_file_may_declare(next in next_commit()) {
        let mut story = PlanScenario::synced(NAMES.iter().map(|name| small(name)).chain([small("stays")]));
        story.rendered = vec![small("stays")];
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        let said = |model: usize, file: &NextFile| match file {
            NextFile::Valid | NextFile::Named => Some(NAMES[model]),
            NextFile::Unreadable => None,
            NextFile::Claims(other) => Some(NAMES[*other]),
        };
        for (model, (_, file)) in next.iter().enumerate() {
            if let Some(name) = file.as_ref().and_then(|file| said(model, file)) {
                *names.entry(name).or_default() += 1;
            }
        }
        // What each file with errors may be, by the reasoning of somebody who knows what its author meant.
        let (mut may_be, mut is_any) = (BTreeSet::new(), false);
        for (model, (folder, file)) in next.iter().enumerate() {
            let Some(file) = file else { continue };
            let shown = said(model, file);
            match file {
                NextFile::Valid => story.rendered.push(moved(NAMES[model], NAMES[*folder])),
                NextFile::Unreadable | NextFile::Named | NextFile::Claims(_) => {
                    story.broken.push(broken(NAMES[*folder], shown));
                    may_be.insert(NAMES[*folder]);
                    match shown.filter(|name| names[name] == 1) {
                        Some(name) => drop(may_be.insert(name)),
                        None => {
                            may_be.insert(NAMES[model]);
                            is_any = true;
                        }
                    }
                }
            }
        }
        story.allow = vec![crate::plan::HoldKind::MassDelete];
        let plan = story.plan();
        let deleted = deleted(&plan);
        let kept: Vec<_> = may_be.intersection(&deleted).collect();
        prop_assert!(kept.is_empty(), "{kept:?} in {:?} of {:?}", story.broken, deleted);
        prop_assert!(!deleted.contains("stays"));
        if !is_any {
            let rendered: BTreeSet<&str> = story.rendered.iter().map(|one| one.model.as_str()).collect();
            let expected: BTreeSet<&str> = NAMES.into_iter().filter(|name| !rendered.contains(name) && !may_be.contains(name)).collect();
            prop_assert_eq!(deleted, expected);
        }
    }
}

/// Row B3 of the review: a submodule, a link or a file of nearly the right name in place of a model's file.
#[test]
fn what_takes_the_place_of_a_models_file_protects_it_and_is_an_error() {
    let misnamed = |meant: &str, model: Option<&str>| UnreadCause::Misnamed {
        meant: meant.into(),
        model: model.map(str::to_owned),
    };
    let places = [
        ("models/b", UnreadCause::Submodule),
        ("models", UnreadCause::SymbolicLink),
        ("models/b/model.yaml", UnreadCause::SymbolicLink),
        ("models/b/model.yml", misnamed("model.yaml", None)),
        ("elsewhere/Model.yaml", misnamed("model.yaml", Some("b"))),
    ];
    let mut said = Vec::new();
    for (path, cause) in places {
        let mut story = PlanScenario::synced([small("b"), small("stays")]);
        story.rendered = vec![RenderedModel { source: "moved/model.yaml".into(), ..small("stays") }];
        story.unread = vec![UnreadPlace { path: path.into(), cause }];
        let plan = story.plan();
        assert_eq!(deleted(&plan), BTreeSet::new(), "{path}");
        assert_eq!(plan.summary.blocked, 1, "{path}");
        said.extend(plan.findings.iter().map(|one| format!("{} {}: {}", one.severity, one.location.file, one.message)));
    }
    insta::assert_snapshot!(said.join("\n"), @"
    error models/b: model b is not pruned: models/b is a submodule, which is not read
    error models: model b is not pruned: models is a symbolic link, which is not followed
    error models/b/model.yaml: model b is not pruned: models/b/model.yaml is a symbolic link, which is not followed
    error models/b/model.yml: model b is not pruned: models/b/model.yml is not read, because its name is not `model.yaml`
    error elsewhere/Model.yaml: model b is not pruned: elsewhere/Model.yaml is not read, because its name is not `model.yaml`
    ");
    // Elsewhere they are nobody's.
    for (path, cause) in [
        ("docs", UnreadCause::Submodule),
        ("models/b2", UnreadCause::SymbolicLink),
        ("models/c/model.yml", misnamed("model.yaml", Some("c"))),
    ] {
        let mut story = PlanScenario::synced([small("b"), small("stays")]);
        story.rendered = vec![small("stays")];
        story.unread = vec![UnreadPlace { path: path.into(), cause }];
        assert_eq!(deleted(&story.plan()), BTreeSet::from(["b"]), "{path}");
    }
}

/// A journal of what never came to be is closed although nothing is pruned: there is nothing to be kept. What did come to
/// be is kept, and so is its name.
#[test]
fn where_nothing_is_pruned_a_journal_is_kept_for_what_is_there_alone() {
    let mut story = PlanScenario::synced([small("stays"), small("gone")]);
    story.rendered = vec![small("stays")];
    story.keep_leftovers = true;
    let record = story.records.get_mut("gone").unwrap();
    (record.is_journaled, record.is_stale) = (true, true);
    record.inventory.iter_mut().for_each(|entry| entry.uid = None);
    assert_eq!(story.plan().retired, [] as [&str; 0]);
    story.live.retain(|identity, _| identity.name != "gone");
    assert_eq!(story.plan().retired, ["gone"]);
}
