//! Deliveries that were taken: one that is sent again is not taken twice.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long a delivery is remembered. A host that sends again by itself does so within minutes.
const REPLAY_WINDOW: Duration = Duration::from_secs(3600);
/// Deliveries that are remembered.
const MAX_DELIVERIES: usize = 10_000;
/// Bytes of a delivery's name that count; the hosts' are UUIDs.
const MAX_ID_LENGTH: usize = 200;

/// The names of deliveries that were taken within the last hour, at most 10,000.
#[derive(Debug, Default)]
pub(super) struct ReplayCache {
    entries: Mutex<ReplayEntries>,
}

#[derive(Debug, Default)]
struct ReplayEntries {
    seen_at: HashMap<String, (Instant, u64)>,
    order: BTreeMap<u64, String>,
    next: u64,
}

impl ReplayCache {
    /// Whether this delivery was taken already.
    pub(super) fn contains(&self, name: &str, now: Instant) -> bool {
        let kept = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        kept.seen_at.get(&truncate_id(name)).is_some_and(|(at, _)| now.duration_since(*at) < REPLAY_WINDOW)
    }

    /// Remembers one. To be called once it was handled: one that failed half-way is welcome again.
    pub(super) fn insert(&self, name: &str, now: Instant) {
        let mut kept = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let number = kept.next;
        kept.next = kept.next.saturating_add(1);
        if let Some((_, old)) = kept.seen_at.insert(truncate_id(name), (now, number)) {
            kept.order.remove(&old);
        }
        kept.order.insert(number, truncate_id(name));
        while kept.order.len() > MAX_DELIVERIES {
            let Some((_, oldest)) = kept.order.pop_first() else { break };
            kept.seen_at.remove(&oldest);
        }
    }
}

fn truncate_id(name: &str) -> String {
    name.chars().take(MAX_ID_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_known_for_an_hour_and_the_oldest_go_first() {
        let taken = ReplayCache::default();
        let start = Instant::now();
        assert!(!taken.contains("a", start));
        taken.insert("a", start);
        assert!(taken.contains("a", start + REPLAY_WINDOW - Duration::from_secs(1)));
        assert!(!taken.contains("a", start + REPLAY_WINDOW));
        for number in 0..MAX_DELIVERIES {
            taken.insert(&number.to_string(), start);
        }
        assert!(!taken.contains("a", start) && taken.contains("0", start));
        taken.insert("0", start);
        taken.insert("new", start);
        assert!(taken.contains("0", start) && !taken.contains("1", start));
        assert_eq!(taken.entries.lock().unwrap().seen_at.len(), MAX_DELIVERIES);
    }

    #[test]
    fn a_name_takes_no_more_room_than_a_name() {
        let taken = ReplayCache::default();
        let now = Instant::now();
        taken.insert(&"ü".repeat(100_000), now);
        assert!(taken.contains(&"ü".repeat(200), now));
        assert!(taken.entries.lock().unwrap().seen_at.keys().all(|name| name.len() <= 400));
    }
}
