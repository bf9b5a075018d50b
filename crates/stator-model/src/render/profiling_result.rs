//! From what a request ended with to the lock of its model.

use crate::intent::Intent;
use crate::intent::lock::ModelLock;
use serde_json::{Map, Value};
use stator_core::dynamo::conversion::{self, ConversionError, UnmappedField};
use stator_core::dynamo::health::{self, Health};
use stator_core::dynamo::kinds;
use stator_core::dynamo::release::Release;
use stator_core::dynamo::replica_intent::scaled_components;
use stator_core::object::Object;
use std::collections::BTreeSet;

/// The lock of a model, and what is worth a word about it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfiledLock {
    /// The lock.
    pub lock: ModelLock,
    /// What the profiler wrote and the graph's version has no field for.
    pub unconverted: Vec<UnmappedField>,
    /// ConfigMaps that the graph reads: Dynamo made them, and stator does not. Sorted.
    pub config_maps: Vec<String>,
}

/// Why a request's result cannot be locked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RequestLockError {
    /// It has not ended.
    #[error("request {request} is not complete: {message}; `stator sync --wait` waits for it")]
    Unfinished {
        /// The request.
        request: String,
        /// Where it stands.
        message: String,
    },
    /// It failed.
    #[error("request {request}: {message}")]
    Failed {
        /// The request.
        request: String,
        /// Where and why, and what to do.
        message: String,
    },
    /// It was changed after its end, and its result is for what it said before.
    #[error("request {request} {message}")]
    Edited {
        /// The request.
        request: String,
        /// What happened, and what to do.
        message: String,
    },
    /// It ended well and holds no graph.
    #[error(
        "request {request} has no graph in `status.profilingResults.selectedConfig`; increase `sla.attempt` by one to \
         create it again"
    )]
    NoGraph {
        /// The request.
        request: String,
    },
    /// Its graph cannot be read.
    #[error("the graph of request {request} cannot be read: {cause}; increase `sla.attempt` by one to create it again")]
    Unreadable {
        /// The request.
        request: String,
        /// What is wrong with it.
        #[source]
        cause: ConversionError,
    },
    /// The request's own name is none that a lock can hold.
    #[error("`{request}` is not a valid request name: {reason}; delete it, and sync")]
    InvalidName {
        /// The name.
        request: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Makes the lock of a model out of its live request, and the graph that it made where its status does not hold one.
///
/// # Errors
/// When the request has not ended well, or its graph cannot be read.
pub fn lock_from_request(
    intent: &Intent,
    request: &Object,
    graph: Option<&Object>,
    release: Release,
) -> Result<ProfiledLock, RequestLockError> {
    let name = request.name().to_owned();
    let phase = request.str_at("/status/phase").unwrap_or_default();
    let verdict = health::assess_health(request, None);
    match verdict.health {
        Health::Failed => return Err(RequestLockError::Failed { request: name, message: verdict.message }),
        Health::Degraded if verdict.terminal => {
            return Err(RequestLockError::Edited { request: name, message: verdict.message });
        }
        // Once profiling is over the result stands, however the graph that it made does.
        _ if matches!(phase, "Ready" | "Deploying" | "Deployed") && !request.is_deleting() => {}
        Health::Healthy | Health::Suspended | Health::Progressing | Health::Unknown | Health::Degraded => {
            return Err(RequestLockError::Unfinished { request: name, message: verdict.message });
        }
    }
    let selected = request.status().pointer("/profilingResults/selectedConfig").filter(|config| config.is_object());
    let document =
        selected.or_else(|| graph.map(Object::value)).ok_or(RequestLockError::NoGraph { request: name.clone() })?;
    let converted = conversion::convert(document, release)
        .map_err(|cause| RequestLockError::Unreadable { request: name.clone(), cause })?;
    let is_graph = converted.document.get("kind").and_then(Value::as_str) == Some(kinds::GRAPH.kind);
    let spec = converted.document.get("spec").and_then(Value::as_object).filter(|spec| is_graph && !spec.is_empty());
    let mut spec = spec.cloned().ok_or(RequestLockError::NoGraph { request: name.clone() })?;
    normalize_graph(&mut spec, intent);
    let mut config_maps = BTreeSet::new();
    spec.values().for_each(|value| collect_config_maps(value, &mut config_maps));
    let dynamo = graph.and_then(operator_version).or_else(|| image_version(&spec));
    let request = name.parse().map_err(|reason| RequestLockError::InvalidName { request: name, reason })?;
    Ok(ProfiledLock {
        lock: ModelLock::new(&intent.model, request, dynamo, spec),
        unconverted: converted.unmapped,
        config_maps: config_maps.into_iter().collect(),
    })
}

/// Takes out what the intent says anew with every render, and what YAML of stator's does not hold; and gives workers
/// that a planner scales the adapter that the profiler forgets (dynamo#7660).
fn normalize_graph(spec: &mut Map<String, Value>, intent: &Intent) {
    drop_null_fields(spec);
    spec.remove("restart");
    if let Some(list) = spec.get_mut("env").and_then(Value::as_array_mut) {
        let ours = |item: &Value| {
            let name = item.get("name").and_then(Value::as_str);
            intent.model.spec.env.keys().any(|known| Some(known.as_str()) == name)
        };
        list.retain(|item| !ours(item));
    }
    if spec.get("env").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        spec.remove("env");
    }
    let Some(Value::Array(components)) = spec.get_mut("components") else { return };
    let scaled = scaled_components(components);
    for component in components.iter_mut().filter_map(Value::as_object_mut) {
        let is_scaled = component.get("name").and_then(Value::as_str).is_some_and(|name| scaled.contains(name));
        if is_scaled && !component.contains_key("scalingAdapter") {
            component.insert("scalingAdapter".to_owned(), Value::Object(Map::new()));
        }
    }
}

fn drop_null_fields(map: &mut Map<String, Value>) {
    map.retain(|_, value| !value.is_null());
    map.values_mut().for_each(drop_nulls);
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => drop_null_fields(map),
        Value::Array(items) => {
            items.retain(|item| !item.is_null());
            items.iter_mut().for_each(drop_nulls);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Names under `configMap`, `configMapRef` and `configMapKeyRef`, as pods spell them.
fn collect_config_maps(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, below) in map {
                if matches!(key.as_str(), "configMap" | "configMapRef" | "configMapKeyRef")
                    && let Some(name) = below.get("name").and_then(Value::as_str)
                {
                    found.insert(name.to_owned());
                }
                collect_config_maps(below, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_config_maps(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The operator's version, which it writes on every graph that it first sees.
fn operator_version(graph: &Object) -> Option<String> {
    let annotations = graph.annotations();
    annotations.get("nvidia.com/dynamo-operator-origin-version").map(|version| (*version).to_owned())
}

/// The version in the tag of the first image that has one.
fn image_version(spec: &Map<String, Value>) -> Option<String> {
    let components = spec.get("components").and_then(Value::as_array)?;
    let images = components.iter().filter_map(|component| {
        component.pointer("/podTemplate/spec/containers/0/image").and_then(Value::as_str)?.rsplit_once(':')
    });
    images
        .map(|(_, tag)| tag)
        .find(|tag| tag.parse::<crate::intent::scalar::RuntimeVersion>().is_ok())
        .map(str::to_owned)
}
