//! GitLab's state machine: what it refuses, and what that is no reason to worry about.

use super::status;
use crate::forge_fake::{FakeForgeHost, ForgeFlavor, ForgeReply, PullRequestOrigin, sha};
use stator_git::forge::{ForgeApi as _, ForgeError, RetryAdvice, StatusState};

#[tokio::test]
async fn saying_the_same_again_is_no_fault() {
    let fake = FakeForgeHost::start(ForgeFlavor::Gitlab).await;
    let client = fake.client();
    let running = status("stator/prod", StatusState::Pending, "rendering");
    client.set_status(&sha(1), &running).await.unwrap();
    client.set_status(&sha(1), &running).await.unwrap();
    client.set_status(&sha(1), &status("stator/prod", StatusState::Success, "healthy")).await.unwrap();
    // After the end a new job begins.
    client.set_status(&sha(1), &running).await.unwrap();
    let states: Vec<String> = fake.state().statuses.iter().map(|row| row.state.clone()).collect();
    assert_eq!(states, ["success", "running"]);
    fake.assert_no_faults();
}

#[tokio::test]
async fn a_refused_transition_to_another_state_stays_a_refusal() {
    let fake = FakeForgeHost::start(ForgeFlavor::Gitlab).await;
    let client = fake.client();
    client.set_status(&sha(1), &status("stator/prod", StatusState::Success, "healthy")).await.unwrap();
    fake.next(ForgeReply::message(400, "Cannot transition status via :run from :success"));
    let refused = client.set_status(&sha(1), &status("stator/prod", StatusState::Pending, "again")).await.unwrap_err();
    assert!(matches!(refused, ForgeError::Invalid { .. }), "{refused}");
}

#[tokio::test]
async fn the_commit_of_a_forks_merge_request_is_given_its_branch() {
    let fake = FakeForgeHost::start(ForgeFlavor::Gitlab).await;
    let client = fake.client();
    fake.state().open(4, "A fork's", PullRequestOrigin::Fork);
    fake.state().loose.push(sha(4));
    client.set_status(&sha(4), &status("stator/preview/prod", StatusState::Success, "fine")).await.unwrap();
    assert_eq!(fake.state().statuses[0].on, "change-4");
    // No merge request brings this one, so there is no branch to give.
    fake.state().loose.push(sha(5));
    let wanted = status("stator/preview/prod", StatusState::Success, "fine");
    let refused = client.set_status(&sha(5), &wanted).await.unwrap_err();
    assert!(matches!(refused, ForgeError::NotFound { .. }), "{refused}");
    fake.assert_no_faults();
}

#[tokio::test]
async fn a_lock_is_waited_for() {
    let fake = FakeForgeHost::start(ForgeFlavor::Gitlab).await;
    fake.next(ForgeReply::message(409, "Another update to this commit status is in progress"));
    let wanted = status("stator/prod", StatusState::Success, "fine");
    let refused = fake.client().set_status(&sha(1), &wanted).await.unwrap_err();
    assert_eq!(refused.retry_advice(), RetryAdvice::Soon);
    insta::assert_snapshot!(refused.to_string().replace(&fake.root().replace("http://", ""), "HOST"), @"HOST reports a conflicting change: Another update to this commit status is in progress");
}
