//! The health of a DynamoGraphDeployment.

use super::{Health, HealthVerdict, find_condition, stale_generation_verdict};
use crate::dynamo::registry::annotation;
use crate::object::Object;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

pub(super) fn graph_health(object: &Object, healthy_at: Option<i64>) -> HealthVerdict {
    let status = object.status();
    let text = |pointer: &str| status.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let state = text("/state");
    let ready = find_condition(object, "Ready");

    if text("/rollingUpdate/phase") == "Failed" {
        return HealthVerdict::new(Health::Failed, "the rolling update failed").into_terminal();
    }
    // A reconcile that failed leaves `observedGeneration` behind, so failure is looked for first.
    let failed = ready.as_ref().filter(|ready| ready.status == "False" && is_failure_reason(ready.reason));
    if state == "failed" || failed.is_some() {
        let cause = ready.as_ref().map_or("the operator reports state failed", |ready| ready.message);
        let verdict = HealthVerdict::new(Health::Failed, cause);
        // What the cluster lacks no further attempt of the operator brings.
        let is_final = ready.as_ref().is_some_and(|ready| LACKS.contains(&ready.reason));
        return if is_final { verdict.into_terminal() } else { verdict };
    }
    if let Some(verdict) = stale_generation_verdict(object) {
        return verdict;
    }
    // A phase that a later operator adds is no end that anybody here knows of.
    if !matches!(text("/rollingUpdate/phase"), "" | "Completed") {
        return HealthVerdict::progressing(rollout_message(object));
    }
    if text("/restart/phase") == "Failed" {
        return HealthVerdict::new(Health::Failed, "the restart failed").into_terminal();
    }
    if !matches!(text("/restart/phase"), "" | "Completed" | "Superseded") {
        let list: Vec<&str> = status
            .pointer("/restart/inProgress")
            .and_then(Value::as_array)
            .map(|list| list.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let which = if list.is_empty() { "components".to_owned() } else { list.join(", ") };
        return HealthVerdict::progressing(format!("restarting {which}"));
    }
    if let Some(topology) = find_condition(object, "TopologyLevelsAvailable")
        && topology.status == "False"
    {
        return HealthVerdict::new(Health::Degraded, format!("topology: {}", topology.message));
    }
    let is_ready = state == "successful" && ready.as_ref().is_some_and(|ready| ready.status == "True");
    if !is_ready {
        let (reason, message) = ready.as_ref().map_or(("", ""), |ready| (ready.reason, ready.message));
        if reason == UPDATING && waits_for_deletion(object) {
            return HealthVerdict::progressing(format!(
                "waiting for you to delete pods: with `{}: OnDelete`, only a deleted pod is updated ({message})",
                annotation::GROVE_UPDATE_STRATEGY
            ));
        }
        let message = match WAITING_REASONS.iter().find(|(known, _)| *known == reason) {
            Some((_, words)) if message.is_empty() => (*words).to_owned(),
            Some((_, words)) => format!("{words}: {message}"),
            None => waiting_message(object, message),
        };
        // What is on its way is no fault of what ran before.
        let is_change = [UPDATING, WAITING_FOR_CHECKPOINT].contains(&reason);
        let was_healthy = healthy_at.is_some() && healthy_at == object.generation() && !is_change;
        return HealthVerdict::new(if was_healthy { Health::Degraded } else { Health::Progressing }, message);
    }
    if all_at_zero(object) {
        return HealthVerdict::new(Health::Suspended, "every component is at 0 replicas");
    }
    HealthVerdict::new(Health::Healthy, "all components are ready")
}

const UPDATING: &str = "updating";
const WAITING_FOR_CHECKPOINT: &str = "waiting_for_checkpoint";

/// Reasons of `Ready=False` from 1.4 on with which the operator waits, and what it waits for. Source:
/// `api/v1beta1/dynamographdeployment_types.go`.
const WAITING_REASONS: &[(&str, &str)] = &[
    ("insufficient_capacity", "waiting for capacity"),
    ("pods_not_ready", "waiting for pods"),
    (UPDATING, "pods are updated"),
    ("mixed_not_ready_reasons", "waiting for capacity and pods"),
    (WAITING_FOR_CHECKPOINT, "waiting for a checkpoint"),
];

/// Reasons of `Ready=False` with which the operator gives up, since the cluster lacks what runs the graph.
const LACKS: &[&str] =
    &["selected_workload_provider_unavailable", "unsupported_workload_provider", "no_multinode_orchestrator_available"];

/// Reasons of `Ready=False` with which the operator says that it failed rather than waits.
fn is_failure_reason(reason: &str) -> bool {
    reason.starts_with("failed_to_") || reason == "rolling_update_failed" || LACKS.contains(&reason)
}

/// Whether Grove leaves it to a person to delete pods that are to change.
fn waits_for_deletion(graph: &Object) -> bool {
    graph.annotations().get(annotation::GROVE_UPDATE_STRATEGY) == Some(&"OnDelete")
}

fn components(object: &Object) -> impl Iterator<Item = (&str, &Value)> {
    object
        .spec()
        .get("components")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|component| Some((component.get("name")?.as_str()?, component)))
}

fn all_at_zero(object: &Object) -> bool {
    let mut any = false;
    for (_, component) in components(object) {
        any = true;
        // Left out means 1: the operator's webhook says so.
        if component.get("replicas").and_then(Value::as_u64) != Some(0) {
            return false;
        }
    }
    any
}

/// `rolling update: worker 0 of 1 updated`; components may be missing from the status while they start.
fn rollout_message(object: &Object) -> String {
    let parts: Vec<String> = components(object)
        .filter_map(|(name, _)| {
            let status = object.status().get("components")?.get(name)?;
            let updated = status.get("updatedReplicas").and_then(Value::as_u64)?;
            let replicas = status.get("replicas").and_then(Value::as_u64)?;
            (updated < replicas).then(|| format!("{name} {updated} of {replicas} updated"))
        })
        .collect();
    if parts.is_empty() {
        "rolling update under way: workers are starting".to_owned()
    } else {
        format!("rolling update: {}", parts.join(", "))
    }
}

/// Turns the operator's `Resources not ready: <graph>-<component>-<hash>: <cause>; …` into component names and counts.
fn waiting_message(object: &Object, message: &str) -> String {
    let Some(list) = message.strip_prefix("Resources not ready: ") else {
        return if message.is_empty() { "not ready yet".to_owned() } else { message.to_owned() };
    };
    let names: BTreeMap<String, &str> = components(object).map(|(name, _)| (name.to_lowercase(), name)).collect();
    let parts: Vec<String> = list
        .split("; ")
        .map(|part| {
            let (resource, cause) = part.split_once(": ").unwrap_or((part, "not ready"));
            let name = component_of_resource(object.name(), resource, &names);
            let count = ready_count(object, name);
            format!("{name}{count}: {}", WaitingCause::parse(cause))
        })
        .collect();
    format!("waiting for {}", parts.join("; "))
}

/// ` (1 of 3 ready)`, where the status has the component.
fn ready_count(object: &Object, name: &str) -> String {
    let counted = object.status().get("components").and_then(|all| all.get(name)).and_then(|one| {
        let number = |field: &str| one.get(field).and_then(Value::as_u64);
        number("readyReplicas").or_else(|| number("availableReplicas"))
    });
    let wanted = components(object)
        .find(|(known, _)| *known == name)
        .map(|(_, component)| component.get("replicas").and_then(Value::as_u64).unwrap_or(1));
    match (counted, wanted) {
        // While a change is taken up, the status still counts the pods from before.
        (Some(ready), Some(wanted)) if ready < wanted => format!(" ({ready} of {wanted} ready)"),
        (Some(_) | None, _) => String::new(),
    }
}

/// `llama-decode-fe70d00d` of graph `llama` → `decode`, when the graph has such a component.
fn component_of_resource<'a>(graph: &str, resource: &'a str, names: &BTreeMap<String, &'a str>) -> &'a str {
    let Some(rest) = resource.strip_prefix(graph).and_then(|rest| rest.strip_prefix('-')) else {
        return resource;
    };
    let lower = rest.to_lowercase();
    if let Some(name) = names.get(&lower) {
        return name;
    }
    match lower.rsplit_once('-') {
        Some((name, hash)) if hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            names.get(name).copied().unwrap_or(resource)
        }
        Some(_) | None => resource,
    }
}

/// Why the operator says that a component is not ready.
enum WaitingCause<'a> {
    /// Its operator has not seen the newest spec.
    SpecNotProcessed,
    /// Its pods are not available.
    PodsNotAvailable,
    /// A cause that stator has no words for: the operator's own.
    Other(&'a str),
}

impl<'a> WaitingCause<'a> {
    /// Reads a cause by how the operator begins it (`tests/data/dynamo/recordings/`); generations follow.
    fn parse(cause: &'a str) -> Self {
        if cause.starts_with("spec not yet processed") {
            Self::SpecNotProcessed
        } else if cause.starts_with("Component deployment not ready") {
            Self::PodsNotAvailable
        } else {
            Self::Other(cause)
        }
    }
}

impl fmt::Display for WaitingCause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SpecNotProcessed => "the operator has not processed it yet",
            Self::PodsNotAvailable => "its pods are not available yet",
            Self::Other(cause) => cause,
        })
    }
}
