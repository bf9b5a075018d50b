//! Typed `nvidia.com/v1beta1` kinds (and `DynamoModel`, whose only version is v1alpha1): what stator writes, and reads
//! back from a cluster.
//!
//! Source: the bundled CRDs (`crds/dynamo/`). Fields that stator does not know survive in `rest`, so
//! that an object of a later release reads too. Enumerations of Dynamo's are strings here for the same reason.

use super::graph_components::is_worker_type;
use super::registry::MAIN_CONTAINER;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// `DynamoGraphDeployment.spec`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphSpec {
    /// `vllm`, `sglang` or `trtllm`; immutable. Absent for the mocker, which is none of them.
    pub backend_framework: Option<String>,
    /// A list-map by `name`, at most 25; the set of names is immutable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<ComponentSpec>,
    /// A new `id` restarts the graph.
    pub restart: Option<RestartSpec>,
    /// `{clusterTopologyName, packDomain}`; immutable.
    pub topology_constraint: Option<Value>,
    /// Every other field.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// `spec.restart`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestartSpec {
    /// At least one character.
    #[serde(default)]
    pub id: String,
    /// In which order.
    pub strategy: Option<RestartStrategy>,
    /// Every other field.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// `spec.restart.strategy`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestartStrategy {
    /// `Sequential` (default) or `Parallel`.
    #[serde(rename = "type")]
    pub strategy_type: Option<String>,
    /// Every component once; only with `Sequential`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
    /// Every other field.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// `spec.components[]`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComponentSpec {
    /// Unique ignoring case, 1 to 63 characters.
    #[serde(default)]
    pub name: String,
    /// `frontend`, `worker`, `prefill`, `decode`, `planner` or `epp`; absent for one without Dynamo's defaults.
    #[serde(rename = "type")]
    pub component_type: Option<String>,
    /// Absent where an adapter or a planner decides; the operator's webhook makes it 1 on create.
    pub replicas: Option<i64>,
    /// Several nodes a replica; cannot be switched on or off later.
    pub multinode: Option<MultinodeSpec>,
    /// Size of `/dev/shm`; `"0"` for none, 8Gi when absent.
    pub shared_memory_size: Option<Value>,
    /// The base model, which adapters refer to.
    pub model_ref: Option<ModelRef>,
    /// Its presence hands `replicas` to a scaling adapter.
    pub scaling_adapter: Option<Map<String, Value>>,
    /// Settings of an endpoint picker: exactly one of `config` and `configMapRef`.
    pub epp_config: Option<Map<String, Value>>,
    /// The container that is a frontend beside the worker.
    pub frontend_sidecar: Option<String>,
    /// A core/v1 PodTemplateSpec whose container `main` is Dynamo's.
    pub pod_template: Option<Value>,
    /// Every other field.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// `components[].multinode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MultinodeSpec {
    /// Nodes of one replica, at least 2.
    #[serde(default = "two")]
    pub node_count: i64,
}

fn two() -> i64 {
    2
}

/// `components[].modelRef`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelRef {
    /// What a `DynamoModel.spec.baseModelName` must equal byte for byte.
    #[serde(default)]
    pub name: String,
    /// Every other field.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl GraphSpec {
    /// Reads a graph's `spec`.
    pub fn from_value(spec: &Value) -> Result<Self, serde_json::Error> {
        if spec.is_null() { Ok(Self::default()) } else { Self::deserialize(spec) }
    }
}

impl ComponentSpec {
    /// An empty component of a name and type.
    pub fn new(name: &str, component_type: Option<&str>) -> Self {
        Self { name: name.to_owned(), component_type: component_type.map(str::to_owned), ..Self::default() }
    }

    /// The container `main` of the pod template.
    pub fn main_container(&self) -> Option<&Map<String, Value>> {
        self.containers().find(|container| container.get("name").and_then(Value::as_str) == Some(MAIN_CONTAINER))
    }

    /// All containers of the pod template.
    pub fn containers(&self) -> impl Iterator<Item = &Map<String, Value>> {
        self.pod_template
            .as_ref()
            .and_then(|template| template.pointer("/spec/containers"))
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_object)
    }

    /// True for the types whose pods are the graph's workers, which the operator hashes together.
    pub fn is_worker(&self) -> bool {
        self.component_type.as_deref().is_some_and(is_worker_type)
    }

    /// A block of `experimental`: `gpuMemoryService`, `failover`, `checkpoint`.
    pub fn experimental(&self, block: &str) -> Option<&Value> {
        self.rest.get("experimental")?.get(block).filter(|value| !value.is_null())
    }

    /// The component's own topology constraint.
    pub fn topology_constraint(&self) -> Option<&Value> {
        self.rest.get("topologyConstraint").filter(|value| !value.is_null())
    }

    /// True when GPU memory is shared between pods: a memory service of mode `InterPod`.
    pub fn shares_gpus_between_pods(&self) -> bool {
        let service = self.experimental("gpuMemoryService").and_then(|service| service.get("mode"));
        service.and_then(Value::as_str) == Some("InterPod")
    }
}

/// `DynamoGraphDeploymentRequest.spec`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestSpec {
    /// The model, at least one character.
    #[serde(default)]
    pub model: String,
    /// `auto`, `vllm`, `sglang` or `trtllm`.
    pub backend: Option<String>,
    /// Image of the profiler.
    pub image: Option<String>,
    /// Whether Dynamo deploys what it found; Dynamo's default is true, so stator always says.
    pub auto_apply: Option<bool>,
    /// `rapid` or `thorough`.
    pub search_strategy: Option<String>,
    /// `{gpuSku, vramMb, totalGpus, numGpusPerNode, interconnect, rdma}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hardware: BTreeMap<String, Value>,
    /// `{isl, osl, concurrency, requestRate}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workload: BTreeMap<String, Value>,
    /// `{ttft, itl, e2eLatency}` in milliseconds, `optimizationType`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sla: BTreeMap<String, Value>,
    /// `{pvcName, pvcModelPath, pvcMountPath}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub model_cache: BTreeMap<String, Value>,
    /// `{planner, mocker}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub features: BTreeMap<String, Value>,
    /// `{profilingJob, dgd}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, Value>,
    /// Every other field.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// `DynamoModel.spec` (v1alpha1).
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdapterSpec {
    /// The name that clients ask for.
    #[serde(default)]
    pub model_name: String,
    /// `modelRef.name` of the graph's workers, byte for byte; immutable.
    #[serde(default)]
    pub base_model_name: String,
    /// `base` (default), `lora` or `adapter`; immutable.
    pub model_type: Option<String>,
    /// Where the weights are.
    pub source: Option<AdapterSource>,
    /// Every other field.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// `DynamoModel.spec.source`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdapterSource {
    /// `s3://…` or `hf://…`.
    #[serde(default)]
    pub uri: String,
    /// Every other field.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A spec as JSON. Serializing these types cannot fail: every key is a string and no value has its own serializer.
pub fn to_value(spec: &impl Serialize) -> Value {
    serde_json::to_value(spec).unwrap_or_default()
}
