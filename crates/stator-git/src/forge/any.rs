//! Any of the clients, for code that is about none of them.

use super::api::{Comment, CommitStatus, Forge, ForgeError, Limits, NewPullRequest, PullRequest};
use super::{Azure, BitbucketCloud, BitbucketDataCenter, Gitea, Github, Gitlab};

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
    Azure(Azure),
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

impl Forge for AnyForge {
    fn describe(&self) -> String {
        each!(self, forge => forge.describe())
    }

    fn limits(&self) -> Limits {
        each!(self, forge => forge.limits())
    }

    fn shown(&self, commit: &str, status: &CommitStatus) -> CommitStatus {
        each!(self, forge => forge.shown(commit, status))
    }

    async fn set_status(&self, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        each!(self, forge => forge.set_status(commit, status).await)
    }

    async fn statuses(&self, commit: &str, prefix: &str) -> Result<Vec<CommitStatus>, ForgeError> {
        each!(self, forge => forge.statuses(commit, prefix).await)
    }

    async fn open_pull_requests(&self, base: &str) -> Result<Vec<PullRequest>, ForgeError> {
        each!(self, forge => forge.open_pull_requests(base).await)
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequest, ForgeError> {
        each!(self, forge => forge.pull_request(number).await)
    }

    async fn own_comments(&self, number: u64) -> Result<Vec<Comment>, ForgeError> {
        each!(self, forge => forge.own_comments(number).await)
    }

    async fn add_comment(&self, number: u64, body: &str) -> Result<Comment, ForgeError> {
        each!(self, forge => forge.add_comment(number, body).await)
    }

    async fn edit_comment(&self, number: u64, comment: &Comment, body: &str) -> Result<Comment, ForgeError> {
        each!(self, forge => forge.edit_comment(number, comment, body).await)
    }

    async fn add_pull_request(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        each!(self, forge => forge.add_pull_request(new).await)
    }
}
