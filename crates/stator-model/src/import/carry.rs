//! A guess made whole: what it renders is held against the target, and what is left over goes into `template` and
//! `overrides`.

use super::remainder::{self, Remainder};
use crate::intent::model::{Model, Override, OverrideKind, OverrideTarget};
use crate::intent::{Intent, Origins};
use crate::render::{self, Desired, Target};
use serde_json::{Map, Value, json};
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::equivalence;
use stator_core::dynamo::kinds::{self, Kind};
use stator_core::dynamo::registry::MAIN_CONTAINER;
use stator_core::object::{FieldPath, KeyValue, Object, Segment};
use std::collections::BTreeMap;

/// How often a remainder may be added to what the last one left. The second round is for lists that a template merges
/// in another order.
const ROUNDS: usize = 3;

/// Where guesses are rendered to. The namespace is the environment's to say, so any will do.
pub fn place() -> Target {
    Target {
        repository: "import".to_owned(),
        environment: "import".to_owned(),
        namespace: "default".to_owned(),
        platform: Platform::default(),
    }
}

/// What a model renders to, whatever else may be said of it.
pub fn attempt(model: &Model) -> Vec<Desired> {
    let intent =
        Intent { source: "model.yaml".to_owned(), model: model.clone(), origins: Origins::default(), lock: None };
    render::attempt(&intent, &place()).objects
}

/// The object of a kind that a model renders to, with the replicas that a new one starts with.
pub fn rendered(model: &Model, kind: Kind, name: Option<&str>) -> Option<Object> {
    let fits = |object: &Object| object.kind() == kind.kind && name.is_none_or(|name| object.name() == name);
    attempt(model).iter().map(Desired::seeded).find(fits)
}

/// The arguments that each component of the graph renders to, by its name.
pub fn args_of_workers(model: &Model) -> BTreeMap<String, Vec<String>> {
    let Some(graph) = rendered(model, kinds::GRAPH, None) else { return BTreeMap::new() };
    components(graph.value())
        .into_iter()
        .map(|(name, component)| {
            let args = component.get("podTemplate").and_then(|pod| pod.pointer("/spec/containers/0/args"));
            let texts = args.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
            (name.to_owned(), texts.map(str::to_owned).collect())
        })
        .collect()
}

/// Whether a model renders a graph.
pub fn renders(model: &Model, graph: &Value) -> bool {
    rendered(model, kinds::GRAPH, None).is_some_and(|object| equivalence::differences(object.value(), graph).is_empty())
}

fn components(graph: &Value) -> BTreeMap<&str, &Map<String, Value>> {
    let list = graph.pointer("/spec/components").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .filter_map(|component| Some((component.get("name")?.as_str()?, component)))
        .collect()
}

/// Puts into the model what it lacks to render the target.
pub fn complete(model: &mut Model, target: &Value, kind: OverrideKind) {
    let (of, name) = match kind {
        OverrideKind::DynamoGraphDeployment => (kinds::GRAPH, None),
        OverrideKind::DynamoGraphDeploymentRequest => (kinds::REQUEST, None),
        OverrideKind::DynamoModel => (kinds::ADAPTER, target.pointer("/metadata/name").and_then(Value::as_str)),
        OverrideKind::PersistentVolumeClaim => (kinds::CLAIM, None),
    };
    for _ in 0..ROUNDS {
        let Some(object) = rendered(model, of, name) else { return };
        if equivalence::differences(object.value(), target).is_empty() {
            return;
        }
        let (have, want) = (own(object.value()), own(target));
        if kind == OverrideKind::DynamoGraphDeployment {
            graph(model, counting(remainder::between(&have, &want, &FieldPath::root()), object.value()));
        } else {
            let rest = counting(remainder::between(&have, &want, &FieldPath::root()), object.value());
            add(model, kind, name, rest);
        }
    }
}

/// An object without what an intent cannot say, or says elsewhere. Labels and annotations are always there, so that
/// what one of two lacks is told label by label.
fn own(object: &Value) -> Map<String, Value> {
    let mut all = Map::new();
    if let Some(spec) = object.get("spec").filter(|spec| spec.as_object().is_some_and(|spec| !spec.is_empty())) {
        all.insert("spec".to_owned(), spec.clone());
    }
    let keys = |field: &str| {
        let keys = object.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_object);
        let own = keys.into_iter().flatten().filter(|(key, _)| !equivalence::is_not_the_users(key));
        Value::Object(own.map(|(key, value)| (key.clone(), value.clone())).collect())
    };
    all.insert("metadata".to_owned(), json!({"labels": keys("labels"), "annotations": keys("annotations")}));
    all
}

/// What of a remainder counts: a field that the rendered object has and the target lacks does not, when it is one that
/// an API server would fill in.
fn counting(rest: Remainder, object: &Value) -> Remainder {
    let whole = equivalence::desired(object);
    let matters = |path: &FieldPath| {
        let mut without = object.clone();
        path.remove_from(&mut without);
        equivalence::desired(&without) != whole
    };
    Remainder { merge: rest.merge, remove: rest.remove.into_iter().filter(matters).collect() }
}

/// A pod's remainder goes into the template of its component, all else into an override.
fn graph(model: &mut Model, rest: Remainder) {
    let Remainder { mut merge, mut remove } = rest;
    let components = merge.get_mut("spec").and_then(|spec| spec.get_mut("components")).and_then(Value::as_array_mut);
    for component in components.into_iter().flatten().filter_map(Value::as_object_mut) {
        let name = component.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(Value::Object(pod)) = component.get("podTemplate") else { continue };
        // What is removed below is removed after the template is merged: such a part has to come later.
        let here = FieldPath::of(["spec", "components"])
            .join(Segment::Key([("name".to_owned(), KeyValue::new(&name.as_str().into()))].into()))
            .field("podTemplate");
        let later: Vec<&FieldPath> = remove.iter().filter(|path| path.starts_with(&here)).collect();
        let clash = later.iter().any(|path| reaches(pod, path.0.get(here.0.len()..).unwrap_or_default()));
        if !clash && let Some(template) = template_of(model, &name) {
            render::merge::maps(template, Some(pod));
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
    add(model, OverrideKind::DynamoGraphDeployment, None, Remainder { merge, remove });
}

/// Whether a path leads to something in a partial map.
fn reaches(map: &Map<String, Value>, path: &[Segment]) -> bool {
    let mut probe = Value::Object(map.clone());
    FieldPath(path.to_vec()).remove_from(&mut probe)
}

/// The template of the component of a name, made when it is not there.
fn template_of<'a>(model: &'a mut Model, name: &str) -> Option<&'a mut Map<String, Value>> {
    let spec = &mut model.spec;
    let role = spec.serving.as_ref().and_then(|serving| {
        let default = ["frontend", "worker", "prefill", "decode"].into_iter().find(|role| *role == name);
        serving.role_of(name).or(default)
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
fn add(model: &mut Model, kind: OverrideKind, name: Option<&str>, rest: Remainder) {
    if rest.merge.is_empty() && rest.remove.is_empty() {
        return;
    }
    let overrides = &mut model.spec.overrides;
    let name = name.map(str::to_owned);
    let same = |one: &&mut Override| one.target.kind == kind && one.target.name == name;
    let remove = rest.remove.iter().filter_map(|path| path.to_string().parse().ok());
    match overrides.iter_mut().find(same) {
        Some(one) => {
            render::merge::maps(&mut one.merge, Some(&rest.merge));
            one.remove.extend(remove);
        }
        None => overrides.push(Override {
            target: OverrideTarget { kind, name },
            merge: rest.merge,
            remove: remove.collect(),
        }),
    }
}

/// How many leaves a value has: scalars, and maps and lists that are empty.
pub fn leaves(value: &Value) -> usize {
    match value {
        Value::Object(map) if !map.is_empty() => map.values().map(leaves).sum(),
        Value::Array(items) if !items.is_empty() => items.iter().map(leaves).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => 1,
    }
}

/// How many leaves of a partial map only say which item is meant: the name of a component, and that of `main`.
fn pointers(map: &Map<String, Value>) -> usize {
    let items = |field: &str, below: &Value| {
        let list = below.as_array().into_iter().flatten();
        list.filter(|item| item.get("name").is_some_and(|name| field == "components" || name == MAIN_CONTAINER)).count()
    };
    map.iter()
        .map(|(field, below)| {
            let here = if matches!(field.as_str(), "components" | "containers") { items(field, below) } else { 0 };
            let inside = match below {
                Value::Object(map) => pointers(map),
                Value::Array(items) => items.iter().filter_map(Value::as_object).map(pointers).sum(),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
            };
            here + inside
        })
        .sum()
}

/// How many of a target's leaves a model has in `template` and `overrides`, and how many there are in all.
pub fn measure(model: &Model, targets: &[Value]) -> (usize, usize) {
    let spec = &model.spec;
    let mut templates: Vec<&Map<String, Value>> = Vec::new();
    if let Some(serving) = &spec.serving {
        templates.extend(serving.frontend.as_ref().and_then(|frontend| frontend.template.as_ref()));
        let workers = [&serving.worker, &serving.prefill, &serving.decode];
        templates.extend(workers.into_iter().flatten().filter_map(|worker| worker.template.as_ref()));
    }
    templates.extend(spec.components.values().filter_map(|component| component.template.as_ref()));
    let count = |map: &Map<String, Value>| if map.is_empty() { 0 } else { leaves(&json!(map)) - pointers(map) };
    let rest: usize = templates.into_iter().map(count).sum::<usize>()
        + spec.overrides.iter().map(|one| count(&one.merge) + one.remove.len()).sum::<usize>();
    let all = targets.iter().map(|target| leaves(&equivalence::desired(target))).sum();
    (rest, all)
}
