//! What a repository needs at its host before a source follows it: a webhook, and a key that may read it.

use super::any::ConnectedForge;
use super::{AnyForge, ForgeError};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

/// What is registered.
#[derive(Clone, Debug)]
pub enum Registration {
    /// A webhook for pushes and pull requests.
    Webhook {
        /// Where the host calls.
        url: String,
        /// What it signs its calls with.
        secret: SecretString,
    },
    /// A key that may read the repository over SSH.
    DeployKey {
        /// What people see of it.
        title: String,
        /// The public half, as OpenSSH writes it.
        public: String,
    },
}

/// How a registration ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    /// It is there, in the place of an older one of the same address or title.
    Done,
    /// stator cannot register it at a host of this type.
    Unsupported,
}

/// A registration as one make of host takes it.
pub(super) struct HostRegistration {
    /// Its list, below the repository.
    pub path: &'static [&'static str],
    /// What is added to the list.
    pub body: Value,
    /// Which member of an entry says that it is replaced, as a JSON pointer, and what it says.
    pub identity: (&'static str, String),
    /// What names an entry below the list, as a JSON pointer.
    pub id: &'static str,
}

impl AnyForge {
    /// Registers something, in the place of what was registered for the same before: its secret is a new one.
    ///
    /// # Errors
    /// Whatever the host answers; mostly that the token may not administer the repository.
    pub async fn register(&self, what: &Registration) -> Result<Registered, ForgeError> {
        let Some(host) = what.at_host(&self.0) else { return Ok(Registered::Unsupported) };
        match &self.0 {
            ConnectedForge::Github(forge) => forge.register(&host).await,
            ConnectedForge::Gitlab(forge) => forge.register(&host).await,
            ConnectedForge::Gitea(forge) => forge.register(&host).await,
            ConnectedForge::BitbucketCloud(forge) => forge.register(&host).await,
            ConnectedForge::BitbucketDataCenter(forge) => forge.register(&host).await,
            ConnectedForge::Azure(forge) => forge.register(&host).await,
        }
    }
}

impl Registration {
    /// As a host's documentation of its API has it; `None` where the host has no such API for a repository.
    fn at_host(&self, forge: &ConnectedForge) -> Option<HostRegistration> {
        match self {
            Self::Webhook { url, secret } => webhook(forge, url, secret.expose_secret()),
            Self::DeployKey { title, public } => deploy_key(forge, title, public),
        }
    }
}

fn webhook(forge: &ConnectedForge, url: &str, secret: &str) -> Option<HostRegistration> {
    let registration =
        |path, identity, body| Some(HostRegistration { path, body, identity: (identity, url.to_owned()), id: "/id" });
    let config = json!({"url": url, "content_type": "json", "secret": secret});
    match forge {
        ConnectedForge::Github(_) => {
            let body = json!({"name": "web", "active": true, "events": ["push", "pull_request"], "config": config});
            registration(&["hooks"], "/config/url", body)
        }
        ConnectedForge::Gitea(_) => {
            let events = ["push", "create", "pull_request", "pull_request_sync"];
            let body = json!({"type": "gitea", "active": true, "events": events, "config": config});
            registration(&["hooks"], "/config/url", body)
        }
        ConnectedForge::Gitlab(_) => {
            let body = json!({
                "url": url, "token": secret,
                "push_events": true, "tag_push_events": true, "merge_requests_events": true,
            });
            registration(&["hooks"], "/url", body)
        }
        ConnectedForge::BitbucketCloud(_) => {
            let events = ["repo:push", "pullrequest:created", "pullrequest:updated", "pullrequest:fulfilled"];
            let body = json!({"description": "stator", "url": url, "active": true, "secret": secret, "events": events});
            registration(&["hooks"], "/url", body).map(|hook| HostRegistration { id: "/uuid", ..hook })
        }
        ConnectedForge::BitbucketDataCenter(_) => {
            let events = ["repo:refs_changed", "pr:opened", "pr:from_ref_updated", "pr:merged"];
            let own = json!({"secret": secret});
            let body = json!({"name": "stator", "url": url, "active": true, "events": events, "configuration": own});
            registration(&["webhooks"], "/url", body)
        }
        // A subscription there is an object of the organization, and of one event.
        ConnectedForge::Azure(_) => None,
    }
}

fn deploy_key(forge: &ConnectedForge, title: &str, public: &str) -> Option<HostRegistration> {
    let registration =
        |path, identity, body| Some(HostRegistration { path, body, identity: (identity, title.to_owned()), id: "/id" });
    match forge {
        ConnectedForge::Github(_) | ConnectedForge::Gitea(_) => {
            registration(&["keys"], "/title", json!({"title": title, "key": public, "read_only": true}))
        }
        ConnectedForge::Gitlab(_) => {
            registration(&["deploy_keys"], "/title", json!({"title": title, "key": public, "can_push": false}))
        }
        ConnectedForge::BitbucketCloud(_) => {
            registration(&["deploy-keys"], "/label", json!({"label": title, "key": public}))
        }
        // Keys of Data Center are in another API than the rest, and those of Azure belong to people.
        ConnectedForge::BitbucketDataCenter(_) | ConnectedForge::Azure(_) => None,
    }
}
