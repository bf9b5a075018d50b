//! One receiver's task: in order, one at a time, tried again with growing pauses, and given up in the end.

use super::message::NotificationMessage;
use crate::controller::metrics::{Metrics, NotificationResult};
use crate::controller::report::retried_write::{RetryPolicy, WriteOutcome, write_with_retry};
use crate::controller::sources::notification_target::NotificationTarget;
use crate::controller::sources::resolved_source::SourceKey;
use aws_lc_rs::hmac;
use http::header::CONTENT_TYPE;
use secrecy::ExposeSecret as _;
use stator_git::source::model_source::NotificationEvent;
use stator_git::source::transport::http::{HttpClient, HttpSettings};
use stator_git::source::transport::retry_after::retry_after;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Notifications that wait for one receiver.
pub(super) const QUEUE_CAPACITY: usize = 64;
/// How long one request may take. Its own error says more than that of an attempt, which ends later.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
const RETRIES: RetryPolicy = RetryPolicy {
    first_pause: Duration::from_secs(2),
    longest_pause: Duration::from_secs(300),
    max_attempts: Some(8),
    attempt_timeout: Duration::from_secs(16),
    timeout_message: "the receiver cannot be reached: it does not respond in time",
};
/// Bytes of a refusal that are read.
const MAX_REFUSAL_BYTES: usize = 256;

/// Sends until its queue is closed and empty. `hurry` ends the pauses: what is left is tried once more each.
pub(super) async fn run_sender(
    source: SourceKey,
    target: NotificationTarget,
    mut queue: mpsc::Receiver<NotificationMessage>,
    metrics: Arc<Metrics>,
    hurry: CancellationToken,
) {
    let settings = HttpSettings {
        roots: target.roots.clone(),
        addresses: target.addresses,
        connect_timeout: Duration::from_secs(5),
        total_timeout: Some(REQUEST_TIMEOUT),
        ..HttpSettings::default()
    };
    let http = match HttpClient::new("the receiver", &settings) {
        Ok(http) => http,
        Err(error) => {
            tracing::warn!(%source, receiver = target.name, "no notifications can be sent: {error}");
            return;
        }
    };
    while let Some(message) = queue.recv().await {
        let body = message.body(target.kind);
        // The same for every attempt, so that whoever takes it twice can recognise it.
        let id = uuid::Uuid::new_v4().to_string();
        let report = |why: &str| tracing::debug!(receiver = target.name, "a notification is retried: {why}");
        let attempt = || post_message(&http, &target, message.event, &id, &body);
        let result = match write_with_retry(&RETRIES, &hurry, attempt, report).await {
            WriteOutcome::Done(()) => NotificationResult::Sent,
            WriteOutcome::Refused(why) => {
                tracing::warn!(%source, receiver = target.name, event = message.event.as_str(), "a notification was refused: {why}");
                NotificationResult::Refused
            }
            WriteOutcome::Failed(why, _) => {
                tracing::warn!(%source, receiver = target.name, event = message.event.as_str(), "a notification failed after all retries: {why}");
                NotificationResult::Failed
            }
        };
        metrics.record_notification(target.kind, result);
    }
}

async fn post_message(
    http: &HttpClient,
    target: &NotificationTarget,
    event: NotificationEvent,
    id: &str,
    body: &[u8],
) -> WriteOutcome<()> {
    if http.check_address(&target.url).is_err() {
        return WriteOutcome::Refused("sources may not send to its address".to_owned());
    }
    let mut request = http
        .client()
        .post(target.url.clone())
        .header(CONTENT_TYPE, "application/json")
        .header("x-stator-event", event.as_str())
        .header("x-stator-delivery", id);
    if let Some(token) = &target.token {
        let key = hmac::Key::new(hmac::HMAC_SHA256, token.expose_secret().as_bytes());
        let signature = format!("sha256={}", hex::encode(hmac::sign(&key, body)));
        request = request.header("x-stator-signature-256", signature);
    }
    let answer = match request.body(body.to_vec()).send().await {
        Ok(answer) => answer,
        Err(error) => return WriteOutcome::Failed(describe_transport_error(&error), None),
    };
    let status = answer.status();
    if status.is_success() {
        return WriteOutcome::Done(());
    }
    let after = retry_after(answer.headers(), jiff::Timestamp::now());
    let code = status.as_u16();
    if status.is_redirection() {
        return WriteOutcome::Refused(format!("the receiver redirects (status {code}), which is not followed"));
    }
    if status.is_server_error() || [408, 425, 429].contains(&code) {
        return WriteOutcome::Failed(format!("the receiver answered with status {code}"), after);
    }
    let reason = read_refusal_reason(target, answer).await.map(|reason| format!(": {reason}")).unwrap_or_default();
    WriteOutcome::Refused(format!("the receiver answered with status {code}{reason}"))
}

/// The word that a refusal gives as its reason, as Slack does. Anything longer may quote what was sent, or where to.
async fn read_refusal_reason(target: &NotificationTarget, mut answer: reqwest::Response) -> Option<String> {
    let chunk = answer.chunk().await.ok().flatten()?;
    let text = std::str::from_utf8(chunk.get(..MAX_REFUSAL_BYTES).unwrap_or(&chunk)).ok()?.trim();
    let word =
        !text.is_empty() && text.len() <= 60 && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    (word && !target.url.as_str().contains(text)).then(|| text.to_owned())
}

/// Why there is no answer, without a word of the address.
fn describe_transport_error(error: &reqwest::Error) -> String {
    let why = if error.is_timeout() {
        "it does not respond in time"
    } else if error.is_connect() {
        "the connection failed"
    } else {
        "the connection was closed"
    };
    format!("the receiver cannot be reached: {why}")
}
