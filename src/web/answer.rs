//! What every answer has, whatever it is: who may do what with it, and nothing that is not needed.

use crate::server::{Peer, RefusalReason};
use axum::body::{Body, HttpBody};
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use sha2::{Digest as _, Sha256};
use stator_view::page;
use stator_view::problem::{ProblemDetails, ProblemKind};

pub(super) const HTML: &str = "text/html; charset=utf-8";
pub(super) const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

/// A request, as far as answers depend on it.
#[derive(Debug)]
pub(super) struct WebRequest<'a> {
    pub(super) method: &'a Method,
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    pub(super) headers: &'a HeaderMap,
    pub(super) peer: Peer,
}

impl WebRequest<'_> {
    /// Where a model of the API is changed, which is by its form.
    fn edit_address(&self) -> Option<String> {
        let rest = self.path.strip_prefix("/api/v1/models/")?;
        let mut parts = rest.split('/');
        let (namespace, name) = (parts.next()?, parts.next()?);
        Some(format!("/models/{namespace}/{name}/edit"))
    }

    /// Whether a program asks.
    pub(super) fn is_for_api(&self) -> bool {
        self.path == "/api/v1" || self.path.starts_with("/api/v1/")
    }

    /// The first value of a parameter of the query that needs no decoding.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value)
    }
}

/// Text with its type.
pub(super) fn text(status: StatusCode, media_type: &'static str, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Leads on to an address of the pages, with a cookie to keep where there is one.
pub(super) fn redirect(to: &str, cookie: Option<&str>) -> Response {
    let mut response = text(StatusCode::SEE_OTHER, HTML, String::new());
    insert(&mut response, header::LOCATION, to);
    if let Some(cookie) = cookie {
        insert(&mut response, header::SET_COOKIE, cookie);
    }
    response
}

/// A document with an entity tag; nothing of it where the asker has it already.
pub(super) fn tagged(question: &WebRequest<'_>, media_type: &'static str, body: String) -> Response {
    let digest: String = hex::encode(Sha256::digest(&body)).chars().take(32).collect();
    let tag = format!("\"{digest}\"");
    let asked = question.headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = asked.flat_map(|list| list.split(',')).map(|one| one.trim().trim_start_matches("W/"));
    let mut response = if tags.any(|one| one == "*" || one == tag) {
        text(StatusCode::NOT_MODIFIED, media_type, String::new())
    } else {
        text(StatusCode::OK, media_type, body)
    };
    insert(&mut response, header::ETAG, &tag);
    response
}

/// A problem: JSON for programs, a page for people. `allowed` are the methods of the address.
pub(super) fn problem(question: &WebRequest<'_>, problem: &ProblemDetails, allowed: &str) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = if question.is_for_api() {
        // A problem is made of texts and a number.
        text(status, PROBLEM, serde_json::to_string(problem).unwrap_or_default())
    } else {
        text(status, HTML, page::problem_page(problem))
    };
    match problem.of {
        ProblemKind::MethodNotAllowed => {
            insert(&mut response, header::ALLOW, allowed);
            if let Some(edit) = question.edit_address() {
                insert(&mut response, header::LINK, &format!("<{edit}>; rel=\"edit\""));
            }
        }
        // The rest of the body is not read.
        ProblemKind::BodyLate | ProblemKind::BodyTooLarge => insert(&mut response, header::CONNECTION, "close"),
        ProblemKind::TooManyStreams | ProblemKind::OutOfTime | ProblemKind::ReviewFailed => {
            insert(&mut response, header::RETRY_AFTER, "5");
        }
        ProblemKind::TooManyAttempts => insert(&mut response, header::RETRY_AFTER, "60"),
        ProblemKind::InvalidParameter
        | ProblemKind::SignInRequired
        | ProblemKind::TokenRequired
        | ProblemKind::Forbidden
        | ProblemKind::WrongHost
        | ProblemKind::NotFound
        | ProblemKind::Expired
        | ProblemKind::CrossOrigin
        | ProblemKind::MediaType
        | ProblemKind::InvalidModel
        | ProblemKind::ReplicasNotOwned
        | ProblemKind::NotProposed
        | ProblemKind::NotPossible
        | ProblemKind::NotReadNow
        | ProblemKind::Stale => {}
    }
    if is_logged(problem.of) {
        let reason = format!("a request to the pages was refused: {}", problem.title);
        response.extensions_mut().insert(RefusalReason(reason));
    }
    response
}

/// Whether it is logged for whoever runs the pages: what people do by mistake every day is no news.
fn is_logged(kind: ProblemKind) -> bool {
    match kind {
        ProblemKind::Forbidden
        | ProblemKind::WrongHost
        | ProblemKind::CrossOrigin
        | ProblemKind::BodyLate
        | ProblemKind::BodyTooLarge
        | ProblemKind::TooManyStreams
        | ProblemKind::TooManyAttempts
        | ProblemKind::OutOfTime => true,
        ProblemKind::InvalidParameter
        | ProblemKind::SignInRequired
        | ProblemKind::TokenRequired
        | ProblemKind::ReviewFailed
        | ProblemKind::NotFound
        | ProblemKind::MethodNotAllowed
        | ProblemKind::Expired
        | ProblemKind::MediaType
        | ProblemKind::InvalidModel
        | ProblemKind::ReplicasNotOwned
        | ProblemKind::NotProposed
        | ProblemKind::NotPossible
        | ProblemKind::NotReadNow
        | ProblemKind::Stale => false,
    }
}

/// Adds what every answer has. `policy` is the one of contents, where the request names this host.
pub(super) fn finish(mut response: Response, question: &WebRequest<'_>, policy: Option<String>) -> Response {
    let closed = || "default-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'".to_owned();
    let policy = policy.unwrap_or_else(closed);
    insert(&mut response, header::CONTENT_SECURITY_POLICY, &policy);
    insert(&mut response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    insert(&mut response, header::REFERRER_POLICY, "same-origin");
    insert(&mut response, header::X_FRAME_OPTIONS, "DENY");
    insert(&mut response, HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    insert(&mut response, HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    if !response.headers().contains_key(header::CACHE_CONTROL) {
        insert(&mut response, header::CACHE_CONTROL, "no-store");
    }
    if question.method == Method::HEAD {
        let (mut parts, body) = response.into_parts();
        if let Some(length) = HttpBody::size_hint(&body).exact() {
            parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        return Response::from_parts(parts, Body::empty());
    }
    response
}

pub(super) fn insert(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
