//! One request: its URL, its deadline, and a body that ends.

use crate::cluster::ClusterError;
use ::kube::Client;
use ::kube::client::Body;
use http::response::Parts;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;
use stator_core::dynamo::kinds::ObjectKind;
use stator_core::text::error_chain;
use std::time::Duration;

/// The most that one answer of the API server may hold. An object is at most 3 MiB; a page is a few hundred of them.
const MAX_BODY_SIZE: usize = 512 << 20;
/// The longest that a server is taken at its word to be left alone.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(120);

/// A path below the server's address, with a query.
#[derive(Clone, Debug)]
pub(super) struct ApiUrl(String);

impl ApiUrl {
    /// The objects of a kind, in one namespace or in all.
    pub(super) fn of(group: &str, version: &str, plural: &str, namespace: Option<&str>) -> Self {
        let mut url = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        if let Some(namespace) = namespace {
            url.push_str("/namespaces/");
            push_escaped(&mut url, namespace);
        }
        url.push('/');
        url.push_str(plural);
        Self(url)
    }

    /// Objects of a kind that stator knows.
    pub(super) fn of_kind(kind: &ObjectKind, namespace: Option<&str>) -> Self {
        Self::of(kind.group, kind.version, kind.plural, namespace)
    }

    /// Any path.
    pub(super) fn path(path: &str) -> Self {
        Self(path.to_owned())
    }

    /// One step further.
    pub(super) fn join(mut self, step: &str) -> Self {
        self.0.push('/');
        push_escaped(&mut self.0, step);
        self
    }

    /// One more parameter.
    pub(super) fn query(mut self, name: &str, value: &str) -> Self {
        self.0.push(if self.0.contains('?') { '&' } else { '?' });
        self.0.push_str(name);
        self.0.push('=');
        push_escaped(&mut self.0, value);
        self
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Everything but the unreserved characters of RFC 3986 is escaped.
fn push_escaped(url: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            url.push(char::from(byte));
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
}

/// What came back.
#[derive(Debug)]
pub(super) struct ApiResponse {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
    pub(super) retry_after: Option<Duration>,
    /// The server's clock when it answered.
    pub(super) date: Option<jiff::Timestamp>,
}

impl ApiResponse {
    /// The body as JSON.
    pub(super) fn json<T: serde::de::DeserializeOwned>(&self, url: &ApiUrl) -> Result<T, ClusterError> {
        serde_json::from_slice(&self.body).map_err(|error| malformed_response(url, &error))
    }
}

/// An answer that is not what the API says it is.
pub(super) fn malformed_response(url: &ApiUrl, error: &dyn std::fmt::Display) -> ClusterError {
    ClusterError::Damaged { path: format!("the API server's answer to {}", url.as_str()), message: error.to_string() }
}

/// How a request is made.
#[derive(Clone, Copy, Debug)]
pub(super) enum ApiPayload<'a> {
    None,
    Apply(&'a Value),
    Merge(&'a Value),
    Json(&'a Value),
}

pub(super) fn build_request(
    method: Method,
    url: &ApiUrl,
    payload: ApiPayload<'_>,
    accept: &str,
) -> Result<Request<Body>, ClusterError> {
    let (content_type, body) = match payload {
        ApiPayload::None => (None, Vec::new()),
        // JSON is YAML, and costs less to write.
        ApiPayload::Apply(value) => (Some("application/apply-patch+yaml"), value.to_string().into_bytes()),
        ApiPayload::Merge(value) => (Some("application/merge-patch+json"), value.to_string().into_bytes()),
        ApiPayload::Json(value) => (Some("application/json"), value.to_string().into_bytes()),
    };
    let mut builder = Request::builder().method(method).uri(url.as_str()).header(header::ACCEPT, accept);
    if let Some(content_type) = content_type {
        builder = builder.header(header::CONTENT_TYPE, content_type);
    }
    builder.body(Body::from(body)).map_err(|error| ClusterError::Refused {
        message: format!("no request can be made for {}: {error}", url.as_str()),
        fix: "check the names in it".to_owned(),
    })
}

/// JSON, whole.
pub(super) const ACCEPT_JSON: &str = "application/json";
/// Objects without spec and status.
pub(super) const ACCEPT_METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
/// Lists of them.
pub(super) const ACCEPT_METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Sends a request and reads the whole answer, within the deadline.
pub(super) async fn send_request(
    client: &Client,
    server: &str,
    request: Request<Body>,
    deadline: Duration,
) -> Result<ApiResponse, ClusterError> {
    send_limited_request(client, server, request, deadline, MAX_BODY_SIZE).await
}

/// The same for an answer of at most this many bytes.
pub(super) async fn send_limited_request(
    client: &Client,
    server: &str,
    request: Request<Body>,
    deadline: Duration,
    max_body_size: usize,
) -> Result<ApiResponse, ClusterError> {
    let what = format!("{} {}", request.method(), request.uri().path());
    let work = async {
        let response = client.send(request).await.map_err(|error| connection_error(server, &error))?;
        read_limited_response(server, &what, response, max_body_size).await
    };
    match tokio::time::timeout(deadline, work).await {
        Ok(answer) => answer,
        Err(_) => {
            Err(ClusterError::transient(format!("{server} did not answer {what} within {} s", deadline.as_secs_f32())))
        }
    }
}

/// Reads an answer to its end.
pub(super) async fn read_response(
    server: &str,
    what: &str,
    response: http::Response<Body>,
) -> Result<ApiResponse, ClusterError> {
    read_limited_response(server, what, response, MAX_BODY_SIZE).await
}

async fn read_limited_response(
    server: &str,
    what: &str,
    response: http::Response<Body>,
    max_body_size: usize,
) -> Result<ApiResponse, ClusterError> {
    let (parts, body) = response.into_parts();
    let body = match Limited::new(body, max_body_size).collect().await {
        Ok(body) => body.to_bytes().to_vec(),
        Err(error) => return Err(body_error(server, what, error.as_ref(), max_body_size)),
    };
    let Parts { status, headers, .. } = parts;
    Ok(ApiResponse { status, body, retry_after: retry_after(&headers), date: server_date(&headers) })
}

fn body_error(
    server: &str,
    what: &str,
    error: &(dyn std::error::Error + 'static),
    max_body_size: usize,
) -> ClusterError {
    if error.is::<http_body_util::LengthLimitError>() {
        return ClusterError::Refused {
            message: format!("{server} answered {what} with more than {} MiB", max_body_size >> 20),
            fix: "report it, with the number of objects of that kind in the cluster".to_owned(),
        };
    }
    ClusterError::transient(format!("{server} closed the connection while answering {what}: {}", error_chain(error)))
}

/// How long the server asks to be left alone.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER))
}

fn server_date(headers: &HeaderMap) -> Option<jiff::Timestamp> {
    let text = headers.get(header::DATE)?.to_str().ok()?;
    jiff::fmt::rfc2822::parse(text).ok().map(|zoned| zoned.timestamp())
}

/// A request that did not get an answer. Distinguishes what can never work from what may work in a moment.
pub(super) fn connection_error(server: &str, error: &::kube::Error) -> ClusterError {
    // What the layers in between say of themselves helps nobody.
    let text = error_chain(error);
    let text = text.trim_start_matches("ServiceError: ").trim_start_matches("client error (Connect): ");
    if is_certificate_error(error) || text.contains("invalid peer certificate") {
        return ClusterError::Refused {
            message: format!("{server}: its certificate is not trusted by the kubeconfig: {text}"),
            fix: "set `certificate-authority` (or -data) of the context's cluster to the authority that signed it"
                .to_owned(),
        };
    }
    if let ::kube::Error::Auth(cause) = error {
        return ClusterError::Refused {
            message: format!("{server}: the kubeconfig's user gives no credentials: {}", error_chain(cause)),
            fix: "log in again, or run the user's `exec` command by hand to see its output".to_owned(),
        };
    }
    ClusterError::Unreachable { message: format!("{server} cannot be reached: {text}") }
}

fn is_certificate_error(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(cause) = next {
        let inner = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let tls = cause.downcast_ref::<rustls::Error>().or_else(|| inner.and_then(|inner| inner.downcast_ref()));
        if let Some(tls) = tls {
            return matches!(tls, rustls::Error::InvalidCertificate(_));
        }
        next = cause.source();
    }
    false
}
