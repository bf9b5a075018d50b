//! What a git host answers: read to JSON, or to the error that a refusal stands for.

use super::api::ForgeError;
use super::status_text::truncate_text;
use crate::source::transport::retry_after::{host_clock, retry_after, time_until};
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

/// A git host in messages: its name, and what must never be seen of what it says.
#[derive(Clone)]
pub(super) struct AnsweringHost {
    pub name: String,
    pub secrets: Vec<SecretString>,
}

impl AnsweringHost {
    /// The text without what must not be seen, on one line and of a bearable length.
    pub fn redact_text(&self, text: &str) -> String {
        let secrets = self.secrets.iter().map(|secret| secret.expose_secret()).filter(|secret| !secret.is_empty());
        truncate_text(&secrets.fold(text.to_owned(), |text, secret| text.replace(secret, "***")), 300)
    }

    /// An answer that makes no sense.
    pub fn unreadable_error(&self, message: impl Into<String>) -> ForgeError {
        ForgeError::Unreadable { host: self.name.clone(), message: message.into() }
    }

    /// More of something than anybody has.
    pub fn too_many_error(&self, limit: usize, what: &str) -> ForgeError {
        self.unreadable_error(format!("it lists more than {limit} {what}, which is the limit"))
    }

    /// A token that the host does not know.
    pub fn unauthorized_error(&self, message: impl Into<String>) -> ForgeError {
        ForgeError::Unauthorized { host: self.name.clone(), message: message.into() }
    }
}

/// What came back.
pub(super) struct ForgeResponse {
    pub host: AnsweringHost,
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// What was asked for, as it is named when there is none.
    pub resource: String,
}

impl ForgeResponse {
    /// The answer, if it is a success.
    pub fn check_status(self) -> Result<Self, ForgeError> {
        // Azure DevOps says 203 to a token that it does not know, with its page for signing in.
        if self.status == StatusCode::NON_AUTHORITATIVE_INFORMATION && self.is_html_page() {
            return Err(self.host.unauthorized_error("it shows its sign-in page"));
        }
        if self.status.is_success() { Ok(self) } else { Err(self.refusal()) }
    }

    /// The body as JSON of the shape that is asked for.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ForgeError> {
        if self.is_html_page() {
            return Err(self.host.unreadable_error("with a web page instead of JSON"));
        }
        serde_json::from_slice(&self.body).map_err(|error| {
            // The message of serde may quote what stands there.
            self.host.unreadable_error(self.host.redact_text(&format!("{}: {error}", self.resource)))
        })
    }

    /// Whether there is nothing in it.
    pub fn body_is_empty(&self) -> bool {
        self.body.iter().all(u8::is_ascii_whitespace)
    }

    /// Whether it is a page for people.
    pub fn is_html_page(&self) -> bool {
        let kind = self.header("content-type").unwrap_or_default();
        let opens = self.body.iter().find(|byte| !byte.is_ascii_whitespace());
        kind.contains("text/html") || opens == Some(&b'<')
    }

    /// A header that is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// What the host says, short and without anything secret.
    pub fn message(&self) -> String {
        let text = if self.is_html_page() { "a web page".to_owned() } else { error_body_message(&self.body) };
        let text = if text.is_empty() { format!("status {}", self.status.as_u16()) } else { text };
        self.host.redact_text(&text)
    }

    /// What the host's clock showed.
    pub fn host_time(&self) -> Option<Timestamp> {
        host_clock(&self.headers)
    }

    /// The error that an answer other than a success stands for.
    fn refusal(&self) -> ForgeError {
        let host = self.host.name.clone();
        let message = self.message();
        let lower = message.to_lowercase();
        let closed = || lower.contains("archived") || lower.contains("locked");
        match self.status.as_u16() {
            401 => ForgeError::Unauthorized { host, message },
            403 if self.is_rate_limited(&lower) => {
                ForgeError::RateLimited { host, after: self.rate_limit_wait(Timestamp::now()) }
            }
            403 if closed() => ForgeError::Closed { host, message },
            403 => ForgeError::Forbidden { host, message },
            404 if self.is_html_page() => {
                ForgeError::Unreadable { host, message: "with a web page where its API should be".to_owned() }
            }
            404 => ForgeError::NotFound { host, what: self.resource.clone() },
            409 => ForgeError::Conflict { host, message },
            410 | 423 => ForgeError::Closed { host, message },
            // GitHub, where a pull request of the two branches is open.
            422 if lower.contains("already exists") => ForgeError::Conflict { host, message },
            // GitHub's wall: 1,000 statuses of one commit and context, for ever.
            422 if lower.contains("maximum number of statuses") => ForgeError::Full { host },
            422 if lower.contains("no commit found") => ForgeError::NotFound { host, what: self.resource.clone() },
            429 => ForgeError::RateLimited { host, after: self.rate_limit_wait(Timestamp::now()) },
            408 | 425 | 500..=599 => {
                // A host in trouble that names no time is asked again in the caller's own rhythm.
                let after = retry_after(&self.headers, Timestamp::now());
                ForgeError::Unavailable { host, message, after }
            }
            400..=499 => ForgeError::Invalid { host, message },
            status => ForgeError::Unreadable { host, message: format!("with status {status}") },
        }
    }

    /// Whether a 403 is about too many calls and not about rights. GitHub says so in three ways, and going on may get an
    /// application banned.
    fn is_rate_limited(&self, message: &str) -> bool {
        self.header("retry-after").is_some()
            || self.header("x-ratelimit-remaining").is_some_and(|left| left.trim() == "0")
            || ["secondary rate limit", "rate limit exceeded", "abuse detection"]
                .iter()
                .any(|one| message.contains(one))
    }

    /// How long to wait: `Retry-After`, else until the window ends.
    fn rate_limit_wait(&self, now: Timestamp) -> Option<Duration> {
        retry_after(&self.headers, now).or_else(|| {
            let spent = self.header("x-ratelimit-remaining").or_else(|| self.header("ratelimit-remaining"));
            let reset = self.header("x-ratelimit-reset").or_else(|| self.header("ratelimit-reset"))?;
            // A secondary limit comes with the numbers of the primary one, whose end has nothing to do with it.
            if spent.is_some_and(|left| left.trim() != "0") {
                return None;
            }
            let reset: i64 = reset.trim().parse().ok()?;
            Some(time_until(Timestamp::from_second(reset).ok()?, &self.headers, now))
        })
    }
}

/// The sentences of an error's body: every host has its own place for them.
fn error_body_message(body: &[u8]) -> String {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        return String::from_utf8_lossy(body.get(..300).unwrap_or(body)).trim().to_owned();
    };
    let mut texts: Vec<String> = Vec::new();
    collect_messages(&value, &mut texts, 0);
    texts.dedup();
    texts.join("; ")
}

/// GitHub and Gitea: `message`, and `errors` of objects with `field`, `code`, `message`, or of texts. GitLab: `message` or
/// `error`, a text, a list, or an object of lists. Bitbucket: `error.message`, or `errors[].message`. Azure: `message`.
fn collect_messages(value: &Value, texts: &mut Vec<String>, depth: usize) {
    if depth > 4 || texts.len() >= 10 {
        return;
    }
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(all) => all.iter().for_each(|one| collect_messages(one, texts, depth + 1)),
        Value::Object(map) => {
            let known = ["message", "error", "errors", "error_description", "detail"];
            let mut any = false;
            for name in known {
                if let Some(one) = map.get(name) {
                    any = true;
                    collect_messages(one, texts, depth + 1);
                }
            }
            if !any {
                // `{"field": "description", "code": "too_long"}`, or `{"description": ["is too long"]}`.
                for (name, one) in map {
                    let mut below = Vec::new();
                    collect_messages(one, &mut below, depth + 1);
                    texts.extend(below.into_iter().map(|text| format!("{name}: {text}")));
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
