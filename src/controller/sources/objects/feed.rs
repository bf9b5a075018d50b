//! From a cluster's `ModelSource` objects to the sources that run: what is new is gathered for a moment, and then all that
//! follows from it is done at once.

use super::hint_annotation::HintBatch;
use super::hint_relay::HintRelay;
use super::namespace_claims;
use super::object_store::ModelSourceStore;
use super::object_watch::{self, SourceObjectEvent};
use super::secret_reader;
use super::source_index::{
    ControllerRole, DesiredSources, SecretReadRequest, SecretReadResult, SourceIndex, SourceScope,
};
use crate::controller::sources::owned_shards::OwnedShards;
use crate::controller::sources::registry::SourceRegistry;
use crate::controller::sources::resolved_source::SourceKey;
use crate::controller::sources::tenancy::TenancyPolicy;
use crate::controller::waiting::wait_for_change;
use stator_cluster::cluster::kube::KubeCluster;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// What is new is gathered until nothing came for so long, but no longer than that.
const DEBOUNCE: Duration = Duration::from_millis(50);
const MAX_DEBOUNCE: Duration = Duration::from_millis(500);
/// Sources whose secrets are read at a time.
const MAX_CONCURRENT_READS: usize = 16;
/// How often is looked for sources that another secret may mend; in memory, without a request.
const REREAD_CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// How long hints may take to be handed on at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// How many pieces of news may wait.
const QUEUE_CAPACITY: usize = 4096;

/// What a feed is to follow.
#[derive(Clone, Debug)]
pub struct FeedSettings {
    /// What is done with the sources.
    pub role: ControllerRole,
    /// The namespaces to answer for; where there are none, all but those that carry a marker.
    pub namespaces: BTreeSet<String>,
    /// What tenants may do.
    pub tenancy: TenancyPolicy,
    /// What this process is called among others: the name of the pod.
    pub identity: String,
    /// Whether webhooks are taken here, also for sources that others run.
    pub webhooks: bool,
}

/// The sources of a cluster.
#[derive(Debug)]
pub struct SourceFeed {
    kube: KubeCluster,
    index: SourceIndex,
    scope: NamespaceScope,
    board: Arc<SourceRegistry>,
    resources: Arc<ModelSourceStore>,
    relay: HintRelay,
    object_events: mpsc::Receiver<SourceObjectEvent>,
    claimed: Option<namespace_claims::ClaimedNamespaces>,
    /// Tells when a marker of our own is there.
    unclaimed_changes: watch::Receiver<BTreeSet<String>>,
    reads: JoinSet<(SecretReadRequest, BTreeMap<String, SecretReadResult>)>,
    read_slots: Arc<Semaphore>,
    /// Since when something is new, and when the last of it came.
    pending_since: Option<(Instant, Instant)>,
    checked_at: Instant,
    /// Follow objects and markers, and end with this.
    _tasks: JoinSet<()>,
}

/// Which sources are this process's.
#[derive(Debug)]
struct NamespaceScope {
    /// Those that were listed; all, where `None` is among them.
    listed: BTreeSet<Option<String>>,
    /// Those with a marker of somebody else's. Empty for a process of single namespaces, which has markers of its own.
    claimed_by_others: BTreeSet<String>,
    /// Namespaces of our own whose marker is not there yet: nothing is done in them before.
    unclaimed: Arc<watch::Sender<BTreeSet<String>>>,
    held: OwnedShards,
}

impl SourceScope for NamespaceScope {
    fn covers_namespace(&self, namespace: &str) -> bool {
        let listed = self.listed.contains(&None) || self.listed.iter().flatten().any(|own| own == namespace);
        listed && !self.claimed_by_others.contains(namespace) && !self.unclaimed.borrow().contains(namespace)
    }

    fn runs_source(&self, key: &SourceKey) -> bool {
        self.held.owns(key)
    }
}

impl SourceFeed {
    /// Starts to follow. `board` gets what is not there yet.
    pub fn start(kube: KubeCluster, settings: FeedSettings, board: Arc<SourceRegistry>) -> Self {
        let FeedSettings { role, namespaces, tenancy, identity, webhooks } = settings;
        let identity = format!("{identity}_stator-{}", env!("CARGO_PKG_VERSION"));
        let (sender, object_events) = mpsc::channel(QUEUE_CAPACITY);
        let mut tasks = JoinSet::new();
        let scopes: Vec<Option<String>> = match namespaces.is_empty() {
            true => vec![None],
            false => namespaces.iter().cloned().map(Some).collect(),
        };
        for scope in scopes {
            board.set_not_ready(&not_listed_key(scope.as_deref()), Some(not_listed_reason(scope.as_deref())));
            tasks.spawn(object_watch::watch_objects(kube.clone(), scope, sender.clone()));
        }
        let unmarked: Arc<watch::Sender<BTreeSet<String>>> = Arc::default();
        let mut claimed = None;
        match (namespaces.is_empty(), role) {
            // A server runs nothing: the controller that runs a source reads it from the source itself.
            (_, ControllerRole::Server) => {}
            (true, ControllerRole::Controller) => {
                let (claims, seen) = watch::channel(None);
                let claims_board = Arc::clone(&board);
                let lacks = "markers";
                board.set_not_ready(
                    lacks,
                    Some(format!("the leases {} have not been listed yet", namespace_claims::CLAIM_LEASE_NAME)),
                );
                let trouble = move |sentence| claims_board.set_not_ready(lacks, sentence);
                tasks.spawn(namespace_claims::watch_claims(kube.clone(), claims, trouble));
                claimed = Some(seen);
            }
            (false, ControllerRole::Controller) => {
                unmarked.send_replace(namespaces.clone());
                for namespace in namespaces {
                    let (unmarked, board, own) = (Arc::clone(&unmarked), Arc::clone(&board), namespace.clone());
                    let trouble = move |sentence: Option<String>| {
                        if sentence.is_none() {
                            unmarked.send_if_modified(|names| names.remove(&own));
                        } else if !unmarked.borrow().contains(&own) {
                            // It was there, so sources run; that it may run out is in the log.
                            return;
                        }
                        board.set_not_ready(&format!("marker {own}"), sentence);
                    };
                    tasks.spawn(namespace_claims::hold_claim(kube.clone(), namespace, identity.clone(), trouble));
                }
            }
        }
        let unclaimed_changes = unmarked.subscribe();
        let scope = NamespaceScope {
            listed: BTreeSet::new(),
            claimed_by_others: BTreeSet::new(),
            unclaimed: unmarked,
            held: OwnedShards::all(),
        };
        Self {
            relay: HintRelay::new(kube.clone()),
            kube,
            index: SourceIndex::new(role, tenancy, webhooks),
            scope,
            board,
            resources: Arc::default(),
            object_events,
            claimed,
            unclaimed_changes,
            reads: JoinSet::new(),
            read_slots: Arc::new(Semaphore::new(MAX_CONCURRENT_READS)),
            pending_since: None,
            checked_at: Instant::now(),
            _tasks: tasks,
        }
    }

    /// The objects of the sources that this process answers for and runs, or would.
    pub fn resources(&self) -> Arc<ModelSourceStore> {
        Arc::clone(&self.resources)
    }

    /// What this replica holds from now on.
    pub fn set_owned_shards(&mut self, held: OwnedShards) {
        self.scope.held = held;
        self.mark_dirty();
    }

    fn mark_dirty(&mut self) {
        let now = Instant::now();
        let since = self.pending_since.map_or(now, |(since, _)| since);
        self.pending_since = Some((since, now));
    }

    /// What is wanted now, whenever that may have changed; what others are to know of it is said. Dropped while it waits, it
    /// loses nothing.
    pub async fn next_desired(&mut self) -> DesiredSources {
        loop {
            let now = Instant::now();
            if now.duration_since(self.checked_at) >= REREAD_CHECK_INTERVAL {
                self.checked_at = now;
                self.reread_failing_secrets(now);
            }
            let known = self.claimed.as_ref().is_none_or(|marks| marks.borrow().is_some());
            let due = if known { self.start_due_reads(now) } else { None };
            let settles =
                self.pending_since.filter(|_| known).map(|(since, last)| (since + MAX_DEBOUNCE).min(last + DEBOUNCE));
            if settles.is_some_and(|at| at <= now) {
                self.pending_since = None;
                return self.publish_desired();
            }
            let wakes = [settles, due, Some(self.checked_at + REREAD_CHECK_INTERVAL)]
                .into_iter()
                .flatten()
                .min()
                .unwrap_or(now);
            tokio::select! {
                Some(news) = self.object_events.recv() => self.handle_object_event(news),
                Some(read) = self.reads.join_next() => {
                    if let Ok((need, found)) = read {
                        self.index.record_read(&need, found, Instant::now());
                        self.mark_dirty();
                    }
                }
                () = wait_for_change(self.claimed.as_mut()) => self.update_claims(),
                Ok(()) = self.unclaimed_changes.changed() => self.mark_dirty(),
                () = tokio::time::sleep_until(wakes) => {}
            }
        }
    }

    fn handle_object_event(&mut self, news: SourceObjectEvent) {
        match news {
            SourceObjectEvent::Listed(namespace, resources) => {
                for (key, batch) in self.index.replace_all(namespace.as_deref(), resources) {
                    self.deliver_hint(&key, &batch);
                }
                self.board.set_not_ready(&not_listed_key(namespace.as_deref()), None);
                self.scope.listed.insert(namespace);
            }
            SourceObjectEvent::Set(resource) => {
                let key = resource.key.clone();
                for batch in self.index.apply_object(*resource) {
                    self.deliver_hint(&key, &batch);
                }
            }
            SourceObjectEvent::Deleted(key, uid) => self.index.remove_object(&key, &uid),
            SourceObjectEvent::ListFailed(namespace, sentence) => {
                // What was listed once goes on as it was.
                if !self.scope.listed.contains(&namespace) {
                    self.board.set_not_ready(&not_listed_key(namespace.as_deref()), Some(sentence));
                }
                return;
            }
        }
        self.mark_dirty();
    }

    /// A reconciler that does not exist yet polls when it starts.
    fn deliver_hint(&self, key: &SourceKey, batch: &HintBatch) {
        if let Some(entry) = self.board.entry(key) {
            batch.add_to_hints(&entry.hints);
        }
    }

    fn update_claims(&mut self) {
        let shut = self.claimed.as_mut().and_then(|marks| marks.borrow_and_update().clone()).unwrap_or_default();
        if shut != self.scope.claimed_by_others {
            let names = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
                one.difference(other).cloned().collect::<Vec<_>>().join(", ")
            };
            let (left, taken) =
                (names(&shut, &self.scope.claimed_by_others), names(&self.scope.claimed_by_others, &shut));
            if !left.is_empty() {
                tracing::info!(namespaces = left, "left to their own controllers");
            }
            if !taken.is_empty() {
                tracing::info!(namespaces = taken, "taken back, because their own controllers are gone");
            }
            self.scope.claimed_by_others = shut;
        }
        self.mark_dirty();
    }

    /// Starts the reads that are due. Gives when the next is.
    fn start_due_reads(&mut self, now: Instant) -> Option<Instant> {
        let (needs, next) = self.index.take_due_reads(&self.scope, now);
        for need in needs {
            let (kube, at_once) = (self.kube.clone(), Arc::clone(&self.read_slots));
            self.reads.spawn(async move {
                let _turn = at_once.acquire_owned().await;
                let found = secret_reader::read_secrets(&kube, &need).await;
                (need, found)
            });
        }
        next
    }

    /// Finds the sources that another secret may mend.
    fn reread_failing_secrets(&mut self, now: Instant) {
        let failing: Vec<SourceKey> = self
            .board
            .entries()
            .into_iter()
            .filter(|entry| {
                let state = entry.state.borrow();
                state.statuses.problem.is_some()
                    || state.problems.values().any(|problem| problem.reason.secret_may_help())
            })
            .map(|entry| entry.key)
            .collect();
        self.index.schedule_rereads(&failing, now);
    }

    /// Waits until what webhooks hinted at is handed on, but not for long: the next poll finds it too.
    pub async fn flush_relay(&self) {
        self.relay.flush(FLUSH_TIMEOUT).await;
    }

    fn publish_desired(&mut self) -> DesiredSources {
        let mut wanted = self.index.resolve_sources(&self.scope);
        let before = self.board.rejected();
        for (key, held) in wanted.rejected.iter().filter(|(key, held)| before.get(*key) != Some(*held)) {
            tracing::warn!(source = %key, reason = held.reason.as_str(), "held back: {}", held.message);
        }
        self.resources.replace_all(std::mem::take(&mut wanted.resources));
        self.board.set_rejected(std::mem::take(&mut wanted.rejected), std::mem::take(&mut wanted.remarks));
        self.relay.set_sources(std::mem::take(&mut wanted.relayed), &self.board);
        wanted
    }
}

fn not_listed_key(namespace: Option<&str>) -> String {
    format!("sources {}", namespace.unwrap_or_default())
}

fn not_listed_reason(namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("the ModelSource objects of namespace {namespace} have not been listed yet"),
        None => "the ModelSource objects have not been listed yet".to_owned(),
    }
}
