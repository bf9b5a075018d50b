//! What the controller of a gateway says of a route: that it takes it, and finds what it leads to. Not Dynamo's work, and done
//! here all the same, because a model is not reached by a route that nobody takes.

use super::script::ScriptStep;
use serde_json::{Value, json};
use stator_core::dynamo::addresses;
use stator_core::dynamo::kinds::{GRAPH, ObjectKind, SERVICE};
use stator_core::object::{Object, ObjectRef};
use std::collections::BTreeMap;
use std::time::Duration;

/// Taking up a route.
const ACCEPT_TIME: Duration = Duration::from_millis(300);
const CONTROLLER: &str = "stator.dev/simulated-gateway";

/// What a route leads to that is not there, by name: neither a Service, nor an address of a graph.
pub(super) fn missing_backends(route: &Object, objects: &BTreeMap<ObjectRef, Object>) -> Vec<String> {
    let rules = route.spec().get("rules").and_then(Value::as_array).into_iter().flatten();
    let backends = rules.filter_map(|rule| rule.get("backendRefs")?.as_array()).flatten();
    let names = backends.filter_map(|backend| backend.get("name")?.as_str());
    let find = |kind: &ObjectKind, name: &str| {
        objects.get(&ObjectRef {
            api_version: kind.api_version(),
            kind: kind.kind.to_owned(),
            namespace: route.namespace().to_owned(),
            name: name.to_owned(),
        })
    };
    let is_address = |name: &str| {
        // Of the graph whose name it begins with.
        let graphs = name.match_indices('-').filter_map(|(end, _)| find(&GRAPH, name.get(..end)?));
        graphs.flat_map(addresses::graph_addresses).any(|address| address.name() == name)
    };
    names.filter(|name| find(&SERVICE, name).is_none() && !is_address(name)).map(str::to_owned).collect()
}

/// Answers for every gateway that a route names. One with `does-not-exist` in its name is none.
pub(super) fn build_script(route: &Object, missing: &[String]) -> Vec<ScriptStep> {
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
                "parentRef": parent, "controllerName": CONTROLLER,
                "conditions": [condition("Accepted", None), condition("ResolvedRefs", lost)],
            })
        })
        .collect();
    vec![ScriptStep::status(ACCEPT_TIME, json!({"parents": answers}))]
}
