//! From a push to the cluster and back to the commit.

use super::stage::{Setting, Stage, model};

#[test]
fn a_push_is_synced_and_its_commit_told() {
    let Some(stage) = Stage::set("push", Setting::DEFAULT) else { return };
    let first = stage.first.clone();
    stage.follow();
    stage.synced(&first);
    assert_eq!(stage.workers("chat"), Some(1));

    stage.bench.write("models/chat/model.yaml", model("chat", 3));
    let second = stage.push("Three workers");
    let delivery = stage.wire.wait_for_push(&second);
    assert_eq!(delivery.answers, [202], "{}", stage.log());
    insta::assert_snapshot!(stage.synced(&second), @"1 model healthy, 1 changed");
    assert_eq!(stage.workers("chat"), Some(3));
    // How often it was told that it is under way depends on the pace; the end is told once.
    let said = stage.said_of(&second);
    assert!(said.lines().rev().skip(1).all(|line| line.starts_with("stator/staging pending: ")), "{said}");

    stage.bench.remove("models/chat");
    stage.bench.write("models/mail/model.yaml", model("mail", 1));
    let third = stage.push("Another model in its place");
    stage.synced(&third);
    assert_eq!((stage.workers("chat"), stage.workers("mail")), (None, Some(1)));
    stage.end();
}

#[test]
fn a_broken_model_fails_its_commit_with_file_and_line_and_the_rest_is_synced() {
    let Some(stage) = Stage::set("broken", Setting::DEFAULT) else { return };
    stage.follow();
    stage.bench.write("models/mail/model.yaml", model("mail", 2));
    stage.bench.replace("models/chat/model.yaml", "replicas: 1\n    worker", "replicas: 1\n    wroker");
    let broken = stage.push("Break one");
    insta::assert_snapshot!(stage.wait_for(&broken, "stator/staging", "failure"), @"models/chat/model.yaml:12: unknown field `wroker` in `spec.serving`");
    // One bad intent never stops another, and is never taken for a removed one.
    assert_eq!((stage.workers("chat"), stage.workers("mail")), (Some(1), Some(2)));

    stage.bench.replace("models/chat/model.yaml", "wroker", "worker");
    let mended = stage.push("Mend it");
    stage.synced(&mended);
    // A commit that was overtaken keeps its verdict.
    assert_eq!(stage.repository.status(&broken, "stator/staging").unwrap().state, "failure");
    stage.end();
}

#[test]
fn commits_in_a_row_each_end_and_the_newest_is_what_runs() {
    // Slow enough that each overtakes the one before it.
    let Some(stage) = Stage::set("row", Setting { speed: 0.1, ..Setting::DEFAULT }) else { return };
    let first = stage.first.clone();
    stage.follow();
    stage.wait_for(&first, "stator/staging", "pending");
    stage.bench.write("models/chat/model.yaml", model("chat", 2));
    let second = stage.push("Two workers");
    stage.wait_for(&second, "stator/staging", "pending");
    stage.bench.write("models/chat/model.yaml", model("chat", 3));
    let third = stage.push("Three workers");
    stage.synced(&third);
    for (old, by) in [(&first, &second), (&second, &third)] {
        let said = stage.wait_for(old, "stator/staging", "success");
        assert_eq!(said, format!("superseded by {}", &by[..7]), "{}", stage.log());
    }
    assert_eq!(stage.workers("chat"), Some(3));
    stage.end();
}

#[test]
fn a_force_push_in_mid_sync_leaves_what_it_pushed_over() {
    let Some(stage) = Stage::set("forced", Setting { speed: 0.1, ..Setting::DEFAULT }) else { return };
    let base = stage.first.clone();
    stage.follow();
    stage.synced(&base);
    stage.bench.write("models/chat/model.yaml", model("chat", 4));
    stage.bench.write("models/mail/model.yaml", model("mail", 1));
    let left = stage.push("Four workers and a mailer");
    stage.wait_for(&left, "stator/staging", "pending");

    // Back to where it was, and on from there.
    stage.bench.reset(&base);
    stage.bench.write("models/chat/model.yaml", model("chat", 2));
    let forced = stage.force_push_it(&stage.bench.commit("Two workers"));
    stage.synced(&forced);
    assert_eq!(stage.wait_for(&left, "stator/staging", "success"), format!("superseded by {}", &forced[..7]));
    assert_eq!((stage.workers("chat"), stage.workers("mail")), (Some(2), None));
    stage.end();
}
