//! Any of the clients, for code that is about none of them.

use super::api::{CommitStatus, ForgeApi, ForgeError, ForgeLimits, NewPullRequest, PullRequest, PullRequestComment};
use super::azure::AzureDevOps;
use super::bitbucket_cloud::BitbucketCloud;
use super::bitbucket_data_center::BitbucketDataCenter;
use super::github_family::{Gitea, Github};
use super::gitlab::Gitlab;
use super::repository_client::RepositoryClient;

/// A git host of any make. Made with [`AnyForge::connect`].
pub struct AnyForge(pub(super) ConnectedForge);

/// The clients, one a make.
pub(super) enum ConnectedForge {
    Github(RepositoryClient<Github>),
    Gitlab(RepositoryClient<Gitlab>),
    Gitea(RepositoryClient<Gitea>),
    BitbucketCloud(RepositoryClient<BitbucketCloud>),
    BitbucketDataCenter(RepositoryClient<BitbucketDataCenter>),
    Azure(RepositoryClient<AzureDevOps>),
}

macro_rules! each {
    ($any:expr, $forge:ident => $call:expr) => {
        match &$any.0 {
            ConnectedForge::Github($forge) => $call,
            ConnectedForge::Gitlab($forge) => $call,
            ConnectedForge::Gitea($forge) => $call,
            ConnectedForge::BitbucketCloud($forge) => $call,
            ConnectedForge::BitbucketDataCenter($forge) => $call,
            ConnectedForge::Azure($forge) => $call,
        }
    };
}

impl ForgeApi for AnyForge {
    fn describe(&self) -> String {
        each!(self, forge => forge.describe())
    }

    fn limits(&self) -> ForgeLimits {
        each!(self, forge => forge.limits())
    }

    fn normalize_status(&self, commit: &str, status: &CommitStatus) -> CommitStatus {
        each!(self, forge => forge.normalize_status(commit, status))
    }

    async fn set_status(&self, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        each!(self, forge => forge.set_status(commit, status).await)
    }

    async fn list_statuses(&self, commit: &str, prefix: &str) -> Result<Vec<CommitStatus>, ForgeError> {
        each!(self, forge => forge.list_statuses(commit, prefix).await)
    }

    async fn list_open_pull_requests(&self, base: &str) -> Result<Vec<PullRequest>, ForgeError> {
        each!(self, forge => forge.list_open_pull_requests(base).await)
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequest, ForgeError> {
        each!(self, forge => forge.pull_request(number).await)
    }

    async fn list_own_comments(&self, number: u64) -> Result<Vec<PullRequestComment>, ForgeError> {
        each!(self, forge => forge.list_own_comments(number).await)
    }

    async fn create_comment(&self, number: u64, body: &str) -> Result<PullRequestComment, ForgeError> {
        each!(self, forge => forge.create_comment(number, body).await)
    }

    async fn update_comment(
        &self,
        number: u64,
        comment: &PullRequestComment,
        body: &str,
    ) -> Result<PullRequestComment, ForgeError> {
        each!(self, forge => forge.update_comment(number, comment, body).await)
    }

    async fn create_pull_request(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        each!(self, forge => forge.create_pull_request(new).await)
    }
}
