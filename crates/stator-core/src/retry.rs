//! How long to wait before a retry, and how to spread what would otherwise happen at one moment.
//!
//! Values only: nothing here reads a clock or draws a random number. Who waits brings a seed or 64 random bits, so that a
//! test can replay what a daemon did.

use std::time::Duration;

/// Delays between attempts: each about twice the one before, never above a ceiling, and with up to half of it random, so
/// that many who failed together do not return together.
///
/// ```
/// use std::time::Duration;
/// use stator_core::retry::Backoff;
///
/// let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60), 42);
/// assert!(backoff.next_delay() <= Duration::from_secs(1));
/// assert!(backoff.next_delay() >= Duration::from_secs(1));
/// assert_eq!(backoff.attempts(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    attempts: u32,
    jitter: JitterSource,
}

impl Backoff {
    /// Starts at no more than `first` and grows to no more than `longest`. `seed` decides the random part: give one that
    /// differs between processes and between tasks.
    pub fn new(first: Duration, longest: Duration, seed: u64) -> Self {
        Self { first, longest, attempts: 0, jitter: JitterSource::new(seed) }
    }

    /// The delay before the next attempt: see [`backoff_delay`].
    pub fn next_delay(&mut self) -> Duration {
        let delay = backoff_delay(self.first, self.longest, self.attempts, self.jitter.next_u64());
        self.attempts = self.attempts.saturating_add(1);
        delay
    }

    /// Call it after a success: the next delay is the first one again. The random part goes on where it was.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }

    /// How many delays were handed out since the start or the last [`Backoff::reset`].
    pub fn attempts(&self) -> u32 {
        self.attempts
    }
}

/// The delay after `earlier` earlier delays: `first` doubled that often, at most `longest`, of which the upper half is
/// random. For callers who count failures themselves; others take a [`Backoff`].
pub fn backoff_delay(first: Duration, longest: Duration, earlier: u32, random: u64) -> Duration {
    let full = first.saturating_mul(1_u32.checked_shl(earlier).unwrap_or(u32::MAX)).min(longest);
    full / 2 + fraction_of(full / 2, random)
}

/// `interval`, shortened by up to a tenth, so that sources of one age are not polled all at once. Never longer: a lost
/// webhook must cost no more than the interval.
pub fn jittered(interval: Duration, random: u64) -> Duration {
    interval.saturating_sub(fraction_of(interval / 10, random))
}

/// A sequence of random numbers from a seed (splitmix64). Not for secrets: who sees one number can work out the next.
#[derive(Clone, Debug)]
pub struct JitterSource(u64);

impl JitterSource {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A duration between zero and `most`.
    pub fn duration_up_to(&mut self, most: Duration) -> Duration {
        fraction_of(most, self.next_u64())
    }
}

/// `most` × `random` / 2⁶⁴. Above 584 years, what fits into 64 bits of nanoseconds is taken for `most`.
fn fraction_of(most: Duration, random: u64) -> Duration {
    let nanoseconds = u128::from(u64::try_from(most.as_nanos()).unwrap_or(u64::MAX));
    Duration::from_nanos(u64::try_from((nanoseconds * u128::from(random)) >> 64).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn delays_double_up_to_the_ceiling_and_half_of_each_is_certain(
            first in 0_u64..100_000, longest in 0_u64..10_000_000, attempts in 1_u32..200, seed: u64,
        ) {
            let (first, longest) = (Duration::from_millis(first), Duration::from_millis(longest));
            let mut backoff = Backoff::new(first, longest, seed);
            let mut full = first.min(longest);
            for attempt in 0..attempts {
                prop_assert_eq!(backoff.attempts(), attempt);
                let delay = backoff.next_delay();
                prop_assert!(delay >= full / 2 && delay <= full, "{:?} of {:?}", delay, full);
                full = (full * 2).min(longest);
            }
            backoff.reset();
            prop_assert_eq!(backoff.attempts(), 0);
            prop_assert!(backoff.next_delay() <= first.min(longest));
        }

        #[test]
        fn one_seed_gives_one_sequence_and_another_seed_another(seed: u64, other: u64) {
            prop_assume!(seed != other);
            let delays = |seed| {
                let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300), seed);
                std::iter::repeat_with(move || backoff.next_delay()).take(8).collect::<Vec<_>>()
            };
            prop_assert_eq!(delays(seed), delays(seed));
            prop_assert_ne!(delays(seed), delays(other));
        }

        #[test]
        fn a_jittered_interval_loses_at_most_a_tenth(milliseconds in 0_u64..10_000_000_000, random: u64) {
            let interval = Duration::from_millis(milliseconds);
            let shortened = jittered(interval, random);
            prop_assert!(shortened <= interval && shortened >= interval - interval / 10);
        }

        #[test]
        fn no_duration_overflows(seconds: u64, earlier: u32, random: u64) {
            let any = Duration::from_secs(seconds);
            prop_assert!(jittered(any, random) <= any);
            prop_assert!(backoff_delay(any, any, earlier, random) <= any);
            prop_assert!(JitterSource::new(random).duration_up_to(any) <= any);
        }
    }

    #[test]
    fn random_bits_reach_both_ends() {
        let minute = Duration::from_secs(60);
        assert_eq!(jittered(minute, 0), minute);
        assert!(jittered(minute, u64::MAX) < Duration::from_millis(54_001));
        assert_eq!(backoff_delay(minute, minute, 3, 0), minute / 2);
        assert!(backoff_delay(minute, minute, 3, u64::MAX) > Duration::from_millis(59_999));
    }
}
