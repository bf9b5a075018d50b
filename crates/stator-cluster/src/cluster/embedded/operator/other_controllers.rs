//! What controllers other than Dynamo's operator do, done here all the same, because a graph is neither served from a volume
//! that nobody binds, nor from weights that nobody downloads, nor reached by a route that nobody takes.

use super::component::is_broken;
use super::script::ScriptStep;
use serde_json::{Value, json};
use stator_core::dynamo::addresses;
use stator_core::dynamo::kinds::{GRAPH, SERVICE};
use stator_core::object::{Object, ObjectRef};
use std::time::Duration;

/// Making a volume.
const CLAIM_BIND_TIME: Duration = Duration::from_millis(500);
/// Until a pod runs.
const POD_START_TIME: Duration = Duration::from_millis(500);
/// Downloading.
const DOWNLOAD_TIME: Duration = Duration::from_secs(2);
/// Taking up a route.
const ROUTE_ACCEPT_TIME: Duration = Duration::from_millis(300);
const GATEWAY_CONTROLLER: &str = "stator.dev/simulated-gateway";

/// True once a claim has its volume.
pub(super) fn is_claim_bound(claim: &Object) -> bool {
    claim.str_at("/status/phase") == Some("Bound")
}

/// A storage provisioner: binds a claim that is not bound, at the size and in the mode that it asks for.
pub(super) fn claim_script(claim: &Object) -> Vec<ScriptStep> {
    if claim.is_deleting() || is_claim_bound(claim) {
        return Vec::new();
    }
    let asked = |pointer: &str| claim.spec().pointer(pointer).cloned().unwrap_or(Value::Null);
    let status = json!({
        "phase": "Bound",
        "accessModes": asked("/accessModes"),
        "capacity": {"storage": asked("/resources/requests/storage")},
    });
    vec![ScriptStep::status(CLAIM_BIND_TIME, status)]
}

/// True once a Job has come to its end.
pub(super) fn is_job_over(job: &Object) -> bool {
    let conditions = job.status().get("conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|one| matches!(one["type"].as_str(), Some("Complete" | "Failed")))
}

/// The Job controller and the pods of a download: runs a Job that is not over. An image that cannot be pulled keeps it
/// active until its deadline; a download of something with `does-not-exist` in its name fails as often as it may.
pub(super) fn download_script(job: &Object) -> Vec<ScriptStep> {
    if job.is_deleting() || is_job_over(job) {
        return Vec::new();
    }
    let container = job.spec().pointer("/template/spec/containers/0").unwrap_or(&Value::Null);
    let number = |field: &str, default: u64| job.spec().get(field).and_then(Value::as_u64).unwrap_or(default);
    let active = json!({"active": 1, "ready": 0, "startTime": null});
    let mut steps = vec![ScriptStep::status(POD_START_TIME, active)];
    if container.get("image").and_then(Value::as_str).is_some_and(is_broken) {
        let after = Duration::from_secs(number("activeDeadlineSeconds", 3600));
        let message = "Job was active longer than specified deadline";
        steps.push(ScriptStep::status(after, failed_job(1, "DeadlineExceeded", message)));
        return steps;
    }
    let mut env = container.get("env").and_then(Value::as_array).into_iter().flatten();
    let is_missing = |one: &Value| one["value"].as_str().is_some_and(|value| value.contains("does-not-exist"));
    if env.any(is_missing) {
        let limit = number("backoffLimit", 6);
        for count in 1..=limit {
            steps.push(ScriptStep::status(POD_START_TIME, json!({"active": 1, "failed": count, "startTime": null})));
        }
        let message = "Job has reached the specified backoff limit";
        steps.push(ScriptStep::status(POD_START_TIME, failed_job(limit + 1, "BackoffLimitExceeded", message)));
        return steps;
    }
    let done = "Reached expected number of succeeded pods";
    let complete =
        |kind: &str| json!({"type": kind, "status": "True", "reason": "CompletionsReached", "message": done});
    let status = json!({
        "succeeded": 1, "startTime": null, "completionTime": null,
        "conditions": [complete("SuccessCriteriaMet"), complete("Complete")],
    });
    steps.push(ScriptStep::status(DOWNLOAD_TIME, status));
    steps
}

fn failed_job(count: u64, reason: &str, message: &str) -> Value {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": reason, "message": message});
    json!({
        "failed": count, "startTime": null,
        "conditions": [condition("FailureTarget"), condition("Failed")],
    })
}

/// The names that a route leads to.
fn backends(route: &Object) -> impl Iterator<Item = &str> {
    let rules = route.spec().get("rules").and_then(Value::as_array).into_iter().flatten();
    let backends = rules.filter_map(|rule| rule.get("backendRefs")?.as_array()).flatten();
    backends.filter_map(|backend| backend.get("name")?.as_str())
}

/// The graphs of which a name may be an address: those whose name it begins with.
fn possible_graphs(namespace: &str, name: &str) -> impl Iterator<Item = ObjectRef> {
    name.match_indices('-').filter_map(move |(end, _)| Some(GRAPH.reference(namespace, name.get(..end)?)))
}

/// Everything that a route may lead to, whether it is there or not.
pub(super) fn possible_backends(route: &Object) -> impl Iterator<Item = ObjectRef> {
    let namespace = route.namespace();
    backends(route)
        .flat_map(move |name| [SERVICE.reference(namespace, name)].into_iter().chain(possible_graphs(namespace, name)))
}

/// What a route leads to that is not there, by name: neither a Service, nor an address of a graph.
pub(super) fn missing_backends(route: &Object, find: impl Fn(&ObjectRef) -> Option<Object>) -> Vec<String> {
    let is_address = |name: &str| {
        let graphs = possible_graphs(route.namespace(), name).filter_map(|graph| find(&graph));
        graphs.flat_map(|graph| addresses::graph_addresses(&graph)).any(|address| address.name() == name)
    };
    let is_there = |name: &str| find(&SERVICE.reference(route.namespace(), name)).is_some() || is_address(name);
    backends(route).filter(|name| !is_there(name)).map(str::to_owned).collect()
}

/// The controllers of gateways: answers for every gateway that a route names. One with `does-not-exist` in its name is none.
pub(super) fn route_script(route: &Object, missing: &[String]) -> Vec<ScriptStep> {
    if route.is_deleting() {
        return Vec::new();
    }
    let generation = route.generation().unwrap_or(1);
    let condition = |kind: &str, fault: Option<(&str, String)>| {
        let (status, reason, message) = match fault {
            None => ("True", kind.to_owned(), String::new()),
            Some((reason, message)) => ("False", reason.to_owned(), message),
        };
        json!({"type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": generation})
    };
    let parents = route.spec().get("parentRefs").and_then(Value::as_array).into_iter().flatten();
    let answers: Vec<Value> = parents
        .filter(|parent| {
            parent.get("name").and_then(Value::as_str).is_some_and(|name| !name.contains("does-not-exist"))
        })
        .map(|parent| {
            let lost = (!missing.is_empty()).then(|| {
                ("BackendNotFound", format!("{} not found in namespace {}", missing.join(", "), route.namespace()))
            });
            json!({
                "parentRef": parent, "controllerName": GATEWAY_CONTROLLER,
                "conditions": [condition("Accepted", None), condition("ResolvedRefs", lost)],
            })
        })
        .collect();
    vec![ScriptStep::status(ROUTE_ACCEPT_TIME, json!({"parents": answers}))]
}
