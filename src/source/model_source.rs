//! `ModelSource`: where intents come from and how they are synced, as a custom resource or a file.
//!
//! The JSON Schema (`stator schema source`) is generated from these types; their doc comments are what a user reads.

use crate::intent::model::ApiVersion;
use crate::intent::scalar::{DnsName, ModelName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceMetadata {
    /// Its name.
    pub name: DnsName,
    /// Its namespace; the secrets that it names are read there. Defaults to `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<DnsName>,
}

/// What to sync and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelSourceSpec {
    /// Where the repository is: an `https://` or `ssh://` URL.
    #[schemars(length(min = 1))]
    pub url: String,
    /// Lets `url` be `http://`. Credentials would travel in the clear.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_insecure: bool,
    /// Lets `url` be a path on this machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_local: bool,
    /// Which revision to follow.
    #[serde(rename = "ref")]
    pub reference: Reference,
    /// The folder of the repository that holds its root `stator.yaml`. Defaults to `.`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub path: Option<String>,
    /// The environment to sync. May be left out where the repository has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<ModelName>,
    /// How often to look for a new revision: `1m`. Webhooks come on top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2))]
    pub interval: Option<String>,
    /// When to look, as a cron expression of five fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 6))]
    pub schedule: Option<String>,
    /// The time zone of `schedule`, by its IANA name. Defaults to UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub time_zone: Option<String>,
    /// The secret for git: `username` and `password`, `bearerToken`, `identity` and `known_hosts`, or the keys of a
    /// GitHub App; and `caFile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// The git host's API, for commit statuses and comments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forge: Option<Forge>,
    /// The webhook that the git host calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
    /// Whether pull requests are planned and commented on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub previews: bool,
    /// Whether every model has a commit status of its own beside the environment's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub status_per_model: bool,
    /// Which signatures a revision must carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// A namespace in place of the environment's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_namespace: Option<DnsName>,
    /// A service account to act as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<DnsName>,
    /// Whether objects that are no longer in git are deleted. Defaults to true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prune: Option<bool>,
    /// What holds a sync back; comes over the environment's own guards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guards: Option<crate::intent::repository::Guards>,
    /// When syncs may run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
    /// Stops syncing while true.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// How long one sync may take, health included: `10m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2))]
    pub timeout: Option<String>,
}

/// Which revision to follow: exactly one of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Reference {
    /// The newest commit of a branch.
    Branch(String),
    /// A tag.
    Tag(String),
    /// One commit, for good.
    Commit(String),
    /// The highest tag in a range of versions: `>=1.0.0 <2.0.0`.
    Semver(String),
}

/// Names a secret in the source's namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretRef {
    /// Its name.
    pub name: DnsName,
}

/// The git host's API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Forge {
    /// Which host it is.
    #[serde(rename = "type")]
    pub kind: ForgeKind,
    /// The API's URL. Defaults to the host of the repository's URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub url: Option<String>,
    /// The secret with the key `token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// What commit status contexts begin with. Defaults to `stator`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub context: Option<String>,
    /// Where commit statuses lead whoever follows them: the `https://` address of a dashboard or a page of the team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub target_url: Option<String>,
}

/// A git host with an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
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

/// A time in which syncs may, or may not, run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Window {
    /// Whether the window lets syncs run or keeps them from it.
    pub kind: WindowKind,
    /// When it opens, as a cron expression of five fields.
    #[schemars(length(min = 6))]
    pub schedule: String,
    /// How long it stays open: `2h`.
    #[schemars(length(min = 2))]
    pub duration: String,
    /// The time zone, by its IANA name. Defaults to UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub time_zone: Option<String>,
}

/// Whether a window lets syncs run or keeps them from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WindowKind {
    /// Syncs run only inside.
    Allow,
    /// Syncs do not run inside.
    Deny,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_source_is_read_and_written_back() {
        let text = "
apiVersion: stator.dev/v1alpha1
kind: ModelSource
metadata: {name: models, namespace: default}
spec:
  url: https://git.example.com/team/models.git
  ref: {branch: main}
  path: .
  environment: staging
  interval: 1m
  secretRef: {name: git}
  forge: {type: gitea, secretRef: {name: forge}}
  webhook: {secretRef: {name: hook}}
  previews: true
  verify: {mode: Head, secretRef: {name: keys}}
  targetNamespace: models
  windows: [{kind: deny, schedule: '0 18 * * 5', duration: 62h, timeZone: Europe/Zurich}]
";
        let source: ModelSource = serde_saphyr::from_str(text).unwrap();
        assert_eq!(source.spec.reference, Reference::Branch("main".into()));
        let again: ModelSource = serde_json::from_value(serde_json::to_value(&source).unwrap()).unwrap();
        assert_eq!(again, source);
    }

    #[test]
    fn two_revisions_at_once_are_refused() {
        let faulty: Result<Reference, _> = serde_saphyr::from_str("{branch: main, tag: v1}");
        assert!(faulty.is_err(), "{faulty:?}");
    }
}
