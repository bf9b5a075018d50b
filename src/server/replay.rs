//! Deliveries that were taken: one that is sent again is not taken twice.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long a delivery is remembered. A host that sends again by itself does so within minutes.
const WINDOW: Duration = Duration::from_secs(3600);
/// Deliveries that are remembered.
const MOST: usize = 10_000;
/// Bytes of a delivery's name that count; the hosts' are UUIDs.
const LONGEST: usize = 200;

/// The names of deliveries that were taken within the last hour, at most 10,000.
#[derive(Debug, Default)]
pub(super) struct Taken {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    at: HashMap<String, (Instant, u64)>,
    order: BTreeMap<u64, String>,
    next: u64,
}

impl Taken {
    /// Whether this delivery was taken already.
    pub(super) fn knows(&self, name: &str, now: Instant) -> bool {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.at.get(&short(name)).is_some_and(|(at, _)| now.duration_since(*at) < WINDOW)
    }

    /// Remembers one. To be called once it was handled: one that failed half-way is welcome again.
    pub(super) fn remember(&self, name: &str, now: Instant) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let number = kept.next;
        kept.next = kept.next.saturating_add(1);
        if let Some((_, old)) = kept.at.insert(short(name), (now, number)) {
            kept.order.remove(&old);
        }
        kept.order.insert(number, short(name));
        while kept.order.len() > MOST {
            let Some((_, oldest)) = kept.order.pop_first() else { break };
            kept.at.remove(&oldest);
        }
    }
}

fn short(name: &str) -> String {
    name.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_known_for_an_hour_and_the_oldest_go_first() {
        let taken = Taken::default();
        let start = Instant::now();
        assert!(!taken.knows("a", start));
        taken.remember("a", start);
        assert!(taken.knows("a", start + WINDOW - Duration::from_secs(1)));
        assert!(!taken.knows("a", start + WINDOW));
        for number in 0..MOST {
            taken.remember(&number.to_string(), start);
        }
        assert!(!taken.knows("a", start) && taken.knows("0", start));
        taken.remember("0", start);
        taken.remember("new", start);
        assert!(taken.knows("0", start) && !taken.knows("1", start));
        assert_eq!(taken.kept.lock().unwrap().at.len(), MOST);
    }

    #[test]
    fn a_name_takes_no_more_room_than_a_name() {
        let taken = Taken::default();
        let now = Instant::now();
        taken.remember(&"ü".repeat(100_000), now);
        assert!(taken.knows(&"ü".repeat(200), now));
        assert!(taken.kept.lock().unwrap().at.keys().all(|name| name.len() <= 400));
    }
}
