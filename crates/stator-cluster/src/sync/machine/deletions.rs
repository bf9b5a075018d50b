//! Deletions: asked for, waited for, and what is said of one that is not at its end.

use super::call_results::error_with_object;
use super::health_wait::HealthWait;
use super::model_sync::{MAX_RECHECKS, ModelSync};
use super::protocol::MachineEffect;
use super::tasks::{DeletePurpose, DeleteTask, SyncTask};
use crate::cluster::{ClusterError, DeleteOutcome};
use crate::sync::{SyncProgress, WaitingReason};
use stator_core::object::Object;

impl ModelSync {
    pub(super) fn settle_delete(
        &mut self,
        result: Result<DeleteOutcome, ClusterError>,
        effects: &mut Vec<MachineEffect>,
    ) {
        let Some(SyncTask::Delete(mut task)) = self.tasks.pop_front() else { return };
        self.attempt = 0;
        let object = task.step.object.clone();
        match result {
            Ok(deleted) => {
                let was_there = !matches!(deleted, DeleteOutcome::Absent);
                if was_there {
                    effects.push(MachineEffect::Report(SyncProgress::Deleted {
                        model: self.name.clone(),
                        object: object.clone(),
                    }));
                }
                let is_awaited = matches!(self.tasks.front(), Some(SyncTask::AwaitGone { .. }));
                match &deleted {
                    DeleteOutcome::Pending(live) if task.purpose != DeletePurpose::Replace => {
                        self.record_writer.mark_deletion_requested();
                        if !is_awaited {
                            self.report.add_going(describe_deletion(live));
                        }
                    }
                    DeleteOutcome::Gone | DeleteOutcome::Absent | DeleteOutcome::Pending(_) => {
                        self.record_writer.mark_deleted(&object.identity(), was_there);
                    }
                }
                if let Some((left, uid)) = task.step.leaves.as_deref() {
                    self.record_writer.mark_left(left, uid);
                }
                self.forget_outgoing(&task);
                if task.purpose != DeletePurpose::Replace && was_there {
                    self.report.count_pruned();
                    self.record_writer.add_history_line(task.history_line);
                }
            }
            // Status moves the resource version all the time: look whether it is still the object that was meant.
            Err(ClusterError::Precondition { .. }) if task.rechecks < MAX_RECHECKS && self.stopping.is_none() => {
                task.recheck = true;
                task.rechecks += 1;
                self.tasks.push_front(SyncTask::Delete(task));
            }
            Err(error) => self.fail_delete(&task, &error_with_object(&error, &object)),
        }
    }

    /// Says what is waited for until an object is gone, once for each finalizer that lets go.
    pub(super) fn report_deletion(&mut self, live: &Object, effects: &mut Vec<MachineEffect>) {
        let going = describe_deletion(live);
        if self.deletion_message.as_ref() != Some(&going) {
            effects.push(MachineEffect::Report(SyncProgress::Waiting {
                model: self.name.clone(),
                reason: WaitingReason { object: None, details: going.clone() },
            }));
            self.deletion_message = Some(going);
        }
    }

    pub(super) fn fail_delete(&mut self, task: &DeleteTask, message: &str) {
        if task.purpose == DeletePurpose::Replace {
            self.fail_apply(task.step.stage);
        }
        self.fail_object(&task.step.object, message);
    }

    /// A graph is gone whose place another has taken: what is waited for from now on is waited for anew.
    pub(super) fn forget_outgoing(&mut self, task: &DeleteTask) {
        if self.outgoing.remove(&task.step.object.identity()).is_some() {
            self.wait = HealthWait::default();
        }
    }
}

/// That an object is not gone yet, and what that waits for.
fn describe_deletion(live: &Object) -> String {
    let waits = match live.finalizers().as_slice() {
        [] => String::new(),
        finalizers => format!(" (waiting for finalizer {})", finalizers.join(", ")),
    };
    format!("{} is still being deleted{waits}", live.reference())
}
