//! How a model runs, component by component.

use super::env::{EnvValue, Secrets};
use super::scaling::{Resources, Rollout, Scaling};
use crate::intent::scalar::{ComponentName, EnvName, ImageReference, Quantity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

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
    /// True for a graph without a frontend, whose workers another graph's router calls. Defaults to false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headless: Option<bool>,
}

impl Serving {
    /// The field that a component of the graph is written in, by the component's name.
    pub fn field_of_component(&self, component: &str) -> Option<&'static str> {
        let names = [
            ("frontend", self.frontend.as_ref().and_then(|frontend| frontend.name.as_ref())),
            ("worker", self.worker.as_ref().and_then(|worker| worker.name.as_ref())),
            ("prefill", self.prefill.as_ref().and_then(|worker| worker.name.as_ref())),
            ("decode", self.decode.as_ref().and_then(|worker| worker.name.as_ref())),
        ];
        names.into_iter().find(|(_, name)| name.is_some_and(|name| name.as_str() == component)).map(|(role, _)| role)
    }
}

/// The HTTP frontend and its router.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Frontend {
    /// The component's name in the graph. Defaults to `frontend`. Dynamo never renames a component: name it for a graph that exists
    /// under another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<ComponentName>,
    /// How many. Defaults to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10_000))]
    pub replicas: Option<u32>,
    /// How requests are spread over workers. Defaults to Dynamo's own default, round-robin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterMode>,
    /// Its own image, instead of the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageReference>,
    /// CPU, memory and other resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// The program, when `args` are not for `python3`; `[]` leaves it to the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Arguments; they replace Dynamo's own command line, which starts with `-m dynamo.frontend`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The directory that the program starts in. Defaults to the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub working_dir: Option<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<EnvName, EnvValue>,
    /// Secrets by name, in place of the model's, of which a frontend takes those that images are pulled with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Secrets>,
    /// Probes in Kubernetes' format, instead of the operator's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Probes>,
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
    /// To a random worker.
    Random,
    /// The less busy of two picked by chance.
    PowerOfTwo,
    /// To the worker that already holds the prompt's KV blocks.
    Kv,
    /// To the worker that the caller names; for an endpoint picker.
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
    /// The component's name in the graph. Defaults to `worker`, `prefill` or `decode`. Dynamo never renames a component: name it for a graph that exists
    /// under another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<ComponentName>,
    /// The component type in Dynamo. Defaults to that of their role; set it for a graph that exists with another type.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub component_type: Option<ComponentType>,
    /// How many. Defaults to 1; with `scaling`, how many to start with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10_000))]
    pub replicas: Option<u32>,
    /// GPUs of one replica, over all its nodes. Defaults to tensorParallel × pipelineParallel × dataParallel; `trtllm`
    /// shares them among data parallel ranks, and `mocker` has none.
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
    /// Tokens in one KV block. With router `kv` the frontend gets the same value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub block_size: Option<u32>,
    /// Size of /dev/shm; `"0"` for none. Defaults to the operator's 8Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_memory: Option<Quantity>,
    /// Its own image, instead of the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageReference>,
    /// CPU, memory and other resources besides the GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// The program, in place of the engine's whole command line, of which `args` is then the rest; `[]` leaves it to the
    /// image. In both, `<model>`, `<servedName>` and a field's name such as `<tensorParallel>` are replaced by their
    /// values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Arguments appended to the engine's command line; with `command`, all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Engine options that have no flag, as a map (TensorRT-LLM's `--override-engine-args`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_options: Option<Map<String, Value>>,
    /// The directory that the program starts in. Defaults to what the engine needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub working_dir: Option<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<EnvName, EnvValue>,
    /// Secrets by name, in place of the model's; `{}` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Secrets>,
    /// Who decides how many replicas run, when git does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// How these workers are replaced when they change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// Probes in Kubernetes' format, instead of the operator's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Probes>,
    /// A partial pod template, merged last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Map<String, Value>>,
}

/// A further component of the graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Component {
    /// The component type in Dynamo. Omit it for a component without Dynamo's defaults, such as your own router.
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
    /// Its own image, instead of the model's.
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
    /// The directory that the program starts in. Defaults to the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub working_dir: Option<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<EnvName, EnvValue>,
    /// Secrets by name, in place of the model's; `{}` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Secrets>,
    /// Who decides how many replicas run, when git does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// How it is replaced when it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// Probes in Kubernetes' format, instead of the operator's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Probes>,
    /// A partial pod template, merged last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Map<String, Value>>,
}

/// Whether a partial pod template names the image of `main`.
pub fn template_has_image(template: &Map<String, Value>) -> bool {
    let containers = template.get("spec").and_then(|spec| spec.get("containers")).and_then(Value::as_array);
    let mut mains = containers.into_iter().flatten().filter(|one| one.get("name").is_some_and(|name| name == "main"));
    mains.any(|main| main.get("image").is_some())
}

/// Probes of a component's container, each as Kubernetes writes one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Probes {
    /// Until it succeeds, the others wait. Loading weights takes long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup: Option<Map<String, Value>>,
    /// When it fails, the container is started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liveness: Option<Map<String, Value>>,
    /// While it fails, no requests come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness: Option<Map<String, Value>>,
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

impl ComponentType {
    /// True for the types whose pods are the graph's workers.
    pub fn is_worker(self) -> bool {
        match self {
            Self::Worker | Self::Prefill | Self::Decode => true,
            Self::Frontend | Self::Planner | Self::Epp => false,
        }
    }
}
