//! What an answer or an observation does to a model.

use super::model::{Flight, LOOKS, ModelSync, State};
use super::tasks::{ApplyTask, DeleteTask, Task, stage_of};
use super::{Answer, Around, Chance, Effect, Progress, Recorded};
use crate::cluster::{Applied, ApplyOutcome, ClusterError, Deleted};
use stator_core::dynamo::{gpus, health, kinds};
use stator_core::mask;
use stator_core::object::{Object, ObjectIdentity, ObjectRef};
use stator_model::render::Stage;
use std::collections::BTreeMap;
use std::time::Duration;

/// The first pause after a call that failed in a way that may pass, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

impl ModelSync {
    /// The call in flight came back.
    pub(super) fn answer(
        &mut self,
        around: &Around<'_>,
        answer: Answer,
        chance: &mut Chance,
        effects: &mut Vec<Effect>,
    ) {
        let flight = match std::mem::replace(&mut self.state, State::Ready) {
            State::Calling(flight) => flight,
            State::Ready | State::Pausing(_) | State::Watching => return,
        };
        if let Some((error, asked)) = transient(&answer)
            && self.stopping.is_none()
            && self.attempt + 1 < around.settings.attempts.max(1)
        {
            let most = BACKOFF.1.min(BACKOFF.0 * 2u32.saturating_pow(self.attempt.min(16)));
            self.attempt += 1;
            self.state = State::Pausing(around.now + chance.up_to(most).max(asked));
            effects.push(Effect::Report(Progress::Retrying { model: self.name.clone(), message: error.to_string() }));
            return;
        }
        match answer {
            Answer::Recorded(result) => self.recorded(result, &flight),
            Answer::Applied(result) => self.settle_apply(result, effects),
            Answer::Deleted(result) => self.settle_delete(result, effects),
            Answer::Read(result) => self.settle_read(around, result, effects),
            Answer::Pods(pods) => self.settle_pods(&pods, effects),
        }
        if self.stopping.is_some() {
            // Between two writes: what was done is recorded, and nothing else is begun.
            self.state = State::Ready;
            self.tasks.clear();
            if !matches!(flight, Flight::After(_)) {
                self.tasks.push_back(Task::Record);
            }
        }
    }

    fn recorded(&mut self, result: Result<Recorded, ClusterError>, flight: &Flight) {
        self.attempt = 0;
        match (result, flight) {
            (Ok(recorded), Flight::Ahead(write)) => self.book.stored(write.as_ref().clone(), recorded.generation),
            (Ok(recorded), Flight::After(write)) => {
                self.book.stored(write.as_ref().clone(), recorded.generation);
                self.tasks.pop_front();
            }
            (Ok(_), Flight::Front) => {
                self.book.retired();
                self.tasks.pop_front();
            }
            (Err(error), flight) => {
                let what = if *flight == Flight::Front { "deleted" } else { "written" };
                self.faults.push(format!("the record could not be {what}: {}", with_help(&error)));
                // Nothing is written without a record that names it, and one that cannot be written now will not be
                // a moment later either.
                self.tasks.clear();
                if matches!(flight, Flight::Ahead(_)) {
                    self.fail_apply(Stage::Cache);
                }
            }
        }
    }

    fn settle_apply(&mut self, result: Result<Applied, ClusterError>, effects: &mut Vec<Effect>) {
        let Some(Task::Apply(task)) = self.tasks.pop_front() else { return };
        self.attempt = 0;
        let ApplyTask { object, manager: _, force: _, stage, entry, line, follows } = task;
        let reference = object.reference();
        match result {
            Ok(Applied { object: live, outcome }) => {
                let wrote = match outcome {
                    ApplyOutcome::Created | ApplyOutcome::Updated => true,
                    ApplyOutcome::Unchanged => false,
                };
                self.book.applied(&entry, &live, wrote);
                if let Some(watched) = self.watched.get_mut(&reference.identity()) {
                    watched.generation = live.generation();
                    watched.gpus = gpus::of(&live).total();
                    watched.see(&live);
                }
                if wrote && !follows {
                    self.applied += 1;
                    effects.push(Effect::Report(Progress::Applied { model: self.name.clone(), object: reference }));
                }
                if let Some(line) = line.filter(|_| wrote) {
                    self.book.tell(line);
                }
            }
            Err(error) => {
                let blocked = matches!(error, ClusterError::Conflict { .. });
                let message = match &error {
                    ClusterError::Conflict { .. } => format!(
                        "{error}; take the field out of git, give it up there, or name the manager in spec.takeOver"
                    ),
                    ClusterError::Precondition { .. } => {
                        format!("{error}; it changed after it was planned: sync again")
                    }
                    ClusterError::Transient { .. }
                    | ClusterError::Unreached { .. }
                    | ClusterError::Invalid { .. }
                    | ClusterError::Denied { .. }
                    | ClusterError::UnknownKind { .. }
                    | ClusterError::Damaged { .. }
                    | ClusterError::Storage { .. }
                    | ClusterError::Forbidden { .. }
                    | ClusterError::Namespace { .. }
                    | ClusterError::Refused { .. }
                    | ClusterError::Fenced => naming(&error, &reference),
                };
                let message = mask::message(&message, object.value());
                self.fail_apply(stage);
                if blocked {
                    self.blocked.push(message);
                    self.leave_out(&reference.identity());
                } else {
                    self.fail_object(&reference, &message);
                }
            }
        }
    }

    fn settle_delete(&mut self, result: Result<Deleted, ClusterError>, effects: &mut Vec<Effect>) {
        let Some(Task::Delete(mut task)) = self.tasks.pop_front() else { return };
        self.attempt = 0;
        let object = task.step.object.clone();
        match result {
            Ok(deleted) => {
                let was_there = !matches!(deleted, Deleted::Absent);
                if was_there {
                    effects
                        .push(Effect::Report(Progress::Deleted { model: self.name.clone(), object: object.clone() }));
                }
                // An object that waits for its finalizers is going and cannot come back: there is nothing left to
                // remember it for.
                self.book.deleted(&object.identity(), was_there);
                if task.prune && was_there {
                    self.pruned += 1;
                    self.book.tell(task.line);
                }
            }
            // Status moves the resource version all the time: look whether it is still the object that was meant.
            Err(ClusterError::Precondition { .. }) if task.looks < LOOKS && self.stopping.is_none() => {
                task.look = true;
                task.looks += 1;
                self.tasks.push_front(Task::Delete(task));
            }
            Err(error) => self.fail_delete(&task, &naming(&error, &object)),
        }
    }

    fn settle_read(
        &mut self,
        around: &Around<'_>,
        result: Result<Option<Object>, ClusterError>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(task) = self.tasks.pop_front() else { return };
        match task {
            Task::Delete(mut task) => {
                self.attempt = 0;
                match result {
                    Ok(None) => self.book.deleted(&task.step.object.identity(), false),
                    Ok(Some(live)) if live.uid() != Some(task.step.uid.as_str()) => {
                        let object = &task.step.object;
                        self.book.deleted(&object.identity(), false);
                        self.notes.push(format!("{object} is another object of that name now, and is left alone"));
                        if !task.prune {
                            self.fail_delete(&task, &format!("{object} was made anew by somebody else: sync again"));
                        }
                    }
                    Ok(Some(live)) if !self.is_ours(&live) => {
                        let object = task.step.object.clone();
                        self.fail_delete(&task, &format!("{object} is no longer marked as this model's: left alone"));
                    }
                    Ok(Some(live)) => {
                        task.step.resource_version = live.resource_version().unwrap_or_default().to_owned();
                        task.look = false;
                        self.tasks.push_front(Task::Delete(task));
                    }
                    Err(error) => {
                        let object = task.step.object.clone();
                        self.fail_delete(&task, &naming(&error, &object));
                    }
                }
            }
            Task::AwaitGone { object, uid, since } => match result {
                Ok(Some(live)) if live.uid() == Some(uid.as_str()) => {
                    self.state = State::Pausing(around.now + self.poll_gone());
                    self.attempt = 0;
                    self.polls += 1;
                    self.say_going(&live, effects);
                    self.tasks.push_front(Task::AwaitGone { object, uid, since });
                }
                Ok(Some(_)) | Ok(None) => {
                    (self.attempt, self.polls) = (0, 0);
                    self.going = None;
                }
                Err(error) => {
                    self.attempt = 0;
                    self.going = None;
                    self.fail_apply(stage_of(&object));
                    self.fail_object(&object, &naming(&error, &object));
                }
            },
            Task::Gate(graph) => {
                self.attempt = 0;
                self.settle_gate(around, &graph, result);
            }
            Task::Apply(_) | Task::Barrier | Task::Record | Task::Retire | Task::AwaitGraph | Task::AwaitHealth => {
                self.tasks.push_front(task); // Not what was asked for.
            }
        }
    }

    /// What the pods of the graphs that are waited for say. It is no progress: a crash says something new for ever.
    fn settle_pods(&mut self, pods: &[Object], effects: &mut Vec<Effect>) {
        self.attempt = 0;
        let graphs = self.watched.values().filter(|watched| watched.wants_pods());
        let causes: Vec<String> = graphs.flat_map(|watched| health::pods::causes(&watched.object.name, pods)).collect();
        if self.wait.explain(causes.join("; ")) {
            effects.push(Effect::Report(Progress::Waiting { model: self.name.clone(), message: self.wait.sentence() }));
        }
    }

    /// Says what is waited for until an object is gone, once for each finalizer that lets go.
    fn say_going(&mut self, live: &Object, effects: &mut Vec<Effect>) {
        let waits = match live.finalizers().as_slice() {
            [] => String::new(),
            finalizers => format!(" (waiting for finalizer {})", finalizers.join(", ")),
        };
        let going = format!("{} is still there, being deleted{waits}", live.reference());
        if self.going.as_ref() != Some(&going) {
            effects.push(Effect::Report(Progress::Waiting { model: self.name.clone(), message: going.clone() }));
            self.going = Some(going);
        }
    }

    /// The graph was looked at: its adapters go now, after the wait, or with a later sync.
    fn settle_gate(&mut self, around: &Around<'_>, graph: &ObjectRef, result: Result<Option<Object>, ClusterError>) {
        let identity = graph.identity();
        if let (Ok(Some(live)), Some(watched)) = (&result, self.watched.get_mut(&identity)) {
            watched.see(live);
        }
        let failed = self.failed_stage.is_some() || self.watched.get(&identity).is_some_and(|one| one.left_out);
        if failed
            || self.watched.get(&identity).is_some_and(|one| one.verdict.as_ref().is_some_and(super::health::good))
        {
            return;
        }
        let (adapters, others): (Vec<Task>, Vec<Task>) =
            std::mem::take(&mut self.tasks).into_iter().partition(|task| {
                matches!(task, Task::Apply(ApplyTask { stage: Stage::Adapter, .. })) || replaces_adapter(task)
            });
        self.tasks = others.into();
        if around.settings.wait {
            // After the record of what was applied so far, and before the wait for everything.
            let at = self.tasks.iter().position(|task| matches!(task, Task::AwaitHealth)).unwrap_or(self.tasks.len());
            let mut rest = self.tasks.split_off(at);
            self.tasks.push_back(Task::AwaitGraph);
            self.tasks.extend(adapters);
            self.tasks.append(&mut rest);
            return;
        }
        let why = match result {
            Err(error) => error.to_string(),
            Ok(None) => format!("{graph} is not there"),
            Ok(Some(live)) => format!("{graph}: {}", health::judge(&live, None).message),
        };
        for task in adapters {
            if let Task::Apply(ApplyTask { object, line: Some(_), .. }) = task {
                let adapter = object.reference();
                self.leave_out(&adapter.identity());
                self.deferred.push(format!(
                    "{} {} waits for its graph to be Ready ({why}); run `stator sync --wait`",
                    adapter.kind, adapter.name
                ));
            }
        }
    }

    fn fail_delete(&mut self, task: &DeleteTask, message: &str) {
        if !task.prune {
            self.fail_apply(task.step.stage);
        }
        self.fail_object(&task.step.object, message);
    }

    fn is_ours(&self, live: &Object) -> bool {
        let labels = live.labels();
        labels.get(kinds::LABEL_MANAGED_BY) == Some(&kinds::MANAGER)
            && labels.get(kinds::LABEL_MODEL) == Some(&self.name.as_str())
    }

    /// A watch shows an object.
    pub(super) fn observe(&mut self, object: &Object) {
        if let Some(watched) = self.watched.get_mut(&object.reference().identity()) {
            watched.see(object);
        }
    }

    /// A list shows everything there is.
    pub(super) fn observe_all(&mut self, objects: &BTreeMap<ObjectIdentity, &Object>) {
        for (identity, watched) in &mut self.watched {
            match objects.get(identity) {
                Some(object) => watched.see(object),
                None => watched.lose(),
            }
        }
    }

    /// A watch shows that an object is gone.
    pub(super) fn observe_gone(&mut self, object: &ObjectRef) {
        if let Some(watched) = self.watched.get_mut(&object.identity()) {
            watched.lose();
        }
    }
}

fn replaces_adapter(task: &Task) -> bool {
    match task {
        Task::Delete(DeleteTask { step, prune: false, .. }) => step.stage == Stage::Adapter,
        Task::AwaitGone { object, .. } => stage_of(object) == Stage::Adapter,
        Task::Delete(_)
        | Task::Apply(_)
        | Task::Gate(_)
        | Task::Barrier
        | Task::Record
        | Task::Retire
        | Task::AwaitGraph
        | Task::AwaitHealth => false,
    }
}

/// The error of an answer that may be another in a moment, and how long the cluster asks to be left alone.
fn transient(answer: &Answer) -> Option<(&ClusterError, Duration)> {
    let error = match answer {
        Answer::Recorded(result) => result.as_ref().err(),
        Answer::Applied(result) => result.as_ref().err(),
        Answer::Deleted(result) => result.as_ref().err(),
        Answer::Read(result) => result.as_ref().err(),
        Answer::Pods(_) => None,
    };
    error.and_then(|error| Some((error, error.may_pass()?)))
}

/// An error's sentence with the object in it.
fn naming(error: &ClusterError, object: &ObjectRef) -> String {
    match error {
        ClusterError::Conflict { .. }
        | ClusterError::Precondition { .. }
        | ClusterError::Invalid { .. }
        | ClusterError::Denied { .. } => error.to_string(),
        ClusterError::UnknownKind { .. }
        | ClusterError::Damaged { .. }
        | ClusterError::Storage { .. }
        | ClusterError::Forbidden { .. }
        | ClusterError::Namespace { .. }
        | ClusterError::Refused { .. }
        | ClusterError::Fenced
        | ClusterError::Unreached { .. }
        | ClusterError::Transient { .. } => format!("{object}: {}", with_help(error)),
    }
}

/// An error's sentence, with what to do where only somebody else can do it: rights, namespaces, credentials.
fn with_help(error: &ClusterError) -> String {
    match error {
        ClusterError::Forbidden { .. } | ClusterError::Namespace { .. } | ClusterError::Refused { .. } => {
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
        | ClusterError::Unreached { .. }
        | ClusterError::Transient { .. } => error.to_string(),
    }
}
