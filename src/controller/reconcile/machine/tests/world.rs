//! A runner without a cluster: it carries effects out by noting them, and checks what must hold at every step.

use super::super::*;
use crate::controller::reconcile::attempt_report::{AttemptReport, AttemptSummary, NextStep};
use crate::controller::reconcile::commit::PolledCommit;
use crate::controller::reconcile::drift_repairs::DriftFindings;
use crate::controller::report::commit_statuses::ledger::{CommitLedger, StatusContexts};
use crate::controller::sources::manual_requests::ManualRequests;
use crate::controller::status_wording::{CommitStage, CommitVerdict};
use stator_cluster::sync::CancelReason;
use stator_core::object::ObjectIdentity;
use std::collections::BTreeSet;

/// An object of this name.
pub(super) fn identity(name: &str) -> ObjectIdentity {
    let text = |text: &str| text.to_owned();
    ObjectIdentity { namespace: text("models"), group: text("nvidia.com"), kind: text("Graph"), name: text(name) }
}

/// Drift of an object of this name.
pub(super) fn drift(name: &str) -> ReconcileEvent {
    ReconcileEvent::Drifted(DriftSignal::Drift(identity(name)))
}

/// What is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Gate,
    Attempt,
    Restore(String),
}

pub(super) struct World {
    pub(super) machine: SourceReconciler,
    pub(super) now: Duration,
    pub(super) work: Option<Work>,
    pub(super) is_cancelled: bool,
    pub(super) pass: Option<AttemptPass>,
    /// Whether the attempt that is under way carries its plan out.
    pub(super) is_executing: bool,
    pub(super) gate: GateDecision,
    pub(super) requests: ManualRequests,
    pub(super) newest: Option<PolledCommit>,
    /// Commits in the order in which they were taken up.
    pub(super) announced: Vec<String>,
    pub(super) verdicts: Vec<String>,
    /// What the git host is to show.
    pub(super) ledger: CommitLedger,
    /// The commit of the last verdict since it was announced or reopened.
    pub(super) judged: Option<String>,
    pub(super) applied: Option<String>,
    pub(super) handled: Vec<String>,
    pub(super) rejected: BTreeSet<RejectedRequest>,
    pub(super) result: Option<ReconcileResult>,
    pub(super) drift_reports: usize,
}

pub(super) fn commit(name: &str) -> PolledCommit {
    PolledCommit::for_test(name, false)
}

pub(super) fn refused_commit(name: &str) -> PolledCommit {
    PolledCommit::for_test(name, true)
}

pub(super) fn summary(next: NextStep) -> AttemptSummary {
    AttemptSummary { next, is_success: true, held: None, uncovered: None, drift: DriftFindings::default() }
}

pub(super) fn judged_as(summary: AttemptSummary) -> AttemptOutcome {
    AttemptOutcome::Concluded(Box::new(AttemptReport::for_test(summary)))
}

pub(super) fn judged(next: NextStep, is_success: bool) -> AttemptOutcome {
    judged_as(AttemptSummary { is_success, ..summary(next) })
}

impl World {
    pub(super) fn new(start: ReconcilerStart) -> Self {
        Self {
            requests: start.requests.clone(),
            machine: SourceReconciler::new(start),
            now: Duration::ZERO,
            work: None,
            is_cancelled: false,
            pass: None,
            is_executing: false,
            gate: GateDecision::Open,
            newest: None,
            announced: Vec::new(),
            verdicts: Vec::new(),
            ledger: CommitLedger::new(StatusContexts {
                prefix: "stator".to_owned(),
                environment: "prod".to_owned(),
                per_model: false,
                most_models: 0,
                target_url: None,
            }),
            judged: None,
            applied: None,
            handled: Vec::new(),
            rejected: BTreeSet::new(),
            result: None,
            drift_reports: 0,
        }
    }

    /// Takes an event in, and carries out what follows.
    pub(super) fn tell(&mut self, event: ReconcileEvent) {
        if let ReconcileEvent::CommitFound(found) = &event {
            self.newest = Some(found.clone());
        }
        let is_answer = matches!(
            event,
            ReconcileEvent::GateChecked(_)
                | ReconcileEvent::AttemptPlanned { .. }
                | ReconcileEvent::AttemptFinished { .. }
                | ReconcileEvent::RestoreFinished { .. }
        );
        if is_answer {
            self.work = None;
            self.is_cancelled = false;
        }
        let gate = if let ReconcileEvent::GateChecked(decision) = &event { Some(*decision) } else { None };
        let must_publish =
            matches!(event, ReconcileEvent::AttemptFinished { outcome: AttemptOutcome::Concluded(_), .. });
        // The gate was open when the attempt began, and planning writes nothing.
        let is_planned = matches!(event, ReconcileEvent::AttemptPlanned { .. });
        let is_drift = matches!(event, ReconcileEvent::Drifted(DriftSignal::Drift(_)));
        let is_heard = self.machine.drift_interest().is_some();
        let drift_reports = self.drift_reports;
        let verdicts = self.verdicts.len();
        assert!(self.result.is_none() || self.work.is_none());
        let effects = self.machine.step(self.now, event);
        assert!(self.result.is_none() || effects.is_empty(), "{effects:?} after the end");
        for effect in effects {
            assert!(is_planned || !matches!(effect, ReconcileEffect::ExecutePlan { .. }), "a plan that is not ready");
            self.carry_out(effect, gate);
        }
        assert!(!must_publish || self.verdicts.len() > verdicts, "a verdict was lost");
        if is_drift && is_heard {
            let is_gathering = matches!(self.machine.phase, ReconcilePhase::GatheringDrift { .. });
            assert_eq!(is_gathering, self.drift_reports > drift_reports, "drift that is looked at is reported");
            assert!(is_gathering || self.machine.wake_at().is_some(), "nobody looks at drift");
        }
        self.check_next_look();
    }

    fn carry_out(&mut self, effect: ReconcileEffect, gate: Option<GateDecision>) {
        let is_busy = matches!(self.work, Some(Work::Attempt | Work::Restore(_)));
        let is_cancel = matches!(effect, ReconcileEffect::CancelWork(_));
        assert!(!is_busy || is_cancel, "{effect:?} while {:?} is under way", self.work);
        match effect {
            ReconcileEffect::AnnounceCommit { commit, .. } => {
                assert_ne!(self.announced.last(), Some(&commit.commit));
                self.ledger.record_commit(&commit.commit);
                self.announced.push(commit.commit);
                self.judged = None;
            }
            ReconcileEffect::ReopenCommit(commit) => {
                assert_eq!(self.announced.last(), Some(&commit));
                self.ledger.reopen_commit(&commit);
                self.judged = None;
            }
            ReconcileEffect::ReportSuspended(commit) | ReconcileEffect::ReportWindow { commit, .. } => {
                assert_eq!(self.announced.last(), Some(&commit));
                self.ledger.record_progress(&commit, CommitStage::Suspended);
            }
            ReconcileEffect::ReportRefusal { commit, .. } => self.judge(&commit.commit, "refused", false),
            ReconcileEffect::CheckGate { .. } => {
                assert_eq!(self.work, None);
                self.work = Some(Work::Gate);
            }
            ReconcileEffect::StartAttempt { commit, pass } => {
                let requests = &self.machine.requests.taken;
                let asked = requests.outside_windows.as_ref();
                let is_overridden = asked.is_some_and(|revision| commit.commit.starts_with(revision));
                let by_policy = matches!(gate, Some(GateDecision::Closed { owner: WindowOwner::Policy, .. }));
                let is_open = gate == Some(GateDecision::Open) || (gate.is_some() && is_overridden && !by_policy);
                assert!(is_open, "{} was written without the gate: {gate:?}", commit.commit);
                assert!(commit.refusal.is_none(), "a refused commit was synced");
                assert_eq!((self.announced.last(), &self.work), (Some(&commit.commit), &None));
                (self.work, self.pass, self.is_executing) = (Some(Work::Attempt), Some(pass), false);
            }
            ReconcileEffect::ReleaseHolds(_) => {
                assert_eq!(self.work, None);
                (self.work, self.is_executing) = (Some(Work::Attempt), false);
            }
            ReconcileEffect::ExecutePlan { .. } => {
                assert_eq!(self.work, None);
                (self.work, self.is_executing) = (Some(Work::Attempt), true);
            }
            ReconcileEffect::AcceptApproval(approval) => assert_eq!(self.announced.last(), Some(&approval.revision)),
            ReconcileEffect::RestoreLastGood { commit, .. } => {
                assert_eq!(gate, Some(GateDecision::Open), "the last good commit was written without the gate");
                assert_eq!(self.work, None);
                assert_ne!(self.announced.last(), Some(&commit));
                self.work = Some(Work::Restore(commit));
            }
            ReconcileEffect::CancelWork(reason) => {
                // The end of the process is a reason although a newer commit came first.
                let is_first = !self.is_cancelled || reason == CancelReason::Interrupted;
                assert!(is_busy && is_first, "{:?} was cancelled twice, or is not under way", self.work);
                self.is_cancelled = true;
            }
            ReconcileEffect::PublishVerdict { commit, report } => {
                self.judge(&commit.commit, "judged", report.summary.is_success);
                if report.summary.is_success {
                    self.applied = Some(commit.commit);
                }
            }
            ReconcileEffect::AnswerRequests { handled, rejected } => {
                self.handled.extend(handled);
                self.rejected = rejected;
            }
            ReconcileEffect::ReportDrift(commit) => {
                assert_eq!(self.announced.last(), Some(&commit));
                self.drift_reports += 1;
            }
            ReconcileEffect::SetLastKnownGood(_)
            | ReconcileEffect::SetPhase(_)
            | ReconcileEffect::ReportPlan { .. } => {}
            ReconcileEffect::Finish(result) => {
                assert_eq!(self.result.replace(result), None);
                self.work = None;
            }
        }
    }

    fn judge(&mut self, commit: &str, how: &str, is_success: bool) {
        assert_eq!(self.announced.last().map(String::as_str), Some(commit), "a verdict of an older commit");
        self.verdicts.push(format!("{commit}: {how}"));
        self.judged = Some(commit.to_owned());
        let failure = CommitVerdict::Error { message: how.to_owned() };
        self.ledger.record_verdict(commit, if is_success { CommitVerdict::NoModels } else { failure });
    }

    /// Whoever waits has something that ends the wait.
    fn check_next_look(&self) {
        if self.work.is_some() || self.result.is_some() {
            return;
        }
        let (wake, interest) = (self.machine.wake_at(), self.machine.drift_interest());
        let within = |most: Duration| wake.is_some_and(|wake| wake <= self.now + most);
        let minute = Duration::from_secs(60);
        let (is_looking, most) = match &self.machine.phase {
            ReconcilePhase::AwaitingCommit => (self.newest.is_none(), None),
            ReconcilePhase::AwaitingPoll { request } => (self.requests.requested_at.as_ref() == Some(request), None),
            ReconcilePhase::Suspended => (self.machine.rules.is_suspended, None),
            ReconcilePhase::OutsideWindow { .. } => (true, Some(60 * minute)),
            ReconcilePhase::Watching { is_refused: true, .. }
            | ReconcilePhase::Settling { .. }
            | ReconcilePhase::BackingOff { .. }
            | ReconcilePhase::GatheringDrift { .. } => (true, Some(10 * minute)),
            ReconcilePhase::Watching { .. } | ReconcilePhase::Refused { .. } => {
                (interest.is_some() || within(2 * minute), None)
            }
            phase @ (ReconcilePhase::CheckingGate { .. }
            | ReconcilePhase::RestoringLastGood { .. }
            | ReconcilePhase::Planning { .. }
            | ReconcilePhase::Executing { .. }
            | ReconcilePhase::Finished) => panic!("{phase:?}, and nothing is under way"),
        };
        assert!(is_looking, "nobody looks again in {:?}", self.machine.phase);
        assert!(most.is_none_or(within), "{:?} looks again at {wake:?}", self.machine.phase);
    }

    pub(super) fn looks_at_everything(&self) -> bool {
        self.pass.as_ref().is_some_and(|pass| pass.recheck == RecheckScope::Everything)
    }

    pub(super) fn check_gate(&mut self) {
        assert_eq!(self.work, Some(Work::Gate));
        self.tell(ReconcileEvent::GateChecked(self.gate));
    }

    pub(super) fn finish_attempt(&mut self, outcome: AttemptOutcome) {
        assert_eq!(self.work, Some(Work::Attempt));
        self.answer_attempt(outcome, PlanFindings { changing: 1, ..PlanFindings::default() }, true);
    }

    /// The attempt that is under way has this plan, and ends so where it is carried out.
    pub(super) fn answer_attempt(&mut self, outcome: AttemptOutcome, plan: PlanFindings, is_watched: bool) {
        // What was asked to stop, or got nowhere, has no plan.
        let has_plan = !matches!(outcome, AttemptOutcome::Cancelled | AttemptOutcome::FencedOff);
        while has_plan && self.work == Some(Work::Attempt) && !self.is_executing {
            let cancelled = self.is_cancelled;
            self.tell(ReconcileEvent::AttemptPlanned { plan: Box::new(plan.clone()), is_watched });
            if cancelled {
                return;
            }
        }
        if self.work == Some(Work::Attempt) && (self.is_executing || !has_plan) {
            self.tell(ReconcileEvent::AttemptFinished { outcome, is_watched });
        }
    }

    /// The plan that finds what an attempt's summary says, and nothing to be written.
    pub(super) fn unchanged(summary: &AttemptSummary) -> PlanFindings {
        let (uncovered, drift) = (summary.uncovered.clone(), summary.drift.clone());
        PlanFindings { uncovered, drift, ..PlanFindings::default() }
    }

    pub(super) fn sync(&mut self, name: &str, outcome: AttemptOutcome) {
        self.tell(ReconcileEvent::CommitFound(commit(name)));
        self.check_gate();
        self.finish_attempt(outcome);
    }

    pub(super) fn close_window(&mut self, opens_in: Option<Duration>) {
        self.gate = GateDecision::Closed { opens: None, opens_in, owner: WindowOwner::Source };
    }

    pub(super) fn close_policy_window(&mut self, opens_in: Option<Duration>) {
        self.gate = GateDecision::Closed { opens: None, opens_in, owner: WindowOwner::Policy };
    }

    pub(super) fn open_window(&mut self) {
        self.gate = GateDecision::Open;
    }

    pub(super) fn request(&mut self, at: &str) {
        self.requests.requested_at = Some(at.to_owned());
        self.tell(ReconcileEvent::RequestsChanged(self.requests.clone()));
    }

    pub(super) fn override_windows(&mut self, commit: &str) {
        self.requests.outside_windows = Some(commit.to_owned());
        self.tell(ReconcileEvent::RequestsChanged(self.requests.clone()));
    }

    /// Lets time pass until the machine wants to be woken, and wakes it.
    pub(super) fn pass_to_wake(&mut self) {
        let wake = self.machine.wake_at().expect("a timer");
        self.now = self.now.max(wake);
        self.tell(ReconcileEvent::TimerDue);
    }
}
