//! A repository in a folder, an embedded cluster beside it, and the way from one to the other.

use crate::testbed::PATIENCE;
use regex::Regex;
use stator_cluster::cluster::embedded::operator::SimulatedOperator;
use stator_cluster::cluster::embedded::{EmbeddedCluster, EmbeddedOptions};
use stator_cluster::cluster::{
    ApplyRequest, ApplyResponse, Cluster, ClusterError, DeleteOutcome, Preconditions, WatchReceiver,
};
use stator_cluster::sync::desired::detect_platform;
use stator_cluster::sync::{
    DesiredState, GatherError, GatheredState, ListScope, PlanParameters, SyncOptions, SyncReport, build_explained_plan,
    find_strays, run_sync,
};
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};
use stator_core::object::{Object, ObjectRef};
use stator_git::source;
use stator_model::intent::Workspace;
use stator_model::plan::{HoldKind, Plan, PlanInput, RepositoryOrigin, SourceClaim, SourceIdentity, build_plan};
use stator_model::render::RenderTarget;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A repository and a cluster.
pub struct Site {
    folder: tempfile::TempDir,
    pub cluster: EmbeddedCluster,
    namespace: String,
}

/// The claim of a repository in that folder.
pub fn claim_at(path: &str) -> SourceClaim {
    SourceClaim::new(SourceIdentity::Repository { origin: RepositoryOrigin::at_path(path) })
}

/// A model that runs on CPU, the smallest there is.
pub fn mocker(name: &str, replicas: u32) -> String {
    format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {{name: {name}}}\nspec:\n  model: Qwen/Qwen3-0.6B\n  \
         engine: mocker\n  runtime: 1.2.0\n  serving:\n    worker: {{replicas: {replicas}}}\n"
    )
}

impl Site {
    /// An empty repository whose one environment is in this namespace.
    pub fn of(namespace: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cluster = EmbeddedCluster::open(&folder.path().join("cluster"), EmbeddedOptions::default()).unwrap();
        let site = Self { folder, cluster, namespace: namespace.to_owned() };
        site.write(
            "stator.yaml",
            &format!(
                "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {{name: shop}}\nspec:\n  environments:\n    \
                 prod: {{namespace: {namespace}}}\n"
            ),
        );
        site
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn new(models: &[(&str, u32)]) -> Self {
        let site = Self::of("prod");
        for (name, replicas) in models {
            site.model(name, *replicas);
        }
        site
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("repository").join(path)
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }

    pub fn model(&self, name: &str, replicas: u32) {
        self.write(&format!("models/{name}/model.yaml"), &mocker(name, replicas));
    }

    pub fn remove(&self, name: &str) {
        fs_err::remove_dir_all(self.path(&format!("models/{name}"))).unwrap();
    }

    /// Plans, as `stator plan` does.
    pub async fn plan<C: Cluster>(&self, cluster: &C, allow: &[HoldKind]) -> (Plan, GatheredState) {
        self.try_plan(cluster, allow).await.unwrap()
    }

    /// The same where the cluster may not be readable.
    pub async fn try_plan<C: Cluster>(
        &self,
        cluster: &C,
        allow: &[HoldKind],
    ) -> Result<(Plan, GatheredState), GatherError> {
        self.try_plan_as(cluster, claim_at("/shop"), allow).await
    }

    /// The same as that source.
    pub async fn try_plan_as<C: Cluster>(
        &self,
        cluster: &C,
        owner: SourceClaim,
        allow: &[HoldKind],
    ) -> Result<(Plan, GatheredState), GatherError> {
        let (mut input, gathered) = self.gather(cluster, owner, allow).await?;
        let plan = build_explained_plan(cluster, &mut input).await;
        Ok((plan, gathered))
    }

    /// Plans as that source, with what it left behind anywhere in the cluster.
    pub async fn plan_everywhere<C: Cluster>(&self, cluster: &C, owner: SourceClaim) -> (Plan, GatheredState) {
        let (mut input, gathered) = self.gather(cluster, owner.clone(), &[]).await.unwrap();
        let target = RenderTarget {
            repository: input.repository.clone(),
            environment: input.environment.clone(),
            namespace: input.namespace.clone(),
            platform: input.platform.clone(),
        };
        input.strays = find_strays(cluster, &target, Some(&owner), &input.records).await;
        (build_plan(&input), gathered)
    }

    /// What a plan is made of, without what a server's dry run says of it.
    pub async fn plan_input<C: Cluster>(&self, cluster: &C) -> PlanInput {
        self.gather(cluster, claim_at("/shop"), &[]).await.unwrap().0
    }

    async fn gather<C: Cluster>(
        &self,
        cluster: &C,
        owner: SourceClaim,
        allow: &[HoldKind],
    ) -> Result<(PlanInput, GatheredState), GatherError> {
        let checkout = source::open(&self.path("")).unwrap();
        let mut selection = Workspace::parse(&checkout.tree).resolve_environment(None).unwrap();
        detect_platform(cluster, &mut selection).await;
        let desired = DesiredState::render(selection, &Default::default()).owned_by(owner);
        // What is elsewhere is of other scenarios, where they share a cluster.
        let gathered = desired.gather_live_here(cluster, &ListScope::default()).await?;
        let parameters = PlanParameters {
            revision: checkout.revision,
            allow: allow.iter().copied().collect(),
            prune: true,
            ..PlanParameters::default()
        };
        Ok((desired.into_plan_input(gathered.clone(), parameters), gathered))
    }

    /// Plans and syncs against a cluster, waiting or not.
    pub async fn sync_on<C: Cluster>(&self, cluster: &C, wait: bool, allow: &[HoldKind]) -> SyncReport {
        self.sync_at(cluster, wait, allow, 8).await
    }

    /// The same with so many calls at a time; with one, their order is the same in every run.
    pub async fn sync_at<C: Cluster>(
        &self,
        cluster: &C,
        wait: bool,
        allow: &[HoldKind],
        concurrency: usize,
    ) -> SyncReport {
        let planned = self.plan(cluster, allow).await;
        self.carry_out(cluster, planned, wait, concurrency).await
    }

    /// Carries a plan out.
    pub async fn carry_out<C: Cluster>(
        &self,
        cluster: &C,
        (plan, gathered): (Plan, GatheredState),
        wait: bool,
        concurrency: usize,
    ) -> SyncReport {
        let options = SyncOptions {
            wait,
            concurrency,
            timeout: Some(PATIENCE),
            ..SyncOptions::new("2026-01-01T00:00:00Z".parse().unwrap(), 7)
        };
        let (_keep, cancel) = tokio::sync::watch::channel(None);
        run_sync(cluster, plan, gathered.bookkeeping(), options, &|_| {}, cancel).await
    }

    /// Syncs until a limit ends it, for which it came as far as to say this. A slow machine may not have come there by then:
    /// it has twice the time at each further try, and how long that was is not said.
    pub async fn sync_in_vain<C: Cluster>(
        &self,
        cluster: &C,
        allow: &[HoldKind],
        says: &str,
        mut time: Duration,
        limited: impl Fn(Duration) -> SyncOptions,
    ) -> SyncReport {
        let limit = Regex::new("(after|for) [0-9][0-9a-z.]*").unwrap();
        loop {
            let (plan, gathered) = self.plan(cluster, allow).await;
            let (_keep, cancel) = tokio::sync::watch::channel(None);
            let mut report = run_sync(cluster, plan, gathered.bookkeeping(), limited(time), &|_| {}, cancel).await;
            for model in &mut report.models {
                model.message = limit.replace(&model.message, "$1 TIME").into_owned();
            }
            time *= 2;
            if time > PATIENCE || report.models.iter().any(|model| model.message.contains(says)) {
                return report;
            }
        }
    }

    /// Syncs with the operator at work, until everything is Healthy.
    pub async fn sync(&self, allow: &[HoldKind]) -> SyncReport {
        let _operator = SimulatedOperator::start(self.cluster.clone(), 10_000.0);
        self.sync_on(&self.cluster, true, allow).await
    }

    /// Every object that the cluster holds, by its file, without what moves by itself.
    pub fn objects(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut todo = vec![self.folder.path().join("cluster")];
        while let Some(next) = todo.pop() {
            for entry in fs_err::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    todo.push(path);
                } else if path.extension().is_some_and(|extension| extension == "yaml") {
                    found.push(path.strip_prefix(self.folder.path()).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        found.sort();
        found
    }

    /// What every scenario ends with: the plan is empty, and a second sync writes nothing.
    pub async fn settled(&self) {
        let (plan, _) = self.plan(&self.cluster, &[]).await;
        let left: Vec<_> = plan.changes.iter().filter(|change| change.step.write().is_some()).collect();
        assert!(left.is_empty(), "still to do: {left:#?}");
        let report = self.sync(&[]).await;
        assert_eq!(report.writes, 0, "a second sync writes: {report:#?}");
    }
}

/// A cluster that stops answering at its n-th write: the process is as good as dead from then on.
pub struct Dying<'a, C> {
    cluster: &'a C,
    /// The number of the last write.
    last: usize,
    /// Whether the last write is still carried out.
    after: bool,
    /// The graph that admission refuses.
    refused: Option<&'static str>,
    writes: AtomicUsize,
    /// How often objects were watched.
    watches: AtomicUsize,
    /// How often each object was deleted; journals, which every sync deletes, are left out.
    deleted: Mutex<BTreeMap<String, usize>>,
}

impl<'a, C> Dying<'a, C> {
    pub fn new(cluster: &'a C, last: usize, after: bool) -> Self {
        Self {
            cluster,
            last,
            after,
            refused: None,
            writes: AtomicUsize::new(0),
            watches: AtomicUsize::new(0),
            deleted: Mutex::default(),
        }
    }

    /// The same, with a graph that admission refuses.
    pub fn refusing(self, refused: Option<&'static str>) -> Self {
        Self { refused, ..self }
    }

    pub fn died(&self) -> bool {
        self.writes() >= self.last
    }

    /// Writes that were asked for.
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    /// How often objects were watched.
    pub fn watches(&self) -> usize {
        self.watches.load(Ordering::SeqCst)
    }

    /// How often each object was deleted.
    pub fn deleted(&self) -> BTreeMap<String, usize> {
        self.deleted.lock().unwrap().clone()
    }

    /// Whether this write is carried out, and whether its answer comes back.
    fn write(&self) -> (bool, bool) {
        match (self.writes.fetch_add(1, Ordering::SeqCst) + 1).cmp(&self.last) {
            std::cmp::Ordering::Less => (true, true),
            std::cmp::Ordering::Equal => (self.after, false),
            std::cmp::Ordering::Greater => (false, false),
        }
    }
}

/// What every call answers once the process is dead.
fn dead() -> ClusterError {
    ClusterError::Storage { message: "the process died".to_owned() }
}

impl<C: Cluster> Cluster for Dying<'_, C> {
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
        self.cluster.list(kind, namespace, labels).await
    }

    async fn get(&self, object: &ObjectRef) -> Result<Option<Object>, ClusterError> {
        self.cluster.get(object).await
    }

    async fn apply(&self, request: &ApplyRequest) -> Result<ApplyResponse, ClusterError> {
        // What writes nothing is no moment to die in.
        if request.dry_run {
            return self.cluster.apply(request).await;
        }
        let object = request.object.reference();
        if object.kind == kinds::GRAPH.kind && self.refused == Some(object.name.as_str()) {
            return Err(ClusterError::Denied { object, message: "not on a Friday".to_owned() });
        }
        let (carried_out, answered) = self.write();
        let answer = if carried_out { self.cluster.apply(request).await } else { Err(dead()) };
        if answered { answer } else { Err(dead()) }
    }

    async fn delete(&self, object: &ObjectRef, preconditions: &Preconditions) -> Result<DeleteOutcome, ClusterError> {
        let (carried_out, answered) = self.write();
        let answer = if carried_out { self.cluster.delete(object, preconditions).await } else { Err(dead()) };
        if let Ok(DeleteOutcome::Gone | DeleteOutcome::Pending(_)) = &answer
            && object.kind != kinds::JOURNAL.kind
        {
            let name = format!("{} {}", object.kind, object.name);
            *self.deleted.lock().unwrap().entry(name).or_default() += 1;
        }
        if answered { answer } else { Err(dead()) }
    }

    async fn served_models(&self, frontend: &FrontendService) -> FrontendAnswer {
        self.cluster.served_models(frontend).await
    }

    async fn watch(&self, kinds: &[ObjectKind], namespace: Option<&str>) -> Result<WatchReceiver, ClusterError> {
        self.watches.fetch_add(1, Ordering::SeqCst);
        self.cluster.watch(kinds, namespace).await
    }
}
