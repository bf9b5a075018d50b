//! Seeded schedules of faults over several processes on both implementations of a cluster: whatever goes wrong, the end is the one without
//! faults, nothing is deleted that git did not give up, and no object is written more than its changes explain.
//!
//! `STATOR_CLUSTER_SCHEDULES` says how many are tried on each (10; a nightly run takes 300 on the API server), and `STATOR_SCHEDULE_SEED` from
//! which seed on.

use super::crash::{make_ready, objects, uids};
use super::faulty::{Chance, Faulty, History};
use super::pipeline::Site;
use super::workloads::{APART, TWO_WORKERS, WORKER, adapters, weights, write};
use crate::{schedule_seeds, testbed};
use futures_util::{StreamExt as _, stream};
use serde_json::Value;
use stator_cluster::cluster::Cluster;
use stator_cluster::cluster::embedded::{EmbeddedCluster, EmbeddedOptions};
use stator_cluster::cluster::kube::{ConnectOptions, KubeCluster};
use stator_cluster::sync::{SyncOptions, run_sync};
use stator_core::dynamo::kinds;
use stator_core::object::Object;
use stator_model::plan::{Change, HoldKind};
use std::collections::BTreeMap;
use std::time::Duration;

/// How many are tried.
const COUNT: &str = "STATOR_CLUSTER_SCHEDULES";

/// More rounds than anything takes until nothing is left to do.
const ROUNDS: usize = 6;
/// Schedules that are tried at the same time, each in a namespace of its own.
const AT_ONCE: usize = 6;
/// Graphs are replaced without a question.
const ALLOW: &[HoldKind] = &[HoldKind::Replace, HoldKind::MassDelete];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_goes_wrong_the_end_is_the_one_without_faults_on_the_embedded_cluster() {
    try_schedules(async |_| {
        let folder = tempfile::tempdir().unwrap();
        (EmbeddedCluster::open(folder.path(), EmbeddedOptions::default()).unwrap(), Some(folder))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_goes_wrong_the_end_is_the_one_without_faults_on_a_real_api_server() {
    let Some(plane) = testbed::shared() else { return };
    let kubeconfig = Some(plane.kubeconfig());
    let kube = KubeCluster::connect(ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await.unwrap();
    try_schedules(async |namespace: &str| {
        plane.namespace(namespace).await;
        (kube.clone(), None::<tempfile::TempDir>)
    })
    .await;
}

async fn try_schedules<C: Cluster, G>(place: impl AsyncFn(&str) -> (C, G)) {
    let place = &place;
    let schedules = stream::iter(schedule_seeds::seeds(COUNT, 10)).for_each_concurrent(AT_ONCE, async |seed| {
        if let Err(why) = compare(place, seed).await {
            panic!("{why}\n{}", schedule_seeds::how_to_repeat(COUNT, seed));
        }
    });
    schedules.await;
}

/// What a run left behind.
#[derive(Debug, PartialEq)]
struct End {
    objects: BTreeMap<String, Value>,
    /// How often each object was deleted.
    deleted: BTreeMap<String, usize>,
    /// Objects that were there before and after: whether they are the same ones.
    same: BTreeMap<String, bool>,
}

/// Some of four models, by chance.
fn repository(site: &Site, chance: &mut Chance) -> String {
    let _ = fs_err::remove_dir_all(site.path("models"));
    let mut said = Vec::new();
    for name in ["a", "b", "c", "d"] {
        // One is always there: that git has nothing at all is another story.
        if name != "a" && chance.one_in(3) {
            continue;
        }
        let serving = [WORKER, TWO_WORKERS, APART][chance.below(3)];
        let mut more = if chance.one_in(3) { weights(&format!("weights-{name}")) } else { String::new() };
        if chance.one_in(3) {
            let chosen: Vec<String> = (0..=chance.below(2)).map(|number| format!("{name}-{number}")).collect();
            more += &adapters(&chosen.iter().map(String::as_str).collect::<Vec<_>>());
        }
        write(site, name, serving, &more);
        said.push(format!("{name} {serving} {}", more.trim().replace('\n', " ")));
    }
    said.join("; ")
}

/// Runs a schedule without its faults and with them.
async fn compare<C: Cluster, G>(place: &impl AsyncFn(&str) -> (C, G), seed: u64) -> Result<(), String> {
    let undisturbed = run(place, seed, &History::new(seed), 0).await?;
    let history = History::new(seed);
    let end = run(place, seed, &history, 4).await;
    let told = |why: String| format!("{}\n{why}", history.story.lock().unwrap().join("\n"));
    let end = end.map_err(told)?;
    if undisturbed == end {
        return Ok(());
    }
    let (one, other) = (format!("{undisturbed:#?}"), format!("{end:#?}"));
    Err(told(stator_model::present::patch::unified_diff(("undisturbed", &one), ("with faults", &other))))
}

/// Runs a schedule to its end, and says what it left; without odds nothing goes wrong.
async fn run<C: Cluster, G>(
    place: &impl AsyncFn(&str) -> (C, G),
    seed: u64,
    history: &History,
    odds: usize,
) -> Result<End, String> {
    let namespace = format!("schedule-{seed}-{odds}");
    let (cluster, _guard) = place(&namespace).await;
    let site = Site::of(&namespace);
    let mut chance = Chance::new(seed);
    history.tell(format!("git has {}", repository(&site, &mut chance)));
    converge(&site, &cluster, &History::new(seed)).await?;
    let start = uids(&cluster, &namespace).await;
    history.tell(format!("and then {}", repository(&site, &mut chance)));
    let changed = pending(&site, &cluster).await.len();

    let mut views: Vec<Vec<Object>> = Vec::new();
    if odds > 0 {
        for _ in 0..=history.below(4) {
            live_and_die(&site, &cluster, history, odds, &mut views).await;
        }
    }
    history.arrive(&cluster, true).await;
    history.tell("nothing goes wrong any more".to_owned());
    converge(&site, &cluster, history).await?;

    let left = pending(&site, &cluster).await;
    if !left.is_empty() {
        return Err(format!("still to do: {left:#?}"));
    }
    let report = site.sync_at(&cluster, false, ALLOW, 1).await;
    if report.writes > 0 {
        return Err(format!("a further sync writes: {report:#?}"));
    }
    let writes = history.writes.lock().unwrap().clone();
    if writes.len() > 2 * changed {
        return Err(format!("{} writes for {changed} changes: {writes:#?}", writes.len()));
    }
    let end = uids(&cluster, &namespace).await;
    let same = start.iter().filter_map(|(name, uid)| Some((name.clone(), end.get(name)? == uid))).collect();
    Ok(End { objects: objects(&cluster, &namespace).await, deleted: history.deleted(), same })
}

/// What is left to write.
async fn pending(site: &Site, cluster: &impl Cluster) -> Vec<Change> {
    let (plan, _) = site.plan(cluster, ALLOW).await;
    plan.changes.into_iter().filter(|change| change.step.write().is_some()).collect()
}

/// A process that plans from what it sees, or saw, and syncs until it is through, dead, or told to stop.
async fn live_and_die<C: Cluster>(
    site: &Site,
    cluster: &C,
    history: &History,
    odds: usize,
    views: &mut Vec<Vec<Object>>,
) {
    let faulty = Faulty::new(cluster, history, odds);
    let is_stale = !views.is_empty() && history.one_in(4);
    if is_stale {
        let index = history.below(views.len());
        *faulty.stale.lock().unwrap() = Some(views[index].clone());
    }
    let mut view = Vec::new();
    for kind in kinds::ALL {
        view.extend(cluster.list(kind, Some(site.namespace()), &BTreeMap::new()).await.unwrap());
    }
    views.push(view);
    let (plan, gathered) = site.plan(&faulty, ALLOW).await;
    *faulty.stale.lock().unwrap() = None;
    let wait = history.one_in(3);
    history.tell(format!("a process plans{}", if is_stale { " from a stale view" } else { "" }));
    // The wall clock is what it was set to.
    let days = i64::try_from(history.below(1000)).unwrap() - 500;
    let started =
        "2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap() + jiff::SignedDuration::from_hours(24 * days);
    let timeout = Some(Duration::from_secs(if wait { 1 } else { 60 }));
    let options = SyncOptions { wait, concurrency: 1, timeout, ..SyncOptions::new(started, 7) };
    let (stop, cancel) = tokio::sync::watch::channel(None);
    if history.one_in(6) {
        history.tell("it is told to stop".to_owned());
        let _ = stop.send(Some(stator_cluster::sync::CancelReason::Interrupted));
    }
    run_sync(&faulty, plan, gathered.bookkeeping(), options, &|_| {}, cancel).await;
    if history.one_in(2) {
        make_ready(cluster, site.namespace()).await;
    }
}

/// Syncs, lets graphs become Ready, and syncs again, until nothing happens any more.
async fn converge<C: Cluster>(site: &Site, cluster: &C, history: &History) -> Result<(), String> {
    for _ in 0..ROUNDS {
        let report = site.sync_at(&Faulty::new(cluster, history, 0), false, ALLOW, 1).await;
        if report.writes + make_ready(cluster, site.namespace()).await == 0 {
            return Ok(());
        }
    }
    Err("it does not come to rest".to_owned())
}
