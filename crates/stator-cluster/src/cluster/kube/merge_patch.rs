//! A merge patch: what a person changes of an object that is a person's. What stator keeps itself it only ever applies.

use super::api_client::{self, ApiPayload, ApiUrl};
use super::api_error::{self, ApiCall};
use super::connection::parse_object;
use super::kube_cluster::KubeCluster;
use crate::cluster::ClusterError;
use http::Method;
use serde_json::Value;
use stator_core::dynamo::kinds::ObjectKind;
use stator_core::fields::PackedObject;
use stator_core::object::{Object, ObjectRef};

impl KubeCluster {
    /// Changes some fields of an object, in the name of a field manager, and gives it as it is then; `None` where there is
    /// none of that name. Of any kind, also one that is not among [`stator_core::dynamo::kinds::ALL`].
    ///
    /// # Errors
    /// When the server refuses it, or does not answer.
    pub async fn merge_patch(
        &self,
        kind: &ObjectKind,
        namespace: &str,
        name: &str,
        manager: &str,
        patch: &Value,
    ) -> Result<Option<Object>, ClusterError> {
        let url = ApiUrl::of_kind(kind, Some(namespace))
            .join(name)
            .query("fieldManager", manager)
            .query("fieldValidation", "Strict");
        let request =
            api_client::build_request(Method::PATCH, &url, ApiPayload::Merge(patch), api_client::ACCEPT_JSON)?;
        let answer = self.inner.send_write(request, self.fence.as_ref()).await?;
        let object = ObjectRef {
            api_version: kind.api_version(),
            kind: kind.kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        if !answer.status.is_success() {
            if api_error::is_absent(&api_error::parse_status(&answer), &object) {
                return Ok(None);
            }
            let asked = ApiCall { config: Some(patch), ..ApiCall::on_object("patch", kind, &object) };
            return Err(api_error::to_cluster_error(&asked, &answer, &[]));
        }
        let PackedObject(object) = answer.json(&url)?;
        parse_object(object, &url).map(Some)
    }
}
