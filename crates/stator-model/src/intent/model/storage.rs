//! What is loaded: adapters, and the volume of the weights.

use crate::intent::scalar::{AdapterUri, DnsName, Quantity, VolumeName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A LoRA adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Adapter {
    /// The adapter's name: what clients ask for, and, with the model's, its object's name.
    pub name: DnsName,
    /// Where its weights are: `s3://…` or `hf://…`.
    pub source: AdapterUri,
    /// The name that clients ask for. Defaults to `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub served_name: Option<String>,
    /// The DynamoModel's name. Defaults to the model's name, a dash, and `name`; for one that exists under another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_name: Option<DnsName>,
    /// The largest rank that the engine must hold. The graph is rendered for the largest of all. Defaults to 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4096))]
    pub max_rank: Option<u32>,
}

/// The volume that holds the weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cache {
    /// The PersistentVolumeClaim's name.
    pub claim: DnsName,
    /// Its size. With it, stator renders the claim; without, the claim must exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity>,
    /// Its storage class. Defaults to the cluster's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<DnsName>,
    /// How it may be mounted. Defaults to `ReadWriteMany`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_mode: Option<AccessMode>,
    /// Where it is mounted. Defaults to `/opt/model-cache`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^/"))]
    pub mount_path: Option<String>,
    /// The volume's name in pods. Defaults to `model-cache`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeName>,
    /// Whether the Hugging Face cache is stored there (`HF_HOME`). Defaults to true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hf_home: Option<bool>,
    /// The model's folder inside the volume; only with `sla`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub model_path: Option<String>,
    /// Whether the claim is deleted with the model. Defaults to false: weights are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prune: Option<bool>,
}

/// How a volume may be mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AccessMode {
    /// By one node.
    ReadWriteOnce,
    /// By many nodes.
    ReadWriteMany,
    /// By many nodes, to read.
    ReadOnlyMany,
    /// By one pod.
    ReadWriteOncePod,
}
