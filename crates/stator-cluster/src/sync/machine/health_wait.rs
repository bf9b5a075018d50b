//! Waiting for health: what was seen of each object, and whether there is progress.

use crate::sync::WaitingReason;
use stator_core::dynamo::health::{
    AdapterEndpoints, Health, HealthVerdict, assess_health, download_deadline, ready_workers,
};
use stator_core::dynamo::kinds::{GRAPH, JOB};
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};
use stator_core::object::{Object, ObjectRef};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Sentences that count as progress in one wait. A status that says something new for ever would never end a wait.
const MAX_PROGRESS_MESSAGES: usize = 1_000;

/// An object whose health is waited for.
#[derive(Debug)]
pub(super) struct WatchedObject {
    pub object: ObjectRef,
    /// The generation applied: what is older says nothing.
    pub generation: Option<i64>,
    /// The last verdict, `None` until it was seen.
    pub verdict: Option<HealthVerdict>,
    /// The uid and resource version of what was seen last.
    seen_version: Option<u64>,
    /// The verdict on the object by itself.
    own_verdict: Option<HealthVerdict>,
    /// An adapter's endpoints, as last seen.
    endpoints: Option<AdapterEndpoints>,
    /// A graph's ready workers by base model, as last seen.
    workers: BTreeMap<String, u64>,
    /// How long a download may take by its own deadline, as last seen.
    pub download_deadline: Option<Duration>,
    /// A graph's frontend, as last seen.
    frontend: Option<FrontendService>,
    /// What that of an adapter's graph said since the adapter is loaded.
    answer: Option<FrontendAnswer>,
    /// The health at the time of the plan, for an object that nothing is done about. Too old to end a wait with.
    pub planned: Option<Health>,
    /// GPUs that it asks for.
    pub gpus: u64,
    /// Their SKU, where it says.
    pub gpu_sku: Option<String>,
    /// Not waited for: its apply failed or was put off.
    pub skipped: bool,
}

impl WatchedObject {
    pub(super) fn new(object: ObjectRef, generation: Option<i64>) -> Self {
        Self {
            object,
            generation,
            verdict: None,
            seen_version: None,
            own_verdict: None,
            endpoints: None,
            workers: BTreeMap::new(),
            download_deadline: None,
            frontend: None,
            answer: None,
            planned: None,
            gpus: 0,
            gpu_sku: None,
            skipped: false,
        }
    }

    /// The best that is known of its health.
    pub(super) fn health(&self) -> Health {
        self.verdict.as_ref().map(|verdict| verdict.health).or(self.planned).unwrap_or_default()
    }

    /// Takes in an object as an answer or a watch shows it. What is older than what was seen says nothing, also of another
    /// object that had the name before: a watch may be ahead of the answer to an apply, or behind it, and a list takes a while.
    pub(super) fn observe(&mut self, live: &Object) {
        let version = live.version_number();
        if self.seen_version.zip(version).is_some_and(|(seen, new)| new < seen) {
            return;
        }
        self.seen_version = version;
        let judged = assess_health(live, self.generation);
        self.verdict = Some(judged.clone());
        self.own_verdict = Some(judged);
        self.endpoints = AdapterEndpoints::from_adapter(live);
        self.workers = ready_workers(live);
        self.frontend = FrontendService::of_graph(live);
        self.download_deadline = download_deadline(live).filter(|_| live.kind() == JOB.kind);
    }

    /// Holds an adapter's verdict against the workers that are ready for its base model in the same model's graph, and
    /// against what that graph's frontend said.
    pub(super) fn limit_adapter(&mut self, workers: &BTreeMap<String, u64>) {
        if let (Some(endpoints), Some(judged)) = (&self.endpoints, &self.own_verdict) {
            let ready = workers.get(&endpoints.base_model).copied().unwrap_or(0);
            let loaded = endpoints.check_against_workers(judged.clone(), ready);
            // What was said before it was loaded again says nothing.
            self.answer = self.answer.take().filter(|_| loaded.health == Health::Healthy);
            self.verdict = Some(match &self.answer {
                Some(FrontendAnswer::Unknown { why, may_pass: true }) => HealthVerdict {
                    health: Health::Progressing,
                    message: format!("{}; {why}", loaded.message),
                    terminal: false,
                },
                // A record says the same whether the frontend was asked in this sync or in an earlier one.
                Some(answer) => Some(endpoints.check_against_frontend(loaded.clone(), answer))
                    .filter(|checked| !is_good_verdict(checked))
                    .unwrap_or(loaded),
                None => loaded,
            });
        }
    }

    /// The frontend of a graph that adapters of this base model are loaded into.
    pub(super) fn frontend_of(&self, base_model: &str) -> Option<&FrontendService> {
        self.frontend.as_ref().filter(|_| self.workers.contains_key(base_model))
    }

    /// The base model of an adapter that is loaded, and may be served or not; with whether its frontend was asked.
    pub(super) fn unserved_adapter(&self) -> Option<(&str, bool)> {
        let endpoints = self.endpoints.as_ref().filter(|_| !self.skipped)?;
        let is_open = match &self.answer {
            None => self.is_healthy(),
            Some(FrontendAnswer::Serves(names)) => !names.contains(&endpoints.served_name),
            Some(FrontendAnswer::Unknown { why: _, may_pass }) => *may_pass,
            Some(FrontendAnswer::NotAsked) => false,
        };
        is_open.then_some((endpoints.base_model.as_str(), self.answer.is_some()))
    }

    /// Takes in what the frontend of an adapter's graph said.
    pub(super) fn set_answer(&mut self, answer: FrontendAnswer) {
        self.answer = Some(answer);
    }

    pub(super) fn workers(&self) -> &BTreeMap<String, u64> {
        &self.workers
    }

    pub(super) fn is_adapter(&self) -> bool {
        self.endpoints.is_some()
    }

    /// The object is not there.
    pub(super) fn mark_gone(&mut self) {
        (self.own_verdict, self.endpoints, self.frontend, self.answer) = (None, None, None, None);
        (self.download_deadline, self.seen_version) = (None, None);
        self.workers.clear();
        self.verdict =
            Some(HealthVerdict { health: Health::Unknown, message: "no longer exists".to_owned(), terminal: false });
    }

    pub(super) fn is_healthy(&self) -> bool {
        self.verdict.as_ref().is_some_and(is_good_verdict)
    }

    /// True for a graph or a download that is waited for: its pods may say why.
    pub(super) fn wants_pods(&self) -> bool {
        (self.object.kind == GRAPH.kind || self.object.kind == JOB.kind) && !self.skipped && !self.is_healthy()
    }

    /// The sentence of a verdict that waiting cannot change.
    pub(super) fn terminal_message(&self) -> Option<String> {
        let verdict = self.verdict.as_ref().filter(|verdict| verdict.terminal && !is_good_verdict(verdict))?;
        Some(format!("{}: {}", self.object, verdict.message))
    }

    /// Whether it was seen since the sync began.
    pub(super) fn is_seen(&self) -> bool {
        self.verdict.is_some()
    }

    /// What it is waited for, in a sentence; `None` when it is not.
    pub(super) fn waiting_message(&self) -> Option<String> {
        match &self.verdict {
            Some(verdict) if is_good_verdict(verdict) => None,
            Some(verdict) => Some(verdict.message.clone()),
            None => Some("not seen yet".to_owned()),
        }
    }
}

/// Whether a verdict is what a sync waits for.
pub(super) fn is_good_verdict(verdict: &HealthVerdict) -> bool {
    verdict.health.is_good()
}

/// How a wait goes: a deadline that every new sentence puts off. A state that comes back is not progress, so a graph
/// that crashes and restarts for ever runs into its deadline.
#[derive(Debug, Default)]
pub(super) struct HealthWait {
    since: Option<Duration>,
    seen_messages: BTreeSet<String>,
    /// What was waited for last; without details before any wait.
    reason: WaitingReason,
    /// What pods say of it.
    causes: String,
    /// When pods are looked at next; `None` while there is nothing that they could explain.
    next_pod_read: Option<Duration>,
    /// How often they were looked at since there was progress.
    pod_reads: u32,
    /// They were looked at for the last time.
    did_final_pod_read: bool,
}

/// After how long without progress pods are looked at, and the longest time between two looks: a short wait costs none.
const POD_READ_INTERVAL: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(5 * 60));

impl HealthWait {
    /// True once something was waited for.
    pub(super) fn has_begun(&self) -> bool {
        !self.reason.details.is_empty()
    }

    /// Notes what is waited for now. True when it is something else than before.
    pub(super) fn set_reason(&mut self, now: Duration, reason: WaitingReason) -> bool {
        let is_new = self.seen_messages.len() < MAX_PROGRESS_MESSAGES && self.seen_messages.insert(reason.to_string());
        if is_new || self.since.is_none() {
            self.since = Some(now);
            self.causes.clear();
            (self.pod_reads, self.did_final_pod_read) = (0, false);
            self.next_pod_read = Some(now + POD_READ_INTERVAL.0);
        }
        let changed = self.reason != reason;
        self.reason = reason;
        changed
    }

    /// True when pods are to be looked at now: from time to time, and once more before the wait is given up.
    pub(super) fn should_read_pods(&mut self, now: Duration, is_over: bool) -> bool {
        let is_due = self.next_pod_read.is_some_and(|at| at <= now) && !is_over;
        if !is_due && (!is_over || self.did_final_pod_read) {
            return false;
        }
        self.did_final_pod_read |= is_over;
        self.pod_reads += 1;
        self.next_pod_read =
            Some(now + POD_READ_INTERVAL.1.min(POD_READ_INTERVAL.0 * 2u32.saturating_pow(self.pod_reads.min(16))));
        true
    }

    /// Takes what pods say. True when that is something else than before.
    pub(super) fn set_causes(&mut self, causes: String) -> bool {
        let changed = self.causes != causes;
        self.causes = causes;
        changed
    }

    /// What is waited for, with the cause where one is known.
    pub(super) fn reason(&self) -> WaitingReason {
        let WaitingReason { object, mut details } = self.reason.clone();
        if !self.causes.is_empty() {
            details = format!("{details}; {}", self.causes);
        }
        WaitingReason { object, details }
    }

    /// When something is to be done although nothing happens.
    pub(super) fn wake_at(&self, progress: Duration, explains: bool) -> Option<Duration> {
        self.deadline(progress).into_iter().chain(self.next_pod_read.filter(|_| explains)).min()
    }

    /// When the wait ends unless something new is said.
    pub(super) fn deadline(&self, progress: Duration) -> Option<Duration> {
        self.since.map(|since| since + progress)
    }
}
