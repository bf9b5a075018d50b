//! `ModelSource`: where intents come from and how they are synced, as a custom resource or a file.
//!
//! The JSON Schema (`stator schema source`) is generated from these types; their doc comments are what a user reads.

pub mod crd;
pub mod status;

pub use stator_model::windows::{DURATION_PATTERN, Window, WindowKind};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use stator_model::intent::model::ApiVersion;
use stator_model::intent::scalar::{DnsName, ModelName};

/// A repository to sync into a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelSource {
    /// The version of this format.
    pub api_version: ApiVersion,
    /// Always `ModelSource`.
    pub kind: ModelSourceKind,
    /// Its name and namespace.
    pub metadata: SourceMetadata,
    /// What to sync and how.
    pub spec: ModelSourceSpec,
}

/// The kind of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ModelSourceKind {
    /// A source.
    #[default]
    ModelSource,
}

/// What identifies a source.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceMetadata {
    /// Its name.
    pub name: DnsName,
    /// Its namespace; the secrets that it names are read there. Defaults to `default`.
    pub namespace: Option<DnsName>,
}

/// What to sync and how.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelSourceSpec {
    /// The address of the repository: an `https://` or `ssh://` URL.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// Allows `http://` in `url`. Credentials are then sent unencrypted. In a cluster the controller must allow it as
    /// well, with `--allow-insecure`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_insecure: bool,
    /// Allows a local path in `url`. Only in a file of sources, because in a cluster it would be a path of the
    /// controller's machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_local: bool,
    /// Which revision to follow.
    #[serde(rename = "ref")]
    pub reference: Reference,
    /// The folder of the repository that holds its root `stator.yaml`. Defaults to `.`.
    #[schemars(length(min = 1, max = 1024))]
    pub path: Option<String>,
    /// The environment to sync. Optional if the repository has only one.
    pub environment: Option<ModelName>,
    /// How often to poll for a new revision: `1m`. Webhooks trigger further polls.
    #[schemars(length(min = 2, max = 64))]
    pub interval: Option<String>,
    /// When to poll, as a cron expression of five fields.
    #[schemars(length(min = 6, max = 512))]
    pub schedule: Option<String>,
    /// The time zone of `schedule`, by its IANA name. Defaults to UTC.
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: Option<String>,
    /// The secret for git: `username` and `password`, `bearerToken`, `identity` and `known_hosts`, or the keys of a
    /// GitHub App; and `caFile`.
    pub secret_ref: Option<SecretRef>,
    /// The git host's API, for commit statuses and comments.
    pub forge: Option<Forge>,
    /// The webhook that the git host calls.
    pub webhook: Option<Webhook>,
    /// Whether pull requests are planned and commented on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub previews: bool,
    /// Whether pull requests from forks are planned as well: anybody can open one. Defaults to false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preview_forks: bool,
    /// Maximum open pull requests to plan, newest first. Defaults to 50.
    #[schemars(range(min = 1, max = 1000))]
    pub preview_limit: Option<u16>,
    /// Whether every model has its own commit status beside the environment's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub status_per_model: bool,
    /// Which signatures a revision must carry.
    pub verify: Option<Verify>,
    /// A namespace to use instead of the environment's.
    pub target_namespace: Option<DnsName>,
    /// A service account to act as.
    pub service_account_name: Option<DnsName>,
    /// Whether objects that are no longer in git are deleted. Defaults to true.
    pub prune: Option<bool>,
    /// Whether drift is healed at once. If false, drift is reported and stays until the next commit or manual request.
    /// Defaults to true.
    pub self_heal: Option<bool>,
    /// Guards that limit a sync; they take precedence over the environment's guards.
    pub guards: Option<SourceGuards>,
    /// When syncs may run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub windows: Vec<Window>,
    /// Suspends syncing while true.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// How long one sync may take, including the wait for health: `10m`.
    #[schemars(length(min = 2, max = 64))]
    pub timeout: Option<String>,
    /// Notifications, in addition to the git host's statuses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub notifications: Vec<Notification>,
}

/// One receiver of notifications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Notification {
    /// The format of the messages.
    #[serde(rename = "type")]
    pub kind: NotificationKind,
    /// The secret with the key `url`: the address of a Slack webhook, or one that takes a JSON document. With the key
    /// `token`, generic deliveries are signed as GitHub signs its own.
    pub secret_ref: SecretRef,
    /// The events to report. Defaults to failures, recoveries and plans that are held back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub events: Vec<NotificationEvent>,
}

/// The format of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum NotificationKind {
    /// A message as Slack's incoming webhooks take it; Mattermost and Rocket.Chat take it too.
    Slack,
    /// A JSON document in stator's own format.
    Webhook,
}

impl NotificationKind {
    /// As sources and labels of metrics name it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// An event that can be reported.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum NotificationEvent {
    /// A commit was synced, and its models are healthy.
    Synced,
    /// A commit, or a model of it, failed.
    Failed,
    /// A failure has ended.
    Recovered,
    /// A guard holds a plan back until it is approved.
    Held,
    /// Live objects were changed by another client.
    Drifted,
}

impl NotificationEvent {
    /// As sources and receivers name it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Which revision to follow: exactly one of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Reference {
    /// The newest commit of a branch.
    Branch(#[schemars(length(min = 1, max = 255))] String),
    /// A tag.
    Tag(#[schemars(length(min = 1, max = 255))] String),
    /// One fixed commit.
    Commit(#[schemars(length(min = 1, max = 255))] String),
    /// The highest tag in a range of versions: `>=1.0.0 <2.0.0`.
    Semver(#[schemars(length(min = 1, max = 255))] String),
}

/// Names a secret in the source's namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretRef {
    /// Its name.
    pub name: DnsName,
}

/// The git host's API.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Forge {
    /// The type of the host.
    #[serde(rename = "type")]
    pub kind: ForgeKind,
    /// The API's URL. Defaults to the host of the repository's URL.
    #[schemars(length(min = 1, max = 2048))]
    pub url: Option<String>,
    /// The secret with the key `token`.
    pub secret_ref: Option<SecretRef>,
    /// The prefix of commit status contexts. Defaults to `stator`.
    #[schemars(length(min = 1, max = 100))]
    pub context: Option<String>,
    /// The page that commit statuses link to: the `https://` address of a dashboard or a page of the team.
    #[schemars(length(min = 1, max = 255))]
    pub target_url: Option<String>,
}

/// A git host with an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ForgeKind {
    /// GitHub, also on premises.
    Github,
    /// GitLab.
    Gitlab,
    /// Gitea or Forgejo.
    Gitea,
    /// Bitbucket, cloud or data center.
    Bitbucket,
    /// Azure DevOps.
    Azure,
}

impl ForgeKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Github, Self::Gitlab, Self::Gitea, Self::Bitbucket, Self::Azure];

    /// As `spec.forge.kind`, the paths of webhooks and labels of metrics have it: `github`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The kind that [`ForgeKind::as_str`] gives this name for.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// The webhook that the git host calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Webhook {
    /// The secret with the key `token`, which the host signs its calls with.
    pub secret_ref: SecretRef,
}

/// Which signatures a revision must carry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Verify {
    /// What must be signed.
    pub mode: VerifyMode,
    /// The secret with the public keys.
    pub secret_ref: SecretRef,
}

/// What must be signed. Flux's spellings of these, `HEAD` and `TagAndHEAD`, are read as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = with_spellings_of_flux)]
pub enum VerifyMode {
    /// The commit.
    #[serde(alias = "HEAD")]
    Head,
    /// The tag.
    Tag,
    /// The tag and its commit.
    #[serde(alias = "TagAndHEAD")]
    TagAndHead,
}

/// Adds the aliases of [`VerifyMode`] to its schema, where schemars leaves them out.
fn with_spellings_of_flux(schema: &mut schemars::Schema) {
    if let Some(options) = schema.get_mut("oneOf").and_then(serde_json::Value::as_array_mut) {
        let alias = |(word, means): (&str, &str)| serde_json::json!({"type": "string", "const": word, "description": format!("As `{means}`.")});
        options.extend([("HEAD", "Head"), ("TagAndHEAD", "TagAndHead")].map(alias));
    }
}

/// Guards that limit the syncs of a source until they are approved.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SourceGuards {
    /// Deletions in one revision that need no approval. Defaults to the larger of 5 objects and 20 % of them.
    #[schemars(range(max = 1_000_000))]
    pub max_deletions: Option<u32>,
    /// Maximum GPUs that the environment's models may need at once, including rollouts.
    #[schemars(range(max = 10_000_000))]
    pub max_gpus: Option<u32>,
    /// Number of people who must approve a held plan, each the same plan. By default, one approval is enough and need
    /// not name anyone. Sources in a file cannot be approved.
    #[schemars(range(min = 1, max = 10))]
    pub approvers: Option<u32>,
}

impl SourceGuards {
    /// How many people have to approve; 0 where nobody has to be named.
    pub fn required_approvers(&self) -> usize {
        self.approvers.map_or(0, |count| usize::try_from(count).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests;
