//! What only graphs on Grove have: gangs, priority, placement, and overrides of Grove's own objects.

use super::{AdmissionCollector, Platform, PlatformRequirement, component_path, names, rules};
use crate::dynamo::registry::annotation;
use crate::dynamo::release::Behaviour;
use crate::dynamo::v1beta1::{ComponentSpec, GraphSpec};
use crate::object::{FieldPath, Object};
use serde_json::Value;

const UPDATE_STRATEGIES: [&str; 2] = ["RollingRecreate", "OnDelete"];

/// Annotations that Grove's pathway reads.
pub(super) fn check_annotations(object: &Object, faults: &mut AdmissionCollector<'_>) {
    let name = annotation::GROVE_UPDATE_STRATEGY;
    let annotations = object.annotations();
    let Some(value) = annotations.get(name).filter(|value| !UPDATE_STRATEGIES.contains(*value)) else { return };
    faults.deny_since(
        Behaviour::UpdateStrategyChecked,
        rules::ANNOTATION,
        FieldPath::from_fields(["metadata", "annotations", name]),
        format!("`{name}` is `{value}`; allowed: `RollingRecreate` and `OnDelete`"),
        "write `RollingRecreate` or `OnDelete`, or remove the annotation",
        format!(
            "metadata.annotations[{name}]: Unsupported value: {value:?}: supported values: \"RollingRecreate\", \"OnDelete\""
        ),
    );
}

/// Where a graph, or one of its components, uses what Grove alone has.
pub(super) fn check_graph(object: &Object, spec: &GraphSpec, platform: &Platform, faults: &mut AdmissionCollector<'_>) {
    let root = FieldPath::from_fields(["spec"]);
    if present(spec.rest.get("priorityClassName")).is_some() {
        let path = root.field("priorityClassName");
        need_grove(object, path, "a priority class of the whole graph", "spec.priorityClassName", faults);
    }
    let transfer = spec.rest.get("experimental").and_then(|block| block.get("kvTransferPolicy"));
    if let Some(topology) = transfer.and_then(|policy| present(policy.get("clusterTopologyName"))) {
        let path = root.field("experimental").field("kvTransferPolicy").field("clusterTopologyName");
        let words = "spec.experimental.kvTransferPolicy.clusterTopologyName";
        need_grove(object, path.clone(), "a transfer policy by a cluster topology", words, faults);
        if !names::opts_out_of_grove(object) {
            let domain = transfer.and_then(|policy| policy.get("domain")).and_then(Value::as_str);
            check_topology(topology, domain, &path, platform, faults);
        }
    }
    if let Some(block) = present(spec.rest.get("providerOverride")) {
        let context = OverrideContext {
            path: root.field("providerOverride"),
            words: "spec.providerOverride".to_owned(),
            target: Some("PodCliqueSet"),
            below: &["spec", "template", "topologyConstraint"],
        };
        check_override(object, spec, block, &context, faults);
    }
}

/// Where a graph, or one of its components, uses what Grove alone has.
pub(super) fn check_component(
    object: &Object,
    spec: &GraphSpec,
    component: &ComponentSpec,
    faults: &mut AdmissionCollector<'_>,
) {
    let path = component_path(&component.name);
    let words = words_of(spec, component);
    if present(component.rest.get("minAvailable")).is_some() {
        let (path, words) = (path.field("minAvailable"), format!("{words}.minAvailable"));
        need_grove(object, path, "`minAvailable`, the smallest gang that serves,", &words, faults);
    }
    let group = component.experimental("grove").and_then(|grove| grove.get("forceScalingGroup"));
    if group == Some(&Value::Bool(true)) {
        let path = path.field("experimental").field("grove").field("forceScalingGroup");
        let words = format!("{words}.experimental.grove.forceScalingGroup");
        need_grove(object, path, "a scaling group", &words, faults);
    }
    let is_group = component.multinode.is_some() || group == Some(&Value::Bool(true));
    let target = match (component.shares_gpus_between_pods(), is_group) {
        (true, _) => None,
        (false, true) => Some("PodCliqueScalingGroupConfig"),
        (false, false) => Some("PodCliqueTemplateSpec"),
    };
    if let Some(block) = present(component.rest.get("providerOverride")) {
        let context = OverrideContext {
            path: path.field("providerOverride"),
            words: format!("{words}.providerOverride"),
            target,
            below: &["topologyConstraint"],
        };
        check_override(object, spec, block, &context, faults);
    }
    for role in ["leader", "worker"] {
        let multinode = object.spec().get("components").and_then(Value::as_array).and_then(|components| {
            let own = components.iter().find(|one| one.get("name").and_then(Value::as_str) == Some(&component.name))?;
            own.get("multinode")?.get(role)
        });
        let Some(block) = multinode.and_then(|role| present(role.get("providerOverride"))) else { continue };
        let context = OverrideContext {
            path: path.field("multinode").field(role).field("providerOverride"),
            words: format!("{words}.multinode.{role}.providerOverride"),
            target: Some("PodCliqueTemplateSpec"),
            below: &["topologyConstraint"],
        };
        check_override(object, spec, block, &context, faults);
    }
}

/// `spec.components[1]`, as the operator names a component.
pub(super) fn words_of(spec: &GraphSpec, component: &ComponentSpec) -> String {
    let index = spec.components.iter().position(|one| one.name == component.name).unwrap_or_default();
    format!("spec.components[{index}]")
}

fn present(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}

fn need_grove(object: &Object, path: FieldPath, what: &str, words: &str, faults: &mut AdmissionCollector<'_>) {
    if !faults.has(Behaviour::GroveFieldsChecked) {
        return;
    }
    let words =
        format!("{words}: Forbidden: requires the Grove pathway, but workload provider \"component\" is selected");
    if names::opts_out_of_grove(object) {
        faults.deny(
            rules::NEEDS_GROVE,
            path,
            format!("{what} needs Grove, but an annotation of the model disables it"),
            format!("remove the annotation `{}`, or this field", annotation::ENABLE_GROVE),
            words,
        );
        return;
    }
    faults.deny_unless_met(
        PlatformRequirement::Grove,
        path,
        format!("{what} needs an operator that runs on Grove"),
        "remove the field, or enable Grove and set `grove: true` under the environment's `platform` in stator.yaml",
        words,
    );
}

fn check_topology(
    topology: &Value,
    domain: Option<&str>,
    path: &FieldPath,
    platform: &Platform,
    faults: &mut AdmissionCollector<'_>,
) {
    let (Some(topology), Some(known)) = (topology.as_str(), &platform.topologies) else { return };
    if platform.grove == Some(false) {
        return;
    }
    let Some(levels) = known.get(topology) else {
        faults.deny_unless_met(
            PlatformRequirement::Topology,
            path.clone(),
            format!("there is no cluster topology `{topology}`"),
            "create it, or name an existing one",
            format!(
                "{path}: Invalid value: {topology:?}: references a ClusterTopologyBinding resource that was not found"
            ),
        );
        return;
    };
    let Some(domain) = domain.filter(|domain| !levels.iter().any(|level| level == domain)) else { return };
    faults.deny_unless_met(
        PlatformRequirement::Topology,
        path.clone(),
        format!("the topology `{topology}` has no domain `{domain}`; it has `{}`", levels.join("`, `")),
        "name one of its domains",
        format!("spec.experimental.kvTransferPolicy.domain: Invalid value: {domain:?}: does not exist in ClusterTopologyBinding \"{topology}\""),
    );
}

/// What may be overridden at one place.
struct OverrideContext {
    path: FieldPath,
    words: String,
    /// Grove's type that it is laid over, where that follows from the component alone.
    target: Option<&'static str>,
    /// The one subtree that may be given.
    below: &'static [&'static str],
}

/// Source: the DGD webhook's `validateProviderOverride`: Grove's `topologyConstraint` and nothing else, at the version and
/// type that the place has.
fn check_override(
    object: &Object,
    spec: &GraphSpec,
    block: &Value,
    context: &OverrideContext,
    faults: &mut AdmissionCollector<'_>,
) {
    const API: &str = "grove.io/v1alpha1";
    let before = faults.findings.len();
    need_grove(object, context.path.clone(), "an override of Grove's objects", &context.words, faults);
    let refused = |finding: &super::AdmissionFinding| finding.outcome == super::AdmissionOutcome::Denied;
    if faults.findings.iter().skip(before).any(refused) {
        return;
    }
    let mut deny = |field: FieldPath, message: String, help: &str| {
        let words = format!("{}: Invalid value: {message}", context.words);
        faults.deny(rules::PROVIDER_OVERRIDE, field, message, help, words);
    };
    let text = |name: &str| block.get(name).and_then(Value::as_str);
    if let Some(version) = text("apiVersion").filter(|version| *version != API) {
        let message = format!("Grove's objects are of `{API}`, not of `{version}`");
        deny(context.path.field("apiVersion"), message, "write `apiVersion: grove.io/v1alpha1`");
    }
    if let (Some(wanted), Some(given)) = (context.target, text("target"))
        && given != wanted
    {
        let message = format!("here the target is `{wanted}`, not `{given}`");
        deny(context.path.field("target"), message, "correct `target`, or leave it out");
    }
    let (mut here, mut path) = (block.get("value").unwrap_or(&Value::Null), context.path.field("value"));
    for name in context.below {
        for other in here.as_object().into_iter().flat_map(|map| map.keys()).filter(|other| other != name) {
            let message = format!("Dynamo sets `{other}`; only `{}` may be overridden", context.below.join("."));
            deny(path.field(other), message, "remove it");
        }
        path = path.field(*name);
        match here.get(*name) {
            Some(below) => here = below,
            None => {
                let message = format!("`{}` is missing", context.below.join("."));
                deny(path.clone(), message, "give it, or remove the override");
                return;
            }
        }
    }
    let shaped = here.as_object().is_some_and(|constraint| {
        constraint.get("pack").is_none_or(|pack| {
            pack.as_object().is_some_and(|pack| pack.values().all(|level| level.is_string() || level.is_null()))
        }) && ["packDomain", "topologyName"].iter().all(|name| constraint.get(*name).is_none_or(Value::is_string))
    });
    if !shaped {
        let message = "it is not a valid TopologyConstraint of Grove".to_owned();
        deny(path, message, "write `topologyConstraint: {packDomain: rack}`, as Grove's definition has it");
    } else if spec.topology_constraint.is_some()
        || spec.components.iter().any(|component| component.topology_constraint().is_some())
    {
        let message = "the graph has a `topologyConstraint` of Dynamo's own".to_owned();
        deny(path, message, "keep one of the two");
    }
}
