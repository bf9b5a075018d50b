//! One attempt at a commit, as a value that grows: what was [gathered](super::gather) is [planned](super::planned), and what is
//! planned is [executed](super::executed). What comes next is the machine's matter.

use super::attempt_report::AttemptReport;
use super::commit::PolledCommit;
use super::context::ReconcileContext;
use super::failure::AttemptFailure;
use super::machine::{AttemptOutcome, AttemptPass};
use crate::controller::cache::drift_detector::SyncInterruption;
use crate::controller::mirror_handle::GitError;
use crate::telemetry::traces::TraceSpan;
use stator_cluster::cluster::{ClusterError, Fence};
use stator_cluster::sync::CancelReason;
use stator_core::outcome::OutcomeClass;
use std::time::Instant;
use tokio::sync::watch;

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
    pub(super) span: TraceSpan,
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
                attempt.span.set_error(&report.verdict.sentence());
                Err(AttemptOutcome::Concluded(Box::new(report)))
            }
        }
    }
}
