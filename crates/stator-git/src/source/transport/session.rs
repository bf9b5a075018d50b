//! One conversation with a git host: who, how long, how much, and what went wrong.

use super::TransportError;
use super::http::{HttpClient, HttpSettings, sanitize_text};
use crate::source::addresses::AddressPolicy;
use crate::source::credentials::GitLogin;
use crate::source::remote::{FetchLimits, RemoteRepository};
use crate::source::url::RepositoryUrl;
use base64::Engine as _;
use secrecy::{ExposeSecret as _, SecretString};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use tokio::runtime::Runtime;
use tokio::time::Instant;

/// One conversation with a git host.
pub(in crate::source) struct GitSession {
    remote: RemoteRepository,
    http: Option<HttpClient>,
    /// Where the host has redirected to, for the requests that follow.
    base: Mutex<Option<url::Url>>,
    deadline: Instant,
    requests: AtomicU64,
    received: AtomicU64,
    meter: Mutex<TransferMeter>,
    failure: Mutex<Option<TransportError>>,
    /// The token that was asked for, to keep it out of messages.
    token: OnceLock<SecretString>,
}

struct TransferMeter {
    since: Instant,
    bytes: u64,
}

impl GitSession {
    /// A conversation that begins now.
    pub(in crate::source) fn new(remote: RemoteRepository, http: Option<HttpClient>, base: Option<url::Url>) -> Self {
        let now = Instant::now();
        let deadline = now + remote.limits.total_timeout;
        Self {
            remote,
            http,
            base: Mutex::new(base),
            deadline,
            requests: AtomicU64::new(0),
            received: AtomicU64::new(0),
            meter: Mutex::new(TransferMeter { since: now, bytes: 0 }),
            failure: Mutex::new(None),
            token: OnceLock::new(),
        }
    }

    pub(in crate::source) fn url(&self) -> &RepositoryUrl {
        &self.remote.url
    }

    /// The host, with its port where that is not the scheme's own, for messages.
    pub(in crate::source) fn host(&self) -> String {
        host_name(&self.remote.url)
    }

    pub(in crate::source) fn limits(&self) -> &FetchLimits {
        &self.remote.limits
    }

    /// Which addresses may be connected to.
    pub(super) fn addresses(&self) -> AddressPolicy {
        self.remote.credentials.addresses
    }

    /// Who to log in as.
    pub(super) fn login(&self) -> &GitLogin {
        &self.remote.credentials.login
    }

    pub(super) fn http(&self) -> Result<&HttpClient, TransportError> {
        self.http.as_ref().ok_or_else(|| TransportError::Local { reason: "there is no HTTP client".to_owned() })
    }

    /// Where the host has redirected to.
    pub(in crate::source) fn base(&self) -> Option<url::Url> {
        self.base.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_base(&self, base: url::Url) {
        *self.base.lock().unwrap_or_else(PoisonError::into_inner) = Some(base);
    }

    /// Waits for something that the other side does: until it is done, the deadline, or somebody asks to stop.
    pub(in crate::source) fn wait_for<T>(
        &self,
        work: impl Future<Output = Result<T, TransportError>>,
    ) -> Result<T, TransportError> {
        let late = || TransportError::TimedOut { host: self.host(), limit: self.remote.limits.total_timeout };
        io_runtime()?.block_on(async {
            tokio::select! {
                biased;
                () = self.remote.cancel.cancelled() => Err(TransportError::Cancelled),
                done = tokio::time::timeout_at(self.deadline, work) => done.unwrap_or_else(|_| Err(late())),
            }
        })
    }

    /// Waits for the next bytes of an answer, and counts them. No bytes are the end.
    pub(in crate::source) fn next_chunk<B: AsRef<[u8]>>(
        &self,
        work: impl Future<Output = Result<Option<B>, TransportError>>,
    ) -> Result<Option<B>, TransportError> {
        let window = self.remote.limits.rate_window;
        let slow = || TransportError::TooSlow { host: self.host(), floor: self.remote.limits.min_bytes_per_second };
        let bytes =
            self.wait_for(async { tokio::time::timeout(window, work).await.unwrap_or_else(|_| Err(slow())) })?;
        let count = bytes.as_ref().map_or(0, |bytes| bytes.as_ref().len() as u64);
        let total = self.received.fetch_add(count, Ordering::Relaxed).saturating_add(count);
        if total > self.remote.limits.max_pack_bytes {
            return Err(TransportError::TooMuch {
                host: self.host(),
                limit: self.remote.limits.max_pack_bytes,
                what: "bytes",
            });
        }
        let mut meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        meter.bytes = meter.bytes.saturating_add(count);
        if meter.since.elapsed() >= window {
            let least = self.remote.limits.min_bytes_per_second.saturating_mul(window.as_millis() as u64) / 1000;
            if bytes.is_some() && meter.bytes < least {
                return Err(slow());
            }
            *meter = TransferMeter { since: Instant::now(), bytes: 0 };
        }
        Ok(bytes)
    }

    /// Whether work that does not wait should go on.
    pub(in crate::source) fn check_running(&self) -> Result<(), TransportError> {
        if self.remote.cancel.is_cancelled() {
            return Err(TransportError::Cancelled);
        }
        if Instant::now() > self.deadline {
            return Err(TransportError::TimedOut { host: self.host(), limit: self.remote.limits.total_timeout });
        }
        Ok(())
    }

    /// A request is about to be sent. The time for an answer to come counts from here.
    pub(in crate::source) fn record_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        *self.meter.lock().unwrap_or_else(PoisonError::into_inner) = TransferMeter { since: Instant::now(), bytes: 0 };
    }

    /// Requests sent and bytes received.
    pub(in crate::source) fn traffic(&self) -> (u64, u64) {
        (self.requests.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed))
    }

    /// Keeps why a stream broke: libgit2 passes on a text at most. The first reason counts.
    pub(in crate::source) fn record_failure(&self, error: TransportError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Why a stream broke.
    pub(in crate::source) fn take_failure(&self) -> Option<TransportError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What goes into the `Authorization` header.
    pub(super) fn authorization(&self) -> Result<Option<::http::HeaderValue>, TransportError> {
        let unusable = |reason: &str| TransportError::Credentials { host: self.host(), reason: reason.to_owned() };
        let basic = |user: &str, password: &str| {
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}")))
        };
        let text = match &self.remote.credentials.login {
            GitLogin::Anonymous => return Ok(None),
            GitLogin::Basic { username, password } => basic(username.expose_secret(), password.expose_secret()),
            GitLogin::Bearer(token) => format!("Bearer {}", token.expose_secret()),
            GitLogin::App(_) => {
                let tokens = self.remote.tokens.as_ref().ok_or_else(|| TransportError::Token {
                    host: self.host(),
                    reason: "nothing mints tokens for the GitHub App".to_owned(),
                })?;
                let token = tokens.token().map_err(|reason| TransportError::Token { host: self.host(), reason })?;
                basic("x-access-token", self.token.get_or_init(|| token).expose_secret())
            }
            GitLogin::Ssh(_) => return Err(unusable("an SSH key cannot be used for HTTP")),
        };
        let mut value = ::http::HeaderValue::try_from(text)
            .map_err(|_| unusable("there is a line break or another control character in it"))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// Text that the other side sent, for a message: one line, cut short, and without a credential that it may have sent
    /// back.
    pub(in crate::source) fn redacted_text(&self, text: &[u8]) -> String {
        let mut text = sanitize_text(text, 2000);
        let mut secrets: Vec<String> =
            self.token.get().map(|token| token.expose_secret().to_owned()).into_iter().collect();
        match &self.remote.credentials.login {
            GitLogin::Basic { username, password } => {
                secrets.push(password.expose_secret().to_owned());
                let both = format!("{}:{}", username.expose_secret(), password.expose_secret());
                secrets.push(base64::engine::general_purpose::STANDARD.encode(both));
            }
            GitLogin::Bearer(token) => secrets.push(token.expose_secret().to_owned()),
            GitLogin::Anonymous | GitLogin::App(_) | GitLogin::Ssh(_) => {}
        }
        for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
            text = text.replace(secret.as_str(), "[hidden]");
        }
        sanitize_text(text.as_bytes(), 200)
    }
}

/// A client for a repository's host, with what its secret says about reaching it.
pub(in crate::source) fn http_client(remote: &RemoteRepository) -> Result<HttpClient, TransportError> {
    let settings = HttpSettings {
        connect_timeout: remote.limits.connect_timeout,
        // A session counts the time itself, over all of its requests.
        total_timeout: None,
        ..HttpSettings::from(&remote.credentials)
    };
    HttpClient::new(&host_name(&remote.url), &settings)
}

fn host_name(url: &RepositoryUrl) -> String {
    let shown = url.to_string();
    // As in the address: with a port where one is given.
    let authority = shown.split_once("://").map_or("", |(_, rest)| rest).split('/').next().unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_owned()
}

/// The threads that sockets are served on: two for all conversations, as they only move bytes.
fn io_runtime() -> Result<&'static Runtime, TransportError> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).thread_name("git").enable_all().build().map_err(|error| error.to_string())
    });
    runtime.as_ref().map_err(|reason| TransportError::Local { reason: reason.clone() })
}
