//! Replacing a graph. New-first: the new one comes up under another name, and the old one goes once it is Healthy.
//! Old-first: nothing goes in whose place nothing can come.

use super::drive::{Drive, settings, settled, sync};
use super::stories::{described, run};
use super::world::{Fault, World, git, reference};
use stator_core::dynamo::kinds::{ADAPTER, CLAIM, GRAPH, ObjectKind};
use std::collections::VecDeque;

const TOGETHER: &[(ObjectKind, &str, u64)] = &[(GRAPH, "llama", 1), (ADAPTER, "sql", 1)];
const APART: &[(ObjectKind, &str, u64)] = &[(GRAPH, "llama", 501), (ADAPTER, "sql", 1)];

fn writes_since(world: &World, from: usize) -> String {
    world.writes[from..].join("\n")
}

#[test]
fn a_graph_that_is_replaced_new_first_goes_once_the_new_one_and_the_adapters_are_healthy() {
    let mut world = World::operated();
    run(&mut world, &git(&[("llama", TOGETHER)]));
    let (from, git) = (world.writes.len(), git(&[("llama", APART)]));
    insta::assert_snapshot!(run(&mut world, &git), @"
    llama: Healthy (1 applied, 1 pruned)
    6 writes
    ");
    insta::assert_snapshot!(writes_since(&world, from), @"
    journal
    apply DynamoGraphDeployment prod/llama-second as stator
    record llama
    end of the journal
    delete DynamoGraphDeployment prod/llama
    record llama
    ");
    insta::assert_snapshot!(world.records["llama"].history[0].changes.join("\n"), @"
    replace DynamoGraphDeployment prod/llama (none)
    delete DynamoGraphDeployment prod/llama (delete)
    ");
    settled(&mut world, &git);
}

#[test]
fn a_new_graph_that_never_comes_up_leaves_the_old_one_serving() {
    let mut world = World::operated();
    run(&mut world, &git(&[("llama", TOGETHER)]));
    world.operator = false;
    let (from, git) = (world.writes.len(), git(&[("llama", APART)]));
    insta::assert_snapshot!(run(&mut world, &git), @"
    llama: Failed (1 applied, 0 pruned) no progress for 30m: DynamoGraphDeployment prod/llama-second: the operator has not observed it yet; DynamoGraphDeployment prod/llama keeps serving, because DynamoGraphDeployment prod/llama-second is not Healthy
    5 writes
    ");
    insta::assert_snapshot!(writes_since(&world, from), @"
    journal
    apply DynamoGraphDeployment prod/llama-second as stator
    record llama
    end of the journal
    record llama
    ");
    // What is in vain again is written down once.
    let from = world.writes.len();
    run(&mut world, &git);
    assert_eq!(writes_since(&world, from), "");
    // The next sync waits for it again, and ends what this one began.
    world.operator = true;
    insta::assert_snapshot!(run(&mut world, &git), @"
    llama: Healthy (0 applied, 1 pruned)
    2 writes
    ");
    settled(&mut world, &git);
}

#[test]
fn a_new_graph_that_the_cluster_refuses_leaves_the_old_one_serving() {
    let mut world = World::operated();
    run(&mut world, &git(&[("llama", TOGETHER)]));
    world.faults.insert(reference(1, "llama-second").identity(), VecDeque::from([Fault::Invalid; 2]));
    let (from, git) = (world.writes.len(), git(&[("llama", APART)]));
    insta::assert_snapshot!(run(&mut world, &git), @"
    llama: Failed (0 applied, 0 pruned) DynamoGraphDeployment prod/llama-second is invalid: ; DynamoGraphDeployment prod/llama keeps serving, because DynamoGraphDeployment prod/llama-second is not Healthy
    3 writes
    ");
    insta::assert_snapshot!(writes_since(&world, from), @"
    journal
    record llama
    end of the journal
    ");
    // What fails alike again is written down once.
    let from = world.writes.len();
    insta::assert_snapshot!(run(&mut world, &git), @"
    llama: Failed (0 applied, 0 pruned) DynamoGraphDeployment prod/llama-second is invalid: ; DynamoGraphDeployment prod/llama keeps serving, because DynamoGraphDeployment prod/llama-second is not Healthy
    0 writes
    ");
    assert_eq!(writes_since(&world, from), "");
    run(&mut world, &git);
    settled(&mut world, &git);
}

#[test]
fn without_wait_the_old_graph_stays_until_the_new_one_is_seen_to_be_healthy() {
    let mut world = World::operated();
    let graph_only = |payload| git(&[("llama", &[(GRAPH, "llama", payload)])]);
    run(&mut world, &graph_only(1));
    let drive = Drive { settings: settings(false), ..Drive::default() };
    world.operator = false;
    insta::assert_snapshot!(described(&sync(&mut world, &graph_only(501), &drive).report.unwrap()), @"
    llama: Deferred (1 applied, 0 pruned) DynamoGraphDeployment prod/llama keeps serving, because DynamoGraphDeployment prod/llama-second is not Healthy yet; run `stator sync --wait`
    4 writes
    ");
    world.operator = true;
    world.operate();
    insta::assert_snapshot!(described(&sync(&mut world, &graph_only(501), &drive).report.unwrap()), @"
    llama: Synced (0 applied, 1 pruned)
    2 writes
    ");
    assert_eq!(world.live.len(), 1);
    // Whether the adapters are loaded on the new workers only a wait tells.
    run(&mut world, &git(&[("llama", APART)]));
    let back = &[(GRAPH, "llama", 601), (ADAPTER, "sql", 1)];
    insta::assert_snapshot!(described(&sync(&mut world, &git(&[("llama", back)]), &drive).report.unwrap()), @"
    llama: Deferred (1 applied, 0 pruned) DynamoGraphDeployment prod/llama-second keeps serving, because DynamoGraphDeployment prod/llama is not Healthy yet; run `stator sync --wait`
    4 writes
    ");
    world.operate();
    insta::assert_snapshot!(described(&sync(&mut world, &git(&[("llama", back)]), &drive).report.unwrap()), @"
    llama: Deferred (0 applied, 0 pruned) DynamoGraphDeployment prod/llama-second keeps serving, because the adapters are not Healthy yet; run `stator sync --wait`
    0 writes
    ");
    insta::assert_snapshot!(run(&mut world, &git(&[("llama", back)])), @"
    llama: Healthy (0 applied, 1 pruned)
    2 writes
    ");
    settled(&mut world, &git(&[("llama", back)]));
}

#[test]
fn a_graph_is_not_deleted_for_its_successor_where_what_that_needs_could_not_be_applied() {
    let mut world = World::operated();
    let model =
        |payload| git(&[("llama", &[(CLAIM, "weights", payload), (GRAPH, "llama", payload), (ADAPTER, "sql", 1)])]);
    run(&mut world, &model(1));
    world.faults.insert(reference(0, "weights").identity(), VecDeque::from([Fault::Invalid]));
    let (from, git) =
        (world.writes.len(), git(&[("llama", &[(CLAIM, "weights", 2), (GRAPH, "llama", 101), (ADAPTER, "sql", 1)])]));
    insta::assert_snapshot!(run(&mut world, &git), @"
    llama: Failed (0 applied, 0 pruned) PersistentVolumeClaim prod/weights is invalid: ; DynamoGraphDeployment prod/llama is skipped for now
    1 writes
    ");
    insta::assert_snapshot!(writes_since(&world, from), @"record llama");
    run(&mut world, &git);
    settled(&mut world, &git);
}

/// Row N3 of the second review: the old name serves until the new one is Healthy, and for ever where it does not get there.
#[test]
fn a_renamed_model_goes_once_its_new_name_is_healthy() {
    let mut world = World::operated();
    world.sources = ["llama", "lama"].map(|name| (name.to_owned(), "chat/model.yaml".to_owned())).into();
    world.renames_wait = true;
    let old = git(&[("llama", &[(GRAPH, "llama", 1), (ADAPTER, "sql", 1)])]);
    sync(&mut world, &old, &Drive::default());
    let new = git(&[("lama", &[(GRAPH, "lama", 1)])]);
    let mut said = Vec::new();
    // The new one never gets Ready.
    world.operator = false;
    for wait in [false, true] {
        let drive = Drive { settings: settings(wait), ..Drive::default() };
        said.push(described(&sync(&mut world, &new, &drive).report.unwrap()));
        assert!(world.live.contains_key(&reference(1, "llama").identity()), "{said:?}");
        assert!(world.records.contains_key("llama"), "{said:?}");
    }
    // A quota refuses it.
    let mut refused = world.clone();
    refused.live.remove(&reference(1, "lama").identity());
    refused.faults.insert(reference(1, "lama").identity(), VecDeque::from([Fault::Invalid]));
    said.push(described(&sync(&mut refused, &new, &Drive::default()).report.unwrap()));
    assert!(refused.live.contains_key(&reference(1, "llama").identity()), "{said:?}");
    world.operator = true;
    said.push(described(&sync(&mut world, &new, &Drive::default()).report.unwrap()));
    insta::assert_snapshot!(said.join("\n"), @"
    lama: Synced (1 applied, 0 pruned)
    llama: Deferred (0 applied, 0 pruned) DynamoGraphDeployment prod/llama keeps serving, because DynamoGraphDeployment prod/lama is not Healthy yet; run `stator sync --wait`; DynamoModel prod/sql stays, because DynamoGraphDeployment prod/lama is not Healthy yet; run `stator sync --wait`
    4 writes

    lama: Failed (0 applied, 0 pruned) no progress for 30m: DynamoGraphDeployment prod/lama: the operator has not observed it yet
    llama: Failed (0 applied, 0 pruned) no progress for 30m: DynamoGraphDeployment prod/lama: the operator has not observed it yet; DynamoGraphDeployment prod/llama keeps serving, because DynamoGraphDeployment prod/lama is not Healthy; DynamoModel prod/sql stays, because DynamoGraphDeployment prod/lama is not Healthy
    2 writes

    lama: Failed (0 applied, 0 pruned) DynamoGraphDeployment prod/lama is invalid:
    llama: Blocked (0 applied, 0 pruned) 2 deletions are held back, because model lama, which takes its place, could not be applied
    1 writes

    lama: Healthy (0 applied, 0 pruned)
    llama: Deleted (0 applied, 2 pruned)
    4 writes
    ");
    settled(&mut world, &new);
    assert!(!world.records.contains_key("llama"));
}
