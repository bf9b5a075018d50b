//! The intent's types: `Model`, and what it is made of.
//!
//! The JSON Schema, `stator explain` and `docs/reference/model.md` are generated from these files: a doc comment here is
//! what a user reads there. Field order here is the canonical order that `stator fmt` writes.

mod env;
mod hardware;
mod overrides;
mod pod;
mod replica;
mod scaling;
mod serving;
mod sla;
mod storage;
mod weights;
mod weights_source;

pub use super::scalar::CountOrPercent;
pub use env::{EnvFromConfigMap, EnvFromField, EnvFromResource, EnvFromSecret, EnvValue, GraphVariable, Secrets};
pub use hardware::{GpuSku, Hardware};
pub use overrides::{Override, OverrideKind, OverrideTarget, STATOR_LABELS, is_identity_path};
pub use pod::{ImagePullPolicy, MountedFile, PodSettings};
pub use replica::ReplicaSize;
pub use scaling::{
    ExternalScaling, ModelRollout, ReplacementOrder, Resources, Rollout, RolloutStrategy, Scaling, ScalingBounds,
};
pub use serving::{Component, ComponentType, Frontend, Probes, RouterMode, Serving, Worker, template_has_image};
pub use sla::{Optimize, Search, Sla, SlaWorker, Workload};
pub use storage::{AccessMode, Adapter, Cache, CompilationCache};
pub use weights::{SelectedWeights, Weights, WeightsClaim, WeightsDownload, WeightsLoad, WeightsPart, WeightsSources};
pub use weights_source::{WeightsRevision, WeightsSource, WeightsSourceFault};

use crate::intent::scalar::{
    ComponentName, DnsName, DynamoVersion, EnvName, FieldPathText, FileName, Hostname, ImageReference, ImageRegistry,
    LabelValue, ModelName, RoutePath, RouteTimeout, RuntimeVersion, VolumeName,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;
use stator_core::dynamo::registry;
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

/// What to serve and how. Set `serving` to define how it runs, or `sla` to let Dynamo's profiler choose.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelSpec {
    /// The model to serve: a Hugging Face id, or a path inside the cache.
    #[schemars(length(min = 1))]
    pub model: String,
    /// The name that clients ask for. Defaults to `model`.
    #[schemars(length(min = 1))]
    pub served_name: Option<String>,
    /// The engine that runs the model. `auto` is only possible with `sla`.
    pub engine: Engine,
    /// Whether the graph names its engine (`spec.backendFramework`). Defaults to `declared`. Dynamo never changes it in
    /// place, so `detected` is for an existing graph without it.
    pub backend_framework: Option<BackendFramework>,
    /// The Dynamo runtime version: `1.2.0` selects NVIDIA's image for the engine at that tag.
    pub runtime: Option<RuntimeVersion>,
    /// A full image reference, instead of `runtime`.
    pub image: Option<ImageReference>,
    /// The version of Dynamo in `image`. Dynamo 1.4 and later require it if the tag is not a version; for older
    /// releases, stator omits it.
    pub runtime_version: Option<DynamoVersion>,
    /// Registry of the images that `runtime` selects, under NVIDIA's names for them. Defaults to `nvcr.io/nvidia/ai-dynamo`.
    pub image_registry: Option<ImageRegistry>,
    /// The GPUs to run on.
    pub hardware: Option<Hardware>,
    /// How the model runs, component by component: becomes a DynamoGraphDeployment.
    pub serving: Option<Serving>,
    /// Settings for every worker of `serving`, of every role; a worker's own settings take precedence. For defaults
    /// of models that are served in different ways. A merged model has them in each worker.
    pub workers: Option<Box<Worker>>,
    /// Targets to reach: becomes a DynamoGraphDeploymentRequest, whose profiler chooses the deployment.
    pub sla: Option<Sla>,
    /// LoRA adapters; each becomes a DynamoModel, applied once the graph is Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adapters: Vec<Adapter>,
    /// The volume that holds the weights.
    pub cache: Option<Cache>,
    /// Weights to download to a volume before the model is served from them.
    pub weights: Option<Weights>,
    /// Files that pods mount, by name: an engine's configuration, a chat template.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<FileName, MountedFile>,
    /// Requests of a gateway to route to the model.
    pub route: Option<Route>,
    /// Secrets by name, never by value.
    pub secrets: Option<Secrets>,
    /// Environment variables of every worker and further component.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<EnvName, EnvValue>,
    /// Environment variables of every pod of the graph, including the frontend's: a list, as in the graph itself.
    /// Dynamo's operator adds its own variables, where a pod does not set them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub graph_env: Vec<GraphVariable>,
    /// Pod fields of every component, by Kubernetes' names; a component's own `pod` takes precedence.
    pub pod: Option<Box<PodSettings>>,
    /// How workers are replaced when they change, unless a component sets its own; and the graph, where it cannot be
    /// changed in place.
    pub rollout: Option<ModelRollout>,
    /// The priority class of the graph as a whole, where Grove runs it (Dynamo 1.3 and later). Pods have their own under `pod`.
    pub priority_class_name: Option<DnsName>,
    /// A new value restarts the graph once, one component after the other. Creating a graph does not restart it.
    #[schemars(length(min = 1))]
    pub restart: Option<String>,
    /// Further components of the graph by name: a planner, an endpoint picker, your own router.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub components: BTreeMap<ComponentName, Component>,
    /// Field managers whose changes stator may take back by force when they conflict (`kubectl-edit`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub take_over: Vec<String>,
    /// Other objects of the namespace that belong to the model: ConfigMaps, volume claims, Services and others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<Manifest>,
    /// Last resort: maps merged over the rendered objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Override>,
    /// Fields of weaker layers to remove, by their paths below `spec`: `serving.worker.args`, `env.HF_HOME`. Items of
    /// lists have no paths. The merged model does not have these fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<FieldPathText>,
}

impl ModelSpec {
    /// NVIDIA's image of a name at the model's runtime version, from the registry that the model names.
    pub fn runtime_image(&self, name: &str) -> Option<String> {
        let registry = self.image_registry.as_ref().map_or(registry::IMAGE_REGISTRY, ImageRegistry::as_str);
        self.runtime.as_ref().map(|version| registry::image_reference(registry, name, version.as_str()))
    }
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
    /// Your own program: each worker sets its `command` and `image`.
    Custom,
    /// Let the profiler choose; only with `sla`.
    Auto,
}

/// Whether the graph names its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BackendFramework {
    /// It does.
    Declared,
    /// It does not: Dynamo's operator reads it off the workers' command lines.
    Detected,
}

/// An object of the namespace that belongs to the model, as it is: a ConfigMap, a PersistentVolumeClaim, a
/// ResourceClaimTemplate or a ComputeDomain, which come before the graph, or a Service or an HTTPRoute, which follow it. With
/// `from`, a YAML file of such objects.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// Path of a YAML file of objects, relative to the folder of `model.yaml`, instead of the object itself. It may
    /// hold several documents. At most 1 MiB.
    #[schemars(length(min = 1, max = 1024))]
    pub from: Option<String>,
    /// The group and version of the object: `v1`.
    #[schemars(length(min = 1))]
    pub api_version: Option<String>,
    /// The kind of the object.
    #[schemars(length(min = 1))]
    pub kind: Option<String>,
    /// Its name, labels and annotations. The namespace is the environment's.
    pub metadata: Option<Map<String, Value>>,
    /// Its spec; a ConfigMap has none.
    pub spec: Option<Map<String, Value>>,
    /// The texts of a ConfigMap.
    pub data: Option<Map<String, Value>>,
    /// The bytes of a ConfigMap, in base64.
    pub binary_data: Option<Map<String, Value>>,
    /// Whether a ConfigMap is immutable. Defaults to false.
    pub immutable: Option<bool>,
}

impl Manifest {
    /// The object, without the path of a file.
    pub fn to_object(&self) -> Map<String, Value> {
        let object = Self { from: None, ..self.clone() };
        // It was read from YAML, so its keys are texts, and writing it cannot fail.
        match serde_json::to_value(object) {
            Ok(Value::Object(fields)) => fields,
            Ok(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) | Err(_) => {
                Map::new()
            }
        }
    }
}

/// HTTP requests of a gateway to route to the model: becomes an HTTPRoute of the Gateway API, applied once the graph is
/// Healthy. They go to the graph's frontend, or to the InferencePool of its endpoint picker if it has one.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Route {
    /// The HTTPRoute's name. Defaults to the model's; for one that exists under another name.
    pub name: Option<DnsName>,
    /// The Gateway that takes the requests.
    pub gateway: RouteGateway,
    /// The hosts that clients ask for: `chat.example.com`, `*.example.com`. Defaults to those of the gateway's listeners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub hostnames: Vec<Hostname>,
    /// Path prefix of the HTTP requests. Defaults to `/`.
    pub path: Option<RoutePath>,
    /// Timeout of an HTTP request, including its whole answer: `300s`. Defaults to the gateway's.
    pub timeout: Option<RouteTimeout>,
    /// A share of the requests that goes to another model.
    pub canary: Option<RouteCanary>,
}

/// The Gateway of a route, as in `parentRefs` of an HTTPRoute.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteGateway {
    /// The Gateway's name.
    pub name: DnsName,
    /// Its namespace. Defaults to the environment's.
    pub namespace: Option<VolumeName>,
    /// Its listener. Defaults to all listeners that accept the hosts.
    pub section_name: Option<DnsName>,
}

/// Another model that gets a share of the requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteCanary {
    /// The other model, of the same environment.
    #[schemars(extend("x-stator-refers-to" = "model"))]
    pub model: ModelName,
    /// Percentage of the HTTP requests that go to it; the others go to this model.
    #[schemars(range(min = 0, max = 100))]
    pub weight: u32,
}

impl Route {
    /// What the paths of the requests begin with.
    pub fn path(&self) -> &str {
        self.path.as_ref().map_or("/", RoutePath::as_str)
    }
}
