//! The embedded cluster against a real API server: whatever is done to an object, both say and hold the same.
//!
//! `STATOR_DIFFERENTIAL_SEQUENCES` says how many random lives of an object are tried (60; a nightly run takes 500), and
//! `STATOR_DIFFERENTIAL_SEED` which: without it they are new ones in each run, and the seed is printed. A life that they disagree about is shrunk to its shortest form, each attempt on an
//! object of its own; it belongs into `regressions.rs` once the embedded cluster is corrected.

mod compare;
mod generate;
mod real;
mod regressions;
mod sides;
mod steps;

use self::compare::Seen;
use self::real::Real;
use self::steps::Sequence;
use crate::testbed;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use stator_model::present::patch::unified_diff;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a shrinking may cost at most: attempts, and milliseconds.
const SHRINKING: (u32, u32) = (2000, 120_000);

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|error| panic!("{variable}={text}: {error}")))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A name that no other attempt has.
fn fresh() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("life-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// What differs, told step by step.
fn difference(sequence: &Sequence, embedded: &[Seen], real: &[Seen]) -> Option<String> {
    let at = embedded.iter().zip(real).position(|(one, other)| !one.agrees(other))?;
    let mut text = format!("they disagree after step {at}:\n");
    for (step, (one, other)) in sequence.steps.iter().zip(embedded.iter().zip(real)).take(at + 1) {
        let _ = writeln!(text, "{step}");
        if !one.agrees(other) {
            let (one, other) = (format!("{one:#?}"), format!("{other:#?}"));
            let _ = writeln!(text, "{}", unified_diff(("embedded", &one), ("real", &other)));
        }
    }
    Some(text)
}

async fn compare(real: &Real, sequence: &Sequence) -> Result<(), String> {
    let name = fresh();
    let folder = sides::Folder::new();
    let embedded = sides::run(&folder, sequence, &real.namespace, &name).await;
    let other = sides::run(real, sequence, &real.namespace, &name).await;
    difference(sequence, &embedded, &other).map_or(Ok(()), Err)
}

#[test]
fn whatever_is_done_both_clusters_agree() {
    let Some(plane) = testbed::shared() else { return };
    let runtime = runtime();
    let real = runtime.block_on(Real::of(plane, "differential"));
    let seed = number("STATOR_DIFFERENTIAL_SEED").unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0);
    testbed::say(&format!("lives of objects with STATOR_DIFFERENTIAL_SEED={seed}"));
    let config = Config {
        cases: u32::try_from(number("STATOR_DIFFERENTIAL_SEQUENCES").unwrap_or(60)).unwrap(),
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        max_shrink_iters: SHRINKING.0,
        max_shrink_time: SHRINKING.1,
        ..Config::default()
    };
    let done = TestRunner::new(config).run(&generate::sequence(), |sequence| {
        runtime.block_on(compare(&real, &sequence)).map_err(TestCaseError::fail)
    });
    match done {
        Ok(()) => {}
        Err(TestError::Fail(why, sequence)) => panic!("seed {seed}: {sequence:?}\n{why}"),
        Err(TestError::Abort(why)) => panic!("seed {seed}: {why}"),
    }
}

#[test]
fn what_they_once_disagreed_about_stays_settled() {
    let Some(plane) = testbed::shared() else { return };
    let runtime = runtime();
    let real = runtime.block_on(Real::of(plane, "differential-settled"));
    for (name, sequence) in regressions::all() {
        if let Err(why) = runtime.block_on(compare(&real, &sequence)) {
            panic!("{name}: {sequence:?}\n{why}");
        }
    }
}
