//! What a cluster has, as manifests that a person could have applied.

use crate::cli::error::CliError;
use serde_json::{Map, Value, json};
use stator_cluster::cluster::Cluster;
use stator_core::deployment_tools::{self, ToolTracking};
use stator_core::dynamo::kinds;
use stator_core::dynamo::replica_intent::{ReplicaIntents, scaled_components};
use stator_core::fields;
use stator_core::object::Object;
use stator_model::import::ManifestFile;
use std::collections::{BTreeMap, BTreeSet};

/// Reads graphs, requests, adapters and claims of a namespace as one file of many documents.
///
/// Adapters and claims are only of interest beside a graph, so those of nothing are left out. What stator has applied
/// already is left out too: its model is in git.
///
/// Beside them, what a person should know of who else writes to these graphs.
pub async fn read_manifests<C: Cluster>(cluster: &C, namespace: &str) -> Result<(ManifestFile, Vec<String>), CliError> {
    let mut objects = Vec::new();
    for kind in [kinds::GRAPH, kinds::REQUEST, kinds::ADAPTER, kinds::CLAIM] {
        let listed = cluster.list(&kind, Some(namespace), &BTreeMap::new()).await?;
        let ours = |object: &Object| object.labels().get(kinds::LABEL_MANAGED_BY) == Some(&kinds::FIELD_MANAGER);
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
    let notes = objects.iter().filter(|object| object.kind() == kinds::GRAPH.kind).flat_map(|graph| {
        foreign_replica_managers(graph).into_iter().map(|(component, managers)| {
            let managers: Vec<&str> = managers.iter().map(String::as_str).collect();
            format!(
                "The replicas of `{component}` of {} are set by {}, not by the writer of its other fields: the model keeps the current number, and to change it in git later, list the manager in `spec.takeOver`.",
                graph.name(),
                managers.join(" and ")
            )
        })
    });
    let managed = objects.iter().filter(|object| object.kind() == kinds::GRAPH.kind).filter_map(|graph| {
        let ToolTracking { tool, mark, labels: _, annotations: _ } = deployment_tools::tracking_of(graph)?;
        Some(format!("{} is managed by {} (`{mark}`): {}.", graph.name(), tool.name(), tool.release_advice()))
    });
    let notes = notes.chain(managed).collect();
    let items: Vec<Value> = objects.into_iter().map(strip_server_fields).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    Ok((ManifestFile { file: "cluster".to_owned(), content: serde_json::to_vec(&list)? }, notes))
}

/// Who writes nothing of a component but its replicas, by component: an autoscaler that was pointed at the graph itself,
/// or a person with `kubectl scale`. Not reported where an adapter or a planner decides.
fn foreign_replica_managers(graph: &Object) -> BTreeMap<String, BTreeSet<String>> {
    let mut counting: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut writing: BTreeSet<(String, String)> = BTreeSet::new();
    let entries = graph.value().pointer("/metadata/managedFields").and_then(Value::as_array);
    for entry in entries.into_iter().flatten() {
        let manager = entry.get("manager").and_then(Value::as_str).unwrap_or_default();
        let Some(owned) = fields::fields_v1(entry) else { continue };
        for (name, fields) in owned_components(&owned) {
            if fields.contains_key("f:replicas") {
                counting.entry(name.clone()).or_default().insert(manager.to_owned());
            }
            if fields.keys().any(|field| !matches!(field.as_str(), "f:replicas" | "f:name" | "." | "k:")) {
                writing.insert((name, manager.to_owned()));
            }
        }
    }
    let components = graph.spec().get("components").and_then(Value::as_array);
    let scaled = components.map(|components| scaled_components(components)).unwrap_or_default();
    counting.retain(|name, managers| {
        // One who wrote the rest of it as well decides about both.
        let both = managers.iter().any(|manager| writing.contains(&(name.clone(), manager.clone())));
        !both && !scaled.contains(name)
    });
    counting
}

/// The components of which a `fieldsV1` holds something, at either version.
fn owned_components(fields: &Value) -> Vec<(String, &Map<String, Value>)> {
    let spec = fields.get("f:spec");
    let list = spec.and_then(|spec| spec.get("f:components")).and_then(Value::as_object);
    let map = spec.and_then(|spec| spec.get("f:services")).and_then(Value::as_object);
    let of_list = list.into_iter().flatten().filter_map(|(key, below)| {
        let key: Value = serde_json::from_str(key.strip_prefix("k:")?).ok()?;
        Some((key.get("name")?.as_str()?.to_owned(), below.as_object()?))
    });
    let of_map = map
        .into_iter()
        .flatten()
        .filter_map(|(key, below)| Some((key.strip_prefix("f:")?.to_owned(), below.as_object()?)));
    of_list.chain(of_map).collect()
}

/// Takes away what a cluster writes for itself.
fn strip_server_fields(object: Object) -> Value {
    // Labels that are marks of a tool only as it owns them go here, where their owner is still known.
    let marks = deployment_tools::tracking_of(&object).map(|tracking| tracking.labels).unwrap_or_default();
    let claim = object.kind() == kinds::CLAIM.kind;
    let graph = object.kind() == kinds::GRAPH.kind;
    let mut value = object.into_value();
    if let Some(graph) = value.as_object_mut().filter(|_| graph) {
        // What others decide is not git's to say.
        ReplicaIntents::take_from(graph);
    }
    if let Some(map) = value.as_object_mut() {
        map.remove("status");
    }
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| matches!(field.as_str(), "name" | "namespace" | "labels" | "annotations"));
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.retain(|name, _| !marks.contains(name));
        }
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
