//! The words that the scenarios are told in.

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use stator_cluster::cluster::embedded::{EmbeddedCluster, EmbeddedOptions};
use stator_cluster::cluster::{ApplyRequest, ApplyResponse, Cluster, ClusterError};
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::release::Release;
use stator_core::object::{Object, ObjectRef};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// An embedded cluster in a folder of its own, with a clock that only `pass` moves and uids that count.
pub struct Folder {
    pub dir: tempfile::TempDir,
    pub cluster: EmbeddedCluster,
    seconds: Arc<AtomicI64>,
}

impl Folder {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let seconds = Arc::new(AtomicI64::new(1_800_000_000));
        let cluster = oldest(EmbeddedCluster::open(dir.path(), options(&seconds)).unwrap());
        Self { dir, cluster, seconds }
    }

    /// The same folder, as the next process finds it.
    pub fn reopen(&self) -> EmbeddedCluster {
        oldest(EmbeddedCluster::open(self.dir.path(), options(&self.seconds)).unwrap())
    }

    pub fn pass(&self, seconds: i64) {
        self.seconds.fetch_add(seconds, Ordering::SeqCst);
    }

    pub fn path(&self, object: &ObjectRef) -> std::path::PathBuf {
        let kind = stator_core::dynamo::kinds::by_name(&object.kind).unwrap();
        self.dir.path().join(&object.namespace).join(kind.plural).join(format!("{}.yaml", object.name))
    }

    /// Edits the file as a person does: one piece of its text for another.
    pub fn edit(&self, object: &ObjectRef, from: &str, to: &str) {
        let path = self.path(object);
        let text = fs_err::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from:?} is not in\n{text}");
        fs_err::write(&path, text.replacen(from, to, 1)).unwrap();
    }
}

fn options(seconds: &Arc<AtomicI64>) -> EmbeddedOptions {
    let (seconds, count) = (seconds.clone(), AtomicU64::new(0));
    EmbeddedOptions {
        clock: Arc::new(move || jiff::Timestamp::from_second(seconds.load(Ordering::SeqCst)).unwrap()),
        new_uid: Arc::new(move || format!("00000000-0000-4000-8000-{:012}", count.fetch_add(1, Ordering::SeqCst) + 1)),
        ..EmbeddedOptions::default()
    }
}

/// An embedded cluster with the Dynamo that the API server of the tests has too.
pub fn oldest(cluster: EmbeddedCluster) -> EmbeddedCluster {
    let stated = Platform { dynamo: Some(Release::V1_2), ..Platform::default() };
    cluster.platform(&stated).now_or_never().unwrap().unwrap();
    cluster
}

/// A small graph that the bundled schema takes: a frontend and one worker.
pub fn graph(name: &str, replicas: i64) -> Object {
    object(json!({
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": name, "namespace": "prod", "labels": {"team": "search"}},
        "spec": {
            "backendFramework": "vllm",
            "components": [
                {"name": "frontend", "type": "frontend", "replicas": 1, "podTemplate": {"spec": {"containers": [
                    {"name": "main", "image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0"}]}}},
                {"name": "worker", "type": "worker", "replicas": replicas, "podTemplate": {"spec": {"containers": [
                    {"name": "main", "image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0",
                     "command": ["python3", "-m", "dynamo.vllm"], "args": ["--model", "Qwen/Qwen3-0.6B"]}]}}},
            ],
        },
    }))
}

pub fn object(value: Value) -> Object {
    Object::from_value(value).unwrap()
}

/// Changes one thing in an object.
pub fn with(object: Object, change: impl FnOnce(&mut Value)) -> Object {
    object
        .map(|mut value| {
            change(&mut value);
            value
        })
        .unwrap()
}

pub async fn apply(cluster: &impl Cluster, object: Object) -> ApplyResponse {
    try_apply(cluster, object, "stator").await.unwrap()
}

pub async fn try_apply(cluster: &impl Cluster, object: Object, manager: &str) -> Result<ApplyResponse, ClusterError> {
    cluster.apply(&ApplyRequest::new(object, manager)).await
}

pub async fn live(cluster: &impl Cluster, object: &Object) -> Option<Object> {
    cluster.get(&object.reference()).await.unwrap()
}
