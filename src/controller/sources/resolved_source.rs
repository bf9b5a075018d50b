//! Sources, checked: what a reconciler works with, wherever it was read from.

use super::tenancy::TenantAccess;
use stator_git::source::credentials::{CredentialError, GitCredentials};
use stator_git::source::model_source::{ModelSourceSpec, Reference};
use stator_git::source::origin;
use stator_git::source::secret::SecretValues;
use stator_git::source::url::{RepositoryUrl, UrlScheme};
use stator_model::fleet_policy::JudgedSource;
use stator_model::plan::{RepositoryAddress, RepositoryOrigin, SourceClaim, SourceIdentity};
use stator_model::windows::{CronSchedule, SyncWindow};
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// What a source is called: `namespace/name`. Two sources of one namespace have different names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl SourceKey {
    /// Of a namespace and a name.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One source, checked.
#[derive(Clone, Debug)]
pub struct ResolvedSource {
    /// Its namespace and name.
    pub key: SourceKey,
    /// The uid of its object; `None` for a source of a file.
    pub uid: Option<String>,
    /// Where its document begins in its file; 0 for an object of a cluster.
    pub position: u32,
    /// What it says.
    pub spec: ModelSourceSpec,
    /// `spec.url`, read.
    pub url: RepositoryUrl,
    /// `spec.path` from the repository's root, without `.`; empty for the root.
    pub folder: String,
    /// How long after one look the next is due.
    pub interval: Option<Duration>,
    /// When else one is due.
    pub schedule: Option<CronSchedule>,
    /// How long a sync may take.
    pub timeout: Option<Duration>,
    /// When syncs may run.
    pub windows: Vec<SyncWindow>,
    /// The secrets that it names.
    pub secrets: SourceSecrets,
    /// As whom it acts, and where.
    pub access: TenantAccess,
}

/// What a source syncs, and where to. Two sources of one target would take turns at undoing each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::controller) struct SyncTarget<'a> {
    origin: RepositoryOrigin,
    environment: Option<&'a str>,
    pub namespace: TargetNamespace<'a>,
}

/// The namespace that a source syncs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::controller) enum TargetNamespace<'a> {
    /// That one, as the source or who it acts as says.
    Named(&'a str),
    /// What the repository says, which nobody has read yet; compared among sources of this owner.
    FromRepository(&'a str),
}

/// The secrets that a source names, where it does.
#[derive(Clone, Debug, Default)]
pub struct SourceSecrets {
    /// For fetching.
    pub git: Option<SecretValues>,
    /// For the host's API.
    pub forge: Option<SecretValues>,
    /// What deliveries are signed with.
    pub webhook: Option<SecretValues>,
    /// The public keys that revisions must be signed with.
    pub verify: Option<SecretValues>,
    /// Where notifications go: one for each of `spec.notifications`, in its order.
    pub notifications: Vec<SecretValues>,
}

impl ResolvedSource {
    /// How its repository is reached and logged in to, as its secret says.
    ///
    /// # Errors
    /// Every fault of the secret at once.
    pub fn git_credentials(&self) -> Result<GitCredentials, CredentialError> {
        let credentials = GitCredentials::read(self.secrets.git.as_ref(), &self.url)?;
        Ok(GitCredentials { addresses: self.access.addresses, ..credentials })
    }

    /// Whether both are the same in everything that a reconciler uses: then an edit changes nothing for it.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let secret = |one: &Option<SecretValues>, other: &Option<SecretValues>| match (one, other) {
            (Some(one), Some(other)) => one.name() == other.name() && one.has_same_values(other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        self.key == other.key
            && self.uid == other.uid
            && self.spec == other.spec
            && self.access == other.access
            && secret(&self.secrets.git, &other.secrets.git)
            && secret(&self.secrets.forge, &other.secrets.forge)
            && secret(&self.secrets.webhook, &other.secrets.webhook)
            && secret(&self.secrets.verify, &other.secrets.verify)
            && self.secrets.notifications.len() == other.secrets.notifications.len()
            && (self.secrets.notifications.iter().zip(&other.secrets.notifications))
                .all(|(one, other)| one.name() == other.name() && one.has_same_values(other))
    }

    /// Whether a commit that ended badly would end alike by the other: they differ in when there is work, and who is
    /// notified of it, and in nothing else.
    pub fn has_same_outcome_as(&self, other: &Self) -> bool {
        let (mut one, mut two) = (self.clone(), other.clone());
        for source in [&mut one, &mut two] {
            let spec = &mut source.spec;
            (spec.interval, spec.schedule, spec.time_zone) = (None, None, None);
            (spec.suspend, spec.self_heal, spec.previews, spec.webhook) = (false, None, false, None);
            (spec.preview_forks, spec.preview_limit) = (false, None);
            spec.windows = Vec::new();
            spec.notifications = Vec::new();
            source.secrets.webhook = None;
            source.secrets.notifications = Vec::new();
        }
        one.is_same_as(&two)
    }

    /// What this source syncs. Where only the repository says to which namespace, sources of one `owner` are compared.
    pub(in crate::controller) fn sync_target<'a>(&'a self, owner: &'a str) -> SyncTarget<'a> {
        SyncTarget {
            origin: self.origin_by_address(),
            environment: self.spec.environment.as_ref().map(|name| name.as_str()),
            namespace: match self.destination() {
                Some(namespace) => TargetNamespace::Named(namespace),
                None => TargetNamespace::FromRepository(owner),
            },
        }
    }

    /// The namespace that it syncs to, where it or who it acts as says so.
    pub fn named_destination(&self) -> Option<String> {
        self.destination().map(str::to_owned)
    }

    fn destination(&self) -> Option<&str> {
        let named = self.spec.target_namespace.as_ref().map(|name| name.as_str());
        named.or(self.access.only_namespace.as_deref())
    }

    /// Where its models come from by its address alone, however that is written.
    fn origin_by_address(&self) -> RepositoryOrigin {
        let text = self.url.to_string();
        match RepositoryAddress::parse(&text) {
            Some(address) => RepositoryOrigin::at_address(address, &self.folder),
            None => RepositoryOrigin::at_path(&format!("{text}/{}", self.folder)),
        }
    }

    /// Whose the records and objects are that it writes. A repository of this machine is asked where it comes from, which
    /// reads files.
    pub fn find_owner(&self) -> SourceClaim {
        let claim = match self.url.scheme() {
            UrlScheme::Https | UrlScheme::Http | UrlScheme::Ssh => {
                SourceClaim::new(SourceIdentity::Repository { origin: self.origin_by_address() })
            }
            UrlScheme::Local => origin::find_claim_in(Path::new(self.url.path()), &self.folder),
        };
        let Some(uid) = &self.uid else { return claim };
        let identity = SourceIdentity::ModelSource {
            namespace: self.key.namespace.clone(),
            name: self.key.name.clone(),
            uid: uid.clone(),
            origin: claim.identity.origin().clone(),
        };
        SourceClaim { identity, ..claim }
    }

    /// What policies of administrators know it by.
    pub fn policy_facts(&self) -> JudgedSource {
        JudgedSource {
            namespace: Some(self.key.namespace.clone()),
            name: Some(self.key.name.clone()),
            ..JudgedSource::of_claim(&self.find_owner())
        }
    }

    /// What `spec.ref` says, in words.
    pub fn reference_text(&self) -> String {
        match &self.spec.reference {
            Reference::Branch(name) => format!("branch {name}"),
            Reference::Tag(name) => format!("tag {name}"),
            Reference::Commit(name) => format!("commit {name}"),
            Reference::Semver(range) => format!("tags {range}"),
        }
    }
}
