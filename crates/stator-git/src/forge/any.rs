//! Any of the clients, for code that is about none of them.

use super::api::{CommitStatus, ForgeApi, ForgeError, ForgeLimits, NewPullRequest, PullRequest, PullRequestComment};
use super::{AzureDevOps, BitbucketCloud, BitbucketDataCenter, Gitea, Github, Gitlab};

/// A git host of any make. Made with [`AnyForge::connect`].
pub enum AnyForge {
    /// GitHub.
    Github(Github),
    /// GitLab.
    Gitlab(Gitlab),
    /// Gitea or Forgejo.
    Gitea(Gitea),
    /// Bitbucket Cloud.
    BitbucketCloud(BitbucketCloud),
    /// Bitbucket Data Center.
    BitbucketDataCenter(BitbucketDataCenter),
    /// Azure DevOps.
    Azure(AzureDevOps),
}

macro_rules! each {
    ($any:expr, $forge:ident => $call:expr) => {
        match $any {
            AnyForge::Github($forge) => $call,
            AnyForge::Gitlab($forge) => $call,
            AnyForge::Gitea($forge) => $call,
            AnyForge::BitbucketCloud($forge) => $call,
            AnyForge::BitbucketDataCenter($forge) => $call,
            AnyForge::Azure($forge) => $call,
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
