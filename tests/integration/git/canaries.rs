//! Tokens of every known form in a repository on a git host: no status and no comment holds one.

use super::stage::{Setting, Stage, model};
use crate::canaries::{assert_no_canary, write_canaries, write_refused_canaries};
use crate::gitea::GiteaStatus;

/// Everything that the host was told of a commit.
fn statuses(stage: &Stage, commit: &str) -> String {
    let rows: Vec<GiteaStatus> = stage.repository.statuses(commit);
    assert!(!rows.is_empty(), "{commit}");
    format!("{rows:#?}")
}

fn comment(stage: &Stage, number: u64, text: &str) -> String {
    stage.until(&format!("the comment says {text}"), || {
        stage.own_comments(number).iter().any(|comment| comment.body.contains(text))
    });
    stage.own_comments(number).into_iter().map(|comment| comment.body).collect()
}

#[test]
fn statuses_and_comments_hold_no_token() {
    let Some(stage) = Stage::set("canaries", Setting { previews: true, ..Setting::DEFAULT }) else { return };
    stage.follow();
    stage.synced(&stage.first);
    let plain = model("mock", 2);
    write_canaries(&stage.bench, "models/mock", &plain, 0);
    let first = stage.push("Tokens everywhere");
    stage.synced(&first);
    assert_no_canary(&statuses(&stage, &first), "the statuses of a commit");

    // A pull request that changes each of them, and one whose models are refused for theirs.
    stage.bench.switch("change");
    write_canaries(&stage.bench, "models/mock", &plain, 1);
    let changed = stage.push_branch("change", "Other tokens");
    let number = stage.propose("change", "Other tokens");
    stage.wait_for(&changed, "stator/preview/staging", "success");
    assert_no_canary(&comment(&stage, number, "update `DynamoGraphDeployment mock`"), "the comment on a change");
    assert_no_canary(&statuses(&stage, &changed), "the statuses of a change");
    write_refused_canaries(&stage.bench, "models/refused", &plain);
    let refused = stage.push_branch("change", "Models that are refused");
    stage.wait_for(&refused, "stator/preview/staging", "failure");
    assert_no_canary(&comment(&stage, number, "models/refused-0"), "the comment on a refused change");
    assert_no_canary(&statuses(&stage, &refused), "the statuses of a refused change");

    // The same on the branch that is synced.
    stage.bench.switch("main");
    stage.bench.reset(&refused);
    stage.push_it(&refused);
    stage.wait_for(&refused, "stator/staging", "failure");
    assert_no_canary(&statuses(&stage, &refused), "the statuses of a refused commit");
    for path in ["/metrics", "/readyz", "/livez"] {
        assert_no_canary(&stage.get(path).unwrap().1, path);
    }
    assert_no_canary(&stage.log(), "the log");
}
