//! What the simulated operator reads out of a graph's spec.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use stator_core::dynamo::disruption;
use stator_core::dynamo::graph_components::{self, is_worker_type};
use stator_core::dynamo::release::{Behaviour, Release};
use stator_core::object::Object;
use std::collections::BTreeMap;

/// One component of a graph.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SimulatedComponent {
    pub(super) name: String,
    /// A worker of any role: its pods roll together with all other workers'.
    pub(super) worker: bool,
    pub(super) multinode: bool,
    pub(super) replicas: i64,
    /// Its image can never be pulled.
    pub(super) broken: bool,
    /// Scaled by a DynamoGraphDeploymentScalingAdapter.
    pub(super) scaled: bool,
    /// The base model that adapters load into.
    pub(super) model: Option<String>,
    pub(super) applied: ComponentDigests,
}

/// What of a component was last carried out; compared to tell what a new generation changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ComponentDigests {
    /// Digest of what its pods are made from.
    pub(super) pods: String,
    /// Digest of everything.
    pub(super) component: String,
}

/// By component name.
pub(super) type DeployedComponents = BTreeMap<String, ComponentDigests>;

/// The components of a graph, in the order of their names, as the operator of a release sees them.
pub(super) fn components(graph: &Object, release: Release) -> Vec<SimulatedComponent> {
    let shared = {
        let mut spec = graph.spec().clone();
        if let Some(map) = spec.as_object_mut() {
            for field in ["components", "restart", "priorityClassName", "providerOverride"] {
                map.remove(field);
            }
        }
        spec.to_string()
    };
    let mut list: Vec<SimulatedComponent> =
        graph_components::components(graph.spec()).filter_map(|value| component(value, &shared, release)).collect();
    list.sort_by(|a, b| a.name.cmp(&b.name));
    list
}

fn component(value: &Value, shared: &str, release: Release) -> Option<SimulatedComponent> {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let mut pods = value.clone();
    if let Some(map) = pods.as_object_mut() {
        for field in ["replicas", "scalingAdapter", "minAvailable", "runtimeVersionOverride"] {
            map.remove(field);
        }
        let version = disruption::hashed_version(value).filter(|_| release.has(Behaviour::ResolvedVersionHashed));
        map.extend(version.map(|version| ("runtimeVersion".to_owned(), version.into())));
    }
    Some(SimulatedComponent {
        name: text("/name")?.to_owned(),
        worker: text("/type").is_some_and(is_worker_type),
        multinode: value.get("multinode").is_some(),
        replicas: value.get("replicas").and_then(Value::as_i64).unwrap_or(1),
        broken: value
            .pointer("/podTemplate/spec/containers")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .any(|container| container.get("image").and_then(Value::as_str).is_some_and(is_broken)),
        scaled: value.get("scalingAdapter").is_some(),
        model: text("/modelRef/name").map(str::to_owned),
        applied: ComponentDigests {
            pods: digest(&[shared, &pods.to_string()]),
            component: digest(&[shared, &value.to_string()]),
        },
    })
}

/// Images that the simulated nodes cannot pull: with `broken` or `does-not-exist` in their name or tag, or from the
/// registry `broken.invalid`.
pub(super) fn is_broken(image: &str) -> bool {
    let last = image.rsplit_once('/').map_or(image, |(_, last)| last);
    image.starts_with("broken.invalid/") || last.contains("broken") || last.contains("does-not-exist")
}

/// The hash over all workers, and the salted second one: what `nvidia.com/current-worker-hash` and `-v2` hold. Not the
/// operator's own numbers, but they move when its do: with anything in any worker except replicas and the adapter.
pub(super) fn worker_hashes(graph: &Object, components: &[SimulatedComponent]) -> (String, String) {
    let workers: Vec<&str> = components.iter().filter(|c| c.worker).map(|c| c.applied.pods.as_str()).collect();
    let first: String = digest(&workers).chars().take(8).collect();
    let second = digest(&[graph.namespace(), graph.name(), &first]).chars().take(8).collect();
    (first, second)
}

fn digest(parts: &[&str]) -> String {
    hex::encode(Sha256::digest(json!(parts).to_string()))
}

#[cfg(test)]
mod tests {
    use super::is_broken;

    #[test]
    fn only_the_named_images_are_broken() {
        for image in ["a/b:broken", "host:5000/b:1-does-not-exist", "broken.invalid/x:1", "example.com/broken:1.0.0"] {
            assert!(is_broken(image), "{image}");
        }
        for image in ["nvcr.io/broken/x:1.2.0", "host:5000/x", "x@sha256:00"] {
            assert!(!is_broken(image), "{image}");
        }
    }
}
