//! Asking an API server what the account may do, without doing it.

use super::KubeCluster;
use super::api_client::{self, ApiPayload, ApiUrl};
use super::api_error::{self, ApiCall};
use crate::cluster::ClusterError;
use http::Method;
use serde::Deserialize;
use serde_json::json;
use stator_core::dynamo::kinds::ObjectKind;

/// A right to do something with every object of a kind in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessRight {
    /// The kind.
    pub kind: ObjectKind,
    /// A part of the objects that has rights of its own, such as `status`; the object itself where there is none.
    pub subresource: Option<&'static str>,
    /// What may be done, in the words of RBAC: `patch`, `create`, `delete`.
    pub verb: &'static str,
}

#[derive(Deserialize)]
struct AccessReview {
    status: AccessReviewStatus,
}

#[derive(Deserialize)]
struct AccessReviewStatus {
    #[serde(default)]
    allowed: bool,
}

impl KubeCluster {
    /// Whether the account has a right in a namespace now. Every account may ask this of itself, unless somebody took
    /// that away.
    ///
    /// # Errors
    /// When the server does not answer, or refuses the question.
    pub async fn has_right(&self, right: &AccessRight, namespace: &str) -> Result<bool, ClusterError> {
        let AccessRight { kind, subresource, verb } = right;
        let url = ApiUrl::path("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "namespace": namespace, "verb": verb, "group": kind.group, "resource": kind.plural,
                "subresource": subresource.unwrap_or_default(),
            }},
        });
        let request =
            api_client::build_request(Method::POST, &url, ApiPayload::Json(&review), api_client::ACCEPT_JSON)?;
        let answer = self.inner.send(request, self.inner.options.deadlines.get).await?;
        if !answer.status.is_success() {
            return Err(api_error::to_cluster_error(&ApiCall::on_kind(verb, kind, Some(namespace)), &answer, &[]));
        }
        Ok(answer.json::<AccessReview>(&url)?.status.allowed)
    }
}
