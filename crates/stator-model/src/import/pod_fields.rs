//! Fields of pods that a template has and `pod` has a place for are moved there, where that renders the same.

use super::completion;
use crate::intent::model::{Model, PodSettings};
use serde_json::{Map, Value};
use stator_core::dynamo::registry::MAIN_CONTAINER;

/// A field of a template, and its name in `pod`.
#[derive(Clone, Copy, Debug)]
enum TemplateField {
    Metadata(&'static str),
    Pod(&'static str),
    Main(&'static str, &'static str),
}

const FIELDS: [TemplateField; 17] = [
    TemplateField::Metadata("annotations"),
    TemplateField::Metadata("labels"),
    TemplateField::Pod("nodeSelector"),
    TemplateField::Pod("tolerations"),
    TemplateField::Pod("affinity"),
    TemplateField::Pod("topologySpreadConstraints"),
    TemplateField::Pod("priorityClassName"),
    TemplateField::Pod("schedulerName"),
    TemplateField::Pod("runtimeClassName"),
    TemplateField::Pod("securityContext"),
    TemplateField::Pod("resourceClaims"),
    TemplateField::Pod("terminationGracePeriodSeconds"),
    TemplateField::Pod("hostNetwork"),
    TemplateField::Pod("volumes"),
    TemplateField::Main("securityContext", "containerSecurityContext"),
    TemplateField::Main("imagePullPolicy", "imagePullPolicy"),
    TemplateField::Main("volumeMounts", "volumeMounts"),
];

/// A component's template and the fields of its pods.
type PodParts<'a> = (&'a mut Option<Map<String, Value>>, &'a mut Option<Box<PodSettings>>);

fn pod_parts(model: &mut Model) -> Vec<PodParts<'_>> {
    let spec = &mut model.spec;
    let mut parts: Vec<PodParts<'_>> = Vec::new();
    if let Some(serving) = &mut spec.serving {
        parts.extend(serving.frontend.as_mut().map(|one| (&mut one.template, &mut one.pod)));
        let workers = [&mut serving.worker, &mut serving.prefill, &mut serving.decode];
        parts.extend(workers.into_iter().flatten().map(|one| (&mut one.template, &mut one.pod)));
    }
    parts.extend(spec.components.values_mut().map(|one| (&mut one.template, &mut one.pod)));
    parts
}

/// Moves what can be moved without another graph coming of it.
pub fn lift_pod_fields(model: &mut Model, graph: &Value) {
    let count = pod_parts(model).len();
    let has_template = pod_parts(model).iter().any(|(template, _)| template.is_some());
    if !has_template || !completion::renders_graph(model, graph) {
        return;
    }
    for component in 0..count {
        // Mostly all of them can, at once.
        if try_move(model, graph, component, &FIELDS) {
            continue;
        }
        for field in FIELDS {
            try_move(model, graph, component, &[field]);
        }
    }
}

fn try_move(model: &mut Model, graph: &Value, component: usize, fields: &[TemplateField]) -> bool {
    let mut changed = model.clone();
    let mut parts = pod_parts(&mut changed);
    let moved = parts.get_mut(component).is_some_and(|(template, pod)| move_fields(template, pod, fields).is_some());
    let is_same = moved && completion::renders_graph(&changed, graph);
    if is_same {
        *model = changed;
    }
    is_same
}

/// Moves fields; none when there is nothing to move, or it does not fit.
fn move_fields(
    template: &mut Option<Map<String, Value>>,
    pod: &mut Option<Box<PodSettings>>,
    fields: &[TemplateField],
) -> Option<()> {
    let map = template.as_mut()?;
    let mut own = serde_json::to_value(pod.clone().unwrap_or_default()).ok()?;
    let own = own.as_object_mut()?;
    let before = own.len();
    for field in fields {
        let (name, value) = match *field {
            TemplateField::Metadata(name) => (name, remove_from(map, "metadata", name)),
            TemplateField::Pod(name) => (name, remove_from(map, "spec", name)),
            TemplateField::Main(name, renamed) => (renamed, main_of(map).and_then(|main| main.remove(name))),
        };
        if name == "resourceClaims" && value.is_some() {
            remove_claims(map);
        }
        if let Some(value) = value {
            own.insert(name.to_owned(), value);
        }
    }
    if own.len() == before {
        return None;
    }
    *pod = Some(serde_json::from_value(Value::Object(own.clone())).ok()?);
    drop_empty_parts(map);
    if map.is_empty() {
        *template = None;
    }
    Some(())
}

fn remove_from(template: &mut Map<String, Value>, part: &str, field: &str) -> Option<Value> {
    template.get_mut(part)?.as_object_mut()?.remove(field)
}

fn main_of(template: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    let containers = template.get_mut("spec")?.get_mut("containers")?.as_array_mut()?;
    let mut maps = containers.iter_mut().filter_map(Value::as_object_mut);
    maps.find(|one| one.get("name").is_some_and(|name| name == MAIN_CONTAINER))
}

/// The container has every claim of its pod.
fn remove_claims(template: &mut Map<String, Value>) {
    let Some(main) = main_of(template) else { return };
    let Some(resources) = main.get_mut("resources").and_then(Value::as_object_mut) else { return };
    resources.remove("claims");
    if resources.is_empty() {
        main.remove("resources");
    }
}

/// Takes out containers of which only the name is left, and maps of nothing.
fn drop_empty_parts(template: &mut Map<String, Value>) {
    for field in ["metadata", "spec"] {
        let Some(part) = template.get_mut(field).and_then(Value::as_object_mut) else { continue };
        if let Some(containers) = part.get_mut("containers").and_then(Value::as_array_mut) {
            let is_name = |one: &Value| one.as_object().is_some_and(|map| map.len() == 1 && map.contains_key("name"));
            containers.retain(|one| !is_name(one));
            if containers.is_empty() {
                part.remove("containers");
            }
        }
        if part.is_empty() {
            template.remove(field);
        }
    }
}
