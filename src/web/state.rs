//! What every request is answered from.

use super::access::AccessGate;
use super::stream_places::StreamPlaces;
use crate::observation::ObservationBoard;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// Drafts that are judged at a time: each takes a core.
const MAX_JUDGED: usize = 2;

/// What answers are made of.
#[derive(Clone, Debug)]
pub(super) struct WebState {
    pub(super) gate: Arc<AccessGate>,
    pub(super) board: ObservationBoard,
    pub(super) streams: Arc<StreamPlaces>,
    pub(super) judging: Arc<Semaphore>,
    /// Hears that the link was used.
    pub(super) entered: mpsc::Sender<()>,
    pub(super) ending: CancellationToken,
}

impl WebState {
    pub(super) fn new(
        gate: Arc<AccessGate>,
        board: ObservationBoard,
        entered: mpsc::Sender<()>,
        ending: CancellationToken,
    ) -> Self {
        let judging = Arc::new(Semaphore::new(MAX_JUDGED));
        Self { gate, board, streams: Arc::default(), judging, entered, ending }
    }
}
