//! The embedded cluster: a folder of YAML files, one an object, that behaves as an API server does.
//!
//! `<folder>/<namespace>/<plural of the kind>/<name>.yaml`, for instance
//! `.stator/cluster/prod/dynamographdeployments/llama.yaml`. A person may open, edit and delete these files: an edit
//! counts as a change made in the cluster (new resource version, new generation, watchers hear of it), a deleted file
//! as a deleted object. Beside them lie `.lock` (one writer at a time over all processes) and `.revision` (the last
//! resource version given out).
//!
//! It is for trying, for CI and for tests; it is not a cluster.

mod admission;
mod block;
mod claim;
mod disk;
mod engine;
mod entry;
mod hub;
mod layout;
mod lock;
pub mod operator;
mod store;
mod text;
mod watching;
mod write;

pub use disk::{Atomic, Disk};

use super::{Applied, ApplyRequest, Cluster, ClusterError, Deleted, Preconditions, WatchEvent};
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::kinds::Kind;
use stator_core::object::{Object, ObjectRef};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use store::Store;
use tokio::sync::mpsc;

/// What the embedded cluster takes from the world around it, so that tests can give it their own.
#[derive(Clone)]
pub struct Options {
    /// The clock of creation, deletion and `managedFields` times.
    pub clock: Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>,
    /// Where uids come from: a new one at each call.
    pub ids: Arc<dyn Fn() -> String + Send + Sync>,
    /// How files are written.
    pub disk: Arc<dyn Disk>,
    /// How long a write waits for another process that holds the folder's lock.
    pub lock_wait: Duration,
    /// How many events a watcher may be behind before it is told to list again.
    pub watch_capacity: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Arc::new(jiff::Timestamp::now),
            ids: Arc::new(|| uuid::Uuid::new_v4().to_string()),
            disk: Arc::new(Atomic),
            lock_wait: Duration::from_secs(10),
            watch_capacity: 4096,
        }
    }
}

impl Options {
    fn now(&self) -> jiff::Timestamp {
        (self.clock)()
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("lock_wait", &self.lock_wait)
            .field("watch_capacity", &self.watch_capacity)
            .finish_non_exhaustive()
    }
}

/// An embedded cluster; clones share one and the same.
#[derive(Clone)]
pub struct Embedded {
    store: Arc<Store>,
    shown: PathBuf,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("folder", &self.shown).finish_non_exhaustive()
    }
}

/// Which half of an object an update writes; the other half of what it returns is ignored, as an API server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status.
    Main,
    /// The status subresource.
    Status,
}

impl Embedded {
    /// Opens the folder, making it where it is missing, and takes away what killed writers left.
    pub fn open(dir: &Path, options: Options) -> Result<Self, ClusterError> {
        Ok(Self { store: Arc::new(Store::open(dir, options)?), shown: dir.to_owned() })
    }

    /// The folder, as it was given.
    pub fn folder(&self) -> &Path {
        &self.shown
    }

    /// Reads an object, lets `change` alter it and writes it back as an `Update` of that manager: what a controller or
    /// `kubectl edit` does. `None` when there is no such object. Read and write are one step, so nothing is lost.
    pub async fn update(
        &self,
        object: &ObjectRef,
        part: Part,
        manager: &str,
        change: impl FnOnce(&mut serde_json::Value) + Send + 'static,
    ) -> Result<Option<Applied>, ClusterError> {
        let (object, manager) = (object.clone(), manager.to_owned());
        self.blocking(move |store| write::update(store, &object, part, &manager, change)).await
    }

    /// Creates an object as a controller does, with an `Update` entry of that manager. One that exists stays as it is.
    pub async fn create(&self, object: Object, manager: &str) -> Result<Applied, ClusterError> {
        let manager = manager.to_owned();
        self.blocking(move |store| write::create(store, object, &manager)).await
    }

    /// Whether the operator's admission and defaults apply, as they do where its webhooks run.
    fn set_operated(&self, on: bool) {
        let count = &self.store.operators;
        if on {
            count.fetch_add(1, Ordering::SeqCst);
        } else {
            count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// File work off the async threads. No lock lives longer than the closure.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<Store>) -> Result<T, ClusterError> + Send + 'static,
    ) -> Result<T, ClusterError> {
        let store = self.store.clone();
        tokio::task::spawn_blocking(move || work(&store)).await.unwrap_or_else(|error| Err(store::impossible(error)))
    }
}

impl Cluster for Embedded {
    fn describe(&self) -> String {
        format!("embedded cluster in {}", self.shown.display())
    }

    async fn platform(&self) -> Result<Platform, ClusterError> {
        // It is no place to run on: it says nothing for or against a model that is meant for one.
        Ok(Platform::default())
    }

    async fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Object>, ClusterError> {
        let (kind, namespace, labels) = (*kind, namespace.map(str::to_owned), labels.clone());
        self.blocking(move |store| store.list(&kind, namespace.as_deref(), &labels)).await
    }

    async fn get(&self, object: &ObjectRef) -> Result<Option<Object>, ClusterError> {
        let object = object.clone();
        self.blocking(move |store| store.get(&object)).await
    }

    async fn apply(&self, request: &ApplyRequest) -> Result<Applied, ClusterError> {
        let request = request.clone();
        self.blocking(move |store| write::apply(store, request)).await
    }

    async fn delete(&self, object: &ObjectRef, preconditions: &Preconditions) -> Result<Deleted, ClusterError> {
        let (object, preconditions) = (object.clone(), preconditions.clone());
        self.blocking(move |store| write::delete(store, &object, &preconditions)).await
    }

    async fn watch(&self, kinds: &[Kind], namespace: Option<&str>) -> Result<mpsc::Receiver<WatchEvent>, ClusterError> {
        let kinds: BTreeSet<Kind> = kinds.iter().copied().collect();
        let namespace = namespace.map(str::to_owned);
        self.blocking(move |store| {
            let receiver = {
                let mut state = store.state();
                // What is there already is no news.
                for kind in &kinds {
                    store.refresh_kind(&mut state, kind, namespace.as_deref())?;
                }
                let names = kinds.iter().map(|kind| kind.kind).collect();
                state.hub.subscribe(names, namespace, store.options.watch_capacity)
            };
            watching::start(store);
            Ok(receiver)
        })
        .await
    }
}
