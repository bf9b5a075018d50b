//! Drives the machine against a cluster: carries its effects out, and tells it what came of them.

use super::journal_write::{delete_journal, write_journal};
use super::list_scope::ListScope;
use super::machine::{
    CallResult, ClusterCall, MachineEffect, MachineEvent, MachineInput, MachineSettings, SyncApproval, SyncMachine,
};
use super::record_write::{delete_record, write_record};
use super::{CancelReason, SyncProgress, SyncReport};
use crate::cluster::{Cluster, ClusterError, WatchEvent, WatchReceiver};
use futures_util::future::BoxFuture;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::object::ObjectText;
use stator_model::plan::{Plan, SyncBookkeeping};
use std::collections::{BTreeMap, BTreeSet};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::Instrument as _;

/// How long after a watch that broke it is opened again.
const REOPEN_DELAY: Duration = Duration::from_secs(1);

/// How a sync is carried out.
#[derive(Clone, Debug)]
pub struct SyncOptions {
    /// Waits until everything is Healthy.
    pub wait: bool,
    /// Deletes what the plan says is to go.
    pub prune: bool,
    /// See [`MachineSettings::keeps_file_faults`].
    pub keeps_file_faults: bool,
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
    /// What somebody approved of the plan, for the records.
    pub approval: Option<SyncApproval>,
    /// What lists show, where the plan is of a part.
    pub lists: ListScope,
}

impl SyncOptions {
    /// The usual: no wait, pruning, 30 minutes without progress (weights are loaded and compiled in that time, and
    /// Dynamo's operator itself never gives up), eight calls at a time.
    pub fn new(started: jiff::Timestamp, seed: u64) -> Self {
        Self {
            wait: false,
            prune: true,
            keeps_file_faults: false,
            timeout: None,
            progress_deadline: Duration::from_secs(30 * 60),
            concurrency: 8,
            started,
            seed,
            approval: None,
            lists: ListScope::default(),
        }
    }
}

/// Tries of one call before it counts as failed.
const MAX_CALL_ATTEMPTS: u32 = 5;

type CallInFlight<'a> = BoxFuture<'a, MachineEvent>;

/// Carries a plan out. Plan and bookkeeping must come from one and the same look at the cluster.
///
/// `progress` receives events as they happen. `cancel` may be set at any time: what is in flight is finished, the
/// records are written, and the report says so. Dropping the future instead is safe too; the next sync completes the
/// rest.
pub async fn run_sync<C: Cluster>(
    cluster: &C,
    plan: Plan,
    bookkeeping: SyncBookkeeping,
    options: SyncOptions,
    progress: &(dyn Fn(SyncProgress) + Send + Sync),
    mut cancel: watch::Receiver<Option<CancelReason>>,
) -> SyncReport {
    let SyncOptions {
        wait,
        prune,
        keeps_file_faults,
        timeout,
        progress_deadline,
        concurrency,
        started,
        seed,
        approval,
        lists,
    } = options;
    let settings = MachineSettings {
        wait,
        prune,
        keeps_file_faults,
        progress_deadline,
        timeout,
        concurrency,
        attempts: MAX_CALL_ATTEMPTS,
        started,
        seed,
        approval,
    };
    let namespaces: BTreeSet<String> = plan.changes.iter().map(|change| change.object.namespace.clone()).collect();
    // Of a kind without an object in the plan nothing is waited for, and it may not even be there to be watched.
    let in_plan: BTreeSet<&str> = plan.changes.iter().map(|change| change.object.kind.as_str()).collect();
    let kinds = kinds::MANAGED.iter().filter(|kind| kind.is_required() || in_plan.contains(kind.kind));
    let kinds: Vec<ObjectKind> = kinds.copied().collect();
    // Not by the repository's name: what waits for its new labels is watched by what it has until then.
    let labels = BTreeMap::from([(kinds::LABEL_MANAGED_BY.to_owned(), kinds::FIELD_MANAGER.to_owned())]);
    let clock = Instant::now();
    let mut machine = SyncMachine::new(plan, bookkeeping, settings);
    let mut calls: Vec<CallInFlight<'_>> = Vec::new();
    let scope = WatchScope { cluster, lists, kinds, namespaces, labels };
    let mut sight = HealthWatcher { scope: &scope, feeds: Vec::new(), opening: None };
    // What it was cancelled for last: a process that is to end says so even where a newer revision came first.
    let (mut heard, mut is_listening) = (None, true);
    let mut event = MachineEvent::Start;
    loop {
        let (next, effects) = machine.step(MachineInput { now: clock.elapsed(), event });
        machine = next;
        for effect in effects {
            match effect {
                MachineEffect::Call { model, call } => {
                    // So that lines of the client say which model they are about.
                    let about = tracing::error_span!(target: "stator::reconcile", "model", model);
                    let work = async move {
                        let answer = execute_call(cluster, call).await;
                        MachineEvent::CallFinished { model, answer }
                    };
                    calls.push(Box::pin(work.instrument(about)));
                }
                MachineEffect::WriteJournal { part, journal } => calls.push(Box::pin(async move {
                    let result = write_journal(cluster, &journal).await;
                    MachineEvent::JournalFinished { part, result }
                })),
                MachineEffect::DeleteJournal { part, namespace, name, uid } => calls.push(Box::pin(async move {
                    let journal = format!("{namespace}/{name}");
                    let result = delete_journal(cluster, namespace, name, uid).await;
                    if let Err(error) = &result {
                        tracing::warn!(target: "stator::reconcile", %error, journal, "a journal could not be deleted");
                    }
                    MachineEvent::JournalFinished { part, result }
                })),
                MachineEffect::Watch => sight.open(Duration::ZERO),
                MachineEffect::Report(report) => progress(report),
            }
        }
        if machine.is_done() {
            return machine.report();
        }
        let wake = machine.wake_at().map(|at| clock + at);
        event = tokio::select! {
            biased;
            reason = wait_for_cancel(&mut cancel, heard.as_ref()), if heard != Some(CancelReason::Interrupted) && is_listening => {
                is_listening = reason.is_some();
                heard.clone_from(&reason);
                reason.map_or(MachineEvent::Tick, MachineEvent::Cancel)
            }
            event = next_completed(&mut calls), if !calls.is_empty() => event,
            event = sight.next_event() => event,
            () = sleep_until(wake) => MachineEvent::Tick,
        };
    }
}

/// Waits for another reason to stop than the one that was heard; `None` when nobody can give one any more.
async fn wait_for_cancel(
    cancel: &mut watch::Receiver<Option<CancelReason>>,
    heard: Option<&CancelReason>,
) -> Option<CancelReason> {
    let news = cancel.wait_for(|reason| reason.is_some() && reason.as_ref() != heard).await;
    news.ok().and_then(|reason| reason.clone())
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

/// The first call to come back, taken out of the list. There are few at a time, so a list is enough.
async fn next_completed(calls: &mut Vec<CallInFlight<'_>>) -> MachineEvent {
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

async fn execute_call<C: Cluster>(cluster: &C, call: ClusterCall) -> CallResult {
    match call {
        ClusterCall::WriteRecord { record, expected, object, status } => {
            CallResult::Recorded(write_record(cluster, record, expected, object, status).await)
        }
        ClusterCall::DeleteRecord(record) => CallResult::Recorded(delete_record(cluster, &record).await),
        ClusterCall::Apply(request) => CallResult::Applied(cluster.apply(&request).await),
        ClusterCall::Delete { object, preconditions } => {
            CallResult::Deleted(cluster.delete(&object, &preconditions).await)
        }
        ClusterCall::Read(object) => CallResult::Read(cluster.get(&object).await),
        ClusterCall::AskFrontend(frontend) => {
            let answer = cluster.served_models(&frontend).await;
            CallResult::Served(frontend, answer)
        }
        ClusterCall::ReadPods(owners) => CallResult::Pods(super::list_pods(cluster, &owners).await),
    }
}

/// What watches are opened of.
struct WatchScope<'a, C> {
    cluster: &'a C,
    lists: ListScope,
    /// The kinds whose health is waited for.
    kinds: Vec<ObjectKind>,
    namespaces: BTreeSet<String>,
    labels: BTreeMap<String, String>,
}

/// Watches that are open, and what was there when they were.
type OpenedWatches = (Vec<WatchReceiver>, Vec<ObjectText>);

impl<C: Cluster> WatchScope<'_, C> {
    /// Opens the watches first and lists then, so that nothing falls in between.
    async fn open(&self) -> Result<OpenedWatches, ClusterError> {
        let (mut feeds, mut objects) = (Vec::new(), Vec::new());
        for namespace in &self.namespaces {
            feeds.push(self.cluster.watch(&self.kinds, Some(namespace)).await?);
        }
        for namespace in &self.namespaces {
            for kind in &self.kinds {
                match self.lists.list(self.cluster, kind, namespace, &self.labels).await {
                    Ok(found) => objects.extend(found),
                    // There is nothing of a kind that is not served.
                    Err(ClusterError::UnknownKind { .. }) => {}
                    // The plan has blocked what is of it.
                    Err(ClusterError::Forbidden { .. }) if !kind.is_required() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok((feeds, objects))
    }
}

/// What is seen of the watched kinds.
struct HealthWatcher<'a, C> {
    scope: &'a WatchScope<'a, C>,
    feeds: Vec<WatchReceiver>,
    /// The watches that are being opened. It goes on where it was when nobody waited for it in between.
    opening: Option<BoxFuture<'a, Result<OpenedWatches, ClusterError>>>,
}

impl<C: Cluster> HealthWatcher<'_, C> {
    /// Opens the watches, and lists.
    fn open(&mut self, delay: Duration) {
        let scope = self.scope;
        self.opening = Some(Box::pin(async move {
            tokio::time::sleep(delay).await;
            scope.open().await
        }));
    }

    /// The next thing seen. Waits for ever while nobody asked for a watch. May be dropped while it waits.
    async fn next_event(&mut self) -> MachineEvent {
        loop {
            if let Some(opening) = &mut self.opening {
                match opening.await {
                    Ok((feeds, objects)) => {
                        (self.feeds, self.opening) = (feeds, None);
                        return MachineEvent::Listed(objects);
                    }
                    // The wait has a deadline of its own; until then it is tried again.
                    Err(_) => self.open(REOPEN_DELAY),
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
                Some(WatchEvent::Applied(object)) => return MachineEvent::Observed(object),
                Some(WatchEvent::Deleted(object)) => return MachineEvent::Gone(object.reference()),
                // Events were lost, or the watch ended: look at everything again.
                Some(WatchEvent::Resync) | None => self.open(Duration::ZERO),
            }
        }
    }
}
