//! Deliveries of webhooks: capped before they are read, verified over the raw bytes, taken as hints and nothing more.
//!
//! The path says which host a delivery comes from, and sources say which hosts they have: headers, which whoever sends
//! chooses, never choose how a delivery is checked.

use super::Shared;
use super::answer::Answer;
use crate::controller::board::Inbox;
use crate::controller::metrics::{self, Delivery as Counted};
use crate::controller::sources::SourceKey;
use crate::telemetry::traces::{Origin, Span};
use axum::body::Body;
use axum::extract::{Path, State};
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use secrecy::{ExposeSecret as _, SecretString};
use stator_git::forge::webhook::{self, BODY_LIMIT, Delivery, Refusal};
use stator_git::source::model_source::ForgeKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// A body has to be here within this time.
const BODY_DEADLINE: Duration = Duration::from_secs(10);
/// How long a body that is refused for its size is read on.
const LINGER: Duration = Duration::from_secs(5);
/// How much of it is read on: what the largest of hosts sends by mistake, and no more.
const DISCARDED: usize = 128 << 20;
/// How long a delivery waits for others to be read before it.
const TURN: Duration = Duration::from_secs(2);
/// Bodies from this size on are verified and parsed away from the tasks that answer.
const LARGE: usize = 256 << 10;
/// Secrets that a body of full size is held against. With more of them the largest body is smaller: whoever is not
/// known must not make one request cost many.
const SECRETS: usize = 4;
/// The least that the largest body may be; real ones are a few kilobytes.
const LEAST: usize = 512 << 10;

/// `POST /webhooks/<host>`: for every source of that host whose secret fits.
pub(super) async fn of_host(State(shared): State<Shared>, Path(host): Path<String>, request: Request<Body>) -> Answer {
    deliver(&shared, &host, &|_| true, request).await
}

/// `POST /webhooks/<host>/<source>`: for the sources of that name.
pub(super) async fn of_name(
    State(shared): State<Shared>,
    Path((host, name)): Path<(String, String)>,
    request: Request<Body>,
) -> Answer {
    deliver(&shared, &host, &|key| key.name == name, request).await
}

/// `POST /webhooks/<host>/<namespace>/<source>`: for one source.
pub(super) async fn of_source(
    State(shared): State<Shared>,
    Path((host, namespace, name)): Path<(String, String, String)>,
    request: Request<Body>,
) -> Answer {
    let one = SourceKey { namespace, name };
    deliver(&shared, &host, &|key| *key == one, request).await
}

/// Which sources a delivery is for, as far as its path says.
type Which<'a> = &'a (dyn Fn(&SourceKey) -> bool + Sync);

async fn deliver(shared: &Shared, host: &str, which: Which<'_>, request: Request<Body>) -> Answer {
    let Some(host) = metrics::of_word(host) else {
        let known = "no such host: there is github, gitlab, gitea, bitbucket and azure";
        return Answer::new(StatusCode::NOT_FOUND, known);
    };
    let started = Instant::now();
    let mut span = Span::begin("webhook", &Origin::default()).with("forge", metrics::word(host));
    let (answer, counted) = match take(shared, host, which, request, &span.origin()).await {
        Ok(counted) => {
            let message = match counted {
                Counted::Accepted => "accepted",
                Counted::Ignored => "nothing to do",
                Counted::Duplicate => "taken before",
                Counted::Refused | Counted::Unreadable => "refused",
            };
            (Answer::new(StatusCode::ACCEPTED, message), counted)
        }
        Err(refused) => refused,
    };
    span.set("result", counted.word());
    shared.metrics.delivered(host, counted, started.elapsed());
    answer
}

type Refused = (Answer, Counted);

fn unreadable(status: StatusCode, message: &'static str) -> Refused {
    (Answer::new(status, message), Counted::Unreadable)
}

async fn take(
    shared: &Shared,
    host: ForgeKind,
    which: Which<'_>,
    request: Request<Body>,
    origin: &Origin,
) -> Result<Counted, Refused> {
    let receivers = shared.board.receivers(host, which);
    if receivers.is_empty() {
        return Err(unreadable(StatusCode::NOT_FOUND, "no source takes webhooks here"));
    }
    let groups = by_secret(receivers);
    let (parts, body) = request.into_parts();
    if !is_json(&parts.headers) {
        let message = "set the webhook's content type to application/json";
        return Err(unreadable(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    let body = read(shared, &parts.headers, body, limit(groups.len())).await?;
    let headers = parts.headers;
    let found = if body.len() < LARGE {
        verify(host, &groups, &headers, &body)
    } else {
        let work = move || {
            let found = verify(host, &groups, &headers, &body);
            drop(body);
            found
        };
        let panicked = |_| unreadable(StatusCode::BAD_REQUEST, "the delivery cannot be read");
        tokio::task::spawn_blocking(work).await.map_err(panicked)?
    };
    let (delivery, entries) = found.map_err(|refusal| refused(host, refusal))?;
    Ok(hand_over(shared, host, delivery, &entries, origin))
}

/// Sources that share a secret; it is tried once for all of them.
type Group = (SecretString, Vec<Inbox>);

fn by_secret(receivers: Vec<Inbox>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
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

fn limit(secrets: usize) -> usize {
    match secrets {
        0..=SECRETS => BODY_LIMIT,
        many => (BODY_LIMIT / many * SECRETS).max(LEAST),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = given.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

async fn read(shared: &Shared, headers: &HeaderMap, mut body: Body, limit: usize) -> Result<bytes::Bytes, Refused> {
    let too_large =
        || unreadable(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large; the next poll sees what it was about");
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > u64::try_from(limit).unwrap_or(u64::MAX)) {
        if let Ok(_turn) = shared.bodies.try_acquire() {
            discard(&mut body).await;
        }
        return Err(too_large());
    }
    let busy = || unreadable(StatusCode::SERVICE_UNAVAILABLE, "too many deliveries at once");
    let _turn =
        timeout(TURN, Arc::clone(&shared.bodies).acquire_owned()).await.map_err(|_| busy())?.map_err(|_| busy())?;
    match timeout(BODY_DEADLINE, Limited::new(&mut body, limit).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            discard(&mut body).await;
            Err(too_large())
        }
        Ok(Err(_)) => Err(unreadable(StatusCode::BAD_REQUEST, "the body ends before it is whole")),
        Err(_) => Err(unreadable(StatusCode::REQUEST_TIMEOUT, "the body did not come in time")),
    }
}

/// Reads on and throws away, up to [`DISCARDED`] bytes and [`LINGER`]: whose connection ends while it still writes sees a
/// broken connection in place of the answer.
async fn discard(body: &mut Body) {
    let rest = async {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, bytes::Bytes::len);
            if read > DISCARDED {
                break;
            }
            // A body that is always there would otherwise keep the deadline from being looked at.
            tokio::task::yield_now().await;
        }
    };
    // A sender that is not done by then goes without the answer.
    let _ = timeout(LINGER, rest).await;
}

/// The sources whose secret fits, and what the delivery says. The refusal of the last one where none does.
fn verify(
    host: ForgeKind,
    groups: &[Group],
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(Delivery, Vec<Inbox>), Refusal> {
    let mut refusal = Refusal::NoSecret;
    for (secret, entries) in groups {
        match webhook::receive(host, std::slice::from_ref(secret), headers, body, jiff::Timestamp::now()) {
            // No other secret can fit the same signature.
            Ok(delivery) => return Ok((delivery, entries.clone())),
            Err(Refusal::Unreadable) => return Err(Refusal::Unreadable),
            Err(other) => refusal = other,
        }
    }
    Err(refusal)
}

fn hand_over(shared: &Shared, host: ForgeKind, delivery: Delivery, entries: &[Inbox], origin: &Origin) -> Counted {
    let now = Instant::now();
    // The same delivery may go to several paths, one a source.
    let name = |entry: &Inbox, id: &str| format!("{} {} {id}", metrics::word(host), entry.key);
    let mut counted = Counted::Duplicate;
    for entry in entries {
        let known = delivery.id.as_deref().map(|id| name(entry, id));
        if known.as_ref().is_some_and(|name| shared.taken.knows(name, now)) {
            continue;
        }
        entry.hints.traced(origin.clone());
        for hint in &delivery.hints {
            entry.hints.add(hint.clone());
        }
        if let Some(name) = known {
            shared.taken.remember(&name, now);
        }
        counted = if delivery.hints.is_empty() { Counted::Ignored } else { Counted::Accepted };
        tracing::debug!(source = %entry.key, hints = delivery.hints.len(), "a delivery was taken");
    }
    counted
}

/// What the sender is told is not what is wrong: that would help whoever guesses. The log says it.
fn refused(host: ForgeKind, refusal: Refusal) -> Refused {
    tracing::warn!(host = metrics::word(host), "a delivery was refused: {refusal}");
    match refusal {
        Refusal::NoSecret | Refusal::Unsigned | Refusal::Forged | Refusal::Stale => {
            (Answer::new(StatusCode::UNAUTHORIZED, "not authorized"), Counted::Refused)
        }
        Refusal::TooLarge => {
            unreadable(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large; the next poll sees what it was about")
        }
        Refusal::Unreadable => unreadable(StatusCode::BAD_REQUEST, "the body is not what this host documents"),
    }
}
