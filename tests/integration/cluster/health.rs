//! Health on a real API server, while recordings of the real operator are played on it.

use super::place::{Namespaces, Place as _};
use super::whole::words::Shop;
use crate::testbed::{ObjectRecording, PATIENCE, RecordedVersion, RecordingPlayer, eventually};
use stator_cluster::cluster::kube::KubeCluster;
use stator_cluster::cluster::{
    ApplyRequest, ApplyResponse, Cluster, ClusterError, DeleteOutcome, Preconditions, WatchEvent, WatchReceiver,
    watch_queue,
};
use stator_cluster::sync::SyncReport;
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::health::{self, Health};
use stator_core::dynamo::kinds::{self, GRAPH, ObjectKind};
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};
use stator_core::object::{Object, ObjectRef};
use stator_core::outcome::SyncOutcome;
use std::collections::BTreeMap;
use tokio::sync::watch;

/// Plays every row of every recording, users included, and judges what the API server then holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_healthy_at_an_old_generation_during_a_roll_or_while_it_goes() {
    let Some(place) = Namespaces::of("health-of-recordings").await else { return };
    for recording in ObjectRecording::all() {
        let first = &recording.rows[0];
        let name = first.object_name().to_owned();
        let player = RecordingPlayer::new(place.plane.admin().await, place.home(), &recording, &name);
        let reference = ObjectRef {
            api_version: first.object["apiVersion"].as_str().unwrap().to_owned(),
            kind: first.object["kind"].as_str().unwrap().to_owned(),
            namespace: place.home().to_owned(),
            name,
        };
        let (mut generation, mut going) = (0, false);
        for row in &recording.rows {
            if row.generation() > generation && !row.deleting() {
                player.user(row, kinds::FIELD_MANAGER).await;
                generation = row.generation();
            }
            if row.deleting() && !going {
                player.delete().await;
                going = true;
            }
            player.operator(row).await;
            let Some(live) = place.cluster().get(&reference).await.unwrap() else {
                assert!(row.gone, "{}: it is gone early", recording.name);
                break;
            };
            assert_eq!(live.is_deleting(), row.deleting(), "{}", recording.name);
            let verdict = health::assess_health(&live, Some(generation));
            let healthy = verdict.health == Health::Healthy;
            assert_eq!(healthy, row.serves(), "{} {verdict:?}\n{:#}", recording.name, row.object["status"]);
            // What the API server makes of a status leaves nothing of the reasons out.
            let recorded = health::assess_health(&Object::from_value(row.object.clone()).unwrap(), Some(generation));
            assert_eq!(verdict, recorded, "{}", recording.name);
        }
    }
}

/// A cluster that knows how much of it whoever waits for health has seen.
struct ObservedCluster<'a> {
    cluster: &'a KubeCluster,
    /// The newest resource version of a graph that was listed, or taken from a watch; the highest number once nobody
    /// watches any more.
    seen: watch::Sender<u64>,
}

impl<'a> ObservedCluster<'a> {
    fn new(cluster: &'a KubeCluster) -> Self {
        Self { cluster, seen: watch::Sender::new(0) }
    }

    /// Waits until a resource version was seen.
    async fn is_seen(&self, version: u64) {
        let mut seen = self.seen.subscribe();
        let waits = seen.wait_for(|seen| *seen >= version);
        tokio::time::timeout(PATIENCE, waits).await.expect("the sync watches").unwrap();
    }
}

impl Cluster for ObservedCluster<'_> {
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
        let objects = self.cluster.list(kind, namespace, labels).await?;
        let graphs = objects.iter().filter(|object| object.kind() == GRAPH.kind);
        let newest = graphs.filter_map(Object::version_number).max().unwrap_or_default();
        self.seen.send_modify(|seen| *seen = newest.max(*seen));
        Ok(objects)
    }

    async fn get(&self, object: &ObjectRef) -> Result<Option<Object>, ClusterError> {
        self.cluster.get(object).await
    }

    async fn apply(&self, request: &ApplyRequest) -> Result<ApplyResponse, ClusterError> {
        self.cluster.apply(request).await
    }

    async fn delete(&self, object: &ObjectRef, preconditions: &Preconditions) -> Result<DeleteOutcome, ClusterError> {
        self.cluster.delete(object, preconditions).await
    }

    async fn served_models(&self, frontend: &FrontendService) -> FrontendAnswer {
        self.cluster.served_models(frontend).await
    }

    async fn watch(&self, kinds: &[ObjectKind], namespace: Option<&str>) -> Result<WatchReceiver, ClusterError> {
        let mut events = self.cluster.watch(kinds, namespace).await?;
        let (relay, receiver) = watch_queue();
        let seen = self.seen.clone();
        tokio::spawn(async move {
            loop {
                let event = tokio::select! {
                    event = events.recv() => event,
                    () = relay.closed() => None,
                };
                let Some(event) = event else { break };
                let version = match &event {
                    WatchEvent::Applied(object) if object.kind() == GRAPH.kind => object.version_number(),
                    WatchEvent::Applied(_) | WatchEvent::Deleted(_) | WatchEvent::Resync => None,
                };
                relay.send(event);
                while !relay.is_read() && !relay.is_closed() {
                    tokio::task::yield_now().await;
                }
                seen.send_modify(|seen| *seen = version.unwrap_or_default().max(*seen));
            }
            seen.send_replace(u64::MAX);
        });
        Ok(receiver)
    }
}

/// A model whose graph has the components of a recording.
struct Scene<'a> {
    shop: Shop<'a, Namespaces>,
    player: RecordingPlayer,
    recording: ObjectRecording,
    serving: &'static str,
}

const AGGREGATED: &str = "{worker: {replicas: 1}}";
const DISAGGREGATED: &str = "{prefill: {replicas: 1}, decode: {replicas: 1}}";

impl<'a> Scene<'a> {
    async fn new(place: &'a Namespaces, recording: &str, serving: &'static str) -> Self {
        let recording = ObjectRecording::of(recording);
        let player = RecordingPlayer::new(place.plane.admin().await, place.home(), &recording, "llama");
        let scene = Self { shop: Shop::new(place, &[]), player, recording, serving };
        scene.model("");
        scene
    }

    /// Writes the model, with more lines in its `spec`.
    fn model(&self, more: &str) {
        let text = crate::sync::bench::model("llama", self.serving, more);
        self.shop.site.write("models/llama/model.yaml", &text);
    }

    /// Syncs and waits while the operator is played, once the sync has brought the object to a new generation. The wait
    /// must end with the first row that serves, and not before. Where none does, it is left as if it were killed.
    async fn sync_while(&self, rows: &[RecordedVersion]) -> Option<SyncReport> {
        let before = self.player.generation().await;
        let plan = self.shop.plan(&[]).await;
        let cluster = ObservedCluster::new(self.shop.cluster());
        let work = self.shop.wait_on(&cluster, plan, PATIENCE);
        let operator = async {
            eventually("a new generation", async || self.player.generation().await != before).await;
            for row in rows {
                self.player.operator(row).await;
                // From then on a wrong end of the wait shows.
                cluster.is_seen(self.shop.graph("llama").await.version_number().unwrap()).await;
                if row.serves() {
                    return true;
                }
            }
            false
        };
        tokio::pin!(work, operator);
        tokio::select! {
            biased;
            serves = &mut operator => if serves { Some(work.await) } else { None },
            report = &mut work => {
                // A watch may be faster than this test; the row that it saw must be one that serves.
                let live = self.shop.graph("llama").await;
                assert_eq!(health::assess_health(&live, None).health, Health::Healthy, "it ended early: {report:#?}");
                assert!(operator.await, "it ended before anything served: {report:#?}");
                Some(report)
            }
        }
    }
}

fn outcome(report: &SyncReport) -> (SyncOutcome, &str) {
    (report.models[0].result, report.models[0].message.as_str())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_when_the_roll_is_through() {
    let Some(place) = Namespaces::of("wait-for-a-roll").await else { return };
    let scene = Scene::new(&place, "worker-args-managed-roll", AGGREGATED).await;
    let report = scene.sync_while(&scene.recording.at(1)).await.unwrap();
    assert_eq!(outcome(&report), (SyncOutcome::Healthy, ""));
    // The operator's annotations, finalizer and status are nobody's drift.
    scene.shop.settled().await;
    scene.model("  env: {LEVEL: debug}\n");
    let report = scene.sync_while(&scene.recording.at(2)).await.unwrap();
    assert_eq!(outcome(&report), (SyncOutcome::Healthy, ""));
    scene.shop.settled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_when_the_scale_is_reached() {
    let Some(place) = Namespaces::of("wait-for-a-scale").await else { return };
    let scene = Scene::new(&place, "worker-scale-up-and-down", AGGREGATED).await;
    for (generation, replicas) in [(1, 1), (2, 3), (3, 1)] {
        scene.shop.model("llama", replicas, "");
        let report = scene.sync_while(&scene.recording.at(generation)).await.unwrap();
        assert_eq!(outcome(&report), (SyncOutcome::Healthy, ""));
        scene.shop.settled().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_image_ends_by_the_deadline_and_names_the_component() {
    let Some(place) = Namespaces::of("wait-for-a-broken-image").await else { return };
    let scene = Scene::new(&place, "worker-broken-image-then-fixed", DISAGGREGATED).await;
    let report = scene.sync_while(&scene.recording.at(1)).await.unwrap();
    assert_eq!(outcome(&report), (SyncOutcome::Healthy, ""));
    scene.model("  env: {LEVEL: broken}\n");
    assert!(scene.sync_while(&scene.recording.at(2)).await.is_none());
    let stuck = scene.shop.sync_in_vain(true, &[], "rolling update").await;
    assert!(stuck.timed_out, "{stuck:#?}");
    insta::assert_snapshot!(format!("{:?} {}", outcome(&stuck).0, place.said(outcome(&stuck).1)), @"Unhealthy timed out after TIME; DynamoGraphDeployment prod/llama: rolling update: decode 1 of 2 updated");
    // It is applied as git says; only the fix is left to do.
    scene.shop.settled().await;
    scene.model("");
    let report = scene.sync_while(&scene.recording.at(3)).await.unwrap();
    assert_eq!(outcome(&report), (SyncOutcome::Healthy, ""));
    scene.shop.settled().await;
}

/// Deleted by somebody else while a sync waits for it: it serves as before, until the finalizer lets go, and must not
/// count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_being_deleted_is_not_healthy() {
    let Some(place) = Namespaces::of("wait-for-what-goes").await else { return };
    let scene = Scene::new(&place, "frontend-image", AGGREGATED).await;
    scene.sync_while(&scene.recording.at(1)).await.unwrap();
    scene.player.delete().await;
    let live = scene.shop.graph("llama").await;
    let stuck = scene.shop.sync_in_vain(true, &[], "still being deleted").await;
    assert!(!stuck.is_success(), "{stuck:#?}");
    insta::assert_snapshot!(format!("{:?} {}", outcome(&stuck).0, place.said(outcome(&stuck).1)), @"Unhealthy timed out after TIME; DynamoGraphDeployment prod/llama is still being deleted (waiting for finalizer nvidia.com/finalizer)");
    assert_eq!(health::assess_health(&live, None).health, Health::Progressing);
    assert_eq!(live.kind(), GRAPH.kind);
}
