//! One way of asking for all hosts: a request with a deadline, an answer that is read to a limit and judged.

use super::ForgeHttp;
use super::api::ForgeError;
use super::github::app::InstallationTokens;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// How long one request may take, its answer included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of an answer. A page of a hundred comments of GitHub's largest size, each character four bytes, is 26 MB.
const MAX_RESPONSE_BYTES: usize = 32 << 20;
/// How many times a host may send on, within itself.
const MAX_REDIRECTS: usize = 3;

/// How a client proves who it is.
#[derive(Clone)]
pub(super) enum ForgeAuth {
    /// A header that never changes, with what must not be seen of it.
    Header(HeaderName, HeaderValue, Vec<SecretString>),
    /// The tokens of a GitHub App, an hour each.
    App(Arc<InstallationTokens>),
}

impl ForgeAuth {
    /// `Authorization: Bearer`.
    pub fn bearer(token: &SecretString) -> Result<Self, ForgeError> {
        Self::header(AUTHORIZATION, "Bearer ", token)
    }

    /// A header that is a prefix and the token.
    pub fn header(name: HeaderName, prefix: &str, token: &SecretString) -> Result<Self, ForgeError> {
        let text = token.expose_secret();
        if text.is_empty() {
            return Err(unusable_token_error("is empty"));
        }
        let mut value = HeaderValue::from_str(&format!("{prefix}{text}"))
            .map_err(|_| unusable_token_error("contains an invalid character, such as a line break"))?;
        value.set_sensitive(true);
        Ok(Self::Header(name, value, vec![token.clone()]))
    }

    /// `Authorization: Basic`.
    pub fn basic(user: &str, password: &SecretString) -> Result<Self, ForgeError> {
        if password.expose_secret().is_empty() {
            return Err(unusable_token_error("is empty"));
        }
        let both = SecretString::from(STANDARD.encode(format!("{user}:{}", password.expose_secret())));
        match Self::header(AUTHORIZATION, "Basic ", &both)? {
            Self::Header(name, value, _) => Ok(Self::Header(name, value, vec![password.clone(), both])),
            app @ Self::App(_) => Ok(app),
        }
    }
}

fn unusable_token_error(message: &str) -> ForgeError {
    ForgeError::Misconfigured {
        field: "token",
        message: format!("of the secret that `spec.forge.secretRef` names {message}"),
        fix: "put only the token there, as the git host showed it",
    }
}

/// A connection to one host's API.
#[derive(Clone)]
pub(super) struct ForgeClient {
    http: ForgeHttp,
    api: Url,
    /// The host as messages name it.
    host: String,
    login: ForgeAuth,
    headers: HeaderMap,
}

impl ForgeClient {
    pub fn new(http: ForgeHttp, api: Url, login: ForgeAuth) -> Self {
        let host = match (api.host_str().unwrap_or_default(), api.port()) {
            ("api.github.com", None) => "github.com".to_owned(),
            ("api.bitbucket.org", None) => "bitbucket.org".to_owned(),
            (host, Some(port)) => format!("{host}:{port}"),
            (host, None) => host.to_owned(),
        };
        Self { http, api, host, login, headers: HeaderMap::new() }
    }

    /// With a header on every request.
    pub fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        self
    }

    /// The same with an App's token as a user's password; any other login stays as it is.
    pub async fn as_user(&self, user: &str) -> Result<Self, ForgeError> {
        let login = match &self.login {
            ForgeAuth::App(tokens) => ForgeAuth::basic(user, &tokens.token().await?)?,
            fixed @ ForgeAuth::Header(..) => fixed.clone(),
        };
        Ok(Self { login, ..self.clone() })
    }

    /// The API's URL.
    pub fn api(&self) -> &Url {
        &self.api
    }

    pub fn get<'a>(&'a self, path: impl IntoIterator<Item = &'a str>) -> ForgeRequest<'a> {
        self.request(Method::GET, path)
    }

    pub fn post<'a>(&'a self, path: impl IntoIterator<Item = &'a str>) -> ForgeRequest<'a> {
        self.request(Method::POST, path)
    }

    pub fn put<'a>(&'a self, path: impl IntoIterator<Item = &'a str>) -> ForgeRequest<'a> {
        self.request(Method::PUT, path)
    }

    pub fn patch<'a>(&'a self, path: impl IntoIterator<Item = &'a str>) -> ForgeRequest<'a> {
        self.request(Method::PATCH, path)
    }

    /// A request below the API. Each part of the path is escaped, whatever is in it.
    pub fn request<'a>(&'a self, method: Method, path: impl IntoIterator<Item = &'a str>) -> ForgeRequest<'a> {
        let mut url = self.api.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        ForgeRequest { method, ..self.get_url(url) }
    }

    /// A request to a page that an answer led on to.
    ///
    /// # Errors
    /// When it is at another host: the token stays where it belongs.
    pub fn follow<'a>(&'a self, link: &str) -> Result<ForgeRequest<'a>, ForgeError> {
        let url = self.api.join(link).ok().filter(|url| url.origin() == self.api.origin());
        let url = url.ok_or_else(|| self.unreadable_error("the next page is at another host"))?;
        Ok(self.get_url(url))
    }

    /// A request that reads what is at a URL.
    pub fn get_url(&self, url: Url) -> ForgeRequest<'_> {
        ForgeRequest {
            client: self,
            method: Method::GET,
            url,
            body: Ok(None),
            accept: JSON_MEDIA_TYPE,
            content_type: JSON_MEDIA_TYPE,
            resource: String::new(),
        }
    }

    /// An answer that makes no sense.
    pub fn unreadable_error(&self, message: impl Into<String>) -> ForgeError {
        ForgeError::Unreadable { host: self.host.clone(), message: message.into() }
    }

    /// More of something than anybody has.
    pub fn too_many_error(&self, limit: usize, what: &str) -> ForgeError {
        self.unreadable_error(format!("it lists more than {limit} {what}, which is the limit"))
    }

    /// The text without what must not be seen, on one line and of a bearable length.
    pub fn redact_text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        match &self.login {
            ForgeAuth::Header(_, _, secrets) => {
                for secret in secrets {
                    text = redact_secret(text, secret);
                }
            }
            ForgeAuth::App(tokens) => {
                for secret in tokens.recent_secrets() {
                    text = redact_secret(text, &secret);
                }
            }
        }
        super::status_text::truncate_text(&text, 300)
    }
}

fn redact_secret(text: String, secret: &SecretString) -> String {
    let secret = secret.expose_secret();
    if secret.is_empty() { text } else { text.replace(secret, "***") }
}

/// A request that is not sent yet.
pub(super) struct ForgeRequest<'a> {
    pub(super) client: &'a ForgeClient,
    method: Method,
    pub(super) url: Url,
    body: Result<Option<Vec<u8>>, serde_json::Error>,
    accept: &'static str,
    content_type: &'static str,
    pub(super) resource: String,
}

/// What APIs speak.
const JSON_MEDIA_TYPE: &str = "application/json";

impl ForgeRequest<'_> {
    pub fn query(mut self, name: &str, value: impl ToString) -> Self {
        self.url.query_pairs_mut().append_pair(name, &value.to_string());
        self
    }

    /// The body, as JSON.
    pub fn body(mut self, body: &impl Serialize) -> Self {
        self.body = serde_json::to_vec(body).map(Some);
        self
    }

    /// A body that is no JSON, of one media type and for an answer of another. An empty one is left out.
    pub fn raw_body(mut self, accept: &'static str, kind: &'static str, body: Vec<u8>) -> Self {
        (self.accept, self.content_type) = (accept, kind);
        self.body = Ok((!body.is_empty()).then_some(body));
        self
    }

    /// What is asked for, as it is named when there is none: `commit abc1234`.
    pub fn resource(mut self, what: impl Into<String>) -> Self {
        self.resource = what.into();
        self
    }

    /// Sends it, and reads the answer as JSON.
    pub async fn json<T: DeserializeOwned>(self) -> Result<T, ForgeError> {
        self.send().await?.json()
    }

    /// Sends it; anything but a success is an error.
    pub async fn send(self) -> Result<ForgeResponse, ForgeError> {
        self.send_unchecked().await?.check_status()
    }

    /// Sends it, and gives whatever answer comes.
    pub async fn send_unchecked(self) -> Result<ForgeResponse, ForgeError> {
        let client = self.client.clone();
        let body =
            self.body.map_err(|error| client.unreadable_error(format!("a request cannot be written: {error}")))?;
        let mut renewed = false;
        loop {
            let answer = send_following_redirects(
                &client,
                &self.method,
                &self.url,
                (self.accept, self.content_type),
                body.as_deref(),
                &self.resource,
            )
            .await?;
            match &client.login {
                // The host may have revoked the token before its time. Once: a new one that is not known either is
                // nothing that a third would mend.
                ForgeAuth::App(tokens) if answer.status == StatusCode::UNAUTHORIZED && !renewed => {
                    tokens.invalidate_token().await;
                    renewed = true;
                }
                ForgeAuth::App(_) | ForgeAuth::Header(..) => return Ok(answer),
            }
        }
    }
}

/// Sends a request, and follows the host within itself: renamed repositories are answered so. Never to another host,
/// and never in the clear where it was not so before.
async fn send_following_redirects(
    client: &ForgeClient,
    method: &Method,
    url: &Url,
    (accept, kind): (&'static str, &'static str),
    body: Option<&[u8]>,
    what: &str,
) -> Result<ForgeResponse, ForgeError> {
    let (name, value) = match &client.login {
        ForgeAuth::Header(name, value, _) => (name.clone(), value.clone()),
        ForgeAuth::App(tokens) => match ForgeAuth::bearer(&tokens.token().await?)? {
            ForgeAuth::Header(name, value, _) => (name, value),
            ForgeAuth::App(_) => return Err(client.unreadable_error("it gave no token")),
        },
    };
    let mut url = url.clone();
    for _ in 0..=MAX_REDIRECTS {
        let mut request = client
            .http
            .client()
            .request(method.clone(), url.clone())
            .timeout(REQUEST_TIMEOUT)
            .header(ACCEPT, accept)
            .headers(client.headers.clone())
            .header(name.clone(), value.clone());
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, kind).body(body.to_vec());
        }
        let began = std::time::Instant::now();
        let sent = request.send().await;
        client.http.notify_observer(&client.host, sent.as_ref().ok(), began.elapsed());
        let response = sent.map_err(|error| transport_error(client, error))?;
        let status = response.status();
        let headers = response.headers().clone();
        let again = [301, 302, 307, 308].contains(&status.as_u16());
        if let Some(next) = headers.get(LOCATION).filter(|_| again) {
            let next = next.to_str().ok().and_then(|next| url.join(next).ok());
            match next {
                Some(next) if next.origin() == client.api.origin() && !is_sign_in_page(&next) => {
                    url = next;
                    continue;
                }
                Some(next) if is_sign_in_page(&next) => {
                    let message = "it redirects to its sign-in page".to_owned();
                    return Err(ForgeError::Unauthorized { host: client.host.clone(), message });
                }
                Some(next) => {
                    let to = next.host_str().unwrap_or("nowhere").to_owned();
                    let to = client.redact_text(&format!("{}://{to}", next.scheme()));
                    return Err(client.unreadable_error(format!("it redirects to {to}, where the token is not sent")));
                }
                None => return Err(client.unreadable_error("it redirects to an invalid URL")),
            }
        }
        let body = read_body(client, response).await?;
        let answer = ForgeResponse { client: client.clone(), status, headers, body, resource: what.to_owned() };
        return Ok(answer);
    }
    Err(client.unreadable_error("it redirects too many times"))
}

/// Azure DevOps and GitLab lead whoever they do not know to a page for people.
fn is_sign_in_page(url: &Url) -> bool {
    let path = url.path().to_ascii_lowercase();
    path.contains("_signin") || path.contains("/sign_in") || path.ends_with("/login")
}

fn transport_error(client: &ForgeClient, error: reqwest::Error) -> ForgeError {
    let message = if error.is_timeout() {
        format!("no answer within {} s", REQUEST_TIMEOUT.as_secs())
    } else {
        // The chain below says what happened; the top says that sending failed, and the URL, whose query may be long.
        let error = error.without_url();
        let mut source: Option<&dyn std::error::Error> = Some(&error);
        let mut last = String::new();
        while let Some(one) = source {
            last = one.to_string();
            source = one.source();
        }
        client.redact_text(&last)
    };
    ForgeError::Unavailable { host: client.host.clone(), message, after: None }
}

async fn read_body(client: &ForgeClient, mut response: reqwest::Response) -> Result<Vec<u8>, ForgeError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| transport_error(client, error))? {
        if body.len().saturating_add(chunk.len()) > MAX_RESPONSE_BYTES {
            return Err(client.unreadable_error(format!("its answer is longer than {} MiB", MAX_RESPONSE_BYTES >> 20)));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// What came back.
pub(super) struct ForgeResponse {
    pub(super) client: ForgeClient,
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) resource: String,
}

impl ForgeResponse {
    /// The answer, if it is a success.
    pub fn check_status(self) -> Result<Self, ForgeError> {
        // Azure DevOps says 203 to a token that it does not know, with its page for signing in.
        if self.status == StatusCode::NON_AUTHORITATIVE_INFORMATION && self.is_html_page() {
            let message = "it shows its sign-in page".to_owned();
            return Err(ForgeError::Unauthorized { host: self.client.host.clone(), message });
        }
        if self.status.is_success() { Ok(self) } else { Err(super::response_error::error_from_response(&self)) }
    }

    /// The body as JSON of the shape that is asked for.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ForgeError> {
        if self.is_html_page() {
            return Err(self.client.unreadable_error("with a web page instead of JSON"));
        }
        serde_json::from_slice(&self.body).map_err(|error| {
            // The message of serde may quote what stands there.
            self.client.unreadable_error(self.client.redact_text(&format!("{}: {error}", self.resource)))
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
        let said = if self.is_html_page() {
            "a web page".to_owned()
        } else {
            super::response_error::error_body_message(&self.body)
        };
        let said = if said.is_empty() { format!("status {}", self.status.as_u16()) } else { said };
        self.client.redact_text(&said)
    }

    /// The host as messages name it.
    pub fn host(&self) -> String {
        self.client.host.clone()
    }
}
