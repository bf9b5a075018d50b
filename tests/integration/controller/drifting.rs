//! Drift of several objects, one after the other, and drift that comes back however often it is put right.

use super::asked::Room;
use super::{fleet, head, scale};
use stator::controller::sources::registry::{ProblemReason, SourcePhase};

/// Row E3 of the review: a second drift within minutes of a first waited, also of another model.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_model_after_the_other_is_put_back_while_one_that_drifts_all_the_time_waits() {
    let room = Room::of(fleet(4), "").await;
    room.synced(&head(&room.bench)).await;
    // Its pauses are half a second, a second, two and four by now, or up to twice that.
    for round in 0..4 {
        room.delete("mock-0");
        room.until(&format!("it is made again, round {round}"), || !room.graph("mock-0").is_empty()).await;
        room.stands("it is well", |state| state.is_ready() && state.phase == SourcePhase::Idle).await;
    }
    room.delete("mock-0");
    for name in ["mock-1", "mock-2", "mock-3"] {
        room.edit(name, "replicas: 2", "replicas: 7");
        room.until(&format!("{name} is put back"), || room.graph(name).contains("replicas: 2")).await;
        room.stands("it is well", |state| state.counts.drifted == 1 && state.phase == SourcePhase::Idle).await;
        assert_eq!(room.graph("mock-0"), "", "{name} was put back after mock-0 was, and not before");
    }
    room.until("it is made again after its pause", || !room.graph("mock-0").is_empty()).await;
    room.stands("all is well", |state| state.is_ready() && state.counts.drifted == 0).await;
    room.is_settled();
    room.end().await;
}

/// Row E3: what is put back may take long to become healthy again, and nobody waits for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_is_put_back_while_another_model_is_not_healthy_yet() {
    let mut room = Room::of(fleet(10), "").await;
    room.synced(&head(&room.bench)).await;
    room.end_operator();
    for number in 0..10 {
        let name = format!("mock-{number}");
        room.edit(&name, "replicas: 2", "replicas: 7");
        room.until(&format!("{name} is put back"), || room.graph(&name).contains("replicas: 2")).await;
        assert_ne!(room.standing().phase, SourcePhase::Idle, "nothing is healthy again");
    }
    room.end().await;
}

/// Row C4 of the review: after a repair of the last good commit the record stayed Ready=False, and a model whose file broke
/// was rewritten so while it ran well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_whose_file_broke_is_ready_as_long_as_it_runs_well() {
    let room = Room::of(fleet(2), "").await;
    room.synced(&head(&room.bench)).await;
    room.until("it is ready", || room.conditions("mock-0") == ["Ready=True", "Reconciling=False", "Stalled=False"])
        .await;
    room.bench.replace("models/mock-0/model.yaml", "engine: mocker", "engine: steam");
    let broken = room.bench.commit("break it");
    room.stands("it is judged", |state| {
        state.verdict.as_ref().is_some_and(|verdict| verdict.revision == broken) && state.phase == SourcePhase::Idle
    })
    .await;
    let faulty = ["FilesInvalid=True", "Ready=True", "Reconciling=False", "Stalled=False"];
    assert_eq!(room.conditions("mock-0"), faulty);
    room.edit("mock-0", "replicas: 2", "replicas: 7");
    room.until("it is put back", || room.graph("mock-0").contains("replicas: 2")).await;
    room.stands("it is told", |state| state.counts.drifted == 0 && state.phase == SourcePhase::Idle).await;
    room.until("it is ready again", || room.conditions("mock-0") == faulty).await;
    room.bench.replace("models/mock-0/model.yaml", "engine: steam", "engine: mocker");
    let mended = room.bench.commit("mend it");
    room.synced(&mended).await;
    assert_eq!(room.conditions("mock-0"), ["Ready=True", "Reconciling=False", "Stalled=False"]);
    room.end().await;
}

/// Row A5 of the review, its last sentence, and row N5 of the second one: a repair that one writer undoes at once, each time, is
/// told by name and not fought.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_that_comes_back_at_once_is_reported_and_not_fought() {
    let room = Room::of(fleet(2), "").await;
    let first = head(&room.bench);
    room.synced(&first).await;
    // A machine that is busy may take longer than "at once"; the writer goes on until it is taken for what it is.
    let fights = async {
        loop {
            room.until("it is put back", || room.graph("mock-0").contains("replicas: 2")).await;
            room.edit("mock-0", "replicas: 2", "replicas: 7");
        }
    };
    let is_told = room.stands("it is reported", |state| {
        state.problem().is_some_and(|problem| problem.reason == ProblemReason::Blocked)
            && state.phase == SourcePhase::Idle
    });
    let state = tokio::select! {
        () = fights => unreachable!("it fights for ever"),
        state = is_told => state,
    };
    assert_eq!((state.counts.drifted, state.is_ready()), (1, false));
    insta::assert_snapshot!(state.problem().unwrap().message, @"held back (blocked): mock-0: DynamoGraphDeployment models/mock-0: spec.components[name=worker].replicas: every repair is reverted, and managedFields names no writer (a webhook?), so stator stopped repairing it; stop the w…");
    let is_told = |reason: &str| room.told().iter().any(|told| told == reason);
    room.until("it is told", || is_told("Drifted") && is_told("Blocked")).await;
    // Others are put back as ever, and what is left is tried again after a while: nobody undoes it any more.
    room.edit("mock-1", "replicas: 2", "replicas: 7");
    room.until("the other is put back", || room.graph("mock-1").contains("replicas: 2")).await;
    room.until("it is tried again", || room.graph("mock-0").contains("replicas: 2")).await;
    room.stands("it is well again", |state| state.is_ready() && state.counts.drifted == 0).await;
    room.edit("mock-0", "replicas: 2", "replicas: 7");
    // The next commit puts it back.
    let second = scale(&room.bench, 1, 4);
    room.synced(&second).await;
    room.until("it is put back", || room.graph("mock-0").contains("replicas: 2")).await;
    room.is_settled();
    room.end().await;
}
