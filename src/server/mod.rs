//! The listener: webhooks in, and how the process stands out. Nothing here syncs, and nothing waits for a sync.

mod access_review;
mod connection_places;
mod listener;
mod metrics_access;
mod process_listeners;
mod recent;
mod refusal_log;
mod request_body;
mod route_rule;
pub mod tls;
mod webhooks;

#[cfg(test)]
mod tests;

pub use access_review::{AccessQuestion, AccessReviewer, ReviewError, ReviewedUser};
pub use connection_places::{ConnectionLimits, Peer};
pub use listener::{HttpListener, ListenError};
pub use metrics_access::{MetricsReviewer, bearer_token};
pub use process_listeners::{BindError, ListenAddresses, ListenOptions, ProcessListeners};
pub use refusal_log::RefusalReason;
pub use request_body::{BodyError, RequestBodies, RequestBody};
pub use route_rule::{Caller, RouteRule, ServerRoute};

use crate::controller::metrics::{ExpositionFormat, Metrics};
use crate::controller::sources::registry::SourceRegistry;
use crate::controller::sources::registry::webhook_directory::SharedSecretGroup;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use secrecy::SecretString;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use webhooks::ReplayCache;

/// Deliveries at a time whose check costs more than a moment.
const MAX_CONCURRENT_CHECKS: usize = 1;

/// A status and a sentence, as a small JSON object: the same for errors and for taken deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MessageResponse {
    status: StatusCode,
    message: &'static str,
}

impl MessageResponse {
    fn new(status: StatusCode, message: &'static str) -> Self {
        Self { status, message }
    }
}

impl IntoResponse for MessageResponse {
    fn into_response(self) -> Response {
        let word = if self.status.is_success() { "status" } else { "error" };
        let mut response = (self.status, Json(json!({word: self.message}))).into_response();
        let headers = response.headers_mut();
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
            }
            // What is left of the body is not read, so nothing more can be said on the connection.
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}

/// What the handlers share.
#[derive(Clone, Debug)]
struct ServerState {
    board: Arc<SourceRegistry>,
    metrics: Arc<Metrics>,
    metrics_reviewer: Option<Arc<MetricsReviewer>>,
    names_sources: bool,
    replays: Arc<ReplayCache>,
    bodies: RequestBodies,
    verifying: Arc<Semaphore>,
    nobody: Arc<[SharedSecretGroup]>,
    ending: CancellationToken,
}

impl ServerState {
    fn new(board: Arc<SourceRegistry>, metrics: Arc<Metrics>, ending: CancellationToken, parts: &RouteOptions) -> Self {
        let unknown = SecretString::from(uuid::Uuid::new_v4().simple().to_string());
        Self {
            board,
            metrics,
            metrics_reviewer: parts.metrics_reviewer.clone(),
            names_sources: parts.probes == ProbeDetail::Full,
            replays: Arc::default(),
            bodies: RequestBodies::default(),
            verifying: Arc::new(Semaphore::new(MAX_CONCURRENT_CHECKS)),
            nobody: Arc::from([SharedSecretGroup { secret: unknown, inboxes: Vec::new() }]),
            ending,
        }
    }
}

/// What a listener says to probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeDetail {
    /// Nothing: `/livez` and `/readyz` are somewhere else.
    Absent,
    /// Whether the process is alive and ready. For a listener that outsiders reach.
    Terse,
    /// What is lacking as well, with the names of sources.
    Full,
}

/// What a listener answers.
#[derive(Clone, Debug)]
pub struct RouteOptions {
    /// `/webhooks/<host>`, `/webhooks/<host>/<source>`, `/webhooks/<host>/<namespace>/<source>` and
    /// `/webhooks/source/<digest>`.
    pub webhooks: bool,
    /// `/livez` and `/readyz`.
    pub probes: ProbeDetail,
    /// `/metrics`.
    pub metrics: bool,
    /// Who is asked whether somebody may read metrics; `None`: anybody may.
    pub metrics_reviewer: Option<Arc<MetricsReviewer>>,
}

/// The routes of a process that takes webhooks and has one listener.
///
/// `ending` is set when the process is about to end: it is not ready from then on.
pub fn routes(board: Arc<SourceRegistry>, metrics: Arc<Metrics>, ending: CancellationToken) -> Router {
    let all = RouteOptions { webhooks: true, probes: ProbeDetail::Full, metrics: true, metrics_reviewer: None };
    routes_with(board, metrics, ending, &all)
}

/// The routes of a listener.
pub fn routes_with(
    board: Arc<SourceRegistry>,
    metrics: Arc<Metrics>,
    ending: CancellationToken,
    parts: &RouteOptions,
) -> Router {
    let (mut routes, mut known) = (Router::new(), Vec::new());
    if parts.webhooks {
        routes = routes
            .route(ServerRoute::WebhookOfDigest.rule().path, post(webhooks::receive_for_digest))
            .route(ServerRoute::WebhookOfHost.rule().path, post(webhooks::receive_for_host))
            .route(ServerRoute::WebhookOfName.rule().path, post(webhooks::receive_for_name))
            .route(ServerRoute::WebhookOfSource.rule().path, post(webhooks::receive_for_source))
            .route_layer(axum::middleware::map_response(webhooks::end_connection));
        known.extend(["/webhooks/<host>", "/webhooks/<host>/<source>"]);
    }
    if parts.probes != ProbeDetail::Absent {
        routes = routes.route(ServerRoute::Livez.rule().path, get(livez));
        routes = routes.route(ServerRoute::Readyz.rule().path, get(readyz));
        known.extend(["/livez", "/readyz"]);
    }
    if parts.metrics {
        routes = routes.route(ServerRoute::Metrics.rule().path, get(metrics_text));
        known.push("/metrics");
    }
    let none = json!({"error": format!("known paths: {}", and_list(&known))});
    let wrong_method = "use POST for webhooks and GET for everything else";
    routes
        .method_not_allowed_fallback(async || MessageResponse::new(StatusCode::METHOD_NOT_ALLOWED, wrong_method))
        .fallback(move || async move { (StatusCode::NOT_FOUND, axum::Json(none)) })
        .with_state(ServerState::new(board, metrics, ending, parts))
}

fn and_list(words: &[&str]) -> String {
    match words.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        Some((last, _)) => (*last).to_owned(),
        None => "none".to_owned(),
    }
}

/// That the process answers at all, and nothing else.
async fn livez() -> Response {
    (StatusCode::OK, "ok\n").into_response()
}

/// Ready once every source was looked at, and nothing else is lacking. A source that fails is no reason to be sent no
/// webhooks. With `?verbose`, each check is a line.
async fn readyz(State(shared): State<ServerState>, query: RawQuery) -> Response {
    let checks = readiness_checks(&shared);
    let missing: Vec<&String> = checks.iter().filter_map(|(_, lack)| lack.as_ref()).collect();
    let status = if missing.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    if !shared.names_sources {
        return (status, axum::Json(json!({"ready": missing.is_empty()}))).into_response();
    }
    if query
        .0
        .is_some_and(|query| query.split('&').any(|pair| matches!(pair, "verbose" | "verbose=true" | "verbose=1")))
    {
        let lines = checks.iter().map(|(what, lack)| match lack {
            None => format!("[+] {what}\n"),
            Some(lack) => format!("[-] {what}: {lack}\n"),
        });
        let end = if missing.is_empty() { "ready\n" } else { "not ready\n" };
        return (status, lines.collect::<String>() + end).into_response();
    }
    (status, axum::Json(json!({"ready": missing.is_empty(), "missing": missing}))).into_response()
}

/// What has to be so, and what is lacking of it.
fn readiness_checks(shared: &ServerState) -> Vec<(String, Option<String>)> {
    let ending = shared.ending.is_cancelled().then(|| "the process is ending".to_owned());
    let lacks = shared.board.not_ready_reasons().into_iter().map(|lack| ("cluster".to_owned(), Some(lack)));
    let sources = shared.board.states().into_iter().map(|(name, state)| {
        let lack = (!state.was_polled).then(|| format!("source {name} has not been polled yet"));
        (format!("source {name}"), lack)
    });
    sources.chain(lacks).chain([("process".to_owned(), ending)]).collect()
}

async fn metrics_text(State(shared): State<ServerState>, extensions: Extensions, headers: HeaderMap) -> Response {
    if let Some(reviewer) = &shared.metrics_reviewer
        && let Err(refusal) = reviewer.check(&headers, Peer::of(&extensions)).await
    {
        let (status, message) = refusal.answer();
        let mut response = MessageResponse::new(status, message).into_response();
        response.extensions_mut().insert(RefusalReason(format!("metrics were refused: {message}")));
        return response;
    }
    shared.metrics.set_ready(readiness_checks(&shared).iter().all(|(_, lack)| lack.is_none()));
    let form = ExpositionFormat::from_accept_header(
        headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default(),
    );
    match shared.metrics.render(&shared.board, form) {
        Ok(text) => {
            let kind = HeaderValue::from_static(form.media_type());
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(_) => {
            MessageResponse::new(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written").into_response()
        }
    }
}
