//! A round: the newest commit and the newest requests are taken up, and led to the gate.

use super::answer::AnswerContext;
use super::effect::{AttemptPass, RecheckScope, ReconcileEffect, ReconcileResult, ReportedWindow};
use super::event::{GateDecision, WindowOwner};
use super::state::{CurrentCommit, GateReason, ReconcilePhase, UncoveredState};
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
        if self.is_stopping {
            return self.finish(ReconcileResult::Stopped, effects);
        }
        self.requests.taken = self.requests.known.clone();
        self.requests.answering = None;
        if let Some(request) = self.requests.pending().cloned() {
            // Every poll has a deadline, so this wait has one. Where nobody polls any more, what is known is all there is.
            if self.requests.polled.as_ref() != Some(&request) && !self.requests.polling_ended {
                self.phase = ReconcilePhase::AwaitingPoll { request };
                return;
            }
            self.requests.answering = Some(request);
            self.recheck = RecheckScope::Everything;
            self.pauses.reset();
        }
        let Some(newest) = self.commits.newest.clone() else {
            self.answer(AnswerContext::NoCommit, effects);
            if self.rules.once && self.requests.polling_ended {
                return self.finish(ReconcileResult::NotSynced, effects);
            }
            self.phase = ReconcilePhase::AwaitingCommit;
            return;
        };
        self.take_up(newest.clone(), effects);
        if self.rules.is_suspended {
            effects.push(ReconcileEffect::ReportSuspended(newest.commit));
            self.answer(AnswerContext::Suspended, effects);
            if self.rules.once {
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
        let commit = newest.commit.clone();
        if let Some(current) = &mut self.commits.current
            && current.found.commit == commit
        {
            current.found = newest;
            return;
        }
        let is_first = self.commits.current.is_none();
        self.commits.current = Some(CurrentCommit {
            found: newest.clone(),
            is_new: !(is_first && self.commits.was_taken_up(&newest)),
            was_outside_window: false,
            is_settling: false,
            attempts: 0,
            verdict: None,
        });
        effects.push(ReconcileEffect::AnnounceCommit { commit: newest, is_first });
        // It may be one that was the newest before, and is pending again: what was known of it is no verdict now.
        self.recheck = RecheckScope::Everything;
        if is_first && self.rules.is_changed {
            self.reopen(commit, effects);
        }
        self.uncovered.restore_due = false;
        self.pauses.reset();
    }

    /// The commit is pending again, so it has to get a verdict again, also where nothing is to be done.
    fn reopen(&mut self, commit: String, effects: &mut Vec<ReconcileEffect>) {
        self.recheck = RecheckScope::Everything;
        effects.push(ReconcileEffect::ReopenCommit(commit));
    }

    fn refuse(&mut self, now: Duration, commit: PolledCommit, effects: &mut Vec<ReconcileEffect>) {
        let good = self.commits.last_good().cloned();
        (self.commits.held, self.commits.concluded) = (None, Some(commit.commit.clone()));
        effects.push(ReconcileEffect::ReportRefusal { commit, last_known_good: good.clone() });
        self.answer(AnswerContext::Elsewhere, effects);
        if self.rules.once {
            return self.finish(ReconcileResult::NotSynced, effects);
        }
        let covered_before = self.uncovered.models.replace(UncoveredModels::All).is_none();
        if covered_before && !self.is_watched {
            // What drifted before this process watched is looked at once.
            self.expect_uncovered_drift();
        }
        effects.push(ReconcileEffect::SetLastKnownGood(good));
        effects.push(ReconcileEffect::SetPhase(SourcePhase::Idle));
        match self.commits.last_good().cloned() {
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
        if self.is_overtaken() {
            return self.begin_round(now, effects);
        }
        let Some(current) = self.commits.current.clone() else { return self.begin_round(now, effects) };
        self.window_opens_at = match decision {
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
            (GateReason::SyncCommit, GateDecision::Open) => self.pass_gate(now, current.found.commit, effects),
            (GateReason::SyncCommit, GateDecision::Closed { opens, owner, .. }) => {
                if owner == WindowOwner::Source && self.is_overridden(&current) {
                    let window = ReportedWindow::Overridden { opens };
                    effects.push(ReconcileEffect::ReportWindow { commit: current.found.commit, window });
                    // Only this commit was meant: what another one says waits for a window.
                    self.start_attempt(now, effects);
                } else {
                    self.wait_for_window(now, current.found.commit, (opens, owner), effects);
                }
            }
        }
    }

    /// Whether somebody asked for the commit outside the windows, and it has not been through yet: what was let through
    /// once is through, and drift of it waits for a window as anything else.
    fn is_overridden(&self, current: &CurrentCommit) -> bool {
        let meant = self.requests.taken.outside_windows.as_ref();
        let is_through = self.commits.applied.as_ref() == Some(&current.found.commit);
        meant == Some(&current.found.commit) && (current.is_settling || !is_through)
    }

    fn pass_gate(&mut self, now: Duration, commit: String, effects: &mut Vec<ReconcileEffect>) {
        effects.push(ReconcileEffect::ReportWindow { commit: commit.clone(), window: ReportedWindow::Open });
        let current = self.commits.current.as_mut();
        if current.is_some_and(|current| std::mem::take(&mut current.was_outside_window)) {
            self.reopen(commit.clone(), effects);
        }
        if self.is_hold_approved(&commit) {
            self.reopen(commit, effects);
        }
        if self.can_restore(now) {
            self.start_restore(now, effects);
        } else {
            self.start_attempt(now, effects);
        }
    }

    fn wait_for_window(
        &mut self,
        now: Duration,
        commit: String,
        (opens, owner): (Option<Timestamp>, WindowOwner),
        effects: &mut Vec<ReconcileEffect>,
    ) {
        if self.commits.concluded.as_ref().is_some_and(|concluded| *concluded != commit) {
            (self.commits.concluded, self.commits.held) = (None, None);
        }
        let window = ReportedWindow::Closed { opens };
        effects.push(ReconcileEffect::ReportWindow { commit, window });
        self.answer(AnswerContext::OutsideWindow(owner), effects);
        if self.rules.once {
            return self.finish(ReconcileResult::NotSynced, effects);
        }
        if let Some(current) = &mut self.commits.current {
            current.was_outside_window = true;
        }
        let next_look = self.window_opens_at.unwrap_or(now + LONGEST_WINDOW_WAIT);
        self.phase = ReconcilePhase::OutsideWindow { next_look };
    }

    /// Whether uncovered models are to be restored before anything else.
    fn can_restore(&self, now: Duration) -> bool {
        let UncoveredState { models, drifted: _, restore_due, restore_not_before } = &self.uncovered;
        *restore_due && *restore_not_before <= now && models.is_some() && self.commits.last_good().is_some()
    }

    fn start_restore(&mut self, now: Duration, effects: &mut Vec<ReconcileEffect>) {
        let (good, uncovered) = (self.commits.last_good().cloned(), self.uncovered.models.clone());
        if let (Some(commit), Some(uncovered)) = (good, uncovered) {
            self.phase = ReconcilePhase::RestoringLastGood { is_cancelled: false };
            let limits = self.pauses.repairs.limits(now);
            effects.push(ReconcileEffect::RestoreLastGood { commit, uncovered, limits });
        }
    }

    fn start_attempt(&mut self, now: Duration, effects: &mut Vec<ReconcileEffect>) {
        let Some(current) = &mut self.commits.current else { return };
        let recheck = std::mem::take(&mut self.recheck);
        if recheck == RecheckScope::Everything {
            current.verdict = None;
        }
        current.attempts = current.attempts.saturating_add(1);
        let (commit, is_new) = (current.found.clone(), current.is_new);
        let pass = AttemptPass {
            approval: self.approval_of(&commit.commit).cloned(),
            heal: is_new || self.requests.answering.is_some() || self.rules.self_heal,
            recheck,
            // Whoever runs once does not wait for pauses: it makes a few attempts and ends.
            limits: if self.rules.once { RepairLimits::default() } else { self.pauses.repairs.limits(now) },
            drifted_uncovered: self.uncovered.drifted,
        };
        self.phase = ReconcilePhase::Planning { pass: pass.clone(), is_released: false, is_cancelled: false };
        effects.push(ReconcileEffect::StartAttempt { commit, pass });
    }

    /// When whoever watches looks again although nobody reports anything.
    pub(super) fn next_look(&self, now: Duration) -> Option<Duration> {
        let unwatched = (!self.is_watched).then_some(now + UNWATCHED_LOOK);
        let UncoveredState { restore_due, restore_not_before, .. } = self.uncovered;
        let restore = restore_due.then(|| self.window_opens_at.unwrap_or(now).max(restore_not_before).max(now));
        let repair = self.pauses.repairs.next_repair().map(|due| due.max(now));
        unwatched.into_iter().chain(restore).chain(repair).min()
    }
}
