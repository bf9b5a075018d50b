//! Pauses between tries: growing, with chance in them, and never longer than a ceiling.

use std::time::Duration;

/// How long to wait before the next try.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    attempts: u32,
}

impl Backoff {
    /// Begins with about `first` and ends at about `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, attempts: 0 }
    }

    /// The next pause: twice the last, less up to half of it, so that many do not come back at once.
    pub fn next_pause(&mut self) -> Duration {
        let whole = self.first.saturating_mul(1_u32.checked_shl(self.attempts).unwrap_or(u32::MAX));
        self.attempts = self.attempts.saturating_add(1);
        let whole = whole.min(self.longest);
        // A random uid is all the chance that is needed.
        let chance = u32::try_from(uuid::Uuid::new_v4().as_u128() % 1000).unwrap_or_default();
        whole / 2 + whole / 2000 * chance
    }

    /// It went well: the next pause is the first again.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }

    /// How many pauses there were since it last went well.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pauses_grow_to_the_ceiling_and_no_further(first in 1_u64..100_000, longest in 1_u64..10_000_000, tries in 1_usize..200) {
            let (first, longest) = (Duration::from_millis(first), Duration::from_millis(longest));
            let mut backoff = Backoff::new(first, longest);
            let pauses: Vec<Duration> = (0..tries).map(|_| backoff.next_pause()).collect();
            let mut whole = first.min(longest);
            for pause in pauses {
                prop_assert!(pause >= whole / 2 && pause <= whole, "{:?} {:?}", pause, whole);
                whole = (whole * 2).min(longest);
            }
            backoff.reset();
            prop_assert!(backoff.next_pause() <= first);
        }
    }
}
