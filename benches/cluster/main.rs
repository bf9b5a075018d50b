//! How stator does on a real API server: a first sync against the same objects applied by a bare loop, what an
//! unchanged, a slightly changed and a drifted environment cost, and peak memory.
//!
//! `cargo bench --bench cluster` starts etcd, kube-apiserver and kube-controller-manager as the tests do, makes an
//! environment of 1,000 models (`-- --models N` for another number), and prints the table that `docs/performance.md`
//! shows. Both sides of the comparison run in the same run on the same control plane, with as many calls at a time.
//! Requests are counted by the API server itself.

mod counts;
mod environment;
#[path = "../../tests/support/testbed/mod.rs"]
mod testbed;

use counts::RequestCounter;
use environment::Environment;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use stator_cluster::cluster::kube::{ConnectOptions, KubeCluster};
use stator_cluster::cluster::{Cluster, Preconditions, WatchEvent};
use stator_core::dynamo::kinds;
use stator_core::object::Object;
use std::collections::VecDeque;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use testbed::{ControlPlane, Programs};

/// The binary's own, so that what is measured here is what runs there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        // `cargo test --benches` only asks whether the harness builds; the numbers are made by `cargo bench`.
        return Ok(());
    }
    let value = |flag: &str| arguments.iter().position(|a| a == flag).and_then(|at| arguments.get(at + 1)).cloned();
    let models: usize = value("--models").map_or(Ok(1000), |text| text.parse())?;
    let plane = ControlPlane::start(&Programs::find()?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(&plane, models))
}

#[expect(clippy::print_stdout, reason = "a benchmark's result is what it prints")]
fn print_line(line: &str) {
    println!("{line}");
}

async fn measure(plane: &ControlPlane, models: usize) -> Fallible<()> {
    let kube =
        KubeCluster::connect(ConnectOptions { kubeconfig: Some(plane.kubeconfig()), ..ConnectOptions::default() })
            .await?;
    let client = plane.admin().await;
    let counts = RequestCounter::of(client.clone());
    let concurrency = environment::concurrency();
    print_line(&format!(
        "{models} models, {} cores, {concurrency} calls at a time\n",
        std::thread::available_parallelism()?
    ));
    print_line("| phase | rate against the bare loop | requests | peak memory | what it did |");
    print_line("|-|-:|-|-:|-|");

    // The bare loop before and after, so that neither side has the better moment of the control plane.
    let mut bare = Vec::new();
    bare.push(bare_loop(plane, &client, "bare-first", models, concurrency).await?);
    let environment = Environment::new(plane, "bench", models).await?;
    let before = counts.now().await?;
    environment::forget_peak()?;
    let start = Instant::now();
    let last_graph = Mutex::new(Duration::ZERO);
    let note_graph = || {
        if let Ok(mut last) = last_graph.lock() {
            *last = start.elapsed();
        }
    };
    let report = environment.sync(&kube, &note_graph).await?;
    let first = start.elapsed();
    let last_graph = *last_graph.lock().map_err(|error| error.to_string())?;
    let peak = environment::peak_mib()?;
    let requests = counts.now().await?.since(&before);
    bare.push(bare_loop(plane, &client, "bare-second", models, concurrency).await?);
    let mean = bare.iter().map(Duration::as_secs_f64).sum::<f64>() / bare.len() as f64;
    let rates = |seconds: f64| format!("{:.0} %", 100.0 * mean / seconds);
    print_line(&format!(
        "| bare loop | 100 % | {models} applies | | the same objects by `kube`, nothing else: {:.1} ms each |",
        1000.0 * mean / models as f64
    ));
    let did = format!("{} writes for {} models", report.writes, report.models.len());
    let start_to_graph = rates(last_graph.as_secs_f64());
    print_line(&format!("| first sync, to the last graph | {start_to_graph} | | | from the first file read |"));
    let times = first.as_secs_f64() / mean;
    let did = format!("{did}; {times:.2} times one bare loop");
    print_line(&format!(
        "| the same, to the last record | {} | {requests} | {peak} MiB | {did} |",
        rates(first.as_secs_f64())
    ));

    for (phase, change) in [("unchanged", false), ("one changed", true)] {
        if change {
            environment.change_one()?;
        }
        let before = counts.now().await?;
        environment::forget_peak()?;
        let start = Instant::now();
        let report = environment.sync(&kube, &|| {}).await?;
        let took = start.elapsed();
        let requests = counts.now().await?.since(&before);
        if !change && report.writes > 0 {
            return Err(format!("an unchanged sync wrote: {report:?}").into());
        }
        let did = format!("{} writes; {:.2} times one bare loop", report.writes, took.as_secs_f64() / mean);
        print_line(&format!("| {phase} | | {requests} | {} MiB | {did} |", environment::peak_mib()?));
    }

    let healed = drift(&kube, &environment).await?;
    print_line(&format!(
        "| drift healed | | | | from the watch's event of a deleted graph until it is there again: the time of {:.0} bare applies |",
        healed.as_secs_f64() / (mean / models as f64)
    ));
    Ok(())
}

/// The lower bound: the objects of the same models in a namespace of their own, each applied once, so many at a time.
async fn bare_loop(
    plane: &ControlPlane,
    client: &kube::Client,
    namespace: &str,
    models: usize,
    concurrency: usize,
) -> Fallible<Duration> {
    let environment = Environment::new(plane, namespace, models).await?;
    let objects: Arc<Mutex<VecDeque<Object>>> = Arc::new(Mutex::new(environment.objects()?.into()));
    let start = Instant::now();
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..concurrency {
        let (objects, client, namespace) = (objects.clone(), client.clone(), namespace.to_owned());
        workers.spawn(async move {
            let api = graphs(client, &namespace);
            let params = PatchParams::apply(kinds::FIELD_MANAGER);
            loop {
                let next = objects.lock().map_err(|error| error.to_string())?.pop_front();
                let Some(object) = next else { return Ok::<(), Box<dyn Error + Send + Sync>>(()) };
                api.patch(object.name(), &params, &Patch::Apply(object.value())).await?;
            }
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    Ok(start.elapsed())
}

fn graphs(client: kube::Client, namespace: &str) -> Api<DynamicObject> {
    let kind = kinds::GRAPH;
    let resource = ApiResource {
        group: kind.group.to_owned(),
        version: kind.version.to_owned(),
        api_version: kind.api_version(),
        kind: kind.kind.to_owned(),
        plural: kind.plural.to_owned(),
    };
    Api::namespaced_with(client, namespace, &resource)
}

/// Somebody deletes a graph by hand; from the moment that a watch says so until it is as git says again.
async fn drift(kube: &KubeCluster, environment: &Environment) -> Fallible<Duration> {
    let mut events = kube.watch(&[kinds::GRAPH], Some(environment.namespace())).await?;
    let graph = environment.objects()?.pop().ok_or("no graph")?;
    kube.delete(&graph.reference(), &Preconditions::default()).await?;
    while !matches!(events.recv().await, Some(WatchEvent::Deleted(_))) {}
    let start = Instant::now();
    let report = environment.sync(kube, &|| {}).await?;
    match report.writes {
        0 => Err("the drift was not healed".into()),
        _ => Ok(start.elapsed()),
    }
}
