//! One way of asking for all hosts: a request with a deadline, an answer that is read to a limit.

use super::ForgeHttp;
use super::api::ForgeError;
use super::auth::ForgeAuth;
use super::response::{AnsweringHost, ForgeResponse};
use crate::source::transport::http::{read_limited, root_cause};
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;
use url::Url;

/// How long one request may take, its answer included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of an answer. A page of a hundred comments of GitHub's largest size, each character four bytes, is 26 MB.
const MAX_RESPONSE_BYTES: usize = 32 << 20;
/// How many times a host may send on, within itself.
const MAX_REDIRECTS: usize = 3;

/// A connection to one host's API.
#[derive(Clone)]
pub(super) struct ForgeClient {
    http: ForgeHttp,
    api: Url,
    /// The host as messages name it.
    host: String,
    login: ForgeAuth,
    headers: HeaderMap,
    /// A query parameter of every request below the API.
    query: Option<(&'static str, &'static str)>,
}

impl ForgeClient {
    pub fn new(http: ForgeHttp, api: Url, login: ForgeAuth) -> Self {
        let host = match (api.host_str().unwrap_or_default(), api.port()) {
            ("api.github.com", None) => "github.com".to_owned(),
            ("api.bitbucket.org", None) => "bitbucket.org".to_owned(),
            (host, Some(port)) => format!("{host}:{port}"),
            (host, None) => host.to_owned(),
        };
        Self { http, api, host, login, headers: HeaderMap::new(), query: None }
    }

    /// With a header on every request.
    pub fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        self
    }

    /// With a query parameter on every request below the API.
    pub fn with_query(self, name: &'static str, value: &'static str) -> Self {
        Self { query: Some((name, value)), ..self }
    }

    /// The same with an App's token as a user's password; any other login stays as it is.
    pub async fn as_user(&self, user: &str) -> Result<Self, ForgeError> {
        let login = match &self.login {
            ForgeAuth::App(tokens) => ForgeAuth::basic(user, &tokens.current_token().await?)?,
            fixed @ ForgeAuth::Header(..) => fixed.clone(),
        };
        Ok(Self { login, ..self.clone() })
    }

    /// The API's URL.
    pub fn api(&self) -> &Url {
        &self.api
    }

    /// How it proves who it is.
    pub fn login(&self) -> &ForgeAuth {
        &self.login
    }

    /// The host in messages, with what must not be seen of its answers by now.
    pub fn answering_host(&self) -> AnsweringHost {
        AnsweringHost { name: self.host.clone(), secrets: self.login.secrets() }
    }

    /// An answer that makes no sense.
    pub fn unreadable_error(&self, message: impl Into<String>) -> ForgeError {
        self.answering_host().unreadable_error(message)
    }

    pub fn get<'p>(&self, path: impl IntoIterator<Item = &'p str>) -> ForgeRequest<'_> {
        self.request(Method::GET, path)
    }

    /// A URL below the API's. Each part of the path is escaped, whatever is in it.
    pub fn url<'p>(&self, path: impl IntoIterator<Item = &'p str>) -> Url {
        let mut url = self.api.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    /// A request below the API.
    pub fn request<'p>(&self, method: Method, path: impl IntoIterator<Item = &'p str>) -> ForgeRequest<'_> {
        let mut url = self.url(path);
        if let Some((name, value)) = self.query {
            url.query_pairs_mut().append_pair(name, value);
        }
        ForgeRequest { method, ..self.get_url(url) }
    }

    /// A request to a page that an answer led on to.
    ///
    /// # Errors
    /// When it is at another host: the token stays where it belongs.
    pub fn follow(&self, link: &str) -> Result<ForgeRequest<'_>, ForgeError> {
        let url = self.api.join(link).ok().filter(|url| url.origin() == self.api.origin());
        let url = url.ok_or_else(|| self.unreadable_error("the next page is at another host"))?;
        Ok(self.get_url(url))
    }

    /// A request that reads what is at a URL of the host.
    pub fn get_url(&self, url: Url) -> ForgeRequest<'_> {
        ForgeRequest {
            client: self,
            method: Method::GET,
            url,
            body: None,
            accept: JSON_MEDIA_TYPE,
            content_type: JSON_MEDIA_TYPE,
            resource: String::new(),
        }
    }
}

/// A request that is not sent yet.
pub(super) struct ForgeRequest<'a> {
    pub(super) client: &'a ForgeClient,
    method: Method,
    pub(super) url: Url,
    body: Option<Vec<u8>>,
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

    /// The body, as JSON. A field that is null is left out.
    pub fn body(mut self, mut body: Value) -> Self {
        if let Value::Object(fields) = &mut body {
            fields.retain(|_, value| !value.is_null());
        }
        self.body = Some(body.to_string().into_bytes());
        self
    }

    /// A body that is no JSON, of one media type and for an answer of another. An empty one is left out.
    pub fn raw_body(mut self, accept: &'static str, kind: &'static str, body: Vec<u8>) -> Self {
        (self.accept, self.content_type) = (accept, kind);
        self.body = (!body.is_empty()).then_some(body);
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
        let answer = self.send_following_redirects().await?;
        match &self.client.login {
            // The host may have revoked the token before its time. Once: a new one that is not known either is nothing that
            // a third would fix.
            ForgeAuth::App(tokens) if answer.status == StatusCode::UNAUTHORIZED => {
                tokens.discard_token().await;
                self.send_following_redirects().await
            }
            ForgeAuth::App(_) | ForgeAuth::Header(..) => Ok(answer),
        }
    }

    /// Sends it, and follows the host within itself: renamed repositories are answered so. Never to another host, and never
    /// in the clear where it was not so before.
    async fn send_following_redirects(&self) -> Result<ForgeResponse, ForgeError> {
        let client = self.client;
        let (name, value) = client.login.current_header().await?;
        let host = client.answering_host();
        let mut url = self.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            client.http.check_address(&url).map_err(|reason| host.unreadable_error(reason))?;
            let mut request = client
                .http
                .client()
                .request(self.method.clone(), url.clone())
                .timeout(REQUEST_TIMEOUT)
                .header(ACCEPT, self.accept)
                .headers(client.headers.clone())
                .header(name.clone(), value.clone());
            if let Some(body) = &self.body {
                request = request.header(CONTENT_TYPE, self.content_type).body(body.clone());
            }
            let began = std::time::Instant::now();
            let sent = request.send().await;
            client.http.notify_observer(&client.host, sent.as_ref().ok(), began.elapsed());
            let response = sent.map_err(|error| transport_error(&host, &error))?;
            let (status, headers) = (response.status(), response.headers().clone());
            let again = [301, 302, 307, 308].contains(&status.as_u16());
            if let Some(next) = headers.get(LOCATION).filter(|_| again) {
                let next = next.to_str().ok().and_then(|next| url.join(next).ok());
                let next = next.ok_or_else(|| host.unreadable_error("it redirects to an invalid URL"))?;
                if is_sign_in_page(&next) {
                    return Err(host.unauthorized_error("it redirects to its sign-in page"));
                }
                if next.origin() != client.api.origin() {
                    let to = format!("{}://{}", next.scheme(), next.host_str().unwrap_or("nowhere"));
                    let to = host.redact_text(&to);
                    return Err(host.unreadable_error(format!("it redirects to {to}, where the token is not sent")));
                }
                url = next;
                continue;
            }
            let body =
                read_limited(response, MAX_RESPONSE_BYTES).await.map_err(|error| transport_error(&host, &error))?;
            let longer =
                || host.unreadable_error(format!("its answer is longer than {} MiB", MAX_RESPONSE_BYTES >> 20));
            let body = body.ok_or_else(longer)?.into();
            return Ok(ForgeResponse { host, status, headers, body, resource: self.resource.clone() });
        }
        Err(host.unreadable_error("it redirects too many times"))
    }
}

/// Azure DevOps and GitLab lead whoever they do not know to a page for people.
fn is_sign_in_page(url: &Url) -> bool {
    let path = url.path().to_ascii_lowercase();
    path.contains("_signin") || path.contains("/sign_in") || path.ends_with("/login")
}

fn transport_error(host: &AnsweringHost, error: &reqwest::Error) -> ForgeError {
    let message = match error.is_timeout() {
        true => format!("no answer within {} s", REQUEST_TIMEOUT.as_secs()),
        false => host.redact_text(&root_cause(error)),
    };
    ForgeError::Unavailable { host: host.name.clone(), message, after: None }
}
