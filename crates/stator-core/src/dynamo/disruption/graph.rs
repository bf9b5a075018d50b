//! Changes of a graph.

use super::immutable_fields;
use super::{ChangeImpact, Disruption, DisruptionNote, RestartOrder};
use crate::dynamo::admission::{self, Platform};
use crate::dynamo::graph_components::{is_worker_type, named_components};
use crate::dynamo::registry::{MAIN_CONTAINER, annotation};
use crate::dynamo::release::{Behaviour, Release};
use crate::object::Object;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Annotations of the graph's metadata that the operator copies into its pods.
const COPIED_ANNOTATIONS: &[&str] = &[
    "nvidia.com/vllm-distributed-executor-backend",
    "nvidia.com/dynamo-discovery-backend",
    "nvidia.com/dynamo-kube-discovery-mode",
    "nvidia.com/enable-metrics",
];

/// Fields of a component that start or stop pods but change none.
const SCALE_FIELDS: &[&str] = &["replicas", "scalingAdapter", "minAvailable"];

/// It counts by what it resolves to.
const RUNTIME_VERSION: &str = "runtimeVersionOverride";

/// Fields of the spec that are looked at one by one; all others are taken to reach the workers.
const KNOWN_FIELDS: &[&str] =
    &["components", "restart", "backendFramework", "topologyConstraint", "priorityClassName", "providerOverride"];

pub(super) fn classify_graph_change(old: &Object, new: &Object, platform: &Platform) -> ChangeImpact {
    let release = platform.release();
    let forbidden = immutable_fields::forbidden_changes(old, new, release);
    let before: BTreeMap<&str, &Value> = named_components(old.spec()).collect();
    let after: BTreeMap<&str, &Value> = named_components(new.spec()).collect();
    let mut class = Disruption::None;
    let mut notes = Vec::new();

    let shared = shared_pod_fields(old) != shared_pod_fields(new);
    let mut others_roll = shared;
    let mut changed_workers = Vec::new();
    for (name, component) in &after {
        let Some(previous) = before.get(name) else { continue };
        let rehashed = release.has(Behaviour::ResolvedVersionHashed)
            && is_worker(component)
            && hashed_version(previous) != hashed_version(component);
        if pod_fields(previous) != pod_fields(component) || shared || rehashed {
            if is_worker(previous) || is_worker(component) {
                changed_workers.push(*name);
            } else {
                others_roll = true;
            }
        }
        if scale_settings(previous) != scale_settings(component) {
            class = class.max(Disruption::Scale);
        }
    }
    let runner = PodRunner::of(old, new, platform);
    let waits = runner == PodRunner::Grove && updates_on_delete(new, release);
    if others_roll {
        class = class.max(if waits { Disruption::OnDelete } else { Disruption::FrontendRoll });
    }
    if let Some(order) = requested_restart(old, new) {
        // Pods of several nodes are replaced in place, and a component may ask to stop all of its own first.
        let replaced = worker_disruption(runner, new, release);
        let surges = replaced == Disruption::ManagedRoll;
        class = class.max(if surges { Disruption::RollingRestart } else { replaced });
        notes.push(DisruptionNote::RestartId { is_parallel: order == RestartOrder::Parallel });
    }
    if !changed_workers.is_empty() {
        let alone = runner == PodRunner::Grove && !release.has(Behaviour::GroveWorkersRollTogether);
        let workers: Vec<&str> = if alone {
            changed_workers
        } else {
            after.iter().filter(|(_, component)| is_worker(component)).map(|(name, _)| *name).collect()
        };
        class = class.max(worker_disruption(runner, new, release));
        if workers.len() > 1 {
            notes.push(DisruptionNote::WorkersRoll { components: workers.into_iter().map(str::to_owned).collect() });
        }
    }
    let mut judgement = ChangeImpact::new(class).with_forbidden(forbidden);
    judgement.notes = notes;
    judgement
}

/// What runs the pods of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dynamo) enum PodRunner {
    /// Deployments, which the operator replaces together.
    Deployments,
    /// Grove.
    Grove,
    /// Grove or LeaderWorkerSet: something that groups the nodes of a replica.
    Groups,
}

impl PodRunner {
    /// By what the operator wrote into the graph, or else by what the cluster is known to have.
    pub(in crate::dynamo) fn of(old: &Object, new: &Object, platform: &Platform) -> Self {
        let written = |name: &str| [new, old].into_iter().find_map(|object| object.annotations().get(name).copied());
        let kinds: BTreeSet<&str> = old
            .status()
            .get("components")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(_, one)| one.get("componentKind")?.as_str())
            .collect();
        let provider = written(annotation::WORKLOAD_PROVIDER);
        if provider == Some("grove") || kinds.iter().any(|kind| kind.starts_with("PodClique")) {
            return Self::Grove;
        }
        let may_be_groves = provider.is_none() && kinds.is_empty();
        let is_kept_off = written(annotation::ENABLE_GROVE).is_some_and(|value| value.eq_ignore_ascii_case("false"));
        let is_grouped =
            named_components(new.spec()).any(|(_, one)| one.get("multinode").is_some_and(Value::is_object));
        match platform.grove {
            Some(true) if may_be_groves && !is_kept_off => Self::Grove,
            Some(_) | None if is_grouped || kinds.iter().any(|kind| *kind != "Deployment") => Self::Groups,
            Some(_) | None => Self::Deployments,
        }
    }
}

/// Whether Grove updates the pods of a graph only once somebody deletes them.
pub(in crate::dynamo) fn updates_on_delete(graph: &Object, release: Release) -> bool {
    release.has(Behaviour::OnDeleteHonoured)
        && graph.annotations().get(annotation::GROVE_UPDATE_STRATEGY) == Some(&"OnDelete")
}

/// Whether a change restarts the components by `spec.restart.id`, and how. A graph that is new is not restarted, whatever its id says.
pub(in crate::dynamo) fn requested_restart(old: &Object, new: &Object) -> Option<RestartOrder> {
    let id = new.spec().pointer("/restart/id").filter(|id| old.spec().pointer("/restart/id") != Some(id))?;
    if id.is_null() {
        return None;
    }
    match new.spec().pointer("/restart/strategy/type").and_then(Value::as_str) {
        Some("Parallel") => Some(RestartOrder::Parallel),
        Some(_) | None => Some(RestartOrder::Sequential),
    }
}

/// The components of a graph whose pods a change replaces; every worker when `workers` says that they roll.
pub fn rolled_components(old: &Object, new: &Object, workers: bool) -> BTreeSet<String> {
    let before: BTreeMap<&str, &Value> = named_components(old.spec()).collect();
    let shared = shared_pod_fields(old) != shared_pod_fields(new);
    let rolls = |name: &str, component: &Value| match before.get(name) {
        Some(_) if is_worker(component) => workers,
        Some(previous) => shared || pod_fields(previous) != pod_fields(component),
        None => false,
    };
    named_components(new.spec()).filter(|(name, own)| rolls(name, own)).map(|(name, _)| name.to_owned()).collect()
}

/// How the workers are replaced: by the operator, by what groups their nodes, all at once, or by nobody.
pub(in crate::dynamo) fn worker_disruption(runner: PodRunner, graph: &Object, release: Release) -> Disruption {
    match runner {
        PodRunner::Grove if updates_on_delete(graph, release) => return Disruption::OnDelete,
        PodRunner::Grove | PodRunner::Groups => return Disruption::NativeRoll,
        PodRunner::Deployments => {}
    }
    let stops_first = |component: &Value| {
        let of_pods =
            component.pointer("/podTemplate/metadata/annotations").and_then(|all| all.get(annotation::STRATEGY));
        let of_graph = || graph.spec().get("annotations").and_then(|all| all.get(annotation::STRATEGY));
        of_pods.or_else(of_graph).and_then(Value::as_str) == Some("Recreate")
    };
    let recreate = release.has(Behaviour::RecreateHonoured)
        && named_components(graph.spec()).any(|(_, component)| is_worker(component) && stops_first(component));
    if recreate { Disruption::Recreate } else { Disruption::ManagedRoll }
}

pub(in crate::dynamo) fn is_worker(component: &Value) -> bool {
    component.get("type").and_then(Value::as_str).is_some_and(is_worker_type)
}

/// What makes the pods of a component. The version of the runtime is none of it.
fn pod_fields(component: &Value) -> Vec<(&str, &Value)> {
    let fields = component.as_object().into_iter().flatten();
    fields
        .filter(|(key, value)| !SCALE_FIELDS.contains(&key.as_str()) && *key != RUNTIME_VERSION && !value.is_null())
        .map(|(key, value)| (key.as_str(), value))
        .collect()
}

/// The resolved version of a component's runtime, which is in the hash of its workers from 1.5.0 on. Source: `hash.go` of
/// the operator.
pub fn hashed_version(component: &Value) -> Option<String> {
    let stated = component.get(RUNTIME_VERSION).and_then(Value::as_str).map(str::to_owned);
    let resolved = stated.or_else(|| {
        let containers = component.pointer("/podTemplate/spec/containers")?.as_array()?;
        let main = containers.iter().find(|one| one.get("name").and_then(Value::as_str) == Some(MAIN_CONTAINER))?;
        admission::version_in_tag(main.get("image")?.as_str()?)
    })?;
    let numbers: Vec<u64> = resolved.split('.').map_while(|number| number.parse().ok()).collect();
    (numbers.as_slice() >= [1, 5, 0].as_slice()).then_some(resolved)
}

/// How many pods a component has, and who decides.
fn scale_settings(component: &Value) -> (u64, bool) {
    (component.get("replicas").and_then(Value::as_u64).unwrap_or(1), component.get("scalingAdapter").is_some())
}

/// What every component's pods get from the graph.
fn shared_pod_fields(object: &Object) -> (Vec<(&str, &Value)>, Vec<Option<&str>>) {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    let annotations = object.annotations();
    let spec = object
        .spec()
        .as_object()
        .unwrap_or(&EMPTY)
        .iter()
        .filter(|(key, value)| !KNOWN_FIELDS.contains(&key.as_str()) && !is_empty(value))
        .map(|(key, value)| (key.as_str(), value))
        .collect();
    (spec, COPIED_ANNOTATIONS.iter().map(|name| annotations.get(name).copied()).collect())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
