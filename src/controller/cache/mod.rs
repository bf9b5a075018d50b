//! A cluster whose reads are answered from memory: what stator renders and its records, in the namespaces that somebody
//! holds, kept up to date by one list and one watch of each kind.
//!
//! Writes go through, and their answers are taken in at once, so that whoever wrote reads what was written. Nothing ever
//! goes back to an older version. What is not held (other namespaces, other kinds, other versions of a kind) is read from
//! the cluster. While a view is not whole, a read waits for it or fails; it never gives a part, which would look like
//! removals.
//!
//! Nothing is deleted by memory alone: an object is read from the cluster right before, and the delete itself says which
//! uid and which resource version it means, so that the cluster refuses it when anything happened in between. What was
//! refused is in doubt, and is read from the cluster until the watch tells how it is.

mod cached_store;
pub(in crate::controller) mod drift_detector;
mod namespace_cache;
mod write_obstacles;

use crate::controller::sources::resolved_source::SourceKey;
use crate::fair_turns::{FairTurns, Turn};
use cached_store::CachedObject;
use namespace_cache::{NamespaceCache, kept_labels, kind_index, kind_index_of_object};
use rayon::prelude::*;
use stator_cluster::cluster::Fence;
use stator_cluster::cluster::kube::{AccessRight, PreflightProblem};
use stator_cluster::cluster::{
    AnyCluster, ApplyRequest, ApplyResponse, Cluster, ClusterError, DeleteOutcome, Preconditions, WatchReceiver,
};
use stator_cluster::sync::incremental::{ObjectVersion, PLANNED_KINDS};
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};
use stator_core::object::{Object, ObjectRef, ObjectText};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::time::Instant;
use write_obstacles::WriteFitness;

/// How long it counts which API groups the cluster serves. What is installed meanwhile is seen that much later.
const PLATFORM_TTL: Duration = Duration::from_secs(600);

/// Calls to an API server under way at a time, of all sources. Above that, writes that an admission webhook lets hang would keep
/// others waiting.
const MAX_CALLS: usize = 256;
/// Calls of one source. A sync has eight at a time, and a look sixteen.
const MAX_CALLS_OF_SOURCE: usize = 24;
/// The same of an embedded cluster, whose calls wait for one lock, each on a thread of the runtime's that plans are made on.
const MAX_EMBEDDED_CALLS: usize = 32;
const MAX_EMBEDDED_CALLS_OF_SOURCE: usize = 8;

/// A cluster, and what is remembered of it. Clones share it; whoever acts as somebody else needs one of his own.
#[derive(Clone, Debug)]
pub struct CachedCluster {
    cluster: AnyCluster,
    memory: Arc<ClusterMemory>,
    /// The only namespace that may be touched, where there is one.
    only_namespace: Option<Arc<str>>,
    fitness: Arc<WriteFitness>,
    turns: FairTurns<SourceKey>,
    /// Whose calls these are.
    source: Option<SourceKey>,
}

#[derive(Debug, Default)]
struct ClusterMemory {
    namespaces: Mutex<BTreeMap<String, Weak<NamespaceCache>>>,
    platform: Mutex<Option<(Instant, Platform)>>,
}

/// The memories of one cluster: one for each user that stator acts as, since each may see something else.
#[derive(Debug)]
pub struct IdentityCaches {
    default_cluster: CachedCluster,
    by_user: Mutex<BTreeMap<String, CachedCluster>>,
}

impl IdentityCaches {
    /// Of a cluster as stator itself sees it.
    pub fn new(cluster: AnyCluster) -> Self {
        Self { default_cluster: CachedCluster::new(cluster), by_user: Mutex::default() }
    }

    fn lock_by_user(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, CachedCluster>> {
        self.by_user.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As stator itself sees it.
    pub fn default_cluster(&self) -> CachedCluster {
        self.default_cluster.clone()
    }

    /// As a user sees it; `connect` is asked once.
    ///
    /// # Errors
    /// What `connect` says.
    pub async fn get_or_connect<E>(
        &self,
        user: &str,
        connect: impl Future<Output = Result<AnyCluster, E>>,
    ) -> Result<CachedCluster, E> {
        let known = self.lock_by_user().get(user).cloned();
        if let Some(live) = known {
            return Ok(live);
        }
        let (fitness, turns) = (Arc::clone(&self.default_cluster.fitness), self.default_cluster.turns.clone());
        let live = CachedCluster { fitness, turns, ..CachedCluster::new(connect.await?) };
        // Two that connected at once go on with one memory.
        Ok(self.lock_by_user().entry(user.to_owned()).or_insert(live).clone())
    }
}

/// As long as somebody has this, reads of a namespace are answered from memory.
#[derive(Clone, Debug)]
pub struct NamespaceCacheGuard {
    _cache: Option<Arc<NamespaceCache>>,
}

impl CachedCluster {
    /// Nothing is remembered yet. An embedded cluster has its own memory, and is asked every time.
    pub fn new(cluster: AnyCluster) -> Self {
        let fitness = Arc::new(WriteFitness::new(cluster.clone()));
        let (all, of_source) = match &cluster {
            AnyCluster::Kubernetes(_) => (MAX_CALLS, MAX_CALLS_OF_SOURCE),
            AnyCluster::Embedded(_) => (MAX_EMBEDDED_CALLS, MAX_EMBEDDED_CALLS_OF_SOURCE),
        };
        let turns = FairTurns::new(all, of_source);
        Self { cluster, memory: Arc::default(), only_namespace: None, fitness, turns, source: None }
    }

    /// What speaks against writing to the cluster: it would drop a part of it. Judged anew, as definitions change.
    ///
    /// # Errors
    /// When the cluster cannot be asked.
    pub async fn write_obstacle(&self) -> Result<Option<PreflightProblem>, ClusterError> {
        self.fitness.obstacle().await
    }

    /// The same cluster and memory, whose writes ask a fence first.
    pub fn fenced(&self, fence: Fence) -> Self {
        Self { cluster: self.cluster.with_fence(fence), ..self.clone() }
    }

    /// The same cluster and memory, of which one namespace only may be touched.
    pub fn confined(&self, namespace: &str) -> Self {
        Self { cluster: self.cluster.in_namespace(namespace), only_namespace: Some(namespace.into()), ..self.clone() }
    }

    /// The same cluster and memory, whose calls are a source's: they wait for their turn among those of all sources.
    pub fn of_source(&self, source: &SourceKey) -> Self {
        Self { source: Some(source.clone()), ..self.clone() }
    }

    /// The cluster itself, in turn.
    async fn asked(&self) -> (&AnyCluster, Turn) {
        let turn = match &self.source {
            Some(source) => self.turns.wait(source.clone(), 1).await,
            None => self.turns.wait_for_all(1).await,
        };
        (&self.cluster, turn)
    }

    /// Whether a namespace may be touched. Where not, the cluster is asked, which says so.
    fn may_touch(&self, namespace: &str) -> bool {
        self.only_namespace.as_deref().is_none_or(|only| only == namespace)
    }

    /// The cluster itself.
    pub fn cluster(&self) -> &AnyCluster {
        &self.cluster
    }

    /// Remembers a namespace, for as long as what it gives lives. Needs a runtime.
    pub fn cache_namespace(&self, namespace: &str) -> NamespaceCacheGuard {
        let Some(cluster) = self.cluster.as_kubernetes().filter(|_| self.may_touch(namespace)) else {
            return NamespaceCacheGuard { _cache: None };
        };
        let mut namespaces = self.memory.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        namespaces.retain(|_, cache| cache.strong_count() > 0);
        let cache = namespaces.get(namespace).and_then(Weak::upgrade).unwrap_or_else(|| {
            let cache = Arc::new(NamespaceCache::start(cluster, namespace));
            namespaces.insert(namespace.to_owned(), Arc::downgrade(&cache));
            cache
        });
        NamespaceCacheGuard { _cache: Some(cache) }
    }

    /// Everything that is remembered of a namespace, a line each; `labels` are those of an environment. `None` where it is
    /// not remembered, or not whole: then it is for the cluster to say.
    pub async fn list_versions(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
    ) -> Option<Vec<ObjectVersion>> {
        let cache = self.namespace_cache(namespace)?;
        let mut lines = Vec::new();
        for kind in PLANNED_KINDS {
            let at = kind_index(kind)?;
            if kind.is_on_demand() && !cache.is_followed(at) {
                // Nothing that was planned has an object of it.
                continue;
            }
            match cache.wait_for_sync(at).await {
                Ok(()) => {}
                // What needs it is not as it was planned, and is planned again.
                Err(ClusterError::Forbidden { .. } | ClusterError::UnknownKind { .. }) if !kind.is_required() => {
                    continue;
                }
                Err(_) => return None,
            }
            // What is in doubt is read again first.
            for name in cache.stale_names(at) {
                self.get_uncached(&cache, at, &kind.reference(namespace, &name)).await.ok()?;
            }
            cache.for_each_version(at, labels, |name, version, is_labelled| {
                lines.push(ObjectVersion { kind: *kind, name: name.into(), version, is_labelled });
            });
        }
        Some(lines).filter(|_| !cache.is_opaque())
    }

    /// An object as it is remembered, without a look at the cluster.
    pub fn get_cached(&self, namespace: &str, kind: &ObjectKind, name: &str) -> Option<Object> {
        let (known, _) = self.namespace_cache(namespace)?.get(kind_index(kind)?, name);
        known.and_then(|known| known.parse_object())
    }

    /// Whether a namespace is remembered.
    pub fn is_cached(&self, namespace: &str) -> bool {
        self.namespace_cache(namespace).is_some()
    }

    /// Waits until what was refused in a namespace is not any more: it could not be listed and now can be, or the account
    /// has the rights that writes lacked. For ever where nothing is refused, or the namespace is not remembered.
    pub async fn wait_for_access(&self, namespace: String) {
        let (Some(cache), Some(cluster)) = (self.namespace_cache(&namespace), self.cluster.as_kubernetes()) else {
            return std::future::pending().await;
        };
        tokio::select! {
            () = cache.wait_for_recovery() => {}
            () = cache.denied_rights.wait_until_granted(cluster, &namespace) => {}
        }
    }

    fn namespace_cache(&self, namespace: &str) -> Option<Arc<NamespaceCache>> {
        if !self.may_touch(namespace) {
            return None;
        }
        let namespaces = self.memory.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        namespaces.get(namespace).and_then(Weak::upgrade).filter(|cache| !cache.is_opaque())
    }

    /// The memory that an object belongs to, and where in it.
    fn locate(&self, object: &ObjectRef) -> Option<(Arc<NamespaceCache>, usize)> {
        let at = kind_index_of_object(object)?;
        Some((self.namespace_cache(&object.namespace)?, at))
    }

    /// Asks the cluster itself, and remembers the answer.
    async fn get_uncached(
        &self,
        cache: &NamespaceCache,
        at: usize,
        object: &ObjectRef,
    ) -> Result<Option<Object>, ClusterError> {
        let (known, _) = cache.get(at, &object.name);
        let found = self.asked().await.0.get(object).await?;
        match (&found, known) {
            (Some(found), _) => cache.apply_response(at, found),
            // Gone is the one that was known before the cluster was asked; there may be another one since.
            (None, known) => cache.mark_gone(at, &object.name, known.as_ref().map_or("", |known| &known.uid)),
        }
        Ok(found)
    }

    /// Whether the object that is to be deleted is still the one that was meant, by the cluster itself. `None` when it is
    /// not there at all.
    async fn check_preconditions(
        &self,
        (cache, at): (&NamespaceCache, usize),
        object: &ObjectRef,
        meant: &Preconditions,
    ) -> Result<Option<()>, ClusterError> {
        let Some(live) = self.get_uncached(cache, at, object).await? else { return Ok(None) };
        let differs = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_some_and(|wanted| Some(wanted) != found)
        };
        if differs(&meant.uid, live.uid()) {
            let message = "another object of that name replaced it: its uid differs from the expected one".to_owned();
            return Err(ClusterError::Precondition { object: object.clone(), message });
        }
        if differs(&meant.resource_version, live.resource_version()) {
            let message = "it was changed after it was read".to_owned();
            return Err(ClusterError::Precondition { object: object.clone(), message });
        }
        Ok(Some(()))
    }
}

impl CachedCluster {
    /// What is kept of a kind that may have these labels, by name. `None` where the cluster is to be asked.
    async fn select_cached(
        &self,
        kind: &ObjectKind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Option<Vec<Arc<CachedObject>>>, ClusterError> {
        let held =
            namespace.and_then(|namespace| Some((namespace, self.namespace_cache(namespace)?, kind_index(kind)?)));
        // Of some kinds a part is kept, which is no answer to who asks for more.
        let held = held.filter(|_| kept_labels(kind).iter().all(|(name, value)| labels.get(name) == Some(value)));
        let Some((namespace, cache, at)) = held else { return Ok(None) };
        cache.wait_for_sync(at).await?;
        if cache.is_opaque() {
            return Ok(None);
        }
        for name in cache.stale_names(at) {
            self.get_uncached(&cache, at, &kind.reference(namespace, &name)).await?;
        }
        Ok(Some(cache.select(at, labels)))
    }
}

impl Cluster for CachedCluster {
    fn describe(&self) -> String {
        self.cluster.describe()
    }

    async fn platform(&self, stated: &Platform) -> Result<Platform, ClusterError> {
        if self.cluster.as_kubernetes().is_none() {
            return self.asked().await.0.platform(stated).await;
        }
        let known = self.memory.platform.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, platform)) = known.filter(|(asked, _)| asked.elapsed() < PLATFORM_TTL) {
            return Ok(platform);
        }
        let platform = self.asked().await.0.platform(stated).await?;
        *self.memory.platform.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), platform.clone()));
        Ok(platform)
    }

    async fn list(
        &self,
        kind: &ObjectKind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Object>, ClusterError> {
        match self.select_cached(kind, namespace, labels).await? {
            // By name, and so sorted as the trait asks.
            Some(found) => {
                let found: Vec<Object> = found.into_par_iter().filter_map(|kept| kept.parse_object()).collect();
                Ok(found.into_iter().filter(|object| object.has_labels(labels)).collect())
            }
            None => self.asked().await.0.list(kind, namespace, labels).await,
        }
    }

    async fn list_texts(
        &self,
        kind: &ObjectKind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<ObjectText>, ClusterError> {
        match self.select_cached(kind, namespace, labels).await? {
            Some(found) => {
                let found: Vec<ObjectText> = found.into_par_iter().filter_map(|kept| kept.indexed_text()).collect();
                Ok(found.into_iter().filter(|text| text.has_labels(labels)).collect())
            }
            None => self.asked().await.0.list_texts(kind, namespace, labels).await,
        }
    }

    async fn get(&self, object: &ObjectRef) -> Result<Option<Object>, ClusterError> {
        let Some((cache, at)) = self.locate(object) else { return self.asked().await.0.get(object).await };
        cache.wait_for_sync(at).await?;
        match cache.get(at, &object.name) {
            _ if cache.is_opaque() => self.asked().await.0.get(object).await,
            (_, true) => self.get_uncached(&cache, at, object).await,
            // Somebody else's is not kept.
            (None, false) if PLANNED_KINDS.get(at).is_some_and(ObjectKind::is_on_demand) => {
                self.get_uncached(&cache, at, object).await
            }
            (known, false) => Ok(known.and_then(|known| known.parse_object())),
        }
    }

    async fn apply(&self, request: &ApplyRequest) -> Result<ApplyResponse, ClusterError> {
        let reference = request.object.reference();
        let result = self.asked().await.0.apply(request).await;
        let Some((cache, at)) = self.locate(&reference).filter(|_| !request.dry_run) else { return result };
        if let Some(kind) = PLANNED_KINDS.get(at) {
            let patch = AccessRight { kind: *kind, subresource: request.status.then_some("status"), verb: "patch" };
            let is_new = cache.get(at, &reference.name).0.is_none();
            let create = is_new.then_some(AccessRight { verb: "create", ..patch });
            let needed: Vec<AccessRight> = [Some(patch), create].into_iter().flatten().collect();
            cache.denied_rights.note_write(&needed, &result);
        }
        match &result {
            // The last finalizer took the object along: the answer is its last state.
            Ok(ApplyResponse { object, .. }) if object.is_deleting() && object.finalizers().is_empty() => {
                cache.mark_gone(at, &reference.name, object.uid().unwrap_or_default());
            }
            Ok(ApplyResponse { object, .. }) => cache.apply_response(at, object),
            // It may have been carried out, or shows that the object is another one.
            Err(_) => cache.mark_stale(at, &reference.name),
        }
        result
    }

    async fn delete(&self, object: &ObjectRef, preconditions: &Preconditions) -> Result<DeleteOutcome, ClusterError> {
        let Some((cache, at)) = self.locate(object) else {
            return self.asked().await.0.delete(object, preconditions).await;
        };
        let uid = preconditions.uid.as_deref().unwrap_or_default();
        let managed = kinds::MANAGED.iter().any(|kind| kind.kind == object.kind);
        if managed && self.check_preconditions((&cache, at), object, preconditions).await?.is_none() {
            return Ok(DeleteOutcome::Absent);
        }
        let result = self.asked().await.0.delete(object, preconditions).await;
        if let Some(kind) = PLANNED_KINDS.get(at) {
            let needed = AccessRight { kind: *kind, subresource: None, verb: "delete" };
            cache.denied_rights.note_write(&[needed], &result);
        }
        match &result {
            Ok(DeleteOutcome::Gone | DeleteOutcome::Absent) if !uid.is_empty() => {
                cache.mark_gone(at, &object.name, uid)
            }
            Ok(DeleteOutcome::Pending(left)) => cache.apply_response(at, left),
            Ok(DeleteOutcome::Gone | DeleteOutcome::Absent) | Err(_) => cache.mark_stale(at, &object.name),
        }
        result
    }

    async fn served_models(&self, frontend: &FrontendService) -> FrontendAnswer {
        // A pod is asked, which may hang; it has a deadline, and each report few such questions at a time.
        self.cluster.served_models(frontend).await
    }

    async fn watch(&self, kinds: &[ObjectKind], namespace: Option<&str>) -> Result<WatchReceiver, ClusterError> {
        let places: Option<Vec<usize>> = kinds.iter().map(kind_index).collect();
        match (namespace.and_then(|namespace| self.namespace_cache(namespace)), places) {
            (Some(cache), Some(places)) => Ok(cache.watch(places)),
            (_, None) | (None, _) => self.asked().await.0.watch(kinds, namespace).await,
        }
    }
}
