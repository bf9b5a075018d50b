//! What a storage provisioner does with a PersistentVolumeClaim: binds it. Not Dynamo's work, and done here all the same,
//! because a graph is not served from a volume that nobody binds.

use super::script::ScriptStep;
use serde_json::{Value, json};
use stator_core::object::Object;
use std::time::Duration;

/// Making a volume.
const BIND_TIME: Duration = Duration::from_millis(500);

/// True once a claim has its volume.
pub(super) fn is_bound(claim: &Object) -> bool {
    claim.str_at("/status/phase") == Some("Bound")
}

/// Binds a claim that is not bound, at the size and in the mode that it asks for.
pub(super) fn build_script(claim: &Object) -> Vec<ScriptStep> {
    if claim.is_deleting() || is_bound(claim) {
        return Vec::new();
    }
    let asked = |pointer: &str| claim.spec().pointer(pointer).cloned().unwrap_or(Value::Null);
    let status = json!({
        "phase": "Bound",
        "accessModes": asked("/accessModes"),
        "capacity": {"storage": asked("/resources/requests/storage")},
    });
    vec![ScriptStep::status(BIND_TIME, status)]
}
