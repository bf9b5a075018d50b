//! What every request is answered from.
//! How many streams may be open, in all and of one user, is counted there.

use super::access::{AccessGate, Visitor};
use crate::fair_turns::FairTurns;
use crate::observation::ObservationBoard;
use crate::server::RequestBodies;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Drafts that are judged at a time, each on a core; and of one reader, so that who sends many waits for his own.
const MAX_JUDGED: usize = 2;
const MAX_JUDGED_OF_READER: usize = 1;

/// Pages at a time for which the cluster is read, and of one reader.
const MAX_READINGS: usize = 8;
const MAX_READINGS_OF_READER: usize = 2;

/// What answers are made of.
#[derive(Clone, Debug)]
pub(super) struct WebState {
    pub(super) gate: Arc<AccessGate>,
    pub(super) board: ObservationBoard,
    pub(super) streams: Arc<StreamPlaces>,
    pub(super) bodies: RequestBodies,
    /// By the name of the reader.
    pub(super) judging: FairTurns<Option<String>>,
    /// Reading from the cluster for one page, by the name of the reader.
    pub(super) reading: FairTurns<Option<String>>,
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
        let reading = FairTurns::new(MAX_READINGS, MAX_READINGS_OF_READER);
        Self {
            gate,
            board,
            streams: Arc::default(),
            bodies: RequestBodies::default(),
            judging,
            reading,
            entered,
            ending,
        }
    }
}

/// Streams at a time.
pub(super) const MAX_STREAMS: usize = 256;
/// Streams of one user at a time.
const MAX_STREAMS_OF_USER: usize = 16;

/// How many streams are open, by the name of who reads.
#[derive(Debug, Default)]
pub(super) struct StreamPlaces {
    open: Mutex<HashMap<Option<String>, usize>>,
}

/// The place of one open stream.
pub(super) struct StreamPlace {
    places: Arc<StreamPlaces>,
    reader: Option<String>,
}

impl StreamPlaces {
    /// A place for somebody, where there is one.
    pub(super) fn take(places: &Arc<Self>, visitor: &Visitor) -> Option<StreamPlace> {
        let reader = visitor.name().map(str::to_owned);
        let mut open = places.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, own) = (open.values().sum::<usize>(), open.get(&reader).copied().unwrap_or_default());
        if all >= MAX_STREAMS || (reader.is_some() && own >= MAX_STREAMS_OF_USER) {
            return None;
        }
        *open.entry(reader.clone()).or_default() += 1;
        drop(open);
        Some(StreamPlace { places: Arc::clone(places), reader })
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut open = self.places.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = open.get_mut(&self.reader) {
            *number -= 1;
            if *number == 0 {
                open.remove(&self.reader);
            }
        }
    }
}
