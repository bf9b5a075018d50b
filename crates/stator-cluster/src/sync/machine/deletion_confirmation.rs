//! Where a delete is confirmed: before it, that the object is still the one that was meant, and after it, that it is gone.

use super::call_results::error_with_object;
use super::context::SyncContext;
use super::health_wait::HealthWait;
use super::model_sync::{MAX_RECHECKS, ModelSync, ModelSyncState};
use super::protocol::MachineEffect;
use super::tasks::{DeletePurpose, DeleteTask, SyncTask, stage_of};
use crate::cluster::{ClusterError, DeleteOutcome};
use crate::sync::{SyncProgress, WaitingReason};
use stator_core::object::{Object, ObjectRef};
use std::time::Duration;

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

    /// Before a delete: the object as it is now.
    pub(super) fn confirm_target(&mut self, mut task: DeleteTask, result: Result<Option<Object>, ClusterError>) {
        let object = task.step.object.clone();
        match result {
            Ok(None) => {
                self.record_writer.mark_deleted(&object.identity(), false);
                self.forget_outgoing(&task);
            }
            Ok(Some(live)) if live.uid() != Some(task.step.uid.as_str()) => {
                self.record_writer.mark_deleted(&object.identity(), false);
                self.report
                    .add_note(format!("{object} was replaced by another object of that name, and is not changed"));
                if task.purpose == DeletePurpose::Replace {
                    self.fail_delete(&task, &format!("{object} was created again by another client: sync again"));
                }
            }
            Ok(Some(live)) if !self.is_ours(&live) => {
                let message = format!("{object} is no longer labelled as this model's, so stator does not change it");
                self.fail_delete(&task, &message);
            }
            Ok(Some(live)) => {
                task.step.resource_version = live.resource_version().unwrap_or_default().to_owned();
                task.recheck = false;
                self.tasks.push_front(SyncTask::Delete(task));
            }
            Err(error) => self.fail_delete(&task, &error_with_object(&error, &object)),
        }
    }

    /// After a delete: whether the object of that uid is gone by now.
    pub(super) fn confirm_gone(
        &mut self,
        around: &SyncContext<'_>,
        (object, uid, since): (ObjectRef, String, Option<Duration>),
        result: Result<Option<Object>, ClusterError>,
        effects: &mut Vec<MachineEffect>,
    ) {
        match result {
            Ok(Some(live)) if live.uid() == Some(uid.as_str()) => {
                self.state = ModelSyncState::Pausing(around.now + self.gone_poll_delay());
                self.attempt = 0;
                self.polls += 1;
                self.report_deletion(&live, effects);
                self.tasks.push_front(SyncTask::AwaitGone { object, uid, since });
            }
            Ok(Some(_)) | Ok(None) => {
                (self.attempt, self.polls) = (0, 0);
                self.deletion_message = None;
                self.record_writer.mark_deleted(&object.identity(), false);
            }
            Err(error) => {
                self.attempt = 0;
                self.deletion_message = None;
                self.fail_apply(stage_of(&object));
                self.fail_object(&object, &error_with_object(&error, &object));
            }
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
