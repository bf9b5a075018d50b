//! Graphs that wait until their weights are downloaded.

use super::drive::{Drive, settings, settled, sync};
use super::stories::run;
use super::world::{Git, World, git, reference};
use stator_core::dynamo::health::Health;
use stator_core::dynamo::kinds::{ADAPTER, CLAIM, GRAPH, JOB};
use stator_model::plan::SyncState;

fn writes_since(world: &World, from: usize) -> String {
    world.writes[from..].join("\n")
}

/// A model whose graph serves what the first Job downloads.
fn first() -> Git {
    git(&[("llama", &[(CLAIM, "weights", 1), (JOB, "llama-1", 1), (GRAPH, "llama", 1), (ADAPTER, "sql", 1)])])
}

/// The same model, which serves what another Job downloads.
fn second() -> Git {
    git(&[("llama", &[(CLAIM, "weights", 1), (JOB, "llama-2", 1), (GRAPH, "llama", 2), (ADAPTER, "sql", 1)])])
}

#[test]
fn the_graph_is_applied_once_its_weights_are_downloaded() {
    let mut world = World::operated();
    insta::assert_snapshot!(run(&mut world, &first()), @"
    llama: Healthy (4 applied, 0 pruned)
    8 writes
    ");
    insta::assert_snapshot!(writes_since(&world, 0), @"
    journal
    apply PersistentVolumeClaim prod/weights as stator
    apply Job prod/llama-1 as stator
    record llama
    end of the journal
    apply DynamoGraphDeployment prod/llama as stator
    apply DynamoModel prod/sql as stator
    record llama
    ");
    settled(&mut world, &first());
    let from = world.writes.len();
    insta::assert_snapshot!(run(&mut world, &second()), @"
    llama: Healthy (2 applied, 1 pruned)
    8 writes
    ");
    insta::assert_snapshot!(writes_since(&world, from), @"
    journal
    apply Job prod/llama-2 as stator
    record llama
    end of the journal
    apply DynamoGraphDeployment prod/llama as stator
    record llama
    delete Job prod/llama-1
    record llama
    ");
    settled(&mut world, &second());
}

#[test]
fn without_a_wait_the_graph_is_left_for_a_later_sync() {
    let mut world = World::operated();
    let drive = Drive { settings: settings(false), ..Drive::default() };
    let ran = sync(&mut world, &first(), &drive);
    let model = ran.report.unwrap().models.swap_remove(0);
    insta::assert_snapshot!(format!("{:?}: {}", model.result, model.message), @"Deferred: DynamoGraphDeployment prod/llama is waiting for its weights (waiting for the download of the weights to start); run `stator sync --wait`");
    insta::assert_snapshot!(writes_since(&world, 0), @"
    journal
    apply PersistentVolumeClaim prod/weights as stator
    apply Job prod/llama-1 as stator
    record llama
    end of the journal
    ");
    while !world.operate().is_empty() {}
    let from = world.writes.len();
    sync(&mut world, &first(), &drive);
    insta::assert_snapshot!(writes_since(&world, from), @"
    journal
    apply DynamoGraphDeployment prod/llama as stator
    record llama
    end of the journal
    ");
    run(&mut world, &first());
    settled(&mut world, &first());
}

#[test]
fn a_download_that_fails_leaves_the_graph_serving_and_says_so_once() {
    let mut world = World::operated();
    run(&mut world, &first());
    world.breaks_downloads = true;
    let from = world.writes.len();
    insta::assert_snapshot!(run(&mut world, &second()), @"
    llama: Failed (1 applied, 0 pruned) Job prod/llama-2: the Job failed (0 active, 0 failed, 0 succeeded), BackoffLimitExceeded; read `kubectl logs -n prod job/llama-2`, then correct the Job in `manifests`: what runs then is another Job; DynamoGraphDeployment prod/llama keeps serving unchanged: its weights are not downloaded
    5 writes
    ");
    insta::assert_snapshot!(writes_since(&world, from), @"
    journal
    apply Job prod/llama-2 as stator
    record llama
    end of the journal
    record llama
    ");
    assert_eq!(world.live[&reference(1, "llama").identity()].spec()["payload"], 1);
    let state = world.records["llama"].state.clone().unwrap();
    assert_eq!((state.sync, state.health), (SyncState::OutOfSync, Health::Failed));
    let from = world.writes.len();
    run(&mut world, &second());
    assert_eq!(writes_since(&world, from), "");
    // Another Job is another try.
    world.breaks_downloads = false;
    let third =
        git(&[("llama", &[(CLAIM, "weights", 1), (JOB, "llama-3", 1), (GRAPH, "llama", 2), (ADAPTER, "sql", 1)])]);
    run(&mut world, &third);
    settled(&mut world, &third);
}

#[test]
fn a_renamed_model_serves_until_the_weights_of_its_new_name_are_downloaded() {
    let mut world = World::operated();
    run(&mut world, &git(&[("old", &[(GRAPH, "old", 1)])]));
    world.sources = ["old", "new"].map(|name| (name.to_owned(), "chat/model.yaml".to_owned())).into();
    world.breaks_downloads = true;
    let renamed = git(&[("new", &[(JOB, "new-1", 1), (GRAPH, "new", 1)])]);
    for wait in [false, true] {
        sync(&mut world, &renamed, &Drive { settings: settings(wait), ..Drive::default() });
        assert!(world.live.contains_key(&reference(1, "old").identity()), "wait: {wait}");
        assert!(!world.live.contains_key(&reference(1, "new").identity()), "wait: {wait}");
    }
}

/// A download takes hours; what others prune does not wait for it.
#[test]
fn nobody_waits_for_the_download_of_another_model() {
    let mut world = World::operated();
    run(&mut world, &git(&[("gone", &[(GRAPH, "gone", 1)])]));
    world.operator = false;
    let ran = sync(&mut world, &first(), &Drive::default());
    let model = ran.report.unwrap().models.into_iter().find(|model| model.name == "llama").unwrap();
    insta::assert_snapshot!(format!("{:?}: {}", model.result, model.message), @"Unhealthy: no progress for 30m: Job prod/llama-1: waiting for the download of the weights to start; DynamoGraphDeployment prod/llama is skipped for now: its weights are not downloaded; DynamoModel prod/sql is skipped for now: its weights are not downloaded");
    assert!(!world.live.contains_key(&reference(1, "gone").identity()));
    assert!(!world.live.contains_key(&reference(1, "llama").identity()));
}
