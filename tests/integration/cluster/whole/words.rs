//! The words that whole syncs are told in.

use crate::cluster::place::Place;
use crate::cluster::scenario;
use crate::sync::pipeline::Site;
use crate::testbed::PATIENCE;
use serde_json::{Value, json};
use stator_cluster::cluster::{
    ApplyOutcome, ApplyRequest, ApplyResponse, Cluster, ClusterError, DeleteOutcome, Preconditions, WatchReceiver,
};
use stator_cluster::sync::{GatheredState, SyncOptions, SyncProgress, SyncReport, run_sync};
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};
use stator_core::object::{Object, ObjectRef};
use stator_model::plan::{HoldKind, Plan, PlanStep, PlannedWrite, join_reasons};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::Notify;

/// A repository whose one environment is the namespace of a scenario.
pub struct Shop<'a, P: Place> {
    pub place: &'a P,
    pub site: Site,
}

impl<'a, P: Place> Shop<'a, P> {
    pub fn new(place: &'a P, models: &[(&str, u32)]) -> Self {
        let site = Site::new(models);
        let settings = format!(
            "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {{name: shop}}\nspec:\n  environments:\n    \
             prod: {{namespace: {}, platform: {{inferenceGateway: true, leaderWorkerSet: true}}}}\n",
            place.home()
        );
        site.write("stator.yaml", &settings);
        Self { place, site }
    }

    pub fn cluster(&self) -> &'a P::Cluster {
        self.place.cluster()
    }

    /// Writes a model with more lines in its `spec`.
    pub fn model(&self, name: &str, replicas: u32, more: &str) {
        let text = crate::sync::pipeline::mocker(name, replicas);
        self.site.write(&format!("models/{name}/model.yaml"), &format!("{text}{more}"));
    }

    pub async fn plan(&self, allow: &[HoldKind]) -> (Plan, GatheredState) {
        self.site.plan(self.cluster(), allow).await
    }

    /// What is to be done, as `create DynamoGraphDeployment prod/a`, with the reasons that hold it back.
    pub async fn pending(&self, allow: &[HoldKind]) -> Vec<String> {
        let (plan, _) = self.plan(allow).await;
        let changes = plan.changes.iter().filter(|change| change.action != stator_model::plan::Action::Keep);
        let lines = changes.map(|change| {
            let reasons = join_reasons(&change.reasons);
            self.place.said(format!("{} {}: {reasons}", change.action.as_str(), change.object))
        });
        let holds = plan.holds.iter().filter(|hold| !hold.allowed).map(|hold| self.place.said(&hold.message));
        lines.chain(holds).collect()
    }

    /// Syncs without waiting for health.
    pub async fn sync(&self, allow: &[HoldKind]) -> SyncReport {
        self.site.sync_on(self.cluster(), false, allow).await
    }

    /// Syncs, and all goes well.
    #[track_caller]
    pub fn synced(&self, allow: &[HoldKind]) -> impl Future<Output = SyncReport> {
        let caller = std::panic::Location::caller();
        async move {
            let report = self.sync(allow).await;
            assert!(report.is_success(), "{caller}: {report:#?}");
            report
        }
    }

    /// Carries out a plan that was made before, against a cluster that may be watched.
    pub async fn carry_out<C: Cluster>(&self, cluster: &C, (plan, gathered): (Plan, GatheredState)) -> SyncReport {
        carry_out(cluster, (plan, gathered), false, PATIENCE).await
    }

    /// Syncs until its time is up, and it says this: see [`Site::sync_in_vain`].
    pub async fn sync_in_vain(&self, wait: bool, allow: &[HoldKind], says: &str) -> SyncReport {
        let limited = |timeout| options(wait, timeout);
        self.site.sync_in_vain(self.cluster(), allow, says, Duration::from_secs(1), limited).await
    }

    /// Carries out a plan, for health too where it waits, and does something else as soon as that says what it waits for.
    pub async fn carry_out_meanwhile(
        &self,
        wait: bool,
        (plan, gathered): (Plan, GatheredState),
        meanwhile: impl Future<Output = ()>,
    ) -> SyncReport {
        let waits = Notify::new();
        let progress = |event: SyncProgress| {
            if let SyncProgress::Waiting { .. } = event {
                waits.notify_one();
            }
        };
        let (_keep, cancel) = tokio::sync::watch::channel(None);
        let options = options(wait, PATIENCE);
        let work = run_sync(self.cluster(), plan, gathered.bookkeeping(), options, &progress, cancel);
        let meanwhile = async {
            tokio::time::timeout(PATIENCE, waits.notified()).await.expect("the sync waits for something");
            meanwhile.await;
        };
        tokio::join!(work, meanwhile).0
    }

    /// Carries a plan out and waits for health.
    pub async fn wait(&self, plan: (Plan, GatheredState)) -> SyncReport {
        self.wait_on(self.cluster(), plan, PATIENCE).await
    }

    /// The same as somebody else, for so long.
    pub async fn wait_on<C: Cluster>(&self, cluster: &C, plan: (Plan, GatheredState), timeout: Duration) -> SyncReport {
        carry_out(cluster, plan, true, timeout).await
    }

    pub async fn live(&self, kind: &ObjectKind, name: &str) -> Option<Object> {
        self.cluster().get(&self.named(kind, name)).await.unwrap()
    }

    /// The graph of a model, which is there.
    #[track_caller]
    pub fn graph(&self, name: &'a str) -> impl Future<Output = Object> {
        let caller = std::panic::Location::caller();
        async move { self.live(&kinds::GRAPH, name).await.unwrap_or_else(|| panic!("{caller}: there is no {name}")) }
    }

    pub fn named(&self, kind: &ObjectKind, name: &str) -> ObjectRef {
        kind.reference(self.place.home(), name)
    }

    /// What would be applied for an object that is to be created.
    pub async fn rendered(&self, kind: &ObjectKind, name: &str) -> Object {
        let (plan, _) = self.plan(&[]).await;
        let wanted = plan.changes.into_iter().find_map(|change| match change.step {
            PlanStep::Write(PlannedWrite::Apply(step))
                if step.object.kind() == kind.kind && step.object.name() == name =>
            {
                Some(step.object)
            }
            PlanStep::Write(_) | PlanStep::NoWrite | PlanStep::AwaitGone { .. } | PlanStep::Held { .. } => None,
        });
        wanted.unwrap().parse()
    }

    /// Says of a graph that it is Ready, as the operator does once it is.
    pub async fn ready(&self, name: &str) {
        let generation = self.live(&kinds::GRAPH, name).await.unwrap().generation();
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "all_resources_are_ready",
            "message": "All resources are ready", "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let status = json!({"state": "successful", "observedGeneration": generation, "conditions": [ready]});
        self.report(&self.named(&kinds::GRAPH, name), status).await;
    }

    /// Says of a claim that it has its volume, as a provisioner does.
    pub async fn report_bound(&self, name: &str) {
        self.report(&self.named(&kinds::CLAIM, name), json!({"phase": "Bound"})).await;
    }

    /// Gives an object a status, as the operator does.
    pub async fn report(&self, object: &ObjectRef, status: Value) {
        let only = scenario::object(json!({
            "apiVersion": object.api_version, "kind": object.kind,
            "metadata": {"name": object.name, "namespace": object.namespace}, "status": status,
        }));
        let request = ApplyRequest { status: true, ..ApplyRequest::new(only, "manager") };
        self.cluster().apply(&request).await.unwrap();
    }

    /// Every object of the scenario with its uid and resource version: equal before and after when nothing was written.
    pub async fn versions(&self) -> BTreeMap<String, (String, String)> {
        let mut found = BTreeMap::new();
        for kind in kinds::ALL {
            for object in self.cluster().list(kind, Some(self.place.home()), &BTreeMap::new()).await.unwrap() {
                let text = |text: Option<&str>| text.unwrap().to_owned();
                let version = (text(object.uid()), text(object.resource_version()));
                found.insert(self.place.said(object.reference()), version);
            }
        }
        found
    }

    /// The objects of the scenario.
    pub async fn objects(&self) -> Vec<String> {
        self.versions().await.into_keys().collect()
    }

    /// What every scenario ends with: the plan is empty, and a second sync writes nothing.
    #[track_caller]
    pub fn settled(&self) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            let (plan, _) = self.plan(&[]).await;
            let left: Vec<_> = plan.changes.iter().filter(|change| change.step.write().is_some()).collect();
            assert!(left.is_empty(), "{caller}: still to do: {left:#?}");
            let before = self.versions().await;
            assert!(!before.is_empty(), "{caller}: a cluster without objects is settled by mistake");
            let report = self.sync(&[]).await;
            assert_eq!(report.writes, 0, "{caller}: a second sync writes: {report:#?}");
            assert_eq!(self.versions().await, before, "{caller}");
        }
    }
}

async fn carry_out<C: Cluster>(
    cluster: &C,
    (plan, gathered): (Plan, GatheredState),
    wait: bool,
    timeout: Duration,
) -> SyncReport {
    let (_keep, cancel) = tokio::sync::watch::channel(None);
    run_sync(cluster, plan, gathered.bookkeeping(), options(wait, timeout), &|_| {}, cancel).await
}

fn options(wait: bool, timeout: Duration) -> SyncOptions {
    let started = "2026-01-01T00:00:00Z".parse().unwrap();
    SyncOptions { wait, timeout: Some(timeout), ..SyncOptions::new(started, 7) }
}

/// Sets one label of an object that is written as a whole.
pub fn labelled(value: &mut Value, key: &str, text: &str) {
    value["metadata"]["labels"][key] = json!(text);
}

/// A cluster whose writes are seen, in order, and whose lists of one kind fail where that is wanted.
pub struct Watched<'a, C> {
    cluster: &'a C,
    pub unlistable: Option<ObjectKind>,
    /// The name of objects that cannot be applied.
    pub unappliable: Option<&'static str>,
    writes: Mutex<Vec<String>>,
}

impl<'a, C: Cluster> Watched<'a, C> {
    pub fn new(cluster: &'a C) -> Self {
        Self { cluster, unlistable: None, unappliable: None, writes: Mutex::new(Vec::new()) }
    }

    pub fn writes(&self) -> Vec<String> {
        self.writes.lock().unwrap().clone()
    }

    fn note(&self, line: String) {
        self.writes.lock().unwrap().push(line);
    }
}

impl<C: Cluster> Cluster for Watched<'_, C> {
    fn describe(&self) -> String {
        self.cluster.describe()
    }

    async fn platform(&self, stated: &Platform) -> Result<Platform, ClusterError> {
        self.cluster.platform(stated).await
    }

    async fn list(
        &self,
        kind: &ObjectKind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Object>, ClusterError> {
        if self.unlistable == Some(*kind) {
            return Err(ClusterError::transient("etcdserver: request timed out"));
        }
        self.cluster.list(kind, namespace, labels).await
    }

    async fn get(&self, object: &ObjectRef) -> Result<Option<Object>, ClusterError> {
        self.cluster.get(object).await
    }

    async fn apply(&self, request: &ApplyRequest) -> Result<ApplyResponse, ClusterError> {
        if self.unappliable == Some(request.object.name()) && request.object.kind() != kinds::RECORD.kind {
            return Err(ClusterError::Invalid { object: request.object.reference(), causes: Vec::new() });
        }
        let applied = self.cluster.apply(request).await?;
        let outcome = match applied.outcome {
            ApplyOutcome::Created => "created",
            ApplyOutcome::Updated => "updated",
            ApplyOutcome::Unchanged => "left",
        };
        self.note(format!("{outcome} {} {}", request.object.kind(), request.object.name()));
        Ok(applied)
    }

    async fn delete(&self, object: &ObjectRef, preconditions: &Preconditions) -> Result<DeleteOutcome, ClusterError> {
        let sure = match (&preconditions.uid, &preconditions.resource_version) {
            (Some(_), Some(_)) => "by uid and version",
            (Some(_), None) => "by uid",
            (None, Some(_)) => "by version",
            (None, None) => "by name",
        };
        let deleted = self.cluster.delete(object, preconditions).await?;
        self.note(format!("deleted {} {} {sure}", object.kind, object.name));
        Ok(deleted)
    }

    async fn served_models(&self, frontend: &FrontendService) -> FrontendAnswer {
        self.cluster.served_models(frontend).await
    }

    async fn watch(&self, kinds: &[ObjectKind], namespace: Option<&str>) -> Result<WatchReceiver, ClusterError> {
        self.cluster.watch(kinds, namespace).await
    }
}
