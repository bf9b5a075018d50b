//! Secrets of sources: read by name, one by one, and never listed or watched.
//!
//! Whoever may write a source chooses where its secrets are sent. So a secret has to say itself that it is meant for sources,
//! by a label that only those may set who may read it anyway.

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
/// The label of a secret that sources may use: `true`, or the one host that it may be sent to.
pub(crate) const CREDENTIAL_LABEL: &str = "stator.dev/credential";
/// What no source may send anywhere, whatever its labels are: keys to clusters, and what Helm keeps.
const FORBIDDEN_TYPES: [&str; 3] =
    ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token", "helm.sh/release.v1"];

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
        StatusCode::OK => parse_secret(namespace, name, &bytes),
        StatusCode::NOT_FOUND => SecretReadResult::Missing,
        StatusCode::FORBIDDEN => SecretReadResult::Refused(format!(
            "secret `{name}` cannot be read; let the controller's service account `get` secrets in namespace `{namespace}`"
        )),
        other => unanswered(&format!("the API server says {other}")),
    };
    bytes.zeroize();
    found
}

fn parse_secret(namespace: &str, name: &str, bytes: &[u8]) -> SecretReadResult {
    // What the parser would quote is in a secret.
    let Ok(document) = serde_json::from_slice::<Value>(bytes) else {
        return SecretReadResult::Unusable(format!("secret `{name}` is not a valid Secret object"));
    };
    let host = match permitted_host(namespace, name, &document) {
        Ok(host) => host,
        Err(message) => return SecretReadResult::Unusable(message),
    };
    match SecretValues::read(&document) {
        Ok(values) => SecretReadResult::Values(values.with_host(host)),
        Err(faults) => {
            SecretReadResult::Unusable(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        }
    }
}

/// The one host that a secret may be sent to, where it names one. The error is why no source may use it.
fn permitted_host(namespace: &str, name: &str, document: &Value) -> Result<Option<String>, String> {
    let kind = document.get("type").and_then(Value::as_str).unwrap_or_default();
    if FORBIDDEN_TYPES.contains(&kind) {
        return Err(format!(
            "secret `{name}` is of type `{kind}`, which no source may use; put the source's keys into a secret of its own"
        ));
    }
    let label = document.pointer("/metadata/labels").and_then(|labels| labels.get(CREDENTIAL_LABEL));
    match label.and_then(Value::as_str) {
        Some("true") => Ok(None),
        Some(host) if host.contains('.') => Ok(Some(host.to_ascii_lowercase())),
        Some(_) | None => Err(format!(
            "secret `{name}` is not labelled for use by sources; run `kubectl label secret {name} -n {namespace} {CREDENTIAL_LABEL}=true`, or set the label to the one host that it is for"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(kind: &str, labels: Value) -> String {
        let document = json!({
            "apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": "git", "labels": labels},
            "data": {"token": "Y2FuYXJ5"},
        });
        match parse_secret("team-a", "git", document.to_string().as_bytes()) {
            SecretReadResult::Values(values) => format!("read, for {}", values.host().unwrap_or("any host")),
            SecretReadResult::Unusable(message) => message,
            SecretReadResult::Missing | SecretReadResult::Refused(_) | SecretReadResult::Unanswered(_) => {
                unreachable!()
            }
        }
    }

    /// S11: a source may name any secret of its namespace, and gets those that are meant for sources.
    #[test]
    fn only_a_secret_that_is_labelled_is_a_credential() {
        assert_eq!(read("Opaque", json!({"stator.dev/credential": "true"})), "read, for any host");
        assert_eq!(
            read("kubernetes.io/basic-auth", json!({"stator.dev/credential": "Git.example.com"})),
            "read, for git.example.com"
        );
        for labels in
            [json!(null), json!({}), json!({"stator.dev/credential": "false"}), json!({"stator.dev/credential": ""})]
        {
            insta::allow_duplicates! {
                insta::assert_snapshot!(read("Opaque", labels), @"secret `git` is not labelled for use by sources; run `kubectl label secret git -n team-a stator.dev/credential=true`, or set the label to the one host that it is for");
            }
        }
        for kind in FORBIDDEN_TYPES {
            let said = read(kind, json!({"stator.dev/credential": "true"}));
            assert!(said.starts_with(&format!("secret `git` is of type `{kind}`, which no source may use")), "{said}");
            assert!(!said.contains("canary"));
        }
    }
}
