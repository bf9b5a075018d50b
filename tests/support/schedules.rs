//! Which seeded schedules of faults a law tries, and how a failing one is run alone.
//!
//! `STATOR_SCHEDULE_SEED` says from which seed on: without it they are new ones in each run.

use std::hash::{BuildHasher as _, Hasher as _};

/// As many seeds as this variable says, or as this.
pub fn seeds(variable: &str, otherwise: u64) -> impl Iterator<Item = u64> {
    let first = number("STATOR_SCHEDULE_SEED").unwrap_or_else(|| std::hash::RandomState::new().build_hasher().finish());
    (0..number(variable).unwrap_or(otherwise)).map(move |index| first.wrapping_add(index))
}

/// How the schedule of a seed is run alone.
pub fn how_to_repeat(variable: &str, seed: u64) -> String {
    format!("STATOR_SCHEDULE_SEED={seed} {variable}=1 runs this schedule alone")
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|error| panic!("{variable}={text}: {error}")))
}
