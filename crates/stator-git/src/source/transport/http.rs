//! The one way out over HTTP: git hosts and their APIs are both reached through [`HttpClient`].

use super::TransportError;
use crate::source::addresses::{self, AddressPolicy};
use crate::source::credentials::{GitCredentials, ProxySettings};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use reqwest::{Certificate, Client, Identity, NoProxy, redirect};
use secrecy::{ExposeSecret as _, SecretSlice};
use stator_core::text::{TextLimit, one_line};
use std::sync::Arc;
use std::time::Duration;

/// How a host is reached over HTTP.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Certificates to trust in place of the public ones, as PEM; empty for the public ones.
    pub roots: Vec<u8>,
    /// What to show a server that asks for a certificate: the chain and its key, as PEM.
    pub client: Option<(Vec<u8>, SecretSlice<u8>)>,
    /// What to go through; without one, what `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` say.
    pub proxy: Option<ProxySettings>,
    /// Which addresses may be connected to.
    pub addresses: AddressPolicy,
    /// To get a connection.
    pub connect_timeout: Duration,
    /// From the request to the end of the answer. `None` where the caller counts the time itself.
    pub total_timeout: Option<Duration>,
    /// Bytes of an answer that [`HttpClient::send`] reads.
    pub max_body_bytes: usize,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            client: None,
            proxy: None,
            addresses: AddressPolicy::default(),
            connect_timeout: Duration::from_secs(10),
            total_timeout: Some(Duration::from_secs(30)),
            max_body_bytes: 8 << 20,
        }
    }
}

impl From<&GitCredentials> for HttpSettings {
    /// What a repository's secret says about reaching its host.
    fn from(credentials: &GitCredentials) -> Self {
        Self {
            roots: credentials.roots.clone(),
            client: credentials.client.as_ref().map(|client| (client.certificate.clone(), client.key.clone())),
            proxy: credentials.proxy.clone(),
            addresses: credentials.addresses,
            ..Self::default()
        }
    }
}

/// A client with roots, proxy, deadlines and a body limit. It follows no redirect: credentials go where they were meant
/// to go, and a host that has moved is named.
#[derive(Clone, Debug)]
pub struct HttpClient {
    client: Client,
    addresses: AddressPolicy,
    max_body_bytes: usize,
    total_timeout: Duration,
}

/// What came back, whatever its status.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, whole.
    pub body: Bytes,
}

impl HttpClient {
    /// A client.
    ///
    /// # Errors
    /// Certificates, keys or proxies that cannot be read, named and not shown.
    pub fn new(host: &str, settings: &HttpSettings) -> Result<Self, TransportError> {
        let unusable = |reason: &str| TransportError::Credentials { host: host.to_owned(), reason: reason.to_owned() };
        let mut builder = Client::builder()
            .user_agent(USER_AGENT)
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(settings.connect_timeout)
            .tcp_keepalive(Duration::from_secs(30));
        if settings.addresses != AddressPolicy::Any {
            builder = builder.dns_resolver(Arc::new(settings.addresses));
        }
        if let Some(whole) = settings.total_timeout {
            builder = builder.timeout(whole);
        }
        if !settings.roots.is_empty() {
            let roots = Certificate::from_pem_bundle(&settings.roots).ok().filter(|roots| !roots.is_empty());
            let roots = roots.ok_or_else(|| unusable("the CA certificates are not PEM"))?;
            builder = builder.tls_certs_only(roots);
        }
        if let Some((chain, key)) = &settings.client {
            let mut both = chain.clone();
            both.push(b'\n');
            both.extend_from_slice(key.expose_secret());
            let identity = Identity::from_pem(&both);
            secrecy::zeroize::Zeroize::zeroize(&mut both);
            let identity = identity.map_err(|_| unusable("the client certificate or its key is not PEM"))?;
            builder = builder.identity(identity);
        }
        if let Some(proxy) = &settings.proxy {
            let literal = url::Url::parse(&proxy.url).ok().and_then(|url| url.host_str().map(str::to_owned));
            if literal.is_some_and(|literal| !settings.addresses.permits_host(&literal)) {
                return Err(unusable(&format!("the proxy cannot be used: {}", addresses::refusal())));
            }
            let mut through =
                reqwest::Proxy::all(&proxy.url).map_err(|_| unusable("the proxy's address is not a URL"))?;
            if let Some((user, password)) = &proxy.login {
                through = through.basic_auth(user.expose_secret(), password.expose_secret());
            }
            builder = builder.proxy(through.no_proxy(proxy.bypass.as_deref().and_then(NoProxy::from_string)));
        }
        let client = builder.build().map_err(|error| TransportError::Credentials {
            host: host.to_owned(),
            reason: format!("no TLS with them: {}", root_cause(&error)),
        })?;
        Ok(Self {
            client,
            addresses: settings.addresses,
            max_body_bytes: settings.max_body_bytes,
            total_timeout: settings.total_timeout.unwrap_or(settings.connect_timeout),
        })
    }

    /// Refuses an address that may not be connected to. A name is judged when it is resolved.
    ///
    /// # Errors
    /// When it is written as such an address.
    pub fn check_address(&self, url: &url::Url) -> Result<(), TransportError> {
        if url.host_str().is_none_or(|host| self.addresses.permits_host(host)) {
            return Ok(());
        }
        Err(TransportError::Unreachable { host: authority(url), reason: addresses::refusal().to_string() })
    }

    /// For building requests, which [`HttpClient::send`] then sends.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Sends a request and reads the answer. A status that is no success is an answer as well.
    ///
    /// # Errors
    /// When no whole answer comes in time, or a larger one than is read.
    pub async fn send(&self, request: reqwest::Request) -> Result<HttpResponse, TransportError> {
        self.check_address(request.url())?;
        let host = authority(request.url());
        let limit = self.total_timeout;
        let response = self.client.execute(request).await.map_err(|error| request_error(&host, &error, limit))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let too_much =
            || TransportError::TooMuch { host: host.clone(), limit: self.max_body_bytes as u64, what: "bytes" };
        let body = read_limited(response, self.max_body_bytes).await;
        let body = body.map_err(|error| request_error(&host, &error, limit))?.ok_or_else(too_much)?;
        Ok(HttpResponse { status, headers, body: body.freeze() })
    }
}

/// The body of an answer; `None` where it is longer than `limit` bytes.
pub(crate) async fn read_limited(mut response: reqwest::Response, limit: usize) -> reqwest::Result<Option<BytesMut>> {
    if response.content_length().is_some_and(|length| length > limit as u64) {
        return Ok(None);
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len().saturating_add(chunk.len()) > limit {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// Who asks.
const USER_AGENT: &str = concat!("stator/", env!("CARGO_PKG_VERSION"));

/// Host and port of a URL, for messages: never its user, its path or its query.
pub fn authority(url: &url::Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Why a request has no answer. `limit` is what a request may take.
pub(super) fn request_error(host: &str, error: &reqwest::Error, limit: Duration) -> TransportError {
    let host = host.to_owned();
    let reason = root_cause(error);
    let lower = reason.to_ascii_lowercase();
    // What the server says of the certificate that it was shown, or was not.
    if lower.contains("alert") && lower.contains("certificate") {
        let message = "it requires a client certificate".to_owned();
        return TransportError::Unauthorized { host, message };
    }
    // rustls' words for a chain that it does not accept, below three libraries' own errors.
    if lower.contains("certificate") || lower.contains("unknownissuer") || lower.contains("unknown issuer") {
        return TransportError::Certificate { host, reason };
    }
    if error.is_connect() || error.is_dns() {
        return TransportError::Unreachable { host, reason };
    }
    if error.is_timeout() {
        return TransportError::TimedOut { host, limit };
    }
    if error.is_body() || error.is_decode() {
        return TransportError::CutShort { host };
    }
    TransportError::Unreachable { host, reason }
}

/// The innermost cause: the layers above it repeat the URL and one another.
pub(crate) fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if cause.is::<reqwest::Error>() {
        "no connection".to_owned()
    } else {
        sanitize_text(cause.to_string().as_bytes(), 200)
    }
}

/// Bytes from outside for a message: one line of at most `most` characters, see [`one_line`].
pub fn sanitize_text(text: &[u8], most: usize) -> String {
    // A host may send more than anybody wants to decode.
    let text = text.get(..most.saturating_mul(4)).unwrap_or(text);
    one_line(&String::from_utf8_lossy(text), TextLimit::Characters(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_is_one_short_line() {
        assert_eq!(sanitize_text(b"a\x1b[31m\r\n  b\xff", 20), "a [31m b\u{fffd}");
        assert_eq!(sanitize_text("\u{e9}".repeat(50).as_bytes(), 10), format!("{}…", "\u{e9}".repeat(9)));
        assert_eq!(sanitize_text(b"", 10), "");
    }

    #[test]
    fn keys_that_cannot_be_read_are_named_and_not_shown() {
        let broken = HttpSettings { roots: b"canary".to_vec(), ..HttpSettings::default() };
        let refused = HttpClient::new("git.example.com", &broken).unwrap_err();
        insta::assert_snapshot!(refused, @"the credentials for git.example.com cannot be used: the CA certificates are not PEM");
        let broken = HttpSettings {
            client: Some((b"canary".to_vec(), SecretSlice::from(b"canary".to_vec()))),
            ..HttpSettings::default()
        };
        let refused = HttpClient::new("git.example.com", &broken).unwrap_err();
        insta::assert_snapshot!(refused, @"the credentials for git.example.com cannot be used: the client certificate or its key is not PEM");
        let broken = HttpSettings {
            proxy: Some(ProxySettings { url: "::canary".to_owned(), login: None, bypass: None }),
            ..HttpSettings::default()
        };
        let refused = HttpClient::new("git.example.com", &broken).unwrap_err();
        insta::assert_snapshot!(refused, @"the credentials for git.example.com cannot be used: the proxy's address is not a URL");
    }
}
