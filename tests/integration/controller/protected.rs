//! What a commit must not do to a source that runs, though its files read like a removal.

use super::asked::Room;
use super::{fleet, head};
use stator::controller::sources::registry::SourceState;
use stator::controller::sources::sync_windows::WindowClock;

/// Waits until the commit has its verdict, which is no success and says this.
async fn refuses(room: &Room, commit: &str, why: &str) {
    let says = |state: &SourceState| {
        let seen = state.attempted.as_ref().is_some_and(|attempted| attempted.commit == commit);
        seen && !state.is_ready() && state.problem().is_some_and(|problem| problem.to_string().contains(why))
    };
    room.stands(why, says).await;
    assert_eq!(room.graphs(), 2);
}

/// Rows B3, C2 and E5 of the review: each of these commits was green.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_only_looks_like_a_removal_is_no_success() {
    let room = Room::at(WindowClock::default(), fleet(2), "").await;
    room.synced(&head(&room.bench)).await;
    let model = room.bench.read("models/mock-1/model.yaml");
    // B3: a link in place of the folder, and a file of nearly the right name.
    room.bench.remove("models/mock-1");
    std::os::unix::fs::symlink("../elsewhere", room.bench.path("models/mock-1")).unwrap();
    let commit = room.bench.commit("a link");
    refuses(&room, &commit, "model mock-1 is not pruned: models/mock-1 is a symbolic link").await;
    fs_err::remove_file(room.bench.path("models/mock-1")).unwrap();
    room.bench.write("models/mock-1/model.yml", &model);
    let commit = room.bench.commit("another name");
    refuses(&room, &commit, "model mock-1 is not pruned: models/mock-1/model.yml is not read").await;
    room.bench.remove("models/mock-1/model.yml");
    room.bench.write("models/mock-1/model.yaml", &model);
    room.synced(&room.bench.commit("as it was")).await;
    // E5: the root file goes.
    let root = room.bench.read("stator.yaml");
    room.bench.remove("stator.yaml");
    let commit = room.bench.commit("no settings");
    refuses(&room, &commit, "there is no stator.yaml here").await;
    assert!(!room.has_namespace("default"));
    room.bench.write("stator.yaml", &root);
    room.synced(&room.bench.commit("as it was, again")).await;
    // C2: nobody knows any more who made what is left.
    room.remove_record("mock-1");
    room.bench.remove("models/mock-1");
    let commit = room.bench.commit("remove");
    refuses(&room, &commit, "no record shows that stator created it").await;
    room.bench.write("models/mock-1/model.yaml", &model);
    room.synced(&room.bench.commit("keep")).await;
    room.is_settled();
    room.end().await;
}
