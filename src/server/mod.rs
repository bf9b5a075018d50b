//! The listener: webhooks in, and how the process stands out. Nothing here syncs, and nothing waits for a sync.

mod answer;
mod listen;
mod replay;
mod webhooks;

#[cfg(test)]
mod tests;

pub use listen::{ListenError, Listener};

use crate::controller::board::Board;
use crate::controller::metrics::Metrics;
use answer::Answer;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use http::{HeaderValue, StatusCode, header};
use replay::Taken;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Bodies that are read at a time: what they may take of memory is this times their largest.
const BODIES: usize = 16;

/// What the handlers share.
#[derive(Clone, Debug)]
struct Shared {
    board: Arc<Board>,
    metrics: Arc<Metrics>,
    taken: Arc<Taken>,
    bodies: Arc<Semaphore>,
    ending: CancellationToken,
}

/// The routes: `/webhooks/<host>` and `/webhooks/<host>/<source>`, `/livez`, `/readyz`, `/metrics`.
///
/// `ending` is set when the process is about to end: it is not ready from then on.
pub fn routes(board: Arc<Board>, metrics: Arc<Metrics>, ending: CancellationToken) -> Router {
    let shared = Shared { board, metrics, taken: Arc::default(), bodies: Arc::new(Semaphore::new(BODIES)), ending };
    Router::new()
        .route("/webhooks/{host}", post(webhooks::of_host))
        .route("/webhooks/{host}/{source}", post(webhooks::of_source))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics_text))
        .method_not_allowed_fallback(|| async {
            Answer::new(StatusCode::METHOD_NOT_ALLOWED, "webhooks take POST, everything else takes GET")
        })
        .fallback(|| async {
            let paths = "there is /webhooks/<host>, /webhooks/<host>/<source>, /livez, /readyz and /metrics";
            Answer::new(StatusCode::NOT_FOUND, paths)
        })
        .with_state(shared)
}

/// That the process answers at all, and nothing else.
async fn livez() -> Response {
    (StatusCode::OK, "ok\n").into_response()
}

/// Ready once every source was looked at. One that fails is no reason to be sent no webhooks.
async fn readyz(State(shared): State<Shared>) -> Response {
    let mut missing: Vec<String> = shared
        .board
        .standings()
        .into_iter()
        .filter(|(_, standing)| !standing.looked)
        .map(|(name, _)| format!("source {name} was not looked at yet"))
        .collect();
    if shared.ending.is_cancelled() {
        missing.push("the process is ending".to_owned());
    }
    let status = if missing.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, axum::Json(json!({"ready": missing.is_empty(), "missing": missing}))).into_response()
}

async fn metrics_text(State(shared): State<Shared>) -> Response {
    match shared.metrics.text(&shared.board.standings()) {
        Ok(text) => {
            let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(_) => Answer::new(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written").into_response(),
    }
}
