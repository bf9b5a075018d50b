//! What a pull request is told: one comment and one status, for as long as it is open.

use super::stage::{Setting, Stage, model};
use crate::gitea::BOT;
use stator::present::preview::Marker;

/// The comments of ours on a pull request: number and text.
fn ours(stage: &Stage, number: u64) -> Vec<(u64, String)> {
    let comments = stage.repository.comments(number).into_iter();
    comments
        .filter(|one| one.account == BOT && Marker::read(&one.body).is_some())
        .map(|one| (one.id, one.body))
        .collect()
}

/// Waits until the one comment of ours says this of the pull request, and gives its number.
#[track_caller]
fn told(stage: &Stage, number: u64, text: &str) -> u64 {
    stage.until(&format!("the comment says {text:?}"), || {
        let comments = ours(stage, number);
        assert!(comments.len() < 2, "{comments:#?}");
        comments.first().is_some_and(|(_, body)| body.contains(text))
    });
    ours(stage, number)[0].0
}

#[test]
fn a_pull_request_has_one_comment_and_status_from_its_opening_to_its_merge() {
    let Some(stage) = Stage::set("previews", Setting { previews: true, ..Setting::DEFAULT }) else { return };
    let first = stage.first.clone();
    stage.follow();
    stage.synced(&first);

    let push = |workers: u32| {
        stage.bench.write("models/chat/model.yaml", model("chat", workers));
        let commit = stage.bench.commit(&format!("{workers} workers"));
        stage.repository.push(&stage.bench.root(), "change");
        commit
    };
    stage.bench.switch("change");
    let two = push(2);
    let number = stage.repository.open_pull_request("change", "main", "More workers");
    insta::assert_snapshot!(stage.wait_for(&two, "stator/preview/staging", "success"), @"1 of 1 model changes");
    let comment = told(&stage, number, &two[..7]);
    // Somebody else's comment is left alone, also when it says that it is stator's.
    let forged = serde_json::json!({"body": ours(&stage, number)[0].1});
    stage.repository.call("POST", &format!("/issues/{number}/comments"), &forged);

    // The same comment says what the next push would change, and what a broken one breaks.
    let four = push(4);
    stage.wait_for(&four, "stator/preview/staging", "success");
    assert_eq!(told(&stage, number, &four[..7]), comment);
    stage.bench.replace("models/chat/model.yaml", "engine: mocker", "engine: steam");
    let broken = stage.bench.commit("Break it");
    stage.repository.push(&stage.bench.root(), "change");
    let fault = stage.wait_for(&broken, "stator/preview/staging", "failure");
    assert!(fault.starts_with("models/chat/model.yaml:7: "), "{fault}");
    assert_eq!(told(&stage, number, "models/chat/model.yaml:7"), comment);

    // A controller that starts anew finds its comment, and what was pushed without it.
    assert_eq!(stage.ask_to_end(), 0, "{}", stage.log());
    let three = push(3);
    stage.follow();
    stage.wait_for(&three, "stator/preview/staging", "success");
    assert_eq!(told(&stage, number, &three[..7]), comment);

    assert_eq!(stage.repository.comments(number).len(), 2);
    stage.repository.merge(number);
    assert_eq!(told(&stage, number, "merged"), comment);
    let merged = stage.repository.tip("main");
    stage.synced(&stage.noted(&merged));
    assert_eq!(stage.workers("chat"), Some(3));
    stage.end();
}
