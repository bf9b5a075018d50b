//! What a host's refusal means.

use super::api::ForgeError;
use super::client::ForgeResponse;
use crate::source::transport::retry_after::{retry_after, time_until};
use jiff::Timestamp;
use serde_json::Value;
use std::time::Duration;

/// The error that an answer other than a success stands for.
pub(super) fn error_from_response(answer: &ForgeResponse) -> ForgeError {
    let host = answer.host();
    let message = answer.message();
    let lower = message.to_lowercase();
    let closed = || lower.contains("archived") || lower.contains("locked");
    match answer.status.as_u16() {
        401 => ForgeError::Unauthorized { host, message },
        403 if is_rate_limited(answer, &lower) => {
            ForgeError::RateLimited { host, after: rate_limit_wait(answer, Timestamp::now()) }
        }
        403 if closed() => ForgeError::Closed { host, message },
        403 => ForgeError::Forbidden { host, message },
        404 if answer.is_html_page() => {
            ForgeError::Unreadable { host, message: "with a web page where its API should be".to_owned() }
        }
        404 => ForgeError::NotFound { host, what: answer.resource.clone() },
        409 => ForgeError::Conflict { host, message },
        410 | 423 => ForgeError::Closed { host, message },
        // GitHub's wall: 1,000 statuses of one commit and context, for ever.
        422 if lower.contains("maximum number of statuses") => ForgeError::Full { host },
        422 if lower.contains("no commit found") => ForgeError::NotFound { host, what: answer.resource.clone() },
        429 => ForgeError::RateLimited { host, after: rate_limit_wait(answer, Timestamp::now()) },
        408 | 425 | 500..=599 => {
            // A host in trouble that names no time is asked again in the caller's own rhythm.
            let after = retry_after(&answer.headers, Timestamp::now());
            ForgeError::Unavailable { host, message, after }
        }
        400..=499 => ForgeError::Invalid { host, message },
        status => ForgeError::Unreadable { host, message: format!("with status {status}") },
    }
}

/// Whether a 403 is about too many calls and not about rights. GitHub says so in three ways, and going on may get an
/// application banned.
fn is_rate_limited(answer: &ForgeResponse, message: &str) -> bool {
    answer.header("retry-after").is_some()
        || answer.header("x-ratelimit-remaining").is_some_and(|left| left.trim() == "0")
        || ["secondary rate limit", "rate limit exceeded", "abuse detection"].iter().any(|one| message.contains(one))
}

/// How long to wait: `Retry-After`, else until the window ends.
fn rate_limit_wait(answer: &ForgeResponse, now: Timestamp) -> Option<Duration> {
    retry_after(&answer.headers, now).or_else(|| {
        let spent = answer.header("x-ratelimit-remaining").or_else(|| answer.header("ratelimit-remaining"));
        let reset = answer.header("x-ratelimit-reset").or_else(|| answer.header("ratelimit-reset"))?;
        // A secondary limit comes with the numbers of the primary one, whose end has nothing to do with it.
        if spent.is_some_and(|left| left.trim() != "0") {
            return None;
        }
        let reset: i64 = reset.trim().parse().ok()?;
        Some(time_until(Timestamp::from_second(reset).ok()?, &answer.headers, now))
    })
}

/// The sentences of an error's body: every host has its own place for them.
pub(super) fn error_body_message(body: &[u8]) -> String {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        return String::from_utf8_lossy(body.get(..300).unwrap_or(body)).trim().to_owned();
    };
    let mut said: Vec<String> = Vec::new();
    collect_messages(&value, &mut said, 0);
    said.dedup();
    said.join("; ")
}

/// GitHub and Gitea: `message`, and `errors` of objects with `field`, `code`, `message`, or of texts. GitLab: `message` or
/// `error`, a text, a list, or an object of lists. Bitbucket: `error.message`, or `errors[].message`. Azure: `message`.
fn collect_messages(value: &Value, said: &mut Vec<String>, depth: usize) {
    if depth > 4 || said.len() >= 10 {
        return;
    }
    match value {
        Value::String(text) => said.push(text.clone()),
        Value::Array(all) => all.iter().for_each(|one| collect_messages(one, said, depth + 1)),
        Value::Object(map) => {
            let known = ["message", "error", "errors", "error_description", "detail"];
            let mut any = false;
            for name in known {
                if let Some(one) = map.get(name) {
                    any = true;
                    collect_messages(one, said, depth + 1);
                }
            }
            if !any {
                // `{"field": "description", "code": "too_long"}`, or `{"description": ["is too long"]}`.
                for (name, one) in map {
                    let mut below = Vec::new();
                    collect_messages(one, &mut below, depth + 1);
                    said.extend(below.into_iter().map(|text| format!("{name}: {text}")));
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
