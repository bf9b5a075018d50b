//! One turn of a wait: for a download, for the graph, or for everything of a model.

use super::context::{SyncContext, format_duration};
use super::health_wait::WatchedObject;
use super::model_sync::{CallPurpose, FirstStatus, ModelSync, ModelSyncState, ModelTurn};
use super::protocol::{ClusterCall, MachineEffect, MachineSettings};
use super::tasks::{SyncTask, stage_of};
use crate::sync::{SyncProgress, WaitingReason};
use stator_core::object::ObjectRef;
use stator_model::render::ApplyStage;
use std::time::Duration;

/// How long adapters must stay Healthy after a wait. The operator looks at them some time after their workers were
/// replaced, and until then their status is that of the workers before, which may be as many.
const ADAPTER_SETTLE_TIME: Duration = Duration::from_secs(2);

/// After how long a wait a new record is given a status that says so. Most waits are shorter, and cost no write.
const FIRST_STATUS_DELAY: Duration = Duration::from_secs(10);

/// What a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitScope {
    /// The download, and the volume that it needs.
    Download,
    /// The graph.
    Graph,
    /// Everything of the model.
    Everything,
}

impl WaitScope {
    fn covers(self, stage: ApplyStage) -> bool {
        match self {
            Self::Download => stage <= ApplyStage::Download,
            Self::Graph => stage == ApplyStage::Graph,
            Self::Everything => true,
        }
    }
}

/// How a wait goes on.
pub(super) enum WaitResult {
    /// It does not end now.
    Turn(ModelTurn),
    /// Everything is Healthy.
    Over,
    /// Something failed for good.
    Failed(String),
    /// There was no progress for too long.
    Late(String),
}

impl ModelSync {
    /// How long there may be no progress. A download says nothing new while it runs, and its Job has a deadline of its own.
    pub(super) fn patience(&self, settings: &MachineSettings) -> Duration {
        let download = match self.tasks.front() {
            Some(SyncTask::AwaitDownload(job)) => {
                self.watched.get(&job.identity()).and_then(|one| one.download_deadline)
            }
            Some(_) | None => None,
        };
        settings.progress_deadline.saturating_add(download.unwrap_or_default())
    }

    /// Waits for the graph, or for everything. `None` when there is nothing left to wait for.
    pub(super) fn await_health(
        &mut self,
        around: &SyncContext<'_>,
        graph_only: bool,
        effects: &mut Vec<MachineEffect>,
    ) -> Option<ModelTurn> {
        if self.report.differs_from_git() {
            // It will not become what git says: waiting would only hide that.
            self.drop_followers("its graph differs from git");
            return None;
        }
        let scope = if graph_only { WaitScope::Graph } else { WaitScope::Everything };
        match self.wait_for(around, scope, effects) {
            WaitResult::Turn(turn) => return Some(turn),
            WaitResult::Over => self.report.mark_healthy(),
            WaitResult::Failed(message) => {
                self.report.add_health_fault(message);
                self.drop_followers("its graph failed");
            }
            WaitResult::Late(message) => {
                self.report.add_health_fault(message);
                self.drop_followers("its graph is not ready");
            }
        }
        None
    }

    /// Waits for what the scope covers.
    pub(super) fn wait_for(
        &mut self,
        around: &SyncContext<'_>,
        scope: WaitScope,
        effects: &mut Vec<MachineEffect>,
    ) -> WaitResult {
        let awaited = match self.tasks.front() {
            Some(SyncTask::AwaitDownload(job)) => Some(job.identity()),
            Some(_) | None => None,
        };
        // What another Job does is no reason to wait for this one.
        let is_other_job = |watched: &WatchedObject| {
            scope == WaitScope::Download
                && stage_of(&watched.object) == ApplyStage::Download
                && awaited.as_ref() != Some(&watched.object.identity())
        };
        let waited: Vec<&WatchedObject> = self
            .watched
            .values()
            .filter(|watched| !watched.skipped)
            .filter(|watched| scope.covers(stage_of(&watched.object)) && !is_other_job(watched))
            .collect();
        if let Some(message) = waited.iter().find_map(|watched| watched.terminal_message()) {
            return WaitResult::Failed(message);
        }
        if scope == WaitScope::Everything
            && let Some((at, frontend)) = self.next_question()
            && at <= around.now
        {
            return WaitResult::Turn(self.start_call(ClusterCall::AskFrontend(frontend), CallPurpose::FrontTask));
        }
        // Until a first look has come back, there is nothing to be said to anybody.
        let is_seen = waited.iter().any(|one| one.is_seen() && one.waiting_message().is_some());
        let reported = waited.iter().filter(|one| one.is_seen() || !is_seen);
        let mut waiting = reported.filter_map(|watched| Some((&watched.object, watched.waiting_message()?)));
        let reason = waiting.next().map(|(object, mut details)| {
            for (other, message) in waiting {
                details.push_str(&format!("; {other}: {message}"));
            }
            WaitingReason { object: Some(object.clone()), details }
        });
        let Some(reason) = reason else {
            let calm = *self.healthy_since.get_or_insert(around.now) + ADAPTER_SETTLE_TIME;
            let was_stirred = self.wait.has_begun() && self.watched.values().any(WatchedObject::is_adapter);
            if was_stirred && scope == WaitScope::Everything && around.now < calm {
                self.state = ModelSyncState::Pausing(calm);
                return WaitResult::Turn(ModelTurn::Paused);
            }
            return WaitResult::Over;
        };
        self.healthy_since = None;
        if self.wait.set_reason(around.now, reason.clone()) && is_seen {
            effects.push(MachineEffect::Report(SyncProgress::Waiting { model: self.name.clone(), reason }));
        }
        let deadline = self.patience(around.settings);
        let is_over = self.wait.deadline(deadline).is_some_and(|at| at <= around.now);
        let with_pods = self.watched.values().filter(|one| one.wants_pods() && scope.covers(stage_of(&one.object)));
        let owners: Vec<ObjectRef> = with_pods.map(|one| one.object.clone()).collect();
        if !owners.is_empty() && self.wait.should_read_pods(around.now, is_over) {
            return WaitResult::Turn(self.start_call(ClusterCall::ReadPods(owners), CallPurpose::FrontTask));
        }
        if is_over {
            let reason = self.wait.reason();
            return WaitResult::Late(format!("no progress for {}: {reason}", format_duration(deadline)));
        }
        match self.first_status {
            FirstStatus::NotDue if !self.record_writer.has_status() => {
                self.first_status = FirstStatus::At(around.now + FIRST_STATUS_DELAY);
            }
            FirstStatus::At(at) if at <= around.now => {
                if let Some(write) = self.pending_status_write(around) {
                    return WaitResult::Turn(self.start_call(write.to_call(), CallPurpose::Record(Box::new(write))));
                }
                self.first_status = FirstStatus::Given;
            }
            FirstStatus::NotDue | FirstStatus::At(_) | FirstStatus::Given => {}
        }
        self.state = ModelSyncState::Watching;
        WaitResult::Turn(ModelTurn::AwaitHealth)
    }
}
