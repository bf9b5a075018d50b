//! What the operator's mutating webhooks put into objects.

use super::{Platform, names};
use crate::dynamo::graph_components::{components, components_mut};
use crate::dynamo::kinds::{GRAPH, REQUEST};
use crate::dynamo::registry::annotation;
use crate::dynamo::release::{Behaviour, Release};
use serde_json::{Map, Value, json};

/// Fills in what the webhooks of a release fill in when an object is created: `version` is the operator's, with three
/// numbers.
///
/// Source: the defaulting webhooks of graphs and requests.
pub fn fill_on_create(kind: &str, object: &mut Value, platform: &Platform, version: &str) {
    if kind == GRAPH.kind {
        let on_grove = platform.grove == Some(true) && !names::value_opts_out_of_grove(object);
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.entry(annotation::ORIGIN_VERSION).or_insert_with(|| json!(version));
                if platform.release().has(Behaviour::ProviderPinned) {
                    // Whatever the user wrote.
                    let provider = if on_grove { "grove" } else { "component" };
                    annotations.insert(annotation::WORKLOAD_PROVIDER.to_owned(), json!(provider));
                }
            }
        }
        for component in components_mut(object) {
            component.entry("replicas").or_insert_with(|| json!(1));
        }
        fill_on_write(object, platform.release());
    } else if kind == REQUEST.kind
        && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.entry("image").or_insert_with(|| json!(format!("nvcr.io/nvidia/ai-dynamo/dynamo-planner:{version}")));
    }
}

/// Fills in what the webhook of a release fills into a graph on every write.
pub fn fill_on_write(graph: &mut Value, release: Release) {
    let provider = graph.pointer("/metadata/annotations").and_then(|all| all.get(annotation::WORKLOAD_PROVIDER));
    let on_grove = provider.and_then(Value::as_str) == Some("grove");
    for component in components_mut(graph) {
        if release.has(Behaviour::MinAvailableFilled) {
            component.entry("replicas").or_insert_with(|| json!(1));
            if on_grove {
                component.entry("minAvailable").or_insert_with(|| json!(1));
            }
        }
    }
    switch_checkpoints(graph, release);
}

/// Fills in that a checkpoint is off where a graph does not say whether it is on, as the webhook of a release does.
pub fn switch_checkpoints(graph: &mut Value, release: Release) {
    if !release.has(Behaviour::CheckpointSwitched) {
        return;
    }
    for component in components_mut(graph) {
        if let Some(Value::Object(checkpoint)) =
            component.get_mut("experimental").and_then(|block| block.get_mut("checkpoint"))
        {
            checkpoint.entry("enabled").or_insert(Value::Bool(false));
        }
    }
}

/// Puts back what a write takes out of a graph and the webhook fills in again at that write, so that nothing of it changes.
/// What `live` has otherwise, or not at all, is left to the write.
pub fn refill_on_write(graph: &mut Value, live: &Value, release: Release) {
    let mut filled = graph.clone();
    fill_on_write(&mut filled, release);
    for (component, filled) in components_mut(graph).zip(components_mut(&mut filled)) {
        let mut live = live.get("spec").into_iter().flat_map(components);
        let Some(before) = live.find(|one| one.get("name") == filled.get("name")) else { continue };
        for (name, value) in filled {
            if before.get(name) == Some(value) {
                component.entry(name.as_str()).or_insert_with(|| value.take());
            }
        }
    }
}
