//! Environment variables, and secrets by name.

use crate::intent::scalar::{DnsName, EnvName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Secrets by name, in the environment's namespace.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Secrets {
    /// The Secret with the Hugging Face token in key `HF_TOKEN`.
    pub hugging_face: Option<DnsName>,
    /// Secrets to pull images with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-stator-synonyms" = ["imagePullSecrets"]))]
    pub image_pull: Vec<DnsName>,
    /// Secrets to load as environment variables, one per key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-stator-synonyms" = ["envFrom", "envFromSecret"]))]
    pub env: Vec<DnsName>,
}

/// The value of an environment variable: a string (quote numbers and booleans), the key of a Secret or ConfigMap, a field of
/// the pod, or a resource of the container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum EnvValue {
    /// The value itself. Quote numbers and booleans.
    Literal(String),
    /// From a Secret.
    Secret(EnvFromSecret),
    /// From a ConfigMap.
    ConfigMap(EnvFromConfigMap),
    /// From a field of the pod.
    Field(EnvFromField),
    /// From a resource of the container.
    Resource(EnvFromResource),
}

/// An environment variable of the graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GraphVariable {
    /// Its name.
    pub name: EnvName,
    /// Its value: text, or a source.
    pub value: EnvValue,
}

/// One key of a Secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnvFromSecret {
    /// The Secret's name.
    pub secret: DnsName,
    /// The key.
    #[schemars(length(min = 1))]
    pub key: String,
}

/// A field of the pod itself, by Kubernetes' downward API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnvFromField {
    /// The field's path: `metadata.name`, `status.podIP`, ….
    #[schemars(length(min = 1))]
    pub field: String,
}

/// A request or limit of the container itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnvFromResource {
    /// Which: `limits.memory`, `requests.cpu`, ….
    #[schemars(length(min = 1))]
    pub resource: String,
}

/// One key of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnvFromConfigMap {
    /// The ConfigMap's name.
    pub config_map: DnsName,
    /// The key.
    #[schemars(length(min = 1))]
    pub key: String,
}
