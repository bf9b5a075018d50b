//! A branch that is moved back, or away from what was applied: row S15 of the security review. Older commits were good once,
//! so that nothing else stands in their way.

use super::asked::Room;
use super::scene::Scene;
use super::{fleet, head, scale};
use stator::controller::sources::manual_requests::{ALLOW, ALLOWED_BY_ANNOTATION};
use stator::controller::sources::registry::SourceState;

/// Waits until a commit is held because of the branch, and gives what would approve it.
async fn is_held(room: &Room, commit: &str) -> String {
    let held = |state: &SourceState| {
        let hold = state.hold.as_ref().filter(|hold| hold.revision == commit);
        !state.is_ready() && hold.is_some_and(|hold| hold.guard_list() == "rollback")
    };
    room.stands(&format!("{commit} is held"), held).await.hold.unwrap().approval_annotation()
}

fn runs(room: &Room, replicas: u32) -> bool {
    room.graph("mock-0").contains(&format!("replicas: {replicas}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_that_goes_back_is_held_until_that_is_approved() {
    let room = Room::of(fleet(1), "").await;
    let first = head(&room.bench);
    room.synced(&first).await;
    let second = scale(&room.bench, 0, 3);
    room.synced(&second).await;

    // An older commit.
    room.bench.reset(&first);
    let approval = is_held(&room, &first).await;
    assert!(approval.starts_with(&format!("rollback@{first}:")), "{approval}");
    assert!(runs(&room, 3));
    // History that is written anew, and what is approved of the older commit is no approval of this one.
    room.ask(&[(ALLOW, &approval.replace(&first, &second))]);
    let third = scale(&room.bench, 0, 4);
    is_held(&room, &third).await;
    assert!(runs(&room, 3));
    // Back where it was, all is well; and on from there, too.
    room.bench.reset(&second);
    room.synced(&second).await;
    let fourth = scale(&room.bench, 0, 5);
    room.synced(&fourth).await;

    // Somebody may mean it.
    room.bench.reset(&first);
    let approval = is_held(&room, &first).await;
    room.ask(&[(ALLOW, &approval), (ALLOWED_BY_ANNOTATION, "alice@example.com")]);
    let state = room.synced(&first).await;
    // S13: the status, the events and the record say who.
    assert_eq!(state.approval.unwrap().by.as_deref(), Some("alice@example.com"));
    assert!(room.told().contains(&"Approved".to_owned()));
    let history = room.bench.run(["history", "mock-0", "--cluster", &room.cluster()]).success().stdout;
    assert_eq!(history.matches("approved rollback by alice@example.com").count(), 1, "{history}");
    room.until("the first is applied", || !runs(&room, 5)).await;
    // From then on that is where it goes on from.
    let fifth = scale(&room.bench, 0, 6);
    room.synced(&fifth).await;
    assert!(runs(&room, 6));
    room.end().await;
}

/// A commit that was undone by a revert is led up to by one that changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_commit_that_changes_nothing_is_no_way_back_either() {
    let room = Room::of(fleet(1), "").await;
    let first = head(&room.bench);
    room.synced(&first).await;
    let before = room.bench.read("models/mock-0/model.yaml");
    let bad = scale(&room.bench, 0, 9);
    room.bench.write("models/mock-0/model.yaml", before);
    let reverted = room.bench.commit("revert");
    room.synced(&reverted).await;
    room.bench.reset(&first);
    is_held(&room, &first).await;
    room.bench.reset(&bad);
    is_held(&room, &bad).await;
    assert!(!runs(&room, 9));
    room.end().await;
}

/// The spec's editor chooses which branch is followed; where that one stands is no way back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_branch_is_followed_from_where_it_is() {
    let mut room = Room::of(fleet(1), "").await;
    let first = head(&room.bench);
    room.synced(&first).await;
    let second = scale(&room.bench, 0, 3);
    room.synced(&second).await;
    room.bench.branch("stable", &first);
    room.follow("stable");
    room.synced(&first).await;
    assert!(!runs(&room, 3));
    room.end().await;
}

/// A controller with a file of sources has no status to read after a restart.
#[test]
fn a_restart_is_no_way_back() {
    let mut scene = Scene::of(fleet(1));
    scene.declare(&scene.source("models", ""));
    scene.start();
    let first = head(&scene.bench);
    scene.synced("models", &first);
    let second = scale(&scene.bench, 0, 3);
    scene.synced("models", &second);
    scene.end();
    scene.bench.reset(&first);
    scene.start();
    scene.hears(&format!(
        "the branch points to {}, which does not descend from the applied commit {}",
        &first[..7],
        &second[..7]
    ));
    assert!(scene.graph("models", "mock-0").contains("replicas: 3"));
    // Who has no object to annotate syncs by hand, and the controller finds nothing left to do.
    let cluster = scene.cluster();
    scene.bench.run(["sync", "--yes", "--cluster", &cluster]).success();
    scene.synced("models", &first);
    scene.end();
}

/// Four eyes: `guards.approvers` people approve the same plan, each by their own name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_people_approve_what_is_held() {
    let room = Room::of(fleet(1), "  guards: {approvers: 2}\n").await;
    let first = head(&room.bench);
    room.synced(&first).await;
    let second = scale(&room.bench, 0, 3);
    room.synced(&second).await;
    room.bench.reset(&first);
    let approval = is_held(&room, &first).await;
    for (by, given) in [("", 0), ("alice", 1), ("alice,alice", 1)] {
        room.ask(&[(ALLOW, &approval), (ALLOWED_BY_ANNOTATION, by)]);
        let said = format!("is by {given} of 2 required approvers");
        room.stands(&said, |state| state.rejected_requests.iter().any(|one| one.contains(&said))).await;
        is_held(&room, &first).await;
    }
    assert!(runs(&room, 3) && room.standing().approval.is_none());
    room.ask(&[(ALLOW, &approval), (ALLOWED_BY_ANNOTATION, "alice,bob")]);
    let state = room.synced(&first).await;
    assert_eq!(state.approval.unwrap().by.as_deref(), Some("alice,bob"));
    assert!(state.rejected_requests.is_empty());
    room.end().await;
}
