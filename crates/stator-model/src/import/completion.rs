//! A guess made whole: what it renders is held against the target, and what is left over goes into `template` and
//! `overrides`.

use super::remainder::{self, RemainderPatch};
use crate::intent::model::{Model, Override, OverrideKind, OverrideTarget};
use crate::intent::{FieldOrigins, Intent};
use crate::render::{self, RenderTarget, RenderedObject};
use serde_json::{Map, Value, json};
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::equivalence;
use stator_core::dynamo::graph_components::named_components;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::dynamo::release::Release;
use stator_core::fields;
use stator_core::object::{FieldPath, KeyValue, Object, PathSegment};
use std::collections::BTreeMap;

/// How often a remainder may be added to what the last one left. The second round is for lists that a template merges
/// in another order.
const MAX_COMPLETION_ROUNDS: usize = 3;

/// Where guesses are rendered to. The namespace is the environment's to say, so any will do.
pub fn place(release: Release) -> RenderTarget {
    RenderTarget {
        repository: "import".to_owned(),
        environment: "import".to_owned(),
        namespace: "default".to_owned(),
        platform: Platform { dynamo: Some(release), ..Platform::default() },
    }
}

/// What a model renders to, whatever else may be said of it.
pub fn render_objects(model: &Model) -> Vec<RenderedObject> {
    let intent = Intent {
        source: "model.yaml".to_owned(),
        model: model.clone(),
        origins: FieldOrigins::default(),
        files: BTreeMap::new(),
        manifests: Vec::new(),
        lock: None,
    };
    // The newest release has every field.
    render::render_unchecked(&intent, &place(Release::V1_5)).objects
}

/// The object of a kind that a model renders to, with the replicas that a new one starts with.
pub fn render_object(model: &Model, kind: ObjectKind, name: Option<&str>) -> Option<Object> {
    let fits = |object: &Object| object.kind() == kind.kind && name.is_none_or(|name| object.name() == name);
    render_objects(model).iter().map(RenderedObject::with_initial_replicas).find(fits)
}

/// The arguments that each component of the graph renders to, by its name.
pub fn rendered_args(model: &Model) -> BTreeMap<String, Vec<String>> {
    let Some(graph) = render_object(model, kinds::GRAPH, None) else { return BTreeMap::new() };
    named_components(graph.spec())
        .map(|(name, component)| {
            let args = component.get("podTemplate").and_then(|pod| pod.pointer("/spec/containers/0/args"));
            let texts = args.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
            (name.to_owned(), texts.map(str::to_owned).collect())
        })
        .collect()
}

/// Whether a model renders a graph.
pub fn renders_graph(model: &Model, graph: &Value) -> bool {
    render_object(model, kinds::GRAPH, None)
        .is_some_and(|object| equivalence::differences(object.value(), graph).is_empty())
}

/// Fills in what the API server would, of a kind whose schema is known.
pub fn fill_defaults(value: &mut Value) {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    if let Some(schema) = fields::bundled_schema(text("apiVersion"), text("kind")) {
        fields::apply_defaults(schema, value);
    }
}

/// Whether a rendered object is a manifest but for labels of the model, which are on all that is the model's.
pub fn differs_by_labels_only(rendered: &Value, manifest: &Value, model: &Model) -> bool {
    let labels = FieldPath::from_fields(["metadata", "labels"]);
    let is_models = |path: &FieldPath| {
        *path == labels || path.last_field().is_some_and(|key| model.metadata.labels.keys().any(|own| own == key))
    };
    let differences = equivalence::differences(manifest, rendered);
    differences.iter().all(|one| one.left.is_none() && one.path.starts_with(&labels) && is_models(&one.path))
}

/// Puts into the model what it lacks to render the target.
pub fn complete_model(model: &mut Model, target: &Value, kind: OverrideKind) {
    let (of, name) = match kind {
        OverrideKind::DynamoGraphDeployment => (kinds::GRAPH, None),
        OverrideKind::DynamoGraphDeploymentRequest => (kinds::REQUEST, None),
        OverrideKind::DynamoModel => (kinds::ADAPTER, target.pointer("/metadata/name").and_then(Value::as_str)),
        OverrideKind::PersistentVolumeClaim => (kinds::CLAIM, None),
        OverrideKind::Job => (kinds::JOB, None),
    };
    for _ in 0..MAX_COMPLETION_ROUNDS {
        let Some(object) = render_object(model, of, name) else { return };
        if equivalence::differences(object.value(), target).is_empty() {
            return;
        }
        let (have, want) = (user_fields(object.value()), user_fields(target));
        if kind == OverrideKind::DynamoGraphDeployment {
            add_graph_remainder(
                model,
                significant_remainder(remainder::between(&have, &want, &FieldPath::root()), object.value()),
            );
        } else {
            let rest = significant_remainder(remainder::between(&have, &want, &FieldPath::root()), object.value());
            add_override(model, kind, name, rest);
        }
    }
}

/// An object without what an intent cannot say, or says elsewhere. Labels and annotations are always there, so that
/// what one of two lacks is reported label by label.
fn user_fields(object: &Value) -> Map<String, Value> {
    let mut all = Map::new();
    if let Some(spec) = object.get("spec").filter(|spec| spec.as_object().is_some_and(|spec| !spec.is_empty())) {
        all.insert("spec".to_owned(), spec.clone());
    }
    let keys = |field: &str| {
        let keys = object.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_object);
        let own = keys.into_iter().flatten().filter(|(key, _)| !equivalence::is_reserved_key(key));
        Value::Object(own.map(|(key, value)| (key.clone(), value.clone())).collect())
    };
    all.insert("metadata".to_owned(), json!({"labels": keys("labels"), "annotations": keys("annotations")}));
    all
}

/// What of a remainder counts: a field that the rendered object has and the target lacks does not, when it is one that
/// an API server would fill in.
fn significant_remainder(rest: RemainderPatch, object: &Value) -> RemainderPatch {
    let whole = equivalence::normalize_document(object);
    let matters = |path: &FieldPath| {
        let mut without = object.clone();
        path.remove_from(&mut without);
        equivalence::normalize_document(&without) != whole
    };
    RemainderPatch { merge: rest.merge, remove: rest.remove.into_iter().filter(matters).collect() }
}

/// A pod's remainder goes into the template of its component, all else into an override.
fn add_graph_remainder(model: &mut Model, rest: RemainderPatch) {
    let RemainderPatch { mut merge, mut remove } = rest;
    let components = merge.get_mut("spec").and_then(|spec| spec.get_mut("components")).and_then(Value::as_array_mut);
    for component in components.into_iter().flatten().filter_map(Value::as_object_mut) {
        let name = component.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(Value::Object(pod)) = component.get("podTemplate") else { continue };
        // What is removed below is removed after the template is merged: such a part has to come later.
        let here = FieldPath::from_fields(["spec", "components"])
            .join(PathSegment::Key([("name".to_owned(), KeyValue::new(&name.as_str().into()))].into()))
            .field("podTemplate");
        let later: Vec<&FieldPath> = remove.iter().filter(|path| path.starts_with(&here)).collect();
        let clash = later.iter().any(|path| path_exists(pod, path.0.get(here.0.len()..).unwrap_or_default()));
        if !clash && let Some(template) = template_of(model, &name) {
            render::strategic_merge::merge_maps(template, Some(pod));
            component.remove("podTemplate");
        }
    }
    let emptied =
        |component: &Value| component.as_object().is_some_and(|map| map.len() == 1 && map.contains_key("name"));
    if let Some(Value::Object(spec)) = merge.get_mut("spec") {
        if let Some(Value::Array(components)) = spec.get_mut("components") {
            components.retain(|component| !emptied(component));
            if components.is_empty() {
                spec.remove("components");
            }
        }
        if spec.is_empty() {
            merge.remove("spec");
        }
    }
    remove.sort();
    add_override(model, OverrideKind::DynamoGraphDeployment, None, RemainderPatch { merge, remove });
}

/// Whether a path leads to something in a partial map.
fn path_exists(map: &Map<String, Value>, path: &[PathSegment]) -> bool {
    let mut probe = Value::Object(map.clone());
    FieldPath(path.to_vec()).remove_from(&mut probe)
}

/// The template of the component of a name, made when it is not there.
fn template_of<'a>(model: &'a mut Model, name: &str) -> Option<&'a mut Map<String, Value>> {
    let spec = &mut model.spec;
    let role = spec.serving.as_ref().and_then(|serving| {
        let default = ["frontend", "worker", "prefill", "decode"].into_iter().find(|role| *role == name);
        serving.field_of_component(name).or(default)
    });
    if let Some((_, component)) = spec.components.iter_mut().find(|(known, _)| known.as_str() == name) {
        return Some(component.template.get_or_insert_default());
    }
    let serving = spec.serving.as_mut()?;
    let template = match role? {
        "frontend" => &mut serving.frontend.as_mut()?.template,
        "worker" => &mut serving.worker.as_mut()?.template,
        "prefill" => &mut serving.prefill.as_mut()?.template,
        _ => &mut serving.decode.as_mut()?.template,
    };
    Some(template.get_or_insert_default())
}

/// Adds a remainder to the model's overrides: to the one of the same target, where there is one.
fn add_override(model: &mut Model, kind: OverrideKind, name: Option<&str>, rest: RemainderPatch) {
    if rest.merge.is_empty() && rest.remove.is_empty() {
        return;
    }
    let overrides = &mut model.spec.overrides;
    let name = name.map(str::to_owned);
    let same = |one: &&mut Override| one.target.kind == kind && one.target.name == name;
    let remove = rest.remove.iter().filter_map(|path| path.to_string().parse().ok());
    match overrides.iter_mut().find(same) {
        Some(one) => {
            render::strategic_merge::merge_maps(&mut one.merge, Some(&rest.merge));
            one.remove.extend(remove);
        }
        None => overrides.push(Override {
            target: OverrideTarget { kind, name },
            merge: rest.merge,
            remove: remove.collect(),
        }),
    }
}
