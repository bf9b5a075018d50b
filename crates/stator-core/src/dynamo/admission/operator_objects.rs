//! What the operator makes for a graph, written by hand: DynamoComponentDeployment and DynamoCheckpoint.
//!
//! Source: their webhooks of release 1.5. stator writes neither; it judges those that it is shown.

use super::{AdmissionCollector, PlatformRequirement, gpu_memory, pod, rules};
use crate::dynamo::conversion;
use crate::dynamo::release::Behaviour;
use crate::dynamo::v1beta1::{ComponentSpec, GraphSpec};
use crate::object::{FieldPath, Object, PathSegment};
use serde::Deserialize;
use serde_json::Value;

pub(super) const COMPONENT: &str = conversion::operator_objects::COMPONENT;
pub(super) const CHECKPOINT: &str = "DynamoCheckpoint";

/// One component, by the rules of a graph's: but its runtime's version is not read, and Grove does not run it.
pub(super) fn check_component(object: &Object, faults: &mut AdmissionCollector<'_>) {
    let Ok(converted) = conversion::convert(object.value(), faults.platform.release()) else { return };
    let Ok(component) = ComponentSpec::deserialize(&converted.document["spec"]) else { return };
    let before = faults.findings.len();
    pod::check_shared_memory(&component, "spec", faults);
    pod::check_image(&component, "spec", faults);
    let group = component.experimental("grove").and_then(|grove| grove.get("forceScalingGroup"));
    let group = group.filter(|forced| **forced == Value::Bool(true)).map(|_| "experimental.grove.forceScalingGroup");
    let gang = component.rest.contains_key("minAvailable").then_some("minAvailable");
    let refused = faults.has(Behaviour::GroveFieldsChecked);
    for field in gang.into_iter().chain(group).filter(|_| refused) {
        faults.deny(
            rules::NEEDS_GROVE,
            FieldPath::from_fields(std::iter::once("spec").chain(field.split('.'))),
            format!("`{field}` is for the components of a graph that runs on Grove"),
            "remove it",
            format!(
                "spec.{field}: Forbidden: is currently supported only for Grove-backed DynamoGraphDeployment components"
            ),
        );
    }
    let spec = GraphSpec { components: vec![component], ..GraphSpec::default() };
    for component in &spec.components {
        gpu_memory::check_clients(&spec, component, faults);
        gpu_memory::check_checkpoint(&spec, component, faults);
    }
    // `spec.components[name=…].field` of a graph is `spec.field` here.
    for finding in faults.findings.iter_mut().skip(before) {
        let components = PathSegment::Field("components".to_owned());
        if let [root, list, _, below @ ..] = finding.path.0.as_slice()
            && *list == components
        {
            finding.path = FieldPath(std::iter::once(root).chain(below).cloned().collect());
        }
    }
}

/// A checkpoint needs an operator that makes them.
pub(super) fn check_checkpoint(faults: &mut AdmissionCollector<'_>) {
    if !faults.has(Behaviour::CheckpointGated) {
        return;
    }
    faults.deny_unless_met(
        PlatformRequirement::Checkpoints,
        FieldPath::from_fields(["spec"]),
        "a checkpoint needs an operator whose chart has checkpoints enabled",
        "enable them in the operator's chart and set `checkpoints: true` under the environment's `platform` in stator.yaml",
        "spec: Forbidden: checkpoint functionality is disabled in the operator configuration",
    );
}
