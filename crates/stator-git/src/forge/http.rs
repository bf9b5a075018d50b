//! How hosts are reached.

use super::ForgeError;
use crate::source::credentials::GitCredentials;
use crate::source::secret::SecretValues;
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
        Self::with_settings(&HttpSettings::default())
    }

    /// Connections to the API of a repository's host, which is reached as the repository is: through the same proxy, and with
    /// the same client certificate. Where the API's own secret has certificates to trust, under `ca.crt` or `caFile`, these
    /// count in place of the repository's.
    ///
    /// # Errors
    /// When certificates are not PEM, or TLS cannot be set up.
    pub fn for_repository(git: &GitCredentials, api: Option<&SecretValues>) -> Result<Self, ForgeError> {
        let mut settings = HttpSettings::from(git);
        if let Some(roots) = api.and_then(|secret| secret.get("ca.crt").or_else(|| secret.get("caFile"))) {
            settings.roots = roots.to_vec();
        }
        Self::with_settings(&settings)
    }

    fn with_settings(settings: &HttpSettings) -> Result<Self, ForgeError> {
        http::HttpClient::new("the git host", settings).map(Self::from).map_err(|error| ForgeError::Misconfigured {
            field: "caFile",
            message: format!("cannot be used: {error}"),
            fix: "put the certificate there, from -----BEGIN CERTIFICATE----- on",
        })
    }

    /// The same connections, with an observer of every request.
    pub fn with_observer(self, observer: ForgeObserver) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// The client for calls that do not block. It follows no redirect.
    pub fn client(&self) -> &reqwest::Client {
        self.inner.client()
    }

    /// Refuses an address that may not be connected to.
    pub(super) fn check_address(&self, url: &url::Url) -> Result<(), String> {
        self.inner.check_address(url).map_err(|error| error.to_string())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::url::{AllowedSchemes, RepositoryUrl};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// The controller posted statuses past the proxy that it fetched through.
    #[tokio::test]
    async fn the_api_is_reached_through_the_proxy_of_the_repository() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("http://{}", listener.local_addr().unwrap());
        let secret = SecretValues::new("git", [("proxy".to_owned(), proxy.into_bytes())]);
        let allowed = AllowedSchemes { insecure: true, local: false };
        let url = RepositoryUrl::parse("http://git.invalid/fleet/models.git", allowed).unwrap();
        let http = ForgeHttp::for_repository(&GitCredentials::read(Some(&secret), &url).unwrap(), None).unwrap();
        let answer = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 64];
            let read = stream.read(&mut head).await.unwrap();
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
            String::from_utf8_lossy(&head[..read]).into_owned()
        };
        let (head, answer) = tokio::join!(answer, http.client().get("http://git.invalid/api").send());
        assert!(head.starts_with("GET http://git.invalid/api HTTP/1.1"), "{head}");
        assert_eq!(answer.unwrap().status(), 204);
    }
}
