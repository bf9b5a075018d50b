//! A round: the newest commit and the newest requests are taken up, and led to the gate.

use super::answer::AnswerContext;
use super::effect::{AttemptPass, RecheckScope, ReconcileEffect, ReconcileResult, ReportedWindow};
use super::event::{GateDecision, WindowOwner};
use super::state::{GateReason, ReconcilePhase};
use super::{LONGEST_WINDOW_WAIT, SourceReconciler, UNWATCHED_LOOK};
use crate::controller::reconcile::attempt_report::UncoveredModels;
use crate::controller::reconcile::commit::PolledCommit;
use crate::controller::reconcile::drift_repairs::RepairLimits;
use crate::controller::sources::registry::SourcePhase;
use jiff::Timestamp;
use std::time::Duration;

impl SourceReconciler {
    /// Begins with what is known by now.
    pub(super) fn begin_round(&mut self, now: Duration, effects: &mut Vec<ReconcileEffect>) {
        if self.memory.is_stopping {
            return self.finish(ReconcileResult::Stopped, effects);
        }
        self.memory.taken_requests = self.memory.requests.clone();
        self.memory.answering = None;
        if let Some(request) = self.memory.pending_request().cloned() {
            // Every poll has a deadline, so this wait has one. Where nobody polls any more, what is known is all there is.
            if self.memory.polled_request.as_ref() != Some(&request) && !self.memory.polling_ended {
                self.phase = ReconcilePhase::AwaitingPoll { request };
                return;
            }
            self.memory.answering = Some(request);
            self.memory.recheck = RecheckScope::Everything;
            self.reset_pauses();
        }
        let Some(newest) = self.memory.newest.clone() else {
            self.answer(AnswerContext::NoCommit, effects);
            if self.once && self.memory.polling_ended {
                return self.finish(ReconcileResult::NotSynced, effects);
            }
            self.phase = ReconcilePhase::AwaitingCommit;
            return;
        };
        self.take_up(newest.clone(), effects);
        if self.is_suspended {
            effects.push(ReconcileEffect::ReportSuspended(newest.commit));
            self.answer(AnswerContext::Suspended, effects);
            if self.once {
                return self.finish(ReconcileResult::NotSynced, effects);
            }
            self.phase = ReconcilePhase::Suspended;
        } else if newest.refusal.is_some() {
            self.refuse(now, newest, effects);
        } else {
            self.check_gate(GateReason::SyncCommit, newest.commit, effects);
        }
    }

    /// The commit is the current one from here on.
    fn take_up(&mut self, newest: PolledCommit, effects: &mut Vec<ReconcileEffect>) {
        let before = self.memory.current.replace(newest.clone());
        if before.as_ref().is_some_and(|before| before.commit == newest.commit) {
            return;
        }
        let is_first = before.is_none();
        let commit = newest.commit.clone();
        self.memory.is_new = !(is_first && self.memory.was_taken_up(&newest));
        effects.push(ReconcileEffect::AnnounceCommit { commit: newest, is_first });
        // It may be one that was the newest before, and is pending again: what was known of it is no verdict now.
        self.memory.recheck = RecheckScope::Everything;
        if is_first && self.is_changed {
            self.reopen(commit, effects);
        }
        let memory = &mut self.memory;
        (memory.was_outside_window, memory.restore_due, memory.is_settling) = (false, false, false);
        memory.attempts = 0;
        self.reset_pauses();
    }

    /// The commit is pending again, so it has to get a verdict again, also where nothing is to be done.
    fn reopen(&mut self, commit: String, effects: &mut Vec<ReconcileEffect>) {
        self.memory.recheck = RecheckScope::Everything;
        effects.push(ReconcileEffect::ReopenCommit(commit));
    }

    fn reset_pauses(&mut self) {
        self.memory.retries.reset();
        self.memory.refusals.reset();
        self.memory.settles.reset();
        self.memory.repairs.clear();
    }

    fn refuse(&mut self, now: Duration, commit: PolledCommit, effects: &mut Vec<ReconcileEffect>) {
        let good = self.memory.last_good().cloned();
        (self.memory.held, self.memory.concluded) = (None, Some(commit.commit.clone()));
        effects.push(ReconcileEffect::ReportRefusal { commit, last_known_good: good.clone() });
        self.answer(AnswerContext::Elsewhere, effects);
        if self.once {
            return self.finish(ReconcileResult::NotSynced, effects);
        }
        let covered_before = self.memory.uncovered.replace(UncoveredModels::All).is_none();
        if covered_before && !self.memory.is_watched {
            // What drifted before this process watched is looked at once.
            self.expect_uncovered_drift();
        }
        effects.push(ReconcileEffect::SetLastKnownGood(good));
        effects.push(ReconcileEffect::SetPhase(SourcePhase::Idle));
        match self.memory.last_good().cloned() {
            Some(good) if self.can_restore(now) => self.check_gate(GateReason::KeepLastGood, good, effects),
            Some(_) | None => self.phase = ReconcilePhase::Refused { next_look: self.next_look(now) },
        }
    }

    fn check_gate(&mut self, reason: GateReason, commit: String, effects: &mut Vec<ReconcileEffect>) {
        self.phase = ReconcilePhase::CheckingGate { reason };
        effects.push(ReconcileEffect::CheckGate { commit });
    }

    pub(super) fn gate_checked(&mut self, now: Duration, decision: GateDecision, effects: &mut Vec<ReconcileEffect>) {
        let ReconcilePhase::CheckingGate { reason } = self.phase else { return };
        if self.memory.is_overtaken() {
            return self.begin_round(now, effects);
        }
        let Some(current) = self.memory.current.clone() else { return self.begin_round(now, effects) };
        self.memory.window_opens_at = match decision {
            GateDecision::Open => None,
            GateDecision::Closed { opens_in, .. } => {
                Some(now + opens_in.unwrap_or(LONGEST_WINDOW_WAIT).min(LONGEST_WINDOW_WAIT))
            }
        };
        match (reason, decision) {
            (GateReason::KeepLastGood, GateDecision::Open) => self.start_restore(now, effects),
            (GateReason::KeepLastGood, GateDecision::Closed { .. }) => {
                self.phase = ReconcilePhase::Refused { next_look: self.next_look(now) };
            }
            (GateReason::SyncCommit, GateDecision::Open) => self.pass_gate(now, current, effects),
            (GateReason::SyncCommit, GateDecision::Closed { opens, owner, .. }) => {
                if owner == WindowOwner::Source && self.is_overridden(&current.commit) {
                    let window = ReportedWindow::Overridden { opens };
                    effects.push(ReconcileEffect::ReportWindow { commit: current.commit.clone(), window });
                    // Only this commit was meant: what another one says waits for a window.
                    self.start_attempt(now, current, effects);
                } else {
                    self.wait_for_window(now, current, (opens, owner), effects);
                }
            }
        }
    }

    /// Whether somebody asked for the commit outside the windows, and it has not been through yet: what was let through
    /// once is through, and drift of it waits for a window as anything else.
    fn is_overridden(&self, commit: &str) -> bool {
        let meant = self.memory.taken_requests.outside_windows.as_ref();
        let is_through = self.memory.applied.as_deref() == Some(commit);
        meant.is_some_and(|revision| commit == revision) && (self.memory.is_settling || !is_through)
    }

    fn pass_gate(&mut self, now: Duration, current: PolledCommit, effects: &mut Vec<ReconcileEffect>) {
        let commit = current.commit.clone();
        effects.push(ReconcileEffect::ReportWindow { commit: commit.clone(), window: ReportedWindow::Open });
        if std::mem::take(&mut self.memory.was_outside_window) {
            self.reopen(commit.clone(), effects);
        }
        if self.memory.is_hold_approved(&commit) {
            self.reopen(commit, effects);
        }
        if self.can_restore(now) {
            self.start_restore(now, effects);
        } else {
            self.start_attempt(now, current, effects);
        }
    }

    fn wait_for_window(
        &mut self,
        now: Duration,
        current: PolledCommit,
        (opens, owner): (Option<Timestamp>, WindowOwner),
        effects: &mut Vec<ReconcileEffect>,
    ) {
        if self.memory.concluded.as_ref().is_some_and(|concluded| *concluded != current.commit) {
            (self.memory.concluded, self.memory.held) = (None, None);
        }
        let window = ReportedWindow::Closed { opens };
        effects.push(ReconcileEffect::ReportWindow { commit: current.commit, window });
        self.answer(AnswerContext::OutsideWindow(owner), effects);
        if self.once {
            return self.finish(ReconcileResult::NotSynced, effects);
        }
        self.memory.was_outside_window = true;
        let next_look = self.memory.window_opens_at.unwrap_or(now + LONGEST_WINDOW_WAIT);
        self.phase = ReconcilePhase::OutsideWindow { next_look };
    }

    /// Whether uncovered models are to be restored before anything else.
    fn can_restore(&self, now: Duration) -> bool {
        let memory = &self.memory;
        memory.restore_due
            && memory.restore_not_before <= now
            && memory.uncovered.is_some()
            && memory.last_good().is_some()
    }

    fn start_restore(&mut self, now: Duration, effects: &mut Vec<ReconcileEffect>) {
        let (good, uncovered) = (self.memory.last_good().cloned(), self.memory.uncovered.clone());
        if let (Some(commit), Some(uncovered)) = (good, uncovered) {
            self.phase = ReconcilePhase::RestoringLastGood { is_cancelled: false };
            let limits = self.memory.repairs.limits(now);
            effects.push(ReconcileEffect::RestoreLastGood { commit, uncovered, limits });
        }
    }

    fn start_attempt(&mut self, now: Duration, commit: PolledCommit, effects: &mut Vec<ReconcileEffect>) {
        let memory = &mut self.memory;
        let pass = AttemptPass {
            approval: memory.approval_of(&commit.commit).cloned(),
            heal: memory.is_new || memory.answering.is_some() || self.self_heal,
            recheck: std::mem::take(&mut memory.recheck),
            // Whoever runs once does not wait for pauses: it makes a few attempts and ends.
            limits: if self.once { RepairLimits::default() } else { memory.repairs.limits(now) },
        };
        memory.attempts = memory.attempts.saturating_add(1);
        self.phase = ReconcilePhase::Reconciling { pass: pass.clone(), is_cancelled: false };
        effects.push(ReconcileEffect::StartAttempt { commit, pass });
    }

    /// When whoever watches looks again although nobody reports anything.
    pub(super) fn next_look(&self, now: Duration) -> Option<Duration> {
        let memory = &self.memory;
        let unwatched = (!memory.is_watched).then_some(now + UNWATCHED_LOOK);
        let restore =
            memory.restore_due.then(|| memory.window_opens_at.unwrap_or(now).max(memory.restore_not_before).max(now));
        let repair = memory.repairs.next_repair().map(|due| due.max(now));
        unwatched.into_iter().chain(restore).chain(repair).min()
    }
}
