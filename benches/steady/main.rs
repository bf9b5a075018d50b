//! What a controller costs that has nothing to do, and how long it takes when it has: memory, processor time and requests
//! at rest, a push of one of many models, drift, and more models at once, on a real API server.
//!
//! `cargo bench --bench steady` starts etcd, kube-apiserver and kube-controller-manager as the tests do, and the built
//! program on a repository of 1,000 models (`-- --models N`, `--rounds N`, `--rest SECONDS`, `--pages` to serve pages as
//! well), and prints the table that `docs/performance.md` shows. Dynamo's operator is played: it says of every graph that it is Ready.

#[path = "../cluster/counts.rs"]
mod counts;
mod process;
mod repository;
#[path = "../../tests/support/testbed/mod.rs"]
mod testbed;

use counts::RequestCounter;
use process::ControllerProcess;
use repository::Repository;
use serde_json::{Value, json};
use stator_cluster::cluster::kube::{ConnectOptions, KubeCluster};
use stator_cluster::cluster::{ApplyRequest, Cluster, WatchEvent, WatchReceiver};
use stator_core::dynamo::kinds;
use stator_core::object::{Object, ObjectRef};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::time::{Duration, Instant};
use testbed::{ControlPlane, Programs};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The namespace of the models.
const NAMESPACE: &str = "steady";
/// Sources that fail, beside the one that is measured.
const FAILING: usize = 20;
/// Models that drift one after the other, and how often such ones are taken.
const DRIFTING: usize = 10;
const DRIFT_BATCHES: usize = 5;
/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(3600);

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        // `cargo test --benches` only asks whether the harness builds; the numbers are made by `cargo bench`.
        return Ok(());
    }
    let value = |flag: &str, default: u64| {
        let given = arguments.iter().position(|a| a == flag).and_then(|at| arguments.get(at + 1));
        given.map_or(Ok(default), |text| text.parse::<u64>())
    };
    let (models, rounds, rest) = (value("--models", 1000)?, value("--rounds", 20)?, value("--rest", 120)?);
    let with_pages = arguments.iter().any(|argument| argument == "--pages");
    let plane = ControlPlane::start(&Programs::find()?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(&plane, usize::try_from(models)?, (rounds, Duration::from_secs(rest)), with_pages))
}

#[expect(clippy::print_stdout, reason = "a benchmark's result is what it prints")]
fn print_line(line: &str) {
    println!("{line}");
}

fn row(what: &str, result: &str, goal: &str) {
    print_line(&format!("| {what} | {result} | {goal} |"));
}

/// The bench's own view: which replicas every graph has.
struct WatchedReplicas {
    events: WatchReceiver,
    replicas: BTreeMap<String, i64>,
}

impl WatchedReplicas {
    async fn open(kube: &KubeCluster) -> Fallible<Self> {
        let events = kube.watch(&[kinds::GRAPH], Some(NAMESPACE)).await?;
        let all = kube.list(&kinds::GRAPH, Some(NAMESPACE), &BTreeMap::new()).await?;
        let replicas = all.iter().map(|graph| (graph.name().to_owned(), replicas(graph))).collect();
        Ok(Self { events, replicas })
    }

    /// Waits until these graphs have so many replicas.
    async fn until(&mut self, names: &BTreeSet<String>, wanted: i64) -> Fallible<()> {
        let there = |known: &BTreeMap<String, i64>| names.iter().all(|name| known.get(name) == Some(&wanted));
        while !there(&self.replicas) {
            match tokio::time::timeout(PATIENCE, self.events.recv()).await? {
                Some(WatchEvent::Applied(graph)) => {
                    self.replicas.insert(graph.name().to_owned(), replicas(&graph));
                }
                Some(WatchEvent::Deleted(graph)) => {
                    self.replicas.remove(graph.name());
                }
                Some(WatchEvent::Resync) | None => return Err("the bench fell behind its own watch".into()),
            }
        }
        Ok(())
    }

    /// Waits until nothing has come for a while: a watch begins with everything that is there.
    async fn quiet(&mut self) -> Fallible<()> {
        while let Ok(event) = tokio::time::timeout(Duration::from_secs(2), self.events.recv()).await {
            if event.is_none() {
                return Err("the watch ended".into());
            }
        }
        Ok(())
    }

    /// Takes in what came meanwhile.
    fn drain(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            if let WatchEvent::Applied(graph) = event {
                self.replicas.insert(graph.name().to_owned(), replicas(&graph));
            }
        }
    }
}

fn replicas(graph: &Object) -> i64 {
    let components = graph.spec().get("components").and_then(Value::as_array);
    let worker = components.into_iter().flatten().find(|one| one["name"] == "worker" || one["type"] == "worker");
    worker.and_then(|one| one["replicas"].as_i64()).unwrap_or_default()
}

/// Says of every graph that it is Ready, for as long as it is not dropped.
async fn operate(kube: KubeCluster) -> Fallible<()> {
    loop {
        let mut events = kube.watch(&[kinds::GRAPH], Some(NAMESPACE)).await?;
        for graph in kube.list(&kinds::GRAPH, Some(NAMESPACE), &BTreeMap::new()).await? {
            ready(&kube, &graph).await?;
        }
        loop {
            match events.recv().await {
                Some(WatchEvent::Applied(graph)) => ready(&kube, &graph).await?,
                Some(WatchEvent::Deleted(_)) => {}
                Some(WatchEvent::Resync) | None => break,
            }
        }
    }
}

async fn ready(kube: &KubeCluster, graph: &Object) -> Fallible<()> {
    if graph.status().get("observedGeneration").and_then(Value::as_i64) == graph.generation() {
        return Ok(());
    }
    let ObjectRef { api_version, kind, namespace, name } = graph.reference();
    let status = json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace},
        "status": {
            "observedGeneration": graph.generation(), "state": "successful",
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "all_resources_are_ready", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    });
    let request = ApplyRequest::new(Object::from_value(status)?, "manager");
    kube.apply(&ApplyRequest { status: true, force: true, ..request }).await?;
    Ok(())
}

async fn measure(
    plane: &ControlPlane,
    models: usize,
    (rounds, rest): (u64, Duration),
    with_pages: bool,
) -> Fallible<()> {
    let kube =
        KubeCluster::connect(ConnectOptions { kubeconfig: Some(plane.kubeconfig()), ..ConnectOptions::default() })
            .await?;
    let counts = RequestCounter::of(plane.admin().await);
    plane.admin().await;
    let namespace = namespace(plane).await?;
    let operator = tokio::spawn(operate(kube.clone()));
    let repository = Repository::new(&namespace, models)?;
    let mut controller = ControllerProcess::start(plane, &repository, with_pages)?;
    let mut watched = WatchedReplicas::open(&kube).await?;
    let all: BTreeSet<String> = (0..models).map(repository::name).collect();
    watched.until(&all, 1).await?;
    controller.settled().await?;
    print_line(&format!("{models} models, {} cores\n", std::thread::available_parallelism()?));
    print_line("| what | result | goal |");
    print_line("|-|-:|-:|");

    if with_pages {
        // The pages look once more half a minute after the last change.
        tokio::time::sleep(Duration::from_secs(75)).await;
    }
    let (before, cpu, start) = (counts.now().await?, controller.cpu()?, Instant::now());
    tokio::time::sleep(rest).await;
    let share = 100.0 * (controller.cpu()? - cpu).as_secs_f64() / start.elapsed().as_secs_f64();
    let requests = counts.now().await?.since(&before);
    row(&format!("processor time at rest, over {} s", rest.as_secs()), &format!("{share:.2} % of a core"), "< 1 %");
    row("requests at rest", &requests.to_string(), "watches alone");
    row("memory at rest", &format!("{} MiB", controller.memory("VmRSS")?), "≤ 80 MiB at 1,000, ≤ 250 MiB at 10,000");

    // What came while nobody listened is more than a watch holds.
    let mut watched = WatchedReplicas::open(&kube).await?;
    watched.quiet().await?;
    let (mut pushed, mut healed, mut asked) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let number = usize::try_from(round)? % models;
        let wanted = i64::try_from(round)? + 2;
        let one = BTreeSet::from([repository::name(number)]);
        repository.change(number..number + 1, wanted)?;
        watched.drain();
        let before = counts.now().await?;
        let start = Instant::now();
        controller.hint(round).await?;
        watched.until(&one, wanted).await?;
        pushed.push(start.elapsed());
        controller.settled().await?;
        asked.push(counts.now().await?.since(&before));
        // The same hand every time: drift that comes back at once is put right with growing pauses, but for a new commit.
        let graph = kube.get(&reference(number)).await?.ok_or("the graph is gone")?;
        kube.apply(&ApplyRequest { force: true, ..ApplyRequest::new(scaled(&graph, 77)?, "somebody") }).await?;
        let start = Instant::now();
        watched.until(&one, 77).await?;
        watched.until(&one, wanted).await?;
        healed.push(start.elapsed());
        controller.settled().await?;
    }
    let mut burst = Vec::new();
    for batch in 0..DRIFT_BATCHES {
        let first = usize::try_from(rounds)? + batch * DRIFTING;
        burst.extend(drift_of_many(&kube, &mut watched, first..(first + DRIFTING).min(models)).await?);
        controller.settled().await?;
    }
    row("push of one model, from the webhook until its graph is applied", &percentiles(&mut pushed), "p95 < 1 s");
    row("drift, from the foreign write until it is put back", &percentiles(&mut healed), "p95 < 1 s");
    row(&format!("drift of {DRIFTING} models, one in each second"), &percentiles(&mut burst), "p95 < 1 s");
    if let Some(asked) = asked.last() {
        row("requests for a push of one model, the operator's included", &asked.to_string(), "no list");
    }
    for many in [10, 100].into_iter().filter(|many| *many <= models) {
        let names: BTreeSet<String> = (0..many).map(repository::name).collect();
        let wanted = 900 + i64::try_from(many)?;
        repository.change(0..many, wanted)?;
        let start = Instant::now();
        controller.hint(rounds + u64::try_from(many)?).await?;
        watched.until(&names, wanted).await?;
        row(&format!("push of {many} models"), &format!("{:.2} s", start.elapsed().as_secs_f64()), "");
        controller.settled().await?;
    }
    let broken = (0..FAILING / 2).map(|_| Repository::broken(&namespace)).collect::<Fallible<Vec<_>>>()?;
    controller.beside_failing(&broken).await?;
    controller.settled().await?;
    let mut beside = Vec::new();
    for round in 0..rounds {
        let number = usize::try_from(round)? % models;
        let wanted = i64::try_from(round)? + 2000;
        repository.change(number..number + 1, wanted)?;
        watched.drain();
        let start = Instant::now();
        controller.hint(5000 + round).await?;
        watched.until(&BTreeSet::from([repository::name(number)]), wanted).await?;
        beside.push(start.elapsed());
        controller.settled().await?;
    }
    row(&format!("push of one model, beside {FAILING} sources that fail"), &percentiles(&mut beside), "as without");
    row("most memory ever", &format!("{} MiB", controller.memory("VmHWM")?), "≤ 150 MiB at 1,000, ≤ 500 MiB at 10,000");
    operator.abort();
    controller.end().await
}

/// Somebody writes to these models, to one in each second, whatever is being put back then: how long each stays so.
async fn drift_of_many(
    kube: &KubeCluster,
    watched: &mut WatchedReplicas,
    numbers: std::ops::Range<usize>,
) -> Fallible<Vec<Duration>> {
    watched.drain();
    let mut healed = Vec::new();
    for number in numbers {
        let one = BTreeSet::from([repository::name(number)]);
        let graph = kube.get(&reference(number)).await?.ok_or("the graph is gone")?;
        let wanted = replicas(&graph);
        let start = Instant::now();
        kube.apply(&ApplyRequest { force: true, ..ApplyRequest::new(scaled(&graph, 77)?, "somebody") }).await?;
        let answered = Instant::now();
        watched.until(&one, 77).await?;
        watched.until(&one, wanted).await?;
        healed.push(answered.elapsed());
        tokio::time::sleep(Duration::from_secs(1).saturating_sub(start.elapsed())).await;
    }
    Ok(healed)
}

/// The one namespace, by its own name: the intents say it.
async fn namespace(plane: &ControlPlane) -> Fallible<String> {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> = kube::Api::all(plane.admin().await);
    namespaces.create(&kube::api::PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(NAMESPACE.to_owned())
}

fn reference(number: usize) -> ObjectRef {
    kinds::GRAPH.reference(NAMESPACE, &repository::name(number))
}

/// The worker's replicas, as somebody else would have them.
fn scaled(graph: &Object, replicas: i64) -> Fallible<Object> {
    let components = graph.spec().get("components").and_then(Value::as_array).into_iter().flatten();
    let workers: Vec<Value> = components
        .filter(|one| one["type"] == "worker" || one["name"] == "worker")
        .map(|one| json!({"name": one["name"], "replicas": replicas}))
        .collect();
    let ObjectRef { api_version, kind, namespace, name } = graph.reference();
    Ok(Object::from_value(json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace},
        "spec": {"components": workers},
    }))?)
}

fn percentiles(times: &mut [Duration]) -> String {
    times.sort();
    // The least time that so many of a hundred keep to.
    let at = |percent: usize| times.get((times.len() * percent).div_ceil(100).saturating_sub(1));
    let text = |percent| at(percent).map_or("-".to_owned(), |time| format!("{:.2} s", time.as_secs_f64()));
    format!("p50 {}, p95 {}", text(50), text(95))
}
