//! The intent's types: `Model`, and what it is made of.
//!
//! The JSON Schema, `stator explain` and `docs/reference/model.md` are generated from these files: a doc comment here is
//! what a user reads there. Field order here is the canonical order that `stator fmt` writes.

mod env;
mod hardware;
mod manifests;
mod overrides;
mod pod;
mod replica;
mod route;
mod scaling;
mod serving;
mod sla;
mod storage;
mod weights;
mod weights_source;

pub use super::scalar::CountOrPercent;
pub use env::{EnvFromConfigMap, EnvFromField, EnvFromResource, EnvFromSecret, EnvValue, GraphVariable, Secrets};
pub use hardware::{GpuSku, Hardware};
pub use manifests::Manifest;
pub use overrides::{Override, OverrideKind, OverrideTarget, STATOR_LABELS, is_identity_path};
pub use pod::{ImagePullPolicy, MountedFile, PodSettings};
pub use replica::ReplicaSize;
pub use route::{Route, RouteCanary, RouteGateway};
pub use scaling::{
    ExternalScaling, ModelRollout, ReplacementOrder, Resources, Rollout, RolloutStrategy, Scaling, ScalingBounds,
};
pub use serving::{Component, ComponentType, Frontend, Probes, RouterMode, Serving, Worker, template_has_image};
pub use sla::{Optimize, Search, Sla, SlaWorker, Workload};
pub use storage::{AccessMode, Adapter, Cache, CompilationCache};
pub use weights::{Weights, WeightsClaim, WeightsLoad};
pub use weights_source::{WeightsRevision, WeightsSource, WeightsSourceFault};

use crate::intent::scalar::{
    ComponentName, DnsName, DynamoVersion, EnvName, FieldPathText, FileName, ImageReference, ImageRegistry, LabelValue,
    ModelName, RuntimeVersion,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
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
