//! The API server's own validation of a PersistentVolumeClaim, as far as stator writes one: the rules and the fields of
//! `ValidatePersistentVolumeClaim` and `ValidatePersistentVolumeClaimUpdate` (k8s.io/kubernetes
//! `pkg/apis/core/validation`, 1.36).

use crate::cluster::InvalidField;
use serde_json::{Value, json};
use stator_core::object::{FieldPath, Quantity};

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];
const SPEC_IMMUTABLE: &str = "Forbidden: spec is immutable after creation except resources.requests and \
                      volumeAttributesClassName for bound claims";

/// What the API server refuses of a claim that is created, or changed from `old`.
pub(super) fn validate(new: &Value, old: Option<&Value>) -> Vec<InvalidField> {
    let mut faults = malformed_quantities(new);
    if !faults.is_empty() {
        return faults;
    }
    validate_spec(new, &mut faults);
    if let Some(old) = old {
        validate_update(old, new, &mut faults);
    }
    faults.sort();
    faults.dedup();
    faults
}

fn invalid_field(fields: &[&str], message: impl Into<String>) -> InvalidField {
    InvalidField { path: FieldPath::from_fields(fields.iter().copied()), message: message.into() }
}

fn unsupported(fields: &[&str], value: &str, supported: &[&str]) -> InvalidField {
    let supported: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
    invalid_field(fields, format!("Unsupported value: {value:?}: supported values: {}", supported.join(", ")))
}

/// Quantities that are none: the API server cannot even read such a claim, and says so before it looks at anything else.
pub(super) fn malformed_quantities(claim: &Value) -> Vec<InvalidField> {
    let mut faults = Vec::new();
    for group in ["requests", "limits"] {
        let amounts = claim.pointer(&format!("/spec/resources/{group}")).and_then(Value::as_object);
        for (name, amount) in amounts.into_iter().flatten().filter(|(_, amount)| Quantity::from_value(amount).is_none())
        {
            faults.push(invalid_field(
                &["spec", "resources", group, name],
                format!("Invalid value: {amount}: not a quantity"),
            ));
        }
    }
    faults
}

fn validate_spec(claim: &Value, faults: &mut Vec<InvalidField>) {
    let modes = claim.pointer("/spec/accessModes").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let path = &["spec", "accessModes"];
    if modes.is_empty() {
        faults.push(invalid_field(path, "Required value: at least 1 access mode is required"));
    }
    let modes: Vec<&str> = modes.iter().filter_map(Value::as_str).collect();
    faults.extend(
        modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)).map(|mode| unsupported(path, mode, ACCESS_MODES)),
    );
    if modes.len() > 1 && modes.contains(&"ReadWriteOncePod") {
        faults.push(invalid_field(path, "Forbidden: may not use ReadWriteOncePod with other access modes"));
    }
    // The API server leaves `requests` out of this path.
    let path = &["spec", "resources", "storage"];
    match requested_storage(claim) {
        None => faults.push(invalid_field(path, "Required value")),
        Some(size) if size < Quantity::default() => {
            faults.push(invalid_field(path, "Invalid value: must be greater than or equal to 0"));
            faults.push(invalid_field(path, "Invalid value: must be greater than zero"));
        }
        Some(size) if size == Quantity::default() => {
            faults.push(invalid_field(path, "Invalid value: must be greater than zero"));
        }
        Some(_) => {}
    }
    if let Some(mode) = claim.pointer("/spec/volumeMode").and_then(Value::as_str)
        && !VOLUME_MODES.contains(&mode)
    {
        faults.push(unsupported(&["spec", "volumeMode"], mode, VOLUME_MODES));
    }
}

fn validate_update(old: &Value, new: &Value, faults: &mut Vec<InvalidField>) {
    let bound = new.pointer("/status/phase").and_then(Value::as_str) == Some("Bound");
    let (mut was, mut is) = (spec(old), spec(new));
    normalize_quantities(&mut was);
    normalize_quantities(&mut is);
    // The volume controller writes the name of the volume, once.
    if was.get("volumeName").is_none()
        && let Some(name) = is.get("volumeName").cloned()
    {
        was["volumeName"] = name;
    }
    // So does whoever makes a class the default one, for claims that name none.
    if was.get("storageClassName").is_none()
        && let Some(class) = is.get("storageClassName").cloned()
    {
        was["storageClassName"] = class;
    }
    if bound {
        for spec in [&mut was, &mut is] {
            if let Some(requests) = spec.pointer_mut("/resources/requests").and_then(Value::as_object_mut) {
                requests.remove("storage");
            }
            if let Some(spec) = spec.as_object_mut() {
                spec.remove("volumeAttributesClassName");
            }
        }
    }
    if was != is {
        faults.push(invalid_field(&["spec"], SPEC_IMMUTABLE));
    }
    if old.pointer("/spec/volumeMode") != new.pointer("/spec/volumeMode") {
        // That field has no `spec` before it in the API server either.
        faults.push(invalid_field(&["volumeMode"], "Invalid value: field is immutable"));
    }
    let capacity = old.pointer("/status/capacity/storage").and_then(Quantity::from_value).unwrap_or_default();
    let (before, after) = (requested_storage(old).unwrap_or_default(), requested_storage(new).unwrap_or_default());
    if after < before && after <= capacity {
        let path = &["spec", "resources", "requests", "storage"];
        faults.push(invalid_field(path, "Forbidden: field can not be less than status.capacity"));
    }
}

/// Amounts in one form each: the API server compares them by value, so that another way to write one is no change.
fn normalize_quantities(spec: &mut Value) {
    for group in ["requests", "limits"] {
        let amounts = spec.pointer_mut(&format!("/resources/{group}")).and_then(Value::as_object_mut);
        for amount in amounts.into_iter().flat_map(|amounts| amounts.values_mut()) {
            if let Some(quantity) = Quantity::from_value(amount) {
                *amount = json!(quantity.to_string());
            }
        }
    }
}

fn requested_storage(claim: &Value) -> Option<Quantity> {
    claim.pointer("/spec/resources/requests/storage").and_then(Quantity::from_value)
}

fn spec(claim: &Value) -> Value {
    claim.get("spec").cloned().unwrap_or_else(|| json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(size: &str, class: &str, phase: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "cache", "namespace": "prod"},
            "spec": {
                "accessModes": ["ReadWriteMany"], "storageClassName": class, "volumeMode": "Filesystem",
                "resources": {"requests": {"storage": size}},
            },
            "status": {"phase": phase, "capacity": {"storage": "500Gi"}},
        })
    }

    fn judge(new: &Value, old: Option<&Value>) -> String {
        validate(new, old).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_claim_says_how_it_is_used_and_how_large_it_is() {
        assert_eq!(judge(&claim("500Gi", "fast", "Pending"), None), "");
        insta::assert_snapshot!(judge(&json!({"spec": {}}), None), @r"
        spec.accessModes: Required value: at least 1 access mode is required
        spec.resources.storage: Required value
        ");
        insta::assert_snapshot!(judge(&claim("0", "fast", "Pending"), None), @"spec.resources.storage: Invalid value: must be greater than zero");
        let odd = json!({"spec": {"accessModes": ["Sometimes"], "volumeMode": "Tape", "resources": {"requests": {"storage": "1"}}}});
        insta::assert_snapshot!(judge(&odd, None), @r#"
        spec.accessModes: Unsupported value: "Sometimes": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"
        spec.volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem"
        "#);
    }

    #[test]
    fn another_way_to_write_a_size_is_no_change() {
        let old = claim("1Gi", "fast", "Pending");
        assert_eq!(judge(&claim("1073741824", "fast", "Pending"), Some(&old)), "");
        assert!(judge(&claim("1073741825", "fast", "Pending"), Some(&old)).contains("immutable after creation"));
    }

    #[test]
    fn a_bound_claim_may_grow_and_nothing_else() {
        let old = claim("500Gi", "fast", "Bound");
        assert_eq!(judge(&claim("1Ti", "fast", "Bound"), Some(&old)), "");
        assert!(judge(&claim("100Gi", "fast", "Bound"), Some(&old)).contains("can not be less"));
        assert!(judge(&claim("500Gi", "slow", "Bound"), Some(&old)).contains("immutable after creation"));
        let old = claim("500Gi", "fast", "Pending");
        assert!(judge(&claim("1Ti", "fast", "Pending"), Some(&old)).contains("immutable after creation"));
    }
}
