//! Drives the machine against a cluster: carries its effects out, and tells it what came of them.

use super::machine::{Answer, Call, Effect, Event, Input, Machine, Recorded, Settings};
use super::{Cancel, Progress, SyncReport};
use crate::cluster::{Applied, ApplyOutcome, ApplyRequest, Cluster, ClusterError, Deleted, Preconditions, WatchEvent};
use stator_core::dynamo::kinds::{self, Kind};
use stator_core::object::Object;
use stator_model::plan::{Plan, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tracing::Instrument as _;

/// The kinds whose health is waited for.
const WATCHED: &[Kind] = kinds::MANAGED;
/// How long after a watch that broke it is opened again.
const REOPEN: Duration = Duration::from_secs(1);

/// How a sync is carried out.
#[derive(Clone, Debug)]
pub struct SyncOptions {
    /// Waits until everything is Healthy.
    pub wait: bool,
    /// Deletes what the plan says is to go.
    pub prune: bool,
    /// Ends everything after this long.
    pub timeout: Option<Duration>,
    /// Ends the wait for a model without progress after this long.
    pub progress_deadline: Duration,
    /// Calls to the cluster at a time.
    pub concurrency: usize,
    /// Wall time at the start, for the records' history.
    pub started: jiff::Timestamp,
    /// Where the jitter of backoffs comes from.
    pub seed: u64,
}

impl SyncOptions {
    /// The usual: no wait, pruning, 30 minutes without progress (weights are loaded and compiled in that time, and
    /// Dynamo's operator itself never gives up), eight calls at a time.
    pub fn new(started: jiff::Timestamp, seed: u64) -> Self {
        Self {
            wait: false,
            prune: true,
            timeout: None,
            progress_deadline: Duration::from_secs(30 * 60),
            concurrency: 8,
            started,
            seed,
        }
    }
}

/// Tries of one call before it counts as failed.
const ATTEMPTS: u32 = 5;

type InFlight<'a> = Pin<Box<dyn Future<Output = (String, Answer)> + Send + 'a>>;

/// Carries a plan out. Plan and records must come from one and the same look at the cluster.
///
/// `progress` is told what happens as it happens. `cancel` may be set at any time: what is in flight is finished, the
/// records are written, and the report says so. Dropping the future instead is safe too; the next sync puts right what
/// is left.
pub async fn run<C: Cluster>(
    cluster: &C,
    plan: Plan,
    records: Vec<Record>,
    options: SyncOptions,
    progress: &(dyn Fn(Progress) + Send + Sync),
    mut cancel: watch::Receiver<Option<Cancel>>,
) -> SyncReport {
    let SyncOptions { wait, prune, timeout, progress_deadline, concurrency, started, seed } = options;
    let settings = Settings { wait, prune, progress_deadline, timeout, concurrency, attempts: ATTEMPTS, started, seed };
    let namespaces: BTreeSet<String> = plan.changes.iter().map(|change| change.object.namespace.clone()).collect();
    let labels = BTreeMap::from([
        (kinds::LABEL_REPOSITORY.to_owned(), plan.repository.clone()),
        (kinds::LABEL_ENVIRONMENT.to_owned(), plan.environment.clone()),
    ]);
    let clock = Instant::now();
    let mut machine = Machine::new(plan, records, settings);
    let mut calls: Vec<InFlight<'_>> = Vec::new();
    let mut sight = Sight { cluster, namespaces, labels, feeds: Vec::new(), reopen: None };
    let mut cancelled = false;
    let mut event = Event::Start;
    loop {
        let (next, effects) = machine.step(Input { now: clock.elapsed(), event });
        machine = next;
        for effect in effects {
            match effect {
                Effect::Call { model, call } => {
                    // So that lines of the client say which model they are about.
                    let about = tracing::error_span!(target: "stator::unit", "model", model);
                    let work = async move {
                        let answer = carry_out(cluster, call).await;
                        (model, answer)
                    };
                    calls.push(Box::pin(work.instrument(about)));
                }
                Effect::Watch => sight.reopen = Some(Instant::now()),
                Effect::Report(report) => progress(report),
            }
        }
        if machine.is_done() {
            return machine.report();
        }
        let wake = machine.wake_at().map(|at| clock + at);
        event = tokio::select! {
            biased;
            reason = cancelled_by(&mut cancel), if !cancelled => {
                cancelled = true;
                match reason {
                    Some(reason) => Event::Cancel(reason),
                    None => Event::Tick,
                }
            }
            (model, answer) = first(&mut calls), if !calls.is_empty() => Event::Answer { model, answer },
            event = sight.next() => event,
            () = sleep_until(wake) => Event::Tick,
        };
    }
}

/// Waits for a reason to stop; `None` when nobody can give one any more.
async fn cancelled_by(cancel: &mut watch::Receiver<Option<Cancel>>) -> Option<Cancel> {
    cancel.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone())
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

/// The first call to come back, taken out of the list. There are few at a time, so a list is enough.
async fn first(calls: &mut Vec<InFlight<'_>>) -> (String, Answer) {
    std::future::poll_fn(|context| {
        for index in 0..calls.len() {
            if let Some(call) = calls.get_mut(index)
                && let Poll::Ready(answer) = call.as_mut().poll(context)
            {
                drop(calls.swap_remove(index));
                return Poll::Ready(answer);
            }
        }
        Poll::Pending
    })
    .await
}

async fn carry_out<C: Cluster>(cluster: &C, call: Call) -> Answer {
    match call {
        Call::WriteRecord { record, object, status } => {
            Answer::Recorded(write_record(cluster, record, object, status).await)
        }
        Call::DeleteRecord(record) => Answer::Recorded(delete_record(cluster, &record).await),
        Call::Apply(request) => Answer::Applied(cluster.apply(&request).await),
        Call::Delete { object, preconditions } => Answer::Deleted(cluster.delete(&object, &preconditions).await),
        Call::Read(object) => Answer::Read(cluster.get(&object).await),
        Call::Pods(graphs) => Answer::Pods(super::pods(cluster, &graphs).await),
    }
}

/// Writes a record: the object, its status, or the one and then the other.
async fn write_record<C: Cluster>(
    cluster: &C,
    mut record: Box<Record>,
    object: bool,
    status: bool,
) -> Result<Recorded, ClusterError> {
    // The record is stator's own bookkeeping: an edit by hand must not stop every later sync of the model.
    let forced = |object: Object| ApplyRequest { force: true, ..ApplyRequest::new(object, kinds::MANAGER) };
    let wrote = |applied: &Applied| match applied.outcome {
        ApplyOutcome::Created | ApplyOutcome::Updated => 1,
        ApplyOutcome::Unchanged => 0,
    };
    let mut writes = 0;
    if !object {
        match cluster.apply(&ApplyRequest { status: true, ..forced(parts(&record)?.1) }).await {
            Ok(applied) => return Ok(Recorded { writes: wrote(&applied), generation: record.generation }),
            Err(error @ ClusterError::Transient { .. }) => return Err(error),
            // It was deleted meanwhile: a status alone makes no object.
            Err(_) => {}
        }
    }
    let applied = cluster.apply(&forced(parts(&record)?.0)).await?;
    writes += wrote(&applied);
    record.generation = applied.object.generation();
    if status {
        let applied = cluster.apply(&ApplyRequest { status: true, ..forced(parts(&record)?.1) }).await?;
        writes += wrote(&applied);
    }
    Ok(Recorded { writes, generation: record.generation })
}

async fn delete_record<C: Cluster>(cluster: &C, record: &Record) -> Result<Recorded, ClusterError> {
    let (object, _) = parts(record)?;
    let preconditions = Preconditions { uid: record.uid.clone(), resource_version: record.resource_version.clone() };
    let writes = match cluster.delete(&object.reference(), &preconditions).await? {
        Deleted::Gone | Deleted::Pending(_) => 1,
        Deleted::Absent => 0,
    };
    Ok(Recorded { writes, generation: None })
}

fn parts(record: &Record) -> Result<(Object, Object), ClusterError> {
    record
        .to_object()
        .map_err(|error| ClusterError::Storage { message: format!("the record of {}: {error}", record.model) })
}

/// What is seen of the watched kinds.
struct Sight<'a, C> {
    cluster: &'a C,
    namespaces: BTreeSet<String>,
    labels: BTreeMap<String, String>,
    feeds: Vec<mpsc::Receiver<WatchEvent>>,
    /// When to open the watches, and list.
    reopen: Option<Instant>,
}

impl<C: Cluster> Sight<'_, C> {
    /// The next thing seen. Waits for ever while nobody asked for a watch. May be dropped between two events.
    async fn next(&mut self) -> Event {
        loop {
            if let Some(at) = self.reopen {
                tokio::time::sleep_until(at).await;
                match self.open().await {
                    Ok(objects) => {
                        self.reopen = None;
                        return Event::Listed(objects);
                    }
                    // The wait has a deadline of its own; until then it is tried again.
                    Err(_) => self.reopen = Some(Instant::now() + REOPEN),
                }
                continue;
            }
            if self.feeds.is_empty() {
                return std::future::pending().await;
            }
            let seen = std::future::poll_fn(|context| {
                for feed in &mut self.feeds {
                    if let Poll::Ready(event) = feed.poll_recv(context) {
                        return Poll::Ready(event);
                    }
                }
                Poll::Pending
            })
            .await;
            match seen {
                Some(WatchEvent::Applied(object)) => return Event::Observed(object),
                Some(WatchEvent::Deleted(object)) => return Event::Gone(object.reference()),
                // Events were lost, or the watch ended: look at everything again.
                Some(WatchEvent::Resync) | None => self.reopen = Some(Instant::now()),
            }
        }
    }

    /// Opens the watches first and lists then, so that nothing falls in between.
    async fn open(&mut self) -> Result<Vec<Object>, ClusterError> {
        let mut feeds = Vec::new();
        let mut objects = Vec::new();
        for namespace in &self.namespaces {
            feeds.push(self.cluster.watch(WATCHED, Some(namespace)).await?);
        }
        for namespace in &self.namespaces {
            for kind in WATCHED {
                match self.cluster.list(kind, Some(namespace), &self.labels).await {
                    Ok(found) => objects.extend(found),
                    // There is nothing of a kind that is not served.
                    Err(ClusterError::UnknownKind { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        self.feeds = feeds;
        Ok(objects)
    }
}
