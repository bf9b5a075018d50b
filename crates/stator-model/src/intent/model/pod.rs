//! What Kubernetes reads of the pods of one component.
//! The files that they mount.

use crate::intent::scalar::{ComponentName, FileName, LabelValue, MountPath, VolumeName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// Fields of a component's pods, by Kubernetes' names. They are merged over the rendered pods, and `template` over
/// them.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodSettings {
    /// Annotations of the pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels of the pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Node labels to select, beside those of `hardware`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations of the pods, instead of those of `hardware`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Map<String, Value>>,
    /// Affinity and anti-affinity to nodes and to other pods.
    pub affinity: Option<Map<String, Value>>,
    /// How the pods are spread over zones and nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Vec<Map<String, Value>>,
    /// Their priority, by the name of its class.
    #[schemars(length(min = 1))]
    pub priority_class_name: Option<String>,
    /// The scheduler that places them. Defaults to the cluster's.
    #[schemars(length(min = 1))]
    pub scheduler_name: Option<String>,
    /// The container runtime, by the name of its class.
    #[schemars(length(min = 1))]
    pub runtime_class_name: Option<String>,
    /// Users, groups and system settings of the pods.
    pub security_context: Option<Map<String, Value>>,
    /// User, privileges and capabilities of the container `main`.
    pub container_security_context: Option<Map<String, Value>>,
    /// When the image of the container `main` is pulled.
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Devices that the pods claim (dynamic resource allocation). The container `main` has all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_claims: Vec<Map<String, Value>>,
    /// How long a pod may take to terminate.
    #[schemars(range(max = 86_400))]
    pub termination_grace_period_seconds: Option<u32>,
    /// Whether the pods use the network of their node. Defaults to false.
    pub host_network: Option<bool>,
    /// Volumes, beside those of the cache, the weights and the files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Map<String, Value>>,
    /// Volume mounts of the container `main`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<Map<String, Value>>,
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImagePullPolicy {
    /// Whenever a pod starts.
    Always,
    /// Where the node has none of that name.
    IfNotPresent,
    /// Not at all: the node has it.
    Never,
}

/// A file that pods read: one of the model's folder, or text. It becomes an immutable ConfigMap whose name ends in a
/// digest of the content, so that new content replaces the pods that read it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MountedFile {
    /// Path of the file, relative to the folder of `model.yaml`. At most 1 MiB.
    #[schemars(length(min = 1, max = 1024))]
    pub from: Option<String>,
    /// Its content, instead of `from`.
    pub text: Option<String>,
    /// Mount path, including the file name.
    pub mount_path: Option<MountPath>,
    /// Instead of `mountPath`, the ConfigMap that volumes or variables of the graph name. Files with the same one are its
    /// keys, by their file names; what names it gets the name with the digest.
    pub config_map: Option<VolumeName>,
    /// Labels of its ConfigMap, beside those of the model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, LabelValue>,
    /// The components that mount it, by name. Defaults to all workers.
    #[schemars(length(min = 1))]
    pub components: Option<Vec<ComponentName>>,
}

impl MountedFile {
    /// Its key in its ConfigMap: the file's own name, which is what a directory of such files would show.
    pub fn key<'a>(&'a self, name: &'a FileName) -> &'a str {
        let path = self.mount_path.as_ref().map(MountPath::as_str).or(self.from.as_deref());
        path.map_or(name.as_str(), |path| path.rsplit('/').next().unwrap_or_default())
    }

    /// Whether stator mounts it into a component, by the names that that has: in the graph, and in the model.
    pub fn is_mounted_by(&self, names: &[&str], is_worker: bool) -> bool {
        match &self.components {
            _ if self.mount_path.is_none() => false,
            Some(components) => components.iter().any(|one| names.contains(&one.as_str())),
            None => is_worker,
        }
    }
}
