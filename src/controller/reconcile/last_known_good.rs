//! Keeps what runs as the last good commit has it, where the newest one has nothing valid to say of it.
//!
//! The newest commit wins; but one that is refused, broken or held back has nothing to put in the place of what drifts. What
//! it does not cover goes on as the last commit has it that was synced well, as long as that one is known. Nothing is pruned
//! by it, nothing of what the newest commit did is undone, and no status is posted for it.

use super::attempt::{CancelReceiver, wait_for_cancel};
use super::attempt_cache::SharedPlanner;
use super::attempt_report::UncoveredModels;
use super::context::{ReconcileContext, ReconcileTools};
use super::drift_repairs::{DriftFindings, RepairLimits};
use super::executed::planned_writes;
use super::failure::AttemptFailure;
use super::machine::{RestoreOutcome, RestoreReport};
use super::planned::CommitPlan;
use super::repair_choice::RepairChoice;
use super::unhealed_drift::DriftedModels;
use crate::controller::cache::drift_detector::SyncInterruption;
use crate::controller::status_wording::commit_label;
use futures_util::FutureExt as _;
use futures_util::future::Either;
use stator_cluster::sync::{self, PlanParameters, SyncOptions};
use stator_core::object::{Object, ObjectIdentity};
use stator_model::plan::PlanScope;
use stator_model::present::pluralize;
use std::collections::BTreeSet;

impl ReconcileContext {
    /// Puts back what drifted of uncovered models, from the last commit that was synced well.
    pub(super) async fn restore_last_good(
        &self,
        good: &str,
        uncovered: (UncoveredModels, RepairLimits),
        cancelled: CancelReceiver,
        tools: &mut ReconcileTools,
    ) -> RestoreReport {
        let mut report =
            RestoreReport { outcome: RestoreOutcome::Failed, drift: DriftFindings::default(), left_drifted: None };
        match self.restore_revision(good, uncovered, cancelled, tools, &mut report).boxed().await {
            Ok(outcome) => report.outcome = outcome,
            Err(failure) => self.refuse_to_restore(good, &failure.verdict.sentence()),
        }
        report
    }

    fn refuse_to_restore(&self, good: &str, why: &dyn std::fmt::Display) {
        let revision = commit_label(good);
        tracing::warn!(source = %self.source.key, revision, "the last-known-good revision cannot be kept: {why}");
    }

    /// What is found on the way is written into the `found` report.
    async fn restore_revision(
        &self,
        good: &str,
        (uncovered, limits): (UncoveredModels, RepairLimits),
        mut cancelled: CancelReceiver,
        ReconcileTools { watch, cache, reported }: &mut ReconcileTools,
        found: &mut RestoreReport,
    ) -> Result<RestoreOutcome, AttemptFailure> {
        match self.verify_earlier_commit(good).await {
            Ok(None) => {}
            Ok(Some(refusal)) => {
                self.refuse_to_restore(good, &refusal);
                return Ok(RestoreOutcome::Failed);
            }
            Err(error) => {
                self.refuse_to_restore(good, &error);
                return Ok(RestoreOutcome::Failed);
            }
        }
        let gathered = self.gather(good, None, SharedPlanner::default(), (watch, cache));
        let gathered = tokio::select! {
            gathered = gathered.boxed() => gathered?,
            () = wait_for_cancel(&mut cancelled) => return Ok(RestoreOutcome::Cancelled),
        };
        let rendered = &gathered.rendered;
        self.check_policy_windows(rendered).await?;
        let parameters = PlanParameters {
            revision: good.to_owned(),
            folder: self.recorded_folder(rendered.is_named),
            prune: false,
            scope: match uncovered {
                UncoveredModels::All => PlanScope::All,
                UncoveredModels::Some { mut names, sources } => {
                    let there = rendered.desired.rendered.iter().filter(|one| sources.contains(&one.source));
                    names.extend(there.map(|one| one.model.clone()));
                    PlanScope::Models(names)
                }
            },
            ..PlanParameters::default()
        };
        let commit_plan = CommitPlan::build(&self.target.cluster, gathered, parameters, false).await?;
        let (mut plan, bookkeeping, _) = commit_plan.into_parts();
        let drifted = DriftedModels::find(&plan, &bookkeeping.records);
        let all = drifted.all();
        found.left_drifted = Some(if self.heals_drift() { drifted.unrepairable.len() } else { all.len() });
        self.board.update_state(|state| state.counts.drifted = all.len());
        // Whatever else differs is not drift, and is the newest commit's matter.
        let others = plan.changes.iter().map(|change| change.model.clone()).filter(|model| !all.contains(model));
        let others: BTreeSet<String> = others.chain(plan.retired.iter().cloned()).collect();
        plan.exclude_models(&others);
        if all.is_empty() || !self.heals_drift() {
            return Ok(RestoreOutcome::Restored);
        }
        let choice = RepairChoice::apply(&mut plan, &bookkeeping.records, &limits);
        self.board.report_disputes(&plan, reported);
        let unhealed: BTreeSet<String> =
            drifted.unrepairable.into_iter().chain(choice.waiting_models()).chain(choice.disputed_models()).collect();
        found.left_drifted = Some(unhealed.len());
        self.check_fitness().await?;
        let mut options = SyncOptions::new(jiff::Timestamp::now(), super::jitter_seed());
        options.prune = false;
        options.keeps_file_faults = true;
        // Until it is healthy its record says that it is not.
        options.wait = true;
        options.timeout = self.source.timeout;
        let planned = planned_writes(&plan);
        let labels = watch.labels.clone();
        let work = sync::run_sync(&self.target.cluster, plan, bookkeeping, options, &|_| {}, cancelled).boxed();
        let is_ours = |object: &Object| super::is_ours(object, labels.as_ref());
        let interrupts = |object: &ObjectIdentity| limits.lets_interrupt(object);
        let changed = watch.detector.wait_for_interruption(is_ours, &planned, interrupts).boxed();
        let report = match futures_util::future::select(work, changed).await {
            Either::Left((report, _)) => report,
            Either::Right((SyncInterruption::Deleted(object) | SyncInterruption::Changed(object), _)) => {
                found.drift.interrupted_by = Some(object.identity());
                return Ok(RestoreOutcome::Cancelled);
            }
        };
        if report.writes > 0 {
            self.board.metrics.record_drift_repair(&self.source.key);
            let models = pluralize(all.len(), "model", "models");
            tracing::info!(
                source = %self.source.key, revision = commit_label(good), writes = report.writes,
                "live objects of {models} are reverted to the last-known-good revision"
            );
            self.board.update_state(|state| state.counts.drifted = unhealed.len());
        }
        found.drift = choice.findings_of(&report);
        Ok(if report.cancelled { RestoreOutcome::Cancelled } else { RestoreOutcome::Restored })
    }
}
