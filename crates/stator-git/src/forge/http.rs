//! How hosts are reached.

use super::ForgeError;
use crate::source::secret::SecretValues;
use crate::source::transport::TransportError;
use crate::source::transport::http::{self, HttpSettings};
use ::http::HeaderMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How hosts are reached: one pool of connections for all of them, the same that repositories are fetched with.
#[derive(Clone)]
pub struct ForgeHttp {
    inner: http::HttpClient,
    observer: Option<ForgeObserver>,
}

/// One request to a host's API, once its answer began or it was known that none comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeExchange<'a> {
    /// The host.
    pub host: &'a str,
    /// The status; `None` where no answer came.
    pub code: Option<u16>,
    /// How long that took.
    pub took: Duration,
    /// How many requests the host still takes in its current window, where it says so.
    pub remaining_calls: Option<u64>,
}

/// Is called for every request. Must not block.
pub type ForgeObserver = Arc<dyn Fn(ForgeExchange<'_>) + Send + Sync>;

impl fmt::Debug for ForgeHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl ForgeHttp {
    /// Connections as the system has them: its roots, its proxy.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new() -> Result<Self, ForgeError> {
        Self::with_roots(&[])
    }

    /// Connections that trust these certificates, as PEM, in place of the system's; the system's where there are none.
    ///
    /// # Errors
    /// When they are not PEM, or TLS cannot be set up.
    pub fn with_roots(roots: &[u8]) -> Result<Self, ForgeError> {
        let settings = HttpSettings { roots: roots.to_vec(), ..HttpSettings::default() };
        Self::with_settings(&settings).map_err(|error| ForgeError::Misconfigured {
            field: "caFile",
            message: format!("cannot be used: {error}"),
            fix: "put the certificate there, from -----BEGIN CERTIFICATE----- on",
        })
    }

    /// Connections with roots, proxy and client certificate as a repository's credentials have them.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub fn with_settings(settings: &HttpSettings) -> Result<Self, TransportError> {
        http::HttpClient::new("the git host", settings).map(Self::from)
    }

    /// Connections that trust the certificates of the first of these secrets that has some, under `ca.crt` or `caFile`; the
    /// system's where none has.
    ///
    /// # Errors
    /// As [`ForgeHttp::with_roots`].
    pub fn with_roots_of<'a>(secrets: impl IntoIterator<Item = &'a SecretValues>) -> Result<Self, ForgeError> {
        let roots = secrets.into_iter().find_map(|secret| secret.get("ca.crt").or_else(|| secret.get("caFile")));
        Self::with_roots(roots.unwrap_or_default())
    }

    /// The same connections, with an observer of every request.
    pub fn with_observer(self, observer: ForgeObserver) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// The client for calls that do not block. It follows no redirect.
    pub fn client(&self) -> &reqwest::Client {
        self.inner.client()
    }

    /// Tells of a request.
    pub(super) fn notify_observer(&self, host: &str, answer: Option<&reqwest::Response>, took: Duration) {
        let Some(observer) = &self.observer else { return };
        let code = answer.map(|answer| answer.status().as_u16());
        observer(ForgeExchange {
            host,
            code,
            took,
            remaining_calls: answer.and_then(|answer| remaining_calls(answer.headers())),
        });
    }
}

impl From<http::HttpClient> for ForgeHttp {
    fn from(inner: http::HttpClient) -> Self {
        Self { inner, observer: None }
    }
}

/// What is left of the host's limit: GitHub, Azure DevOps and Bitbucket Cloud say it by the first name, GitLab by the second.
fn remaining_calls(headers: &HeaderMap) -> Option<u64> {
    let names = ["x-ratelimit-remaining", "ratelimit-remaining"];
    names.iter().find_map(|name| headers.get(*name)?.to_str().ok()?.trim().parse().ok())
}
