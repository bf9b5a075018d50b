//! What the runner and the gathering of live state do with the answers of a cluster, over one that is made of answers.

mod gather;
mod runner;

use crate::cluster::{
    ApplyOutcome, ApplyRequest, ApplyResponse, Cluster, ClusterError, DeleteOutcome, Preconditions, WatchReceiver,
};
use serde_json::json;
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};
use stator_core::object::{Object, ObjectIdentity, ObjectRef};
use stator_model::plan::Record;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

/// A cluster in memory that refuses the calls that it was told to refuse, and remembers every call.
#[derive(Default)]
struct FaultyCluster {
    objects: Mutex<BTreeMap<ObjectIdentity, Object>>,
    /// By call, as [`FaultyCluster::calls`] words it; each error is answered once, in their order.
    faults: Mutex<BTreeMap<String, VecDeque<ClusterError>>>,
    calls: Mutex<Vec<String>>,
}

impl FaultyCluster {
    fn holding(objects: impl IntoIterator<Item = Object>) -> Self {
        let objects = objects.into_iter().map(|object| (object.reference().identity(), object)).collect();
        Self { objects: Mutex::new(objects), ..Self::default() }
    }

    /// The call is answered with these errors first.
    fn refusing(self, call: &str, errors: impl IntoIterator<Item = ClusterError>) -> Self {
        self.faults.lock().unwrap().entry(call.to_owned()).or_default().extend(errors);
        self
    }

    /// Every call so far: `apply Model a`, `apply status Model a`, `get Model a`, `delete Model a`, `list Model`,
    /// `list Model by label`.
    fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    fn call(&self, line: String) -> Result<(), ClusterError> {
        let fault = self.faults.lock().unwrap().get_mut(&line).and_then(VecDeque::pop_front);
        self.calls.lock().unwrap().push(line);
        fault.map_or(Ok(()), Err)
    }
}

impl Cluster for FaultyCluster {
    fn describe(&self) -> String {
        "a cluster made of answers".to_owned()
    }

    async fn platform(&self, _: &Platform) -> Result<Platform, ClusterError> {
        Ok(Platform::default())
    }

    async fn list(
        &self,
        kind: &ObjectKind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Object>, ClusterError> {
        let by_label = if labels.is_empty() { "" } else { " by label" };
        self.call(format!("list {}{by_label}", kind.kind))?;
        let objects = self.objects.lock().unwrap();
        let shown = objects.values().filter(|object| {
            object.kind() == kind.kind
                && namespace.is_none_or(|namespace| namespace == object.namespace())
                && object.has_labels(labels)
        });
        Ok(shown.cloned().collect())
    }

    async fn get(&self, object: &ObjectRef) -> Result<Option<Object>, ClusterError> {
        self.call(format!("get {} {}", object.kind, object.name))?;
        Ok(self.objects.lock().unwrap().get(&object.identity()).cloned())
    }

    async fn apply(&self, request: &ApplyRequest) -> Result<ApplyResponse, ClusterError> {
        let part = if request.status { "apply status" } else { "apply" };
        self.call(format!("{part} {} {}", request.object.kind(), request.object.name()))?;
        let reference = request.object.reference();
        let mut objects = self.objects.lock().unwrap();
        if request.status && !objects.contains_key(&reference.identity()) {
            return Err(ClusterError::Precondition { object: reference, message: "there is none".to_owned() });
        }
        objects.insert(reference.identity(), request.object.clone());
        Ok(ApplyResponse { object: request.object.clone(), outcome: ApplyOutcome::Updated })
    }

    async fn delete(&self, object: &ObjectRef, _: &Preconditions) -> Result<DeleteOutcome, ClusterError> {
        self.call(format!("delete {} {}", object.kind, object.name))?;
        let removed = self.objects.lock().unwrap().remove(&object.identity());
        Ok(removed.map_or(DeleteOutcome::Absent, |_| DeleteOutcome::Gone))
    }

    async fn served_models(&self, _: &FrontendService) -> FrontendAnswer {
        FrontendAnswer::NotAsked
    }

    async fn watch(&self, _: &[ObjectKind], _: Option<&str>) -> Result<WatchReceiver, ClusterError> {
        self.call("watch".to_owned())?;
        Err(ClusterError::transient("nothing is watched here"))
    }
}

fn record(model: &str) -> Record {
    Record {
        model: model.to_owned(),
        namespace: "prod".to_owned(),
        repository: "shop".to_owned(),
        environment: "prod".to_owned(),
        source: format!("models/{model}/model.yaml"),
        ..Record::default()
    }
}

/// A graph with the labels of the environment, or with none.
fn graph(name: &str, ours: bool) -> Object {
    let labels = if ours {
        json!({
            kinds::LABEL_MANAGED_BY: kinds::FIELD_MANAGER,
            kinds::LABEL_REPOSITORY: "shop",
            kinds::LABEL_ENVIRONMENT: "prod",
        })
    } else {
        json!({})
    };
    Object::from_value(json!({
        "apiVersion": kinds::GRAPH.api_version(),
        "kind": kinds::GRAPH.kind,
        "metadata": {"name": name, "namespace": "prod", "labels": labels},
        "spec": {},
    }))
    .unwrap()
}
