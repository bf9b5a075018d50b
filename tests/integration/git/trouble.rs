//! Gitea goes and comes back, and so does the controller.

use super::stage::{Setting, Stage, model};

#[test]
fn gitea_is_killed_in_mid_sync_and_is_told_when_it_is_back() {
    let Some(stage) = Stage::alone("killed", Setting { speed: 0.1, interval: "2s", ..Setting::DEFAULT }) else {
        return;
    };
    let first = stage.first.clone();
    stage.follow();
    stage.wait_for(&first, "stator/staging", "pending");
    stage.gitea().kill();
    // The sync does not need it.
    stage.until("the model is there", || stage.workers("chat") == Some(1));
    assert_eq!(stage.get("/livez").map(|(code, _)| code), Some(200));
    stage.gitea().restart();
    stage.synced(&first);

    stage.bench.write("models/chat/model.yaml", model("chat", 2));
    let second = stage.push("Two workers");
    stage.synced(&second);
    stage.end();
}

#[test]
fn a_controller_that_was_killed_mends_what_it_left_behind() {
    let Some(stage) = Stage::set("mends", Setting { speed: 0.1, ..Setting::DEFAULT }) else { return };
    let first = stage.first.clone();
    stage.follow();
    stage.wait_for(&first, "stator/staging", "pending");
    stage.kill();
    stage.bench.write("models/chat/model.yaml", model("chat", 2));
    let second = stage.push("Two workers");
    stage.follow();
    stage.synced(&second);
    assert_eq!(stage.wait_for(&first, "stator/staging", "success"), format!("superseded by {}", &second[..7]));

    // Nothing to mend: nothing is posted.
    let said = stage.said_of(&second);
    assert_eq!(stage.ask_to_end(), 0, "{}", stage.log());
    stage.follow();
    stage.bench.write("models/chat/model.yaml", model("chat", 3));
    let third = stage.push("Three workers");
    stage.synced(&third);
    assert_eq!(stage.said_of(&second), said, "{}", stage.log());
    stage.end();
}

#[test]
fn what_was_left_pending_is_told_however_much_came_since_and_whoever_goes_on() {
    let Some(stage) = Stage::set("left", Setting { speed: 0.1, ..Setting::DEFAULT }) else { return };
    let first = stage.first.clone();
    stage.follow();
    stage.wait_for(&first, "stator/staging", "pending");
    stage.kill();
    // Another replica goes on, without the mirror of this one.
    stage.lose_the_mirror();
    for workers in 2..6 {
        stage.bench.write("models/chat/model.yaml", model("chat", workers));
        stage.push(&format!("{workers} workers"));
    }
    stage.bench.write("models/chat/model.yaml", model("chat", 6));
    let last = stage.push("Six workers");
    stage.follow();
    assert_eq!(stage.wait_for(&first, "stator/staging", "success"), format!("superseded by {}", &last[..7]));
    stage.synced(&last);
    stage.end();
}

#[test]
fn it_ends_between_writes_when_it_is_asked_to_in_mid_sync() {
    let Some(stage) = Stage::set("asked", Setting { speed: 0.1, ..Setting::DEFAULT }) else { return };
    let first = stage.first.clone();
    stage.follow();
    stage.wait_for(&first, "stator/staging", "pending");
    assert_eq!(stage.ask_to_end(), 0, "{}", stage.log());
    let statuses = stage.repository.statuses(&first);
    assert!(statuses.iter().all(|status| status.state == "pending"), "it was through before it ended: {statuses:?}");
    stage.follow();
    stage.synced(&first);
    stage.end();
}

#[test]
fn a_commit_without_a_signature_is_refused_under_the_name_that_the_repository_has() {
    let Some(stage) = Stage::set("unsigned", Setting { verify: true, ..Setting::DEFAULT }) else { return };
    let first = stage.first.clone();
    stage.follow();
    let refused = stage.wait_for(&first, "stator/staging", "failure");
    assert!(refused.starts_with("signature refused: "), "{refused}");
    assert!(stage.repository.statuses(&first).iter().all(|status| status.context == "stator/staging"));
    assert_eq!(stage.workers("chat"), None);
}
