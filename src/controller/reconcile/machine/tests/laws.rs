//! What holds over random histories. [`World`] checks every step; found what holds at the end of each.

use super::super::*;
use super::world::{Work, World, commit, drift, identity, judged_as, refused_commit, summary};
use crate::controller::reconcile::attempt_report::{AttemptSummary, HeldPlan, NextStep, UncoveredModels};
use crate::controller::reconcile::drift_repairs::{DriftFindings, RepairDecision};
use crate::controller::sources::manual_requests::{HoldApproval, ManualRequests};
use proptest::prelude::*;
use stator_git::forge::StatusState;
use stator_model::plan::HoldKind;
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
enum Happening {
    Push { commit: u8, is_refused: bool },
    Request(u8),
    Approve(u8),
    Override(u8),
    Withdraw,
    Window(GateDecision),
    Poll,
    Answer { outcome: PlannedOutcome, restored: RestoreOutcome, is_watched: bool, is_whole: bool },
    Drift(DriftSignal),
    Access,
    Time(u16),
    Wake,
    Restart { suspended: bool },
}

fn name(number: u8) -> String {
    format!("{number:x}").repeat(8)
}

/// How an attempt ends, and whether its plan writes something.
#[derive(Clone, Debug)]
struct PlannedOutcome {
    outcome: AttemptOutcome,
    is_changing: bool,
}

impl PlannedOutcome {
    fn changing(outcome: AttemptOutcome) -> Self {
        Self { outcome, is_changing: true }
    }
}

fn outcome() -> impl Strategy<Value = PlannedOutcome> {
    let next = prop_oneof![
        Just(NextStep::Settle),
        Just(NextStep::Retry),
        Just(NextStep::RetrySlowly),
        any::<bool>().prop_map(|statuses| NextStep::Watch { statuses }),
    ];
    let uncovered = prop_oneof![
        2 => Just(None),
        1 => Just(Some(UncoveredModels::All)),
        1 => Just(Some(UncoveredModels::Some { names: ["m".to_owned()].into(), sources: BTreeSet::new() })),
    ];
    let object = || (0u8..3).prop_map(|object| identity(&name(object)));
    let drift = (prop::collection::btree_set(object(), 0..3), prop::collection::btree_set(object(), 0..3)).prop_map(
        |(repaired, left)| DriftFindings {
            waiting: left.difference(&repaired).cloned().collect(),
            repaired: repaired.into_iter().map(|object| (object, BTreeSet::new())).collect(),
            ..DriftFindings::default()
        },
    );
    let summary = (next, any::<bool>(), any::<bool>(), uncovered, drift).prop_map(
        |(next, is_success, is_held, uncovered, drift)| AttemptSummary {
            is_success,
            held: is_held.then(|| HeldPlan::for_test("plan")),
            uncovered,
            drift,
            ..summary(next)
        },
    );
    prop_oneof![
        6 => summary.clone().prop_map(|summary| PlannedOutcome::changing(judged_as(summary))),
        2 => summary.prop_map(|summary| PlannedOutcome { outcome: judged_as(summary), is_changing: false }),
        1 => (0u8..3).prop_map(|one| PlannedOutcome::changing(AttemptOutcome::ObjectLost(identity(&name(one))))),
        1 => (0u8..3).prop_map(|one| PlannedOutcome::changing(AttemptOutcome::ObjectChanged(identity(&name(one))))),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    let window = prop_oneof![
        2 => Just(GateDecision::Open),
        1 => (prop::option::of(0u64..200_000), any::<bool>()).prop_map(|(seconds, by_policy)| GateDecision::Closed {
            opens: None,
            opens_in: seconds.map(Duration::from_secs),
            owner: if by_policy { WindowOwner::Policy } else { WindowOwner::Source },
        }),
    ];
    let signal = prop_oneof![
        (0u8..3).prop_map(|object| DriftSignal::Drift(identity(&name(object)))),
        Just(DriftSignal::Status),
        Just(DriftSignal::Lost)
    ];
    let restored =
        prop_oneof![Just(RestoreOutcome::Restored), Just(RestoreOutcome::Failed), Just(RestoreOutcome::Cancelled)];
    prop_oneof![
        4 => (0u8..6, prop::bool::weighted(0.2)).prop_map(|(commit, is_refused)| Happening::Push { commit, is_refused }),
        2 => (0u8..4).prop_map(Happening::Request),
        1 => (0u8..6).prop_map(Happening::Approve),
        1 => (0u8..6).prop_map(Happening::Override),
        1 => Just(Happening::Withdraw),
        3 => window.prop_map(Happening::Window),
        4 => Just(Happening::Poll),
        10 => (outcome(), restored, prop::bool::weighted(0.8), prop::bool::weighted(0.7)).prop_map(
            |(outcome, restored, is_watched, is_whole)| Happening::Answer { outcome, restored, is_watched, is_whole },
        ),
        4 => signal.prop_map(Happening::Drift),
        1 => Just(Happening::Access),
        2 => (0u16..2000).prop_map(Happening::Time),
        4 => Just(Happening::Wake),
        1 => prop::bool::weighted(0.3).prop_map(|suspended| Happening::Restart { suspended }),
    ]
}

fn start() -> impl Strategy<Value = ReconcilerStart> {
    (any::<bool>(), any::<bool>(), any::<u64>()).prop_map(|(self_heal, is_changed, seed)| ReconcilerStart {
        self_heal,
        is_changed,
        seed,
        ..ReconcilerStart::default()
    })
}

/// What is under way is answered; what was told to stop may have been through before it heard.
fn answer(
    world: &mut World,
    PlannedOutcome { outcome, is_changing }: &PlannedOutcome,
    restored: RestoreOutcome,
    (is_watched, is_whole): (bool, bool),
) {
    match world.work.clone() {
        Some(Work::Gate) => world.check_gate(),
        Some(Work::Attempt) => {
            let is_cancelled = world.is_cancelled && is_watched;
            let plan = match outcome {
                AttemptOutcome::Concluded(report) if !is_changing => World::unchanged(&report.summary),
                AttemptOutcome::Concluded(_)
                | AttemptOutcome::Cancelled
                | AttemptOutcome::ObjectLost(_)
                | AttemptOutcome::ObjectChanged(_)
                | AttemptOutcome::FencedOff => PlanFindings { changing: 1, ..PlanFindings::default() },
            };
            if is_cancelled {
                world.answer_attempt(AttemptOutcome::Cancelled, plan, is_watched);
            } else if is_whole || world.is_executing {
                world.answer_attempt(outcome.clone(), plan, is_watched);
            } else {
                // Something happens before it is carried out.
                world.tell(ReconcileEvent::AttemptPlanned { plan: Box::new(plan), is_watched });
            }
        }
        Some(Work::Restore(_)) => {
            let is_cancelled = restored == RestoreOutcome::Cancelled;
            // It was told to stop, or somebody changed an object.
            let interrupted_by = (is_cancelled && !world.is_cancelled).then(|| identity("a"));
            let drift = DriftFindings { interrupted_by, ..DriftFindings::default() };
            let report = RestoreReport { outcome: restored, drift, left_drifted: None };
            world.tell(ReconcileEvent::RestoreFinished { report, is_watched });
        }
        None => {}
    }
}

fn happen(world: &mut World, happening: &Happening) {
    match happening {
        Happening::Push { commit: number, is_refused } => {
            let found = if *is_refused { refused_commit(&name(*number)) } else { commit(&name(*number)) };
            world.tell(ReconcileEvent::CommitFound(found));
        }
        Happening::Request(at) => world.request(&at.to_string()),
        Happening::Approve(number) => {
            let kinds = BTreeSet::from([HoldKind::MaxGpus]);
            world.requests.allow =
                Some(HoldApproval { kinds, revision: name(*number), plan: "plan".to_owned(), by: None });
            world.tell(ReconcileEvent::RequestsChanged(world.requests.clone()));
        }
        Happening::Override(number) => world.override_windows(&name(*number)),
        Happening::Withdraw => {
            world.requests =
                ManualRequests { requested_at: world.requests.requested_at.clone(), ..ManualRequests::default() };
            world.tell(ReconcileEvent::RequestsChanged(world.requests.clone()));
        }
        Happening::Window(gate) => world.gate = *gate,
        Happening::Poll => poll(world),
        Happening::Answer { outcome, restored, is_watched, is_whole } => {
            answer(world, outcome, *restored, (*is_watched, *is_whole));
        }
        Happening::Drift(signal) => {
            let interest = world.machine.drift_interest();
            if interest.is_some_and(|interest| interest.statuses || *signal != DriftSignal::Status) {
                world.tell(ReconcileEvent::Drifted(signal.clone()));
            }
        }
        Happening::Access => {
            if world.machine.awaits_access() {
                world.tell(ReconcileEvent::AccessRestored);
            }
        }
        Happening::Time(seconds) => {
            world.now += Duration::from_secs(u64::from(*seconds));
            if world.machine.wake_at().is_some_and(|wake| wake <= world.now) {
                world.tell(ReconcileEvent::TimerDue);
            }
        }
        Happening::Wake => {
            if world.machine.wake_at().is_some() {
                world.pass_to_wake();
            }
        }
        Happening::Restart { suspended } => restart(world, *suspended),
    }
}

fn poll(world: &mut World) {
    if let Some(newest) = world.newest.clone() {
        world.tell(ReconcileEvent::CommitFound(newest));
    }
    world.tell(ReconcileEvent::PollFinished { request: world.requests.requested_at.clone() });
}

/// The source ends between two writes, and another process, or another spec, takes it on.
fn restart(world: &mut World, is_suspended: bool) {
    world.tell(ReconcileEvent::Shutdown);
    for _ in 0..2 {
        answer(world, &PlannedOutcome::changing(AttemptOutcome::Cancelled), RestoreOutcome::Restored, (true, true));
    }
    assert_eq!(world.result.take(), Some(ReconcileResult::Stopped));
    let start = ReconcilerStart {
        is_suspended,
        self_heal: true,
        requests: world.requests.clone(),
        handled_request: world.handled.last().cloned(),
        previously_applied: world.applied.clone(),
        ..ReconcilerStart::default()
    };
    world.machine = SourceReconciler::new(start);
    world.announced.clear();
    world.judged = None;
    if let Some(newest) = world.newest.clone() {
        world.tell(ReconcileEvent::CommitFound(newest));
    }
}

/// Nothing happens any more, and everything that is done goes well.
fn settle(world: &mut World) {
    world.open_window();
    let well = PlannedOutcome::changing(judged_as(summary(NextStep::Watch { statuses: false })));
    for _ in 0..40 {
        answer(world, &well, RestoreOutcome::Restored, (true, true));
        poll(world);
        let is_resting = matches!(
            world.machine.phase,
            ReconcilePhase::Watching { is_refused: false, next_look: None, .. }
                | ReconcilePhase::Refused { next_look: None }
                | ReconcilePhase::Suspended
                | ReconcilePhase::AwaitingCommit
        );
        if !is_resting && world.machine.wake_at().is_some() {
            world.pass_to_wake();
        }
    }
    assert_eq!(world.work, None, "it does not come to rest: {:?}", world.machine.phase);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_newest_commit_wins_and_every_commit_gets_its_verdict(
        start in start(),
        history in prop::collection::vec(happening(), 0..60),
    ) {
        let mut world = World::new(start);
        for happening in &history {
            happen(&mut world, happening);
        }
        settle(&mut world);
        let newest = world.newest.clone().map(|newest| newest.commit);
        prop_assert_eq!(world.announced.last(), newest.as_ref());
        if !world.machine.rules.is_suspended {
            // Those before it are superseded by its announcement.
            prop_assert_eq!(world.judged.as_ref(), newest.as_ref());
            let statuses = world.ledger.desired_statuses();
            let mut named: Vec<_> = statuses.iter().map(|(commit, status)| (commit, &status.context)).collect();
            named.sort();
            named.dedup();
            prop_assert_eq!(named.len(), statuses.len(), "one status a commit and context");
            for (commit, status) in &statuses {
                prop_assert_ne!(status.state, StatusState::Pending, "{} has no verdict", commit);
            }
        }
        prop_assert_eq!(world.handled.last().cloned(), world.requests.requested_at.clone());
    }

    #[test]
    fn what_drifted_of_uncovered_models_is_restored_once_the_gate_is_open(
        start in start(),
        history in prop::collection::vec(happening(), 0..40),
    ) {
        let mut world = World::new(ReconcilerStart { self_heal: true, ..start });
        for happening in &history {
            happen(&mut world, happening);
        }
        settle(&mut world);
        prop_assert!(!world.machine.uncovered.restore_due || world.machine.commits.last_good().is_none());
    }

    #[test]
    fn with_once_it_ends(
        found in prop::option::of((0u8..6, any::<bool>())),
        suspended in any::<bool>(),
        requested in any::<bool>(),
        gate in prop::bool::weighted(0.8),
        outcomes in prop::collection::vec(outcome(), 1..5),
    ) {
        let requests = ManualRequests { requested_at: requested.then(|| "now".to_owned()), ..ManualRequests::default() };
        let mut world =
            World::new(ReconcilerStart { once: true, is_suspended: suspended, requests, ..ReconcilerStart::default() });
        if !gate {
            world.close_window(None);
        }
        if let Some((number, is_refused)) = found {
            happen(&mut world, &Happening::Push { commit: number, is_refused });
        }
        world.tell(ReconcileEvent::PollingEnded);
        let mut outcomes = outcomes.iter().cycle();
        for _ in 0..100 {
            if world.result.is_some() {
                break;
            }
            if world.work.is_some() {
                if let Some(outcome) = outcomes.next() {
                    answer(&mut world, outcome, RestoreOutcome::Restored, (true, true));
                }
            } else {
                world.pass_to_wake();
            }
        }
        prop_assert!(world.result.is_some(), "{:?}", world.machine.phase);
        prop_assert!(world.now < Duration::from_secs(3600), "after {:?}", world.now);
    }

    /// Row E3 of the review: a second drift within minutes of a first waited, also of another model.
    #[test]
    fn drift_of_an_object_waits_for_nothing_that_another_object_does(
        start in start(),
        history in prop::collection::vec(happening(), 0..60),
    ) {
        let mut world = World::new(ReconcilerStart { self_heal: true, ..start });
        for happening in &history {
            happen(&mut world, happening);
        }
        if world.machine.drift_interest().is_some() {
            world.tell(drift("untouched"));
            prop_assert_eq!(world.machine.wake_at(), Some(world.now + DRIFT_DEBOUNCE));
            world.pass_to_wake();
            if world.work == Some(Work::Gate) {
                world.open_window();
                world.check_gate();
                let waits = world.pass.as_ref().is_some_and(|pass| {
                    pass.limits.decide(&identity("untouched"), &BTreeSet::new()) != RepairDecision::Repair
                });
                prop_assert!(!waits);
            }
        }
    }

    #[test]
    fn it_stops_when_it_is_told_to(start in start(), history in prop::collection::vec(happening(), 0..40)) {
        let mut world = World::new(start);
        for happening in &history {
            happen(&mut world, happening);
        }
        restart(&mut world, false);
    }
}
