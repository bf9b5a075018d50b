//! How a model runs, component by component.

use super::env::{EnvValue, Secrets};
use super::pod::PodSettings;
use super::scaling::{Resources, Rollout, Scaling};
use super::storage::CompilationCache;
use crate::intent::scalar::{ComponentName, DynamoVersion, EnvName, ImageReference, Quantity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// How a model runs. One `worker` serves prefill and decode together; `prefill` and `decode` serve them apart.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Serving {
    /// The HTTP frontend and router. Rendered with its defaults when left out, unless an endpoint picker or a component of
    /// type `frontend` takes its place.
    pub frontend: Option<Box<Frontend>>,
    /// Aggregated serving.
    pub worker: Option<Box<Worker>>,
    /// Disaggregated serving: the prefill half.
    pub prefill: Option<Box<Worker>>,
    /// Disaggregated serving: the decode half.
    pub decode: Option<Box<Worker>>,
    /// True for a graph without a frontend, whose workers another graph's router calls. Defaults to false.
    pub headless: Option<bool>,
}

impl Serving {
    /// The workers that are given, by the field that each is written in.
    pub fn workers(&self) -> impl Iterator<Item = (&'static str, &Worker)> {
        let fields = [("worker", &self.worker), ("prefill", &self.prefill), ("decode", &self.decode)];
        fields.into_iter().filter_map(|(field, worker)| Some((field, worker.as_deref()?)))
    }

    /// The block size that a router must use: that of the workers whose KV events it follows.
    pub fn block_size(&self) -> Option<u32> {
        self.worker.as_ref().or(self.prefill.as_ref())?.block_size
    }

    /// The field that a component of the graph is written in, by the component's name.
    pub fn field_of_component(&self, component: &str) -> Option<&'static str> {
        let frontend = self.frontend.iter().map(|frontend| ("frontend", frontend.name.as_ref()));
        let workers = self.workers().map(|(field, worker)| (field, worker.name.as_ref()));
        let mut names = frontend.chain(workers);
        names.find(|(_, name)| name.is_some_and(|name| name.as_str() == component)).map(|(field, _)| field)
    }
}

/// The HTTP frontend and its router.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Frontend {
    /// The component's name in the graph. Defaults to `frontend`. Dynamo never renames a component: name it for a graph that exists
    /// under another name.
    pub name: Option<ComponentName>,
    /// Number of replicas. Defaults to 1.
    #[schemars(range(max = 10_000))]
    pub replicas: Option<u32>,
    /// Minimum replicas that must be up for the component to serve, where Grove runs the graph (Dynamo 1.3 and later).
    /// Dynamo never changes it in place; from 1.5 on, it defaults to 1.
    #[schemars(range(min = 1, max = 10_000))]
    pub min_available: Option<u32>,
    /// How requests are spread over workers. Defaults to Dynamo's own default, round-robin.
    #[schemars(extend("x-stator-synonyms" = ["routerMode"]))]
    pub router: Option<RouterMode>,
    /// Size of /dev/shm; `"0"` for none. Defaults to the operator's 8Gi.
    #[schemars(extend("x-stator-synonyms" = ["sharedMemorySize"]))]
    pub shared_memory: Option<Quantity>,
    /// Its own image, instead of the model's.
    pub image: Option<ImageReference>,
    /// The version of Dynamo in its own image. Dynamo 1.4 and later require it if the tag is not a version.
    pub runtime_version: Option<DynamoVersion>,
    /// CPU, memory and other resources.
    pub resources: Option<Resources>,
    /// The program, when `args` are not for `python3`; `[]` leaves it to the image.
    pub command: Option<Vec<String>>,
    /// A shell by its path, such as `/bin/sh`, that runs the first of `args` as its script (`-c`), instead of `command`.
    #[schemars(regex(pattern = "^[^\\s]+$"))]
    pub shell: Option<String>,
    /// A Python module that `python3 -m` runs with `args`, such as `dynamo.router`, instead of `command`.
    #[schemars(regex(pattern = "^[A-Za-z0-9_.]+$"))]
    pub module: Option<String>,
    /// Flags of the program by their own names, without dashes: `max-num-batched-tokens: 8192`. A switch is `true`, or `false`
    /// for its opposite; a list is several words, and a map is JSON. A flag that has a field is written by that.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(extend("x-stator-synonyms" = ["extraArgs", "engineArgs"]))]
    pub flags: Map<String, Value>,
    /// Arguments; they replace Dynamo's own command line, which starts with `-m dynamo.frontend`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Working directory of the program. Defaults to the image's.
    #[schemars(length(min = 1))]
    pub working_dir: Option<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-stator-synonyms" = ["envs"]))]
    pub env: BTreeMap<EnvName, EnvValue>,
    /// Secrets by name, instead of the model's. By default, a frontend gets only the model's image pull secrets.
    pub secrets: Option<Secrets>,
    /// Probes in Kubernetes' format, instead of the operator's own.
    pub probes: Option<Probes>,
    /// Fields of the pods by Kubernetes' names: affinity, volumes, security context, annotations, ….
    pub pod: Option<Box<PodSettings>>,
    /// A partial pod template, merged last.
    #[schemars(extend("x-stator-synonyms" = ["podTemplate", "extraPodSpec"]))]
    pub template: Option<Map<String, Value>>,
}

/// The command that `shell` or `module` stands for.
fn short_command(shell: Option<&String>, module: Option<&String>) -> Option<Vec<String>> {
    let of_shell = shell.map(|shell| vec![shell.clone(), "-c".to_owned()]);
    of_shell.or_else(|| module.map(|module| ["python3", "-m", module].map(str::to_owned).to_vec()))
}

impl Frontend {
    /// Its command, if it has one of its own: `command`, or what `shell` or `module` stands for.
    pub fn own_command(&self) -> Option<Vec<String>> {
        self.command.clone().or_else(|| short_command(self.shell.as_ref(), self.module.as_ref()))
    }
}

impl Worker {
    /// Its command, if it has one of its own: `command`, or what `shell` or `module` stands for.
    pub fn own_command(&self) -> Option<Vec<String>> {
        self.command.clone().or_else(|| short_command(self.shell.as_ref(), self.module.as_ref()))
    }
}

impl Component {
    /// Its command, empty if it has none: `command`, or what `shell` or `module` stands for.
    pub fn own_command(&self) -> Vec<String> {
        let short = || short_command(self.shell.as_ref(), self.module.as_ref()).unwrap_or_default();
        if self.command.is_empty() { short() } else { self.command.clone() }
    }
}

/// How the frontend spreads requests (`DYN_ROUTER_MODE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RouterMode {
    /// One after the other.
    RoundRobin,
    /// To a random worker.
    Random,
    /// To the less busy of two random workers.
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
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Worker {
    /// The component's name in the graph. Defaults to `worker`, `prefill` or `decode`. Dynamo never renames a component: name it for a graph that exists
    /// under another name.
    pub name: Option<ComponentName>,
    /// The component type in Dynamo. Defaults to that of their role; set it for a graph that exists with another type.
    #[serde(default, rename = "type")]
    #[schemars(extend("x-stator-synonyms" = ["componentType"]))]
    pub component_type: Option<ComponentType>,
    /// Number of replicas. Defaults to 1; with `scaling`, the initial number.
    #[schemars(range(max = 10_000))]
    pub replicas: Option<u32>,
    /// Minimum replicas that must be up for the component to serve, where Grove runs the graph (Dynamo 1.3 and later).
    /// Dynamo never changes it in place; from 1.5 on, it defaults to 1.
    #[schemars(range(min = 1, max = 10_000))]
    pub min_available: Option<u32>,
    /// GPUs of one replica, over all its nodes. Defaults to tensorParallel × pipelineParallel × dataParallel; `trtllm`
    /// shares them among data parallel ranks, and `mocker` has none.
    #[schemars(range(max = 1024))]
    pub gpus: Option<u32>,
    /// Nodes of one replica. Defaults to gpus / hardware.gpusPerNode, rounded up.
    #[schemars(range(min = 1, max = 128))]
    #[schemars(extend("x-stator-synonyms" = ["nodeCount"]))]
    pub nodes: Option<u32>,
    /// Tensor parallel size.
    #[schemars(range(min = 1, max = 1024))]
    pub tensor_parallel: Option<u32>,
    /// Pipeline parallel size.
    #[schemars(range(min = 1, max = 1024))]
    pub pipeline_parallel: Option<u32>,
    /// Data parallel size.
    #[schemars(range(min = 1, max = 1024))]
    pub data_parallel: Option<u32>,
    /// Expert parallel size, for mixtures of experts.
    #[schemars(range(min = 1, max = 1024))]
    pub expert_parallel: Option<u32>,
    /// Number type of weights and activations (`bfloat16`, `float16`, `auto`, …).
    #[schemars(length(min = 1))]
    pub dtype: Option<String>,
    /// Maximum sequences in one batch.
    #[schemars(range(min = 1))]
    pub max_sequences: Option<u32>,
    /// Maximum length of a sequence, prompt and answer together, in tokens.
    #[schemars(range(min = 1))]
    pub max_length: Option<u32>,
    /// Share of GPU memory that the engine may use, above 0 and at most 1.
    #[schemars(range(min = 0.01, max = 1.0))]
    pub memory_fraction: Option<f64>,
    /// Tokens in one KV block. With router `kv` the frontend gets the same value.
    #[schemars(range(min = 1))]
    pub block_size: Option<u32>,
    /// True to run without CUDA graphs: slower, and quicker to start. Defaults to false.
    pub eager: Option<bool>,
    /// True to run code that comes with the model's weights. Defaults to false.
    pub trust_remote_code: Option<bool>,
    /// Dynamo's parser for tool calls in answers, by name (`hermes`, `deepseek_v3`, …). Defaults to none.
    #[schemars(length(min = 1))]
    pub tool_call_parser: Option<String>,
    /// Dynamo's parser for reasoning in answers, by name (`deepseek_r1`, `gpt_oss`, …). Defaults to none.
    #[schemars(length(min = 1))]
    pub reasoning_parser: Option<String>,
    /// Size of /dev/shm; `"0"` for none. Defaults to the operator's 8Gi.
    #[schemars(extend("x-stator-synonyms" = ["sharedMemorySize"]))]
    pub shared_memory: Option<Quantity>,
    /// Its own image, instead of the model's.
    pub image: Option<ImageReference>,
    /// The version of Dynamo in its own image. Dynamo 1.4 and later require it if the tag is not a version.
    pub runtime_version: Option<DynamoVersion>,
    /// CPU, memory and other resources besides the GPUs.
    pub resources: Option<Resources>,
    /// The program, instead of the engine's whole command line; `args` then has all its arguments. `[]` leaves it to
    /// the image. In both, `<model>`, `<servedName>` and a field's name such as `<tensorParallel>` are replaced by
    /// their values.
    pub command: Option<Vec<String>>,
    /// A shell by its path, such as `/bin/sh`, that runs the first of `args` as its script (`-c`), instead of `command`.
    #[schemars(regex(pattern = "^[^\\s]+$"))]
    pub shell: Option<String>,
    /// A Python module that `python3 -m` runs with `args`, such as `dynamo.router`, instead of `command`.
    #[schemars(regex(pattern = "^[A-Za-z0-9_.]+$"))]
    pub module: Option<String>,
    /// Flags of the program by their own names, without dashes: `max-num-batched-tokens: 8192`. A switch is `true`, or `false`
    /// for its opposite; a list is several words, and a map is JSON. A flag that has a field is written by that.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(extend("x-stator-synonyms" = ["extraArgs", "engineArgs"]))]
    pub flags: Map<String, Value>,
    /// Arguments appended to the engine's command line; with `command`, all of them. `<--flag>` stands for a flag of
    /// the engine and the value of its field: if one is used, `args` has all arguments, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The engine's own configuration file, by its path in the container (TensorRT-LLM's `--extra-engine-args`); `files` puts it
    /// there.
    #[schemars(length(min = 1))]
    pub engine_config: Option<String>,
    /// Engine options that have no flag, as a map (TensorRT-LLM's `--override-engine-args`).
    pub engine_options: Option<Map<String, Value>>,
    /// The claim for the engine's compilation cache, so that later starts need not compile again.
    pub compilation_cache: Option<CompilationCache>,
    /// Working directory of the program. Defaults to the engine's.
    #[schemars(length(min = 1))]
    pub working_dir: Option<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-stator-synonyms" = ["envs"]))]
    pub env: BTreeMap<EnvName, EnvValue>,
    /// Secrets by name, instead of the model's; `{}` for none.
    pub secrets: Option<Secrets>,
    /// Autoscaling of the replicas, when git does not set them.
    pub scaling: Option<Scaling>,
    /// How these workers are replaced when they change.
    pub rollout: Option<Rollout>,
    /// Probes in Kubernetes' format, instead of the operator's own.
    pub probes: Option<Probes>,
    /// Fields of the pods by Kubernetes' names: affinity, volumes, security context, annotations, ….
    pub pod: Option<Box<PodSettings>>,
    /// A partial pod template, merged last.
    #[schemars(extend("x-stator-synonyms" = ["podTemplate", "extraPodSpec"]))]
    pub template: Option<Map<String, Value>>,
}

/// A further component of the graph.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Component {
    /// The component type in Dynamo. Omit it for a component without Dynamo's defaults, such as your own router.
    #[serde(default, rename = "type")]
    #[schemars(extend("x-stator-synonyms" = ["componentType"]))]
    pub component_type: Option<ComponentType>,
    /// Number of replicas. Defaults to 1.
    #[schemars(range(max = 10_000))]
    pub replicas: Option<u32>,
    /// Minimum replicas that must be up for the component to serve, where Grove runs the graph (Dynamo 1.3 and later).
    /// Dynamo never changes it in place; from 1.5 on, it defaults to 1.
    #[schemars(range(min = 1, max = 10_000))]
    pub min_available: Option<u32>,
    /// GPUs of one replica, over all its nodes.
    #[schemars(range(max = 1024))]
    pub gpus: Option<u32>,
    /// Nodes of one replica.
    #[schemars(range(min = 1, max = 128))]
    #[schemars(extend("x-stator-synonyms" = ["nodeCount"]))]
    pub nodes: Option<u32>,
    /// The component's own settings: a planner's `--config`, an endpoint picker's plugins.
    pub config: Option<Map<String, Value>>,
    /// The claim for the engine's compilation cache, so that later starts need not compile again.
    pub compilation_cache: Option<CompilationCache>,
    /// Size of /dev/shm; `"0"` for none.
    #[schemars(extend("x-stator-synonyms" = ["sharedMemorySize"]))]
    pub shared_memory: Option<Quantity>,
    /// Its own image, instead of the model's.
    pub image: Option<ImageReference>,
    /// The version of Dynamo in its own image. Dynamo 1.4 and later require it if the tag is not a version.
    pub runtime_version: Option<DynamoVersion>,
    /// CPU, memory and other resources besides the GPUs.
    pub resources: Option<Resources>,
    /// The command. A planner has one by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// A shell by its path, such as `/bin/sh`, that runs the first of `args` as its script (`-c`), instead of `command`.
    #[schemars(regex(pattern = "^[^\\s]+$"))]
    pub shell: Option<String>,
    /// A Python module that `python3 -m` runs with `args`, such as `dynamo.router`, instead of `command`.
    #[schemars(regex(pattern = "^[A-Za-z0-9_.]+$"))]
    pub module: Option<String>,
    /// Arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Working directory of the program. Defaults to the image's.
    #[schemars(length(min = 1))]
    pub working_dir: Option<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-stator-synonyms" = ["envs"]))]
    pub env: BTreeMap<EnvName, EnvValue>,
    /// Secrets by name, instead of the model's; `{}` for none.
    pub secrets: Option<Secrets>,
    /// Autoscaling of the replicas, when git does not set them.
    pub scaling: Option<Scaling>,
    /// How it is replaced when it changes.
    pub rollout: Option<Rollout>,
    /// Probes in Kubernetes' format, instead of the operator's own.
    pub probes: Option<Probes>,
    /// Fields of the pods by Kubernetes' names: affinity, volumes, security context, annotations, ….
    pub pod: Option<Box<PodSettings>>,
    /// A partial pod template, merged last.
    #[schemars(extend("x-stator-synonyms" = ["podTemplate", "extraPodSpec"]))]
    pub template: Option<Map<String, Value>>,
}

/// Whether a partial pod template names the image of `main`.
pub fn template_has_image(template: &Map<String, Value>) -> bool {
    let containers = template.get("spec").and_then(|spec| spec.get("containers")).and_then(Value::as_array);
    let mut mains = containers.into_iter().flatten().filter(|one| one.get("name").is_some_and(|name| name == "main"));
    mains.any(|main| main.get("image").is_some())
}

/// Probes of a component's container, each as Kubernetes writes one.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Probes {
    /// Until it succeeds, the others wait. Loading weights takes long.
    #[schemars(extend("x-stator-synonyms" = ["startupProbe"]))]
    pub startup: Option<Map<String, Value>>,
    /// When it fails, the container restarts.
    #[schemars(extend("x-stator-synonyms" = ["livenessProbe"]))]
    pub liveness: Option<Map<String, Value>>,
    /// While it fails, the pod gets no requests.
    #[schemars(extend("x-stator-synonyms" = ["readinessProbe"]))]
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
