//! The git hosts: what they tell stator (webhooks), and what stator tells them (statuses, comments, pull requests).
//!
//! One file a host, each with what its API has of its own. What all share is beside them: what is asked and in which order
//! (`repository_client`), where the API is (`endpoint`), how a client proves who it is (`auth`), asking with a deadline
//! (`client`), reading lists to their end (`pages`), and what an answer or a refusal means (`response`).

mod any;
mod api;
mod auth;
mod azure;
mod bitbucket_cloud;
mod bitbucket_data_center;
mod client;
mod connect;
mod endpoint;
pub mod github_app;
mod github_family;
mod gitlab;
mod http;
mod pages;
mod push;
mod repository_client;
mod response;
mod status_text;
pub mod webhook;

pub use any::AnyForge;
pub use api::{
    CommitStatus, ForgeApi, ForgeError, ForgeLimits, NewPullRequest, PullRequest, PullRequestComment, PullRequestState,
    Registered, Registration, RetryAdvice, StatusState,
};
pub use endpoint::commit_page;
pub use http::{ForgeExchange, ForgeHttp, ForgeObserver};
pub use push::BranchPusher;
