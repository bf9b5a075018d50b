//! The custom resource definition of policies, generated from their Rust types.

use super::document::FleetPolicySpec;
use crate::intent::structural::{printer_column, structural_schema};
use serde_json::{Value, json};
use stator_core::dynamo::kinds::FLEET_POLICY;

/// The definition of `fleetpolicies.stator.dev`, as `crds/stator.dev_fleetpolicies.yaml` holds it.
pub fn custom_resource_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", FLEET_POLICY.plural, FLEET_POLICY.group)},
        "spec": {
            "group": FLEET_POLICY.group,
            "names": {
                "kind": FLEET_POLICY.kind,
                "listKind": format!("{}List", FLEET_POLICY.kind),
                "plural": FLEET_POLICY.plural,
                "singular": FLEET_POLICY.kind.to_lowercase(),
                "shortNames": [FLEET_POLICY.short],
                "categories": ["stator"],
            },
            "scope": "Cluster",
            "versions": [{
                "name": FLEET_POLICY.version,
                "served": true,
                "storage": true,
                "additionalPrinterColumns": [
                    printer_column("Namespaces", "string", ".spec.appliesTo.namespaces", false),
                    printer_column("Level", "string", ".spec.pods.level", false),
                    printer_column("Age", "date", ".metadata.creationTimestamp", false),
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "Limits that administrators set for the sources of tenants.",
                    "required": ["spec"],
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "metadata": {"type": "object"},
                        "spec": structural_schema::<FleetPolicySpec>(),
                    },
                }},
            }],
        },
    })
}
