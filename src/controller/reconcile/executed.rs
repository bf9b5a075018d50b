//! The last states of an attempt: its plan, carried out, and what that came to.

use super::attempt::{Attempt, AttemptEnd, CancelReceiver};
use super::attempt_cache::EnvironmentWatch;
use super::attempt_report::{ApprovedChanges, AttemptReport};
use super::context::{ReconcileContext, ReconcileTools};
use super::failure::AttemptFailure;
use super::machine::AttemptOutcome;
use super::measure::SyncMeasurement;
use super::planned::{CommitPlan, Planned, PlannedFacts};
use super::progress::{PROGRESS_INTERVAL, WaitingModels, log_progress};
use super::verdict::{PlanOverview, evaluate_sync};
use crate::controller::cache::drift_detector::PlannedWrites;
use crate::controller::metrics::SyncStage;
use crate::controller::status_wording::CommitStage;
use futures_util::FutureExt as _;
use futures_util::future::Either;
use stator_cluster::sync::{self, SyncOptions, SyncProgress, SyncReport};
use stator_core::object::{Object, ObjectIdentity};
use stator_model::plan::{Change, Plan, PlannedWrite, SyncBookkeeping};
use std::sync::{Mutex, PoisonError};
use tracing::Instrument as _;

impl PlannedFacts {
    /// What carrying the plan out came to, of models whose records are in `namespace`.
    fn to_report(&self, attempt: &Attempt, sync: &SyncReport, namespace: String) -> AttemptReport {
        let mut report = evaluate_sync(&self.overview, &self.findings, &self.faulty.models, sync);
        let unhealed =
            if attempt.pass.heal { self.repairs.waiting_models().union(&self.basis.unhealed).count() } else { 0 };
        let uncovered_drift = if self.uncovered.is_some() { self.drifted_uncovered } else { 0 };
        if let Some(models) = &mut report.models {
            models.counts.drifted = unhealed + uncovered_drift;
            models.namespace = namespace;
        }
        self.left_alone.count_in(&mut report);
        report.summary.uncovered = self.uncovered.clone();
        report.summary.drift = self.repairs.findings_of(sync);
        AttemptReport { took: attempt.started.elapsed(), ..report }
    }
}

impl ReconcileContext {
    /// Brings the cluster to where a plan wants it. When it is cancelled, it ends between two writes.
    pub(super) async fn execute_plan(
        &self,
        planned: Planned,
        (approval, had_verdict): (Option<ApprovedChanges>, bool),
        cancelled: CancelReceiver,
        tools: &mut ReconcileTools,
    ) -> AttemptOutcome {
        let Planned { attempt, commit_plan, facts } = planned;
        let measurement = self.board.begin_sync_measurement();
        let work = async {
            if !facts.repairs.findings.repaired.is_empty() {
                self.board.metrics.record_drift_repair(&self.source.key);
            }
            let changing = facts.overview.changing();
            if changing > 0 {
                self.check_fitness().await?;
            }
            tracing::info!(source = %self.source.key, revision = attempt.commit.short(), changing, "syncing");
            let sync = Synchronizing { attempt: &attempt, overview: &facts.overview, measurement: &measurement };
            let report =
                self.carry_out(sync, commit_plan, (approval, had_verdict), cancelled, &mut tools.watch).await?;
            if report.cancelled { Err(AttemptEnd::Cancelled) } else { Ok(report) }
        };
        let sync = work.instrument(attempt.log_span.clone()).boxed().await;
        let (mut attempt, sync) = match self.check_end(attempt, sync) {
            Ok(done) => done,
            Err(outcome) => return outcome,
        };
        let report = facts.to_report(&attempt, &sync, tools.watch.namespace.clone());
        let is_success = report.summary.is_success;
        self.board.measure_sync(&attempt.commit, &measurement, &sync, is_success, &mut tools.reported.measured);
        if is_success {
            self.record_applied(&attempt.commit.commit).await;
        } else {
            attempt.span.set_error(&report.verdict.sentence());
        }
        AttemptOutcome::Concluded(Box::new(report))
    }

    /// Refuses to write where the cluster would drop a part of it.
    pub(super) async fn check_fitness(&self) -> Result<(), AttemptFailure> {
        match self.target.cluster.write_obstacle().await.map_err(AttemptFailure::unknown_fitness)? {
            Some(problem) => Err(AttemptFailure::unfit_cluster(problem)),
            None => Ok(()),
        }
    }

    /// Carries a plan out, unless it is better begun anew. A commit without a verdict goes on where somebody changes an
    /// object: what comes of it is waited for.
    async fn carry_out(
        &self,
        sync: Synchronizing<'_>,
        commit_plan: CommitPlan,
        (approval, had_verdict): (Option<ApprovedChanges>, bool),
        cancelled: CancelReceiver,
        watch: &mut EnvironmentWatch,
    ) -> Result<SyncReport, AttemptEnd> {
        let (plan, bookkeeping, delta) = commit_plan.into_parts();
        let (written, attempt) = (planned_writes(&plan), sync.attempt);
        let labels = watch.labels.clone();
        let mut options = SyncOptions::new(jiff::Timestamp::now(), super::jitter_seed());
        options.wait = true;
        options.prune = self.source.spec.prune.unwrap_or(true);
        options.timeout = self.source.timeout;
        options.lists = delta.lists.including(plan.changes.iter().flat_map(Change::objects));
        options.approval = approval.as_ref().map(ApprovedChanges::for_records);
        let work = self.run_reported_sync(sync, (plan, bookkeeping, options), cancelled);
        let work = self.board.measure_stage(SyncStage::Sync, work).boxed();
        let is_ours = |object: &Object| super::is_ours(object, labels.as_ref());
        let interrupts = |object: &ObjectIdentity| had_verdict && attempt.pass.limits.lets_interrupt(object);
        let gone = watch.detector.wait_for_interruption(is_ours, &written, interrupts).boxed();
        match futures_util::future::select(work, gone).await {
            Either::Left((report, _)) => Ok(report),
            // Between two writes as between any: the next attempt finds what is left.
            Either::Right((interruption, _)) => Err(AttemptEnd::Interrupted(interruption)),
        }
    }

    /// Runs a sync, and reports from time to time how far it is.
    async fn run_reported_sync(
        &self,
        Synchronizing { attempt, overview, measurement }: Synchronizing<'_>,
        (plan, bookkeeping, options): (Plan, SyncBookkeeping, SyncOptions),
        cancelled: CancelReceiver,
    ) -> SyncReport {
        let commit = &attempt.commit;
        self.board.report_stage(&commit.commit, CommitStage::Applying { models: overview.changing() }, |_| {});
        let waiting: Mutex<WaitingModels> = Mutex::default();
        let sink = |event: SyncProgress| {
            log_progress(&self.source.key, commit, &event);
            self.board.measure_progress(measurement, &event);
            waiting.lock().unwrap_or_else(PoisonError::into_inner).take_in(event);
        };
        let mut work = sync::run_sync(&self.target.cluster, plan, bookkeeping, options, &sink, cancelled).boxed();
        let mut due = tokio::time::interval(PROGRESS_INTERVAL);
        due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                report = &mut work => return report,
                _ = due.tick() => {
                    let stage = waiting.lock().unwrap_or_else(PoisonError::into_inner).stage(overview.models());
                    if let Some(stage) = stage {
                        self.board.report_stage(&commit.commit, stage, |_| {});
                    }
                }
            }
        }
    }
}

/// What a sync is of, and what it is measured by.
struct Synchronizing<'a> {
    attempt: &'a Attempt,
    overview: &'a PlanOverview,
    measurement: &'a SyncMeasurement,
}

/// The objects that a sync of this plan writes.
pub(super) fn planned_writes(plan: &Plan) -> PlannedWrites {
    let mut planned = PlannedWrites::default();
    for change in &plan.changes {
        match change.step.write() {
            Some(PlannedWrite::Replace { delete, apply }) => {
                planned.deleted.insert(change.object.identity());
                if delete.after.is_some() {
                    planned.applied.insert(apply.object.reference().identity());
                }
            }
            Some(PlannedWrite::Delete(_)) => {
                planned.deleted.insert(change.object.identity());
            }
            Some(PlannedWrite::Apply(_)) => {
                planned.applied.insert(change.object.identity());
            }
            None => {}
        }
    }
    planned
}
