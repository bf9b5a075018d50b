//! What is loaded: adapters, and the volume of the weights.

use crate::intent::scalar::{AdapterUri, DnsName, Quantity, VolumeName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// A LoRA adapter.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Adapter {
    /// The adapter's name: clients ask for it, and with the model's name it forms the name of its object.
    pub name: DnsName,
    /// Where its weights are: `s3://…` or `hf://…`.
    pub source: AdapterUri,
    /// The name that clients ask for. Defaults to `name`.
    #[schemars(length(min = 1))]
    pub served_name: Option<String>,
    /// The DynamoModel's name. Defaults to the model's name, a dash, and `name`; for one that exists under another name.
    pub object_name: Option<DnsName>,
    /// Maximum rank that the engine must support. The graph is rendered for the largest of all adapters. Defaults to
    /// 64.
    #[schemars(range(min = 1, max = 4096))]
    pub max_rank: Option<u32>,
}

/// The volume that holds the weights.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cache {
    /// The PersistentVolumeClaim's name.
    #[schemars(extend("x-stator-synonyms" = ["persistentVolumeClaim", "pvc", "pvcName", "claimName"]))]
    pub claim: DnsName,
    /// Its size. With it, stator renders the claim; without, the claim must exist.
    #[schemars(extend("x-stator-synonyms" = ["storage"]))]
    pub size: Option<Quantity>,
    /// Its storage class. Defaults to the cluster's.
    #[schemars(extend("x-stator-synonyms" = ["storageClassName"]))]
    pub storage_class: Option<DnsName>,
    /// How it may be mounted. Defaults to `ReadWriteMany`.
    #[schemars(extend("x-stator-synonyms" = ["accessModes", "volumeAccessMode"]))]
    pub access_mode: Option<AccessMode>,
    /// Where it is mounted. Defaults to `/opt/model-cache`.
    #[schemars(regex(pattern = "^/"))]
    pub mount_path: Option<String>,
    /// The volume's name in pods. Defaults to `model-cache`.
    pub volume: Option<VolumeName>,
    /// True for an existing graph whose pods have a mount but no volume of the claim: Dynamo's operator then mounts the
    /// claim of the mount's name. Defaults to false.
    pub implicit_volume: Option<bool>,
    /// Whether the Hugging Face cache is stored there (`HF_HOME`). Defaults to true.
    pub hf_home: Option<bool>,
    /// Whether the serving pods mount it read-only. Defaults to false.
    pub read_only: Option<bool>,
    /// The model's folder inside the volume; only with `sla`.
    #[schemars(length(min = 1))]
    pub model_path: Option<String>,
    /// Whether the claim is deleted with the model. Defaults to false: weights are kept.
    pub prune: Option<bool>,
}

impl Cache {
    /// Where it is mounted unless the intent says otherwise; Dynamo's own default for requests.
    const DEFAULT_MOUNT_PATH: &str = "/opt/model-cache";

    /// Where it is mounted.
    pub fn mount_path(&self) -> &str {
        self.mount_path.as_deref().unwrap_or(Self::DEFAULT_MOUNT_PATH)
    }
}

/// The volume for an engine's compilation cache. Dynamo's operator mounts it, and points the engine to it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompilationCache {
    /// The PersistentVolumeClaim's name. It must exist.
    #[schemars(extend("x-stator-synonyms" = ["pvcName", "claimName"]))]
    pub claim: DnsName,
    /// Where it is mounted. Defaults to where the engine looks.
    #[schemars(regex(pattern = "^/"))]
    pub mount_path: Option<String>,
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
