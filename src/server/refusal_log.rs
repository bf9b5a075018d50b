//! What is refused, in the log: the first of a minute each, and how many more there were. Whoever is refused over and over
//! writes no log of a thousand lines.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Refusals of a minute that have a line each.
const LINES: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);

/// Why a request was refused, where the log says so: an extension of its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalReason(pub String);

/// The one place that logs refusals of a listener.
#[derive(Debug, Default)]
pub(super) struct RefusalLog {
    minute: Mutex<Option<Minute>>,
}

#[derive(Debug)]
struct Minute {
    since: Instant,
    refused: u32,
}

impl RefusalLog {
    /// Tells of a refusal.
    pub(super) fn warn(&self, reason: &dyn Display) {
        let (before, is_reported) = self.count(Instant::now());
        if before > 0 {
            tracing::warn!("{before} more requests were refused within a minute");
        }
        if is_reported {
            tracing::warn!("{reason}");
        }
    }

    /// How many of an earlier minute were not logged, where that is over; and whether this one is.
    fn count(&self, now: Instant) -> (u32, bool) {
        let mut minute = self.minute.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *minute {
            Some(current) if now.duration_since(current.since) < WINDOW => {
                current.refused = current.refused.saturating_add(1);
                (0, current.refused <= LINES)
            }
            other => {
                let before = other.replace(Minute { since: now, refused: 1 });
                (before.map_or(0, |minute| minute.refused.saturating_sub(LINES)), true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// N7: a flood of unsigned deliveries wrote a line each.
    #[tokio::test(start_paused = true)]
    async fn a_flood_is_a_few_lines_and_a_count() {
        let log = RefusalLog::default();
        let described = |number: u32| {
            (0..number).map(|_| log.count(Instant::now())).filter(|(_, is_reported)| *is_reported).count()
        };
        assert_eq!(described(2000), 10);
        tokio::time::advance(WINDOW).await;
        assert_eq!(log.count(Instant::now()), (1990, true));
        assert_eq!(described(20), 9);
        tokio::time::advance(WINDOW * 2).await;
        assert_eq!(log.count(Instant::now()), (11, true));
        tokio::time::advance(WINDOW).await;
        assert_eq!(log.count(Instant::now()), (0, true));
    }
}
