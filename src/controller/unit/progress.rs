//! What a sync that is under way says: to the log, and to the status of its commit.

use super::Head;
use crate::controller::sources::SourceKey;
use crate::controller::verdicts::Stage;
use stator_cluster::sync::Progress;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often a status says how far a sync is. Each change of it is a post, and hosts count those.
pub(super) const TELL: Duration = Duration::from_secs(30);

/// Which models are waited for.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    open: BTreeMap<String, ()>,
    healthy: usize,
    any: bool,
}

impl Waiting {
    pub(super) fn tell(&mut self, event: Progress) {
        match event {
            Progress::Waiting { model, .. } => {
                self.any = true;
                self.open.insert(model, ());
            }
            Progress::Finished(outcome) => {
                self.open.remove(&outcome.name);
                self.healthy += usize::from(outcome.result.is_success());
            }
            Progress::Applied { .. } | Progress::Deleted { .. } | Progress::Retrying { .. } => {}
        }
    }

    /// How far a sync of so many models is; nothing before one is waited for.
    pub(super) fn stage(&self, models: usize) -> Option<Stage> {
        let first = self.open.keys().next().cloned();
        self.any.then_some(Stage::Waiting { healthy: self.healthy, models, first })
    }
}

/// Writes one step of a sync to the log.
pub(super) fn log(source: &SourceKey, head: &Head, event: &Progress) {
    let revision = head.short();
    match event {
        Progress::Applied { model, object } => tracing::info!(%source, revision, model, "applied {object}"),
        Progress::Deleted { model, object } => tracing::info!(%source, revision, model, "deleted {object}"),
        Progress::Retrying { model, message } => tracing::warn!(%source, revision, model, "trying again: {message}"),
        Progress::Waiting { model, message } => tracing::debug!(%source, revision, model, "{message}"),
        Progress::Finished(outcome) if outcome.result.is_success() => {
            tracing::debug!(%source, revision, model = outcome.name, "{}", outcome.result);
        }
        Progress::Finished(outcome) => {
            tracing::warn!(%source, revision, model = outcome.name, "{}: {}", outcome.result, outcome.message);
        }
    }
}
