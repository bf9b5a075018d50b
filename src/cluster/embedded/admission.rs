//! What stands between a request and the storage beside the schema: the API server's own rules for claims, and, while
//! the operator is simulated, those of its webhooks.

use crate::cluster::ClusterError;
use crate::object::{Object, ObjectRef};
use serde_json::Value;

/// Whether an object that a person edited may count as live; the error says what is wrong.
pub(super) fn by_hand(_object: &Object) -> Result<(), String> {
    Ok(())
}

/// The operator's mutating webhook, on create.
pub(super) fn mutate(_value: &mut Value) {}

/// Validating admission.
pub(super) fn validate(
    _object: &ObjectRef,
    _old: Option<&Value>,
    _new: &Value,
    _operated: bool,
) -> Result<(), ClusterError> {
    Ok(())
}
