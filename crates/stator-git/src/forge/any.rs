//! Any of the clients, for code that is about none of them.

use super::api::{
    CommitStatus, ForgeApi, ForgeError, ForgeLimits, NewPullRequest, PullRequest, PullRequestComment, Registered,
    Registration,
};
use super::azure::AzureDevOps;
use super::bitbucket_cloud::BitbucketCloud;
use super::bitbucket_data_center::BitbucketDataCenter;
use super::github_family::{Gitea, Github};
use super::gitlab::Gitlab;
use super::repository_client::{EntryChange, HostRegistration, RepositoryClient};
use http::Method;
use secrecy::ExposeSecret as _;
use serde_json::json;

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

impl AnyForge {
    /// Registers something. A webhook of the same address gets the new secret.
    ///
    /// # Errors
    /// Whatever the host answers; mostly that the token may not administer the repository.
    pub async fn register(&self, what: &Registration) -> Result<Registered, ForgeError> {
        let host = match what {
            Registration::Webhook { url, secret } => webhook(&self.0, url, secret.expose_secret()),
            Registration::DeployKey { title, public } => deploy_key(&self.0, title, public),
        };
        let Some(host) = host else { return Ok(Registered::Unsupported) };
        each!(self, forge => forge.register(&host).await)
    }
}

/// A webhook as the documentation of a host's API has it; `None` where the host has none for a repository.
fn webhook(forge: &ConnectedForge, url: &str, secret: &str) -> Option<HostRegistration> {
    let registration = |path, method, pointer, body| {
        let change = EntryChange { method, address: (pointer, url.to_owned()), id: "/id" };
        Some(HostRegistration { path, body, change: Some(change) })
    };
    let config = json!({"url": url, "content_type": "json", "secret": secret});
    match forge {
        ConnectedForge::Github(_) => {
            let body = json!({"name": "web", "active": true, "events": ["push", "pull_request"], "config": config});
            registration(&["hooks"], Method::PATCH, "/config/url", body)
        }
        ConnectedForge::Gitea(_) => {
            let events = ["push", "create", "pull_request", "pull_request_sync"];
            let body = json!({"type": "gitea", "active": true, "events": events, "config": config});
            registration(&["hooks"], Method::PATCH, "/config/url", body)
        }
        ConnectedForge::Gitlab(_) => {
            let body = json!({
                "url": url, "token": secret,
                "push_events": true, "tag_push_events": true, "merge_requests_events": true,
            });
            registration(&["hooks"], Method::PUT, "/url", body)
        }
        ConnectedForge::BitbucketCloud(_) => {
            let events = ["repo:push", "pullrequest:created", "pullrequest:updated", "pullrequest:fulfilled"];
            let body = json!({"description": "stator", "url": url, "active": true, "secret": secret, "events": events});
            let change = EntryChange { method: Method::PUT, address: ("/url", url.to_owned()), id: "/uuid" };
            Some(HostRegistration { path: &["hooks"], body, change: Some(change) })
        }
        ConnectedForge::BitbucketDataCenter(_) => {
            let events = ["repo:refs_changed", "pr:opened", "pr:from_ref_updated", "pr:merged"];
            let own = json!({"secret": secret});
            let body = json!({"name": "stator", "url": url, "active": true, "events": events, "configuration": own});
            registration(&["webhooks"], Method::PUT, "/url", body)
        }
        // A subscription there is an object of the organization, and of one event.
        ConnectedForge::Azure(_) => None,
    }
}

fn deploy_key(forge: &ConnectedForge, title: &str, public: &str) -> Option<HostRegistration> {
    let registration = |path, body| Some(HostRegistration { path, body, change: None });
    match forge {
        ConnectedForge::Github(_) | ConnectedForge::Gitea(_) => {
            registration(&["keys"], json!({"title": title, "key": public, "read_only": true}))
        }
        ConnectedForge::Gitlab(_) => {
            registration(&["deploy_keys"], json!({"title": title, "key": public, "can_push": false}))
        }
        ConnectedForge::BitbucketCloud(_) => registration(&["deploy-keys"], json!({"label": title, "key": public})),
        // Keys of Data Center are in another API than the rest, and those of Azure belong to people.
        ConnectedForge::BitbucketDataCenter(_) | ConnectedForge::Azure(_) => None,
    }
}
