//! What a cluster has, as manifests that a person could have applied.

use crate::cli::error::CliError;
use crate::cluster::Cluster;
use crate::dynamo::kinds;
use crate::import::Input;
use crate::object::Object;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Reads graphs, requests, adapters and claims of a namespace as one file of many documents.
///
/// Adapters and claims are only of interest beside a graph, so those of nothing are left out. What stator has applied
/// already is left out too: its model is in git.
pub async fn read<C: Cluster>(cluster: &C, namespace: &str) -> Result<Input, CliError> {
    let mut objects = Vec::new();
    for kind in [kinds::GRAPH, kinds::REQUEST, kinds::ADAPTER, kinds::CLAIM] {
        let listed = cluster.list(&kind, Some(namespace), &BTreeMap::new()).await?;
        let ours = |object: &Object| object.labels().get(kinds::LABEL_MANAGED_BY) == Some(&kinds::MANAGER);
        objects.extend(listed.into_iter().filter(|object| !ours(object) && !object.is_deleting()));
    }
    // A graph that Dynamo made of a request belongs to the request.
    objects.retain(|object| !object.labels().contains_key("dgdr.nvidia.com/name"));
    objects.sort_by_key(Object::reference);
    let mentioned: String = objects
        .iter()
        .filter(|object| object.kind() == kinds::GRAPH.kind || object.kind() == kinds::REQUEST.kind)
        .map(|object| object.spec().to_string())
        .collect();
    objects.retain(|object| {
        let quoted = |text: &str| mentioned.contains(&Value::from(text).to_string());
        match object.kind() {
            kind if kind == kinds::CLAIM.kind => quoted(object.name()),
            _ => true,
        }
    });
    let items: Vec<Value> = objects.into_iter().map(strip).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    Ok(Input { file: "cluster".to_owned(), content: serde_json::to_vec(&list)? })
}

/// Takes away what a cluster writes for itself.
fn strip(object: Object) -> Value {
    let claim = object.kind() == kinds::CLAIM.kind;
    let mut value = object.into_value();
    if let Some(map) = value.as_object_mut() {
        map.remove("status");
    }
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| matches!(field.as_str(), "name" | "namespace" | "labels" | "annotations"));
        if claim {
            // The volume controller's own notes.
            metadata.remove("annotations");
        }
    }
    if claim && let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|field, _| matches!(field.as_str(), "accessModes" | "resources" | "storageClassName"));
    }
    value
}
