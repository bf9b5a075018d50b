//! One model: a queue of tasks, at most one call in flight.

use super::book::{Book, Write};
use super::health::{Wait, Watched};
use super::tasks::{ApplyTask, DeleteTask, Task, concerns};
use super::{Around, Barrier, Call, ModelOutcome, Progress, SyncResult, in_words};
use crate::cluster::{ApplyRequest, Preconditions};
use stator_core::object::{ObjectIdentity, ObjectRef};
use stator_model::render::Stage;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How often a delete is tried again while its object's status keeps moving.
pub(super) const LOOKS: u32 = 8;
/// The longest pause between two looks at an object that is going.
const GONE_POLL: Duration = Duration::from_millis(500);
/// How long adapters must stay Healthy after a wait. The operator looks at them some time after their workers were
/// replaced, and until then their status is that of the workers before, which may be as many.
const CALM: Duration = Duration::from_secs(2);

/// One model's state.
#[derive(Debug)]
pub(super) struct ModelSync {
    pub(super) name: String,
    pub(super) tasks: VecDeque<Task>,
    pub(super) book: Book,
    pub(super) watched: BTreeMap<ObjectIdentity, Watched>,
    pub(super) state: State,
    /// Tries of the call at the front.
    pub(super) attempt: u32,
    /// Looks at an object that is going.
    pub(super) polls: u32,
    pub(super) wait: Wait,
    /// Since when everything that was waited for is Healthy.
    calm_since: Option<Duration>,
    /// What it waits to be gone, in a sentence.
    pub(super) going: Option<String>,
    /// The earliest stage in which something failed: later ones are left out.
    pub(super) failed_stage: Option<Stage>,
    /// What failed, a sentence each.
    pub(super) faults: Vec<String>,
    /// What must not be touched, a sentence each.
    pub(super) blocked: Vec<String>,
    /// What was put off, a sentence each.
    pub(super) deferred: Vec<String>,
    /// Something to say that is no fault.
    pub(super) notes: Vec<String>,
    /// It is to end, how, and why.
    pub(super) stopping: Option<(SyncResult, String)>,
    /// It passed the barrier, or has nothing to apply before it.
    pub(super) applied_all: bool,
    pub(super) failed_apply: bool,
    pub(super) waited: bool,
    /// How many of the faults are about health alone: what they are about is applied.
    pub(super) waits_failed: usize,
    pub(super) applied: usize,
    pub(super) pruned: usize,
    pub(super) outcome: Option<ModelOutcome>,
}

/// What a model is doing.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    /// Its turn may come.
    Ready,
    /// A call is in flight.
    Calling(Flight),
    /// Until then.
    Pausing(Duration),
    /// For health.
    Watching,
}

/// What a call in flight is for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Flight {
    /// The task at the front of the queue.
    Front,
    /// The record that goes ahead of the task at the front.
    Ahead(Box<Write>),
    /// The record that is the task at the front.
    After(Box<Write>),
}

/// What came of a turn.
pub(super) enum Turn {
    /// Call the cluster.
    Call(Box<Call>),
    /// It stands at the barrier.
    Barrier,
    /// It waits for time to pass.
    Later,
    /// It waits for health.
    Health,
    /// It is through.
    Done,
}

impl ModelSync {
    pub(super) fn new(
        name: String,
        tasks: VecDeque<Task>,
        book: Book,
        watched: BTreeMap<ObjectIdentity, Watched>,
        blocked: Vec<String>,
    ) -> Self {
        Self {
            name,
            tasks,
            book,
            watched,
            state: State::Ready,
            attempt: 0,
            polls: 0,
            wait: Wait::default(),
            calm_since: None,
            going: None,
            failed_stage: None,
            faults: Vec::new(),
            blocked,
            deferred: Vec::new(),
            notes: Vec::new(),
            stopping: None,
            applied_all: false,
            failed_apply: false,
            waited: false,
            waits_failed: 0,
            applied: 0,
            pruned: 0,
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
        matches!(self.state, State::Calling(_))
    }

    pub(super) fn has_applied(&self) -> bool {
        self.applied_all
    }

    pub(super) fn has_failed_apply(&self) -> bool {
        self.failed_apply || self.stopping.is_some()
    }

    /// When it wants a turn although nothing happened.
    pub(super) fn wake_at(&self, settings: &super::Settings) -> Option<Duration> {
        match self.state {
            State::Pausing(until) => Some(until),
            State::Watching => {
                let explains = self.watched.values().any(Watched::wants_pods);
                self.wait.wake_at(settings.progress_deadline, explains)
            }
            State::Ready | State::Calling(_) => None,
        }
    }

    /// Ends the model at its next chance. True when it is not through yet and wants a turn now.
    pub(super) fn stop(&mut self, result: SyncResult, why: &str) -> bool {
        if self.outcome.is_some() || self.stopping.is_some() {
            return false;
        }
        self.stopping = Some((result, why.to_owned()));
        if self.is_calling() {
            return false; // What is in flight is finished first; nothing else is begun after it.
        }
        self.tasks = VecDeque::from([Task::Record]);
        self.state = State::Ready;
        true
    }

    /// Takes a turn: works through tasks until one needs the cluster, time, or others.
    pub(super) fn turn(&mut self, around: &Around<'_>, effects: &mut Vec<super::Effect>) -> Turn {
        if self.outcome.is_some() {
            return Turn::Done;
        }
        if let State::Pausing(until) = self.state
            && until > around.now
        {
            return Turn::Later;
        }
        if self.is_calling() {
            return Turn::Later;
        }
        self.state = State::Ready;
        self.hold_adapters();
        while let Some(front) = self.tasks.front().cloned() {
            let writes = matches!(front, Task::Apply(_) | Task::Delete(DeleteTask { look: false, .. }));
            if let Task::Apply(task) = &front
                && let Some(failed) = self.failed_stage
                && task.stage > failed
            {
                self.notes.push(format!("{} is left for later", task.object.reference()));
                self.leave_out(&task.object.reference().identity());
                continue;
            }
            if writes && let Some(write) = self.book.ahead() {
                return self.call(write.call(), Flight::Ahead(Box::new(write)));
            }
            match front {
                Task::Apply(task) => {
                    let request = self.request(task);
                    return self.call(Call::Apply(request), Flight::Front);
                }
                Task::Delete(DeleteTask { step, look: true, .. }) => {
                    return self.call(Call::Read(step.object), Flight::Front);
                }
                Task::Delete(DeleteTask { step, prune, .. }) => {
                    if prune && let Barrier::Held(why) = around.barrier {
                        self.hold_deletes(why);
                        continue;
                    }
                    let preconditions =
                        Preconditions { uid: Some(step.uid), resource_version: Some(step.resource_version) };
                    return self.call(Call::Delete { object: step.object, preconditions }, Flight::Front);
                }
                Task::AwaitGone { object, uid: _, since } => {
                    let since = since.unwrap_or(around.now);
                    if around.now.saturating_sub(since) >= around.settings.progress_deadline {
                        self.tasks.pop_front();
                        let after = in_words(around.settings.progress_deadline);
                        let said = self.going.take().unwrap_or_else(|| format!("{object} is still being deleted"));
                        let message = format!("{said}, after {after}: see that the controller behind it runs");
                        self.fail_object(&object, &message);
                        continue;
                    }
                    if let Some(Task::AwaitGone { since: slot, .. }) = self.tasks.front_mut() {
                        *slot = Some(since);
                    }
                    return self.call(Call::Read(object), Flight::Front);
                }
                Task::Gate(graph) => return self.call(Call::Read(graph), Flight::Front),
                Task::Barrier => {
                    self.applied_all = true;
                    let prunes = self.tasks.iter().any(|task| matches!(task, Task::Delete(_)));
                    if prunes && *around.barrier == Barrier::Closed {
                        return Turn::Barrier;
                    }
                    self.tasks.pop_front();
                }
                Task::Record => match self.record_after(around) {
                    Some(write) => return self.call(write.call(), Flight::After(Box::new(write))),
                    None => {
                        self.tasks.pop_front();
                    }
                },
                Task::Retire => match self.book.to_retire() {
                    Some(record) => return self.call(Call::DeleteRecord(Box::new(record)), Flight::Front),
                    None => {
                        self.tasks.pop_front();
                        self.tasks.push_front(Task::Record);
                    }
                },
                Task::AwaitGraph | Task::AwaitHealth => {
                    let graph_only = matches!(front, Task::AwaitGraph);
                    if let Some(turn) = self.await_health(around, graph_only, effects) {
                        return turn;
                    }
                    self.tasks.pop_front();
                }
            }
        }
        self.finish();
        Turn::Done
    }

    /// Adapters are judged by what is seen now of their workers, and not by which event came first.
    fn hold_adapters(&mut self) {
        if !self.watched.values().any(Watched::is_adapter) {
            return;
        }
        let mut workers: BTreeMap<String, u64> = BTreeMap::new();
        for (base, ready) in self.watched.values().flat_map(Watched::workers) {
            let sum = workers.entry(base.clone()).or_default();
            *sum = sum.saturating_add(*ready);
        }
        self.watched.values_mut().for_each(|watched| watched.hold_against(&workers));
    }

    fn call(&mut self, call: Call, flight: Flight) -> Turn {
        self.state = State::Calling(flight);
        Turn::Call(Box::new(call))
    }

    fn request(&mut self, task: ApplyTask) -> ApplyRequest {
        let ApplyTask { object, manager, force, stage: _, entry, line: _, follows } = task;
        self.book.sending(&entry);
        let object = object.with_uid(self.book.uid(&entry.object.identity()).filter(|_| follows));
        ApplyRequest { force, ..ApplyRequest::new(object, manager) }
    }

    /// Waits for the graph, or for everything. `None` when there is nothing left to wait for.
    fn await_health(
        &mut self,
        around: &Around<'_>,
        graph_only: bool,
        effects: &mut Vec<super::Effect>,
    ) -> Option<Turn> {
        if !self.faults.is_empty() || !self.blocked.is_empty() {
            // It will not become what git says: waiting would only hide that.
            self.drop_adapters("its graph is not as git says");
            return None;
        }
        let waited: Vec<&Watched> = self
            .watched
            .values()
            .filter(|watched| !watched.left_out)
            .filter(|watched| !graph_only || super::tasks::stage_of(&watched.object) == Stage::Graph)
            .collect();
        if let Some(message) = waited.iter().find_map(|watched| watched.failed_for_good()) {
            self.faults.push(message);
            self.waits_failed += 1;
            self.drop_adapters("its graph failed");
            return None;
        }
        let waiting: Vec<String> = waited.iter().filter_map(|watched| watched.waiting()).collect();
        if waiting.is_empty() {
            let calm = *self.calm_since.get_or_insert(around.now) + CALM;
            let was_stirred = !self.wait.message.is_empty() && self.watched.values().any(Watched::is_adapter);
            if was_stirred && !graph_only && around.now < calm {
                self.state = State::Pausing(calm);
                return Some(Turn::Later);
            }
            self.waited = true;
            return None;
        }
        self.calm_since = None;
        let message = waiting.join("; ");
        if self.wait.note(around.now, message.clone()) {
            effects
                .push(super::Effect::Report(Progress::Waiting { model: self.name.clone(), message: message.clone() }));
        }
        let deadline = around.settings.progress_deadline;
        let is_over = self.wait.deadline(deadline).is_some_and(|at| at <= around.now);
        let graphs: Vec<ObjectRef> =
            self.watched.values().filter(|one| one.wants_pods()).map(|one| one.object.clone()).collect();
        if !graphs.is_empty() && self.wait.look(around.now, is_over) {
            return Some(self.call(Call::Pods(graphs), Flight::Front));
        }
        if is_over {
            self.faults.push(format!("no progress for {}: {}", in_words(deadline), self.wait.sentence()));
            self.waits_failed += 1;
            self.drop_adapters("its graph is not ready");
            return None;
        }
        self.state = State::Watching;
        Some(Turn::Health)
    }

    /// Adapters that were to follow the graph are left for a later sync.
    fn drop_adapters(&mut self, why: &str) {
        let adapters: Vec<ObjectRef> = self
            .tasks
            .iter()
            .filter_map(|task| match task {
                Task::Apply(task) if task.stage == Stage::Adapter => Some(task.object.reference()),
                Task::Apply(_)
                | Task::Delete(_)
                | Task::AwaitGone { .. }
                | Task::Gate(_)
                | Task::Barrier
                | Task::Record
                | Task::Retire
                | Task::AwaitGraph
                | Task::AwaitHealth => None,
            })
            .collect();
        for adapter in adapters {
            self.notes.push(format!("{adapter} is left for later: {why}"));
            self.leave_out(&adapter.identity());
        }
    }

    /// Nothing more is done about an object.
    pub(super) fn leave_out(&mut self, identity: &ObjectIdentity) {
        self.tasks.retain(|task| !concerns(task, identity));
        if let Some(watched) = self.watched.get_mut(identity) {
            watched.left_out = true;
        }
    }

    /// Something about an object failed for this sync.
    pub(super) fn fail_object(&mut self, object: &ObjectRef, message: &str) {
        self.faults.push(message.to_owned());
        self.leave_out(&object.identity());
    }

    /// An apply failed: later stages of the model wait, and nobody prunes.
    pub(super) fn fail_apply(&mut self, stage: Stage) {
        self.failed_apply = true;
        self.failed_stage = Some(self.failed_stage.map_or(stage, |earlier| earlier.min(stage)));
    }

    fn hold_deletes(&mut self, why: &str) {
        let count =
            self.tasks.iter().filter(|task| matches!(task, Task::Delete(DeleteTask { prune: true, .. }))).count();
        self.tasks.retain(|task| !matches!(task, Task::Delete(_) | Task::AwaitGone { .. }));
        self.blocked.push(format!("{count} deletions are held back, because {why}"));
    }

    /// The pause before the next look at an object that is going.
    pub(super) fn poll_gone(&self) -> Duration {
        GONE_POLL.min(Duration::from_millis(20) * 2u32.saturating_pow(self.polls.min(10)))
    }
}
