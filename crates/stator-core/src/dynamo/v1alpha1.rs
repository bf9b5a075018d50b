//! Typed `nvidia.com/v1alpha1` graph fields, as far as conversion reads into them; everything else stays a value.
//!
//! Source: the bundled CRDs of release 1.2. A `null` reads as an absent field, as the API server treats it. Fields of
//! other releases survive in `rest`.

use crate::object::Quantity;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Reads `null` as the default.
fn given<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// `DynamoGraphDeployment.spec`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AlphaGraphSpec {
    /// At most 25, by name. A `null` service is none at all.
    #[serde(deserialize_with = "given")]
    pub services: BTreeMap<String, Option<AlphaServiceSpec>>,
    /// Claims that the graph uses; with `create` the operator makes them.
    #[serde(deserialize_with = "given")]
    pub pvcs: Vec<Value>,
    /// Variables of every service.
    #[serde(deserialize_with = "given")]
    pub envs: Vec<Value>,
    /// `{topologyProfile, packDomain}`.
    pub topology_constraint: Option<Map<String, Value>>,
    /// Every other field.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// `services.*`, and `DynamoComponentDeployment.spec`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AlphaServiceSpec {
    /// Annotations of what the operator makes for the service.
    #[serde(deserialize_with = "given")]
    pub annotations: Map<String, Value>,
    /// Labels likewise.
    #[serde(deserialize_with = "given")]
    pub labels: Map<String, Value>,
    /// The operator reads the name of the service instead.
    #[serde(deserialize_with = "given")]
    pub service_name: String,
    /// A free word; the operator knows `frontend`, `worker`, `planner`, `epp`.
    #[serde(deserialize_with = "given")]
    pub component_type: String,
    /// `prefill` or `decode` of a worker; other words say nothing.
    #[serde(deserialize_with = "given")]
    pub sub_component_type: String,
    /// Deprecated: follows from the graph.
    pub dynamo_namespace: Option<String>,
    /// Requests and limits in v1alpha1's own words.
    pub resources: Option<AlphaResources>,
    /// Deprecated and ignored.
    pub autoscaling: Option<Value>,
    /// Variables of the main container.
    #[serde(deserialize_with = "given")]
    pub envs: Vec<Value>,
    /// A Secret whose keys become variables.
    pub env_from_secret: Option<String>,
    /// Claims mounted into the main container.
    #[serde(deserialize_with = "given")]
    pub volume_mounts: Vec<VolumeMount>,
    /// How the service is reached from outside.
    pub ingress: Option<Value>,
    /// Size of `/dev/shm`.
    pub shared_memory: Option<SharedMemory>,
    /// Metadata of the pods.
    pub extra_pod_metadata: Option<ExtraPodMetadata>,
    /// A PodSpec, with the main container beside it.
    pub extra_pod_spec: Option<ExtraPodSpec>,
    /// A core/v1 Probe.
    pub liveness_probe: Option<Value>,
    /// A core/v1 Probe.
    pub readiness_probe: Option<Value>,
    /// Switches a scaling adapter on.
    pub scaling_adapter: Option<FeatureSwitch>,
    /// A frontend beside the main container.
    pub frontend_sidecar: Option<FrontendSidecar>,
    /// Start from a checkpoint.
    pub checkpoint: Option<FeatureSwitch>,
    /// Shared GPU memory.
    pub gpu_memory_service: Option<FeatureSwitch>,
    /// Shadows that take over.
    pub failover: Option<FeatureSwitch>,
    /// Every other field.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// `services.*.resources`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AlphaResources {
    /// What is asked for.
    pub requests: Option<ResourceItem>,
    /// What is allowed.
    pub limits: Option<ResourceItem>,
    /// Claims of devices.
    #[serde(deserialize_with = "given")]
    pub claims: Vec<Value>,
}

/// `requests` or `limits`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceItem {
    /// A quantity of cores.
    #[serde(deserialize_with = "given")]
    pub cpu: String,
    /// A quantity of bytes.
    #[serde(deserialize_with = "given")]
    pub memory: String,
    /// A number of GPUs.
    #[serde(deserialize_with = "given")]
    pub gpu: String,
    /// The resource that `gpu` counts; `nvidia.com/gpu` when empty.
    #[serde(deserialize_with = "given")]
    pub gpu_type: String,
    /// Any other resource by its name.
    #[serde(deserialize_with = "given")]
    pub custom: BTreeMap<String, String>,
}

/// `services.*.volumeMounts[]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeMount {
    /// The claim.
    #[serde(deserialize_with = "given")]
    pub name: String,
    /// The path; may be left out for a compilation cache.
    #[serde(deserialize_with = "given", skip_serializing_if = "String::is_empty")]
    pub mount_point: String,
    /// Where the engine keeps what it compiles.
    #[serde(deserialize_with = "given", skip_serializing_if = "std::ops::Not::not")]
    pub use_as_compilation_cache: bool,
}

/// `services.*.sharedMemory`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SharedMemory {
    /// None at all.
    #[serde(deserialize_with = "given")]
    pub disabled: bool,
    /// A quantity of bytes.
    pub size: Option<Value>,
}

/// `services.*.extraPodMetadata`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ExtraPodMetadata {
    /// Annotations of the pods.
    #[serde(deserialize_with = "given")]
    pub annotations: Map<String, Value>,
    /// Labels of the pods.
    #[serde(deserialize_with = "given")]
    pub labels: Map<String, Value>,
}

/// `services.*.extraPodSpec`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtraPodSpec {
    /// Merged over what the other fields say of the main container.
    pub main_container: Option<Map<String, Value>>,
    /// The fields of a core/v1 PodSpec.
    #[serde(flatten)]
    pub pod: Map<String, Value>,
}

/// Something with `enabled` and settings beside it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct FeatureSwitch {
    /// Absent is off.
    #[serde(deserialize_with = "given")]
    pub enabled: bool,
    /// The settings.
    #[serde(flatten)]
    pub settings: Map<String, Value>,
}

/// `services.*.frontendSidecar`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FrontendSidecar {
    /// Its image.
    #[serde(deserialize_with = "given")]
    pub image: String,
    /// Its arguments.
    #[serde(deserialize_with = "given")]
    pub args: Vec<Value>,
    /// A Secret whose keys become variables.
    pub env_from_secret: Option<String>,
    /// Its variables.
    #[serde(deserialize_with = "given")]
    pub envs: Vec<Value>,
}

/// Whether the part of a worker becomes a type of its own.
pub(super) fn has_own_component_type(service: &AlphaServiceSpec) -> bool {
    service.component_type == "worker" && matches!(service.sub_component_type.as_str(), "prefill" | "decode")
}

/// A switch that is left out is off.
pub(super) fn is_on(switch: Option<&FeatureSwitch>) -> bool {
    switch.is_some_and(|switch| switch.enabled)
}

/// True for no quantity, and for one of nothing.
pub(super) fn is_zero(size: &Value) -> bool {
    match size {
        Value::Null => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => Quantity::parse(text.trim()) == Quantity::parse("0"),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}
