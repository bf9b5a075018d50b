//! Webhook deliveries: capped before they are read, verified over the raw bytes, taken as hints and nothing more.
//!
//! The path says which host a delivery comes from, and sources say which hosts they have: headers, which whoever sends
//! chooses, never choose how a delivery is checked.

use super::ServerState;
use super::response::MessageResponse;
use crate::controller::metrics::DeliveryOutcome;
use crate::controller::sources::registry::WebhookInbox;
use crate::controller::sources::resolved_source::SourceKey;
use crate::telemetry::traces::{TraceContext, TraceSpan};
use axum::body::Body;
use axum::extract::{Path, State};
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use secrecy::{ExposeSecret as _, SecretString};
use stator_git::forge::webhook::{self, MAX_BODY_BYTES, WebhookDelivery, WebhookError};
use stator_git::source::model_source::ForgeKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// A body has to be here within this time.
const BODY_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a body that is refused for its size is read on.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);
/// How much of it is read on: what the largest of hosts sends by mistake, and no more.
const MAX_DISCARDED_BYTES: usize = 128 << 20;
/// How long a delivery waits for others to be read before it.
const BODY_QUEUE_TIMEOUT: Duration = Duration::from_secs(2);
/// Bodies from this size on are verified and parsed away from the tasks that answer.
const BLOCKING_VERIFY_SIZE: usize = 256 << 10;
/// Secrets that a body of full size is held against. With more of them the largest body is smaller: whoever is not
/// known must not make one request cost many.
const MAX_SECRETS_AT_FULL_SIZE: usize = 4;
/// The least that the largest body may be; real ones are a few kilobytes.
const MIN_BODY_LIMIT: usize = 512 << 10;

/// `POST /webhooks/<host>`: for every source of that host whose secret fits.
pub(super) async fn receive_for_host(
    State(shared): State<ServerState>,
    Path(host): Path<String>,
    request: Request<Body>,
) -> MessageResponse {
    handle_delivery(&shared, &host, &|_| true, request).await
}

/// `POST /webhooks/<host>/<source>`: for the sources of that name.
pub(super) async fn receive_for_name(
    State(shared): State<ServerState>,
    Path((host, name)): Path<(String, String)>,
    request: Request<Body>,
) -> MessageResponse {
    handle_delivery(&shared, &host, &|key| key.name == name, request).await
}

/// `POST /webhooks/<host>/<namespace>/<source>`: for one source.
pub(super) async fn receive_for_source(
    State(shared): State<ServerState>,
    Path((host, namespace, name)): Path<(String, String, String)>,
    request: Request<Body>,
) -> MessageResponse {
    let one = SourceKey { namespace, name };
    handle_delivery(&shared, &host, &|key| *key == one, request).await
}

/// Which sources a delivery is for, as far as its path says.
type WebhookSourceFilter<'a> = &'a (dyn Fn(&SourceKey) -> bool + Sync);

async fn handle_delivery(
    shared: &ServerState,
    host: &str,
    which: WebhookSourceFilter<'_>,
    request: Request<Body>,
) -> MessageResponse {
    let Some(host) = ForgeKind::from_name(host) else {
        let known = "unknown host; known: github, gitlab, gitea, bitbucket and azure";
        return MessageResponse::new(StatusCode::NOT_FOUND, known);
    };
    let started = Instant::now();
    let mut span = TraceSpan::start("webhook", &TraceContext::default()).with("forge", host.as_str());
    let (answer, counted) = match accept_delivery(shared, host, which, request, &span.trace_context()).await {
        Ok(counted) => {
            let message = match counted {
                DeliveryOutcome::Accepted => "accepted",
                DeliveryOutcome::Ignored => "nothing to do",
                DeliveryOutcome::Duplicate => "already received",
                DeliveryOutcome::Refused | DeliveryOutcome::Unreadable => "refused",
            };
            (MessageResponse::new(StatusCode::ACCEPTED, message), counted)
        }
        Err(refused) => refused,
    };
    span.set_attribute("result", counted.as_str());
    shared.metrics.record_delivery(host, counted, started.elapsed());
    answer
}

type RejectedDelivery = (MessageResponse, DeliveryOutcome);

fn unreadable_delivery(status: StatusCode, message: &'static str) -> RejectedDelivery {
    (MessageResponse::new(status, message), DeliveryOutcome::Unreadable)
}

async fn accept_delivery(
    shared: &ServerState,
    host: ForgeKind,
    which: WebhookSourceFilter<'_>,
    request: Request<Body>,
    origin: &TraceContext,
) -> Result<DeliveryOutcome, RejectedDelivery> {
    let receivers = shared.board.webhook_inboxes(host, which);
    if receivers.is_empty() {
        return Err(unreadable_delivery(StatusCode::NOT_FOUND, "no source receives webhooks here"));
    }
    let groups = group_by_secret(receivers);
    let (parts, body) = request.into_parts();
    if !is_json(&parts.headers) {
        let message = "set the webhook's content type to application/json";
        return Err(unreadable_delivery(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    let body = read_body(shared, &parts.headers, body, body_limit(groups.len())).await?;
    let headers = parts.headers;
    let found = if body.len() < BLOCKING_VERIFY_SIZE {
        verify_delivery(host, &groups, &headers, &body)
    } else {
        let work = move || {
            let found = verify_delivery(host, &groups, &headers, &body);
            drop(body);
            found
        };
        let panicked = |_| unreadable_delivery(StatusCode::BAD_REQUEST, "the delivery cannot be read");
        tokio::task::spawn_blocking(work).await.map_err(panicked)?
    };
    let (delivery, entries) = found.map_err(|refusal| reject_delivery(host, refusal))?;
    Ok(queue_hints(shared, host, delivery, &entries, origin))
}

/// Sources that share a secret; it is tried once for all of them.
type SharedSecretGroup = (SecretString, Vec<WebhookInbox>);

fn group_by_secret(receivers: Vec<WebhookInbox>) -> Vec<SharedSecretGroup> {
    let mut groups: Vec<SharedSecretGroup> = Vec::new();
    for entry in receivers {
        let secret = entry.secret.clone();
        // Both are ours, so there is nobody to learn from how long this takes.
        match groups.iter_mut().find(|(known, _)| known.expose_secret() == secret.expose_secret()) {
            Some((_, entries)) => entries.push(entry),
            None => groups.push((secret, vec![entry])),
        }
    }
    groups
}

fn body_limit(secrets: usize) -> usize {
    match secrets {
        0..=MAX_SECRETS_AT_FULL_SIZE => MAX_BODY_BYTES,
        many => (MAX_BODY_BYTES / many * MAX_SECRETS_AT_FULL_SIZE).max(MIN_BODY_LIMIT),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = given.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

async fn read_body(
    shared: &ServerState,
    headers: &HeaderMap,
    mut body: Body,
    limit: usize,
) -> Result<bytes::Bytes, RejectedDelivery> {
    let too_large =
        || unreadable_delivery(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large; the next poll finds the change");
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > u64::try_from(limit).unwrap_or(u64::MAX)) {
        if let Ok(_turn) = shared.body_permits.try_acquire() {
            discard_body(&mut body).await;
        }
        return Err(too_large());
    }
    let busy = || unreadable_delivery(StatusCode::SERVICE_UNAVAILABLE, "too many deliveries at once");
    let _turn = timeout(BODY_QUEUE_TIMEOUT, Arc::clone(&shared.body_permits).acquire_owned())
        .await
        .map_err(|_| busy())?
        .map_err(|_| busy())?;
    match timeout(BODY_READ_TIMEOUT, Limited::new(&mut body, limit).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            discard_body(&mut body).await;
            Err(too_large())
        }
        Ok(Err(_)) => Err(unreadable_delivery(StatusCode::BAD_REQUEST, "the body is incomplete")),
        Err(_) => Err(unreadable_delivery(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time")),
    }
}

/// Reads on and throws away, up to [`MAX_DISCARDED_BYTES`] bytes and [`DISCARD_TIMEOUT`]: whose connection ends while it still writes sees a
/// broken connection in place of the answer.
async fn discard_body(body: &mut Body) {
    let rest = async {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, bytes::Bytes::len);
            if read > MAX_DISCARDED_BYTES {
                break;
            }
            // A body that is always there would otherwise keep the deadline from being looked at.
            tokio::task::yield_now().await;
        }
    };
    // A sender that is not done by then goes without the answer.
    let _ = timeout(DISCARD_TIMEOUT, rest).await;
}

/// The sources whose secret fits, and what the delivery says. The refusal of the last one where none does.
fn verify_delivery(
    host: ForgeKind,
    groups: &[SharedSecretGroup],
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(WebhookDelivery, Vec<WebhookInbox>), WebhookError> {
    let mut refusal = WebhookError::NoSecret;
    for (secret, entries) in groups {
        match webhook::receive(host, std::slice::from_ref(secret), headers, body, jiff::Timestamp::now()) {
            // No other secret can fit the same signature.
            Ok(delivery) => return Ok((delivery, entries.clone())),
            Err(WebhookError::Unreadable) => return Err(WebhookError::Unreadable),
            Err(other) => refusal = other,
        }
    }
    Err(refusal)
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

/// The response does not say what is wrong, because that would help an attacker. The log does.
fn reject_delivery(host: ForgeKind, refusal: WebhookError) -> RejectedDelivery {
    tracing::warn!(host = host.as_str(), "a delivery was refused: {refusal}");
    match refusal {
        WebhookError::NoSecret | WebhookError::Unsigned | WebhookError::Forged | WebhookError::Stale => {
            (MessageResponse::new(StatusCode::UNAUTHORIZED, "not authorized"), DeliveryOutcome::Refused)
        }
        WebhookError::TooLarge => {
            unreadable_delivery(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large; the next poll finds the change")
        }
        WebhookError::Unreadable => {
            unreadable_delivery(StatusCode::BAD_REQUEST, "the body does not have this host's format")
        }
    }
}
