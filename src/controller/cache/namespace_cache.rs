//! What one namespace holds, kept up to date by a list and a watch of each kind. A kind that is listed on demand is followed
//! from when it is asked for, and only what carries stator's label of it.

use super::cached_store::{CachedObject, CachedObjectStore, StoreChange};
use super::write_obstacles::DeniedRights;
use stator_cluster::cluster::kube::{KubeCluster, WatchUpdate};
use stator_cluster::cluster::{ClusterError, WatchEvent, WatchReceiver, WatchSender, watch_queue};
use stator_cluster::sync::incremental::PLANNED_KINDS;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::object::{Object, ObjectRef, parse_resource_version};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How long a reader waits for the first list.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a reader waits for a watch that is being opened again.
const REWATCH_TIMEOUT: Duration = Duration::from_secs(10);

/// A namespace that is kept. Ends when it is dropped.
#[derive(Debug)]
pub(super) struct NamespaceCache {
    state: Arc<SharedCacheState>,
    /// The rights that writes lack.
    pub(super) denied_rights: DeniedRights,
    cluster: KubeCluster,
    namespace: String,
    followers: Mutex<KindFollowers>,
}

/// The tasks that list and watch.
#[derive(Debug, Default)]
struct KindFollowers {
    tasks: JoinSet<()>,
    /// The places of the kinds that one follows.
    followed: BTreeSet<usize>,
}

/// How well a kind is known.
#[derive(Clone, Debug, Default)]
enum CacheSyncState {
    /// A list is under way.
    #[default]
    Listing,
    /// Everything is known.
    Synced,
    /// There may be news that nobody has heard of.
    Lagging(ClusterError),
    /// Nothing is known.
    Failed(ClusterError),
}

#[derive(Debug, Default)]
struct CachedKind {
    store: CachedObjectStore,
    sync_state: CacheSyncState,
    /// How many lists have failed.
    failures: u64,
    /// Whether it was whole at least once: who watches from before the first list reads that.
    has_synced: bool,
}

#[derive(Debug, Default)]
struct NamespaceCacheState {
    kinds: Vec<CachedKind>,
    watchers: Vec<CacheWatcher>,
    /// Resource versions are no numbers here: nothing can be kept.
    opaque: bool,
}

#[derive(Debug)]
struct CacheWatcher {
    kinds: Vec<usize>,
    queue: WatchSender,
    /// What was known when it began and the watch had not reported yet: up to those versions nothing is new.
    before: HashMap<Box<str>, u64>,
}

#[derive(Debug)]
struct SharedCacheState {
    state: Mutex<NamespaceCacheState>,
    /// Counts changes of how well something is known.
    sync_changes: watch::Sender<u64>,
    relist_requests: Vec<Notify>,
}

/// The place of a kind among those that are kept.
pub(super) fn kind_index(kind: &ObjectKind) -> Option<usize> {
    PLANNED_KINDS.iter().position(|known| known == kind)
}

/// The place of an object's kind, at the version that is kept.
pub(super) fn kind_index_of_object(object: &ObjectRef) -> Option<usize> {
    PLANNED_KINDS.iter().position(|known| known.kind == object.kind && known.api_version() == object.api_version)
}

/// The labels of what is kept of a kind.
pub(super) fn kept_labels(kind: &ObjectKind) -> BTreeMap<String, String> {
    let own = || (kinds::LABEL_MANAGED_BY.to_owned(), kinds::FIELD_MANAGER.to_owned());
    kind.is_on_demand().then(own).into_iter().collect()
}

impl NamespaceCache {
    /// Begins to keep a namespace.
    pub(super) fn start(cluster: &KubeCluster, namespace: &str) -> Self {
        let kinds = PLANNED_KINDS.iter().map(|_| CachedKind::default()).collect();
        let state = NamespaceCacheState { kinds, ..NamespaceCacheState::default() };
        let (turns, _) = watch::channel(0);
        let nudges = PLANNED_KINDS.iter().map(|_| Notify::new()).collect();
        let state =
            Arc::new(SharedCacheState { state: Mutex::new(state), sync_changes: turns, relist_requests: nudges });
        let cache = Self {
            state,
            denied_rights: DeniedRights::default(),
            cluster: cluster.clone(),
            namespace: namespace.to_owned(),
            followers: Mutex::default(),
        };
        let usual = PLANNED_KINDS.iter().enumerate().filter(|(_, kind)| !kind.is_on_demand());
        usual.for_each(|(at, _)| cache.follow(at));
        cache
    }

    /// Begins to list and watch a kind, unless somebody does. Needs a runtime.
    fn follow(&self, at: usize) {
        let Some(kind) = PLANNED_KINDS.get(at) else { return };
        let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        if !followers.followed.insert(at) {
            return;
        }
        let (state, cluster, namespace) = (Arc::clone(&self.state), self.cluster.clone(), self.namespace.clone());
        let labels = kept_labels(kind);
        followers.tasks.spawn(async move {
            let Some(nudge) = state.relist_requests.get(at) else { return };
            cluster.list_and_watch(kind, &namespace, &labels, nudge, &|update| state.handle_update(at, update)).await;
        });
    }

    /// Whether anybody has asked for a kind.
    pub(super) fn is_followed(&self, at: usize) -> bool {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner).followed.contains(&at)
    }

    /// Waits until everything of a kind is known.
    ///
    /// # Errors
    /// When it cannot be had: what is known is a part, and a part looks like removals.
    pub(super) async fn wait_for_sync(&self, at: usize) -> Result<(), ClusterError> {
        self.follow(at);
        let mut turns = self.state.sync_changes.subscribe();
        let (began, mut nudged) = (Instant::now(), false);
        let before = self.state.with_kind(at, |row| row.failures).unwrap_or_default();
        loop {
            turns.borrow_and_update();
            let Some((sync_state, failures)) = self.state.with_kind(at, |row| (row.sync_state.clone(), row.failures))
            else {
                return Err(ClusterError::transient("the kind is not kept"));
            };
            let (patience, error) = match sync_state {
                CacheSyncState::Synced => return Ok(()),
                CacheSyncState::Failed(error) if failures > before => return Err(error),
                CacheSyncState::Failed(error) => {
                    if !std::mem::replace(&mut nudged, true) {
                        self.state.request_relist(at);
                    }
                    (FIRST_LIST_TIMEOUT, error)
                }
                CacheSyncState::Lagging(error) => (REWATCH_TIMEOUT, error),
                CacheSyncState::Listing => {
                    (FIRST_LIST_TIMEOUT, ClusterError::transient("the first list of the cluster is still running"))
                }
            };
            if tokio::time::timeout_at(began + patience, turns.changed()).await.is_err() {
                return Err(error);
            }
        }
    }

    /// Waits until one of the kinds that cannot be listed now can be; for ever where all can. Whoever reads then has the
    /// others listed at once, so a role that grants several kinds is noticed as a whole.
    pub(super) async fn wait_for_recovery(&self) {
        let mut changes = self.state.sync_changes.subscribe();
        let failed = self.state.failed_kinds();
        if failed.is_empty() {
            return std::future::pending().await;
        }
        // The sender lives as long as this does.
        while changes.changed().await.is_ok() {
            if failed.iter().any(|at| self.state.is_synced(*at)) {
                return;
            }
        }
    }

    /// Everything of a kind that may have these labels.
    pub(super) fn select(&self, at: usize, labels: &BTreeMap<String, String>) -> Vec<Arc<CachedObject>> {
        self.state.with_kind(at, |row| row.store.select(labels)).unwrap_or_default()
    }

    /// Everything of a kind: name, version, and whether it may have these labels.
    pub(super) fn for_each_version(
        &self,
        at: usize,
        labels: &BTreeMap<String, String>,
        tell: impl FnMut(&str, u64, bool),
    ) {
        self.state.with_kind(at, |row| row.store.for_each_version(labels, tell));
    }

    /// What is known of an object, and whether that is in doubt.
    pub(super) fn get(&self, at: usize, name: &str) -> (Option<Arc<CachedObject>>, bool) {
        self.state.with_kind(at, |row| (row.store.get(name), row.store.is_stale(name))).unwrap_or_default()
    }

    /// Objects in doubt.
    pub(super) fn stale_names(&self, at: usize) -> Vec<String> {
        self.state.with_kind(at, |row| row.store.stale_names()).unwrap_or_default()
    }

    /// The cluster answered with an object.
    pub(super) fn apply_response(&self, at: usize, object: &Object) {
        let Some(version) = object.version_number() else { return };
        let is_kept = PLANNED_KINDS.get(at).is_some_and(|kind| object.has_labels(&kept_labels(kind)));
        self.state.with_kind(at, |row| {
            if is_kept {
                row.store.apply_response(object, version);
            } else if row.store.get(object.name()).is_none() {
                // The watch never tells of it, so that it is looked up each time.
                row.store.mark_gone(object.name(), "");
            }
        });
    }

    /// The cluster answered that an object is gone.
    pub(super) fn mark_gone(&self, at: usize, name: &str, uid: &str) {
        self.state.with_kind(at, |row| row.store.mark_gone(name, uid));
    }

    /// An object is not as we thought.
    pub(super) fn mark_stale(&self, at: usize, name: &str) {
        self.state.with_kind(at, |row| row.store.mark_stale(name));
    }

    /// True where nothing can be kept, since resource versions are no numbers.
    pub(super) fn is_opaque(&self) -> bool {
        self.state.lock().opaque
    }

    /// Changes of the kinds from now on.
    pub(super) fn watch(&self, kinds: Vec<usize>) -> WatchReceiver {
        let (queue, receiver) = watch_queue();
        let mut state = self.state.lock();
        state.watchers.retain(|watcher| !watcher.queue.is_closed());
        let rows = kinds.iter().filter_map(|at| state.kinds.get(*at));
        let before = rows.flat_map(|row| row.store.unobserved_versions()).collect();
        state.watchers.push(CacheWatcher { kinds, queue, before });
        receiver
    }
}

impl SharedCacheState {
    fn lock(&self) -> MutexGuard<'_, NamespaceCacheState> {
        // Every change is made by one call that does not panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_kind<T>(&self, at: usize, look: impl FnOnce(&mut CachedKind) -> T) -> Option<T> {
        self.lock().kinds.get_mut(at).map(look)
    }

    /// The places of the kinds of which nothing is known, as they cannot be listed.
    fn failed_kinds(&self) -> Vec<usize> {
        let state = self.lock();
        let failed =
            state.kinds.iter().enumerate().filter(|(_, row)| matches!(row.sync_state, CacheSyncState::Failed(_)));
        failed.map(|(at, _)| at).collect()
    }

    fn is_synced(&self, at: usize) -> bool {
        self.with_kind(at, |row| matches!(row.sync_state, CacheSyncState::Synced)).unwrap_or_default()
    }

    fn request_relist(&self, at: usize) {
        if let Some(nudge) = self.relist_requests.get(at) {
            nudge.notify_one();
        }
    }

    fn handle_update(&self, at: usize, update: WatchUpdate) {
        let mut state = self.lock();
        if update.resource_version().is_some_and(|version| parse_resource_version(version).is_none()) {
            state.opaque = true;
        }
        let Some(row) = state.kinds.get_mut(at) else { return };
        let turned = row.update_sync_state(&update);
        let events = row.apply_update(update);
        state.notify_watchers(at, events);
        drop(state);
        if turned {
            self.sync_changes.send_modify(|turns| *turns = turns.wrapping_add(1));
        }
    }
}

impl CachedKind {
    /// How well everything is known now. True when that is another answer than before.
    fn update_sync_state(&mut self, update: &WatchUpdate) -> bool {
        self.sync_state = match update {
            WatchUpdate::ListStarted(_) => CacheSyncState::Listing,
            WatchUpdate::ListComplete | WatchUpdate::WatchOpened => CacheSyncState::Synced,
            WatchUpdate::WatchFailed(error) => CacheSyncState::Lagging(error.clone()),
            WatchUpdate::ListFailed(error) => {
                self.failures = self.failures.wrapping_add(1);
                CacheSyncState::Failed(error.clone())
            }
            WatchUpdate::Listed(_) | WatchUpdate::Event(..) | WatchUpdate::Bookmark(_) => return false,
        };
        true
    }

    /// Takes it in, and gives what watchers are to hear.
    fn apply_update(&mut self, update: WatchUpdate) -> Vec<WatchEvent> {
        let number = |text: &str| parse_resource_version(text).unwrap_or_default();
        let store = &mut self.store;
        match update {
            WatchUpdate::ListStarted(version) => store.begin_list(number(&version)),
            WatchUpdate::Listed(object) => {
                let version = object.version_number().unwrap_or_default();
                if store.apply_listed(&object, version) == StoreChange::Changed && self.has_synced {
                    return vec![WatchEvent::Applied(object)];
                }
            }
            WatchUpdate::ListComplete => {
                self.has_synced = true;
                if let StoreChange::Gone(objects) = store.finish_list() {
                    return objects.into_iter().map(WatchEvent::Deleted).collect();
                }
            }
            // What we wrote ourselves is no news here, and still an event there.
            WatchUpdate::Event(WatchEvent::Applied(object), version) => {
                store.apply_watched(&object, number(&version));
                return vec![WatchEvent::Applied(object)];
            }
            WatchUpdate::Event(WatchEvent::Deleted(object), version) => {
                store.apply_deleted(&object, number(&version));
                return vec![WatchEvent::Deleted(object)];
            }
            WatchUpdate::Event(WatchEvent::Resync, _) => return vec![WatchEvent::Resync],
            WatchUpdate::Bookmark(version) => store.advance_version(number(&version)),
            WatchUpdate::WatchOpened | WatchUpdate::WatchFailed(_) | WatchUpdate::ListFailed(_) => {}
        }
        Vec::new()
    }
}

impl CacheWatcher {
    /// Whether it is of before the watcher began.
    fn was_known(&self, event: &WatchEvent) -> bool {
        match event {
            WatchEvent::Applied(object) | WatchEvent::Deleted(object) => {
                let version = object.version_number();
                let before = object.uid().and_then(|uid| self.before.get(uid));
                before.zip(version).is_some_and(|(before, version)| version <= *before)
            }
            WatchEvent::Resync => false,
        }
    }
}

impl NamespaceCacheState {
    fn notify_watchers(&mut self, at: usize, events: Vec<WatchEvent>) {
        for event in events {
            self.watchers.retain(|watcher| {
                if watcher.kinds.contains(&at) && !watcher.was_known(&event) {
                    watcher.queue.send(event.clone());
                }
                !watcher.queue.is_closed()
            });
        }
    }
}
