//! The listener: webhooks in, and how the process stands out. Nothing here syncs, and nothing waits for a sync.

mod listener;
mod process_listeners;
mod replay;
mod response;
mod webhooks;

#[cfg(test)]
mod tests;

pub use listener::{HttpListener, ListenError};
pub use process_listeners::{BindError, ListenAddresses, ListenOptions, ProcessListeners};

use crate::controller::metrics::{ExpositionFormat, Metrics};
use crate::controller::sources::registry::SourceRegistry;
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use replay::ReplayCache;
use response::MessageResponse;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Bodies that are read at a time: what they may take of memory is this times their largest.
const MAX_CONCURRENT_BODIES: usize = 16;

/// What the handlers share.
#[derive(Clone, Debug)]
struct ServerState {
    board: Arc<SourceRegistry>,
    metrics: Arc<Metrics>,
    replays: Arc<ReplayCache>,
    body_permits: Arc<Semaphore>,
    ending: CancellationToken,
}

impl ServerState {
    fn new(board: Arc<SourceRegistry>, metrics: Arc<Metrics>, ending: CancellationToken) -> Self {
        Self {
            board,
            metrics,
            replays: Arc::default(),
            body_permits: Arc::new(Semaphore::new(MAX_CONCURRENT_BODIES)),
            ending,
        }
    }
}

/// What a listener answers beside `/livez` and `/readyz`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteOptions {
    /// `/webhooks/<host>`, `/webhooks/<host>/<source>` and `/webhooks/<host>/<namespace>/<source>`.
    pub webhooks: bool,
    /// `/metrics`.
    pub metrics: bool,
}

/// The routes of a process that takes webhooks and has one listener.
///
/// `ending` is set when the process is about to end: it is not ready from then on.
pub fn routes(board: Arc<SourceRegistry>, metrics: Arc<Metrics>, ending: CancellationToken) -> Router {
    routes_with(board, metrics, ending, RouteOptions { webhooks: true, metrics: true })
}

/// The routes of a listener.
pub fn routes_with(
    board: Arc<SourceRegistry>,
    metrics: Arc<Metrics>,
    ending: CancellationToken,
    parts: RouteOptions,
) -> Router {
    let mut routes = Router::new().route("/livez", get(livez)).route("/readyz", get(readyz));
    if parts.webhooks {
        routes = routes
            .route("/webhooks/{host}", post(webhooks::receive_for_host))
            .route("/webhooks/{host}/{source}", post(webhooks::receive_for_name))
            .route("/webhooks/{host}/{namespace}/{source}", post(webhooks::receive_for_source));
    }
    if parts.metrics {
        routes = routes.route("/metrics", get(metrics_text));
    }
    let none = match (parts.webhooks, parts.metrics) {
        (true, true) => "known paths: /webhooks/<host>, /webhooks/<host>/<source>, /livez, /readyz and /metrics",
        (true, false) => "known paths: /webhooks/<host>, /webhooks/<host>/<source>, /livez and /readyz",
        (false, true) => "known paths: /livez, /readyz and /metrics",
        (false, false) => "known paths: /livez and /readyz",
    };
    with_method_fallback(routes)
        .fallback(move || async move { MessageResponse::new(StatusCode::NOT_FOUND, none) })
        .with_state(ServerState::new(board, metrics, ending))
}

fn with_method_fallback(routes: Router<ServerState>) -> Router<ServerState> {
    routes.method_not_allowed_fallback(|| async {
        MessageResponse::new(StatusCode::METHOD_NOT_ALLOWED, "use POST for webhooks and GET for everything else")
    })
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

async fn metrics_text(State(shared): State<ServerState>, headers: HeaderMap) -> Response {
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
