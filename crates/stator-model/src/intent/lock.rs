//! The lock: what Dynamo's profiler chose for a model by target, kept in git beside the intent.
//!
//! `model.lock.yaml` is for every environment, `model.<environment>.lock.yaml` for one and stronger. A lock holds as long
//! as the intent asks for what it was written for; from then on the model renders its request again. `stator lock`
//! writes it, and nobody edits it: digests tell a lock that is damaged from one that is old.

use super::decode::{decode, decode_finding};
use super::model::{ApiVersion, Hardware, Model, ModelSpec, OverrideKind, Sla};
use super::scalar::{DnsName, ModelName};
use super::yaml::YamlNode;
use super::{FieldOrigins, rules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use serde_with::skip_serializing_none;
use sha2::{Digest as _, Sha256};
use stator_core::finding::{Finding, Location};
use std::collections::BTreeSet;

/// The graph that the profiler chose for one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelLock {
    /// The version of this format.
    pub api_version: ApiVersion,
    /// Always `ModelLock`.
    pub kind: LockKind,
    /// Which model.
    pub metadata: LockMetadata,
    /// The target of the request, and its result.
    pub spec: LockSpec,
}

/// The kind of a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LockKind {
    /// A lock.
    #[default]
    ModelLock,
}

/// Which model a lock is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockMetadata {
    /// The model's name.
    pub name: ModelName,
}

/// The target of the request, and its result.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockSpec {
    /// The request whose result this is.
    pub request: DnsName,
    /// The Dynamo version that the graph was made for.
    pub dynamo: Option<String>,
    /// SHA-256 of `target`, in hex. The lock holds as long as the intent's target has this digest.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    pub target_digest: String,
    /// The part of the intent that the result is for.
    pub target: Map<String, Value>,
    /// SHA-256 of `graph`, in hex.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    pub graph_digest: String,
    /// `spec` of the DynamoGraphDeployment (v1beta1) that the profiler chose.
    pub graph: Map<String, Value>,
}

impl ModelLock {
    /// A lock of what a request ended with.
    pub fn new(model: &Model, request: DnsName, dynamo: Option<String>, graph: Map<String, Value>) -> Self {
        let target = profiling_target(&model.spec);
        Self {
            api_version: ApiVersion::default(),
            kind: LockKind::default(),
            metadata: LockMetadata { name: model.metadata.name.clone() },
            spec: LockSpec {
                request,
                dynamo,
                target_digest: json_digest(&target),
                target,
                graph_digest: json_digest(&graph),
                graph,
            },
        }
    }
}

/// A lock that holds, and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct ActiveLock {
    /// What it says.
    pub document: ModelLock,
    /// Its file and the line of `spec.graph`.
    pub location: Location,
}

/// The part of a model that its request's result depends on: model, engine, images, hardware, targets, and where the
/// weights are. Not among it: names, labels, environment variables, secrets and overrides, which are merged into a locked
/// graph as they are, and `sla.autoApply`, which says who deploys the result.
pub fn profiling_target(spec: &ModelSpec) -> Map<String, Value> {
    let hardware = spec.hardware.as_ref().map(|hardware| Hardware { node_selector: None, ..hardware.clone() });
    let sla = spec.sla.as_ref().map(|sla| Sla {
        auto_apply: None,
        // The first attempt is the one that nobody writes.
        attempt: sla.attempt.filter(|attempt| *attempt > 1),
        ..sla.clone()
    });
    let cache = spec.cache.as_ref().map(|cache| {
        let mut places = json!({"claim": cache.claim});
        for (field, path) in [("mountPath", &cache.mount_path), ("modelPath", &cache.model_path)] {
            if let Some(path) = path {
                places[field] = path.as_str().into();
            }
        }
        places
    });
    // What is merged over the request makes another request.
    let overrides: Vec<&Map<String, Value>> = spec
        .overrides
        .iter()
        .filter(|change| change.target.kind == OverrideKind::DynamoGraphDeploymentRequest)
        .map(|change| &change.merge)
        .collect();
    let fields = [
        ("model", Some(json!(spec.model))),
        ("servedName", spec.served_name.as_ref().map(|name| json!(name))),
        ("engine", Some(json!(spec.engine))),
        ("runtime", spec.runtime.as_ref().map(|version| json!(version))),
        ("image", spec.image.as_ref().map(|image| json!(image))),
        ("hardware", hardware.map(|hardware| json!(hardware))),
        ("sla", sla.map(|sla| json!(sla))),
        ("cache", cache),
        ("overrides", (!overrides.is_empty()).then(|| json!(overrides))),
    ];
    let written = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    // An empty map asks for as much as none does.
    written.filter(|(_, value)| value.as_object().is_none_or(|map| !map.is_empty())).collect()
}

/// SHA-256 over the JSON of a map, whose keys are sorted.
fn json_digest(map: &Map<String, Value>) -> String {
    let text = serde_json::to_string(map).unwrap_or_default();
    hex::encode(Sha256::digest(text.as_bytes()))
}

/// What becomes of a model's lock.
#[derive(Debug)]
pub(super) enum LockCheck {
    /// It holds.
    Valid(Box<ActiveLock>),
    /// It is of no use, which is said, and does no harm.
    Unused(Finding),
    /// It cannot be trusted: the model is broken.
    Damaged(Finding),
}

/// Holds a lock against its model. `node` is the document of the file at `path`, and has no faults of form.
pub(super) fn check_lock(path: &str, node: &YamlNode, model: &Model, origins: &FieldOrigins) -> LockCheck {
    let lock: ModelLock = match decode(node) {
        Ok(lock) => lock,
        Err(error) => {
            let location = error.span.unwrap_or(node.span).location(path);
            return LockCheck::Damaged(decode_finding(location, &error.message));
        }
    };
    let at = |keys: &[&str]| {
        let mut place = (node, node.span);
        for key in keys {
            match place.0.entry(key) {
                Some(entry) => place = (&entry.value, entry.place()),
                None => break,
            }
        }
        place.1.location(path)
    };
    if lock.metadata.name != model.metadata.name {
        return LockCheck::Damaged(Finding::error(
            rules::LOCK_DAMAGED,
            at(&["metadata", "name"]),
            format!("the lock is for model `{}`, but its model is `{}`", lock.metadata.name, model.metadata.name),
            "Remove the file, and write it again with `stator lock`.",
        ));
    }
    for (field, written, map) in
        [("target", &lock.spec.target_digest, &lock.spec.target), ("graph", &lock.spec.graph_digest, &lock.spec.graph)]
    {
        if *written != json_digest(map) {
            return LockCheck::Damaged(Finding::error(
                rules::LOCK_DAMAGED,
                at(&["spec", field]),
                format!("`spec.{field}` is not what `stator lock` wrote: its digest differs"),
                "Restore the file from git, or remove it and write it again with `stator lock`. To change the graph, \
                 use `overrides` in the intent.",
            ));
        }
    }
    let now = profiling_target(&model.spec);
    if model.spec.sla.is_none() {
        return LockCheck::Unused(Finding::warning(
            rules::LOCK_UNUSED,
            Location::file(path),
            "the lock has no effect, because the model has no `sla`",
            "Remove the file.",
        ));
    }
    if lock.spec.target_digest != json_digest(&now) {
        let changes = target_changes(&lock.spec.target, &now);
        let first = changes.first().map_or("spec".to_owned(), |(path, _)| format!("spec.{path}"));
        let listed: Vec<String> = changes.into_iter().take(4).map(|(_, words)| words).collect();
        let place = origins.locate(&first);
        return LockCheck::Unused(Finding::warning(
            rules::LOCK_STALE,
            at(&["spec", "target"]),
            format!(
                "the lock is for another target: {} ({}:{}); the model renders a request again, and a running graph \
                 keeps serving",
                listed.join("; "),
                place.file,
                place.line
            ),
            "Sync, and run `stator lock` when the request has its result; or revert the change.",
        ));
    }
    let location = at(&["spec", "graph"]);
    LockCheck::Valid(Box::new(ActiveLock { document: lock, location }))
}

/// What differs between two targets: the field's path, and a sentence with both values. Sorted.
fn target_changes(was: &Map<String, Value>, is: &Map<String, Value>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect_changes("", was, is, &mut found);
    found
}

fn collect_changes(above: &str, was: &Map<String, Value>, is: &Map<String, Value>, found: &mut Vec<(String, String)>) {
    let keys: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    for key in keys {
        let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match (was.get(key), is.get(key)) {
            (Some(Value::Object(was)), Some(Value::Object(is))) => collect_changes(&path, was, is, found),
            (Some(was), Some(is)) if was == is => {}
            (Some(was), Some(is)) => {
                let words = format!("`{path}` was {} and is {}", truncate_value(was), truncate_value(is));
                found.push((path, words));
            }
            (Some(was), None) => {
                let words = format!("`{path}` was {} and was removed", truncate_value(was));
                found.push((path, words));
            }
            (None, Some(is)) => {
                let words = format!("`{path}` is {} and was not set", truncate_value(is));
                found.push((path, words));
            }
            (None, None) => {}
        }
    }
}

fn truncate_value(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    if text.chars().count() > 60 { text.chars().take(57).chain("...".chars()).collect() } else { text }
}

#[cfg(test)]
mod tests;
