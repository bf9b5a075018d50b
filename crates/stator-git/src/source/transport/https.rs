//! Smart HTTP: one request for the refs, and one for each turn of a fetch.

use super::http::{authority, plain, retry_after, unreached};
use super::{Session, Step, Stream, TransportError};
use ::http::{HeaderMap, StatusCode, header};
use bytes::{Buf as _, Bytes};
use reqwest::{RequestBuilder, Response};
use std::io::{Error, Read, Write};
use std::sync::Arc;
use std::time::SystemTime;
use url::Url;

/// Redirects that are followed.
const REDIRECTS: usize = 3;
/// Bytes of a refusal that are read for its message.
const REFUSAL: usize = 2048;
/// Bytes of a request: what is wanted, and what is here.
const REQUEST: usize = 1 << 20;
/// Hosts look at how this begins before they answer as git servers.
const USER_AGENT: &str = concat!("git/2.0 (stator ", env!("CARGO_PKG_VERSION"), ")");

pub(super) fn open(session: &Arc<Session>, step: Step) -> Result<Box<dyn Stream>, TransportError> {
    let state = match step {
        Step::List => State::Answer { response: Box::new(list(session)?), left: Bytes::new() },
        Step::Fetch => State::Request(Vec::new()),
    };
    Ok(Box::new(Exchange { session: Arc::clone(session), state }))
}

/// One request and its answer.
struct Exchange {
    session: Arc<Session>,
    state: State,
}

enum State {
    Request(Vec<u8>),
    Answer { response: Box<Response>, left: Bytes },
    Broken,
}

impl Read for Exchange {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.answer(buffer).map_err(|error| {
            self.session.fail(error);
            self.state = State::Broken;
            Error::other("the answer is broken")
        })
    }
}

impl Write for Exchange {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut self.state {
            State::Request(request) if request.len() + bytes.len() <= REQUEST => {
                request.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            State::Request(_) => Err(Error::other("the request is too long")),
            State::Answer { .. } | State::Broken => Err(Error::other("the request is sent already")),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Exchange {
    fn answer(&mut self, buffer: &mut [u8]) -> Result<usize, TransportError> {
        let session = Arc::clone(&self.session);
        loop {
            match &mut self.state {
                State::Request(request) => {
                    let response = Box::new(fetch(&session, std::mem::take(request))?);
                    self.state = State::Answer { response, left: Bytes::new() };
                }
                State::Answer { response, left } => {
                    if left.is_empty() {
                        let chunk = response.chunk();
                        let more = session.next(async {
                            chunk.await.map_err(|error| unreached(&session.host(), &error, session.limits().whole))
                        })?;
                        let Some(more) = more else { return Ok(0) };
                        *left = more;
                        continue;
                    }
                    let count = left.len().min(buffer.len());
                    left.copy_to_slice(buffer.get_mut(..count).unwrap_or_default());
                    return Ok(count);
                }
                State::Broken => return Err(TransportError::CutShort { host: session.host() }),
            }
        }
    }
}

/// Asks for the refs. Here, and here only, a redirect is followed: to the same host.
fn list(session: &Session) -> Result<Response, TransportError> {
    let start = match session.base() {
        Some(base) => base,
        None => base_of(session)?,
    };
    let mut at = below(&start, "/info/refs?service=git-upload-pack", session)?;
    for _ in 0..=REDIRECTS {
        let request = session.http()?.client().get(at.clone());
        let response = send(session, request)?;
        if !response.status().is_redirection() {
            if let Some(base) = at.as_str().strip_suffix("/info/refs?service=git-upload-pack")
                && base != start.as_str().trim_end_matches('/')
                && let Ok(base) = Url::parse(base)
            {
                session.moved(base);
            }
            return checked(session, response, "application/x-git-upload-pack-advertisement");
        }
        at = redirected(session, &at, &response)?;
    }
    Err(TransportError::Redirected { host: session.host(), to: format!("{} again and again", authority(&at)) })
}

fn fetch(session: &Session, body: Vec<u8>) -> Result<Response, TransportError> {
    let base = match session.base() {
        Some(base) => base,
        None => base_of(session)?,
    };
    let at = below(&base, "/git-upload-pack", session)?;
    let request = session
        .http()?
        .client()
        .post(at.clone())
        .header(header::CONTENT_TYPE, "application/x-git-upload-pack-request")
        .header(header::ACCEPT, "application/x-git-upload-pack-result")
        .body(body);
    let response = send(session, request)?;
    if response.status().is_redirection() {
        let to = redirected(session, &at, &response)?;
        return Err(TransportError::Redirected { host: session.host(), to: authority(&to) });
    }
    checked(session, response, "application/x-git-upload-pack-result")
}

fn send(session: &Session, request: RequestBuilder) -> Result<Response, TransportError> {
    let mut request = request.header(header::USER_AGENT, USER_AGENT);
    if let Some(authorization) = session.authorization()? {
        request = request.header(header::AUTHORIZATION, authorization);
    }
    session.asks();
    let sent = request.send();
    session.wait(async { sent.await.map_err(|error| unreached(&session.host(), &error, session.limits().whole)) })
}

fn base_of(session: &Session) -> Result<Url, TransportError> {
    Url::parse(&session.url().to_string()).map_err(|error| TransportError::Unreachable {
        host: session.host(),
        reason: format!("its address is no URL: {error}"),
    })
}

fn below(base: &Url, path: &str, session: &Session) -> Result<Url, TransportError> {
    Url::parse(&format!("{}{path}", base.as_str().trim_end_matches('/'))).map_err(|error| TransportError::Unreachable {
        host: session.host(),
        reason: format!("its address is no URL: {error}"),
    })
}

/// Where an answer redirects to, when that is the same host.
fn redirected(session: &Session, from: &Url, response: &Response) -> Result<Url, TransportError> {
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
        Err(TransportError::Redirected { host: session.host(), to: plain(to.as_bytes(), 200) })
    }
}

/// An answer of git's, or why it is none.
fn checked(session: &Session, response: Response, kind: &str) -> Result<Response, TransportError> {
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
            other => format!("an answer of type {}", plain(other.as_bytes(), 60)),
        };
        return Err(TransportError::NotGit { host: session.host(), what });
    }
    let message = match given.as_str() {
        "text/plain" | "application/json" => refusal(session, response),
        _ => String::new(),
    };
    Err(refused(session, status, &headers, message))
}

fn refused(session: &Session, status: StatusCode, headers: &HeaderMap, message: String) -> TransportError {
    let host = session.host();
    let after = retry_after(headers, SystemTime::now());
    match status.as_u16() {
        401 | 407 => TransportError::Unauthorized { host, message },
        // GitHub's second limits come as this, told apart by the header alone.
        403 if after.is_some() => TransportError::RateLimited { host, after },
        402 | 403 | 451 => TransportError::Forbidden { host, message },
        404 | 410 => TransportError::NotFound { host, path: session.url().path().to_owned() },
        429 => TransportError::RateLimited { host, after },
        500..=599 => TransportError::Unavailable { host, status: status.as_u16(), after },
        other => TransportError::NotGit { host, what: format!("status {other}") },
    }
}

/// The first line or so of what a host says when it refuses.
fn refusal(session: &Session, mut response: Response) -> String {
    let mut text = Vec::new();
    while text.len() < REFUSAL {
        let chunk = response.chunk();
        match session.next(async { chunk.await.map_err(|_| TransportError::Cancelled) }) {
            Ok(Some(more)) => text.extend(more.iter().take(REFUSAL - text.len())),
            Ok(None) | Err(_) => break,
        }
    }
    session.quote(&text)
}
