//! Webhook deliveries: nothing is read before a signature is shown, and nothing is parsed before it is verified. What they
//! say are hints, and nothing more.
//!
//! The path says which host a delivery comes from, and sources say which hosts they have: headers, which whoever sends
//! chooses, never choose how a delivery is checked. A path that leads to no source is answered as one that does, and costs
//! as much: a secret that nobody knows stands in for the source's.
//! A delivery that was taken is not taken twice.

use super::MessageResponse;
use super::ServerState;
use super::recent::Recent;
use super::{BodyError, Peer, RefusalReason, RequestBody};
use crate::controller::metrics::DeliveryOutcome;
use crate::controller::sources::registry::WebhookInbox;
use crate::controller::sources::registry::webhook_directory::SharedSecretGroup;
use crate::controller::sources::resolved_source::SourceKey;
use crate::telemetry::traces::{TraceContext, TraceSpan};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use stator_git::forge::webhook::{self, DeliveryProof, MAX_BODY_BYTES, WebhookDelivery, WebhookError};
use stator_git::source::model_source::ForgeKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Bytes that are hashed for one delivery: its body, once for each secret that may be its own.
const MAX_HASHED_BYTES: usize = 32 << 20;
/// From this many on they are hashed, and the body is parsed, away from the tasks that answer, one delivery at a time.
const BLOCKING_VERIFY_SIZE: usize = 256 << 10;
/// How long a delivery waits for its turn at that.
const VERIFY_QUEUE_TIMEOUT: Duration = Duration::from_secs(2);

/// Whose secrets a delivery is held against.
type Receivers = Arc<[SharedSecretGroup]>;

/// `POST /webhooks/<host>`: for every source of that host whose secret fits.
pub(super) async fn receive_for_host(
    State(shared): State<ServerState>,
    Path(host): Path<String>,
    request: Request<Body>,
) -> Response {
    handle_delivery(&shared, &host, |host| shared.board.webhook_directory().of_host(host), request).await
}

/// `POST /webhooks/<host>/<source>`: for the sources of that name.
pub(super) async fn receive_for_name(
    State(shared): State<ServerState>,
    Path((host, name)): Path<(String, String)>,
    request: Request<Body>,
) -> Response {
    handle_delivery(&shared, &host, |host| shared.board.webhook_directory().of_name(host, &name), request).await
}

/// `POST /webhooks/<host>/<namespace>/<source>`: for one source.
pub(super) async fn receive_for_source(
    State(shared): State<ServerState>,
    Path((host, namespace, name)): Path<(String, String, String)>,
    request: Request<Body>,
) -> Response {
    let one = SourceKey { namespace, name };
    handle_delivery(&shared, &host, |host| shared.board.webhook_directory().of_source(host, &one), request).await
}

/// `POST /webhooks/source/<digest>`: for one source, whose host is known.
pub(super) async fn receive_for_digest(
    State(shared): State<ServerState>,
    Path(digest): Path<String>,
    request: Request<Body>,
) -> Response {
    match find_by_digest(&shared, &digest, request.headers()) {
        Some((host, receivers)) => handle_delivery_of(&shared, host, receivers, request).await,
        None => refuse().into_response(),
    }
}

/// Ends the connection with the answer. A git host that used it again just as it ends would lose that delivery: no client
/// sends a POST a second time.
pub(super) async fn end_connection(mut answer: Response) -> Response {
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// The host of a source and its secret. What is signed as another host signs is read all the same: else the time that the
/// answer takes would reveal which digests there are.
fn find_by_digest(shared: &ServerState, digest: &str, headers: &HeaderMap) -> Option<(ForgeKind, Receivers)> {
    let directory = shared.board.webhook_directory();
    let inbox = directory.source_of_digest(digest);
    let shows = |host: &ForgeKind| DeliveryProof::from_headers(*host, headers).is_ok();
    let host = inbox.map(|inbox| inbox.forge).filter(shows).or_else(|| ForgeKind::ALL.into_iter().find(shows))?;
    let receivers = inbox.map(|inbox| directory.of_source(host, &inbox.key)).unwrap_or_else(|| Arc::from([]));
    Some((host, receivers))
}

async fn handle_delivery(
    shared: &ServerState,
    host: &str,
    receivers: impl Fn(ForgeKind) -> Receivers,
    request: Request<Body>,
) -> Response {
    let Some(host) = ForgeKind::from_name(host) else {
        let known = "unknown host; known: github, gitlab, gitea, bitbucket and azure";
        return MessageResponse::new(StatusCode::NOT_FOUND, known).into_response();
    };
    handle_delivery_of(shared, host, receivers(host), request).await
}

async fn handle_delivery_of(
    shared: &ServerState,
    host: ForgeKind,
    receivers: Receivers,
    request: Request<Body>,
) -> Response {
    let started = Instant::now();
    let mut span = TraceSpan::start("webhook", &TraceContext::default()).with("forge", host.as_str());
    let (answer, counted) = match accept_delivery(shared, host, receivers, request, &span.trace_context()).await {
        Ok(counted) => {
            let message = match counted {
                DeliveryOutcome::Accepted => "accepted",
                DeliveryOutcome::Ignored => "nothing to do",
                DeliveryOutcome::Duplicate => "already received",
                DeliveryOutcome::Refused | DeliveryOutcome::Unreadable => "refused",
            };
            (MessageResponse::new(StatusCode::ACCEPTED, message).into_response(), counted)
        }
        Err(refusal) => {
            let (answer, counted) = refusal.answer();
            let mut answer = answer.into_response();
            let reason = format!("a delivery of {} was refused: {refusal}", host.as_str());
            answer.extensions_mut().insert(RefusalReason(reason));
            (answer, counted)
        }
    };
    span.set_attribute("result", counted.as_str());
    shared.metrics.record_delivery(host, counted, started.elapsed());
    answer
}

/// Why a delivery is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum DeliveryRefusal {
    #[error("its content type is not application/json")]
    NotJson,
    #[error("no source of its path receives webhooks of this host")]
    NoReceiver,
    #[error(
        "its body of {bytes} bytes would have to be checked with {secrets} secrets; point the git host at the source's own path"
    )]
    TooManySecrets { bytes: usize, secrets: usize },
    #[error("other deliveries took too long to verify")]
    Busy,
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error(transparent)]
    Webhook(#[from] WebhookError),
}

impl DeliveryRefusal {
    /// The response does not say what is wrong where that would help an attacker. The log does.
    fn answer(self) -> (MessageResponse, DeliveryOutcome) {
        let unreadable =
            |status, message: &'static str| (MessageResponse::new(status, message), DeliveryOutcome::Unreadable);
        match self {
            Self::NotJson => {
                unreadable(StatusCode::UNSUPPORTED_MEDIA_TYPE, "set the webhook's content type to application/json")
            }
            Self::Body(error) => {
                let message = match error {
                    BodyError::TooLarge { .. } => "the body is too large; the next poll finds the change",
                    BodyError::Busy => "too many deliveries at once",
                    BodyError::Incomplete => "the body is incomplete",
                    BodyError::TooSlow => "the body did not arrive in time",
                };
                unreadable(error.status(), message)
            }
            Self::Busy => unreadable(StatusCode::SERVICE_UNAVAILABLE, "too many deliveries at once"),
            Self::Webhook(WebhookError::Unreadable) => {
                unreadable(StatusCode::BAD_REQUEST, "the body does not have this host's format")
            }
            Self::NoReceiver | Self::TooManySecrets { .. } => (refuse(), DeliveryOutcome::Refused),
            Self::Webhook(
                WebhookError::NoSecret
                | WebhookError::Unsigned
                | WebhookError::Forged
                | WebhookError::Stale
                | WebhookError::TooLarge,
            ) => (refuse(), DeliveryOutcome::Refused),
        }
    }
}

fn refuse() -> MessageResponse {
    MessageResponse::new(StatusCode::UNAUTHORIZED, "not authorized")
}

async fn accept_delivery(
    shared: &ServerState,
    host: ForgeKind,
    receivers: Receivers,
    request: Request<Body>,
    origin: &TraceContext,
) -> Result<DeliveryOutcome, DeliveryRefusal> {
    let (parts, body) = request.into_parts();
    let headers = parts.headers;
    if !is_json(&headers) {
        return Err(DeliveryRefusal::NotJson);
    }
    let proof = DeliveryProof::from_headers(host, &headers)?;
    let nobody = receivers.is_empty();
    let receivers = if nobody { Arc::clone(&shared.nobody) } else { receivers };
    if !proof.covers_body() {
        find_receiver(&proof, &receivers, &[]).map_err(|error| no_receiver(nobody, error))?;
    }
    // The body's place in memory is kept until it is parsed.
    let body = shared.bodies.read(Peer::of(&parts.extensions), &headers, body, MAX_BODY_BYTES).await?;
    let hashed = if proof.covers_body() { body.bytes().len().saturating_mul(receivers.len()) } else { 0 };
    if hashed > MAX_HASHED_BYTES {
        return Err(DeliveryRefusal::TooManySecrets { bytes: body.bytes().len(), secrets: receivers.len() });
    }
    let found = if hashed.max(body.bytes().len()) < BLOCKING_VERIFY_SIZE {
        verify_delivery(host, &proof, &receivers, &headers, &body)
    } else {
        let turn = timeout(VERIFY_QUEUE_TIMEOUT, Arc::clone(&shared.verifying).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(DeliveryRefusal::Busy) };
        let work = move || {
            let found = verify_delivery(host, &proof, &receivers, &headers, &body);
            drop((turn, body));
            found
        };
        tokio::task::spawn_blocking(work).await.unwrap_or(Err(WebhookError::Unreadable))
    };
    let (delivery, inboxes) = found.map_err(|error| no_receiver(nobody, error))?;
    Ok(queue_hints(shared, host, delivery, &inboxes, origin))
}

fn no_receiver(nobody: bool, error: WebhookError) -> DeliveryRefusal {
    if nobody { DeliveryRefusal::NoReceiver } else { error.into() }
}

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = given.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

/// The sources whose secret fits. The refusal of the last one where none does.
fn find_receiver<'a>(
    proof: &DeliveryProof,
    receivers: &'a [SharedSecretGroup],
    body: &[u8],
) -> Result<&'a SharedSecretGroup, WebhookError> {
    let (mut refusal, now) = (WebhookError::NoSecret, jiff::Timestamp::now());
    for group in receivers {
        match proof.verify(&group.secret, body, now) {
            // No other secret can fit the same signature.
            Ok(()) => return Ok(group),
            Err(error) => refusal = error,
        }
    }
    Err(refusal)
}

/// The sources whose secret fits, and what the delivery says.
fn verify_delivery(
    host: ForgeKind,
    proof: &DeliveryProof,
    receivers: &[SharedSecretGroup],
    headers: &HeaderMap,
    body: &RequestBody,
) -> Result<(WebhookDelivery, Vec<WebhookInbox>), WebhookError> {
    let group = find_receiver(proof, receivers, body.bytes())?;
    Ok((webhook::parse(host, headers, body.bytes())?, group.inboxes.clone()))
}

fn queue_hints(
    shared: &ServerState,
    host: ForgeKind,
    delivery: WebhookDelivery,
    entries: &[WebhookInbox],
    origin: &TraceContext,
) -> DeliveryOutcome {
    let now = Instant::now();
    // The same delivery may go to several paths, one a source.
    let name = |entry: &WebhookInbox, id: &str| format!("{} {} {id}", host.as_str(), entry.key);
    let mut counted = DeliveryOutcome::Duplicate;
    for entry in entries {
        let known = delivery.id.as_deref().map(|id| name(entry, id));
        if known.as_ref().is_some_and(|name| shared.replays.contains(name, now)) {
            continue;
        }
        entry.hints.set_origin(origin.clone());
        for hint in &delivery.hints {
            entry.hints.add(hint.clone());
        }
        if let Some(name) = known {
            shared.replays.insert(&name, now);
        }
        counted = if delivery.hints.is_empty() { DeliveryOutcome::Ignored } else { DeliveryOutcome::Accepted };
        tracing::debug!(source = %entry.key, hints = delivery.hints.len(), "a delivery was accepted");
    }
    counted
}

/// How long a delivery is remembered. A host that sends again by itself does so within minutes.
const REPLAY_WINDOW: Duration = Duration::from_secs(3600);
/// Deliveries that are remembered.
const MAX_DELIVERIES: usize = 10_000;
/// Bytes of a delivery's name that count; the hosts' are UUIDs.
const MAX_ID_LENGTH: usize = 200;

/// The names of deliveries that were taken within the last hour, at most 10,000.
#[derive(Debug)]
pub(super) struct ReplayCache {
    seen: Recent<String, ()>,
}

impl Default for ReplayCache {
    fn default() -> Self {
        Self { seen: Recent::new(REPLAY_WINDOW, MAX_DELIVERIES) }
    }
}

impl ReplayCache {
    /// Whether this delivery was taken already.
    pub(super) fn contains(&self, name: &str, now: Instant) -> bool {
        self.seen.get(&truncate_id(name), now).is_some()
    }

    /// Remembers one. To be called once it was handled: one that failed half-way is welcome again.
    pub(super) fn insert(&self, name: &str, now: Instant) {
        self.seen.insert(truncate_id(name), (), now);
    }
}

fn truncate_id(name: &str) -> String {
    name.chars().take(MAX_ID_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_takes_no_more_room_than_a_name() {
        assert_eq!(truncate_id(&"ü".repeat(100_000)), "ü".repeat(200));
    }
}
