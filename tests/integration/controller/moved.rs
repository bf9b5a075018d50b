//! A source whose models somebody else takes, and takes back.

use super::asked::Room;
use super::{fleet, head};
use stator::controller::sources::manual_requests::{ALLOW, REQUESTED_AT_ANNOTATION};
use stator::controller::sources::registry::SourcePhase;
use stator::controller::sources::sync_windows::WindowClock;

/// Row B4 of the review, for a controller: what another repository has taken is not written over, the commit is held with
/// the owner's name, and an approval of the move takes it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_repository_takes_is_held_until_the_move_is_approved() {
    let room = Room::at(WindowClock::default(), fleet(1), "").await;
    let commit = head(&room.bench);
    room.synced(&commit).await;
    // The command line in the repository that the source follows is the same.
    room.is_settled();
    let (stranger, cluster) = (fleet(1), room.cluster());
    stranger.run(["sync", "--yes", "--cluster", &cluster]).exits(1);
    room.is_settled();
    stranger.run(["sync", "--yes", "--allow", "move", "--cluster", &cluster]).success();
    let taken = room.graph("mock-0");
    let standing =
        room.stands("it is held", |standing| standing.hold.is_some() && standing.phase == SourcePhase::Idle).await;
    let problem = standing.problem().unwrap().to_string();
    insta::assert_snapshot!(problem.replace(&commit, "<commit>").replace(&standing.hold.as_ref().unwrap().plan, "<plan>"), @"held back (move): belongs to another source; would be taken over: DynamoGraphDeployment models/mock-0; check that this is intended, then run `stator sync --source models -n default --allow move`, or annotate the source with stator.dev/allow=move@<commit>:<plan>");
    assert_eq!(room.graph("mock-0"), taken, "nothing is written");
    let held = standing.hold.clone().unwrap();
    room.ask(&[(ALLOW, &held.approval_annotation()), (REQUESTED_AT_ANNOTATION, "now")]);
    room.synced(&commit).await;
    room.is_settled();
    stranger.run(["plan", "--exit-code", "--cluster", &cluster]).exits(1);
    room.end().await;
}
