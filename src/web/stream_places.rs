//! How many streams may be open, in all and of one user.

use super::visitor::Visitor;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Streams at a time.
pub(super) const MAX_STREAMS: usize = 128;
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
