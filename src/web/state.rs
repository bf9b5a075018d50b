//! What every request is answered from.

use super::access::AccessGate;
use super::stream_places::StreamPlaces;
use crate::fair_turns::FairTurns;
use crate::observation::ObservationBoard;
use crate::server::RequestBodies;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Drafts that are judged at a time, each on a core; and of one reader, so that who sends many waits for his own.
const MAX_JUDGED: usize = 2;
const MAX_JUDGED_OF_READER: usize = 1;

/// What answers are made of.
#[derive(Clone, Debug)]
pub(super) struct WebState {
    pub(super) gate: Arc<AccessGate>,
    pub(super) board: ObservationBoard,
    pub(super) streams: Arc<StreamPlaces>,
    pub(super) bodies: RequestBodies,
    /// By the name of the reader.
    pub(super) judging: FairTurns<Option<String>>,
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
        let judging = FairTurns::new(MAX_JUDGED, MAX_JUDGED_OF_READER);
        Self { gate, board, streams: Arc::default(), bodies: RequestBodies::default(), judging, entered, ending }
    }
}
