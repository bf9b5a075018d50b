//! Reading the bodies of deliveries: of one and of all together no more than fits.
//!
//! What most deliveries have takes no turn: so many connections there are, so much it is at most. What is more waits for one
//! of a few places, which it keeps until it was verified and parsed. So bodies that are large and slow keep nobody out but
//! others that are large, and those are found by the next poll.

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt as _;
use stator_git::forge::webhook::MAX_BODY_BYTES;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// What a body may have without a turn.
const SMALL_BODY_BYTES: usize = 64 << 10;
/// Larger ones at a time, together 24 MiB.
const MAX_LARGE_BODIES: usize = 8;
/// A body has to be here within this time.
const BODY_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a large one waits for its turn.
const BODY_QUEUE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a body that is refused for its size is read on.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);
/// How much of it is read on: what the largest of hosts sends, and no more.
const MAX_DISCARDED_BYTES: usize = 32 << 20;

/// Why a body is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyError {
    /// Larger than [`MAX_BODY_BYTES`].
    #[error("its body is larger than 3 MiB; the next poll finds the change")]
    TooLarge,
    /// Too many are large.
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
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Incomplete => StatusCode::BAD_REQUEST,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
        }
    }

    /// What is answered.
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::TooLarge => "the body is too large; the next poll finds the change",
            Self::Busy => "too many deliveries at once",
            Self::Incomplete => "the body is incomplete",
            Self::TooSlow => "the body did not arrive in time",
        }
    }
}

/// A body, and its place in memory.
#[derive(Debug)]
pub(super) struct DeliveryBody {
    bytes: Bytes,
    _turn: Option<OwnedSemaphorePermit>,
}

impl DeliveryBody {
    /// What was sent.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The places of large bodies.
#[derive(Clone, Debug)]
pub(super) struct DeliveryBodies {
    large: Arc<Semaphore>,
}

impl Default for DeliveryBodies {
    fn default() -> Self {
        Self { large: Arc::new(Semaphore::new(MAX_LARGE_BODIES)) }
    }
}

impl DeliveryBodies {
    /// Reads one.
    ///
    /// # Errors
    /// See [`BodyError`].
    pub(super) async fn read(&self, headers: &HeaderMap, mut body: Body) -> Result<DeliveryBody, BodyError> {
        let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > u64::try_from(MAX_BODY_BYTES).unwrap_or(u64::MAX)) {
            if let Ok(_turn) = self.large.try_acquire() {
                discard_body(&mut body).await;
            }
            return Err(BodyError::TooLarge);
        }
        let read = timeout(BODY_READ_TIMEOUT, self.collect(&mut body)).await.unwrap_or(Err(BodyError::TooSlow));
        if read.as_ref().is_err_and(|error| *error == BodyError::TooLarge)
            && let Ok(_turn) = self.large.try_acquire()
        {
            discard_body(&mut body).await;
        }
        read
    }

    async fn collect(&self, body: &mut Body) -> Result<DeliveryBody, BodyError> {
        let (mut read, mut turn) = (BytesMut::new(), None);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| BodyError::Incomplete)?;
            let Some(data) = frame.data_ref() else { continue };
            let size = read.len().saturating_add(data.len());
            if size > MAX_BODY_BYTES {
                return Err(BodyError::TooLarge);
            }
            if size > SMALL_BODY_BYTES && turn.is_none() {
                let waited = timeout(BODY_QUEUE_TIMEOUT, Arc::clone(&self.large).acquire_owned()).await;
                turn = Some(waited.ok().and_then(Result::ok).ok_or(BodyError::Busy)?);
            }
            read.extend_from_slice(data);
            // A body that is always there would otherwise keep the deadline from being looked at.
            tokio::task::yield_now().await;
        }
        Ok(DeliveryBody { bytes: read.freeze(), _turn: turn })
    }
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
