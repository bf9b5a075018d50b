//! One attempt at a commit, as a value that grows: what was [gathered](super::gather) is [planned](super::planned), and what is
//! planned is [executed](super::executed). What comes next is the machine's matter.

use super::attempt_report::AttemptReport;
use super::commit::PolledCommit;
use super::context::{ReconcileContext, ReconcileTools};
use super::failure::AttemptFailure;
use super::gather::Gathered;
use super::machine::{AttemptOutcome, AttemptPass};
use super::planned::{CommitPlan, FaultyModels, Planned};
use crate::controller::cache::drift_detector::SyncInterruption;
use crate::controller::metrics::SyncStage;
use crate::controller::mirror_handle::GitError;
use crate::controller::sources::registry::{SourcePhase, TimestampedRevision};
use crate::controller::status_wording::CommitStage;
use crate::telemetry::traces::TraceSpan;
use futures_util::FutureExt as _;
use stator_cluster::cluster::{ClusterError, Fence};
use stator_cluster::sync::{CancelReason, PlanParameters};
use stator_core::outcome::OutcomeClass;
use stator_model::plan::{HoldKind, PlanScope};
use std::collections::BTreeSet;
use std::time::Instant;
use tokio::sync::watch;
use tracing::Instrument as _;

/// How work hears that it is to end.
pub(super) type CancelReceiver = watch::Receiver<Option<CancelReason>>;

/// Waits until work is asked to stop.
pub(super) async fn wait_for_cancel(cancelled: &mut CancelReceiver) {
    if cancelled.wait_for(Option::is_some).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// What an attempt is of, from its beginning to its end.
pub(super) struct Attempt {
    pub(super) commit: PolledCommit,
    pub(super) pass: AttemptPass,
    pub(super) started: Instant,
    /// What its lines in the log are about.
    pub(super) log_span: tracing::Span,
    span: TraceSpan,
}

impl Attempt {
    /// It ended with this.
    pub(super) fn set_error(&mut self, message: &str) {
        self.span.set_error(message);
    }
}

/// Why an attempt has no next state.
pub(super) enum AttemptEnd {
    /// It got nowhere.
    Failed(AttemptFailure),
    /// It was asked to stop.
    Cancelled,
    /// An object was changed or deleted meanwhile: it is better begun anew.
    Interrupted(SyncInterruption),
}

impl From<AttemptFailure> for AttemptEnd {
    fn from(failure: AttemptFailure) -> Self {
        Self::Failed(failure)
    }
}

impl From<GitError> for AttemptEnd {
    fn from(error: GitError) -> Self {
        Self::Failed(error.into())
    }
}

impl ReconcileContext {
    /// Begins an attempt: reads and plans a commit. When it is cancelled, it ends at once.
    pub(super) async fn plan_attempt(
        &self,
        commit: PolledCommit,
        pass: AttemptPass,
        cancelled: CancelReceiver,
        tools: &mut ReconcileTools,
    ) -> Result<Planned, AttemptOutcome> {
        self.board.update_state(|state| {
            state.phase = SourcePhase::Reading;
            if state.attempted.as_ref().is_none_or(|attempted| attempted.commit != commit.commit) {
                state.attempted = Some(TimestampedRevision::now(&commit.commit));
            }
        });
        let started = Instant::now();
        let (span, log_span) = self.board.begin_attempt_span(&commit);
        let attempt = Attempt { commit, pass, started, log_span, span };
        let work = self.read_and_plan(&attempt.commit, cancelled, tools);
        let planned = work.instrument(attempt.log_span.clone()).boxed().await;
        let (attempt, (commit_plan, faulty)) = self.check_end(attempt, planned)?;
        Ok(Planned::new(attempt, commit_plan, faulty))
    }

    async fn read_and_plan(
        &self,
        commit: &PolledCommit,
        mut cancelled: CancelReceiver,
        ReconcileTools { watch, cache, reported: _ }: &mut ReconcileTools,
    ) -> Result<(CommitPlan, FaultyModels), AttemptEnd> {
        self.board.statuses.report_progress(&commit.commit, CommitStage::Reading);
        let planner = cache.planner.clone();
        let gathered = self.gather(&commit.commit, Some(&self.board.statuses), planner, (watch, cache));
        let gathered = tokio::select! {
            gathered = gathered.boxed() => gathered?,
            () = wait_for_cancel(&mut cancelled) => return Err(AttemptEnd::Cancelled),
        };
        let Gathered { rendered, .. } = &gathered;
        self.check_policy_windows(rendered).await?;
        let faulty = FaultyModels::of_commit(rendered);
        let parameters = PlanParameters {
            revision: commit.commit.clone(),
            folder: self.recorded_folder(rendered.is_named),
            rewound: self.rewound_branch(&commit.commit, &mut cache.lineage).await?,
            allow: BTreeSet::new(),
            prune: self.source.spec.prune.unwrap_or(true),
            scope: PlanScope::All,
        };
        let is_cached = self.target.cluster.is_cached(&watch.namespace);
        let planning = CommitPlan::build(&self.target.cluster, gathered, parameters, is_cached);
        Ok((self.board.measure_stage(SyncStage::Plan, planning).await?, faulty))
    }

    /// Releases guards in a plan, for what somebody approved.
    pub(super) async fn release_holds(
        &self,
        planned: Planned,
        kinds: BTreeSet<HoldKind>,
    ) -> Result<Planned, AttemptOutcome> {
        let Planned { attempt, commit_plan, faulty, .. } = planned;
        let work = self.board.measure_stage(SyncStage::Plan, commit_plan.release(&self.target.cluster, kinds));
        let released = work.instrument(attempt.log_span.clone()).boxed().await;
        let (attempt, commit_plan) = self.check_end(attempt, released.map_err(AttemptEnd::from))?;
        Ok(Planned::new(attempt, commit_plan, faulty))
    }

    /// Goes on with an attempt that has a next state, and says how one ended that has none. Nothing that was found counts
    /// where another replica may be at work by now.
    pub(super) fn check_end<T>(
        &self,
        mut attempt: Attempt,
        result: Result<T, AttemptEnd>,
    ) -> Result<(Attempt, T), AttemptOutcome> {
        let (source, revision) = (&self.source.key, attempt.commit.short());
        let log_span = attempt.log_span.clone();
        let _log_span = log_span.enter();
        let took = attempt.started.elapsed();
        let record_cancelled = || self.board.metrics.record_sync(source, OutcomeClass::Cancelled, 0, took);
        if self.is_fenced_off() {
            tracing::warn!(%source, revision, "{}", ClusterError::Fenced);
            let refused = self.target.fence.as_ref().map_or(0, Fence::take_refused_writes);
            (0..refused).for_each(|_| self.board.metrics.record_fenced_write());
            record_cancelled();
            return Err(AttemptOutcome::FencedOff);
        }
        match result {
            Ok(next) => Ok((attempt, next)),
            Err(AttemptEnd::Cancelled) => {
                record_cancelled();
                Err(AttemptOutcome::Cancelled)
            }
            Err(AttemptEnd::Interrupted(SyncInterruption::Deleted(object))) => {
                tracing::info!(%source, revision, "{object} was deleted in the meantime");
                record_cancelled();
                Err(AttemptOutcome::ObjectLost(object.identity()))
            }
            Err(AttemptEnd::Interrupted(SyncInterruption::Changed(object))) => {
                tracing::info!(%source, revision, "{object} was changed in the meantime");
                record_cancelled();
                Err(AttemptOutcome::ObjectChanged(object.identity()))
            }
            Err(AttemptEnd::Failed(failure)) => {
                let report: AttemptReport = failure.into_report(took);
                attempt.set_error(&report.verdict.sentence());
                Err(AttemptOutcome::Concluded(Box::new(report)))
            }
        }
    }
}
