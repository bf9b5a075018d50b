//! `stator.yaml`: the repository, its environments, and the defaults of folders.
//! Of one that is missing or has faults, what can be read.

use super::decode::decode;
use super::model::ApiVersion;
use super::scalar::{DnsName, ModelName};
use super::yaml::YamlNode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;
use stator_core::dynamo::admission::Platform;
use std::collections::BTreeMap;

/// The root `stator.yaml`: settings of the whole repository.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Repository {
    /// The version of this format.
    pub api_version: ApiVersion,
    /// Always `Repository`.
    pub kind: RepositoryKind,
    /// The repository's name, which is part of the labels of its live objects.
    pub metadata: RepositoryMetadata,
    /// Environments, defaults, policy, prices.
    #[serde(default)]
    pub spec: RepositorySpec,
}

/// The kind of the root file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RepositoryKind {
    /// A repository.
    #[default]
    Repository,
}

/// What identifies a repository.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RepositoryMetadata {
    /// Its name. Renaming it makes stator treat live objects as another repository's.
    pub name: ModelName,
}

/// Environments, defaults, policy, prices.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RepositorySpec {
    /// The environments by name. Without any there is one, `default`, in namespace `default`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environments: BTreeMap<ModelName, Environment>,
    /// A partial `spec` merged under every model of the repository.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(with = "Map<String, Value>", extend("x-stator-defaults" = true))]
    pub defaults: Map<String, Value>,
    /// Rules that every model must comply with, in every environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy: Vec<PolicyRule>,
    /// What a GPU costs; no prices are built in.
    pub prices: Option<Prices>,
}

/// One named target of the repository.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Environment {
    /// The namespace that its objects live in.
    pub namespace: DnsName,
    /// The kubeconfig context of its cluster.
    #[schemars(length(min = 1))]
    pub context: Option<String>,
    /// A partial `spec` merged under every model, over the repository's and the folders' defaults.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(with = "Map<String, Value>", extend("x-stator-defaults" = true))]
    pub defaults: Map<String, Value>,
    /// Only models in these folders or files belong to the environment, as globs from the root. All when left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Models in these folders or files do not belong to the environment, as globs from the root.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// Further rules that its models must comply with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy: Vec<PolicyRule>,
    /// Guards that limit a sync.
    pub guards: Option<Guards>,
    /// Capabilities of its cluster besides Dynamo's operator. Omitted fields are unknown, and models that need them get
    /// a warning.
    pub platform: Option<Platform>,
}

/// A rule in CEL that every model must comply with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyRule {
    /// A short name, shown in findings.
    pub name: DnsName,
    /// A CEL expression over `model` (the merged intent), `objects` (what it renders to), `environment` (its name) and `gpus`
    /// (an int) that must be true.
    #[schemars(length(min = 1, max = 4096))]
    pub expression: String,
    /// The message for a model that violates it.
    #[schemars(length(min = 1))]
    pub message: String,
    /// Whether a violation stops the model. Defaults to `error`.
    #[serde(default)]
    pub severity: PolicySeverity,
}

/// Whether breaking a policy stops the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PolicySeverity {
    /// It does.
    #[default]
    Error,
    /// It does not.
    Warning,
}

/// What a GPU costs an hour, by SKU.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Prices {
    /// The currency's sign or code, as printed. Defaults to `$`.
    #[schemars(length(min = 1, max = 8))]
    pub currency: Option<String>,
    /// Price of one GPU for one hour, by SKU.
    pub gpu_hour: BTreeMap<super::model::GpuSku, f64>,
}

/// Guards that limit a sync until it is approved.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Guards {
    /// Deletions in one revision that need no approval. Defaults to the larger of 5 objects and 20 % of them.
    #[schemars(range(max = 1_000_000))]
    pub max_deletions: Option<u32>,
    /// Maximum GPUs that the environment's models may need at once, including rollouts.
    #[schemars(range(max = 10_000_000))]
    pub max_gpus: Option<u32>,
}

/// A `stator.yaml` below the root: defaults for the models under its folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Defaults {
    /// The version of this format.
    pub api_version: ApiVersion,
    /// Always `Defaults`.
    pub kind: DefaultsKind,
    /// A partial `spec`.
    #[schemars(with = "Map<String, Value>", extend("x-stator-defaults" = true))]
    pub spec: Map<String, Value>,
}

/// The kind of a folder's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DefaultsKind {
    /// Defaults.
    #[default]
    Defaults,
}

/// The name of the environment and namespace of a repository that declares none.
const DEFAULT_NAME: &str = "default";

fn parse_name<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// The one environment of a repository that declares none.
pub(super) fn fallback_environments() -> BTreeMap<ModelName, Environment> {
    let environment = parse_name::<DnsName>(DEFAULT_NAME).map(|namespace| Environment {
        namespace,
        context: None,
        defaults: serde_json::Map::new(),
        include: Vec::new(),
        exclude: Vec::new(),
        policy: Vec::new(),
        guards: None,
        platform: None,
    });
    parse_name(DEFAULT_NAME).into_iter().zip(environment).collect()
}

/// The settings of a repository without a root file.
#[expect(clippy::expect_used, reason = "a constant that a test covers")]
pub(super) fn fallback_repository() -> Repository {
    Repository {
        api_version: super::model::ApiVersion::V1Alpha1,
        kind: RepositoryKind::Repository,
        metadata: RepositoryMetadata { name: parse_name(DEFAULT_NAME).expect("`default` is a name") },
        spec: RepositorySpec::default(),
    }
}

/// What can still be read of a root file with faults: its name, and the environments that are whole.
pub(super) fn recover_repository(node: &YamlNode) -> Repository {
    let mut repository = fallback_repository();
    if let Some(name) = node.get("metadata").and_then(|metadata| metadata.get("name")).and_then(YamlNode::as_str)
        && let Some(name) = parse_name(name)
    {
        repository.metadata.name = name;
    }
    let environments = node.get("spec").and_then(|spec| spec.get("environments"));
    for entry in environments.map(YamlNode::entries).unwrap_or_default() {
        if let (Some(name), Ok(environment)) = (parse_name(&entry.key), decode(&entry.value)) {
            repository.spec.environments.insert(name, environment);
        }
    }
    repository
}
