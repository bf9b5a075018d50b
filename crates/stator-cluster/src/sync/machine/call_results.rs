//! What an answer or an observation does to a model.

use super::context::{FIRST_RETRY_DELAY, MAX_RETRY_DELAY, SyncContext};
use super::model_sync::{CallPurpose, FirstStatus, MAX_RECHECKS, ModelSync, ModelSyncState};
use super::protocol::{CallResult, MachineEffect, RecordWriteResult};
use super::tasks::{ApplyTask, DeletePurpose, SyncTask, task_stage};
use crate::cluster::{ApplyOutcome, ApplyResponse, ClusterError};
use crate::sync::SyncProgress;
use stator_core::dynamo::{gpus, health, kinds};
use stator_core::mask;
use stator_core::object::{Object, ObjectIdentity, ObjectRef, ObjectText};
use stator_core::retry::{JitterSource, backoff_delay};
use stator_model::render::ApplyStage;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl ModelSync {
    /// The call in flight came back.
    pub(super) fn handle_result(
        &mut self,
        around: &SyncContext<'_>,
        answer: CallResult,
        jitter: &mut JitterSource,
        effects: &mut Vec<MachineEffect>,
    ) {
        let flight = match std::mem::replace(&mut self.state, ModelSyncState::Ready) {
            ModelSyncState::Calling(flight) => flight,
            ModelSyncState::Ready | ModelSyncState::Pausing(_) | ModelSyncState::Watching => return,
        };
        if let Some((error, asked)) = transient_error(&answer)
            && self.stopping.is_none()
            && self.attempt + 1 < around.settings.attempts.max(1)
        {
            let delay = backoff_delay(FIRST_RETRY_DELAY, MAX_RETRY_DELAY, self.attempt, jitter.next_u64());
            self.attempt += 1;
            self.state = ModelSyncState::Pausing(around.now + delay.max(asked));
            effects.push(MachineEffect::Report(SyncProgress::Retrying {
                model: self.name.clone(),
                message: error.to_string(),
            }));
            return;
        }
        match answer {
            CallResult::Recorded(result) => self.settle_record(result, &flight),
            CallResult::Applied(result) => self.settle_apply(result, effects),
            CallResult::Deleted(result) => self.settle_delete(result, effects),
            CallResult::Read(result) => self.settle_read(around, result, effects),
            CallResult::Pods(pods) => self.settle_pods(&pods, effects),
            CallResult::Served(frontend, answer) => self.settle_frontend(around.now, &frontend, answer),
        }
        if self.stopping.is_some() {
            // Between two writes: what was done is recorded, and nothing else is begun.
            self.state = ModelSyncState::Ready;
            self.tasks.clear();
            if !matches!(&flight, CallPurpose::Record(write) if write.status) {
                self.tasks.push_back(SyncTask::WriteRecord);
            }
        }
    }

    fn settle_record(&mut self, result: Result<RecordWriteResult, ClusterError>, flight: &CallPurpose) {
        self.attempt = 0;
        match (result, flight) {
            (Ok(recorded), CallPurpose::Record(write)) => {
                self.record_writer.mark_stored(write.as_ref().clone(), recorded);
                self.first_status = if write.status { FirstStatus::Given } else { self.first_status };
                if matches!(self.tasks.front(), Some(SyncTask::WriteRecord)) {
                    self.tasks.pop_front();
                }
            }
            (Ok(_), CallPurpose::FrontTask) => {
                self.record_writer.mark_retired();
                self.tasks.pop_front();
            }
            (Err(error), flight) => {
                let what = if *flight == CallPurpose::FrontTask { "deleted" } else { "written" };
                self.report.add_fault(format!("the record could not be {what}: {}", error_with_help(&error)));
                // One that cannot be written now will not be a moment later either. What was to be applied after it is not.
                let applies = self.tasks.iter().find(|task| matches!(task, SyncTask::Apply(_))).map(task_stage);
                applies.into_iter().for_each(|stage| self.fail_apply(stage));
                self.tasks.clear();
            }
        }
    }

    fn settle_apply(&mut self, result: Result<ApplyResponse, ClusterError>, effects: &mut Vec<MachineEffect>) {
        let Some(SyncTask::Apply(mut task)) = self.tasks.pop_front() else { return };
        self.attempt = 0;
        if matches!(result, Err(ClusterError::Precondition { .. }))
            && task.creates
            && task.rechecks < MAX_RECHECKS
            && self.stopping.is_none()
        {
            task.recheck = true;
            task.rechecks += 1;
            self.tasks.push_front(SyncTask::Apply(task));
            return;
        }
        let ApplyTask { object, stage, entry, history_line: line, follows, .. } = task;
        let reference = object.reference();
        match result {
            Ok(ApplyResponse { object: live, outcome }) => {
                let wrote = match outcome {
                    ApplyOutcome::Created | ApplyOutcome::Updated => true,
                    ApplyOutcome::Unchanged => false,
                };
                self.record_writer.mark_applied(&entry, &live, wrote);
                if let Some(watched) = self.watched.get_mut(&reference.identity()) {
                    watched.generation = live.generation();
                    watched.gpus = gpus::gpu_use(&live).total();
                    watched.observe(&live);
                }
                if wrote && !follows {
                    self.report.count_applied();
                    effects.push(MachineEffect::Report(SyncProgress::Applied {
                        model: self.name.clone(),
                        object: reference.clone(),
                    }));
                }
                if let Some(line) = line.filter(|_| wrote) {
                    self.record_writer.add_history_line(line);
                }
            }
            Err(error) => {
                let blocked = matches!(error, ClusterError::Conflict { .. });
                let message = match &error {
                    ClusterError::Conflict { .. } => format!(
                        "{error}; remove the field from git, release it there, or name the manager in spec.takeOver"
                    ),
                    ClusterError::Precondition { .. } => {
                        format!("{error}; it changed after it was planned: sync again")
                    }
                    ClusterError::Transient { .. }
                    | ClusterError::Unreachable { .. }
                    | ClusterError::Invalid { .. }
                    | ClusterError::Denied { .. }
                    | ClusterError::UnknownKind { .. }
                    | ClusterError::Damaged { .. }
                    | ClusterError::Storage { .. }
                    | ClusterError::Forbidden { .. }
                    | ClusterError::NamespaceUnavailable { .. }
                    | ClusterError::Refused { .. }
                    | ClusterError::Fenced => error_with_object(&error, reference),
                };
                let message = mask::redact_message(&message, object.parse().value());
                self.fail_apply(stage);
                if blocked {
                    self.report.add_blocked(message);
                    self.skip_object(&reference.identity());
                } else {
                    self.fail_object(reference, &message);
                }
            }
        }
    }

    fn settle_read(
        &mut self,
        around: &SyncContext<'_>,
        result: Result<Option<Object>, ClusterError>,
        effects: &mut Vec<MachineEffect>,
    ) {
        let Some(task) = self.tasks.pop_front() else { return };
        match task {
            SyncTask::Delete(task) => {
                self.attempt = 0;
                self.confirm_target(task, result);
            }
            SyncTask::AwaitGone { object, uid, since } => {
                self.confirm_gone(around, (object, uid, since), result, effects);
            }
            SyncTask::CheckDownload(job) => {
                self.attempt = 0;
                self.settle_download_check(around, job, result);
            }
            SyncTask::CheckGraph(graph) => {
                self.attempt = 0;
                self.settle_graph_check(around, &graph, result);
            }
            SyncTask::Apply(task) if task.recheck => {
                self.attempt = 0;
                self.settle_create_check(task, result);
            }
            SyncTask::Apply(_)
            | SyncTask::AwaitDownload(_)
            | SyncTask::Barrier
            | SyncTask::WriteRecord
            | SyncTask::DeleteRecord
            | SyncTask::AwaitGraph
            | SyncTask::AwaitHealth => {
                self.tasks.push_front(task); // Not what was asked for.
            }
        }
    }

    /// Something is in the place of an object that was to be created. What carries its labels was created by a try whose
    /// answer was lost, or by another sync of this repository: it is applied over once the model's record is written, which
    /// one source of several can do. Anything else is left as it is.
    fn settle_create_check(&mut self, mut task: ApplyTask, result: Result<Option<Object>, ClusterError>) {
        task.recheck = false;
        let reference = task.object.reference().clone();
        let desired = task.object.parse();
        let message = match result {
            Ok(None) => {
                self.tasks.push_front(SyncTask::Apply(task));
                return;
            }
            Ok(Some(live)) if has_labels_of(&live, &desired) && !live.is_deleting() => {
                task.object = desired.with_uid(live.uid()).into();
                task.creates = false;
                self.tasks.push_front(SyncTask::Apply(task));
                if !self.record_writer.is_stored() {
                    self.tasks.push_front(SyncTask::WriteRecord);
                }
                return;
            }
            Ok(Some(_)) => {
                self.record_writer.mark_not_created(&reference.identity());
                format!("{reference} was created by another client after it was planned: sync again")
            }
            Err(error) => error_with_object(&error, &reference),
        };
        self.fail_apply(task.stage);
        self.fail_object(&reference, &message);
    }

    /// What the pods of the graphs and downloads that are waited for say. It is no progress: a crash says something new for ever.
    fn settle_pods(&mut self, pods: &[Object], effects: &mut Vec<MachineEffect>) {
        self.attempt = 0;
        let owners = self.watched.values().filter(|watched| watched.wants_pods()).map(|watched| &watched.object);
        let causes: Vec<String> = owners.flat_map(|owner| health::pods::pod_problems(owner, pods)).collect();
        if self.wait.set_causes(causes.join("; ")) {
            effects.push(MachineEffect::Report(SyncProgress::Waiting {
                model: self.name.clone(),
                reason: self.wait.reason(),
            }));
        }
    }

    /// The graph was looked at: its adapters and routes go now, after the wait, or with a later sync.
    fn settle_graph_check(
        &mut self,
        around: &SyncContext<'_>,
        graph: &ObjectRef,
        result: Result<Option<Object>, ClusterError>,
    ) {
        let identity = graph.identity();
        if let (Ok(Some(live)), Some(watched)) = (&result, self.watched.get_mut(&identity)) {
            watched.observe(live);
        }
        let failed = self.report.failed_stage().is_some() || self.watched.get(&identity).is_some_and(|one| one.skipped);
        if failed
            || self
                .watched
                .get(&identity)
                .is_some_and(|one| one.verdict.as_ref().is_some_and(super::health_wait::is_good_verdict))
        {
            return;
        }
        let replaced: BTreeSet<ObjectIdentity> =
            self.tasks.iter().filter_map(replaced_adapter).map(|object| object.identity()).collect();
        let follows = |task: &SyncTask| {
            if let SyncTask::Apply(apply) = task {
                return apply.after_graphs.iter().any(|one| one.identity() == identity);
            }
            let is_replaced = task.object().is_some_and(|object| replaced.contains(&object.identity()));
            self.own_graph.as_ref() == Some(graph) && is_replaced
        };
        let (followers, others): (Vec<SyncTask>, Vec<SyncTask>) =
            std::mem::take(&mut self.tasks).into_iter().partition(follows);
        self.tasks = others.into();
        if followers.is_empty() {
            return;
        }
        if around.settings.wait {
            // After the record of what was applied so far, and before the wait for everything.
            let at =
                self.tasks.iter().position(|task| matches!(task, SyncTask::AwaitHealth)).unwrap_or(self.tasks.len());
            let mut rest = self.tasks.split_off(at);
            self.tasks.push_back(SyncTask::AwaitGraph);
            self.tasks.extend(followers);
            self.tasks.append(&mut rest);
            return;
        }
        let why = match result {
            Err(error) => error.to_string(),
            Ok(None) => format!("{graph} does not exist"),
            Ok(Some(live)) => format!("{graph}: {}", health::assess_health(&live, None).message),
        };
        for task in followers {
            if let SyncTask::Apply(ApplyTask { object, history_line: Some(_), .. }) = task {
                let follower = object.reference();
                self.skip_object(&follower.identity());
                self.report.add_deferred(format!(
                    "{} {} is waiting for its graph to be Ready ({why}); run `stator sync --wait`",
                    follower.kind, follower.name
                ));
            }
        }
    }

    pub(super) fn is_ours(&self, live: &Object) -> bool {
        let labels = live.labels();
        labels.get(kinds::LABEL_MANAGED_BY) == Some(&kinds::FIELD_MANAGER)
            && labels.get(kinds::LABEL_MODEL) == Some(&self.name.as_str())
            && self.record_writer.accepts_owner(labels.get(kinds::LABEL_OWNER_ID).copied())
    }

    /// What it is told about by [`ModelSync::observe`].
    pub(super) fn observed_objects(&self) -> impl Iterator<Item = &ObjectIdentity> {
        self.watched.keys().chain(self.outgoing.keys())
    }

    /// A watch shows an object, or that it is gone.
    pub(super) fn observe(&mut self, identity: &ObjectIdentity, live: Option<&Object>) {
        if let Some(watched) = self.watched.get_mut(identity).or_else(|| self.outgoing.get_mut(identity)) {
            match live {
                Some(object) => watched.observe(object),
                None => watched.mark_gone(),
            }
        }
    }

    /// A list shows everything there is.
    pub(super) fn observe_all(&mut self, objects: &BTreeMap<ObjectIdentity, &ObjectText>) {
        for (identity, watched) in self.watched.iter_mut().chain(&mut self.outgoing) {
            match objects.get(identity) {
                Some(object) => watched.observe(&object.parse()),
                None => watched.mark_gone(),
            }
        }
    }
}

/// The labels that tell whose an object is.
const OWNER_LABELS: [&str; 5] = [
    kinds::LABEL_MANAGED_BY,
    kinds::LABEL_REPOSITORY,
    kinds::LABEL_ENVIRONMENT,
    kinds::LABEL_MODEL,
    kinds::LABEL_OWNER_ID,
];

/// Whether a live object belongs to what another one would.
fn has_labels_of(live: &Object, desired: &Object) -> bool {
    let (live, desired) = (live.labels(), desired.labels());
    OWNER_LABELS.iter().all(|label| live.get(label) == desired.get(label))
}

/// The adapter that a task deletes to make it again.
fn replaced_adapter(task: &SyncTask) -> Option<&ObjectRef> {
    let delete = task.deletion().filter(|delete| delete.purpose == DeletePurpose::Replace)?;
    (task_stage(task) == ApplyStage::Adapter).then_some(&delete.step.object)
}

/// The error of an answer that may be another in a moment, and how long the cluster asks to be left alone.
fn transient_error(answer: &CallResult) -> Option<(&ClusterError, Duration)> {
    let error = match answer {
        CallResult::Recorded(result) => result.as_ref().err(),
        CallResult::Applied(result) => result.as_ref().err(),
        CallResult::Deleted(result) => result.as_ref().err(),
        CallResult::Read(result) => result.as_ref().err(),
        CallResult::Pods(_) | CallResult::Served(..) => None,
    };
    error.and_then(|error| Some((error, error.retry_delay()?)))
}

/// An error's sentence with the object in it.
pub(super) fn error_with_object(error: &ClusterError, object: &ObjectRef) -> String {
    match error {
        ClusterError::Conflict { .. }
        | ClusterError::Precondition { .. }
        | ClusterError::Invalid { .. }
        | ClusterError::Denied { .. } => error.to_string(),
        ClusterError::UnknownKind { .. }
        | ClusterError::Damaged { .. }
        | ClusterError::Storage { .. }
        | ClusterError::Forbidden { .. }
        | ClusterError::NamespaceUnavailable { .. }
        | ClusterError::Refused { .. }
        | ClusterError::Fenced
        | ClusterError::Unreachable { .. }
        | ClusterError::Transient { .. } => format!("{object}: {}", error_with_help(error)),
    }
}

/// An error's sentence, with what to do where only somebody else can do it: rights, namespaces, credentials.
fn error_with_help(error: &ClusterError) -> String {
    match error {
        ClusterError::Forbidden { .. } | ClusterError::NamespaceUnavailable { .. } | ClusterError::Refused { .. } => {
            format!("{error}; {}", error.help())
        }
        ClusterError::Conflict { .. }
        | ClusterError::Precondition { .. }
        | ClusterError::Invalid { .. }
        | ClusterError::Denied { .. }
        | ClusterError::UnknownKind { .. }
        | ClusterError::Damaged { .. }
        | ClusterError::Storage { .. }
        | ClusterError::Fenced
        | ClusterError::Unreachable { .. }
        | ClusterError::Transient { .. } => error.to_string(),
    }
}
