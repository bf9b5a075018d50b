//! Deliveries that were taken: one that is sent again is not taken twice.

use super::recent::Recent;
use std::time::Duration;
use tokio::time::Instant;

/// How long a delivery is remembered. A host that sends again by itself does so within minutes.
const REPLAY_WINDOW: Duration = Duration::from_secs(3600);
/// Deliveries that are remembered.
const MAX_DELIVERIES: usize = 10_000;
/// Bytes of a delivery's name that count; the hosts' are UUIDs.
const MAX_ID_LENGTH: usize = 200;

/// The names of deliveries that were taken within the last hour, at most 10,000.
#[derive(Debug)]
pub(super) struct ReplayCache {
    seen: Recent<String, ()>,
}

impl Default for ReplayCache {
    fn default() -> Self {
        Self { seen: Recent::new(REPLAY_WINDOW, MAX_DELIVERIES) }
    }
}

impl ReplayCache {
    /// Whether this delivery was taken already.
    pub(super) fn contains(&self, name: &str, now: Instant) -> bool {
        self.seen.get(&truncate_id(name), now).is_some()
    }

    /// Remembers one. To be called once it was handled: one that failed half-way is welcome again.
    pub(super) fn insert(&self, name: &str, now: Instant) {
        self.seen.insert(truncate_id(name), (), now);
    }
}

fn truncate_id(name: &str) -> String {
    name.chars().take(MAX_ID_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_takes_no_more_room_than_a_name() {
        assert_eq!(truncate_id(&"ü".repeat(100_000)), "ü".repeat(200));
    }
}
