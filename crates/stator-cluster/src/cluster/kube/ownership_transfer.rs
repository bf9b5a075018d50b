//! Moving ownership of fields: a patch of `metadata` alone, on the condition that nobody wrote the object since it was read.

use super::api_client::{self, ApiPayload};
use super::api_error::{self, ApiCall};
use super::connection::{KubeConnection, parse_object, resolve_object};
use crate::cluster::{ClusterError, Fence};
use http::Method;
use serde_json::{Map, Value, json};
use stator_core::fields::{self, OwnershipTransfer, PackedObject};
use stator_core::object::{Object, ObjectRef};
use std::collections::BTreeSet;

/// How often the object is read again while others keep writing it: an operator writes its status several times a second.
const MAX_ATTEMPTS: u32 = 8;

impl KubeConnection {
    /// Moves ownership of an object's fields to a manager. Nothing is sent where nothing moves, or nothing is there.
    ///
    /// # Errors
    /// When the object cannot be read or written, or others write it all the time.
    pub(super) async fn transfer_ownership(
        &self,
        object: &ObjectRef,
        transfer: &OwnershipTransfer,
        receiver: &str,
        fence: Option<&Fence>,
    ) -> Result<(), ClusterError> {
        let (kind, url) = resolve_object(object)?;
        let Some(schema) = fields::bundled_schema(&object.api_version, &object.kind) else { return Ok(()) };
        let url = url.query("fieldManager", receiver);
        for _ in 0..MAX_ATTEMPTS {
            let Some(live) = self.read_object(object, api_client::ACCEPT_JSON).await? else { return Ok(()) };
            let live = parse_object(live, &url)?;
            let moved = transfer.carry_out(schema, &live, receiver);
            let moved = moved
                .map_err(|fault| ClusterError::Damaged { path: object.to_string(), message: fault.to_string() })?;
            let Some(moved) = moved else { return Ok(()) };
            let patch = metadata_patch(&live, &moved);
            let request =
                api_client::build_request(Method::PATCH, &url, ApiPayload::Merge(&patch), api_client::ACCEPT_JSON)?;
            let answer = self.send_write(request, fence).await?;
            if answer.status.is_success() {
                let PackedObject(object) = answer.json(&url)?;
                self.versions.insert_object(&parse_object(object, &url)?);
                return Ok(());
            }
            let asked = ApiCall { conditional: true, ..ApiCall::on_object("patch", kind, object) };
            let error = api_error::to_cluster_error(&asked, &answer, &[]);
            if !matches!(error, ClusterError::Precondition { .. }) {
                return Err(error);
            }
        }
        Err(ClusterError::transient(format!(
            "{object}: its field ownership cannot be moved, because other clients keep writing it"
        )))
    }
}

/// A merge patch that makes the moved object of the live one, and of no other version of it.
fn metadata_patch(live: &Object, moved: &Object) -> Value {
    let metadata = |object: &Object, field: &str| object.value().pointer(&format!("/metadata/{field}")).cloned();
    let mut patch = Map::new();
    patch.insert("uid".to_owned(), json!(live.uid()));
    patch.insert("resourceVersion".to_owned(), json!(live.resource_version()));
    if let Some(managers) = metadata(moved, "managedFields") {
        patch.insert("managedFields".to_owned(), managers);
    }
    let names = |object: &Object, field: &str| -> BTreeSet<String> {
        let map = metadata(object, field);
        map.as_ref().and_then(Value::as_object).map(|map| map.keys().cloned().collect()).unwrap_or_default()
    };
    for field in ["labels", "annotations"] {
        let gone: Map<String, Value> =
            names(live, field).difference(&names(moved, field)).map(|name| (name.clone(), Value::Null)).collect();
        if !gone.is_empty() {
            patch.insert(field.to_owned(), Value::Object(gone));
        }
    }
    json!({"metadata": patch})
}
