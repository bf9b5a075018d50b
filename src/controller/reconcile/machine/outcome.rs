//! What follows from an attempt, or from restoring, that is over.

use super::answer::AnswerContext;
use super::effect::{AttemptPass, ReconcileEffect, ReconcileResult};
use super::event::{AttemptOutcome, RestoreOutcome};
use super::state::{HeldRevisionPlan, ReconcilePhase};
use super::{DRIFT_DEBOUNCE, LONGEST_LOSS_PAUSE, MAX_ONCE_ATTEMPTS, SourceReconciler};
use crate::controller::reconcile::attempt_report::{AttemptSummary, NextStep};
use crate::controller::reconcile::drift_repairs::DriftFindings;
use crate::controller::sources::registry::SourcePhase;
use std::time::Duration;

impl SourceReconciler {
    pub(super) fn attempt_finished(
        &mut self,
        now: Duration,
        outcome: AttemptOutcome,
        is_watched: bool,
        effects: &mut Vec<ReconcileEffect>,
    ) {
        let ReconcilePhase::Reconciling { pass, .. } = &self.phase else { return };
        let pass = pass.clone();
        self.memory.is_watched = is_watched;
        match outcome {
            AttemptOutcome::FencedOff => self.finish(ReconcileResult::Stopped, effects),
            AttemptOutcome::Cancelled => {
                self.keep_recheck(&pass);
                self.begin_round(now, effects);
            }
            AttemptOutcome::ObjectLost(object) => {
                self.keep_recheck(&pass);
                // Whoever deletes one object again and again does not keep the others for long.
                let until = self.memory.repairs.record_loss(now, &object).min(now + LONGEST_LOSS_PAUSE);
                self.phase = ReconcilePhase::BackingOff { until: until.max(now + DRIFT_DEBOUNCE) };
                self.go_on(now, None, effects);
            }
            AttemptOutcome::ObjectChanged(object) => {
                self.keep_recheck(&pass);
                self.memory.repairs.look_at(now, &object);
                self.phase = ReconcilePhase::BackingOff { until: now + DRIFT_DEBOUNCE };
                self.go_on(now, None, effects);
            }
            AttemptOutcome::Concluded(report) => {
                let summary = report.summary.clone();
                if let Some(commit) = self.memory.current.clone() {
                    let revision = commit.commit.clone();
                    effects.push(ReconcileEffect::PublishVerdict { commit, report });
                    self.memory.held =
                        summary.held.clone().map(|plan| HeldRevisionPlan { revision: revision.clone(), plan });
                    self.memory.concluded = Some(revision.clone());
                    if summary.is_success {
                        self.memory.applied = Some(revision);
                    }
                }
                self.conclude(now, &pass, summary, effects);
            }
            AttemptOutcome::Unchanged(summary) => self.conclude(now, &pass, summary, effects),
        }
    }

    /// What an attempt was to look at was not looked at.
    fn keep_recheck(&mut self, pass: &AttemptPass) {
        self.memory.recheck = self.memory.recheck.max(pass.recheck);
    }

    fn conclude(
        &mut self,
        now: Duration,
        pass: &AttemptPass,
        summary: AttemptSummary,
        effects: &mut Vec<ReconcileEffect>,
    ) {
        self.memory.uncovered = summary.uncovered;
        self.memory.repairs.record_attempt(now, &summary.drift);
        self.memory.restore_due &= self.memory.uncovered.is_some();
        self.answer(AnswerContext::Elsewhere, effects);
        let good = self.memory.uncovered.as_ref().and_then(|_| self.memory.last_good().cloned());
        effects.push(ReconcileEffect::SetLastKnownGood(good));
        let was_settling = std::mem::replace(&mut self.memory.is_settling, summary.next == NextStep::Settle);
        let result = if summary.is_success { ReconcileResult::Synced } else { ReconcileResult::NotSynced };
        match summary.next {
            NextStep::Settle => {
                self.memory.is_new = false;
                self.memory.retries.reset();
                self.memory.refusals.reset();
                // A cluster that changes what it is sent would be written to for ever. What is put back of drift has pauses of
                // its own, which nothing else waits for.
                let is_explained = !summary.drift.repaired.is_empty();
                let pause =
                    if was_settling && !is_explained { self.memory.settles.next_delay() } else { Duration::ZERO };
                self.phase = ReconcilePhase::Settling { until: now + pause };
                self.go_on(now, None, effects);
            }
            NextStep::Retry => {
                self.keep_recheck(pass);
                effects.push(ReconcileEffect::SetPhase(SourcePhase::Retrying));
                self.phase = ReconcilePhase::BackingOff { until: now + self.memory.retries.next_delay() };
                self.go_on(now, Some(result), effects);
            }
            NextStep::RetrySlowly => {
                self.keep_recheck(pass);
                effects.push(ReconcileEffect::SetPhase(SourcePhase::Idle));
                let pause = self.memory.refusals.next_delay();
                let next_look = Some(now + pause);
                self.phase = ReconcilePhase::Watching { statuses: false, is_refused: true, next_look };
                self.go_on(now, Some(result), effects);
            }
            NextStep::Watch { statuses } => {
                self.memory.is_new = false;
                effects.push(ReconcileEffect::SetPhase(SourcePhase::Idle));
                self.memory.retries.reset();
                self.memory.refusals.reset();
                self.memory.settles.reset();
                let next_look = self.next_look(now);
                self.phase = ReconcilePhase::Watching { statuses, is_refused: false, next_look };
                self.go_on(now, Some(result), effects);
            }
        }
    }

    /// Goes on at once where there is a reason to; `result` is what came of it where the commit is not tried again at once.
    fn go_on(&mut self, now: Duration, result: Option<ReconcileResult>, effects: &mut Vec<ReconcileEffect>) {
        if self.memory.is_stopping {
            return self.finish(ReconcileResult::Stopped, effects);
        }
        if self.once {
            let is_exhausted = self.memory.attempts >= MAX_ONCE_ATTEMPTS;
            let result = result.or(is_exhausted.then_some(ReconcileResult::NotSynced));
            if let Some(result) = result {
                return self.finish(result, effects);
            }
        }
        if self.memory.is_overtaken() || self.wake_at().is_some_and(|due| due <= now) {
            self.begin_round(now, effects);
        }
    }

    pub(super) fn restore_finished(
        &mut self,
        now: Duration,
        outcome: RestoreOutcome,
        drift: &DriftFindings,
        is_watched: bool,
        effects: &mut Vec<ReconcileEffect>,
    ) {
        if !matches!(self.phase, ReconcilePhase::RestoringLastGood { .. }) {
            return;
        }
        self.memory.is_watched = is_watched;
        match outcome {
            RestoreOutcome::Restored => {
                for (object, fields) in &drift.repaired {
                    self.memory.repairs.record_repair(now, object, fields);
                }
                // What is left waits for its pause, and is still due then.
                let due = self.memory.repairs.repair_due(drift);
                self.memory.restore_due = due.is_some();
                self.memory.restore_not_before = due.unwrap_or_default();
            }
            RestoreOutcome::Cancelled => {
                if let Some(object) = &drift.interrupted_by {
                    let again = self.memory.repairs.record_loss(now, object).min(now + LONGEST_LOSS_PAUSE);
                    self.memory.restore_not_before = again.max(now + DRIFT_DEBOUNCE);
                }
            }
            RestoreOutcome::Failed => self.memory.restore_not_before = now + self.memory.refusals.next_delay(),
        }
        self.begin_round(now, effects);
    }
}
