//! Which model has a turn, how many calls are in flight, and the barrier before pruning.

use super::context::{JournalGate, PruneBarrier, SyncContext, format_duration};
use super::journal_keeper::JournalKeeper;
use super::model_sync::{ModelSync, ModelTurn};
use super::plan_models;
use super::protocol::{CallResult, MachineEffect, MachineEvent, MachineInput, MachineSettings};
use crate::cluster::{ApplyOutcome, ApplyResponse, DeleteOutcome};
use crate::sync::{CancelReason, SyncProgress, SyncReport};
use stator_core::object::{Object, ObjectIdentity, ObjectRef, ObjectText};
use stator_core::outcome::SyncOutcome;
use stator_core::retry::JitterSource;
use stator_model::plan::{Journal, Plan, SyncBookkeeping};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// How long records are still written once a sync is interrupted. What is left is named by a journal or an older record, and
/// the next sync completes it: a process that is told to end has to end soon, however many models it has.
const RECORD_GRACE: Duration = Duration::from_secs(2);

/// The state of a sync.
#[derive(Debug)]
pub struct SyncMachine {
    settings: MachineSettings,
    models: BTreeMap<String, ModelSync>,
    /// Whose health an object decides, so that an event costs a look at these models and not at all.
    observers: BTreeMap<ObjectIdentity, Vec<String>>,
    /// The journal of what they create, and those of earlier syncs.
    journals: JournalKeeper,
    /// Models whose turn it is, in order.
    ready: VecDeque<String>,
    /// Models that have come to their records, which follow when no model has anything else to do.
    at_record: VecDeque<String>,
    /// Models that create nothing before the journal is written.
    awaiting_journal: BTreeSet<String>,
    /// Models that have not come to the barrier.
    applying: BTreeSet<String>,
    /// Models that stand at the barrier.
    at_barrier: BTreeSet<String>,
    /// Models that wait for time to pass or for health.
    parked: BTreeSet<String>,
    /// When they want a turn at the latest. May hold times that are no longer true; they cost a look.
    timers: BTreeSet<(Duration, String)>,
    /// Those of the models that have not come to the barrier that wait until something is gone, or is downloaded.
    long_waiting: BTreeSet<String>,
    /// Everybody who could has applied.
    is_barrier_open: bool,
    in_flight: usize,
    /// Models that are not through.
    unfinished: usize,
    watching: bool,
    cancel: Option<CancelReason>,
    /// When somebody interrupted it.
    interrupted_at: Option<Duration>,
    /// Nothing is begun any more. Calls in flight are finished all the same, as another process may take over after that.
    has_given_up: bool,
    timed_out: bool,
    writes: usize,
    jitter: JitterSource,
}

impl SyncMachine {
    /// The state before the first event. Plan and bookkeeping must be of one moment.
    pub fn new(plan: Plan, bookkeeping: SyncBookkeeping, settings: MachineSettings) -> Self {
        let head = Journal {
            repository: plan.repository.clone(),
            environment: plan.environment.clone(),
            folder: plan.folder.clone(),
            owner: plan.ownership.owner.clone(),
            ..Journal::default()
        };
        // Nothing is known of them that a journal could be held against.
        let foreign_models: BTreeSet<String> = plan.ownership.foreign.iter().cloned().collect();
        let models = plan_models::build_models(plan, bookkeeping.records, &settings);
        let mut jitter = JitterSource::new(settings.seed);
        let entries = models.values().filter_map(|model| model.record_writer.to_journal_entry());
        let journals = JournalKeeper::new(&head, entries, bookkeeping.journals, foreign_models, &mut jitter);
        let mut observers: BTreeMap<ObjectIdentity, Vec<String>> = BTreeMap::new();
        for (name, model) in &models {
            for object in model.observed_objects() {
                observers.entry(object.clone()).or_default().push(name.clone());
            }
        }
        Self {
            journals,
            observers,
            at_record: VecDeque::new(),
            awaiting_journal: BTreeSet::new(),
            ready: models.keys().cloned().collect(),
            applying: models.keys().cloned().collect(),
            unfinished: models.len(),
            models,
            at_barrier: BTreeSet::new(),
            parked: BTreeSet::new(),
            timers: BTreeSet::new(),
            long_waiting: BTreeSet::new(),
            is_barrier_open: false,
            in_flight: 0,
            watching: false,
            cancel: None,
            interrupted_at: None,
            has_given_up: false,
            timed_out: false,
            writes: 0,
            jitter,
            settings,
        }
    }

    /// True when nothing is left to do and nothing is in flight.
    pub fn is_done(&self) -> bool {
        self.in_flight == 0 && self.unfinished == 0 && (self.journals.is_done() || self.has_given_up)
    }

    /// The next time at which a [`MachineEvent::Tick`] changes something.
    pub fn wake_at(&self) -> Option<Duration> {
        let timeout = self.settings.timeout.filter(|_| !self.timed_out && self.unfinished > 0);
        let has_free_call = self.in_flight < self.settings.concurrency.max(1);
        let journals = self.journals.wake_at().filter(|_| has_free_call && !self.has_given_up);
        let due = self.timers.first().map(|(at, _)| *at).into_iter().chain(journals);
        let grace = self.interrupted_at.filter(|_| !self.has_given_up).map(|at| at + RECORD_GRACE);
        due.chain(timeout).chain(grace).min()
    }

    /// The report, complete once [`SyncMachine::is_done`].
    pub fn report(&self) -> SyncReport {
        SyncReport {
            models: self.models.values().filter_map(|model| model.outcome().cloned()).collect(),
            writes: self.writes,
            timed_out: self.timed_out,
            cancelled: self.cancel.is_some(),
        }
    }

    /// Takes one event.
    #[must_use = "effects that are not carried out are lost"]
    pub fn step(mut self, input: MachineInput) -> (Self, Vec<MachineEffect>) {
        let MachineInput { now, event } = input;
        let mut effects = Vec::new();
        match event {
            MachineEvent::Start | MachineEvent::Tick => {}
            MachineEvent::CallFinished { model, answer } => self.handle_result(now, &model, answer, &mut effects),
            MachineEvent::JournalFinished { part, result } => {
                let at = (now, self.cancel.is_some() || self.timed_out);
                let handled = self.journals.handle_result(&self.settings, at, part, result, &mut self.jitter);
                if let Some(writes) = handled {
                    self.in_flight -= 1;
                    self.writes += writes;
                    self.ready.extend(std::mem::take(&mut self.awaiting_journal));
                }
            }
            MachineEvent::Observed(object) => self.observe(&object.reference(), Some(&object)),
            MachineEvent::Gone(object) => self.observe(&object, None),
            MachineEvent::Listed(objects) => self.observe_all(&objects),
            MachineEvent::Cancel(cancel) => {
                let (result, why) = match &cancel {
                    CancelReason::Interrupted => (SyncOutcome::Cancelled, "interrupted".to_owned()),
                    CancelReason::Superseded { revision } => {
                        (SyncOutcome::Superseded, format!("superseded by {revision}"))
                    }
                };
                if cancel == CancelReason::Interrupted {
                    self.interrupted_at.get_or_insert(now);
                }
                self.cancel.get_or_insert(cancel);
                self.stop_all(result, &why);
            }
        }
        if let Some(timeout) = self.settings.timeout
            && now >= timeout
            && !self.timed_out
            && self.unfinished > 0
        {
            self.timed_out = true;
            // What is not through by now is not healthy in time; nothing of it failed.
            self.stop_all(SyncOutcome::Unhealthy, &format!("timed out after {}", format_duration(timeout)));
        }
        self.wake_parked(now);
        self.give_up(now, &mut effects);
        self.run_turns(now, &mut effects);
        (self, effects)
    }

    /// Ends every model at its next chance, keeping its record true.
    fn stop_all(&mut self, result: SyncOutcome, why: &str) {
        let queued: BTreeSet<String> = self.ready.iter().chain(&self.at_record).cloned().collect();
        for (name, model) in &mut self.models {
            if model.stop(result, why) {
                self.parked.remove(name);
                self.at_barrier.remove(name);
                self.awaiting_journal.remove(name);
                if !queued.contains(name) {
                    self.ready.push_back(name.clone());
                }
            }
        }
    }

    /// Ends what an interruption leaves no time for.
    fn give_up(&mut self, now: Duration, effects: &mut Vec<MachineEffect>) {
        self.has_given_up |= self.interrupted_at.is_some_and(|at| now >= at + RECORD_GRACE);
        if !self.has_given_up {
            return;
        }
        for model in self.models.values_mut().filter(|model| model.outcome().is_none() && !model.is_calling()) {
            model.give_up();
            self.unfinished -= 1;
            let finished = model.outcome().cloned().map(SyncProgress::Finished);
            effects.extend(finished.map(MachineEffect::Report));
        }
    }

    fn handle_result(&mut self, now: Duration, name: &str, answer: CallResult, effects: &mut Vec<MachineEffect>) {
        let Some(model) = self.models.get_mut(name).filter(|model| model.is_calling()) else {
            return; // An answer to nothing: the driver's fault, and no reason to fail.
        };
        self.in_flight -= 1;
        self.writes += count_writes(&answer);
        let around = SyncContext {
            settings: &self.settings,
            now,
            barrier: &PruneBarrier::Closed,
            journal: &JournalGate::Closed,
            is_record_turn: false,
        };
        model.handle_result(&around, answer, &mut self.jitter, effects);
        if self.journals.awaits_record_of(name) && model.is_recorded() {
            self.journals.mark_recorded(name);
        }
        self.ready.push_back(name.to_owned());
    }

    /// An object as a watch shows it, or that it is gone: a turn for the models that wait for it.
    fn observe(&mut self, object: &ObjectRef, live: Option<&Object>) {
        let identity = object.identity();
        for name in self.observers.get(&identity).into_iter().flatten() {
            if let Some(model) = self.models.get_mut(name) {
                model.observe(&identity, live);
            }
            if self.parked.remove(name) {
                self.ready.push_back(name.clone());
            }
        }
    }

    fn observe_all(&mut self, objects: &[ObjectText]) {
        let by_identity: BTreeMap<_, &ObjectText> =
            objects.iter().map(|object| (object.reference().identity(), object)).collect();
        for model in self.models.values_mut() {
            model.observe_all(&by_identity);
        }
        self.ready.extend(std::mem::take(&mut self.parked));
    }

    /// Gives a turn to every parked model whose time has come.
    fn wake_parked(&mut self, now: Duration) {
        while let Some((at, name)) = self.timers.pop_first() {
            if at > now {
                self.timers.insert((at, name));
                return;
            }
            if !self.parked.contains(&name) {
                continue;
            }
            match self.models.get(&name).and_then(|model| model.wake_at(&self.settings)) {
                Some(later) if later > now => {
                    self.timers.insert((later, name));
                }
                Some(_) => {
                    self.parked.remove(&name);
                    self.ready.push_back(name);
                }
                None => {}
            }
        }
    }

    fn park_model(&mut self, name: String) {
        if let Some(at) = self.models.get(&name).and_then(|model| model.wake_at(&self.settings)) {
            self.timers.insert((at, name.clone()));
        }
        self.parked.insert(name);
    }

    /// Gives turns while there are models that want one and calls to spare.
    fn run_turns(&mut self, now: Duration, effects: &mut Vec<MachineEffect>) {
        loop {
            self.lift_barrier();
            if self.in_flight >= self.settings.concurrency.max(1) {
                return;
            }
            if self.has_given_up {
                return;
            }
            if let Some(call) = self.journals.next_call(now) {
                self.in_flight += 1;
                effects.push(call);
                continue;
            }
            let ready = self.ready.pop_front();
            let is_record_turn = ready.is_none();
            let Some(name) = ready.or_else(|| self.at_record.pop_front()) else { return };
            let barrier = self.barrier_of(&name);
            let journal = self.journals.gate_of(&name);
            let Some(model) = self.models.get_mut(&name) else { continue };
            if model.outcome().is_some() {
                continue;
            }
            let around =
                SyncContext { settings: &self.settings, now, barrier: &barrier, journal: &journal, is_record_turn };
            let turn = model.take_turn(&around, effects);
            if model.has_applied() {
                self.applying.remove(&name);
                self.long_waiting.remove(&name);
            } else if model.may_wait_long() {
                self.long_waiting.insert(name.clone());
            } else {
                self.long_waiting.remove(&name);
            }
            match turn {
                ModelTurn::Call(call) => {
                    self.in_flight += 1;
                    effects.push(MachineEffect::Call { model: name, call: *call });
                }
                ModelTurn::Barrier => {
                    self.applying.remove(&name);
                    self.at_barrier.insert(name);
                }
                ModelTurn::AwaitJournal => {
                    self.journals.request(&name, now);
                    self.awaiting_journal.insert(name);
                }
                ModelTurn::AwaitRecordTurn => self.at_record.push_back(name),
                ModelTurn::Paused => self.park_model(name),
                ModelTurn::AwaitHealth => {
                    self.park_model(name);
                    if !self.watching {
                        self.watching = true;
                        effects.push(MachineEffect::Watch);
                    }
                }
                ModelTurn::Done => {
                    self.applying.remove(&name);
                    self.long_waiting.remove(&name);
                    self.unfinished -= 1;
                    if self.journals.awaits_record_of(&name) && model.is_recorded() {
                        self.journals.mark_recorded(&name);
                    }
                    if self.unfinished == 0 {
                        self.journals.close();
                    }
                    if let Some(outcome) = model.outcome() {
                        effects.push(MachineEffect::Report(SyncProgress::Finished(outcome.clone())));
                    }
                }
            }
        }
    }

    /// Whether a model may prune now.
    fn barrier_of(&self, name: &str) -> PruneBarrier {
        if !self.is_barrier_open {
            return PruneBarrier::Closed;
        }
        let successors = self.models.get(name).map(|model| model.succeeding_models.as_slice()).unwrap_or_default();
        let successors = || successors.iter().filter_map(|name| self.models.get(name));
        if successors().any(|one| !one.has_applied() && one.outcome().is_none()) {
            return PruneBarrier::Closed;
        }
        match successors().find(|one| one.has_failed_apply()) {
            Some(failed) => {
                PruneBarrier::Blocked(format!("model {}, which takes its place, could not be applied", failed.name()))
            }
            None => PruneBarrier::Open,
        }
    }

    /// Lets models prune once nobody has anything left to apply, but for those that wait for long. One
    /// whose place another one takes waits for that one in any case.
    fn lift_barrier(&mut self) {
        self.is_barrier_open |= self.applying.len() == self.long_waiting.len();
        if !self.is_barrier_open || self.at_barrier.is_empty() {
            return;
        }
        let standing = std::mem::take(&mut self.at_barrier);
        let (waiting, free): (BTreeSet<String>, BTreeSet<String>) =
            standing.into_iter().partition(|name| self.barrier_of(name) == PruneBarrier::Closed);
        self.at_barrier = waiting;
        self.ready.extend(free);
    }
}

/// How many writes an answer says that the cluster carried out.
fn count_writes(answer: &CallResult) -> usize {
    match answer {
        CallResult::Recorded(Ok(recorded)) => recorded.writes,
        CallResult::Applied(Ok(ApplyResponse { object: _, outcome })) => match outcome {
            ApplyOutcome::Created | ApplyOutcome::Updated => 1,
            ApplyOutcome::Unchanged => 0,
        },
        CallResult::Deleted(Ok(deleted)) => match deleted {
            DeleteOutcome::Gone | DeleteOutcome::Pending(_) => 1,
            DeleteOutcome::Absent => 0,
        },
        CallResult::Recorded(Err(_))
        | CallResult::Applied(Err(_))
        | CallResult::Deleted(Err(_))
        | CallResult::Read(_)
        | CallResult::Pods(_)
        | CallResult::Served(..) => 0,
    }
}
