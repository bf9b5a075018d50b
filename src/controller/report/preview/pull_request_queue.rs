//! Which pull requests are to be looked at, and when.

use std::collections::BTreeMap;
use tokio::time::Instant;

/// The most that wait. What is left out is found by the next list of all that are open.
const MAX_WAITING: usize = 10_000;

/// Pull requests that are to be looked at: each once, the one that was named last first.
#[derive(Debug, Default)]
pub(super) struct PullRequestQueue {
    /// Number → its turn, and the moment before which it is left alone.
    waiting: BTreeMap<u64, (u64, Instant)>,
    /// Number → when it may be looked at again.
    rests: BTreeMap<u64, Instant>,
    turn: u64,
    held: Option<Instant>,
}

impl PullRequestQueue {
    /// A pull request is to be looked at, not before this moment.
    pub(super) fn schedule(&mut self, number: u64, from: Instant) {
        self.turn += 1;
        let from = self.rests.get(&number).map_or(from, |rest| (*rest).max(from));
        if let Some((turn, due)) = self.waiting.get_mut(&number) {
            (*turn, *due) = (self.turn, from.min(*due));
        } else if self.waiting.len() < MAX_WAITING {
            self.waiting.insert(number, (self.turn, from));
        }
    }

    /// It was looked at, and is left alone until then.
    pub(super) fn finish(&mut self, number: u64, until: Instant) {
        self.rests.retain(|_, rest| *rest > Instant::now());
        self.rests.insert(number, until);
    }

    /// Nothing is due before this moment.
    pub(super) fn hold_until(&mut self, until: Instant) {
        self.held = self.held.max(Some(until));
    }

    /// When the next is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let due = self.waiting.values().map(|(_, due)| *due).min()?;
        Some(self.held.map_or(due, |held| held.max(due)))
    }

    /// Takes one that is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<u64> {
        if self.held.is_some_and(|held| held > now) {
            return None;
        }
        let due = self.waiting.iter().filter(|(_, (_, due))| *due <= now);
        let number = due.max_by_key(|(_, (turn, _))| *turn).map(|(number, _)| *number)?;
        self.waiting.remove(&number);
        Some(number)
    }
}
