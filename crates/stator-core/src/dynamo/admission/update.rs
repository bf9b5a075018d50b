//! What admission forbids to change after creation.

use super::{AdmissionCollector, AdmissionFinding, Platform, component_path, rules};
use crate::dynamo::graph_components::named_components;
use crate::dynamo::kinds;
use crate::object::{FieldPath, Object};
use serde_json::Value;
use std::collections::BTreeMap;

/// What makes a forbidden change possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeRemedy {
    /// Delete the object and create it again.
    Replace,
    /// Only another value: the object would be refused on create as well, or must not be deleted (weights).
    Correct,
    /// The same change later.
    Wait,
}

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateAuthor {
    /// The operator or a planner: they may change replicas under a scaling adapter.
    Operator,
    /// Everybody else.
    User,
}

/// What Dynamo forbids about a change from one object to another of the same kind and name, in the operator's order.
/// What it refuses of the new object as such is [`super::check_object`]'s matter.
pub fn check_update(old: &Object, new: &Object, writer: UpdateAuthor) -> Vec<AdmissionFinding> {
    let platform = Platform::default();
    let mut faults = AdmissionCollector::new(&platform);
    let kind = new.kind();
    if kind == kinds::GRAPH.kind {
        check_graph(old, new, writer, &mut faults);
    } else if kind == kinds::REQUEST.kind {
        check_request(old, new, &mut faults);
    } else if kind == kinds::ADAPTER.kind {
        check_adapter(old, new, &mut faults);
    }
    faults.findings
}

type ComponentsByName<'a> = BTreeMap<&'a str, &'a Value>;

fn non_null_field<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    value.get(field).filter(|value| !value.is_null())
}

/// Source: the DGD webhook's `ValidateUpdate`.
fn check_graph(old: &Object, new: &Object, writer: UpdateAuthor, faults: &mut AdmissionCollector<'_>) {
    let before: ComponentsByName<'_> = named_components(old.spec()).collect();
    let after: ComponentsByName<'_> = named_components(new.spec()).collect();
    if non_null_field(old.spec(), "backendFramework") != non_null_field(new.spec(), "backendFramework") {
        faults.deny_immutable(
            FieldPath::from_fields(["spec", "backendFramework"]),
            "Dynamo forbids changing the backend of a graph in place",
            "spec.backendFramework is immutable and cannot be changed after creation",
        );
    }
    for (name, now) in &after {
        if let Some(was) = before.get(name)
            && non_null_field(was, "multinode").is_some() != non_null_field(now, "multinode").is_some()
        {
            faults.deny_immutable(
                component_path(name).field("multinode"),
                format!("Dynamo forbids turning component `{name}` from one node to several or back"),
                format!(
                    "spec.services[{name}] cannot change node topology (between single-node and multi-node) after creation"
                ),
            );
        }
    }
    for (name, now) in &after {
        if let Some(was) = before.get(name) {
            check_gpu_memory(name, was, now, faults);
        }
    }
    let tail = "is immutable and cannot be added, removed, or changed after creation; delete and recreate the \
                DynamoGraphDeployment to change topology constraints";
    if non_null_field(old.spec(), "topologyConstraint") != non_null_field(new.spec(), "topologyConstraint") {
        faults.deny_immutable(
            FieldPath::from_fields(["spec", "topologyConstraint"]),
            "Dynamo forbids changing the topology constraint of a graph in place",
            format!("spec.topologyConstraint {tail}"),
        );
    }
    for (name, now) in &after {
        if let Some(was) = before.get(name)
            && non_null_field(was, "topologyConstraint") != non_null_field(now, "topologyConstraint")
        {
            faults.deny_immutable(
                component_path(name).field("topologyConstraint"),
                format!("Dynamo forbids changing the topology constraint of component `{name}` in place"),
                format!("spec.services[{name}].topologyConstraint {tail}"),
            );
        }
    }
    faults.next_operator_check();
    check_component_names(&before, &after, faults);
    faults.next_operator_check();
    if writer == UpdateAuthor::User {
        check_replicas(&before, &after, faults);
    }
    faults.next_operator_check();
    check_restart(old, new, faults);
}

fn check_component_names(
    before: &ComponentsByName<'_>,
    after: &ComponentsByName<'_>,
    faults: &mut AdmissionCollector<'_>,
) {
    let added: Vec<&str> = after.keys().filter(|name| !before.contains_key(*name)).copied().collect();
    let removed: Vec<&str> = before.keys().filter(|name| !after.contains_key(*name)).copied().collect();
    let part =
        |verb: &str, names: &[&str]| (!names.is_empty()).then(|| format!("services {verb}: [{}]", names.join(" ")));
    let parts: Vec<String> = [part("added", &added), part("removed", &removed)].into_iter().flatten().collect();
    let words = format!("service topology is immutable and cannot be modified after creation: {}", parts.join(", "));
    for name in &removed {
        let message = format!("Dynamo forbids removing component `{name}` in place");
        faults.deny_immutable(component_path(name), message, words.clone());
    }
    for name in &added {
        let message = format!("Dynamo forbids adding component `{name}` in place");
        faults.deny_immutable(component_path(name), message, words.clone());
    }
}

/// GPU memory between pods, with its failover, decides which pods there are at all.
fn check_gpu_memory(name: &str, was: &Value, now: &Value, faults: &mut AdmissionCollector<'_>) {
    let mode = |component: &Value, block: &str| {
        let block = component.get("experimental")?.get(block).filter(|block| !block.is_null())?;
        Some((block.get("mode")?.as_str()? == "InterPod", block.get("numShadows").and_then(Value::as_u64).unwrap_or(1)))
    };
    let service = |component: &Value| mode(component, "gpuMemoryService").is_some_and(|(between, _)| between);
    let failover = |component: &Value| {
        mode(component, "failover").filter(|(between, _)| *between && service(component)).map(|(_, shadows)| shadows)
    };
    let path = component_path(name).field("experimental");
    let recreate = "delete and recreate the DynamoGraphDeployment";
    if service(was) != service(now) {
        faults.deny_immutable(
            path.field("gpuMemoryService").field("mode"),
            format!("Dynamo forbids switching GPU memory between pods of `{name}` on or off in place"),
            format!(
                "spec.services[{name}].gpuMemoryService.mode: the inter-pod GMS layout cannot be toggled after creation; \
                 {recreate}"
            ),
        );
    }
    match (failover(was), failover(now)) {
        (Some(before), Some(after)) if before != after => faults.deny_immutable(
            path.field("failover").field("numShadows"),
            format!("Dynamo forbids changing the shadows of `{name}` in place"),
            format!(
                "spec.services[{name}].failover.numShadows is immutable for inter-pod GMS failover; {recreate} to change it"
            ),
        ),
        (Some(_), None) | (None, Some(_)) => faults.deny_immutable(
            path.field("failover"),
            format!("Dynamo forbids switching failover between pods of `{name}` on or off in place"),
            format!(
                "spec.services[{name}].failover: inter-pod GMS failover cannot be toggled after creation; {recreate}"
            ),
        ),
        (Some(_), Some(_)) | (None, None) => {}
    }
}

/// The adapter that counts is the one of the new graph.
fn check_replicas(before: &ComponentsByName<'_>, after: &ComponentsByName<'_>, faults: &mut AdmissionCollector<'_>) {
    let count = |component: &Value| component.get("replicas").and_then(Value::as_i64).unwrap_or(1);
    for (name, now) in after {
        let Some(was) = before.get(name) else { continue };
        if non_null_field(now, "scalingAdapter").is_some() && count(was) != count(now) {
            faults.deny(
                rules::SCALED,
                component_path(name).field("replicas"),
                format!("the replicas of `{name}` are managed by its scaling adapter"),
                "scale the adapter",
                format!(
                    "spec.services[{name}].replicas cannot be modified directly when scaling adapter is enabled; scale or \
                     update the related DynamoGraphDeploymentScalingAdapter instead"
                ),
            );
        }
    }
}

fn check_restart(old: &Object, new: &Object, faults: &mut AdmissionCollector<'_>) {
    let id =
        |object: &Object| object.spec().pointer("/restart/id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let phase = old.status().pointer("/rollingUpdate/phase").and_then(Value::as_str);
    if let Some(phase @ ("Pending" | "InProgress")) = phase
        && id(old) != id(new)
    {
        faults.deny(
            rules::RESTART_WHILE_ROLLING,
            FieldPath::from_fields(["spec", "restart", "id"]),
            format!("the workers roll (rolling update {phase}), and Dynamo accepts no restart until it is complete"),
            "wait until the rollout is complete, then sync",
            format!("spec.restart.id cannot be changed while a rolling update is {phase}"),
        );
        faults.set_last_remedy(ChangeRemedy::Wait);
    }
}

/// A request is one-shot: its spec counts until profiling starts. Source: the DGDR webhook; edits of a request that is
/// over are admitted and ignored, which is stator's own finding.
fn check_request(old: &Object, new: &Object, faults: &mut AdmissionCollector<'_>) {
    let phase = old.status().get("phase").and_then(Value::as_str).unwrap_or_default();
    if old.spec() == new.spec() || matches!(phase, "" | "Pending") {
        return;
    }
    let path = FieldPath::from_fields(["spec"]);
    if matches!(phase, "Ready" | "Failed") {
        let message = format!("Dynamo ignores edits of a request that is {phase}");
        faults.warn(rules::FROZEN, path, message, "create the request again under another name");
        faults.set_last_remedy(ChangeRemedy::Replace);
    } else {
        faults.deny_immutable(
            path,
            format!("Dynamo denies edits of a request that is {phase}"),
            format!(
                "spec updates are forbidden while the resource is in phase \"{phase}\"; delete and recreate the resource"
            ),
        );
    }
}

/// Source: the DynamoModel webhook.
fn check_adapter(old: &Object, new: &Object, faults: &mut AdmissionCollector<'_>) {
    for (field, default) in [("modelType", "base"), ("baseModelName", "")] {
        let value = |object: &Object| object.spec().get(field).and_then(Value::as_str).unwrap_or(default).to_owned();
        if value(old) != value(new) {
            faults.deny_immutable(
                FieldPath::from_fields(["spec", field]),
                format!("Dynamo forbids changing `{field}` of an adapter in place"),
                format!("spec.{field} is immutable and cannot be changed after creation"),
            );
        }
    }
}

impl AdmissionCollector<'_> {
    /// Frozen: only a new object can have it.
    fn deny_immutable(&mut self, path: FieldPath, message: impl Into<String>, words: impl Into<String>) {
        let help = "the object must be created again: `--allow replace`, or give the model another name";
        self.deny(rules::FROZEN, path, message, help, words);
        self.set_last_remedy(ChangeRemedy::Replace);
    }

    fn set_last_remedy(&mut self, remedy: ChangeRemedy) {
        if let Some(last) = self.findings.last_mut() {
            last.remedy = remedy;
        }
    }
}
