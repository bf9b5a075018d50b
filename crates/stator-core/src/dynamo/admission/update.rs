//! What admission forbids to change after creation.

use super::{AdmissionCollector, AdmissionFinding, Platform, component_path, rules};
use crate::dynamo::gpus;
use crate::dynamo::graph_components::named_components;
use crate::dynamo::kinds;
use crate::dynamo::registry::annotation;
use crate::dynamo::release::{Behaviour, Release};
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

/// What Dynamo of a release forbids about a change from one object to another of the same kind and name, in the operator's
/// order. What it refuses of the new object as such is [`super::check_object`]'s matter.
pub fn check_update(old: &Object, new: &Object, writer: UpdateAuthor, release: Release) -> Vec<AdmissionFinding> {
    let platform = Platform { dynamo: Some(release), ..Platform::default() };
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
    check_transfer_policy(old, new, faults);
    check_provider(old, new, faults);
    for (name, now) in &after {
        if let Some(was) = before.get(name) {
            check_frozen_fields(name, was, now, faults);
            check_power_limit(name, was, now, faults);
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

/// How transferred KV cache finds its way is settled when the graph is created. From 1.3 on, with the field.
fn check_transfer_policy(old: &Object, new: &Object, faults: &mut AdmissionCollector<'_>) {
    let policy = |object: &Object| {
        let mut policy = object.spec().pointer("/experimental/kvTransferPolicy").filter(|one| !one.is_null())?.clone();
        // The default of the definition.
        policy.as_object_mut()?.entry("enforcement").or_insert_with(|| "required".into());
        Some(policy)
    };
    if policy(old) != policy(new) {
        faults.deny_immutable(
            FieldPath::from_fields(["spec", "experimental", "kvTransferPolicy"]),
            "Dynamo forbids adding, removing or changing the transfer policy of a graph in place",
            "spec.experimental.kvTransferPolicy: is immutable and cannot be added, removed, or changed after creation",
        );
    }
}

/// What runs the graph stays as the operator wrote it when the graph was created.
fn check_provider(old: &Object, new: &Object, faults: &mut AdmissionCollector<'_>) {
    let provider =
        |object: &Object| object.annotations().get(annotation::WORKLOAD_PROVIDER).map(|value| (*value).to_owned());
    if faults.has(Behaviour::ProviderPinned) && provider(old) != provider(new) {
        let name = annotation::WORKLOAD_PROVIDER;
        faults.deny_immutable(
            FieldPath::from_fields(["metadata", "annotations", name]),
            format!("the operator owns `{name}`, and Dynamo forbids adding, changing or removing it"),
            format!("metadata.annotations[{name}]: Invalid value: field is immutable"),
        );
    }
}

/// Fields of a component that later releases froze as they brought them.
fn check_frozen_fields(name: &str, was: &Value, now: &Value, faults: &mut AdmissionCollector<'_>) {
    let path = component_path(name);
    if let Some(before) = non_null_field(was, "minAvailable")
        && non_null_field(now, "minAvailable") != Some(before)
    {
        faults.deny_immutable(
            path.field("minAvailable"),
            format!("Dynamo forbids changing `minAvailable` of `{name}` in place"),
            "minAvailable is immutable after creation",
        );
    }
    let forced =
        |component: &Value| component.pointer("/experimental/grove/forceScalingGroup") == Some(&Value::Bool(true));
    if forced(was) != forced(now) {
        faults.deny_immutable(
            path.field("experimental").field("grove").field("forceScalingGroup"),
            format!("Dynamo forbids putting `{name}` into a scaling group, or taking it out of one, in place"),
            "experimental.grove.forceScalingGroup: field is immutable",
        );
    }
    for place in ["/providerOverride", "/multinode/leader/providerOverride", "/multinode/worker/providerOverride"] {
        let both = was.pointer(place).zip(now.pointer(place));
        for field in ["apiVersion", "target"] {
            let (Some((before, after)), Some(of)) = (both, place.strip_prefix('/')) else { continue };
            // The webhook puts a target in where none is given.
            if after.get(field).is_some() && before.get(field) != after.get(field) {
                let at = of.split('/').fold(path.clone(), |path, name| path.field(name));
                faults.deny_immutable(
                    at.field(field),
                    format!("Dynamo forbids changing the target of the override of `{name}` in place"),
                    format!("{}.{field}: field is immutable", of.replace('/', ".")),
                );
            }
        }
    }
}

/// A planner that keeps to a power budget counts on the limit, and on the GPUs that it is for.
fn check_power_limit(name: &str, was: &Value, now: &Value, faults: &mut AdmissionCollector<'_>) {
    if !faults.has(Behaviour::PowerLimitChecked) {
        return;
    }
    let limit = |component: &Value| {
        let annotations = component.pointer("/podTemplate/metadata/annotations")?;
        annotations.get(annotation::GPU_POWER_LIMIT)?.as_str().map(str::to_owned)
    };
    let (before, after) = (limit(was), limit(now));
    let template = component_path(name).field("podTemplate");
    if before != after {
        faults.deny_immutable(
            template.field("metadata").field("annotations").field(annotation::GPU_POWER_LIMIT),
            format!("Dynamo forbids changing the power limit of `{name}` in place"),
            format!("podTemplate.metadata.annotations[{}]: field is immutable", annotation::GPU_POWER_LIMIT),
        );
    } else if before.is_some() {
        let gpus = |component: &Value| component.get("podTemplate").map_or(0, gpus::pod_gpus);
        let nodes = |component: &Value| component.pointer("/multinode/nodeCount").and_then(Value::as_u64);
        if gpus(was) != gpus(now) {
            faults.deny_immutable(
                template,
                format!("Dynamo forbids changing the GPUs of `{name}` in place, as it has a power limit"),
                "podTemplate.spec.containers[0].resources.limits: field is immutable",
            );
        }
        if nodes(was) != nodes(now) {
            faults.deny_immutable(
                component_path(name).field("multinode").field("nodeCount"),
                format!("Dynamo forbids changing the nodes of `{name}` in place, as it has a power limit"),
                "multinode.nodeCount: field is immutable",
            );
        }
    }
}

/// The adapter that counts is the one of the new graph, from 1.5 on also that of the old one.
fn check_replicas(before: &ComponentsByName<'_>, after: &ComponentsByName<'_>, faults: &mut AdmissionCollector<'_>) {
    let count = |component: &Value| component.get("replicas").and_then(Value::as_i64).unwrap_or(1);
    for (name, now) in after {
        let Some(was) = before.get(name) else { continue };
        let adapted = non_null_field(now, "scalingAdapter").is_some()
            || (non_null_field(was, "scalingAdapter").is_some() && faults.has(Behaviour::AdapterLocksBothWays));
        if adapted && count(was) != count(now) {
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
    let frozen = faults.has(Behaviour::ReadyRequestFrozen);
    if frozen && is_free_change(old, new, phase) {
        return;
    }
    if phase == "Failed" || (phase == "Ready" && !frozen) {
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

/// What may change of a request that does not apply its result by itself: the version of its runtime, and once it is Ready
/// also that it applies it.
fn is_free_change(old: &Object, new: &Object, phase: &str) -> bool {
    let applies = |object: &Object| object.spec().get("autoApply").and_then(Value::as_bool).unwrap_or(true);
    let rest = |object: &Object| {
        let mut spec = object.spec().clone();
        if let Value::Object(fields) = &mut spec {
            fields.retain(|name, _| !["runtimeVersionOverride", "autoApply"].contains(&name.as_str()));
        }
        spec
    };
    let version = |object: &Object| object.spec().get("runtimeVersionOverride").cloned();
    let same_rest = rest(old) == rest(new);
    let nothing = same_rest && version(old) == version(new) && applies(old) == applies(new);
    let stays = !applies(old) && !applies(new);
    let switched_on = !applies(old) && applies(new) && phase == "Ready";
    nothing || (same_rest && matches!(phase, "Profiling" | "Ready") && (stays || switched_on))
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
