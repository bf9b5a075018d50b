//! What one source does next, without a clock and without I/O: events go in, effects come out.
//!
//! The heavy work (reading, rendering, looking at the cluster, syncing) is done by whoever carries the effects out; it
//! makes no choice about what comes next. The phases, and what leads from one to the other:
//!
//! ```text
//!  AwaitingCommit ─► AwaitingPoll (a request) ─► a round begins ─┬► Suspended
//!                                                                ├► Refused ◄─► CheckingGate ◄─► RestoringLastGood
//!                                                                └► CheckingGate ─┬► OutsideWindow
//!                                                   RestoringLastGood ◄──────────┤
//!                                                                                └► Planning ─► Executing ─┐
//!            GatheringDrift ◄── Watching ◄───────────────────────────────────────────┴─────────────────────┤
//!                                              Settling, BackingOff, Finished ◄────────────────────────────┘
//! ```
//!
//! Every pause and every wait ends in a new round, which takes the newest commit and what is requested by then.
//! Laws that hold for every history, which `tests/` tries:
//!
//! - A commit that is taken up gets a verdict, unless a newer one is taken up first; no verdict is one of an older commit.
//! - Nothing is written without the gate having been asked right before, whatever the reason of the write.
//! - One piece of work is under way at a time, and while it is, nothing is wanted but its end.
//! - Whoever waits has a next look: a timer, or a watch.
//! - Drift of an object that did not drift lately is looked at within the debounce, whatever other objects do.
//! - With `once` it ends.

mod answer;
mod effect;
mod event;
mod outcome;
mod round;
mod state;
#[cfg(test)]
mod tests;

pub(in crate::controller) use effect::ReconcileResult;
pub(super) use effect::{AttemptPass, RecheckScope, ReconcileEffect, RejectedRequest, ReportedWindow};
pub(super) use event::{
    AttemptOutcome, GateDecision, PlanFindings, ReconcileEvent, RestoreOutcome, RestoreReport, WindowOwner,
};
pub(super) use state::{HeldRevisionPlan, ReconcilePhase, ReconcilerStart};

use crate::controller::cache::drift_detector::DriftSignal;
use state::{Activity, KnownCommits, ReconcilePauses, RequestState, UncoveredState};
use stator_cluster::sync::CancelReason;
use std::time::Duration;

/// How long changes of live objects are gathered before they are looked at: one hand makes several.
const DRIFT_DEBOUNCE: Duration = Duration::from_millis(300);
/// The same of statuses, of which an operator writes several while a model comes up.
const STATUS_DEBOUNCE: Duration = Duration::from_secs(1);
/// The longest pause of a whole source after somebody deleted what its sync waited for.
const LONGEST_LOSS_PAUSE: Duration = Duration::from_secs(10);
/// How often drift is looked for where live objects cannot be watched.
const UNWATCHED_LOOK: Duration = Duration::from_secs(120);
/// After this long with a watch, the next loss of it is the first again.
const QUIET_AFTER_LOSS: Duration = Duration::from_secs(600);
/// How long the windows are believed: clocks are set, and not every opening can be foreseen.
const LONGEST_WINDOW_WAIT: Duration = Duration::from_secs(3600);
/// With `once`, attempts at one commit: a cluster that never keeps what it is given must not keep the process.
const MAX_ONCE_ATTEMPTS: u32 = 10;

/// One source's reconciler.
#[derive(Clone, Debug)]
pub(super) struct SourceReconciler {
    rules: ReconcilerRules,
    phase: ReconcilePhase,
    commits: KnownCommits,
    requests: RequestState,
    uncovered: UncoveredState,
    pauses: ReconcilePauses,
    /// What the next attempt looks at although its plan changes nothing.
    recheck: RecheckScope,
    /// When the next window opens, where none was open when the windows were last asked.
    window_opens_at: Option<Duration>,
    /// Whether live objects are watched for drift.
    is_watched: bool,
    is_stopping: bool,
}

/// What stays as it is for as long as a reconciler lives.
#[derive(Clone, Copy, Debug)]
struct ReconcilerRules {
    is_suspended: bool,
    self_heal: bool,
    once: bool,
    is_changed: bool,
    /// How many people have to approve what is held back.
    approvers: usize,
}

/// Which changes of live objects are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DriftInterest {
    /// Whether statuses are.
    pub(super) statuses: bool,
}

impl SourceReconciler {
    /// Before the first event.
    pub(super) fn new(start: ReconcilerStart) -> Self {
        let ReconcilerStart { is_suspended, self_heal, once, is_changed, requests, approvers, .. } = start;
        Self {
            rules: ReconcilerRules { is_suspended, self_heal, once, is_changed, approvers },
            phase: ReconcilePhase::AwaitingCommit,
            commits: KnownCommits {
                applied: start.applied,
                previously_applied: start.previously_applied,
                held: start.held,
                concluded: start.concluded,
                ..KnownCommits::default()
            },
            requests: RequestState {
                taken: requests.clone(),
                known: requests,
                handled: start.handled_request,
                ..RequestState::default()
            },
            uncovered: UncoveredState::default(),
            pauses: ReconcilePauses::new(start.seed),
            recheck: RecheckScope::Nothing,
            window_opens_at: None,
            is_watched: false,
            is_stopping: false,
        }
    }

    /// Takes an event in. `now` is a steady clock, counted from any moment.
    #[must_use = "effects that are not carried out are lost"]
    pub(super) fn step(&mut self, now: Duration, event: ReconcileEvent) -> Vec<ReconcileEffect> {
        let mut effects = Vec::new();
        match event {
            _ if self.phase == ReconcilePhase::Finished => {}
            ReconcileEvent::CommitFound(commit) => {
                self.commits.newest = Some(commit);
                self.interrupt(now, &mut effects);
            }
            ReconcileEvent::RequestsChanged(requests) => {
                self.requests.known = requests;
                self.interrupt(now, &mut effects);
            }
            ReconcileEvent::PollFinished { request } => {
                self.requests.polled = request;
                self.end_wait_for_poll(now, &mut effects);
            }
            ReconcileEvent::PollingEnded => {
                self.requests.polling_ended = true;
                self.end_wait_for_poll(now, &mut effects);
            }
            ReconcileEvent::GateChecked(decision) => self.gate_checked(now, decision, &mut effects),
            ReconcileEvent::AttemptPlanned { plan, is_watched } => {
                self.is_watched = is_watched;
                self.attempt_planned(now, *plan, &mut effects);
            }
            ReconcileEvent::AttemptFinished { outcome, is_watched } => {
                self.attempt_finished(now, outcome, is_watched, &mut effects);
            }
            ReconcileEvent::RestoreFinished { report, is_watched } => {
                self.restore_finished(now, &report, is_watched, &mut effects);
            }
            ReconcileEvent::Drifted(signal) => self.drifted(now, signal, &mut effects),
            ReconcileEvent::AccessRestored => {
                if self.awaits_access() {
                    self.begin_round(now, &mut effects);
                }
            }
            ReconcileEvent::TimerDue => self.timer_due(now, &mut effects),
            ReconcileEvent::Shutdown => {
                self.is_stopping = true;
                if !self.cancel_work(CancelReason::Interrupted, &mut effects) {
                    self.finish(ReconcileResult::Stopped, &mut effects);
                }
            }
        }
        effects
    }

    /// When a [`ReconcileEvent::TimerDue`] changes something.
    pub(super) fn wake_at(&self) -> Option<Duration> {
        self.phase.wait().until
    }

    /// Whether live objects matter now, and what of them.
    pub(super) fn drift_interest(&self) -> Option<DriftInterest> {
        self.phase.wait().drift.filter(|_| self.is_watched)
    }

    /// Whether [`ReconcileEvent::AccessRestored`] changes something.
    pub(super) fn awaits_access(&self) -> bool {
        self.phase.wait().access
    }

    /// Something else is known than what the current round began with: waits end, work goes on unless it is for naught.
    fn interrupt(&mut self, now: Duration, effects: &mut Vec<ReconcileEffect>) {
        match self.phase.wait().activity {
            Activity::Work => {
                // A commit whose signature is refused overtakes nothing: what it came upon is brought to its end.
                let newer = self.commits.newest.as_ref().filter(|newest| newest.refusal.is_none());
                if let Some(newer) = newer.filter(|newer| Some(&newer.commit) != self.commits.current_name()) {
                    let revision = newer.commit.clone();
                    self.cancel_work(CancelReason::Superseded { revision }, effects);
                }
            }
            // Whoever asked the gate sees to it when the answer comes.
            Activity::Gate | Activity::Finished => {}
            Activity::None => {
                if self.is_overtaken() {
                    self.begin_round(now, effects);
                }
            }
        }
    }

    /// What is known is not what the current round began with.
    fn is_overtaken(&self) -> bool {
        self.commits.newest.as_ref() != self.commits.current.as_ref().map(|current| &current.found)
            || self.requests.known != self.requests.taken
    }

    fn end_wait_for_poll(&mut self, now: Duration, effects: &mut Vec<ReconcileEffect>) {
        if matches!(self.phase, ReconcilePhase::AwaitingPoll { .. } | ReconcilePhase::AwaitingCommit) {
            self.begin_round(now, effects);
        }
    }

    /// Ends what is under way, once for each reason to: the process's own end is one although a newer commit came first.
    /// False when nothing that has to be waited for is.
    fn cancel_work(&mut self, reason: CancelReason, effects: &mut Vec<ReconcileEffect>) -> bool {
        let Some(is_cancelled) = self.phase.cancellation() else { return false };
        if !std::mem::replace(is_cancelled, true) || reason == CancelReason::Interrupted {
            effects.push(ReconcileEffect::CancelWork(reason));
        }
        true
    }

    fn drifted(&mut self, now: Duration, signal: DriftSignal, effects: &mut Vec<ReconcileEffect>) {
        let Some(interest) = self.drift_interest() else { return };
        let until = match signal {
            DriftSignal::Status if !interest.statuses => return,
            // What is seen of health is not put back, so it cannot come back either.
            DriftSignal::Status => {
                self.recheck = self.recheck.max(RecheckScope::Health);
                now + STATUS_DEBOUNCE
            }
            DriftSignal::Drift(object) => {
                self.expect_uncovered_drift();
                let due = self.pauses.repairs.look_at(now, &object);
                if due > now {
                    return self.look_again_by(due);
                }
                let current = self.commits.current_name();
                effects.extend(current.map(|current| ReconcileEffect::ReportDrift(current.clone())));
                now + DRIFT_DEBOUNCE
            }
            DriftSignal::Lost => {
                self.is_watched = false;
                self.expect_uncovered_drift();
                now + self.pause_after_loss(now)
            }
        };
        self.phase = ReconcilePhase::GatheringDrift { until };
    }

    /// A watch that is lost again and again is not opened again at once each time.
    fn pause_after_loss(&mut self, now: Duration) -> Duration {
        let pauses = &mut self.pauses;
        let before = pauses.watch_lost_at.replace(now);
        if before.is_none_or(|before| now.saturating_sub(before) > QUIET_AFTER_LOSS) {
            pauses.losses.reset();
            return DRIFT_DEBOUNCE;
        }
        pauses.losses.next_delay().clamp(DRIFT_DEBOUNCE, UNWATCHED_LOOK)
    }

    /// Whoever watches looks again by then. Until then others are watched as before.
    fn look_again_by(&mut self, due: Duration) {
        if let ReconcilePhase::Refused { next_look } | ReconcilePhase::Watching { next_look, .. } = &mut self.phase {
            *next_look = Some(next_look.map_or(due, |known| known.min(due)));
        }
    }

    fn timer_due(&mut self, now: Duration, effects: &mut Vec<ReconcileEffect>) {
        if self.wake_at().is_some_and(|due| due <= now) {
            let is_outside_window = matches!(self.phase, ReconcilePhase::OutsideWindow { .. });
            if !self.is_watched || is_outside_window {
                // Nobody was there to see it.
                self.expect_uncovered_drift();
            }
            self.begin_round(now, effects);
        }
    }

    /// What the newest commit does not cover may have drifted.
    fn expect_uncovered_drift(&mut self) {
        self.uncovered.restore_due |= self.uncovered.models.is_some() && self.commits.last_good().is_some();
    }

    fn finish(&mut self, result: ReconcileResult, effects: &mut Vec<ReconcileEffect>) {
        self.phase = ReconcilePhase::Finished;
        effects.push(ReconcileEffect::Finish(result));
    }
}
