//! `Model` → desired objects. Pure and deterministic to the byte; v1beta1 only.

mod adapter;
mod admission_check;
mod cache_claim;
mod command_lines;
mod component;
mod dgd_overrides;
mod download;
pub mod emit;
pub mod engine;
mod engine_arguments;
pub(crate) mod field_location;
mod graph;
mod graph_context;
pub mod hardware;
mod locked_graph;
mod manifests;
mod mounted_files;
mod object_metadata;
mod overrides;
mod planner;
mod pod;
pub mod profiling_result;
mod request;
mod route;
pub mod strategic_merge;
#[cfg(test)]
pub(crate) mod tests;

use crate::intent::model::{ReplacementOrder, Scaling};
use crate::intent::{Intent, ManifestObject};
pub use admission_check::count_deprecated;
pub use download::HUGGING_FACE_IMAGE;
pub use manifests::{complete_requests, is_job_of};
pub use mounted_files::{FILE_VOLUME_PREFIX, is_config_map_of, rename_config_maps};
use mounted_files::{RenderedFile, rendered_files};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Map, Value};
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::deprecations::Deprecation;
use stator_core::dynamo::gpus::ComponentGpus;
use stator_core::dynamo::graph_components::{named_components, with_replicas};
use stator_core::dynamo::kinds;
use stator_core::dynamo::replica_intent::{ReplicaIntent, ReplicaIntents};
use stator_core::dynamo::v1beta1::{GraphSpec, to_value};
use stator_core::finding::{self, Finding, Location, Rule};
use stator_core::object::{JsonText, Object, ObjectText};
use std::collections::BTreeMap;

/// The rules that rendering judges by; those of Dynamo's admission are in [`stator_core::dynamo::admission::rules::ALL`].
pub mod rules {
    stator_core::rules! {
        BLOCK_SIZE = "render/block-size", "Prefill and decode use KV blocks of one size.";
        COMMAND_LINE = "render/command-line", "A setting that a command line names has a value.";
        NOT_WITH_SLA = "render/not-with-sla", "Fields of a graph cannot be combined with `sla`.";
        PARALLEL_SIZE = "render/parallel-size", "A parallel size that an engine only switches on has the size that follows from the others.";
        PLANNER_SCALING = "render/planner-scaling", "A worker that a planner scales has `scaling` bounds.";
        SETTING_IGNORED = "render/setting-ignored", "A setting is one that its engine or component accepts.";
    }
}

/// When an object is applied; pruning goes the other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ApplyStage {
    /// What pods wait for: volumes and files that they mount, devices that they claim.
    Cache,
    /// What downloads weights onto a volume.
    Download,
    /// The graph or the request, once the weights that it serves are downloaded.
    Graph,
    /// Adapters, once the graph is Ready: an earlier load fails (`ai-runway#84`).
    Adapter,
    /// What clients reach the model by: Services and routes.
    Exposure,
}

impl ApplyStage {
    /// When objects of a kind are applied.
    pub fn of_kind(kind: &str) -> Self {
        let precedes_pods = [kinds::CLAIM, kinds::CONFIG_MAP, kinds::RESOURCE_CLAIM_TEMPLATE, kinds::COMPUTE_DOMAIN];
        if precedes_pods.iter().any(|one| one.kind == kind) {
            Self::Cache
        } else if kind == kinds::JOB.kind {
            Self::Download
        } else if kind == kinds::ADAPTER.kind {
            Self::Adapter
        } else if kind == kinds::SERVICE.kind || kind == kinds::HTTP_ROUTE.kind {
            Self::Exposure
        } else {
            Self::Graph
        }
    }
}

/// One rendered object: as a tree while it is worked on, as [`ObjectText`] while it is kept beside thousands of others.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedObject<T = Object> {
    /// The object, with labels, namespace, and without anything that a cluster fills in, or that is somebody else's to say.
    pub object: T,
    /// When it is applied.
    pub stage: ApplyStage,
    /// False for objects that are kept when the model goes (weights).
    pub prune: bool,
    /// Who says how many replicas the components of a graph have. Only counts that are git's are in `object`.
    pub replicas: ReplicaIntents,
    /// Between how many replicas they may decide, by component, where the intent gives bounds.
    pub replica_bounds: BTreeMap<String, (u64, u64)>,
    /// Where in the model's files it comes from.
    pub location: Location,
}

impl<T> RenderedObject<T> {
    /// The same around another form of the object.
    fn with_object<U>(self, form: impl FnOnce(T) -> U) -> RenderedObject<U> {
        let Self { object, stage, prune, replicas, replica_bounds, location } = self;
        RenderedObject { object: form(object), stage, prune, replicas, replica_bounds, location }
    }
}

impl RenderedObject<ObjectText> {
    /// With the object as a tree.
    pub fn parse(&self) -> RenderedObject {
        self.clone().with_object(|text| text.parse())
    }
}

impl RenderedObject {
    /// With the object as a text.
    pub fn into_text(self) -> RenderedObject<ObjectText> {
        self.with_object(ObjectText::from)
    }

    /// The object as it is first created: with the replicas that its components start with.
    pub fn with_initial_replicas(&self) -> Object {
        with_replicas(&self.object, &self.replicas.seeds())
    }

    /// How many replicas one of its components has when the object is first created.
    pub fn starting_replicas(&self, component: &ComponentGpus) -> u64 {
        self.replicas.get(&component.name).and_then(ReplicaIntent::count).unwrap_or(component.replicas)
    }
}

/// What one model renders to.
#[derive(Clone, Debug)]
pub struct RenderedModel<T = Object> {
    /// The model's name.
    pub model: String,
    /// Path of its `model.yaml` from the root.
    pub source: String,
    /// Its objects in apply order. Empty when there is an error.
    pub objects: Vec<RenderedObject<T>>,
    /// Errors (nothing may be applied) and warnings.
    pub findings: Vec<Finding>,
    /// What it uses that Dynamo gives up, each also a warning.
    pub deprecated: Vec<(Location, &'static Deprecation)>,
    /// Managers that may be overruled (`spec.takeOver`).
    pub take_over: Vec<String>,
    /// What comes first where its graph is replaced as a whole (`spec.rollout.replace`).
    pub replacement: ReplacementOrder,
    /// The `spec` that it was rendered from, with defaults and overlay merged: what the model's record keeps.
    pub intent: JsonText,
}

/// What one model renders to, as it is kept beside thousands of others.
pub type RenderedText = RenderedModel<ObjectText>;

impl RenderedModel {
    /// Its objects as texts: a tree takes some ten times as much memory.
    pub fn into_text(self) -> RenderedText {
        let Self { model, source, objects, findings, deprecated, take_over, replacement, intent } = self;
        let objects = objects.into_iter().map(RenderedObject::into_text).collect();
        RenderedModel { model, source, objects, findings, deprecated, take_over, replacement, intent }
    }
}

/// Where a model is rendered to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderTarget {
    /// The repository's name, for the label `stator.dev/repository`.
    pub repository: String,
    /// The environment's name, for the label `stator.dev/environment`.
    pub environment: String,
    /// The namespace.
    pub namespace: String,
    /// What the cluster has beside Dynamo's operator, as far as it is known.
    pub platform: Platform,
}

/// What rendering one model carries along: the intent, its files, where it goes, what was found on the way.
pub(crate) struct RenderContext<'a> {
    pub(crate) intent: &'a Intent,
    pub(crate) target: &'a RenderTarget,
    files: Vec<RenderedFile<'a>>,
    findings: Vec<Finding>,
    deprecated: Vec<(Location, &'static Deprecation)>,
}

impl RenderContext<'_> {
    fn error(&mut self, rule: Rule, path: &str, message: impl Into<String>, help: impl Into<String>) {
        self.findings.push(Finding::error(rule, self.intent.origins.locate(path), message, help));
    }

    fn warning(&mut self, rule: Rule, path: &str, message: impl Into<String>, help: impl Into<String>) {
        self.findings.push(Finding::warning(rule, self.intent.origins.locate(path), message, help));
    }
}

/// Renders one model. With an error among the findings there are no objects: half a model is never applied.
pub fn render(intent: &Intent, target: &RenderTarget) -> RenderedModel {
    let mut rendered = render_unchecked(intent, target);
    if rendered.findings.iter().any(Finding::is_error) {
        rendered.objects.clear();
    }
    rendered
}

/// Renders one model as far as it goes, whatever the findings say: to see what it lacks, never to apply it.
pub fn render_unchecked(intent: &Intent, target: &RenderTarget) -> RenderedModel {
    let mut context =
        RenderContext { intent, target, files: rendered_files(intent), findings: Vec::new(), deprecated: Vec::new() };
    let mut objects = render_objects(&mut context);
    objects.sort_by_key(|desired| desired.stage);
    let mut findings = context.findings;
    finding::sort_and_dedup(&mut findings);
    RenderedModel {
        model: intent.model.metadata.name.to_string(),
        source: intent.source.clone(),
        objects,
        findings,
        deprecated: context.deprecated,
        take_over: intent.model.spec.take_over.clone(),
        replacement: intent.model.spec.rollout.as_ref().and_then(|rollout| rollout.replace).unwrap_or_default(),
        // A spec was read from YAML, so its keys are texts, and writing it cannot fail.
        intent: serde_json::to_value(&intent.model.spec).unwrap_or_default().into(),
    }
}

/// The request of a model by target, whether its result is locked or not. `None` for a model that has none, or whose
/// request has errors, which [`render`] reports.
pub fn request(intent: &Intent, target: &RenderTarget) -> Option<Object> {
    intent.model.spec.sla.as_ref()?;
    let unlocked = Intent { lock: None, ..intent.clone() };
    let objects = render(&unlocked, target).objects;
    objects.into_iter().map(|desired| desired.object).find(|object| object.kind() == kinds::REQUEST.kind)
}

/// Renders many models on all cores, in the order given.
pub fn render_all(intents: &[Intent], target: &RenderTarget) -> Vec<RenderedModel> {
    intents.par_iter().map(|intent| render(intent, target)).collect()
}

fn render_objects(context: &mut RenderContext<'_>) -> Vec<RenderedObject> {
    let intent = context.intent;
    let model = &intent.model.spec;
    let mut drafts = Vec::with_capacity(2 + model.adapters.len());
    drafts.extend(cache_claim::draft_claims(context));
    // Nothing is downloaded for a graph that a profiler has yet to write.
    if model.serving.is_some() {
        drafts.extend(download::draft_job(context));
    }
    match (&model.serving, &model.sla) {
        (Some(_), Some(_)) => context.error(
            crate::intent::rules::MODEL_SHAPE,
            "spec.sla",
            "both `serving` and `sla` are set: one defines how the model runs, the other lets Dynamo's profiler choose",
            "keep one of them",
        ),
        (None, Some(sla)) => drafts.push(match &intent.lock {
            Some(lock) => locked_graph::draft_graph(context, lock),
            None => request::draft_request(context, sla),
        }),
        (Some(serving), None) => {
            let spec = graph::render_spec(context, serving);
            drafts.push(graph_draft(context, spec));
        }
        (None, None) => context.error(
            crate::intent::rules::MODEL_SHAPE,
            "spec",
            "neither `serving` nor `sla` is set, so there is nothing to run",
            "add `serving: {worker: {}}`, or targets under `sla`",
        ),
    }
    // A profiler writes a graph without them.
    if model.serving.is_some() || intent.lock.is_some() {
        drafts.extend(mounted_files::draft_config_maps(context));
    }
    adapter::add_drafts(context, &mut drafts);
    overrides::apply_overrides(context, &mut drafts);
    mounted_files::follow_config_maps(context, &mut drafts);
    route::add_draft(context, &mut drafts);
    manifests::add_drafts(context, &mut drafts);
    drafts.into_iter().filter_map(|draft| finish_object(context, draft)).collect()
}

/// An object on its way: overrides and checks come before it is [`RenderedObject`].
#[derive(Debug)]
pub(crate) struct ObjectDraft {
    /// Which kind.
    pub(crate) kind: kinds::ObjectKind,
    /// The whole object.
    pub(crate) value: Map<String, Value>,
    /// Where in the intent it comes from, for findings.
    pub(crate) path: String,
    stage: ApplyStage,
    prune: bool,
}

fn graph_draft(context: &RenderContext<'_>, spec: GraphSpec) -> ObjectDraft {
    let name = context.intent.model.metadata.name.as_str();
    ObjectDraft {
        kind: kinds::GRAPH,
        value: object_metadata::new_object(context, kinds::GRAPH, name, to_value(&spec), true),
        path: "spec".to_owned(),
        stage: ApplyStage::Graph,
        prune: true,
    }
}

/// Judges a draft as Dynamo's admission would, and reads who says how many replicas its components have: here, as an
/// override may have changed the counts, and who scales.
fn finish_object(context: &mut RenderContext<'_>, draft: ObjectDraft) -> Option<RenderedObject> {
    let ObjectDraft { kind, mut value, path, stage, prune } = draft;
    let replicas = if kind == kinds::GRAPH { ReplicaIntents::take_from(&mut value) } else { ReplicaIntents::default() };
    match Object::from_value(Value::Object(value)) {
        Ok(object) => {
            admission_check::check_admission(context, &object, &path);
            let location = location_of(context.intent, &object, &path);
            let bounds = if kind == kinds::GRAPH { scaling_bounds(context, &object) } else { BTreeMap::new() };
            Some(RenderedObject { object, stage, prune, replicas, replica_bounds: bounds, location })
        }
        Err(reason) => {
            context.error(
                crate::intent::rules::MODEL_OVERRIDE,
                "spec.overrides",
                format!("the {} is no longer a valid object: {reason}", kind.kind),
                "remove the override of `apiVersion`, `kind` or `metadata`",
            );
            None
        }
    }
}

/// Where an object was written: in a file of its own, or as the field of the model that it is made of.
fn location_of(intent: &Intent, object: &Object, path: &str) -> Location {
    let is_written = |one: &&ManifestObject| one.kind.kind == object.kind() && one.name == object.name();
    match intent.manifests.iter().find(is_written) {
        Some(manifest) => manifest.locate(&intent.origins, ""),
        None => intent.origins.locate(path),
    }
}

/// The bounds of `scaling`, of the components that the graph really has.
fn scaling_bounds(context: &RenderContext<'_>, graph: &Object) -> BTreeMap<String, (u64, u64)> {
    let Some(serving) = &context.intent.model.spec.serving else { return BTreeMap::new() };
    let workers = serving.workers().map(|(name, own)| (name, own.scaling));
    let further = context.intent.model.spec.components.iter().map(|(name, own)| (name.as_str(), own.scaling));
    let there = |name: &str| named_components(graph.spec()).any(|(component, _)| component == name);
    workers
        .chain(further)
        .filter_map(|(name, scaling)| match scaling? {
            Scaling::Bounds(bounds) => Some((name, (u64::from(bounds.min), u64::from(bounds.max)))),
            Scaling::External(_) => None,
        })
        .filter(|(name, _)| there(name))
        .map(|(name, bounds)| (name.to_owned(), bounds))
        .collect()
}
