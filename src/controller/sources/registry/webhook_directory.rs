//! Who receives webhooks, found without trying every secret: by host, by name, and by the digest of a source's name.

use super::WebhookInbox;
use crate::controller::sources::resolved_source::SourceKey;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use stator_git::source::model_source::ForgeKind;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Sources that share a secret; it is tried once for all of them.
#[derive(Clone, Debug)]
pub struct SharedSecretGroup {
    /// What their deliveries are signed with.
    pub secret: SecretString,
    /// Where they go, sorted.
    pub inboxes: Vec<WebhookInbox>,
}

/// Who receives webhooks, as of one moment.
#[derive(Debug, Default)]
pub struct WebhookDirectory {
    by_host: BTreeMap<&'static str, Arc<[SharedSecretGroup]>>,
    by_source: BTreeMap<SourceKey, WebhookInbox>,
    by_name: HashMap<String, Vec<SourceKey>>,
    by_digest: HashMap<String, SourceKey>,
}

impl WebhookDirectory {
    /// Of all who receive any. Costs one digest a source, however many share a secret.
    pub fn new(inboxes: Vec<WebhookInbox>) -> Self {
        let mut directory = Self::default();
        let mut by_host: BTreeMap<&'static str, Vec<WebhookInbox>> = BTreeMap::new();
        for inbox in inboxes {
            by_host.entry(inbox.forge.as_str()).or_default().push(inbox.clone());
            directory.by_name.entry(inbox.key.name.clone()).or_default().push(inbox.key.clone());
            directory.by_digest.insert(source_digest(&inbox.key), inbox.key.clone());
            directory.by_source.insert(inbox.key.clone(), inbox);
        }
        directory.by_host = by_host.into_iter().map(|(host, own)| (host, group_by_secret(own).into())).collect();
        directory
    }

    /// All of a host.
    pub fn of_host(&self, host: ForgeKind) -> Arc<[SharedSecretGroup]> {
        self.by_host.get(host.as_str()).cloned().unwrap_or_else(|| Arc::from([]))
    }

    /// Those of a name, in whatever namespaces.
    pub fn of_name(&self, host: ForgeKind, name: &str) -> Arc<[SharedSecretGroup]> {
        let keys = self.by_name.get(name).into_iter().flatten();
        let inboxes = keys.filter_map(|key| self.by_source.get(key)).filter(|inbox| inbox.forge == host);
        group_by_secret(inboxes.cloned().collect()).into()
    }

    /// One source, where it is of that host.
    pub fn of_source(&self, host: ForgeKind, key: &SourceKey) -> Arc<[SharedSecretGroup]> {
        let inbox = self.by_source.get(key).filter(|inbox| inbox.forge == host);
        group_by_secret(inbox.cloned().into_iter().collect()).into()
    }

    /// The source of a digest, see [`source_digest`].
    pub fn source_of_digest(&self, digest: &str) -> Option<&WebhookInbox> {
        self.by_source.get(self.by_digest.get(digest)?)
    }
}

/// What a source is called in the path of its webhook: the SHA-256 of `namespace/name` in hex, which `sha256sum` gives as
/// well. It names no source to whoever reads a git host's settings.
pub fn source_digest(key: &SourceKey) -> String {
    hex::encode(Sha256::digest(key.to_string()))
}

fn group_by_secret(mut inboxes: Vec<WebhookInbox>) -> Vec<SharedSecretGroup> {
    inboxes.sort_by(|a, b| a.key.cmp(&b.key));
    let mut groups: Vec<SharedSecretGroup> = Vec::new();
    let mut known: HashMap<[u8; 32], usize> = HashMap::new();
    for inbox in inboxes {
        let digest = Sha256::digest(inbox.secret.expose_secret()).into();
        match known.get(&digest).and_then(|at| groups.get_mut(*at)) {
            Some(group) => group.inboxes.push(inbox),
            None => {
                known.insert(digest, groups.len());
                groups.push(SharedSecretGroup { secret: inbox.secret.clone(), inboxes: vec![inbox] });
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::sources::hints::SourceHints;

    fn inbox(namespace: &str, name: &str, forge: ForgeKind, secret: &str) -> WebhookInbox {
        let (key, hints) = (SourceKey::new(namespace, name), Arc::<SourceHints>::default());
        WebhookInbox { key, forge, secret: SecretString::from(secret), hints }
    }

    fn shown(groups: &[SharedSecretGroup]) -> String {
        let group = |group: &SharedSecretGroup| {
            let keys: Vec<String> = group.inboxes.iter().map(|inbox| inbox.key.to_string()).collect();
            keys.join(",")
        };
        groups.iter().map(group).collect::<Vec<_>>().join(" ")
    }

    /// S3: with a path of its own, a source's secret is the only one that is tried.
    #[test]
    fn a_digest_leads_to_one_source_and_one_secret() {
        let mut inboxes: Vec<WebhookInbox> = (0..1000)
            .map(|number| inbox("team", &format!("models-{number}"), ForgeKind::Gitea, &format!("secret-{number}")))
            .collect();
        inboxes.push(inbox("other", "models-7", ForgeKind::Gitea, "secret-7"));
        inboxes.push(inbox("third", "models-7", ForgeKind::Github, "secret-7"));
        let directory = WebhookDirectory::new(inboxes);
        let key = SourceKey::new("team", "models-7");
        let digest = source_digest(&key);
        assert_eq!(digest, "1f9e1eba6f08d8a93a18e6c8a1b61e7a91ccabf2430ea5addac34e34681a5d14");
        assert_eq!(directory.source_of_digest(&digest).map(|inbox| &inbox.key), Some(&key));
        assert!(directory.source_of_digest(&digest.to_uppercase()).is_none());
        assert_eq!(shown(&directory.of_source(ForgeKind::Gitea, &key)), "team/models-7");
        assert_eq!(shown(&directory.of_source(ForgeKind::Github, &key)), "");
        assert_eq!(shown(&directory.of_name(ForgeKind::Gitea, "models-7")), "other/models-7,team/models-7");
        assert_eq!(directory.of_host(ForgeKind::Gitea).len(), 1000, "a secret that two share is one");
        assert_eq!(shown(&directory.of_host(ForgeKind::Github)), "third/models-7");
        assert_eq!(shown(&directory.of_host(ForgeKind::Azure)), "");
    }
}
