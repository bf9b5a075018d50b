//! What a sync that is under way says: to the log, and to the status of its commit.

use super::commit::PolledCommit;
use crate::controller::sources::resolved_source::SourceKey;
use crate::controller::status_wording::CommitStage;
use stator_cluster::sync::SyncProgress;
use stator_core::outcome::SyncOutcome;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often a status says how far a sync is. Each change of it is a post, and hosts count those.
pub(super) const PROGRESS_INTERVAL: Duration = Duration::from_secs(30);

/// Which models are waited for.
#[derive(Debug, Default)]
pub(super) struct WaitingModels {
    open: BTreeMap<String, ()>,
    healthy: usize,
    any: bool,
}

impl WaitingModels {
    pub(super) fn take_in(&mut self, event: SyncProgress) {
        match event {
            SyncProgress::Waiting { model, .. } => {
                self.any = true;
                self.open.insert(model, ());
            }
            SyncProgress::Finished(outcome) => {
                self.open.remove(&outcome.name);
                self.healthy += usize::from(outcome.result.is_success());
            }
            SyncProgress::Applied { .. } | SyncProgress::Deleted { .. } | SyncProgress::Retrying { .. } => {}
        }
    }

    /// How far a sync of so many models is; nothing before one is waited for.
    pub(super) fn stage(&self, models: usize) -> Option<CommitStage> {
        let first = self.open.keys().next().cloned();
        self.any.then_some(CommitStage::Waiting { healthy: self.healthy, models, first })
    }
}

/// Writes one step of a sync to the log.
pub(super) fn log_progress(source: &SourceKey, commit: &PolledCommit, event: &SyncProgress) {
    let revision = commit.short();
    match event {
        SyncProgress::Applied { model, object } => tracing::info!(%source, revision, model, "applied {object}"),
        SyncProgress::Deleted { model, object } => tracing::info!(%source, revision, model, "deleted {object}"),
        SyncProgress::Retrying { model, message } => {
            tracing::warn!(%source, revision, model, "retrying: {message}")
        }
        SyncProgress::Waiting { model, reason } => tracing::debug!(%source, revision, model, "{reason}"),
        // Who interrupts a sync is told once, and not of each model.
        SyncProgress::Finished(outcome) if outcome.result.is_success() || outcome.result == SyncOutcome::Cancelled => {
            tracing::debug!(%source, revision, model = outcome.name, "{}", outcome.result);
        }
        SyncProgress::Finished(outcome) => {
            tracing::warn!(%source, revision, model = outcome.name, "{}: {}", outcome.result, outcome.message);
        }
    }
}
