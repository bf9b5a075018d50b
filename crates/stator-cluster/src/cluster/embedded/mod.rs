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
mod folder_watch;
mod job_validation;
mod layout;
mod leadership;
mod object_file;
pub mod operator;
mod options;
mod store;
mod structured_merge;
mod watch_broadcaster;
mod write_lock;
mod write_path;

pub use file_writer::{AtomicFileWriter, FileWriter};
pub use options::EmbeddedOptions;
pub use structured_merge::ObjectPart;

use super::{ApplyRequest, ApplyResponse, Cluster, ClusterError, DeleteOutcome, Preconditions, WatchReceiver};
use leadership::OperatorLeadership;
use serde_json::Value;
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::graph_components::named_components;
use stator_core::dynamo::health::AdapterEndpoints;
use stator_core::dynamo::kinds::{ADAPTER, FLEET_POLICY, GRAPH, ObjectKind};
use stator_core::dynamo::release::Definitions;
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};
use stator_core::object::{Object, ObjectRef, ObjectText};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::{fmt, io};
use store::EmbeddedStore;

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

    /// The graph of a frontend, whose Service begins with the graph's name.
    async fn find_graph(&self, frontend: &FrontendService) -> Result<Option<Object>, ClusterError> {
        let names = frontend.name.match_indices('-').filter_map(|(end, _)| frontend.name.get(..end));
        let graphs = names.map(|name| GRAPH.reference(&frontend.namespace, name));
        // What is no name is none of a graph.
        for graph in graphs.filter(|graph| layout::path_of(graph).is_ok()) {
            let graph = self.get(&graph).await?;
            if let Some(graph) = graph.filter(|graph| FrontendService::of_graph(graph).as_ref() == Some(frontend)) {
                return Ok(Some(graph));
            }
        }
        Ok(None)
    }

    /// The adapters that may be loaded into a graph.
    async fn loaded_adapters(&self, graph: &Object) -> Result<Vec<Object>, ClusterError> {
        if named_components(graph.spec()).all(|(_, component)| base_model(component).is_none()) {
            return Ok(Vec::new());
        }
        self.list(&ADAPTER, Some(graph.namespace()), &BTreeMap::new()).await
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
        match self.find_graph(frontend).await {
            Ok(Some(graph)) => match self.loaded_adapters(&graph).await {
                Ok(adapters) => list_models(&graph, &adapters),
                Err(error) => FrontendAnswer::unknown(error.to_string()),
            },
            Ok(None) => FrontendAnswer::unknown(format!("there is no {frontend}")),
            Err(error) => FrontendAnswer::unknown(error.to_string()),
        }
    }

    async fn watch(&self, kinds: &[ObjectKind], namespace: Option<&str>) -> Result<WatchReceiver, ClusterError> {
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
                state.watchers.subscribe(names, namespace)
            };
            folder_watch::start(store);
            Ok(receiver)
        })
        .await
    }
}

impl EmbeddedCluster {
    /// All `FleetPolicy` objects: `<folder>/fleetpolicies.stator.dev/<name>.yaml`. The folder's name is no namespace's.
    ///
    /// # Errors
    /// When one cannot be read.
    pub async fn fleet_policies(&self) -> Result<Vec<Value>, ClusterError> {
        let folder = self.folder().join(FLEET_POLICY.resource());
        let read = tokio::task::spawn_blocking(move || read_policy_folder(&folder)).await;
        read.unwrap_or_else(|_| {
            Err(ClusterError::Damaged { path: FLEET_POLICY.resource(), message: "reading it failed".to_owned() })
        })
    }
}

fn read_policy_folder(folder: &Path) -> Result<Vec<Value>, ClusterError> {
    let damaged = |path: &Path, message: String| ClusterError::Damaged { path: path.display().to_string(), message };
    let entries = match fs_err::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(damaged(folder, error.to_string())),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| damaged(folder, error.to_string()))?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = fs_err::read_to_string(&path).map_err(|error| damaged(&path, error.to_string()))?;
            found.push((
                path.clone(),
                serde_saphyr::from_str(&text).map_err(|error| damaged(&path, error.to_string()))?,
            ));
        }
    }
    found.sort_by(|(a, _): &(std::path::PathBuf, Value), (b, _)| a.cmp(b));
    Ok(found.into_iter().map(|(_, object)| object).collect())
}

/// A frontend that has no replica ready is reached by nobody. One that has lists the base models of the workers that are
/// ready, and the adapters that are loaded into them.
fn list_models(graph: &Object, adapters: &[Object]) -> FrontendAnswer {
    let is_ready = |name: &str| {
        let component = graph.status().get("components").and_then(|all| all.get(name));
        component.and_then(|one| one.get("readyReplicas")).and_then(Value::as_u64).is_some_and(|ready| ready > 0)
    };
    let ready: Vec<&Value> =
        named_components(graph.spec()).filter(|(name, _)| is_ready(name)).map(|(_, component)| component).collect();
    if !ready.iter().any(|component| component["type"] == "frontend") {
        return FrontendAnswer::Serves(BTreeSet::new());
    }
    let bases: BTreeSet<String> = ready.iter().copied().filter_map(base_model).collect();
    let is_loaded = |adapter: &&Object| {
        let loaded = adapter.status().get("readyEndpoints").and_then(Value::as_u64);
        loaded.is_some_and(|loaded| loaded > 0) && !adapter.is_deleting()
    };
    let loaded = adapters.iter().filter(is_loaded).filter_map(AdapterEndpoints::from_adapter);
    let names: Vec<String> =
        loaded.filter(|adapter| bases.contains(&adapter.base_model)).map(|adapter| adapter.served_name).collect();
    FrontendAnswer::Serves(bases.into_iter().chain(names).collect())
}

/// The base model that adapters load into a component.
fn base_model(component: &Value) -> Option<String> {
    component.pointer("/modelRef/name").and_then(Value::as_str).map(str::to_owned)
}
