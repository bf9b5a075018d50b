//! What stands between a request and the storage beside the schema: the API server's own rules for claims, and, while
//! the operator is simulated, those of its webhooks.

use crate::cluster::ClusterError;
use crate::object::ObjectRef;
use serde_json::Value;

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
