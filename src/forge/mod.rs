//! The git hosts: what they tell stator (webhooks), and what stator tells them (statuses, comments, pull requests).

mod api;
pub mod webhook;

pub use api::{
    Comment, CommitStatus, Forge, ForgeError, Limits, NewPullRequest, PullRequest, PullRequestState, Retry, StatusState,
};
