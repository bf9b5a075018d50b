//! How stator does on a real API server: a first sync against the same objects applied by a bare loop, what an
//! unchanged, a slightly changed and a drifted environment cost, and peak memory.
//!
//! `cargo bench --bench cluster` starts etcd, kube-apiserver and kube-controller-manager as the tests do, makes an
//! environment of 1,000 models (`-- --models N` for another number), and prints the table that `docs/performance.md`
//! shows. Both sides of the comparison run in the same run on the same control plane, with as many calls at a time.
//! Requests are counted by the API server itself. `-- --json FILE` writes the rows as well.

#[path = "../shared/bare_loop.rs"]
mod bare_loop;
#[path = "../shared/counts.rs"]
mod counts;
mod environment;
#[path = "../shared/report.rs"]
mod report;
#[path = "../../tests/support/testbed/mod.rs"]
mod testbed;

use bare_loop::bare_loop;
use counts::RequestCounter;
use environment::Environment;
use report::{Flags, RatioUnit, Report};
use stator_cluster::cluster::kube::{ConnectOptions, KubeCluster};
use stator_cluster::cluster::{Cluster, Preconditions, WatchEvent};
use stator_core::dynamo::kinds;
use std::error::Error;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use testbed::{ControlPlane, Programs};

/// The binary's own, so that what is measured here is what runs there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Fallible<()> {
    let Some(flags) = Flags::of_bench() else { return Ok(()) };
    let models = flags.number("--models", 1000)?;
    let plane = ControlPlane::start(&Programs::find()?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut report =
        Report::new("cluster", serde_json::json!({"models": models, "calls at a time": bare_loop::concurrency()}));
    runtime.block_on(measure(&plane, models, &mut report))?;
    report.write(flags.text("--json"))
}

async fn measure(plane: &ControlPlane, models: usize, report: &mut Report) -> Fallible<()> {
    let kube =
        KubeCluster::connect(ConnectOptions { kubeconfig: Some(plane.kubeconfig()), ..ConnectOptions::default() })
            .await?;
    let client = plane.admin().await;
    let counts = RequestCounter::of(client.clone());
    // The bare loop before and after, so that neither side has the better moment of the control plane.
    let before = bare(plane, &client, "bare-first", models).await?;
    let environment = Environment::new(plane, "bench", models).await?;
    let first = first_sync(&kube, &environment, &counts).await?;
    let after = bare(plane, &client, "bare-second", models).await?;
    let mean = (before + after).as_secs_f64() / 2.0;
    let each = 1000.0 * mean / models as f64;
    report.row("bare loop, each object", (each, "ms"), &format!("{each:.1} ms"), "");
    let rate = |time: Duration| mean / time.as_secs_f64();
    report.ratio(
        "first sync to the last graph, of the bare loop's rate",
        rate(first.last_graph),
        RatioUnit::Percent,
        "≥ 95 %",
    );
    let times = |time: Duration| time.as_secs_f64() / mean;
    report.ratio("first sync to the last record, in bare loops", times(first.last_record), RatioUnit::Times, "");
    report.count("requests of a first sync", first.requests.total(), "requests", &first.requests.to_string());
    report.row("peak memory of a first sync", (first.peak as f64, "MiB"), &format!("{} MiB", first.peak), "");
    for (phase, change) in [("unchanged", false), ("one changed", true)] {
        if change {
            environment.change_one()?;
        }
        let before = counts.now().await?;
        environment::forget_peak()?;
        let start = Instant::now();
        let done = environment.sync(&kube, &|| {}).await?;
        let took = start.elapsed();
        let requests = counts.now().await?.since(&before);
        if !change && done.writes > 0 {
            return Err(format!("an unchanged sync wrote: {done:?}").into());
        }
        report.ratio(&format!("{phase}, in bare loops"), times(took), RatioUnit::Times, "");
        report.count(&format!("{phase}: requests"), requests.total(), "requests", &requests.to_string());
        let peak = environment::peak_mib()?;
        report.row(&format!("{phase}: peak memory"), (peak as f64, "MiB"), &format!("{peak} MiB"), "");
    }
    let healed = drift(&kube, &environment).await?.as_secs_f64() / (mean / models as f64);
    let what = "drift, from the watch's event of a deleted graph until it is there again, in bare applies";
    report.row(what, (healed, "applies"), &format!("{healed:.0} applies"), "");
    Ok(())
}

/// What a first sync took.
struct FirstSync {
    last_graph: Duration,
    last_record: Duration,
    requests: counts::RequestCounts,
    peak: u64,
}

async fn first_sync(kube: &KubeCluster, environment: &Environment, counts: &RequestCounter) -> Fallible<FirstSync> {
    let before = counts.now().await?;
    environment::forget_peak()?;
    let start = Instant::now();
    let last_graph = Mutex::new(Duration::ZERO);
    let note_graph = || {
        if let Ok(mut last) = last_graph.lock() {
            *last = start.elapsed();
        }
    };
    environment.sync(kube, &note_graph).await?;
    let last_record = start.elapsed();
    let last_graph = *last_graph.lock().map_err(|error| error.to_string())?;
    let requests = counts.now().await?.since(&before);
    Ok(FirstSync { last_graph, last_record, requests, peak: environment::peak_mib()? })
}

/// The lower bound: the objects of the same models in a namespace of their own.
async fn bare(plane: &ControlPlane, client: &kube::Client, namespace: &str, models: usize) -> Fallible<Duration> {
    bare_loop(client, Environment::new(plane, namespace, models).await?.objects()?).await
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
