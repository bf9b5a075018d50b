//! Deletions end when the object is gone, and not before.

use super::drive::{Drive, settings, settled, sync};
use super::stories::described;
use super::world::{World, git, reference};
use stator_core::dynamo::kinds::{ADAPTER, GRAPH};

fn synced() -> World {
    let mut world = World::operated();
    sync(&mut world, &git(&[("llama", &[(ADAPTER, "sql", 1), (GRAPH, "llama", 1)])]), &Drive::default());
    world
}

/// Row N2 of the second review: an object that does not go keeps its model failed at every attempt, and its record.
#[test]
fn a_deletion_ends_when_the_object_is_gone() {
    let mut world = synced();
    world.finalizers = [reference(1, "llama").kind].into();
    world.keeps_finalizers = true;
    let rest = git(&[("other", &[(GRAPH, "other", 1)])]);
    let mut said = Vec::new();
    for wait in [true, true, false, false] {
        let drive = Drive { settings: settings(wait), ..Drive::default() };
        said.push(described(&sync(&mut world, &rest, &drive).report.unwrap()));
        let named: Vec<&str> = world.records["llama"].inventory.iter().map(|one| one.object.name.as_str()).collect();
        assert_eq!(named, ["llama"], "the record names what is not gone");
    }
    insta::assert_snapshot!(said.join("\n"), @"
    llama: Failed (0 applied, 2 pruned) DynamoGraphDeployment prod/llama is still being deleted, after 30m: check that its controller is running
    other: Healthy (1 applied, 0 pruned)
    8 writes

    llama: Failed (0 applied, 0 pruned) DynamoGraphDeployment prod/llama is still being deleted, after 30m: check that its controller is running
    other: Healthy (0 applied, 0 pruned)
    0 writes

    llama: Deleting (0 applied, 0 pruned) DynamoGraphDeployment prod/llama
    other: Unchanged (0 applied, 0 pruned)
    0 writes

    llama: Deleting (0 applied, 0 pruned) DynamoGraphDeployment prod/llama
    other: Unchanged (0 applied, 0 pruned)
    0 writes
    ");
    world.keeps_finalizers = false;
    while !world.operate().is_empty() {}
    said = vec![described(&sync(&mut world, &rest, &Drive::default()).report.unwrap())];
    insta::assert_snapshot!(said.join("\n"), @"
    llama: Deleted (0 applied, 0 pruned)
    other: Healthy (0 applied, 0 pruned)
    1 writes
    ");
    settled(&mut world, &rest);
}

/// Without `--wait` nobody looks whether what was asked to go is gone, and nobody says so.
#[test]
fn a_deletion_that_nobody_waits_for_is_said_to_be_asked_for() {
    let mut world = synced();
    world.finalizers = [reference(1, "llama").kind].into();
    let rest = git(&[("other", &[(GRAPH, "other", 1)])]);
    let drive = Drive { settings: settings(false), ..Drive::default() };
    insta::assert_snapshot!(described(&sync(&mut world, &rest, &drive).report.unwrap()), @"
    llama: Deleting (0 applied, 2 pruned) DynamoGraphDeployment prod/llama is still being deleted
    other: Synced (1 applied, 0 pruned)
    7 writes
    ");
    assert!(world.records.contains_key("llama"));
    while !world.operate().is_empty() {}
    insta::assert_snapshot!(described(&sync(&mut world, &rest, &Drive::default()).report.unwrap()), @"
    llama: Deleted (0 applied, 0 pruned)
    other: Healthy (0 applied, 0 pruned)
    2 writes
    ");
    settled(&mut world, &rest);
}
