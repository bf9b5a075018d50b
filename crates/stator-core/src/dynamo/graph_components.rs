//! The components of a graph as its JSON has them, for objects that need not be well formed. [`super::v1beta1`] reads them
//! into types.

use crate::object::Object;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The components in a graph's `spec`, in its order; none where it has no list of them.
pub fn components(spec: &Value) -> impl Iterator<Item = &Value> {
    spec.get("components").and_then(Value::as_array).into_iter().flatten()
}

/// The components in a graph's `spec` with their names; one without a name is left out.
pub fn named_components(spec: &Value) -> impl Iterator<Item = (&str, &Value)> {
    components(spec).filter_map(|component| Some((component.get("name")?.as_str()?, component)))
}

/// The components of a graph, to be changed; what is no map is left out.
pub fn components_mut(graph: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let list = graph.pointer_mut("/spec/components").and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// A graph with its components changed; `change` gets each with its name, empty where it has none.
pub fn edit_components(graph: &Object, change: impl Fn(&str, &mut Map<String, Value>)) -> Object {
    let edited = graph.clone().map(|mut value| {
        for component in components_mut(&mut value) {
            let name = component.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            change(&name, component);
        }
        value
    });
    // Editing components cannot take an object's name away.
    edited.unwrap_or_else(|_| graph.clone())
}

/// A graph with replica counts written in, by component: what it looks like once it is created with them.
pub fn with_replicas(graph: &Object, counts: &BTreeMap<String, u64>) -> Object {
    if counts.is_empty() {
        return graph.clone();
    }
    edit_components(graph, |name, component| {
        if let Some(count) = counts.get(name) {
            component.insert("replicas".to_owned(), (*count).into());
        }
    })
}

/// Whether the pods of a component of this type are the graph's workers, which the operator hashes together.
pub fn is_worker_type(component_type: &str) -> bool {
    matches!(component_type, "worker" | "prefill" | "decode")
}
