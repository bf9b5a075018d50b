//! The intent's types: `Model`, and what it is made of.
//!
//! The JSON Schema, `stator explain` and `docs/reference/model.md` are generated from this file: a doc comment here is
//! what a user reads there. Field order here is the canonical order that `stator fmt` writes.

use super::scalar::{
    AdapterUri, ComponentName, DnsName, EnvName, ImageReference, LabelValue, Millis, ModelName, Quantity,
    RuntimeVersion,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The API version of every document stator reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApiVersion {
    /// The only version so far.
    #[default]
    #[serde(rename = "stator.dev/v1alpha1")]
    V1Alpha1,
}

/// One model to serve, as written in git.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Model {
    /// The version of this format.
    pub api_version: ApiVersion,
    /// Always `Model`.
    pub kind: ModelKind,
    /// Name, and labels and annotations for the rendered objects.
    pub metadata: Metadata,
    /// What to serve and how.
    pub spec: ModelSpec,
}

/// The kind of an intent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ModelKind {
    /// A model.
    #[default]
    Model,
}

/// What identifies a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metadata {
    /// The model's name: unique in its environment, and the name of its graph.
    pub name: ModelName,
    /// Labels for every rendered object.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, LabelValue>,
    /// Annotations for the rendered graph or request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// What to serve and how. Give `serving` to say how it runs, or `sla` to have Dynamo find out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelSpec {
    /// The model to serve: a Hugging Face id, or a path inside the cache.
    #[schemars(length(min = 1))]
    pub model: String,
    /// The name that clients ask for. Defaults to `model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub served_name: Option<String>,
    /// The engine that runs the model. `auto` is only possible with `sla`.
    pub engine: Engine,
    /// The Dynamo runtime version: `1.2.0` selects NVIDIA's image for the engine at that tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeVersion>,
    /// A full image reference, in place of `runtime`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageReference>,
    /// The GPUs to run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
    /// How the model runs, component by component: becomes a DynamoGraphDeployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serving: Option<Serving>,
    /// What to reach rather than how: becomes a DynamoGraphDeploymentRequest, whose profiler picks the shape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sla: Option<Sla>,
    /// LoRA adapters; each becomes a DynamoModel, applied once the graph is Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adapters: Vec<Adapter>,
    /// The volume that holds the weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// Secrets by name, never by value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Secrets>,
    /// Environment variables of every worker and further component.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<EnvName, EnvValue>,
    /// How workers are replaced when they change, unless a component says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// A new value here restarts the graph once, component after component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub restart: Option<String>,
    /// Further components of the graph by name: a planner, an endpoint picker, a router of its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub components: BTreeMap<ComponentName, Component>,
    /// Field managers whose changes stator may take back by force when they conflict (`kubectl-edit`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub take_over: Vec<String>,
    /// Last resort: maps merged over the rendered objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Override>,
}

/// The engine that runs a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// TensorRT-LLM.
    Trtllm,
    /// Dynamo's mocker: answers like an engine, on CPU.
    Mocker,
    /// Let the profiler choose; only with `sla`.
    Auto,
}

/// The GPUs a model runs on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hardware {
    /// The GPU, as Dynamo names it: `h200_sxm`. Selects nodes by label `nvidia.com/gpu.product`, and prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuSku>,
    /// GPUs in one node. A component that needs more runs on several nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub gpus_per_node: Option<u32>,
    /// How many GPUs the profiler may plan with; only with `sla`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub total_gpus: Option<u32>,
    /// Memory of one GPU in MiB; only with `sla`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub vram_mib: Option<u32>,
    /// What connects the GPUs of a node (`nvlink`, `pcie`); only with `sla`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interconnect: Option<String>,
    /// Whether nodes reach each other by RDMA; only with `sla`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma: Option<bool>,
    /// Node labels to select, in place of the one that `gpu` implies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
}

/// GPU models, as Dynamo's `GPUSKUType` spells them in release 1.2, and those added later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum GpuSku {
    Gb200Sxm,
    B200Sxm,
    H200Sxm,
    H100Sxm,
    H100Pcie,
    A100Sxm,
    A100Pcie,
    A30,
    L40s,
    L40,
    L4,
    V100Sxm,
    V100Pcie,
    T4,
    Mi200,
    Mi300,
}

/// How a model runs. One `worker` serves prefill and decode together; `prefill` and `decode` serve them apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Serving {
    /// The HTTP frontend and router. Rendered with its defaults when left out, unless an endpoint picker or a component of
    /// type `frontend` takes its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frontend: Option<Frontend>,
    /// Aggregated serving.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Worker>,
    /// Disaggregated serving: the prefill half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill: Option<Worker>,
    /// Disaggregated serving: the decode half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode: Option<Worker>,
}

/// The HTTP frontend and its router.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Frontend {
    /// How many. Defaults to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10_000))]
    pub replicas: Option<u32>,
    /// How requests are spread over workers. Defaults to Dynamo's own default, round-robin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterMode>,
    /// An image of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageReference>,
    /// CPU, memory and other resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Arguments; they replace Dynamo's own command line, which starts with `-m dynamo.frontend`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<EnvName, EnvValue>,
    /// A partial pod template, merged last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Map<String, Value>>,
}

/// How the frontend spreads requests (`DYN_ROUTER_MODE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RouterMode {
    /// One after the other.
    RoundRobin,
    /// By chance.
    Random,
    /// The less busy of two picked by chance.
    PowerOfTwo,
    /// To the worker that already holds the prompt's KV blocks.
    Kv,
    /// As the caller says; for an endpoint picker.
    Direct,
    /// To the worker with the fewest requests.
    LeastLoaded,
    /// By weight of the device.
    DeviceAwareWeighted,
}

/// Workers of one role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Worker {
    /// How many. Defaults to 1; with `scaling`, how many to start with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10_000))]
    pub replicas: Option<u32>,
    /// GPUs of one replica, over all its nodes. Defaults to tensorParallel × pipelineParallel × dataParallel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1024))]
    pub gpus: Option<u32>,
    /// Nodes of one replica. Defaults to gpus / hardware.gpusPerNode, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 128))]
    pub nodes: Option<u32>,
    /// Tensor parallel size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub tensor_parallel: Option<u32>,
    /// Pipeline parallel size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub pipeline_parallel: Option<u32>,
    /// Data parallel size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub data_parallel: Option<u32>,
    /// Expert parallel size, for mixtures of experts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub expert_parallel: Option<u32>,
    /// Number type of weights and activations (`bfloat16`, `float16`, `auto`, …).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub dtype: Option<String>,
    /// The most sequences in one batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_sequences: Option<u32>,
    /// The longest sequence, prompt and answer together, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_length: Option<u32>,
    /// The share of GPU memory the engine may take, above 0 and at most 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.01, max = 1.0))]
    pub memory_fraction: Option<f64>,
    /// Tokens in one KV block. With router `kv` the frontend is told the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub block_size: Option<u32>,
    /// Size of /dev/shm; `"0"` for none. Defaults to the operator's 8Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_memory: Option<Quantity>,
    /// An image of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageReference>,
    /// CPU, memory and other resources besides the GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Arguments appended to the engine's command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Engine options that have no flag, as a map (TensorRT-LLM's `--override-engine-args`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_options: Option<Map<String, Value>>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<EnvName, EnvValue>,
    /// Who decides how many replicas run, when git does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// How these workers are replaced when they change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// A partial pod template, merged last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Map<String, Value>>,
}

/// A further component of the graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Component {
    /// What Dynamo knows it as. Left out for a component that Dynamo gives no defaults, such as a router of its own.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub component_type: Option<ComponentType>,
    /// How many. Defaults to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10_000))]
    pub replicas: Option<u32>,
    /// GPUs of one replica, over all its nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1024))]
    pub gpus: Option<u32>,
    /// Nodes of one replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 128))]
    pub nodes: Option<u32>,
    /// The component's own settings: a planner's `--config`, an endpoint picker's plugins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
    /// Size of /dev/shm; `"0"` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_memory: Option<Quantity>,
    /// An image of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageReference>,
    /// CPU, memory and other resources besides the GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// The command. A planner has one by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<EnvName, EnvValue>,
    /// Who decides how many replicas run, when git does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// How it is replaced when it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// A partial pod template, merged last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Map<String, Value>>,
}

/// Dynamo's component types (v1beta1 `components[].type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ComponentType {
    /// The HTTP frontend.
    Frontend,
    /// A worker that prefills and decodes.
    Worker,
    /// A worker that prefills.
    Prefill,
    /// A worker that decodes.
    Decode,
    /// The planner, which scales workers.
    Planner,
    /// The endpoint picker of the inference gateway.
    Epp,
}

/// Kubernetes resources of one pod, besides its GPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resources {
    /// What the scheduler reserves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
    /// What the pod may use at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Quantity>,
}

/// Who decides how many replicas run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Scaling {
    /// Something outside: an autoscaler on the scaling adapter, or a global planner.
    External(ExternalScaling),
    /// An autoscaler or planner, between these bounds.
    Bounds(ScalingBounds),
}

/// The word `external`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExternalScaling {
    /// Something outside decides.
    External,
}

/// The fewest and the most replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScalingBounds {
    /// The fewest.
    #[schemars(range(max = 10_000))]
    pub min: u32,
    /// The most; GPUs are counted and priced up to here.
    #[schemars(range(min = 1, max = 10_000))]
    pub max: u32,
}

/// How pods are replaced when they change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rollout {
    /// `rolling` replaces them bit by bit; `recreate` stops all first. Defaults to `rolling`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RolloutStrategy>,
    /// How many may run above the number wanted, as a count or a share (`25%`). Needs spare GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<CountOrPercent>,
    /// How many may be missing meanwhile, as a count or a share (`25%`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<CountOrPercent>,
}

/// How pods are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RolloutStrategy {
    /// Bit by bit.
    Rolling,
    /// All stop, then all start: downtime, and no spare GPUs needed.
    Recreate,
}

pub use super::scalar::CountOrPercent;

/// What to reach, for Dynamo's profiler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sla {
    /// The longest time to the first token (`300ms`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft: Option<Millis>,
    /// The longest time between tokens (`20ms`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub itl: Option<Millis>,
    /// The longest time for a whole answer (`10s`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e2e: Option<Millis>,
    /// What to favour when there is a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimize: Option<Optimize>,
    /// The traffic to expect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// How hard the profiler searches. `thorough` needs a named engine. Defaults to `rapid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
    /// Whether Dynamo deploys what it found by itself. Defaults to false: the result is a recommendation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_apply: Option<bool>,
    /// Settings for a planner in the graph that Dynamo makes; present means on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planner: Option<Map<String, Value>>,
    /// Whether to profile with the mocker, without GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mocker: Option<bool>,
}

/// What to favour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Optimize {
    /// Short answers times.
    Latency,
    /// Many answers.
    Throughput,
}

/// The traffic to expect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Workload {
    /// Input sequence length in tokens. Dynamo's default is 4000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub isl: Option<u32>,
    /// Output sequence length in tokens. Dynamo's default is 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub osl: Option<u32>,
    /// Requests under way at once. Not together with `requestRate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub concurrency: Option<u32>,
    /// Requests a second. Not together with `concurrency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001))]
    pub request_rate: Option<f64>,
}

/// How hard the profiler searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Search {
    /// Minutes, by model.
    Rapid,
    /// Hours, on real GPUs.
    Thorough,
}

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
    /// Where it is mounted; the Hugging Face cache is put there. Defaults to `/opt/model-cache`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^/"))]
    pub mount_path: Option<String>,
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

/// Secrets by name, in the environment's namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Secrets {
    /// The Secret whose key `HF_TOKEN` is the Hugging Face token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hugging_face: Option<DnsName>,
    /// Secrets to pull images with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull: Vec<DnsName>,
    /// Secrets whose every key becomes an environment variable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<DnsName>,
}

/// The value of an environment variable: a string, or the key of a Secret or ConfigMap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum EnvValue {
    /// The value itself. Quote numbers and booleans.
    Literal(String),
    /// From a Secret.
    Secret(EnvFromSecret),
    /// From a ConfigMap.
    ConfigMap(EnvFromConfigMap),
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

/// A map merged over a rendered object: maps by key, lists of named items by name, other lists replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Override {
    /// Which object.
    pub target: OverrideTarget,
    /// What to merge over it.
    pub merge: Map<String, Value>,
}

/// Which rendered object an override is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OverrideTarget {
    /// Its kind.
    pub kind: OverrideKind,
    /// Its name; all objects of the kind when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The kinds that stator renders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(clippy::enum_variant_names, reason = "these are Dynamo's own names")]
pub enum OverrideKind {
    /// The graph.
    DynamoGraphDeployment,
    /// The request.
    DynamoGraphDeploymentRequest,
    /// An adapter.
    DynamoModel,
    /// The cache.
    PersistentVolumeClaim,
}
