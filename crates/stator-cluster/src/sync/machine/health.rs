//! Waiting for health: what was seen of each object, and whether there is progress.

use stator_core::dynamo::health::{Endpoints, Health, Verdict, judge, ready_workers};
use stator_core::dynamo::kinds::GRAPH;
use stator_core::object::{Object, ObjectRef};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Sentences that count as progress in one wait. A status that says something new for ever would never end a wait.
const SENTENCES: usize = 1_000;

/// An object whose health is waited for.
#[derive(Debug)]
pub(super) struct Watched {
    pub object: ObjectRef,
    /// The generation applied: what is older says nothing.
    pub generation: Option<i64>,
    /// The last verdict, `None` until it was seen.
    pub verdict: Option<Verdict>,
    /// The verdict on the object by itself.
    judged: Option<Verdict>,
    /// An adapter's endpoints, as last seen.
    endpoints: Option<Endpoints>,
    /// A graph's ready workers by base model, as last seen.
    workers: BTreeMap<String, u64>,
    /// The health at the time of the plan, for an object that nothing is done about. Too old to end a wait with.
    pub planned: Option<Health>,
    /// GPUs that it asks for.
    pub gpus: u64,
    /// Their SKU, where it says.
    pub gpu_sku: Option<String>,
    /// Not waited for: its apply failed or was put off.
    pub left_out: bool,
}

impl Watched {
    pub(super) fn new(object: ObjectRef, generation: Option<i64>) -> Self {
        Self {
            object,
            generation,
            verdict: None,
            judged: None,
            endpoints: None,
            workers: BTreeMap::new(),
            planned: None,
            gpus: 0,
            gpu_sku: None,
            left_out: false,
        }
    }

    /// The best that is known of its health.
    pub(super) fn health(&self) -> Health {
        self.verdict.as_ref().map(|verdict| verdict.health).or(self.planned).unwrap_or_default()
    }

    pub(super) fn see(&mut self, live: &Object) {
        let judged = judge(live, self.generation);
        self.verdict = Some(judged.clone());
        self.judged = Some(judged);
        self.endpoints = Endpoints::of(live);
        self.workers = ready_workers(live);
    }

    /// Holds an adapter's verdict against the workers that are ready for its base model in the same model's graph.
    pub(super) fn hold_against(&mut self, workers: &BTreeMap<String, u64>) {
        if let (Some(endpoints), Some(judged)) = (&self.endpoints, &self.judged) {
            let ready = workers.get(&endpoints.base).copied().unwrap_or(0);
            self.verdict = Some(endpoints.held_against(judged.clone(), ready));
        }
    }

    pub(super) fn workers(&self) -> &BTreeMap<String, u64> {
        &self.workers
    }

    pub(super) fn is_adapter(&self) -> bool {
        self.endpoints.is_some()
    }

    /// The object is not there.
    pub(super) fn lose(&mut self) {
        (self.judged, self.endpoints) = (None, None);
        self.workers.clear();
        self.verdict =
            Some(Verdict { health: Health::Unknown, message: "is not there any more".to_owned(), terminal: false });
    }

    pub(super) fn is_healthy(&self) -> bool {
        self.verdict.as_ref().is_some_and(good)
    }

    /// True for a graph that is waited for: its pods may say why.
    pub(super) fn wants_pods(&self) -> bool {
        self.object.kind == GRAPH.kind && !self.left_out && !self.is_healthy()
    }

    /// The sentence of a verdict that waiting cannot change.
    pub(super) fn failed_for_good(&self) -> Option<String> {
        let verdict = self.verdict.as_ref().filter(|verdict| verdict.terminal && !good(verdict))?;
        Some(format!("{}: {}", self.object, verdict.message))
    }

    /// What it is waited for, in a sentence; `None` when it is not.
    pub(super) fn waiting(&self) -> Option<String> {
        match &self.verdict {
            Some(verdict) if good(verdict) => None,
            Some(verdict) => Some(format!("{}: {}", self.object, verdict.message)),
            None => Some(format!("{}: not seen yet", self.object)),
        }
    }
}

/// Whether a verdict is what a sync waits for.
pub(super) fn good(verdict: &Verdict) -> bool {
    verdict.health.is_good()
}

/// How a wait goes: a deadline that every new sentence puts off. A state that comes back is not progress, so a graph
/// that crashes and restarts for ever runs into its deadline.
#[derive(Debug, Default)]
pub(super) struct Wait {
    since: Option<Duration>,
    said: BTreeSet<String>,
    /// The last sentence.
    pub message: String,
    /// What pods say of it.
    causes: String,
    /// When pods are looked at next; `None` while there is nothing that they could explain.
    next_look: Option<Duration>,
    /// How often they were looked at since there was progress.
    looks: u32,
    /// They were looked at for the last time.
    looked_last: bool,
}

/// After how long without progress pods are looked at, and the longest time between two looks: a short wait costs none.
const LOOK: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(5 * 60));

impl Wait {
    /// Notes what is waited for now. True when the sentence is another than the last.
    pub(super) fn note(&mut self, now: Duration, message: String) -> bool {
        let is_new = self.said.len() < SENTENCES && self.said.insert(message.clone());
        if is_new || self.since.is_none() {
            self.since = Some(now);
            self.causes.clear();
            (self.looks, self.looked_last) = (0, false);
            self.next_look = Some(now + LOOK.0);
        }
        let changed = self.message != message;
        self.message = message;
        changed
    }

    /// True when pods are to be looked at now: from time to time, and once more before the wait is given up.
    pub(super) fn look(&mut self, now: Duration, is_over: bool) -> bool {
        let is_due = self.next_look.is_some_and(|at| at <= now) && !is_over;
        if !is_due && (!is_over || self.looked_last) {
            return false;
        }
        self.looked_last |= is_over;
        self.looks += 1;
        self.next_look = Some(now + LOOK.1.min(LOOK.0 * 2u32.saturating_pow(self.looks.min(16))));
        true
    }

    /// Takes what pods say. True when that is something else than before.
    pub(super) fn explain(&mut self, causes: String) -> bool {
        let changed = self.causes != causes;
        self.causes = causes;
        changed
    }

    /// What is waited for, with the cause where one is known.
    pub(super) fn sentence(&self) -> String {
        if self.causes.is_empty() { self.message.clone() } else { format!("{}; {}", self.message, self.causes) }
    }

    /// When something is to be done although nothing happens.
    pub(super) fn wake_at(&self, progress: Duration, explains: bool) -> Option<Duration> {
        self.deadline(progress).into_iter().chain(self.next_look.filter(|_| explains)).min()
    }

    /// When the wait ends unless something new is said.
    pub(super) fn deadline(&self, progress: Duration) -> Option<Duration> {
        self.since.map(|since| since + progress)
    }
}
