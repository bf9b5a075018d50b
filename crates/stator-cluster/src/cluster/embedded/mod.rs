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
mod built_in_kinds;
mod claim_validation;
mod config_map_validation;
mod file_format;
mod file_writer;
mod fleet_policies;
mod folder_watch;
mod job_validation;
mod layout;
mod leadership;
mod object_file;
mod object_part;
pub mod operator;
mod options;
mod served_models;
mod store;
mod structured_merge;
mod watch_broadcaster;
mod write_lock;
mod write_path;

pub use file_writer::{AtomicFileWriter, FileWriter};
pub use object_part::ObjectPart;
pub use options::EmbeddedOptions;

use super::{ApplyRequest, ApplyResponse, Cluster, ClusterError, DeleteOutcome, Preconditions, WatchEvent};
use leadership::OperatorLeadership;
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::kinds::{ADAPTER, GRAPH, ObjectKind};
use stator_core::dynamo::release::Definitions;
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};
use stator_core::object::{Object, ObjectRef, ObjectText};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::EmbeddedStore;
use tokio::sync::mpsc;

/// An embedded cluster; clones share one and the same.
#[derive(Clone)]
pub struct EmbeddedCluster {
    store: Arc<EmbeddedStore>,
    folder: PathBuf,
    /// Of the clone that the simulated operator writes through.
    leadership: Option<OperatorLeadership>,
}

impl fmt::Debug for EmbeddedCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl EmbeddedCluster {
    /// Opens the folder, making it where it is missing, and takes away what killed writers left.
    pub fn open(dir: &Path, options: EmbeddedOptions) -> Result<Self, ClusterError> {
        Ok(Self { store: Arc::new(EmbeddedStore::open(dir, options)?), folder: dir.to_owned(), leadership: None })
    }

    /// The folder, as it was given.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The names of a kind's objects in a namespace, by their files.
    pub(super) async fn names(&self, kind: &ObjectKind, namespace: &str) -> Result<Vec<String>, ClusterError> {
        let (kind, namespace) = (*kind, namespace.to_owned());
        self.run_blocking(move |store| store.names(&kind, &namespace)).await
    }

    /// Reads an object, lets `change` alter it and writes it back as an `Update` of that manager: what a controller or
    /// `kubectl edit` does. `None` when there is no such object. Read and write are one step, so nothing is lost.
    pub async fn update(
        &self,
        object: &ObjectRef,
        part: ObjectPart,
        manager: &str,
        change: impl FnOnce(&mut serde_json::Value) + Send + 'static,
    ) -> Result<Option<ApplyResponse>, ClusterError> {
        let (object, manager) = (object.clone(), manager.to_owned());
        self.run_blocking(move |store| write_path::update(store, &object, part, &manager, change)).await
    }

    /// Creates an object as a controller does, with an `Update` entry of that manager. One that exists stays as it is.
    pub async fn create(&self, object: Object, manager: &str) -> Result<ApplyResponse, ClusterError> {
        let manager = manager.to_owned();
        self.run_blocking(move |store| write_path::create(store, object, &manager)).await
    }

    /// Whether the operator's admission and defaults apply, as they do where its webhooks run.
    fn set_operator_running(&self, on: bool) {
        let count = &self.store.running_operators;
        if on {
            count.fetch_add(1, Ordering::SeqCst);
        } else {
            count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// A clone whose work keeps the leadership until it is done, also when nobody waits for it any more: what an operator
    /// that was stopped has begun to write must be written before the next one reads.
    fn holding(&self, leadership: OperatorLeadership) -> Self {
        Self { leadership: Some(leadership), ..self.clone() }
    }

    /// File work off the async threads. No lock lives longer than the closure.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<EmbeddedStore>) -> Result<T, ClusterError> + Send + 'static,
    ) -> Result<T, ClusterError> {
        let (store, leadership) = (self.store.clone(), self.leadership.clone());
        tokio::task::spawn_blocking(move || {
            let result = work(&store);
            drop(leadership);
            result
        })
        .await
        .unwrap_or_else(|error| Err(store::internal_error(error)))
    }
}

impl Cluster for EmbeddedCluster {
    fn describe(&self) -> String {
        format!("embedded cluster in {}", self.folder.display())
    }

    async fn platform(&self, stated: &Platform) -> Result<Platform, ClusterError> {
        // It is no place to run on: it says nothing for or against a model that is meant for one.
        let release = self.store.simulate(stated.dynamo);
        Ok(Platform { served: Some(Definitions::of_release(release).clone()), ..Platform::default() })
    }

    async fn list(
        &self,
        kind: &ObjectKind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Object>, ClusterError> {
        let (kind, namespace, labels) = (*kind, namespace.map(str::to_owned), labels.clone());
        self.run_blocking(move |store| store.list(&kind, namespace.as_deref(), &labels)).await
    }

    async fn list_texts(
        &self,
        kind: &ObjectKind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<ObjectText>, ClusterError> {
        let (kind, namespace, labels) = (*kind, namespace.map(str::to_owned), labels.clone());
        self.run_blocking(move |store| store.list_texts(&kind, namespace.as_deref(), &labels)).await
    }

    async fn get(&self, object: &ObjectRef) -> Result<Option<Object>, ClusterError> {
        let object = object.clone();
        self.run_blocking(move |store| store.get(&object)).await
    }

    async fn apply(&self, request: &ApplyRequest) -> Result<ApplyResponse, ClusterError> {
        let request = request.clone();
        self.run_blocking(move |store| write_path::apply(store, request)).await
    }

    async fn delete(&self, object: &ObjectRef, preconditions: &Preconditions) -> Result<DeleteOutcome, ClusterError> {
        let (object, preconditions) = (object.clone(), preconditions.clone());
        self.run_blocking(move |store| write_path::delete(store, &object, &preconditions)).await
    }

    /// Nobody listens here, so nobody is asked: what would be served follows from what the operator wrote.
    async fn served_models(&self, frontend: &FrontendService) -> FrontendAnswer {
        let list = async |kind| self.list(&kind, Some(&frontend.namespace), &BTreeMap::new()).await;
        match (list(GRAPH).await, list(ADAPTER).await) {
            (Ok(graphs), Ok(adapters)) => served_models::list_models(frontend, &graphs, &adapters),
            (Err(error), _) | (_, Err(error)) => FrontendAnswer::unknown(error.to_string()),
        }
    }

    async fn watch(
        &self,
        kinds: &[ObjectKind],
        namespace: Option<&str>,
    ) -> Result<mpsc::Receiver<WatchEvent>, ClusterError> {
        let kinds: BTreeSet<ObjectKind> = kinds.iter().copied().collect();
        let namespace = namespace.map(str::to_owned);
        self.run_blocking(move |store| {
            let receiver = {
                let mut state = store.state();
                // What is there already is no news.
                for kind in &kinds {
                    store.refresh_kind(&mut state, kind, namespace.as_deref())?;
                }
                let names = kinds.iter().map(|kind| kind.kind).collect();
                state.watchers.subscribe(names, namespace, store.options.watch_capacity)
            };
            folder_watch::start(store);
            Ok(receiver)
        })
        .await
    }
}
