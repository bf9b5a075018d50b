//! What follows from an attempt, or from restoring, that is over.

use super::answer::AnswerContext;
use super::effect::{AttemptPass, RecheckScope, ReconcileEffect, ReconcileResult};
use super::event::{AttemptOutcome, PlanFindings, RestoreOutcome, RestoreReport};
use super::state::{HeldRevisionPlan, KnownVerdict, ReconcilePhase};
use super::{DRIFT_DEBOUNCE, LONGEST_LOSS_PAUSE, MAX_ONCE_ATTEMPTS, SourceReconciler};
use crate::controller::reconcile::attempt_report::{AttemptSummary, NextStep};
use crate::controller::reconcile::drift_repairs::DriftFindings;
use crate::controller::sources::registry::SourcePhase;
use std::time::Duration;

impl SourceReconciler {
    /// A plan is ready: what is approved of it is released, and it is carried out unless it finds all as it was.
    pub(super) fn attempt_planned(&mut self, now: Duration, plan: PlanFindings, effects: &mut Vec<ReconcileEffect>) {
        let ReconcilePhase::Planning { pass, is_released, is_cancelled } = &mut self.phase else { return };
        let pass = pass.clone();
        if *is_cancelled {
            self.keep_recheck(&pass);
            return self.begin_round(now, effects);
        }
        // What is approved is what is held back when nothing is approved.
        if !std::mem::replace(is_released, true)
            && let Some(approval) = &pass.approval
            && self.commits.accept_approval(approval, &plan.held)
        {
            let kinds = approval.kinds.clone();
            effects.push(ReconcileEffect::AcceptApproval(approval.clone()));
            if !plan.held.digest().is_empty() {
                return effects.push(ReconcileEffect::ReleaseHolds(kinds));
            }
        }
        if plan.uncovered.is_none() {
            self.uncovered.drifted = 0;
        }
        let verdict = self.commits.current.as_ref().and_then(|current| current.verdict.as_ref());
        let had_verdict = verdict.is_some();
        effects.push(ReconcileEffect::ReportPlan { is_news: !plan.is_empty || !had_verdict });
        if let Some(known) = verdict
            && pass.recheck == RecheckScope::Nothing
            && plan.changing == 0
            && plan.basis == known.basis
        {
            // A look that found all as it was says nothing new.
            let summary = AttemptSummary { uncovered: plan.uncovered, drift: plan.drift, ..known.summary.clone() };
            return self.conclude(now, &pass, summary, effects);
        }
        let approved = self.commits.approved.as_ref();
        let approval = approved.filter(|approved| pass.approval.as_ref() == Some(&approved.approval)).cloned();
        effects.push(ReconcileEffect::ExecutePlan { approval, had_verdict });
        self.phase = ReconcilePhase::Executing { pass, basis: plan.basis, is_cancelled: false };
    }

    pub(super) fn attempt_finished(
        &mut self,
        now: Duration,
        outcome: AttemptOutcome,
        is_watched: bool,
        effects: &mut Vec<ReconcileEffect>,
    ) {
        let (pass, basis) = match &self.phase {
            ReconcilePhase::Planning { pass, .. } => (pass.clone(), None),
            ReconcilePhase::Executing { pass, basis, .. } => (pass.clone(), Some(basis.clone())),
            ReconcilePhase::AwaitingCommit
            | ReconcilePhase::AwaitingPoll { .. }
            | ReconcilePhase::Suspended
            | ReconcilePhase::Refused { .. }
            | ReconcilePhase::OutsideWindow { .. }
            | ReconcilePhase::CheckingGate { .. }
            | ReconcilePhase::RestoringLastGood { .. }
            | ReconcilePhase::Settling { .. }
            | ReconcilePhase::BackingOff { .. }
            | ReconcilePhase::Watching { .. }
            | ReconcilePhase::GatheringDrift { .. }
            | ReconcilePhase::Finished => return,
        };
        self.is_watched = is_watched;
        match outcome {
            AttemptOutcome::FencedOff => self.finish(ReconcileResult::Stopped, effects),
            AttemptOutcome::Cancelled => {
                self.keep_recheck(&pass);
                self.begin_round(now, effects);
            }
            AttemptOutcome::ObjectLost(object) => {
                self.keep_recheck(&pass);
                // Whoever deletes one object again and again does not keep the others for long.
                let until = self.pauses.repairs.record_loss(now, &object).min(now + LONGEST_LOSS_PAUSE);
                self.phase = ReconcilePhase::BackingOff { until: until.max(now + DRIFT_DEBOUNCE) };
                self.go_on(now, None, effects);
            }
            AttemptOutcome::ObjectChanged(object) => {
                self.keep_recheck(&pass);
                self.pauses.repairs.look_at(now, &object);
                self.phase = ReconcilePhase::BackingOff { until: now + DRIFT_DEBOUNCE };
                self.go_on(now, None, effects);
            }
            AttemptOutcome::Concluded(report) => {
                let summary = report.summary.clone();
                if let Some(current) = &mut self.commits.current {
                    let revision = current.found.commit.clone();
                    if let Some(basis) = basis.filter(|_| report.failure.is_none()) {
                        let statuses = report.watches_statuses;
                        let next = NextStep::Watch { statuses };
                        let unchanged = AttemptSummary { next, drift: DriftFindings::default(), ..summary.clone() };
                        let is_known = summary.next != NextStep::Retry;
                        current.verdict = is_known.then_some(KnownVerdict { summary: unchanged, basis });
                    }
                    effects.push(ReconcileEffect::PublishVerdict { commit: current.found.clone(), report });
                    self.commits.held =
                        summary.held.clone().map(|plan| HeldRevisionPlan { revision: revision.clone(), plan });
                    self.commits.concluded = Some(revision.clone());
                    if summary.is_success {
                        self.commits.approved = None;
                        self.commits.applied = Some(revision);
                    }
                }
                self.conclude(now, &pass, summary, effects);
            }
        }
    }

    /// What an attempt was to look at was not looked at.
    fn keep_recheck(&mut self, pass: &AttemptPass) {
        self.recheck = self.recheck.max(pass.recheck);
    }

    fn conclude(
        &mut self,
        now: Duration,
        pass: &AttemptPass,
        summary: AttemptSummary,
        effects: &mut Vec<ReconcileEffect>,
    ) {
        self.uncovered.models = summary.uncovered;
        self.pauses.repairs.record_attempt(now, &summary.drift);
        self.uncovered.restore_due &= self.uncovered.models.is_some();
        self.answer(AnswerContext::Elsewhere, effects);
        let good = self.uncovered.models.as_ref().and_then(|_| self.commits.last_good().cloned());
        effects.push(ReconcileEffect::SetLastKnownGood(good));
        let mut was_settling = false;
        if let Some(current) = &mut self.commits.current {
            was_settling = std::mem::replace(&mut current.is_settling, summary.next == NextStep::Settle);
            // Where it is tried again, it is still as new as it was.
            current.is_new &= matches!(summary.next, NextStep::Retry | NextStep::RetrySlowly);
        }
        let result = if summary.is_success { ReconcileResult::Synced } else { ReconcileResult::NotSynced };
        match summary.next {
            NextStep::Settle => {
                self.pauses.reset_faults();
                // A cluster that changes what it is sent would be written to for ever. What is put back of drift has pauses of
                // its own, which nothing else waits for.
                let is_explained = !summary.drift.repaired.is_empty();
                let pause =
                    if was_settling && !is_explained { self.pauses.settles.next_delay() } else { Duration::ZERO };
                self.phase = ReconcilePhase::Settling { until: now + pause };
                self.go_on(now, None, effects);
            }
            NextStep::Retry => {
                self.keep_recheck(pass);
                effects.push(ReconcileEffect::SetPhase(SourcePhase::Retrying));
                self.phase = ReconcilePhase::BackingOff { until: now + self.pauses.retries.next_delay() };
                self.go_on(now, Some(result), effects);
            }
            NextStep::RetrySlowly => {
                self.keep_recheck(pass);
                effects.push(ReconcileEffect::SetPhase(SourcePhase::Idle));
                let pause = self.pauses.refusals.next_delay();
                let next_look = Some(now + pause);
                self.phase = ReconcilePhase::Watching { statuses: false, is_refused: true, next_look };
                self.go_on(now, Some(result), effects);
            }
            NextStep::Watch { statuses } => {
                effects.push(ReconcileEffect::SetPhase(SourcePhase::Idle));
                self.pauses.reset_faults();
                self.pauses.settles.reset();
                let next_look = self.next_look(now);
                self.phase = ReconcilePhase::Watching { statuses, is_refused: false, next_look };
                self.go_on(now, Some(result), effects);
            }
        }
    }

    /// Goes on at once where there is a reason to; `result` is what came of it where the commit is not tried again at once.
    fn go_on(&mut self, now: Duration, result: Option<ReconcileResult>, effects: &mut Vec<ReconcileEffect>) {
        if self.is_stopping {
            return self.finish(ReconcileResult::Stopped, effects);
        }
        if self.rules.once {
            let is_exhausted =
                self.commits.current.as_ref().is_some_and(|current| current.attempts >= MAX_ONCE_ATTEMPTS);
            let result = result.or(is_exhausted.then_some(ReconcileResult::NotSynced));
            if let Some(result) = result {
                return self.finish(result, effects);
            }
        }
        if self.is_overtaken() || self.wake_at().is_some_and(|due| due <= now) {
            self.begin_round(now, effects);
        }
    }

    pub(super) fn restore_finished(
        &mut self,
        now: Duration,
        RestoreReport { outcome, drift, left_drifted }: &RestoreReport,
        is_watched: bool,
        effects: &mut Vec<ReconcileEffect>,
    ) {
        if !matches!(self.phase, ReconcilePhase::RestoringLastGood { .. }) {
            return;
        }
        self.is_watched = is_watched;
        self.uncovered.drifted = left_drifted.unwrap_or(self.uncovered.drifted);
        match outcome {
            RestoreOutcome::Restored => {
                for (object, fields) in &drift.repaired {
                    self.pauses.repairs.record_repair(now, object, fields);
                }
                // What is left waits for its pause, and is still due then.
                let due = self.pauses.repairs.repair_due(drift);
                self.uncovered.restore_due = due.is_some();
                self.uncovered.restore_not_before = due.unwrap_or_default();
            }
            RestoreOutcome::Cancelled => {
                if let Some(object) = &drift.interrupted_by {
                    let again = self.pauses.repairs.record_loss(now, object).min(now + LONGEST_LOSS_PAUSE);
                    self.uncovered.restore_not_before = again.max(now + DRIFT_DEBOUNCE);
                }
            }
            RestoreOutcome::Failed => self.uncovered.restore_not_before = now + self.pauses.refusals.next_delay(),
        }
        self.begin_round(now, effects);
    }
}
