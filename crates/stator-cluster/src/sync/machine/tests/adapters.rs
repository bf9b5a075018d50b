//! Adapters that are loaded, and whether their frontend serves them.

use super::drive::{Drive, Ran, settled, sync};
use super::world::{Git, World, git};
use crate::sync::SyncProgress;
use stator_core::dynamo::health::Health;
use stator_core::dynamo::kinds::{ADAPTER, GRAPH};
use stator_core::dynamo::served_models::FrontendAnswer;
use stator_core::outcome::SyncOutcome;
use std::time::Duration;

fn serves(names: &[&str]) -> FrontendAnswer {
    FrontendAnswer::Serves(names.iter().map(|name| (*name).to_owned()).collect())
}

/// A model with two adapters, whose frontend answers so.
fn behind(answers: &[FrontendAnswer]) -> (World, Git) {
    let mut world = World::operated();
    world.answers = answers.iter().cloned().collect();
    (world, git(&[("llama", &[(ADAPTER, "sql", 1), (ADAPTER, "code", 1), (GRAPH, "llama", 1)])]))
}

fn synced(world: &mut World, git: &Git) -> (SyncOutcome, String, Ran) {
    let mut ran = sync(world, git, &Drive::default());
    let model = ran.report.take().unwrap().models.swap_remove(0);
    (model.result, model.message, ran)
}

/// What the sync said that it waits for, of adapters.
fn waits(ran: &Ran) -> Vec<String> {
    let waits = ran.progress.iter().filter_map(|event| match event {
        SyncProgress::Waiting { reason, .. } => Some(reason.to_string()),
        SyncProgress::Applied { .. }
        | SyncProgress::Deleted { .. }
        | SyncProgress::Retrying { .. }
        | SyncProgress::Finished(_) => None,
    });
    waits.filter(|line| line.contains("loaded")).collect()
}

#[test]
fn a_wait_goes_on_until_the_frontend_lists_every_adapter_and_nobody_is_asked_after_that() {
    let (mut world, git) = behind(&[serves(&["m"]), serves(&["m", "sql"]), serves(&["m", "sql", "code"])]);
    let (result, message, ran) = synced(&mut world, &git);
    assert_eq!((result, message.as_str()), (SyncOutcome::Healthy, ""));
    insta::assert_snapshot!(waits(&ran).join("\n"), @"
    DynamoModel prod/code: loaded on 1 of 1 endpoints, not served yet: /v1/models of the frontend does not list `code`; DynamoModel prod/sql: loaded on 1 of 1 endpoints, not served yet: /v1/models of the frontend does not list `sql`
    DynamoModel prod/code: loaded on 1 of 1 endpoints, not served yet: /v1/models of the frontend does not list `code`
    ");
    // Pauses of two seconds and four, and two in which they stay.
    assert_eq!((world.questions, ran.elapsed), (3, Duration::from_secs(8)));
    assert_eq!(world.records["llama"].state.as_ref().unwrap().health, Health::Healthy);
    settled(&mut world, &git);
    assert_eq!(world.questions, 3, "a steady state asks");
}

#[test]
fn a_frontend_that_never_lists_an_adapter_is_asked_ever_more_rarely_and_the_model_is_not_healthy() {
    let (mut world, git) = behind(&[serves(&["m", "code"])]);
    let (result, message, ran) = synced(&mut world, &git);
    assert_eq!(result, SyncOutcome::Unhealthy);
    insta::assert_snapshot!(message, @"no progress for 30m: DynamoModel prod/sql: loaded on 1 of 1 endpoints, not served yet: /v1/models of the frontend does not list `sql`");
    assert_eq!(ran.elapsed, Duration::from_secs(30 * 60));
    assert!((30..40).contains(&world.questions), "{}", world.questions);
    assert_eq!(world.records["llama"].state.as_ref().unwrap().health, Health::Progressing);
    // The next sync looks again.
    world.answers = [serves(&["sql", "code"])].into();
    let (result, _, ran) = synced(&mut world, &git);
    assert_eq!((result, ran.elapsed), (SyncOutcome::Healthy, Duration::from_secs(2)));
    settled(&mut world, &git);
}

#[test]
fn what_cannot_be_found_out_is_the_operators_word() {
    let silent = FrontendAnswer::unknown_now("nobody answers");
    for (answers, questions) in [
        (vec![FrontendAnswer::NotAsked], 1),
        (vec![FrontendAnswer::unknown("give stator the right")], 1),
        (vec![silent.clone()], 3),
        (vec![silent.clone(), silent.clone(), serves(&["m"]), silent, serves(&["sql", "code"])], 5),
    ] {
        let (mut world, git) = behind(&answers);
        let (result, message, _) = synced(&mut world, &git);
        assert_eq!((result, message.as_str(), world.questions), (SyncOutcome::Healthy, "", questions), "{answers:?}");
        settled(&mut world, &git);
        assert_eq!(world.questions, questions, "a steady state asks");
    }
}

#[test]
fn an_adapter_that_is_loaded_again_is_asked_about_again() {
    let (mut world, git) = behind(&[serves(&["sql", "code"])]);
    synced(&mut world, &git);
    let changed = super::world::git(&[("llama", &[(ADAPTER, "sql", 1), (ADAPTER, "code", 1), (GRAPH, "llama", 2)])]);
    let (result, ..) = synced(&mut world, &changed);
    assert_eq!((result, world.questions), (SyncOutcome::Healthy, 2));
    settled(&mut world, &changed);
}

/// Frontends are asked once everything is applied: while an adapter waits for its graph, nothing is to be done at once.
#[test]
fn an_adapter_that_is_loaded_asks_nobody_while_another_one_waits_for_the_graph() {
    let (mut world, _) = behind(&[serves(&["m", "sql", "code"])]);
    let first = git(&[("llama", &[(ADAPTER, "sql", 1), (GRAPH, "llama", 1)])]);
    assert_eq!(synced(&mut world, &first).0, SyncOutcome::Healthy);
    let questions = world.questions;
    world.operator = false;
    let grown = git(&[("llama", &[(ADAPTER, "sql", 1), (ADAPTER, "code", 1), (GRAPH, "llama", 2)])]);
    let (result, message, ran) = synced(&mut world, &grown);
    assert_eq!((result, ran.elapsed), (SyncOutcome::Unhealthy, Duration::from_secs(30 * 60)), "{message}");
    assert_eq!(world.questions, questions);
    world.operator = true;
    assert_eq!(synced(&mut world, &grown).0, SyncOutcome::Healthy);
    settled(&mut world, &grown);
}
