//! Smart HTTP: one request for the refs, and one for each turn of a fetch.

use super::http::{authority, request_error, sanitize_text};
use super::retry_after::retry_after;
use super::{GitOperation, GitSession, GitStream, TransportError};
use ::http::{HeaderMap, StatusCode, header};
use bytes::{Buf as _, Bytes};
use reqwest::{RequestBuilder, Response};
use std::io::{Error, Read, Write};
use std::sync::Arc;
use url::Url;

/// Redirects that are followed.
const MAX_REDIRECTS: usize = 3;
/// Bytes of a request: what is wanted, and what is here.
const MAX_REQUEST_BYTES: usize = 1 << 20;
/// Hosts look at how this begins before they answer as git servers.
const USER_AGENT: &str = concat!("git/2.0 (stator ", env!("CARGO_PKG_VERSION"), ")");

pub(super) fn open_exchange(
    session: &Arc<GitSession>,
    step: GitOperation,
) -> Result<Box<dyn GitStream>, TransportError> {
    let state = match step {
        GitOperation::ListRefs => {
            ExchangeState::Response { response: Box::new(request_refs(session)?), left: Bytes::new() }
        }
        GitOperation::Fetch => ExchangeState::Request(Vec::new()),
    };
    Ok(Box::new(HttpExchange { session: Arc::clone(session), state }))
}

/// One request and its answer.
struct HttpExchange {
    session: Arc<GitSession>,
    state: ExchangeState,
}

enum ExchangeState {
    Request(Vec<u8>),
    Response { response: Box<Response>, left: Bytes },
    Broken,
}

impl Read for HttpExchange {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.read_response(buffer).map_err(|error| {
            self.session.record_failure(error);
            self.state = ExchangeState::Broken;
            Error::other("the answer is broken")
        })
    }
}

impl Write for HttpExchange {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut self.state {
            ExchangeState::Request(request) if request.len() + bytes.len() <= MAX_REQUEST_BYTES => {
                request.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            ExchangeState::Request(_) => Err(Error::other("the request is too long")),
            ExchangeState::Response { .. } | ExchangeState::Broken => Err(Error::other("the request is sent already")),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl HttpExchange {
    fn read_response(&mut self, buffer: &mut [u8]) -> Result<usize, TransportError> {
        let session = Arc::clone(&self.session);
        loop {
            match &mut self.state {
                ExchangeState::Request(request) => {
                    let response = Box::new(request_pack(&session, std::mem::take(request))?);
                    self.state = ExchangeState::Response { response, left: Bytes::new() };
                }
                ExchangeState::Response { response, left } => {
                    if left.is_empty() {
                        let chunk = response.chunk();
                        let more = session.next_chunk(async {
                            chunk
                                .await
                                .map_err(|error| request_error(&session.host(), &error, session.limits().total_timeout))
                        })?;
                        let Some(more) = more else { return Ok(0) };
                        *left = more;
                        continue;
                    }
                    let count = left.len().min(buffer.len());
                    left.copy_to_slice(buffer.get_mut(..count).unwrap_or_default());
                    return Ok(count);
                }
                ExchangeState::Broken => return Err(TransportError::CutShort { host: session.host() }),
            }
        }
    }
}

/// Asks for the refs. Here, and here only, a redirect is followed: to the same host.
fn request_refs(session: &GitSession) -> Result<Response, TransportError> {
    let start = match session.base() {
        Some(base) => base,
        None => base_url(session)?,
    };
    let mut at = join_url(&start, "/info/refs?service=git-upload-pack", session)?;
    for _ in 0..=MAX_REDIRECTS {
        let request = session.http()?.client().get(at.clone());
        let response = send_request(session, &at, request)?;
        if !response.status().is_redirection() {
            if let Some(base) = at.as_str().strip_suffix("/info/refs?service=git-upload-pack")
                && base != start.as_str().trim_end_matches('/')
                && let Ok(base) = Url::parse(base)
            {
                session.set_base(base);
            }
            return check_response(session, response, "application/x-git-upload-pack-advertisement");
        }
        at = redirect_target(session, &at, &response)?;
    }
    Err(TransportError::Redirected { host: session.host(), to: format!("{} again and again", authority(&at)) })
}

fn request_pack(session: &GitSession, body: Vec<u8>) -> Result<Response, TransportError> {
    let base = match session.base() {
        Some(base) => base,
        None => base_url(session)?,
    };
    let at = join_url(&base, "/git-upload-pack", session)?;
    let request = session
        .http()?
        .client()
        .post(at.clone())
        .header(header::CONTENT_TYPE, "application/x-git-upload-pack-request")
        .header(header::ACCEPT, "application/x-git-upload-pack-result")
        .body(body);
    let response = send_request(session, &at, request)?;
    if response.status().is_redirection() {
        let to = redirect_target(session, &at, &response)?;
        return Err(TransportError::Redirected { host: session.host(), to: authority(&to) });
    }
    check_response(session, response, "application/x-git-upload-pack-result")
}

fn send_request(session: &GitSession, at: &Url, request: RequestBuilder) -> Result<Response, TransportError> {
    let mut request = request.header(header::USER_AGENT, USER_AGENT);
    if let Some(authorization) = session.authorization()? {
        request = request.header(header::AUTHORIZATION, authorization);
    }
    session.http()?.check_address(at)?;
    session.record_request();
    let sent = request.send();
    session.wait_for(async {
        sent.await.map_err(|error| request_error(&session.host(), &error, session.limits().total_timeout))
    })
}

fn base_url(session: &GitSession) -> Result<Url, TransportError> {
    Url::parse(&session.url().to_string()).map_err(|error| TransportError::Unreachable {
        host: session.host(),
        reason: format!("its address is not a valid URL: {error}"),
    })
}

fn join_url(base: &Url, path: &str, session: &GitSession) -> Result<Url, TransportError> {
    Url::parse(&format!("{}{path}", base.as_str().trim_end_matches('/'))).map_err(|error| TransportError::Unreachable {
        host: session.host(),
        reason: format!("its address is not a valid URL: {error}"),
    })
}

/// Where an answer redirects to, when that is the same host.
fn redirect_target(session: &GitSession, from: &Url, response: &Response) -> Result<Url, TransportError> {
    let location = response.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
    let to = location.and_then(|location| from.join(location).ok()).ok_or_else(|| TransportError::NotGit {
        host: session.host(),
        what: format!("{} without an address", response.status()),
    })?;
    let same = to.scheme() == from.scheme()
        && to.host_str() == from.host_str()
        && to.port_or_known_default() == from.port_or_known_default()
        && to.username().is_empty()
        && to.password().is_none();
    if same {
        Ok(to)
    } else {
        let to = format!("{}://{}", to.scheme(), authority(&to));
        Err(TransportError::Redirected { host: session.host(), to: sanitize_text(to.as_bytes(), 200) })
    }
}

/// An answer of git's, or why it is none.
fn check_response(session: &GitSession, response: Response, kind: &str) -> Result<Response, TransportError> {
    let (status, headers) = (response.status(), response.headers().clone());
    let given = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let given = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if status == StatusCode::OK {
        if given == kind {
            return Ok(response);
        }
        let what = match given.as_str() {
            "text/html" | "application/xhtml+xml" => "a web page, perhaps one to log in".to_owned(),
            "" => "an answer without a type".to_owned(),
            other => format!("an answer of type {}", sanitize_text(other.as_bytes(), 60)),
        };
        return Err(TransportError::NotGit { host: session.host(), what });
    }
    // What it says is not repeated: a tenant chooses who is asked, and reads what is reported.
    Err(status_error(session, status, &headers))
}

fn status_error(session: &GitSession, status: StatusCode, headers: &HeaderMap) -> TransportError {
    let (host, message) = (session.host(), String::new());
    let after = retry_after(headers, jiff::Timestamp::now());
    match status.as_u16() {
        401 | 407 => TransportError::Unauthorized { host, message },
        // GitHub's second limits come as this, distinguished only by the header.
        403 if after.is_some() => TransportError::RateLimited { host, after },
        402 | 403 | 451 => TransportError::Forbidden { host, message },
        404 | 410 => TransportError::NotFound { host, path: session.url().path().to_owned() },
        429 => TransportError::RateLimited { host, after },
        500..=599 => TransportError::Unavailable { host, status: status.as_u16(), after },
        other => TransportError::NotGit { host, what: format!("status {other}") },
    }
}
