//! One history at a time; the laws over random ones are in `laws`.

mod laws;
mod schedules;
mod world;

use super::*;
use crate::controller::reconcile::attempt_report::{AttemptSummary, NextStep, UncoveredModels};
use crate::controller::reconcile::drift_repairs::{DriftFindings, RepairLimits};
use std::collections::{BTreeMap, BTreeSet};
use world::{Work, World, commit, drift, identity, judged, refused_commit, summary};

const MINUTE: Duration = Duration::from_secs(60);

fn healthy() -> AttemptOutcome {
    judged(NextStep::Watch { statuses: false }, true)
}

/// A commit that has errors in some models, and is synced otherwise.
fn partly_invalid() -> AttemptOutcome {
    let names = ["broken".to_owned()].into();
    let uncovered = Some(UncoveredModels::Some { names, sources: std::collections::BTreeSet::new() });
    let next = NextStep::Watch { statuses: false };
    world::judged_as(AttemptSummary { uncovered, is_success: false, ..summary(next) })
}

#[test]
fn a_commit_goes_through_the_gate_to_its_verdict() {
    let mut world = World::new(ReconcilerStart { self_heal: true, ..ReconcilerStart::default() });
    world.tell(ReconcileEvent::CommitFound(commit("a")));
    assert_eq!(world.work, Some(Work::Gate));
    world.check_gate();
    assert_eq!(world.work, Some(Work::Attempt));
    world.finish_attempt(healthy());
    assert_eq!(world.verdicts, ["a: judged"]);
    assert!(matches!(world.machine.phase, ReconcilePhase::Watching { is_refused: false, .. }));
}

/// Row E1 of the review: what drifted of a model that the newest commit does not cover was put back with the window closed.
#[test]
fn the_last_good_commit_is_restored_only_through_an_open_gate() {
    let mut world = World::new(ReconcilerStart { self_heal: true, ..ReconcilerStart::default() });
    world.sync("a", healthy());
    world.sync("b", partly_invalid());
    world.close_window(Some(30 * MINUTE));
    world.tell(drift("llama"));
    world.pass_to_wake();
    world.check_gate();
    assert_eq!(world.work, None, "nothing is written while no window is open");
    assert!(matches!(world.machine.phase, ReconcilePhase::OutsideWindow { .. }));
    world.open_window();
    world.pass_to_wake();
    world.check_gate();
    assert_eq!(world.work, Some(Work::Restore("a".to_owned())), "and it is put back once one is");
}

/// Row E1, for a commit whose signature is refused: drift waits for the window, and is not forgotten there.
#[test]
fn what_a_refused_commit_keeps_is_restored_when_the_window_opens() {
    let mut world = World::new(ReconcilerStart { self_heal: true, ..ReconcilerStart::default() });
    world.sync("a", healthy());
    world.tell(ReconcileEvent::CommitFound(refused_commit("b")));
    world.close_window(Some(30 * MINUTE));
    world.tell(drift("llama"));
    world.pass_to_wake();
    world.check_gate();
    assert_eq!(world.work, None);
    let before = world.now;
    world.open_window();
    world.pass_to_wake();
    assert!(world.now - before >= 29 * MINUTE);
    world.check_gate();
    assert_eq!(world.work, Some(Work::Restore("a".to_owned())));
}

/// What drifted while no process ran waited two minutes for a look.
#[test]
fn a_process_that_starts_with_a_refused_commit_looks_at_once_at_what_it_keeps() {
    let start =
        ReconcilerStart { self_heal: true, previously_applied: Some("a".to_owned()), ..ReconcilerStart::default() };
    let mut world = World::new(start);
    world.tell(ReconcileEvent::CommitFound(refused_commit("b")));
    world.check_gate();
    assert_eq!(world.work, Some(Work::Restore("a".to_owned())));
}

/// Row D1: a refusal at a look was never tried again.
#[test]
fn a_refusal_of_the_cluster_is_tried_again_by_itself_and_at_once_when_access_is_restored() {
    let mut world = World::new(ReconcilerStart { self_heal: true, ..ReconcilerStart::default() });
    let refused = || judged(NextStep::RetrySlowly, false);
    world.sync("a", refused());
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let before = world.now;
        world.pass_to_wake();
        pauses.push(world.now - before);
        world.check_gate();
        assert_eq!(world.work, Some(Work::Attempt));
        world.finish_attempt(refused());
    }
    assert!(pauses.iter().all(|pause| (MINUTE..=10 * MINUTE).contains(pause)), "{pauses:?}");
    assert!(pauses[0] <= 2 * MINUTE && pauses[7] >= 5 * MINUTE, "{pauses:?}");
    world.tell(ReconcileEvent::AccessRestored);
    assert_eq!(world.work, Some(Work::Gate));
}

#[test]
fn a_write_that_was_refused_is_tried_again_at_once_when_its_right_is_granted() {
    let mut world = World::new(ReconcilerStart { self_heal: true, ..ReconcilerStart::default() });
    world.sync("a", judged(NextStep::Retry, false));
    assert_eq!(world.work, None);
    world.tell(ReconcileEvent::AccessRestored);
    assert_eq!(world.work, Some(Work::Gate));
}

/// With `selfHeal: false`, a new commit is written in full however often the cluster refuses it first.
#[test]
fn a_commit_that_was_refused_by_the_cluster_is_still_new() {
    let mut world = World::new(ReconcilerStart::default());
    world.sync("a", judged(NextStep::RetrySlowly, false));
    world.pass_to_wake();
    world.check_gate();
    assert!(world.pass.as_ref().is_some_and(|pass| pass.heal));
    world.finish_attempt(healthy());
    world.tell(drift("llama"));
    world.pass_to_wake();
    world.check_gate();
    assert!(world.pass.as_ref().is_some_and(|pass| !pass.heal));
}

#[test]
fn a_newer_commit_ends_the_attempt_and_one_that_is_refused_does_not() {
    let mut world = World::new(ReconcilerStart::default());
    world.tell(ReconcileEvent::CommitFound(commit("a")));
    world.check_gate();
    world.tell(ReconcileEvent::CommitFound(refused_commit("b")));
    assert!(!world.is_cancelled);
    world.tell(ReconcileEvent::CommitFound(commit("c")));
    assert!(world.is_cancelled);
    world.finish_attempt(AttemptOutcome::Cancelled);
    world.check_gate();
    world.finish_attempt(healthy());
    assert_eq!((world.announced.join(" "), world.verdicts.join(" ")), ("a c".to_owned(), "c: judged".to_owned()));
}

#[test]
fn a_request_waits_for_a_poll_and_is_answered_once() {
    let mut world = World::new(ReconcilerStart::default());
    world.sync("a", healthy());
    world.request("now");
    assert_eq!(world.work, None);
    world.tell(ReconcileEvent::PollFinished { request: None });
    assert_eq!(world.work, None, "that poll began before the request");
    world.tell(ReconcileEvent::PollFinished { request: Some("now".to_owned()) });
    world.check_gate();
    assert_eq!(world.pass.as_ref().map(|pass| (pass.heal, pass.recheck)), Some((true, RecheckScope::Everything)));
    world.finish_attempt(healthy());
    assert_eq!(world.handled, ["now"]);
}

#[test]
fn an_attempt_that_was_cancelled_leaves_what_it_was_to_look_at_to_the_next() {
    let mut world = World::new(ReconcilerStart::default());
    world.sync("a", healthy());
    world.request("now");
    world.tell(ReconcileEvent::PollFinished { request: Some("now".to_owned()) });
    world.check_gate();
    world.tell(ReconcileEvent::CommitFound(commit("b")));
    world.finish_attempt(AttemptOutcome::Cancelled);
    world.check_gate();
    assert_eq!(world.pass.as_ref().map(|pass| pass.recheck), Some(RecheckScope::Everything));
}

/// A branch that is set back to a commit that had its verdict: it is pending again, and gets one again.
#[test]
fn a_commit_that_is_taken_up_again_gets_a_verdict_although_nothing_changed() {
    let mut world = World::new(ReconcilerStart::default());
    world.sync("a", healthy());
    world.tell(ReconcileEvent::CommitFound(refused_commit("b")));
    world.tell(ReconcileEvent::CommitFound(commit("a")));
    world.check_gate();
    assert!(world.looks_at_everything());
}

/// A commit that waits for a window after it had a verdict is pending while it does.
#[test]
fn a_commit_that_waited_for_a_window_gets_a_verdict_again() {
    let mut world = World::new(ReconcilerStart::default());
    world.sync("a", judged(NextStep::Retry, false));
    world.close_window(Some(MINUTE));
    world.pass_to_wake();
    world.check_gate();
    world.open_window();
    world.pass_to_wake();
    world.check_gate();
    assert!(world.looks_at_everything() && world.judged.is_none());
}

#[test]
fn nobody_opens_the_windows_of_a_policy() {
    let mut world = World::new(ReconcilerStart::default());
    world.close_policy_window(Some(Duration::from_secs(60)));
    world.override_windows("a");
    world.tell(ReconcileEvent::CommitFound(commit("a")));
    world.check_gate();
    assert_eq!(world.work, None, "the windows of a policy are closed");
    world.request("1");
    world.tell(ReconcileEvent::PollFinished { request: Some("1".to_owned()) });
    world.check_gate();
    assert_eq!(world.rejected.iter().collect::<Vec<_>>(), [&RejectedRequest::SyncWithoutPolicyWindow]);
    // When they open, what somebody permitted opens the source's own.
    assert_eq!(world.machine.wake_at(), Some(world.now + Duration::from_secs(60)));
    world.close_window(None);
    world.pass_to_wake();
    world.check_gate();
    assert_eq!(world.work, Some(Work::Attempt));
}

#[test]
fn a_commit_is_synced_outside_the_windows_once_where_somebody_asks_for_it() {
    let mut world = World::new(ReconcilerStart { self_heal: true, ..ReconcilerStart::default() });
    world.close_window(None);
    world.override_windows("b");
    world.tell(ReconcileEvent::CommitFound(commit("a")));
    world.check_gate();
    assert_eq!(world.work, None, "another commit was meant");
    assert!(world.rejected.iter().any(|one| matches!(one, RejectedRequest::StaleWindowOverride { .. })));
    world.tell(ReconcileEvent::CommitFound(commit("b")));
    world.check_gate();
    world.finish_attempt(judged(NextStep::Settle, true));
    world.check_gate();
    world.finish_attempt(healthy());
    world.tell(drift("llama"));
    world.pass_to_wake();
    world.check_gate();
    assert_eq!(world.work, None, "what was let through once is through");
}

/// An attempt that put these objects back.
fn repaired(names: &[&str]) -> AttemptOutcome {
    let repaired: BTreeMap<_, _> = names.iter().map(|name| (identity(name), BTreeSet::new())).collect();
    let drift = DriftFindings { repaired, ..DriftFindings::default() };
    world::judged_as(AttemptSummary { drift, ..summary(NextStep::Settle) })
}

/// Lets the reconciler look, put one object back, and see that all is well.
fn heal(world: &mut World, name: &str) {
    world.pass_to_wake();
    world.check_gate();
    assert!(world.pass.as_ref().is_some_and(|pass| pass.heal));
    world.finish_attempt(repaired(&[name]));
    world.check_gate();
    world.finish_attempt(healthy());
}

/// Row E3 of the review: of ten drifts a second apart, four or five were healed within 20 s.
#[test]
fn ten_objects_that_drift_one_after_the_other_are_each_put_back_at_once() {
    let mut world = World::new(ReconcilerStart { self_heal: true, ..ReconcilerStart::default() });
    world.sync("a", healthy());
    for number in 0..10 {
        let (name, before) = (format!("mock-{number}"), world.now);
        world.tell(drift(&name));
        heal(&mut world, &name);
        assert_eq!(world.now - before, DRIFT_DEBOUNCE, "{name}");
        world.now += Duration::from_secs(1);
    }
}

#[test]
fn a_watch_that_is_lost_again_and_again_is_opened_less_and_less_often() {
    let mut world = World::new(ReconcilerStart { self_heal: true, ..ReconcilerStart::default() });
    world.sync("a", healthy());
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let before = world.now;
        world.tell(ReconcileEvent::Drifted(DriftSignal::Lost));
        world.pass_to_wake();
        pauses.push(world.now - before);
        world.check_gate();
        world.finish_attempt(healthy());
    }
    assert_eq!(pauses[0], DRIFT_DEBOUNCE);
    assert!(pauses[11] >= MINUTE && pauses.iter().all(|pause| *pause <= UNWATCHED_LOOK), "{pauses:?}");
}

/// Row E3: the same object backs off by itself, and nobody waits for it.
#[test]
fn an_object_that_drifts_again_and_again_waits_alone() {
    let mut world = World::new(ReconcilerStart { self_heal: true, ..ReconcilerStart::default() });
    world.sync("a", healthy());
    let mut pauses = Vec::new();
    for number in 0..8 {
        let before = world.now;
        world.tell(drift("fought"));
        if !matches!(world.machine.phase, ReconcilePhase::GatheringDrift { .. }) {
            // Another one that drifts meanwhile.
            let (other, now) = (format!("other-{number}"), world.now);
            world.tell(drift(&other));
            heal(&mut world, &other);
            assert_eq!(world.now - now, DRIFT_DEBOUNCE, "{other}");
            world.tell(drift("fought"));
        }
        heal(&mut world, "fought");
        pauses.push(world.now - before);
    }
    assert!(pauses[0] == DRIFT_DEBOUNCE && pauses[7] > Duration::from_secs(30), "{pauses:?}");
    // A person who asks for a sync does not wait for it.
    world.tell(drift("fought"));
    world.request("now");
    world.tell(ReconcileEvent::PollFinished { request: Some("now".to_owned()) });
    world.check_gate();
    assert!(world.pass.as_ref().is_some_and(|pass| pass.limits == RepairLimits::default()));
}

/// Ten models drift within ten seconds while attempts take their time: planning and writing, and then a wait for health
/// that the next drift ends. How long each object waited until it was written, on the clock of the test.
fn heal_times(moments: &[Duration]) -> Vec<Duration> {
    const WRITES: Duration = Duration::from_millis(100);
    const HEALTH: Duration = Duration::from_secs(5);
    let mut world = World::new(ReconcilerStart { self_heal: true, ..ReconcilerStart::default() });
    world.sync("a", healthy());
    let mut drifted: BTreeMap<usize, Duration> = BTreeMap::new();
    let mut coming = moments.iter().copied().enumerate().peekable();
    let mut times = Vec::new();
    while times.len() < moments.len() {
        let next = coming.peek().map(|(_, at)| *at);
        let wake = world.machine.wake_at();
        match world.work.clone() {
            Some(Work::Gate) => world.check_gate(),
            Some(Work::Attempt) => {
                // An object that drifts while the attempt goes on ends it, where it is one that did not drift lately.
                let (begun, through) = (world.now, world.now + if drifted.is_empty() { WRITES } else { HEALTH });
                let interrupted_at = next.filter(|at| *at < through);
                world.now = interrupted_at.unwrap_or(through);
                let is_written = world.now >= begun + WRITES;
                let mut put_back = Vec::new();
                if is_written {
                    for (number, since) in std::mem::take(&mut drifted) {
                        times.push(begun + WRITES - since);
                        put_back.push(number);
                    }
                }
                if interrupted_at.is_some()
                    && let Some((number, at)) = coming.next()
                {
                    drifted.insert(number, at);
                    let object = identity(&format!("mock-{number}"));
                    world.finish_attempt(AttemptOutcome::ObjectChanged(object));
                } else if put_back.is_empty() {
                    world.finish_attempt(healthy());
                } else {
                    let names: Vec<String> = put_back.iter().map(|number| format!("mock-{number}")).collect();
                    world.finish_attempt(repaired(&names.iter().map(String::as_str).collect::<Vec<_>>()));
                }
            }
            Some(Work::Restore(_)) => panic!("nothing is uncovered"),
            None if next.is_some_and(|at| wake.is_none_or(|wake| at <= wake)) => {
                let (number, at) = coming.next().unwrap();
                world.now = world.now.max(at);
                drifted.insert(number, at);
                if world.machine.drift_interest().is_some() {
                    world.tell(drift(&format!("mock-{number}")));
                }
            }
            None => world.pass_to_wake(),
        }
    }
    times
}

#[test]
fn ten_models_that_drift_within_ten_seconds_are_healed_within_one_second_each() {
    let mut random = stator_core::retry::JitterSource::new(1);
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..100 {
        // One in each second, at any moment of it.
        let moments = (0..10).map(|second| Duration::from_secs(second) + random.duration_up_to(Duration::from_secs(1)));
        times.extend(heal_times(&moments.collect::<Vec<_>>()));
    }
    times.sort();
    assert!(times[times.len() * 95 / 100] < Duration::from_secs(1), "{:?}", &times[times.len() * 95 / 100..]);
    // All at once is healed at once as well.
    let times = heal_times(&[Duration::from_secs(1); 10]);
    assert!(times.iter().all(|time| *time < Duration::from_secs(1)), "{times:?}");
}
