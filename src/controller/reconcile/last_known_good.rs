//! Keeps what runs as the last good commit has it, where the newest one has nothing valid to say of it.
//!
//! The newest commit wins; but one that is refused, broken or held back has nothing to put in the place of what drifts. What
//! it does not cover goes on as the last commit has it that was synced well, as long as that one is known. Nothing is pruned
//! by it, nothing of what the newest commit did is undone, and no status is posted for it.

use super::attempt_report::UncoveredModels;
use super::context::ReconcileContext;
use super::drift_repairs::{DriftFindings, RepairLimits};
use super::failure::AttemptFailure;
use super::machine::RestoreOutcome;
use super::prepare::{PlannedCommit, plan_commit};
use super::repair_choice::RepairChoice;
use super::sync_memory::{SharedPlanner, SyncMemory};
use super::sync_revision::{CancelReceiver, planned_writes, wait_for_cancel};
use super::unhealed_drift::DriftedModels;
use crate::controller::cache::drift_detector::SyncInterruption;
use crate::controller::report::commit_ledger::commit_label;
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
        memory: &mut SyncMemory,
    ) -> (RestoreOutcome, DriftFindings) {
        match self.restore_revision(good, uncovered, cancelled, memory).boxed().await {
            Ok(restored) => restored,
            Err(failure) => {
                let why = failure.verdict.sentence();
                let revision = commit_label(good);
                tracing::warn!(source = %self.source.key, revision, "the last-known-good revision cannot be kept: \
                                                                     {why}");
                (RestoreOutcome::Failed, DriftFindings::default())
            }
        }
    }

    fn refuse_to_restore(&self, good: &str, why: &dyn std::fmt::Display) -> (RestoreOutcome, DriftFindings) {
        let revision = commit_label(good);
        tracing::warn!(source = %self.source.key, revision, "the last-known-good revision cannot be kept: {why}");
        (RestoreOutcome::Failed, DriftFindings::default())
    }

    async fn restore_revision(
        &self,
        good: &str,
        (uncovered, limits): (UncoveredModels, RepairLimits),
        mut cancelled: CancelReceiver,
        memory: &mut SyncMemory,
    ) -> Result<(RestoreOutcome, DriftFindings), AttemptFailure> {
        match self.verify_earlier_commit(good).await {
            Ok(None) => {}
            Ok(Some(refusal)) => return Ok(self.refuse_to_restore(good, &refusal)),
            Err(error) => return Ok(self.refuse_to_restore(good, &error)),
        }
        memory.detector.begin_look();
        let prepared = async {
            let mut rendered = self.render_commit(good, None, SharedPlanner::default()).await?;
            let live = self.gather_live(&mut rendered, memory).await?;
            Ok::<_, AttemptFailure>((rendered, live))
        };
        let (rendered, live) = tokio::select! {
            prepared = prepared.boxed() => prepared?,
            () = wait_for_cancel(&mut cancelled) => return Ok((RestoreOutcome::Cancelled, DriftFindings::default())),
        };
        self.check_policy_windows(&rendered).await?;
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
        let PlannedCommit { mut plan, bookkeeping, .. } =
            plan_commit(&self.cluster, rendered, live, parameters, false, |_| BTreeSet::new()).await?;
        let drifted = DriftedModels::find(&plan, &bookkeeping.records);
        let all = drifted.all();
        memory.drifted_uncovered = if self.heals_drift() { drifted.unrepairable.len() } else { all.len() };
        self.update_state(|state| state.counts.drifted = all.len());
        // Whatever else differs is not drift, and is the newest commit's matter.
        let others = plan.changes.iter().map(|change| change.model.clone()).filter(|model| !all.contains(model));
        let others: BTreeSet<String> = others.chain(plan.retired.iter().cloned()).collect();
        plan.exclude_models(&others);
        if all.is_empty() || !self.heals_drift() {
            return Ok((RestoreOutcome::Restored, DriftFindings::default()));
        }
        let choice = RepairChoice::apply(&mut plan, &bookkeeping.records, &limits);
        self.report_disputes(&plan, memory);
        let unhealed: BTreeSet<String> =
            drifted.unrepairable.into_iter().chain(choice.waiting_models()).chain(choice.disputed_models()).collect();
        memory.drifted_uncovered = unhealed.len();
        self.check_fitness().await?;
        let mut options = SyncOptions::new(jiff::Timestamp::now(), super::jitter_seed());
        options.prune = false;
        options.keeps_file_faults = true;
        // Until it is healthy its record says that it is not.
        options.wait = true;
        options.timeout = self.source.timeout;
        let planned = planned_writes(&plan);
        let labels = memory.labels.clone();
        let work = sync::run_sync(&self.cluster, plan, bookkeeping, options, &|_| {}, cancelled).boxed();
        let is_ours = |object: &Object| super::is_ours(object, labels.as_ref());
        let interrupts = |object: &ObjectIdentity| limits.lets_interrupt(object);
        let changed = memory.detector.wait_for_interruption(is_ours, &planned, interrupts).boxed();
        let report = match futures_util::future::select(work, changed).await {
            Either::Left((report, _)) => report,
            Either::Right((SyncInterruption::Deleted(object) | SyncInterruption::Changed(object), _)) => {
                let interrupted_by = Some(object.identity());
                return Ok((RestoreOutcome::Cancelled, DriftFindings { interrupted_by, ..DriftFindings::default() }));
            }
        };
        if report.writes > 0 {
            self.metrics.record_drift_repair(&self.source.key);
            let models = pluralize(all.len(), "model", "models");
            tracing::info!(
                source = %self.source.key, revision = commit_label(good), writes = report.writes,
                "live objects of {models} are reverted to the last-known-good revision"
            );
            self.update_state(|state| state.counts.drifted = memory.drifted_uncovered);
        }
        let findings = choice.findings_of(&report);
        if report.cancelled {
            return Ok((RestoreOutcome::Cancelled, findings));
        }
        Ok((RestoreOutcome::Restored, findings))
    }
}
