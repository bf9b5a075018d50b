//! The output of containers, a line at a time.

use super::api_client::{self, ApiPayload, ApiUrl};
use super::api_error::{self, ApiCall};
use super::kube_cluster::KubeCluster;
use crate::cluster::ClusterError;
use ::kube::client::Body;
use http::Method;
use http_body_util::BodyExt as _;
use stator_core::dynamo::kinds::POD;
use stator_core::object::ObjectRef;
use std::time::Duration;

/// The longest line that is kept whole. The rest of a longer one follows as lines of its own.
const MAX_LINE_LENGTH: usize = 64 << 10;
/// How long output that ends may pause.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Whose output, and how much of it.
#[derive(Clone, Debug)]
pub struct LogRequest {
    /// The pod.
    pub pod: ObjectRef,
    /// The container.
    pub container: String,
    /// Whether to go on with what is written from now on.
    pub follow: bool,
    /// The output of the container before its last restart, in place of its own.
    pub previous: bool,
    /// The last so many lines alone.
    pub tail: Option<u64>,
    /// Nothing that is older.
    pub since: Option<jiff::Timestamp>,
}

/// Output that is being read. Reading ends with the container's output; with [`LogRequest::follow`] when the container ends.
#[derive(Debug)]
pub struct LogStream {
    body: Body,
    /// What came.
    buffer: Vec<u8>,
    /// How many bytes of it were handed out.
    position: usize,
    follows: bool,
    has_ended: bool,
}

/// A line that a container wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When, by the node's clock; `None` where the kubelet says nothing that can be read.
    pub time: Option<jiff::Timestamp>,
    /// What. It is anybody's text, and what is no UTF-8 of it is replaced.
    pub text: String,
}

impl KubeCluster {
    /// Opens the output of a container.
    ///
    /// # Errors
    /// When there is no such pod or container, it was not started, its node does not answer, or the right `get` on `pods/log`
    /// is missing.
    pub async fn open_log(&self, request: &LogRequest) -> Result<LogStream, ClusterError> {
        let pod = &request.pod;
        let namespace = self.restriction.resolve_namespace(Some(&pod.namespace))?.unwrap_or(&pod.namespace);
        let inner = &self.inner;
        let url = ApiUrl::of_kind(&POD, Some(namespace))
            .join(&pod.name)
            .join("log")
            .query("container", &request.container)
            .query("timestamps", "true");
        let flag = |url: ApiUrl, name: &str, is_set: bool| if is_set { url.query(name, "true") } else { url };
        let url = flag(flag(url, "follow", request.follow), "previous", request.previous);
        let url = request.tail.iter().fold(url, |url, lines| url.query("tailLines", &lines.to_string()));
        // RFC 3339 in whole seconds is what the API server takes; the second that has begun is in it.
        let since = request.since.map(|time| jiff::Timestamp::from_second(time.as_second()).unwrap_or(time));
        let url = since.iter().fold(url, |url, time| url.query("sinceTime", &time.to_string()));
        let mut http_request = api_client::build_request(Method::GET, &url, ApiPayload::None, "*/*")?;
        // Compressed output arrives when a block of it is full.
        http_request.headers_mut().insert(http::header::ACCEPT_ENCODING, http::HeaderValue::from_static("identity"));
        let response = match tokio::time::timeout(inner.options.deadlines.list, inner.client.send(http_request)).await {
            Ok(response) => response.map_err(|error| api_client::connection_error(&inner.server, &error))?,
            Err(_) => {
                return Err(ClusterError::transient(format!("{} did not open the log of {pod}", inner.server)));
            }
        };
        if response.status().is_success() {
            let body = response.into_body();
            return Ok(LogStream::new(body, request.follow));
        }
        let answer = api_client::read_response(&inner.server, "a log", response).await?;
        let asked = ApiCall::on_object("get the log", &POD, pod);
        Err(api_error::to_cluster_error(&asked, &answer, &[]))
    }
}

impl LogStream {
    fn new(body: Body, follows: bool) -> Self {
        Self { body, buffer: Vec::new(), position: 0, follows, has_ended: false }
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// When the connection breaks, or output that does not follow anything pauses for a minute.
    pub async fn next_line(&mut self) -> Result<Option<LogLine>, ClusterError> {
        loop {
            let pending = &self.buffer[self.position..];
            let limit = pending.len().min(MAX_LINE_LENGTH + 1);
            let (length, handed_out) = match pending[..limit].iter().position(|byte| *byte == b'\n') {
                Some(end) => (end, end + 1),
                None if pending.len() > MAX_LINE_LENGTH => {
                    // No character is cut in two.
                    let is_inner = |at: &usize| pending[*at] & 0b1100_0000 == 0b1000_0000;
                    let end = (MAX_LINE_LENGTH - 3..=MAX_LINE_LENGTH).rev().find(|at| !is_inner(at));
                    let end = end.unwrap_or(MAX_LINE_LENGTH);
                    (end, end)
                }
                None if self.has_ended && pending.is_empty() => return Ok(None),
                None if self.has_ended => (pending.len(), pending.len()),
                None => {
                    self.read_more().await?;
                    continue;
                }
            };
            let line = parse_line(&pending[..length]);
            self.position += handed_out;
            return Ok(Some(line));
        }
    }

    async fn read_more(&mut self) -> Result<(), ClusterError> {
        self.buffer.drain(..self.position);
        self.position = 0;
        let frame = match self.follows {
            true => self.body.frame().await,
            false => match tokio::time::timeout(IDLE_TIMEOUT, self.body.frame()).await {
                Ok(frame) => frame,
                Err(_) => {
                    return Err(ClusterError::transient(format!("the log pauses for {} s", IDLE_TIMEOUT.as_secs())));
                }
            },
        };
        match frame {
            None => self.has_ended = true,
            Some(Ok(frame)) => self.buffer.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
            Some(Err(error)) => {
                return Err(ClusterError::transient(format!("the connection to the log is lost: {error}")));
            }
        }
        Ok(())
    }
}

/// `2026-11-24T03:15:19.123456789Z loading weights`, as a kubelet writes it.
fn parse_line(bytes: &[u8]) -> LogLine {
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_suffix('\r').unwrap_or(&text);
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    match first.parse::<jiff::Timestamp>() {
        Ok(time) => LogLine { time: Some(time), text: rest.to_owned() },
        Err(_) => LogLine { time: None, text: text.to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(chunks: &[&[u8]]) -> LogStream {
        let bytes = chunks.concat();
        LogStream::new(Body::from(bytes), false)
    }

    async fn lines(mut stream: LogStream) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(line) = stream.next_line().await.unwrap() {
            let time = line.time.map(|time| format!("{time} ")).unwrap_or_default();
            lines.push(format!("{time}{}", line.text));
        }
        lines
    }

    #[tokio::test]
    async fn lines_are_told_from_their_times() {
        let log = b"2026-11-24T03:15:19.123456789Z loading weights\n2026-11-24T03:15:20Z \nno time here\r\nlast, without an end";
        let expected = [
            "2026-11-24T03:15:19.123456789Z loading weights",
            "2026-11-24T03:15:20Z ",
            "no time here",
            "last, without an end",
        ];
        assert_eq!(lines(stream(&[log])).await, expected);
        assert!(lines(stream(&[])).await.is_empty());
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_handed_out_in_parts() {
        let endless = format!("x{}", "é".repeat(MAX_LINE_LENGTH));
        let parts = lines(stream(&[endless.as_bytes(), b"\nnext\n", b"\xff\xfe\n"])).await;
        assert!(parts.iter().all(|part| part.len() <= MAX_LINE_LENGTH), "{:?}", parts.iter().map(String::len));
        assert_eq!(parts.concat(), format!("{endless}next\u{fffd}\u{fffd}"));
        assert_eq!(parts[parts.len() - 2..], ["next", "\u{fffd}\u{fffd}"]);
    }
}
