//! A crash between any two writes: the next sync ends where an undisturbed one would have. One test for both
//! implementations of a cluster. Nothing but a write is left of a process, so that one which dies before a write leaves what
//! one leaves that died after the write before.

use super::pipeline::{Dying, Site};
use super::workloads::{self, WORKLOADS, Workload};
use crate::testbed;
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use stator_cluster::cluster::kube::{ConnectOptions, KubeCluster};
use stator_cluster::cluster::{ApplyRequest, Cluster};
use stator_core::dynamo::health::assess_health;
use stator_core::dynamo::kinds;
use stator_core::object::{Object, ObjectRef};
use stator_model::plan::{Action, HoldKind};
use stator_model::present::patch::unified_diff;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// More rounds than any workload takes until nothing is left to do.
const ROUNDS: usize = 5;
/// Workloads that are tried at the same time, and crashes of each, every one in a namespace of its own.
const AT_ONCE: (usize, usize) = (4, 3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_write_may_be_the_last_on_the_embedded_cluster() {
    every_write_may_be_the_last(async |_| {
        let folder = tempfile::tempdir().unwrap();
        let options = stator_cluster::cluster::embedded::EmbeddedOptions::default();
        let cluster = stator_cluster::cluster::embedded::EmbeddedCluster::open(folder.path(), options).unwrap();
        (cluster, Some(folder))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_write_may_be_the_last_on_a_real_api_server() {
    let Some(plane) = testbed::shared() else { return };
    let kube =
        KubeCluster::connect(ConnectOptions { kubeconfig: Some(plane.kubeconfig()), ..ConnectOptions::default() })
            .await
            .unwrap();
    every_write_may_be_the_last(async |namespace: &str| {
        plane.namespace(namespace).await;
        (kube.clone(), None::<tempfile::TempDir>)
    })
    .await;
}

/// What a run left behind.
#[derive(Debug, PartialEq)]
struct End {
    /// Every object, without what differs from run to run.
    objects: BTreeMap<String, Value>,
    /// How often each object was deleted.
    deleted: BTreeMap<String, usize>,
    /// Objects that were there before and after: whether they are the same ones.
    same: BTreeMap<String, bool>,
}

async fn every_write_may_be_the_last<C: Cluster, G>(place: impl AsyncFn(&str) -> (C, G)) {
    let place = &place;
    let workloads = stream::iter(WORKLOADS).for_each_concurrent(AT_ONCE.0, async |workload| {
        let (undisturbed, writes) = run(place, workload, None).await;
        assert!(writes > 0, "{}: nothing is written", workload.name);
        let undisturbed = &undisturbed;
        let crashes = std::iter::once((1, false)).chain((1..=writes).map(|write| (write, true)));
        let crashes = stream::iter(crashes).for_each_concurrent(AT_ONCE.1, async |(write, after)| {
            let (end, _) = run(place, workload, Some((write, after))).await;
            let when = if after { "after" } else { "before" };
            let (one, other) = (format!("{undisturbed:#?}"), format!("{end:#?}"));
            let diff = unified_diff(("undisturbed", &one), ("after the crash", &other));
            assert!(end == *undisturbed, "{}: crash {when} write {write} of {writes}\n{diff}", workload.name);
        });
        crashes.await;
    });
    workloads.await;
}

/// Runs a workload to its end, dying once if asked to. What it left, and how many writes there were.
async fn run<C: Cluster, G>(
    place: &impl AsyncFn(&str) -> (C, G),
    workload: &Workload,
    crash: Option<(usize, bool)>,
) -> (End, usize) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let namespace = format!("crash-{}-{}", workload.name, COUNT.fetch_add(1, Ordering::SeqCst));
    let (cluster, _guard) = place(&namespace).await;
    let site = Site::of(&namespace);
    (workload.before)(&site);
    for object in (workload.others)(&namespace) {
        cluster.apply(&ApplyRequest::new(object, "helm")).await.unwrap();
    }
    converge(&site, &Dying::new(&cluster, usize::MAX, true), &cluster, workload).await;
    let start = uids(&cluster, &namespace).await;

    (workload.then)(&site);
    for object in (workload.meanwhile)(&namespace) {
        let request = ApplyRequest { force: true, ..ApplyRequest::new(object, "kubectl-edit") };
        cluster.apply(&request).await.unwrap();
    }
    let (last, after) = crash.unwrap_or((usize::MAX, true));
    let dying = Dying::new(&cluster, last, after).refusing(workload.refused);
    converge(&site, &dying, &cluster, workload).await;
    let writes = dying.writes();
    let mut deleted = dying.deleted();
    if crash.is_some() {
        assert!(dying.died(), "{}: write {last} was never reached", workload.name);
        // The next process knows what the cluster holds, and nothing else.
        let next = Dying::new(&cluster, usize::MAX, true).refusing(workload.refused);
        converge(&site, &next, &cluster, workload).await;
        for (object, times) in next.deleted() {
            *deleted.entry(object).or_default() += times;
        }
    }
    let (plan, _) = site.plan(&cluster, workload.allow).await;
    let left = plan.changes.iter().filter(|change| change.step.write().is_some()).count();
    assert_eq!(left, workload.left, "{}: crash {crash:?}: {:#?}", workload.name, plan.changes);
    let blocked = plan.changes.iter().filter(|change| change.action == Action::Blocked).count();
    assert_eq!(blocked, workload.blocked, "{}: crash {crash:?}: {:#?}", workload.name, plan.changes);
    let idle = Dying::new(&cluster, usize::MAX, true);
    if workload.left == 0 {
        site.sync_on(&idle, false, workload.allow).await;
        assert_eq!(idle.writes(), 0, "{}: crash {crash:?}: a further sync writes", workload.name);
    }
    let end = uids(&cluster, &namespace).await;
    let same = start.iter().filter_map(|(name, uid)| Some((name.clone(), end.get(name)? == uid))).collect();
    (End { objects: objects(&cluster, &namespace).await, deleted, same }, writes)
}

/// Syncs, lets graphs become Ready, and syncs again, until nothing happens any more or the process is dead.
async fn converge<C: Cluster>(site: &Site, through: &Dying<'_, C>, cluster: &C, workload: &Workload) {
    for _ in 0..ROUNDS {
        let report = site.sync_at(through, false, workload.allow, 1).await;
        if through.died() || report.writes + make_ready(cluster, site.namespace()).await == 0 {
            return;
        }
    }
    panic!("{}: does not come to rest", workload.name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_git_removed_after_the_crash_is_deleted_once_on_the_embedded_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let options = stator_cluster::cluster::embedded::EmbeddedOptions::default();
    let cluster = stator_cluster::cluster::embedded::EmbeddedCluster::open(folder.path(), options).unwrap();
    what_git_removed_after_the_crash_is_deleted_once(async |_| cluster.clone()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_git_removed_after_the_crash_is_deleted_once_on_a_real_api_server() {
    let Some(plane) = testbed::shared() else { return };
    let kubeconfig = Some(plane.kubeconfig());
    let kube = KubeCluster::connect(ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await.unwrap();
    what_git_removed_after_the_crash_is_deleted_once(async |namespace: &str| {
        plane.namespace(namespace).await;
        kube.clone()
    })
    .await;
}

/// A process dies after some write of a model's first sync, and git has the model no more when the next one starts.
async fn what_git_removed_after_the_crash_is_deleted_once<C: Cluster>(place: impl AsyncFn(&str) -> C) {
    let quiet = Workload { name: "removed-after-a-crash", ..workloads::NOTHING };
    for last in 1.. {
        let namespace = format!("crash-removed-{last}");
        let cluster = place(&namespace).await;
        let site = Site::of(&namespace);
        site.model("kept", 1);
        converge(&site, &Dying::new(&cluster, usize::MAX, true), &cluster, &quiet).await;
        let before = uids(&cluster, &namespace).await;

        site.model("new", 1);
        let dying = Dying::new(&cluster, last, true);
        site.sync_at(&dying, false, &[], 1).await;
        let began = uids(&cluster, &namespace).await;
        site.remove("new");
        let next = Dying::new(&cluster, usize::MAX, true);
        converge(&site, &next, &cluster, &quiet).await;
        assert_eq!(uids(&cluster, &namespace).await, before, "dead after write {last}");
        let deleted = began.into_keys().filter(|name| !before.contains_key(name)).map(|name| (name, 1));
        // Every sync deletes journals.
        let deleted = deleted.filter(|(name, _)| !name.starts_with(kinds::JOURNAL.kind)).collect();
        assert_eq!(next.deleted(), deleted, "dead after write {last}");
        if !dying.died() {
            assert!(last > 2, "a first sync writes the record and the graph");
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replacement_that_git_changes_after_the_crash_ends_as_one_graph_on_the_embedded_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let options = stator_cluster::cluster::embedded::EmbeddedOptions::default();
    let cluster = stator_cluster::cluster::embedded::EmbeddedCluster::open(folder.path(), options).unwrap();
    a_replacement_that_git_changes_after_the_crash_ends_as_one_graph(async |_| cluster.clone()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replacement_that_git_changes_after_the_crash_ends_as_one_graph_on_a_real_api_server() {
    let Some(plane) = testbed::shared() else { return };
    let kubeconfig = Some(plane.kubeconfig());
    let kube = KubeCluster::connect(ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await.unwrap();
    a_replacement_that_git_changes_after_the_crash_ends_as_one_graph(async |namespace: &str| {
        plane.namespace(namespace).await;
        kube.clone()
    })
    .await;
}

/// A process dies after some write of a replacement that brings the new graph up first, and git takes that back, or wants a
/// third graph, when the next one starts: something serves all the time, one graph is left, and none is deleted twice.
async fn a_replacement_that_git_changes_after_the_crash_ends_as_one_graph<C: Cluster>(place: impl AsyncFn(&str) -> C) {
    let replacing = Workload { name: "changed-after-a-crash", allow: &[HoldKind::Replace], ..workloads::NOTHING };
    for (index, next) in [workloads::TOGETHER, workloads::SOLO].into_iter().enumerate() {
        for last in 1.. {
            let namespace = format!("crash-changed-{index}-{last}");
            let cluster = place(&namespace).await;
            let site = Site::of(&namespace);
            workloads::write_new_first(&site, workloads::TOGETHER);
            converge(&site, &Dying::new(&cluster, usize::MAX, true), &cluster, &replacing).await;

            workloads::write_new_first(&site, workloads::APART);
            let dying = Dying::new(&cluster, last, true);
            converge(&site, &dying, &cluster, &replacing).await;
            let died = dying.died();
            workloads::write_new_first(&site, next);
            let again = Dying::new(&cluster, usize::MAX, true);
            for _ in 0..ROUNDS {
                let report = site.sync_at(&again, false, replacing.allow, 1).await;
                let graphs = cluster.list(&kinds::GRAPH, Some(&namespace), &BTreeMap::new()).await.unwrap();
                let is_good = |graph: &Object| assess_health(graph, None).health.is_good();
                assert!(graphs.iter().any(is_good), "dead after write {last}: nothing serves");
                assert!(graphs.len() <= 2, "dead after write {last}: {graphs:#?}");
                if report.writes + make_ready(&cluster, &namespace).await == 0 {
                    break;
                }
            }
            let (plan, _) = site.plan(&cluster, replacing.allow).await;
            let left: Vec<_> = plan.changes.iter().filter(|change| change.action != Action::Keep).collect();
            assert!(left.is_empty(), "dead after write {last}: {left:#?}");
            let graphs = cluster.list(&kinds::GRAPH, Some(&namespace), &BTreeMap::new()).await.unwrap();
            assert_eq!(graphs.len(), 1, "dead after write {last}");
            let twice = |deleted: BTreeMap<String, usize>| deleted.values().any(|times| *times > 1);
            assert!(!twice(dying.deleted()) && !twice(again.deleted()), "dead after write {last}");
            if !died {
                assert!(last > 4, "record, graph, record, and the deletion");
                break;
            }
        }
    }
}

/// What Dynamo's operator says of a graph whose pods run.
/// How many were not so before.
pub async fn make_ready(cluster: &impl Cluster, namespace: &str) -> usize {
    let mut changed = complete_downloads(cluster, namespace).await;
    for graph in cluster.list(&kinds::GRAPH, Some(namespace), &BTreeMap::new()).await.unwrap() {
        if graph.generation().is_some_and(|generation| graph.status()["observedGeneration"] == generation) {
            continue;
        }
        let ObjectRef { api_version, kind, namespace, name } = graph.reference();
        let ready = json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace},
            "status": {
                "observedGeneration": graph.generation(), "state": "successful",
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "all_resources_are_ready", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            },
        });
        let ready = ApplyRequest::new(Object::from_value(ready).unwrap(), "manager");
        cluster.apply(&ApplyRequest { status: true, force: true, ..ready }).await.unwrap();
        changed += 1;
    }
    changed
}

/// Says of every Job that it is complete, as the Job controller does.
async fn complete_downloads(cluster: &impl Cluster, namespace: &str) -> usize {
    let mut changed = 0;
    for job in cluster.list(&kinds::JOB, Some(namespace), &BTreeMap::new()).await.unwrap() {
        if job.status().get("succeeded").is_some() {
            continue;
        }
        let time = "2026-01-01T00:00:00Z";
        let condition = |kind: &str| {
            json!({"type": kind, "status": "True", "reason": "CompletionsReached", "message": "",
                "lastProbeTime": time, "lastTransitionTime": time})
        };
        let ObjectRef { api_version, kind, namespace, name } = job.reference();
        let complete = json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace},
            "status": {
                "startTime": time, "completionTime": time, "succeeded": 1,
                "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
            },
        });
        let complete = ApplyRequest::new(Object::from_value(complete).unwrap(), "manager");
        cluster.apply(&ApplyRequest { status: true, force: true, ..complete }).await.unwrap();
        changed += 1;
    }
    changed
}

async fn all(cluster: &impl Cluster, namespace: &str) -> Vec<Object> {
    let mut found = Vec::new();
    for kind in kinds::ALL {
        found.extend(cluster.list(kind, Some(namespace), &BTreeMap::new()).await.unwrap());
    }
    found
}

fn named(object: &Object) -> String {
    format!("{} {}", object.kind(), object.name())
}

pub async fn uids(cluster: &impl Cluster, namespace: &str) -> BTreeMap<String, String> {
    let all = all(cluster, namespace).await;
    all.iter().filter_map(|one| Some((named(one), one.uid()?.to_owned()))).collect()
}

/// Every object without uids, times, resource versions and the namespace. In a record, an entry has the uid of what is
/// there.
pub async fn objects(cluster: &impl Cluster, namespace: &str) -> BTreeMap<String, Value> {
    let uids = uids(cluster, namespace).await;
    // The name of an ApplySet is a digest of where it is.
    let apply_set = regex::Regex::new("applyset-[A-Za-z0-9_-]{43}-v1").unwrap();
    let mut found = BTreeMap::new();
    for object in all(cluster, namespace).await {
        let name = named(&object);
        let mut value = object.into_value();
        let metadata = value["metadata"].as_object_mut().unwrap();
        for field in ["uid", "resourceVersion", "creationTimestamp", "namespace"] {
            metadata.remove(field);
        }
        let entries = metadata.get_mut("managedFields").and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten() {
            entry.as_object_mut().unwrap().remove("time");
        }
        if let Some(entries) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) {
            entries.sort_by_key(ToString::to_string);
        }
        if name.starts_with("Job ") {
            // The server selects pods by the Job's uid.
            let spec = value["spec"].as_object_mut().unwrap();
            spec.remove("selector");
            spec["template"].as_object_mut().unwrap().remove("metadata");
        }
        if name.starts_with("Model ") {
            let status = value["status"].as_object_mut().unwrap();
            // A second try may say in other lines what was done, and at another time.
            status.retain(|field, _| field == "inventory");
            for entry in status["inventory"].as_array_mut().unwrap() {
                let entry = entry.as_object_mut().unwrap();
                let of = format!("{} {}", entry["kind"].as_str().unwrap(), entry["name"].as_str().unwrap());
                // Of the object with its namespace in it; that a further plan keeps everything says that it is right.
                let digest = entry.remove("digest");
                entry.insert("digested".to_owned(), json!(digest.is_some_and(|digest| digest != "")));
                // It moves with every scaling, and is no reason to write.
                entry.remove("generation");
                let uid = entry.remove("uid");
                entry.insert(
                    "uid".to_owned(),
                    json!(match (uid.as_ref().and_then(Value::as_str), uids.get(&of)) {
                        (Some(uid), Some(live)) if uid == live => "its own",
                        (Some(_), _) => "another",
                        (None, _) => "none",
                    }),
                );
            }
        }
        // Who serves it, and every record, says where it is.
        let text = value.to_string().replace(namespace, "prod");
        let text = apply_set.replace_all(&text, "its own ApplySet");
        found.insert(name, serde_json::from_str(&text).unwrap());
    }
    found
}
