//! Waiting for weights: the graph that is to serve them is applied once they are downloaded, and is left as it is where they
//! are not.

use super::context::SyncContext;
use super::health_wait::{HealthWait, WatchedObject, is_good_verdict};
use super::model_sync::{ModelSync, ModelTurn};
use super::protocol::MachineEffect;
use super::tasks::{DeletePurpose, DeleteTask, SyncTask};
use super::waiting::{WaitResult, WaitScope};
use crate::cluster::ClusterError;
use stator_core::dynamo::kinds::GRAPH;
use stator_core::object::{Object, ObjectRef};
use stator_model::render::ApplyStage;
use std::collections::BTreeSet;

impl ModelSync {
    /// The Job was looked at: the graph goes on, waits, or is left for a later sync.
    pub(super) fn settle_download_check(
        &mut self,
        around: &SyncContext<'_>,
        job: ObjectRef,
        result: Result<Option<Object>, ClusterError>,
    ) {
        if let (Ok(Some(live)), Some(watched)) = (&result, self.watched.get_mut(&job.identity())) {
            watched.observe(live);
        }
        if self.watched.get(&job.identity()).and_then(|one| one.verdict.as_ref()).is_some_and(is_good_verdict) {
            return;
        }
        if let Err(error) = &result {
            self.report.add_fault(format!("{job}: {error}; {}", error.help()));
            return self.leave_after_download("it is not known whether its weights are downloaded");
        }
        if around.settings.wait {
            self.tasks.push_front(SyncTask::AwaitDownload(job));
            // The record says that the graph waits, for as long as it does.
            self.tasks.push_front(SyncTask::WriteRecord);
            return;
        }
        let watched = self.watched.get(&job.identity());
        if let Some(message) = watched.and_then(WatchedObject::terminal_message) {
            self.report.add_health_fault(message);
            return self.leave_after_download("its weights are not downloaded");
        }
        let why = match &result {
            Ok(Some(_)) => watched.and_then(WatchedObject::waiting_message).unwrap_or_default(),
            Ok(None) | Err(_) => format!("{job} does not exist yet"),
        };
        let graphs: Vec<ObjectRef> =
            self.awaiting_download().into_iter().filter(|one| one.kind == GRAPH.kind).collect();
        self.leave_after_download("its weights are not downloaded");
        for graph in graphs {
            self.report.add_deferred(format!("{graph} is waiting for its weights ({why}); run `stator sync --wait`"));
        }
    }

    /// Waits until the weights are downloaded. `None` once that is decided.
    pub(super) fn await_download(
        &mut self,
        around: &SyncContext<'_>,
        job: &ObjectRef,
        effects: &mut Vec<MachineEffect>,
    ) -> Option<ModelTurn> {
        let is_complete = self.watched.get(&job.identity()).is_some_and(WatchedObject::is_healthy);
        let result = if is_complete { WaitResult::Over } else { self.wait_for(around, WaitScope::Download, effects) };
        let message = match result {
            WaitResult::Turn(turn) => return Some(turn),
            WaitResult::Over => None,
            WaitResult::Failed(message) | WaitResult::Late(message) => Some(message),
        };
        self.tasks.pop_front();
        if let Some(message) = message {
            self.report.add_health_fault(message);
            self.leave_after_download("its weights are not downloaded");
        }
        // What is waited for from now on is waited for anew.
        self.wait = HealthWait::default();
        None
    }

    /// What is written once the Job is complete: later Jobs, and everything that follows them.
    fn awaiting_download(&self) -> Vec<ObjectRef> {
        let made = self.tasks.iter().filter_map(SyncTask::created_object);
        let objects: BTreeSet<ObjectRef> =
            made.filter(|(_, stage)| *stage >= ApplyStage::Download).map(|(object, _)| object).collect();
        objects.into_iter().collect()
    }

    /// The graph stays as it is, and with it all that would follow it: its adapters, and what it no longer needs.
    pub(super) fn leave_after_download(&mut self, why: &str) {
        self.report.mark_awaiting_download();
        for object in self.awaiting_download() {
            let is_served = object.kind == GRAPH.kind
                && self.watched.get(&object.identity()).is_some_and(|one| one.generation.is_some());
            let stays = if is_served { "keeps serving unchanged" } else { "is skipped for now" };
            self.report.add_note(format!("{object} {stays}: {why}"));
            self.skip_object(&object.identity());
        }
        let pruned: Vec<ObjectRef> = self
            .tasks
            .iter()
            .filter_map(|task| {
                let SyncTask::Delete(DeleteTask { step, purpose: DeletePurpose::Prune, .. }) = task else {
                    return None;
                };
                Some(step.object.clone())
            })
            .collect();
        for object in pruned {
            self.skip_object(&object.identity());
        }
        let is_over = |task: &SyncTask| {
            matches!(task, SyncTask::CheckGraph(_) | SyncTask::AwaitGraph | SyncTask::CheckDownload(_))
        };
        self.tasks.retain(|task| !is_over(task));
    }
}
