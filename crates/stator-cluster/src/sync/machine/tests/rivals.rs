//! Two syncs at one thing: whoever has the record has the objects, and nobody deletes the journal that another one needs.

use super::drive::{Drive, settled, sync, sync_plan};
use super::stories::described;
use super::world::{Fault, Git, World, git, journals_identity, model_record, reference};
use serde_json::json;
use stator_core::dynamo::kinds::{ADAPTER, GRAPH, LABEL_ENVIRONMENT};
use stator_core::object::Object;
use stator_core::outcome::SyncOutcome;
use stator_model::plan::{Action, Plan, PlanStep, SyncBookkeeping, SyncState};

fn llama(payload: u64) -> Git {
    git(&[("llama", &[(GRAPH, "llama", payload)])])
}

/// A plan that creates llama, and a world in which a source of the same repository has created it since.
fn overtaken() -> (World, Plan, SyncBookkeeping) {
    let mut world = World::operated();
    let (plan, bookkeeping) = world.plan(&llama(2));
    let mut theirs = World::operated();
    sync(&mut theirs, &llama(1), &Drive::default());
    world.live = theirs.live;
    (world, plan, bookkeeping)
}

#[test]
fn what_another_source_of_the_repository_created_is_written_over_only_by_who_has_the_record() {
    let (mut world, plan, bookkeeping) = overtaken();
    world.faults.insert(model_record("llama"), vec![Fault::Precondition].into());
    let report = sync_plan(&mut world, plan, bookkeeping, &Drive::default()).report.unwrap();
    assert_eq!(report.models[0].result, SyncOutcome::Failed, "{}", described(&report));
    assert_eq!(world.live[&reference(1, "llama").identity()].spec()["payload"], 1);
    insta::assert_snapshot!(world.writes.join("\n"), @"journal");

    let (mut world, plan, bookkeeping) = overtaken();
    let report = sync_plan(&mut world, plan, bookkeeping, &Drive::default()).report.unwrap();
    assert!(report.is_success(), "{}", described(&report));
    insta::assert_snapshot!(world.writes.join("\n"), @"
    journal
    record llama
    apply DynamoGraphDeployment prod/llama as stator
    end of the journal
    record llama
    ");
    settled(&mut world, &llama(2));
}

#[test]
fn what_another_environment_created_is_left_alone() {
    let (mut world, plan, bookkeeping) = overtaken();
    for object in world.live.values_mut() {
        let mut value = object.value().clone();
        value["metadata"]["labels"][LABEL_ENVIRONMENT] = json!("staging");
        *object = Object::from_value(value).unwrap();
    }
    let report = sync_plan(&mut world, plan, bookkeeping, &Drive::default()).report.unwrap();
    insta::assert_snapshot!(described(&report), @"
    llama: Failed (0 applied, 0 pruned) DynamoGraphDeployment prod/llama was created by another client after it was planned: sync again
    4 writes
    ");
    assert_eq!(world.live[&reference(1, "llama").identity()].spec()["payload"], 1);
    assert!(world.records.is_empty() || world.records["llama"].inventory.is_empty(), "{:#?}", world.records);
}

#[test]
fn a_journal_that_another_sync_may_delete_at_any_moment_is_not_relied_on() {
    let mut world = World::operated();
    let dies = Drive { crash_at: Some(1), ..Drive::default() };
    assert!(sync(&mut world, &llama(1), &dies).report.is_none());
    assert_eq!(world.writes, ["journal"]);

    let (plan, bookkeeping) = world.plan(&llama(1));
    // The other one was not dead, and is through without having created anything.
    world.journals.clear();
    world.writes.clear();
    let dies = Drive { crash_at: Some(2), ..Drive::default() };
    assert!(sync_plan(&mut world, plan, bookkeeping, &dies).report.is_none());
    insta::assert_snapshot!(world.writes.join("\n"), @"
    journal
    apply DynamoGraphDeployment prod/llama as stator
    ");
    assert_eq!(world.journals.len(), 1, "nothing names the graph");
    assert!(sync(&mut world, &git(&[]), &Drive::default()).report.unwrap().is_success());
    assert!(world.live.is_empty(), "{:#?}", world.live.keys());
    settled(&mut world, &git(&[]));
}

#[test]
fn what_a_journal_says_of_a_model_with_another_ones_record_stays() {
    let mut world = World::operated();
    let dies = Drive { crash_at: Some(2), ..Drive::default() };
    assert!(sync(&mut world, &llama(1), &dies).report.is_none());
    let (mut plan, bookkeeping) = world.plan(&llama(1));
    plan.ownership.foreign = vec!["llama".to_owned()];
    for change in &mut plan.changes {
        (change.action, change.step, change.inventory) = (Action::Blocked, PlanStep::NoWrite, None);
    }
    let report = sync_plan(&mut world, plan, bookkeeping, &Drive::default()).report.unwrap();
    assert_eq!(report.writes, 0, "{}", described(&report));
    assert_eq!(world.journals.len(), 1);
}

#[test]
fn a_model_whose_journal_cannot_be_written_is_not_said_to_be_synced() {
    let mut world = World::operated();
    assert!(sync(&mut world, &llama(1), &Drive::default()).report.unwrap().is_success());
    let grown = git(&[("llama", &[(GRAPH, "llama", 1), (ADAPTER, "sql", 1)])]);
    world.faults.insert(journals_identity(), vec![Fault::Forbidden].into());
    let report = sync(&mut world, &grown, &Drive::default()).report.unwrap();
    assert_eq!(report.models[0].result, SyncOutcome::Failed, "{}", described(&report));
    let state = world.records["llama"].state.as_ref().unwrap();
    assert_eq!(state.sync, SyncState::OutOfSync);
    assert!(state.conditions.iter().any(|one| one.message.contains("journal")), "{:#?}", state.conditions);
    assert!(sync(&mut world, &grown, &Drive::default()).report.unwrap().is_success());
    settled(&mut world, &grown);
}
