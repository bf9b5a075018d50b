//! Endpoint pickers.

use super::{AdmissionCollector, PlatformRequirement, component_path, rules};
use crate::dynamo::v1beta1::{ComponentSpec, GraphSpec};
use crate::object::PathSegment;
use serde_json::Value;

/// Source: the operator's `SharedSpecValidator.validateEPPConfig`, and CEL rules of the CRD.
pub(super) fn check(component: &ComponentSpec, faults: &mut AdmissionCollector<'_>) {
    let path = component_path(&component.name);
    let name = &component.name;
    if component.component_type.as_deref() != Some("epp") {
        if component.epp_config.is_some() {
            faults.deny_by_schema(
                rules::ENDPOINT_PICKER,
                path.field("eppConfig"),
                format!("only a component of type `epp` has an `eppConfig`, and `{name}` is not one"),
                "remove it, or set `type: epp`",
            );
        }
        return;
    }
    faults.deny_unless_met(
        PlatformRequirement::InferenceGateway,
        path.field("type"),
        format!(
            "the endpoint picker `{name}` needs the Gateway API Inference Extension \
             (inference.networking.k8s.io)"
        ),
        "install it; for checks without a cluster, set `inferenceGateway: true` under the environment's `platform` in stator.yaml",
        format!(
            "spec.services[{name}]: cannot deploy EPP component: InferencePool API group (inference.networking.k8s.io) is \
             not available in the cluster. EPP requires the Gateway API Inference Extension to be installed. Please \
             install the Gateway API Inference Extension before deploying EPP components"
        ),
    );
    faults.next_operator_check();
    if component.multinode.is_some() {
        faults.deny(
            rules::ENDPOINT_PICKER,
            path.field("multinode"),
            "an endpoint picker runs on one node",
            "remove `nodes`",
            format!(
                "spec.services[{name}]: EPP component cannot be multinode (multinode field must be nil or nodeCount must \
                 be 1)"
            ),
        );
    }
    faults.next_operator_check();
    if let Some(replicas) = component.replicas.filter(|replicas| *replicas != 1) {
        faults.deny(
            rules::ENDPOINT_PICKER,
            path.field("replicas"),
            format!("an endpoint picker has exactly one replica, not {replicas}"),
            "set `replicas: 1`, or leave it out",
            format!("spec.services[{name}]: EPP component must have exactly 1 replica (found {replicas} replicas)"),
        );
    }
    faults.next_operator_check();
    let path = path.field("eppConfig");
    let help = "give `config` with its plugins";
    let given = |source: &str| {
        component.epp_config.as_ref().and_then(|config| config.get(source)).filter(|value| !value.is_null())
    };
    match (given("config"), given("configMapRef")) {
        (None, None) if component.epp_config.is_none() => faults.deny(
            rules::ENDPOINT_PICKER,
            path,
            "an endpoint picker needs settings, but has none",
            help,
            format!("spec.services[{name}].eppConfig is required for EPP components"),
        ),
        (None, None) => faults.deny(
            rules::ENDPOINT_PICKER,
            path,
            "an endpoint picker needs a source of settings, but has none",
            help,
            format!(
                "spec.services[{name}].eppConfig: either configMapRef or config must be specified (no default \
                 configuration provided)"
            ),
        ),
        (Some(_), Some(_)) => faults.deny(
            rules::ENDPOINT_PICKER,
            path,
            "an endpoint picker has one source of settings, and this one has two",
            help,
            format!(
                "spec.services[{name}].eppConfig: configMapRef and config are mutually exclusive, only one can be \
                 specified"
            ),
        ),
        (None, Some(reference)) if reference.get("name").and_then(Value::as_str).unwrap_or_default().is_empty() => {
            faults.deny(
                rules::ENDPOINT_PICKER,
                path.field("configMapRef").field("name"),
                "the reference to a ConfigMap has no name",
                "give the ConfigMap's name",
                format!("spec.services[{name}].eppConfig.configMapRef.name is required"),
            );
        }
        (None, Some(_)) | (Some(_), None) => {}
    }
}

/// A graph has at most one (CEL rule of the CRD).
pub(super) fn check_single_picker(spec: &GraphSpec, faults: &mut AdmissionCollector<'_>) {
    let pickers = spec.components.iter().filter(|component| component.component_type.as_deref() == Some("epp"));
    for second in pickers.skip(1) {
        faults.deny_by_schema(
            rules::ENDPOINT_PICKER,
            component_path(&second.name).join(PathSegment::Field("type".to_owned())),
            format!("`{}` is a second endpoint picker", second.name),
            "keep one of them",
        );
    }
}
