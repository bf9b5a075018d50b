//! Which seeded schedules of faults a law tries, and how a failing one is run alone.
//!
//! `STATOR_SCHEDULES` says how many, and `STATOR_SCHEDULE_SEED` from which seed on: without it they are new ones in each run.

use std::hash::{BuildHasher as _, Hasher as _};

/// Tries a law on as many schedules as the environment says, or on this many. A schedule that fails says its seed.
pub fn try_schedules(otherwise: u64, law: impl Fn(u64)) {
    let first = number("STATOR_SCHEDULE_SEED").unwrap_or_else(|| std::hash::RandomState::new().build_hasher().finish());
    let count = number("STATOR_SCHEDULES").unwrap_or(otherwise);
    for seed in (0..count).map(|index| first.wrapping_add(index)) {
        let _named = NamedSchedule(seed);
        law(seed);
    }
}

/// The schedule that is tried.
pub struct NamedSchedule(pub u64);

impl Drop for NamedSchedule {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("STATOR_SCHEDULE_SEED={} STATOR_SCHEDULES=1 runs this schedule alone", self.0);
        }
    }
}

/// A number of the environment.
pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|error| panic!("{variable}={text}: {error}")))
}
