//! The scaling adapters of a graph: the operator makes one for each component that asks for it, and carries its
//! replicas over into the graph.

use super::component;
use serde_json::{Value, json};
use stator_core::dynamo::graph_components::components_mut;
use stator_core::dynamo::kinds::{GRAPH, SCALING_ADAPTER};
use stator_core::dynamo::release::Release;
use stator_core::object::{Object, ObjectRef};

/// What to do so that graph and adapters agree.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ScalingAction {
    /// Make an adapter, with the graph's replicas as its first.
    Create(Object),
    /// Its component no longer asks for it.
    Delete(ObjectRef),
    /// Somebody scaled it: the graph's component follows.
    Scale { component: String, replicas: i64 },
    /// What the adapter shows.
    UpdateStatus(ObjectRef, Value),
}

/// Compares a graph with the adapters that name it.
pub(super) fn scaling_actions(graph: &Object, adapters: &[&Object], release: Release) -> Vec<ScalingAction> {
    if graph.is_deleting() {
        return Vec::new();
    }
    let mut actions = Vec::new();
    let components = component::components(graph, release);
    for own in components.iter().filter(|own| own.scaled) {
        let name = format!("{}-{}", graph.name(), own.name.to_lowercase());
        let Some(adapter) = adapters.iter().find(|adapter| adapter.name() == name) else {
            actions.extend(new_adapter(graph, &name, &own.name, own.replicas).map(ScalingAction::Create));
            continue;
        };
        if let Some(replicas) = adapter.spec().get("replicas").and_then(Value::as_i64)
            && replicas != own.replicas
        {
            actions.push(ScalingAction::Scale { component: own.name.clone(), replicas });
        }
        let counts = graph.status().get("components").and_then(|all| all.get(&own.name));
        let mut status = adapter.status().clone();
        if !status.is_object() {
            status = json!({});
        }
        status["replicas"] =
            json!(counts.and_then(|own| own.get("readyReplicas")).and_then(Value::as_i64).unwrap_or(0));
        status["selector"] = json!(format!(
            "nvidia.com/dynamo-component={},nvidia.com/dynamo-graph-deployment-name={}",
            own.name,
            graph.name()
        ));
        if status != *adapter.status() {
            actions.push(ScalingAction::UpdateStatus(adapter.reference(), status));
        }
    }
    for adapter in adapters {
        let wanted = components
            .iter()
            .any(|own| own.scaled && adapter.name() == format!("{}-{}", graph.name(), own.name.to_lowercase()));
        if !wanted {
            actions.push(ScalingAction::Delete(adapter.reference()));
        }
    }
    actions
}

fn new_adapter(graph: &Object, name: &str, component: &str, replicas: i64) -> Option<Object> {
    Object::from_value(json!({
        "apiVersion": SCALING_ADAPTER.api_version(),
        "kind": SCALING_ADAPTER.kind,
        "metadata": {
            "name": name,
            "namespace": graph.namespace(),
            "labels": {
                "nvidia.com/dynamo-component": component,
                "nvidia.com/dynamo-graph-deployment-name": graph.name(),
            },
            "ownerReferences": [{
                "apiVersion": graph.api_version(), "kind": graph.kind(), "name": graph.name(),
                "uid": graph.uid().unwrap_or_default(), "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {"replicas": replicas, "dgdRef": {"name": graph.name(), "componentName": component}},
    }))
    .ok()
}

/// The graph that an adapter scales.
pub(super) fn graph_of(adapter: &Object) -> Option<ObjectRef> {
    let name = adapter.str_at("/spec/dgdRef/name")?.to_owned();
    Some(GRAPH.reference(adapter.namespace(), &name))
}

/// Sets a component's replicas in a graph.
pub(super) fn set_replicas(graph: &mut Value, component: &str, replicas: i64) {
    for own in components_mut(graph) {
        if own.get("name").and_then(Value::as_str) == Some(component) {
            own.insert("replicas".to_owned(), json!(replicas));
        }
    }
}
