//! How one model ends: its result, what is said of it, and what its record keeps.

use super::context::SyncContext;
use super::health_wait::WatchedObject;
use super::model_sync::ModelSync;
use super::record_writer::{RecordWrite, SyncEnding};
use super::tasks::SyncTask;
use crate::sync::ModelOutcome;
use stator_core::object::ObjectIdentity;
use stator_core::outcome::{OutcomeClass, SyncOutcome};
use stator_model::plan::{ObservedModelState, SyncState};

impl ModelSync {
    /// What is to be written of the record now. A new one that is waited for is stored without a status, which follows
    /// when the wait is over, or when it takes long.
    pub(super) fn pending_record_write(&self, around: &SyncContext<'_>) -> Option<RecordWrite> {
        let write = self.pending_status_write(around)?;
        if self.is_waiting() && self.stopping.is_none() && !self.record_writer.has_status() {
            return write.object.then_some(RecordWrite { status: false, ..write });
        }
        Some(write)
    }

    fn is_waiting(&self) -> bool {
        self.tasks
            .iter()
            .any(|task| matches!(task, SyncTask::AwaitHealth | SyncTask::AwaitGraph | SyncTask::AwaitDownload(_)))
    }

    /// What is to be written of the record now, its status included.
    pub(super) fn pending_status_write(&self, around: &SyncContext<'_>) -> Option<RecordWrite> {
        let is_waiting = self.is_waiting();
        let result = self.result();
        let elapsed = jiff::SignedDuration::try_from(around.now).unwrap_or_default();
        let time = around.settings.started.checked_add(elapsed).unwrap_or(around.settings.started);
        let time = time.round(jiff::Unit::Second).unwrap_or(time).to_string();
        let is_pending = |identity: &ObjectIdentity| self.tasks.iter().any(|task| task.is_about(identity));
        let message = self.message(result);
        let ending = SyncEnding {
            time: &time,
            result: result.record_word(is_waiting),
            message: &message,
            refused: self.report.failed_stage().is_some(),
            waited: self.report.has_waited() || self.has_waited_in_vain(),
            seen: self.observed_state(result, &message),
        };
        self.record_writer.next_write(ending, is_pending)
    }

    /// Whether the time of the whole sync was over while it waited for health.
    fn has_waited_in_vain(&self) -> bool {
        let is_late = self.stopping.as_ref().is_some_and(|(result, _)| *result == SyncOutcome::Unhealthy);
        is_late && self.wait.has_begun()
    }

    /// How the model stands, as far as this sync has seen it.
    fn observed_state(&self, result: SyncOutcome, message: &str) -> ObservedModelState {
        let to_do = self.tasks.iter().any(|task| matches!(task, SyncTask::Apply(_) | SyncTask::Delete(_)));
        let is_whole = !to_do && self.stopping.is_none() && self.report.is_applied_whole();
        let sync = if self.report.has_blocked() {
            SyncState::Blocked
        } else if is_whole {
            SyncState::Synced
        } else {
            SyncState::OutOfSync
        };
        let worst = self.watched.values().max_by_key(|watched| watched.health());
        let health = worst.map(WatchedObject::health).unwrap_or_default();
        let said = || worst.and_then(|watched| watched.verdict.as_ref()).map(|verdict| verdict.message.clone());
        ObservedModelState {
            sync,
            health,
            message: if message.is_empty() { said().unwrap_or_default() } else { message.to_owned() },
            is_stuck: match result.class() {
                OutcomeClass::Failure | OutcomeClass::Error => true,
                OutcomeClass::Success | OutcomeClass::Cancelled => false,
            },
            gpus: self
                .watched
                .values()
                .chain(self.outgoing.values())
                .fold(0, |sum, watched| sum.saturating_add(watched.gpus)),
            gpu_sku: if self.watched.is_empty() {
                // What a model that is gone leaves behind is of the SKU that it had.
                self.record_writer.recorded_sku()
            } else {
                self.watched.values().find_map(|watched| watched.gpu_sku.clone())
            },
        }
    }

    pub(super) fn result(&self) -> SyncOutcome {
        if let Some((result, _)) = &self.stopping {
            return *result;
        }
        let result = self.report.result();
        let is_applied = matches!(result, SyncOutcome::Synced | SyncOutcome::Unchanged | SyncOutcome::Healthy);
        let is_gone = self.is_retired && !self.record_writer.has_entries();
        if is_gone && is_applied { SyncOutcome::Deleted } else { result }
    }

    pub(super) fn message(&self, result: SyncOutcome) -> String {
        let mut parts: Vec<&str> = Vec::new();
        let waiting = self.wait.reason().to_string();
        let stopping = self.stopping.as_ref().map(|(_, why)| why.as_str());
        parts.extend(stopping);
        match &self.deletion_message {
            Some(going) if stopping.is_some() => parts.push(going),
            Some(_) | None if stopping.is_some() && self.wait.has_begun() && self.has_unhealthy_object() => {
                parts.push(&waiting);
            }
            Some(_) | None => {}
        }
        parts.extend(self.report.sentences(result));
        parts.join("; ")
    }

    fn has_unhealthy_object(&self) -> bool {
        self.watched.values().any(|watched| !watched.skipped && !watched.is_healthy())
    }

    pub(super) fn finish(&mut self) {
        let result = self.result();
        self.outcome = Some(ModelOutcome {
            name: self.name.clone(),
            result,
            message: self.message(result),
            applied: self.report.applied(),
            pruned: self.report.pruned(),
        });
        self.applied_all = true;
    }
}
