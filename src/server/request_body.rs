//! Reading the bodies of requests: of one, of all of one peer and of all together no more than fits.
//!
//! What most requests have takes no turn: so many connections there are, so much it is at most. What is more waits for a part
//! of a budget, which it keeps until whoever reads it is through with it. So bodies that are large and slow keep nobody out
//! but others that are large, and of another peer not even those.

use super::connection_places::Peer;
use crate::fair_turns::{FairTurns, Turn};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt as _;
use std::time::Duration;
use tokio::time::timeout;

/// What a body may have without a turn.
const SMALL_BODY_BYTES: usize = 64 << 10;
/// What larger ones may have together.
const MAX_BYTES: usize = 24 << 20;
/// What larger ones of one peer may have together: a proxy is one peer, and so is everybody behind it.
const MAX_BYTES_OF_PEER: usize = 6 << 20;
/// What a turn is counted in.
const TURN_BYTES: usize = 1 << 10;
/// A body has to be here within this time.
pub(super) const BODY_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a large one waits for its turn.
const BODY_QUEUE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a body that is refused for its size is read on.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);
/// How much of it is read on: what the largest of git hosts sends, and no more.
const MAX_DISCARDED_BYTES: usize = 32 << 20;

/// Why a body is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Larger than it may be.
    #[error("its body is larger than {most} bytes")]
    TooLarge {
        /// The most bytes.
        most: usize,
    },
    /// Too much is read at once.
    #[error("too many large bodies are read at once")]
    Busy,
    /// The connection ended.
    #[error("its body is incomplete")]
    Incomplete,
    /// It dawdled.
    #[error("its body did not arrive in time")]
    TooSlow,
}

impl BodyError {
    /// As which it is answered.
    pub fn status(self) -> StatusCode {
        match self {
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Incomplete => StatusCode::BAD_REQUEST,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
        }
    }
}

/// A body, and its part of the budget.
#[derive(Debug)]
pub struct RequestBody {
    bytes: Bytes,
    turn: Option<Turn>,
}

impl RequestBody {
    /// What was sent.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What was sent, and its part of the budget: to be kept for as long as anything that is made of the body.
    pub fn into_parts(self) -> (Bytes, Option<Turn>) {
        (self.bytes, self.turn)
    }
}

/// Reads bodies within one budget. Clones are the same.
#[derive(Clone, Debug)]
pub struct RequestBodies {
    turns: FairTurns<Peer>,
}

impl Default for RequestBodies {
    fn default() -> Self {
        Self { turns: FairTurns::new(MAX_BYTES / TURN_BYTES, MAX_BYTES_OF_PEER / TURN_BYTES) }
    }
}

impl RequestBodies {
    /// Reads a body of at most so many bytes.
    ///
    /// # Errors
    /// See [`BodyError`].
    pub async fn read(
        &self,
        peer: Peer,
        headers: &HeaderMap,
        mut body: Body,
        most: usize,
    ) -> Result<RequestBody, BodyError> {
        let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        let read = match length {
            Some(length) if length > most => Err(BodyError::TooLarge { most }),
            Some(_) | None => {
                let collecting = self.collect(peer, &mut body, (length.unwrap_or(most), most));
                timeout(BODY_READ_TIMEOUT, collecting).await.unwrap_or(Err(BodyError::TooSlow))
            }
        };
        if matches!(read, Err(BodyError::TooLarge { .. }))
            && let Some(_turn) = self.turns.try_take(peer, kib(SMALL_BODY_BYTES))
        {
            discard_body(&mut body).await;
        }
        read
    }

    async fn collect(
        &self,
        peer: Peer,
        body: &mut Body,
        (expected, most): (usize, usize),
    ) -> Result<RequestBody, BodyError> {
        let (mut read, mut turn) = (BytesMut::new(), None);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| BodyError::Incomplete)?;
            let Some(data) = frame.data_ref() else { continue };
            let size = read.len().saturating_add(data.len());
            if size > most {
                return Err(BodyError::TooLarge { most });
            }
            if size > SMALL_BODY_BYTES && turn.is_none() {
                let waiting = self.turns.wait(peer, kib(expected.max(size)));
                turn = Some(timeout(BODY_QUEUE_TIMEOUT, waiting).await.map_err(|_| BodyError::Busy)?);
            }
            read.extend_from_slice(data);
            // A body that is always there would otherwise keep the deadline from being looked at.
            tokio::task::yield_now().await;
        }
        Ok(RequestBody { bytes: read.freeze(), turn })
    }
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(TURN_BYTES)).unwrap_or(u32::MAX)
}

/// Reads on and throws away, up to [`MAX_DISCARDED_BYTES`] bytes and [`DISCARD_TIMEOUT`]: whose connection ends while it
/// still writes sees a broken connection in place of the answer.
async fn discard_body(body: &mut Body) {
    let rest = async {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, Bytes::len);
            if read > MAX_DISCARDED_BYTES {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    // A sender that is not done by then goes without the answer.
    let _ = timeout(DISCARD_TIMEOUT, rest).await;
}
