//! Waiting for health: what was seen of each object, and whether there is progress.

use crate::dynamo::health::{Health, Verdict, judge};
use crate::object::{Object, ObjectRef};
use std::collections::BTreeSet;
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
        Self { object, generation, verdict: None, planned: None, gpus: 0, gpu_sku: None, left_out: false }
    }

    /// The best that is known of its health.
    pub(super) fn health(&self) -> Health {
        self.verdict.as_ref().map(|verdict| verdict.health).or(self.planned).unwrap_or_default()
    }

    pub(super) fn see(&mut self, live: &Object) {
        self.verdict = Some(judge(live, self.generation));
    }

    /// The object is not there.
    pub(super) fn lose(&mut self) {
        self.verdict =
            Some(Verdict { health: Health::Unknown, message: "is not there any more".to_owned(), terminal: false });
    }

    pub(super) fn is_healthy(&self) -> bool {
        self.verdict.as_ref().is_some_and(good)
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

/// Whether a verdict is what a sync waits for. At zero replicas on purpose is as good as it gets.
pub(super) fn good(verdict: &Verdict) -> bool {
    match verdict.health {
        Health::Healthy | Health::Suspended => true,
        Health::Progressing | Health::Unknown | Health::Degraded | Health::Failed => false,
    }
}

/// How a wait goes: a deadline that every new sentence puts off. A state that comes back is not progress, so a graph
/// that crashes and restarts for ever runs into its deadline.
#[derive(Debug, Default)]
pub(super) struct Wait {
    since: Option<Duration>,
    said: BTreeSet<String>,
    /// The last sentence.
    pub message: String,
}

impl Wait {
    /// Notes what is waited for now. True when the sentence is another than the last.
    pub(super) fn note(&mut self, now: Duration, message: String) -> bool {
        let is_new = self.said.len() < SENTENCES && self.said.insert(message.clone());
        if is_new || self.since.is_none() {
            self.since = Some(now);
        }
        let changed = self.message != message;
        self.message = message;
        changed
    }

    /// When the wait ends unless something new is said.
    pub(super) fn deadline(&self, progress: Duration) -> Option<Duration> {
        self.since.map(|since| since + progress)
    }
}
