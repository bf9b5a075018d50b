//! From what a request ended with to the lock of its model.

use crate::intent::Intent;
use crate::intent::lock::ModelLock;
use serde_json::{Map, Value};
use stator_core::dynamo::conversion::{self, Left, Unconvertible};
use stator_core::dynamo::health::{self, Health};
use stator_core::dynamo::kinds;
use stator_core::dynamo::v1beta1::GraphSpec;
use stator_core::object::Object;
use std::collections::BTreeSet;

/// The lock of a model, and what is worth a word about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Profiled {
    /// The lock.
    pub lock: ModelLock,
    /// What the profiler wrote and the graph's version has no field for.
    pub left: Vec<Left>,
    /// ConfigMaps that the graph reads: Dynamo made them, and stator does not. Sorted.
    pub config_maps: Vec<String>,
}

/// Why a request's result cannot be locked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NotLockable {
    /// It has not ended.
    #[error("request {request} is not through: {message}; `stator sync --wait` waits for it")]
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
        "request {request} has no graph in `status.profilingResults.selectedConfig`; set `sla.attempt` one higher to \
         have it made again"
    )]
    Empty {
        /// The request.
        request: String,
    },
    /// Its graph cannot be read.
    #[error(
        "the graph of request {request} cannot be read: {cause}; set `sla.attempt` one higher to have it made again"
    )]
    Unreadable {
        /// The request.
        request: String,
        /// What is wrong with it.
        #[source]
        cause: Unconvertible,
    },
    /// The request's own name is none that a lock can hold.
    #[error("`{request}` is no name of a request: {reason}; delete it, and sync")]
    Name {
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
pub fn profiled(intent: &Intent, request: &Object, graph: Option<&Object>) -> Result<Profiled, NotLockable> {
    let name = request.name().to_owned();
    let phase = request.text("/status/phase").unwrap_or_default();
    let verdict = health::judge(request, None);
    match verdict.health {
        Health::Failed => return Err(NotLockable::Failed { request: name, message: verdict.message }),
        Health::Degraded if verdict.terminal => {
            return Err(NotLockable::Edited { request: name, message: verdict.message });
        }
        // Once profiling is over the result stands, however the graph that it made does.
        _ if matches!(phase, "Ready" | "Deploying" | "Deployed") && !request.is_deleting() => {}
        Health::Healthy | Health::Suspended | Health::Progressing | Health::Unknown | Health::Degraded => {
            return Err(NotLockable::Unfinished { request: name, message: verdict.message });
        }
    }
    let selected = request.status().pointer("/profilingResults/selectedConfig").filter(|config| config.is_object());
    let document = selected.or_else(|| graph.map(Object::value)).ok_or(NotLockable::Empty { request: name.clone() })?;
    let converted =
        conversion::convert(document).map_err(|cause| NotLockable::Unreadable { request: name.clone(), cause })?;
    let is_graph = converted.document.get("kind").and_then(Value::as_str) == Some(kinds::GRAPH.kind);
    let spec = converted.document.get("spec").and_then(Value::as_object).filter(|spec| is_graph && !spec.is_empty());
    let mut spec = spec.cloned().ok_or(NotLockable::Empty { request: name.clone() })?;
    settle(&mut spec, intent);
    let mut config_maps = BTreeSet::new();
    spec.values().for_each(|value| config_maps_of(value, &mut config_maps));
    let dynamo = graph.and_then(origin).or_else(|| version(&spec));
    let request = name.parse().map_err(|reason| NotLockable::Name { request: name, reason })?;
    Ok(Profiled {
        lock: ModelLock::new(&intent.model, request, dynamo, spec),
        left: converted.left,
        config_maps: config_maps.into_iter().collect(),
    })
}

/// Takes out what the intent says anew with every render, and what YAML of stator's does not hold; and gives workers
/// that a planner scales the adapter that the profiler forgets (dynamo#7660).
fn settle(spec: &mut Map<String, Value>, intent: &Intent) {
    without_nulls(spec);
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
    let Ok(read) = GraphSpec::read(&Value::Object(spec.clone())) else { return };
    let delegated = read.delegated();
    let components = spec.get_mut("components").and_then(Value::as_array_mut);
    for component in components.into_iter().flatten().filter_map(Value::as_object_mut) {
        let scaled = component.get("name").and_then(Value::as_str).is_some_and(|name| delegated.contains(name));
        if scaled && !component.contains_key("scalingAdapter") {
            component.insert("scalingAdapter".to_owned(), Value::Object(Map::new()));
        }
    }
}

fn without_nulls(map: &mut Map<String, Value>) {
    map.retain(|_, value| !value.is_null());
    map.values_mut().for_each(drop_nulls);
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => without_nulls(map),
        Value::Array(items) => {
            items.retain(|item| !item.is_null());
            items.iter_mut().for_each(drop_nulls);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Names under `configMap`, `configMapRef` and `configMapKeyRef`, as pods spell them.
fn config_maps_of(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, below) in map {
                if matches!(key.as_str(), "configMap" | "configMapRef" | "configMapKeyRef")
                    && let Some(name) = below.get("name").and_then(Value::as_str)
                {
                    found.insert(name.to_owned());
                }
                config_maps_of(below, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| config_maps_of(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The operator's version, which it writes on every graph that it first sees.
fn origin(graph: &Object) -> Option<String> {
    let annotations = graph.annotations();
    annotations.get("nvidia.com/dynamo-operator-origin-version").map(|version| (*version).to_owned())
}

/// The version in the tag of the first image that has one.
fn version(spec: &Map<String, Value>) -> Option<String> {
    let components = spec.get("components").and_then(Value::as_array)?;
    let images = components.iter().filter_map(|component| {
        component.pointer("/podTemplate/spec/containers/0/image").and_then(Value::as_str)?.rsplit_once(':')
    });
    images
        .map(|(_, tag)| tag)
        .find(|tag| tag.parse::<crate::intent::scalar::RuntimeVersion>().is_ok())
        .map(str::to_owned)
}
