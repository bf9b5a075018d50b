//! Graphs whose place another takes, and files that a graph no longer mounts: each goes once that graph is seen to serve, and
//! stays where it is not.

use super::context::SyncContext;
use super::health_wait::WatchedObject;
use super::model_sync::ModelSync;
use super::tasks::{DeletePurpose, DeleteTask, SyncTask, stage_of};
use stator_core::dynamo::health::Health;
use stator_core::dynamo::kinds::{GRAPH, HTTP_ROUTE, JOB};
use stator_core::object::ObjectRef;
use stator_model::render::ApplyStage;

impl ModelSync {
    /// Whether a graph is seen to serve, with all adapters of the model, and what was downloaded for it is complete.
    pub(super) fn has_taken_over(&self, graph: &ObjectRef) -> bool {
        let is_seen_healthy = |one: &WatchedObject| !one.skipped && one.is_healthy();
        let mut adapters = self.watched.values().filter(|one| stage_of(&one.object) == ApplyStage::Adapter);
        self.watched.get(&graph.identity()).is_some_and(is_seen_healthy)
            && adapters.all(is_seen_healthy)
            && self.lost_route().is_none()
            && self.unfinished_download().is_none()
    }

    /// A download of the model that is not complete. One that was complete when it was planned is so for good.
    fn unfinished_download(&self) -> Option<&WatchedObject> {
        let was_complete = |one: &WatchedObject| !one.is_seen() && one.planned == Some(Health::Healthy);
        let is_complete = |one: &WatchedObject| one.is_healthy() || was_complete(one);
        self.watched.values().find(|one| stage_of(&one.object) == ApplyStage::Download && !is_complete(one))
    }

    /// A route of the model that no gateway takes, as far as known: clients may come by the graph that goes.
    fn lost_route(&self) -> Option<&WatchedObject> {
        let was_healthy = |one: &WatchedObject| !one.is_seen() && one.planned == Some(Health::Healthy);
        let is_taken = |one: &WatchedObject| !one.skipped && (one.is_healthy() || was_healthy(one));
        self.watched.values().find(|one| one.object.kind == HTTP_ROUTE.kind && !is_taken(one))
    }

    /// Graphs stay whose place is not taken.
    pub(super) fn keep_all_outgoing(&mut self, around: &SyncContext<'_>) {
        let replaced = self.tasks.iter().filter_map(|task| {
            let SyncTask::Delete(DeleteTask { step, purpose: DeletePurpose::ReplacedBy(successor), .. }) = task else {
                return None;
            };
            Some((step.object.clone(), successor.clone()))
        });
        for (outgoing, successor) in replaced.collect::<Vec<_>>() {
            if !self.has_taken_over(&successor) {
                self.keep_outgoing(around, &outgoing, &successor);
            }
        }
    }

    /// A graph stays, since what is to take its place is not ready for that.
    pub(super) fn keep_outgoing(&mut self, around: &SyncContext<'_>, outgoing: &ObjectRef, successor: &ObjectRef) {
        let is_healthy = self.watched.get(&successor.identity()).is_some_and(WatchedObject::is_healthy);
        let what = match self.unfinished_download().or_else(|| self.lost_route().filter(|_| is_healthy)) {
            Some(one) => &format!("{} is", one.object),
            None if is_healthy => "the adapters are",
            None => &format!("{successor} is"),
        };
        let stays = if outgoing.kind == GRAPH.kind { "keeps serving" } else { "stays" };
        let message = format!("{outgoing} {stays}, because {what} not Healthy");
        if self.report.differs_from_git() {
            // That an old Job is still there is nobody's trouble.
            if outgoing.kind != JOB.kind {
                self.report.add_note(message);
            }
        } else if around.settings.wait {
            self.report.add_health_fault(message);
        } else {
            self.report.add_deferred(format!("{message} yet; run `stator sync --wait`"));
        }
        self.skip_object(&outgoing.identity());
    }
}
