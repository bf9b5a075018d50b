//! Secrets of sources: read by name, one by one, and never listed or watched.

use super::source_index::{SecretReadRequest, SecretReadResult};
use ::kube::client::Body;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use secrecy::zeroize::Zeroize as _;
use serde_json::Value;
use stator_cluster::cluster::kube::KubeCluster;
use stator_git::source::secret::SecretValues;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long one may take.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The most that one may hold: Kubernetes lets a secret hold a mebibyte, which is more in base64.
const MAX_SECRET_BYTES: usize = 3 << 20;

/// Reads the secrets of a source, from its own namespace.
pub(super) async fn read_secrets(kube: &KubeCluster, need: &SecretReadRequest) -> BTreeMap<String, SecretReadResult> {
    let mut found = BTreeMap::new();
    for name in &need.version.names {
        let namespace = &need.key.namespace;
        let read = tokio::time::timeout(READ_TIMEOUT, read_secret(kube, namespace, name)).await;
        let late = |_| {
            SecretReadResult::Unanswered(format!(
                "the API server did not return secret `{name}` in time; stator retries"
            ))
        };
        found.insert(name.clone(), read.unwrap_or_else(late));
    }
    found
}

async fn read_secret(kube: &KubeCluster, namespace: &str, name: &str) -> SecretReadResult {
    let unanswered = |why: &dyn std::fmt::Display| {
        SecretReadResult::Unanswered(format!("secret `{name}` could not be read: {why}; stator retries"))
    };
    // Both names were checked to be names of Kubernetes, so there is nothing in them to escape.
    let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
    let request = match Request::get(path).header(http::header::ACCEPT, "application/json").body(Body::empty()) {
        Ok(request) => request,
        Err(error) => return SecretReadResult::Unusable(error.to_string()),
    };
    let response = match kube.client().send(request).await {
        Ok(response) => response,
        Err(error) => return unanswered(&error),
    };
    let (parts, body) = response.into_parts();
    let mut bytes = match Limited::new(body, MAX_SECRET_BYTES).collect().await {
        Ok(body) => body.to_bytes().to_vec(),
        Err(error) => return unanswered(&error),
    };
    let found = match parts.status {
        StatusCode::OK => parse_secret(name, &bytes),
        StatusCode::NOT_FOUND => SecretReadResult::Missing,
        StatusCode::FORBIDDEN => SecretReadResult::Refused(format!(
            "secret `{name}` cannot be read; let the controller's service account `get` secrets in namespace `{namespace}`"
        )),
        other => unanswered(&format!("the API server says {other}")),
    };
    bytes.zeroize();
    found
}

fn parse_secret(name: &str, bytes: &[u8]) -> SecretReadResult {
    // What the parser would quote is in a secret.
    let Ok(document) = serde_json::from_slice::<Value>(bytes) else {
        return SecretReadResult::Unusable(format!("secret `{name}` is not a valid Secret object"));
    };
    match SecretValues::read(&document) {
        Ok(values) => SecretReadResult::Values(values),
        Err(faults) => {
            SecretReadResult::Unusable(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        }
    }
}
