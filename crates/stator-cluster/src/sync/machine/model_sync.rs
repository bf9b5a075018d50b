//! One model: a queue of tasks, at most one call in flight.

use super::context::{JournalGate, PruneBarrier, SyncContext, format_duration};
use super::frontend_questions::FrontendQuestions;
use super::health_wait::{HealthWait, WatchedObject};
use super::model_report::ModelReport;
use super::protocol::{ClusterCall, MachineEffect, MachineSettings};
use super::record_writer::{RecordWrite, RecordWriter};
use super::tasks::{ApplyTask, DeletePurpose, DeleteTask, SyncTask};
use crate::cluster::{ApplyRequest, NO_OBJECTS_VERSION, Preconditions};
use crate::sync::ModelOutcome;
use stator_core::object::{ObjectIdentity, ObjectRef};
use stator_core::outcome::SyncOutcome;
use stator_model::render::ApplyStage;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// How often a delete is tried again while its object's status keeps moving.
pub(super) const MAX_RECHECKS: u32 = 8;
/// The longest pause between two looks at an object that is going.
const MAX_GONE_POLL: Duration = Duration::from_millis(500);

/// One model's state.
#[derive(Debug)]
pub(super) struct ModelSync {
    pub(super) name: String,
    pub(super) tasks: VecDeque<SyncTask>,
    pub(super) record_writer: RecordWriter,
    pub(super) watched: BTreeMap<ObjectIdentity, WatchedObject>,
    /// Graphs that go once others have taken their place. They are not waited for, and adapters run on their workers too.
    pub(super) outgoing: BTreeMap<ObjectIdentity, WatchedObject>,
    /// The graph that git wants.
    pub(super) own_graph: Option<ObjectRef>,
    pub(super) state: ModelSyncState,
    /// Tries of the call at the front.
    pub(super) attempt: u32,
    /// Looks at an object that is going.
    pub(super) polls: u32,
    pub(super) wait: HealthWait,
    /// When a new record is given a status although the wait is not over.
    pub(super) first_status: FirstStatus,
    pub(super) questions: FrontendQuestions,
    /// All was well when the last sync ended, and is as far as seen since: no frontend is asked then.
    pub(super) stays_healthy: bool,
    /// Since when everything that was waited for is Healthy.
    pub(super) healthy_since: Option<Duration>,
    /// What it waits to be gone, in a sentence.
    pub(super) deletion_message: Option<String>,
    /// What was done, and what went wrong.
    pub(super) report: ModelReport,
    /// Git no longer has it.
    pub(super) is_retired: bool,
    /// It is to end, how, and why.
    pub(super) stopping: Option<(SyncOutcome, String)>,
    /// It passed the barrier, or has nothing to apply before it.
    pub(super) applied_all: bool,
    /// Models that take its place: they are applied before it is pruned.
    pub(super) succeeding_models: Vec<String>,
    pub(super) outcome: Option<ModelOutcome>,
}

/// When a new record is given a status before a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstStatus {
    /// Nothing is waited for, or the record has one.
    NotDue,
    /// At that time, if the wait is not over.
    At(Duration),
    /// It was given one.
    Given,
}

/// What a model is doing.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ModelSyncState {
    /// Its turn may come.
    Ready,
    /// A call is in flight.
    Calling(CallPurpose),
    /// Until then.
    Pausing(Duration),
    /// For health.
    Watching,
}

/// What a call in flight is for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CallPurpose {
    /// The task at the front of the queue.
    FrontTask,
    /// The record.
    Record(Box<RecordWrite>),
}

/// What came of a turn.
pub(super) enum ModelTurn {
    /// Call the cluster.
    Call(Box<ClusterCall>),
    /// It stands at the barrier.
    Barrier,
    /// It waits for the journal to be written.
    AwaitJournal,
    /// It has come to its record, whose turn it is not.
    AwaitRecordTurn,
    /// It waits for time to pass.
    Paused,
    /// It waits for health.
    AwaitHealth,
    /// It is through.
    Done,
}

impl ModelSync {
    pub(super) fn new(
        name: String,
        tasks: VecDeque<SyncTask>,
        record_writer: RecordWriter,
        (watched, outgoing): (BTreeMap<ObjectIdentity, WatchedObject>, BTreeMap<ObjectIdentity, WatchedObject>),
        report: ModelReport,
        (is_retired, succeeding_models): (bool, Vec<String>),
    ) -> Self {
        Self {
            name,
            tasks,
            stays_healthy: record_writer.says_healthy(),
            questions: FrontendQuestions::default(),
            record_writer,
            watched,
            outgoing,
            own_graph: None,
            state: ModelSyncState::Ready,
            attempt: 0,
            polls: 0,
            wait: HealthWait::default(),
            first_status: FirstStatus::NotDue,
            healthy_since: None,
            deletion_message: None,
            report,
            is_retired,
            stopping: None,
            applied_all: false,
            succeeding_models,
            outcome: None,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn outcome(&self) -> Option<&ModelOutcome> {
        self.outcome.as_ref()
    }

    pub(super) fn is_calling(&self) -> bool {
        matches!(self.state, ModelSyncState::Calling(_))
    }

    pub(super) fn has_applied(&self) -> bool {
        self.applied_all
    }

    /// Whether something of it was not applied, and will not be in this sync.
    pub(super) fn has_failed_apply(&self) -> bool {
        self.report.failed_stage().is_some()
            || self.report.has_blocked()
            || self.report.awaits_download()
            || self.stopping.is_some()
    }

    /// Whether it waits until an object is gone that it is to make again, or until weights are downloaded. The one may take
    /// for ever, as a claim goes when no pod uses it any more, and the other hours.
    pub(super) fn may_wait_long(&self) -> bool {
        matches!(self.tasks.front(), Some(SyncTask::AwaitGone { .. } | SyncTask::AwaitDownload(_)))
    }

    /// When it wants a turn although nothing happened.
    pub(super) fn wake_at(&self, settings: &MachineSettings) -> Option<Duration> {
        match self.state {
            ModelSyncState::Pausing(until) => Some(until),
            ModelSyncState::Watching => {
                let explains = self.watched.values().any(WatchedObject::wants_pods);
                let status_at = match self.first_status {
                    FirstStatus::At(at) => Some(at),
                    FirstStatus::NotDue | FirstStatus::Given => None,
                };
                // While the graph is waited for, frontends are not asked.
                let is_asking = matches!(self.tasks.front(), Some(SyncTask::AwaitHealth));
                let question = self.next_question().filter(|_| is_asking).map(|(at, _)| at);
                let due = self.wait.wake_at(self.patience(settings), explains).into_iter();
                due.chain(status_at).chain(question).min()
            }
            ModelSyncState::Ready | ModelSyncState::Calling(_) => None,
        }
    }

    /// Ends the model at its next chance. True when it is not through yet and wants a turn now.
    pub(super) fn stop(&mut self, result: SyncOutcome, why: &str) -> bool {
        if self.outcome.is_some() || self.stopping.is_some() {
            return false;
        }
        self.stopping = Some((result, why.to_owned()));
        if self.is_calling() {
            return false; // What is in flight is finished first; nothing else is begun after it.
        }
        self.tasks = VecDeque::from([SyncTask::WriteRecord]);
        self.state = ModelSyncState::Ready;
        true
    }

    /// Ends it as it is now: what its record does not name, an older record or a journal does.
    pub(super) fn give_up(&mut self) {
        self.state = ModelSyncState::Ready;
        self.finish();
    }

    /// Takes a turn: works through tasks until one needs the cluster, time, or others.
    pub(super) fn take_turn(&mut self, around: &SyncContext<'_>, effects: &mut Vec<MachineEffect>) -> ModelTurn {
        if self.outcome.is_some() {
            return ModelTurn::Done;
        }
        if let ModelSyncState::Pausing(until) = self.state
            && until > around.now
        {
            return ModelTurn::Paused;
        }
        if self.is_calling() {
            return ModelTurn::Paused;
        }
        self.state = ModelSyncState::Ready;
        self.limit_adapters();
        while let Some(front) = self.tasks.front().cloned() {
            let writes = matches!(front, SyncTask::Apply(_) | SyncTask::Delete(DeleteTask { recheck: false, .. }));
            if let Some((object, stage)) = front.created_object()
                && let Some(failed) = self.report.failed_stage()
                && stage > failed
            {
                self.report.add_note(format!("{object} is skipped for now"));
                self.skip_object(&object.identity());
                continue;
            }
            if writes && self.record_writer.needs_journal() {
                match around.journal {
                    JournalGate::Open => {}
                    JournalGate::Closed => return ModelTurn::AwaitJournal,
                    JournalGate::Failed(why) => {
                        self.report.add_fault(format!("the journal could not be written: {why}"));
                        self.fail_apply(ApplyStage::Cache);
                        // Nothing is created or deleted; a record that is there says so.
                        self.tasks.clear();
                        if self.record_writer.is_stored() {
                            self.tasks.push_back(SyncTask::WriteRecord);
                        }
                        continue;
                    }
                }
            }
            match front {
                SyncTask::Apply(task) if task.recheck => {
                    return self.start_call(ClusterCall::Read(task.object.reference().clone()), CallPurpose::FrontTask);
                }
                SyncTask::Apply(task) => {
                    let request = self.apply_request(task);
                    return self.start_call(ClusterCall::Apply(request), CallPurpose::FrontTask);
                }
                SyncTask::Delete(DeleteTask { step, recheck: true, .. }) => {
                    return self.start_call(ClusterCall::Read(step.object), CallPurpose::FrontTask);
                }
                SyncTask::Delete(DeleteTask { step, purpose, .. }) => {
                    match (&purpose, around.barrier) {
                        (DeletePurpose::Prune, PruneBarrier::Blocked(why)) => {
                            self.cancel_deletes(why);
                            continue;
                        }
                        (DeletePurpose::Prune, PruneBarrier::Open | PruneBarrier::Closed)
                            if self.report.failed_stage().is_some() =>
                        {
                            self.cancel_deletes("not everything of the model could be applied");
                            continue;
                        }
                        (DeletePurpose::ReplacedBy(successor), _) if !self.has_taken_over(successor) => {
                            self.keep_outgoing(around, &step.object, successor);
                            continue;
                        }
                        (DeletePurpose::Prune | DeletePurpose::Replace | DeletePurpose::ReplacedBy(_), _) => {}
                    }
                    let preconditions =
                        Preconditions { uid: Some(step.uid), resource_version: Some(step.resource_version) };
                    return self.start_call(
                        ClusterCall::Delete { object: step.object, preconditions },
                        CallPurpose::FrontTask,
                    );
                }
                SyncTask::AwaitGone { object, uid: _, since } => {
                    let since = since.unwrap_or(around.now);
                    if around.now.saturating_sub(since) >= around.settings.progress_deadline {
                        self.tasks.pop_front();
                        let after = format_duration(around.settings.progress_deadline);
                        let said =
                            self.deletion_message.take().unwrap_or_else(|| format!("{object} is still being deleted"));
                        let message = format!("{said}, after {after}: check that its controller is running");
                        self.fail_object(&object, &message);
                        // What goes after it may be what its pods need.
                        self.tasks.retain(|task| !is_prune(task));
                        continue;
                    }
                    if let Some(SyncTask::AwaitGone { since: slot, .. }) = self.tasks.front_mut() {
                        *slot = Some(since);
                    }
                    return self.start_call(ClusterCall::Read(object), CallPurpose::FrontTask);
                }
                // Without its volume nothing is downloaded, and what follows is skipped by its stage.
                SyncTask::CheckDownload(_) if self.report.failed_stage().is_some() => {
                    self.tasks.pop_front();
                    self.leave_after_download("not everything that goes before it could be applied");
                }
                SyncTask::CheckDownload(object) | SyncTask::CheckGraph(object) => {
                    return self.start_call(ClusterCall::Read(object), CallPurpose::FrontTask);
                }
                SyncTask::AwaitDownload(job) => {
                    if let Some(turn) = self.await_download(around, &job, effects) {
                        return turn;
                    }
                }
                SyncTask::Barrier => {
                    self.applied_all = true;
                    if self.report.differs_from_git() {
                        // Nothing is waited for any more, so what the record says now is the end.
                        self.keep_all_outgoing(around);
                    }
                    let deletes = self.tasks.iter().any(|task| self.is_put_last(task));
                    if deletes && *around.barrier == PruneBarrier::Closed {
                        return ModelTurn::Barrier;
                    }
                    self.tasks.pop_front();
                    if let (true, PruneBarrier::Blocked(why)) = (deletes, around.barrier) {
                        self.cancel_deletes(why);
                    }
                }
                SyncTask::WriteRecord => match self.pending_record_write(around) {
                    Some(_) if !around.is_record_turn => return ModelTurn::AwaitRecordTurn,
                    Some(write) => return self.start_call(write.to_call(), CallPurpose::Record(Box::new(write))),
                    None => {
                        self.tasks.pop_front();
                    }
                },
                SyncTask::DeleteRecord => match self.record_writer.record_to_delete() {
                    Some(_) if !around.is_record_turn => return ModelTurn::AwaitRecordTurn,
                    Some(record) => {
                        return self.start_call(ClusterCall::DeleteRecord(Box::new(record)), CallPurpose::FrontTask);
                    }
                    None => {
                        self.tasks.pop_front();
                        if self.record_writer.has_entries() {
                            self.tasks.push_front(SyncTask::WriteRecord);
                        }
                    }
                },
                SyncTask::AwaitGraph | SyncTask::AwaitHealth => {
                    let graph_only = matches!(front, SyncTask::AwaitGraph);
                    if let Some(turn) = self.await_health(around, graph_only, effects) {
                        return turn;
                    }
                    self.tasks.pop_front();
                }
            }
        }
        self.finish();
        ModelTurn::Done
    }

    /// Whether the stored record names every object of the model that may exist.
    pub(super) fn is_recorded(&self) -> bool {
        self.record_writer.is_recorded(|identity| self.tasks.iter().any(|task| task.is_about(identity)))
    }

    pub(super) fn start_call(&mut self, call: ClusterCall, flight: CallPurpose) -> ModelTurn {
        self.state = ModelSyncState::Calling(flight);
        ModelTurn::Call(Box::new(call))
    }

    fn apply_request(&mut self, task: ApplyTask) -> ApplyRequest {
        let ApplyTask { object, manager, force, transfer, entry, follows, creates, .. } = task;
        self.record_writer.mark_sent(&entry);
        let object = object.parse().with_uid(self.record_writer.uid(&entry.object.identity()).filter(|_| follows));
        let object = if creates { object.with_resource_version(NO_OBJECTS_VERSION) } else { object };
        ApplyRequest { force, transfer, ..ApplyRequest::new(object, manager) }
    }

    /// Nothing more is done about an object.
    pub(super) fn skip_object(&mut self, identity: &ObjectIdentity) {
        self.tasks.retain(|task| !task.is_about(identity));
        if let Some(watched) = self.watched.get_mut(identity) {
            watched.skipped = true;
        }
    }

    /// Something about an object failed for this sync.
    pub(super) fn fail_object(&mut self, object: &ObjectRef, message: &str) {
        self.report.add_fault(message.to_owned());
        self.skip_object(&object.identity());
    }

    /// An apply failed: later stages of the model wait, and nothing of it is pruned.
    pub(super) fn fail_apply(&mut self, stage: ApplyStage) {
        self.report.fail_stage(stage);
    }

    /// Whether it deletes something once others have applied: what git no longer has, or what waits for another model's graph.
    fn is_put_last(&self, task: &SyncTask) -> bool {
        task.deletion().is_some_and(|delete| match &delete.purpose {
            DeletePurpose::Prune => true,
            DeletePurpose::ReplacedBy(successor) => self.own_graph.as_ref() != Some(successor),
            DeletePurpose::Replace => false,
        })
    }

    fn cancel_deletes(&mut self, why: &str) {
        let cancelled: BTreeSet<ObjectIdentity> = self
            .tasks
            .iter()
            .filter(|task| self.is_put_last(task))
            .filter_map(|task| Some(task.object()?.identity()))
            .collect();
        let count = cancelled.len();
        self.tasks.retain(|task| !task.object().is_some_and(|object| cancelled.contains(&object.identity())));
        let deletions = if count == 1 { "1 deletion is" } else { &format!("{count} deletions are") };
        self.report.add_blocked(format!("{deletions} held back, because {why}"));
    }

    /// The pause before the next look at an object that is going.
    pub(super) fn gone_poll_delay(&self) -> Duration {
        MAX_GONE_POLL.min(Duration::from_millis(20) * 2u32.saturating_pow(self.polls.min(10)))
    }
}

fn is_prune(task: &SyncTask) -> bool {
    matches!(task, SyncTask::Delete(DeleteTask { purpose: DeletePurpose::Prune, .. }))
}
