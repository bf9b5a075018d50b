//! A source with a model whose graph is replaced, the new one first.

use super::asked::Room;
use super::fleet;
use stator::controller::sources::manual_requests::{ALLOW, REQUESTED_AT_ANNOTATION};
use stator::controller::sources::registry::SourcePhase;
use stator_model::plan::alternate_graph_name;

/// The commit is held with the new address to come, an approval carries it to its end, and from then on the controller looks
/// after the graph under its other name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graph_is_replaced_new_first_once_that_is_approved() {
    let bench = fleet(3);
    let path = "models/mock-0/model.yaml";
    bench.replace(path, "  serving:", "  rollout: {replace: new-first}\n  serving:");
    let room = Room::of(bench, "").await;
    let second = alternate_graph_name("mock-0");
    room.stands("it is synced", |standing| standing.is_ready() && standing.phase == SourcePhase::Idle).await;
    let first = room.graph("mock-0");
    room.bench.replace(path, "    worker:", "    prefill: {replicas: 1}\n    decode:");
    let commit = room.bench.commit("apart");
    let standing =
        room.stands("it is held", |standing| standing.hold.is_some() && standing.phase == SourcePhase::Idle).await;
    let problem = standing.problem().unwrap().to_string();
    insta::assert_snapshot!(problem.replace(&commit, "<commit>").replace(&standing.hold.as_ref().unwrap().plan, "<plan>"), @"held back (replace): Dynamo forbids these changes in place; to be replaced by a graph with another address: DynamoGraphDeployment models/mock-0 (then Service `mock-0-74986-frontend`); check that this is intended, then run `stator sync --source models -n default --allow replace`, or annotate the source with stator.dev/allow=replace@<commit>:<plan>");
    assert_eq!((room.graph("mock-0"), room.graphs()), (first, 3));

    let held = standing.hold.clone().unwrap();
    room.ask(&[(ALLOW, &held.approval_annotation()), (REQUESTED_AT_ANNOTATION, "now")]);
    room.synced(&commit).await;
    assert_eq!((room.graph("mock-0").as_str(), room.graphs()), ("", 3));
    assert!(room.graph(&second).contains("prefill"));
    assert_eq!(room.conditions("mock-0"), ["Ready=True", "Reconciling=False", "Stalled=False"]);
    room.is_settled();

    room.delete(&second);
    room.until("it is created again where it was", || !room.graph(&second).is_empty()).await;
    assert_eq!(room.graph("mock-0"), "");
    room.stands("it is healthy again", |standing| standing.is_ready() && standing.phase == SourcePhase::Idle).await;
    room.is_settled();
    room.end().await;
}
