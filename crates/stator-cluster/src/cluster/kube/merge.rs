//! A merge patch: what a person changes of an object that is a person's. What stator keeps itself it only ever applies.

use super::refusal::{self, Asked};
use super::request::{self, Payload, Url};
use super::{Kube, object_of};
use crate::cluster::ClusterError;
use http::Method;
use serde_json::Value;
use stator_core::dynamo::kinds::Kind;
use stator_core::object::{Object, ObjectRef};

impl Kube {
    /// Changes some fields of an object, in the name of a field manager, and gives it as it is then; `None` where there is
    /// none of that name. Of any kind, also one that is not among [`stator_core::dynamo::kinds::ALL`].
    ///
    /// # Errors
    /// When the server refuses it, or does not answer.
    pub async fn merge(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        manager: &str,
        patch: &Value,
    ) -> Result<Option<Object>, ClusterError> {
        let url = Url::of_kind(kind, Some(namespace))
            .join(name)
            .query("fieldManager", manager)
            .query("fieldValidation", "Strict");
        let request = request::request(Method::PATCH, &url, Payload::Merge(patch), request::WHOLE)?;
        let answer = self.inner.write(request, self.fence.as_ref()).await?;
        let object = ObjectRef {
            api_version: kind.api_version(),
            kind: kind.kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        if !answer.status.is_success() {
            if refusal::is_absent(&refusal::status(&answer), &object) {
                return Ok(None);
            }
            let asked = Asked {
                verb: "patch",
                kind,
                namespace: Some(namespace),
                object: Some(&object),
                config: Some(patch),
                conditional: false,
            };
            return Err(refusal::error(&asked, &answer, &[]));
        }
        object_of(answer.json(&url)?, &url).map(Some)
    }
}
