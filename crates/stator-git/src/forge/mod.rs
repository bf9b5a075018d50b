//! The git hosts: what they tell stator (webhooks), and what stator tells them (statuses, comments, pull requests).
//!
//! One file a host, each with the few fields that are used as types. What all share is beside them: where the API is
//! (`address`), asking with a deadline and reading to a limit (`client`), and what a refusal means (`refusal`).

mod any;
mod api;
mod azure;
mod bitbucket_cloud;
mod bitbucket_data_center;
mod client;
mod connect;
mod endpoint;
mod gitea;
pub mod github;
mod gitlab;
mod http;
mod issue_comments;
mod pages;
mod push;
mod response_error;
mod status_text;
pub mod webhook;

pub use any::AnyForge;
pub use api::{
    CommitStatus, ForgeApi, ForgeError, ForgeLimits, NewPullRequest, PullRequest, PullRequestComment, PullRequestState,
    RetryAdvice, StatusState,
};
pub use azure::AzureDevOps;
pub use bitbucket_cloud::BitbucketCloud;
pub use bitbucket_data_center::BitbucketDataCenter;
pub use gitea::Gitea;
pub use github::Github;
pub use gitlab::Gitlab;
pub use http::{ForgeExchange, ForgeHttp, ForgeObserver};
pub use push::BranchPusher;

use std::collections::BTreeMap;

/// The statuses whose context begins with `prefix`, the first of each context, sorted.
fn newest_statuses(found: Vec<CommitStatus>, prefix: &str) -> Vec<CommitStatus> {
    let prefix = prefix.to_lowercase();
    let mut by_context: BTreeMap<String, CommitStatus> = BTreeMap::new();
    for mut status in found {
        status.context = status.context.to_lowercase();
        if status.context.starts_with(&prefix) {
            by_context.entry(status.context.clone()).or_insert(status);
        }
    }
    by_context.into_values().collect()
}

/// Open pull requests onto a branch, each once, by number. A list whose end moves while its pages are read names some twice.
fn open_by_number(mut found: Vec<PullRequest>, base: &str) -> Vec<PullRequest> {
    found.retain(|one| one.base == base && one.state == PullRequestState::Open);
    found.sort_by_key(|one| one.number);
    found.dedup_by_key(|one| one.number);
    found
}

/// Comments by age: hosts number them as they come.
fn oldest_first(mut found: Vec<(u64, PullRequestComment)>) -> Vec<PullRequestComment> {
    found.sort_by_key(|(id, _)| *id);
    found.dedup_by_key(|(id, _)| *id);
    found.into_iter().map(|(_, comment)| comment).collect()
}

/// A commit in a message.
fn describe_commit(commit: &str) -> String {
    format!("commit {}", commit.get(..12).unwrap_or(commit))
}

/// A pull request in a message.
fn describe_pull_request(number: u64) -> String {
    format!("pull request {number}")
}
