//! Every graph of the cluster as one watch shows it, and the stand-in for Dynamo's operator that says of each that it is
//! Ready. The bench and the operator share the watch, so that being measured costs the machine nothing besides.
#![allow(dead_code, reason = "shared by benches, of which none uses all")]

use super::Fallible;
use super::bare_loop::objects_of;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use stator_cluster::cluster::kube::KubeCluster;
use stator_cluster::cluster::{Cluster, WatchEvent, WatchReceiver};
use stator_core::dynamo::kinds;
use stator_core::object::{Object, ObjectRef};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The graphs, for as long as it is not dropped.
pub(crate) struct Graphs {
    seen: Arc<Mutex<SeenGraphs>>,
    /// As many as the operator works on at a time.
    hands: Arc<Semaphore>,
    tasks: [tokio::task::JoinHandle<()>; 2],
}

#[derive(Default)]
struct SeenGraphs {
    /// Namespace and name, and how many replicas the worker has since when.
    replicas: HashMap<(String, String), (i64, Instant)>,
    /// Where the operator works.
    operated: HashSet<String>,
    expected: Vec<ExpectedGraphs>,
    /// How many graphs the operator has yet to look at.
    unready: watch::Sender<usize>,
    /// Why nothing more is seen.
    failure: Option<String>,
}

/// Graphs that somebody waits for.
struct ExpectedGraphs {
    namespace: String,
    missing: HashSet<String>,
    replicas: i64,
    arrival: Arrival,
    tell: oneshot::Sender<Arrival>,
}

/// When the first and the last of some graphs were as expected.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) first: Instant,
    pub(crate) last: Instant,
}

/// A wait for graphs, which began before what is waited for was asked for.
pub(crate) struct ArrivalWait {
    told: oneshot::Receiver<Arrival>,
    seen: Arc<Mutex<SeenGraphs>>,
}

impl Drop for Graphs {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

impl Graphs {
    /// Opens the watch, and starts the operator.
    pub(crate) async fn watch(kube: &KubeCluster, client: kube::Client) -> Fallible<Self> {
        let seen = Arc::new(Mutex::new(SeenGraphs::default()));
        let events = kube.watch(&[kinds::GRAPH], None).await?;
        let (unready, work) = mpsc::unbounded_channel();
        let watching = tokio::spawn(follow(events, Arc::clone(&seen), unready));
        let hands = Arc::new(Semaphore::new(1));
        let operating = tokio::spawn(operate(client, work, Arc::clone(&seen), Arc::clone(&hands)));
        Ok(Self { seen, hands, tasks: [watching, operating] })
    }

    /// Has the operator work in a namespace from here on.
    pub(crate) fn operate_in(&self, namespace: &str) -> Fallible<()> {
        lock(&self.seen)?.operated.insert(namespace.to_owned());
        Ok(())
    }

    /// Has the operator work on eight graphs at a time from here on, so that on a busy machine, too, nothing waits for it.
    pub(crate) fn hurry_operator(&self) {
        self.hands.add_permits(7);
    }

    /// Waits until the operator has said of every graph that it knows of that it is Ready.
    pub(crate) async fn operator_rests(&self) -> Fallible<()> {
        let mut unready = lock(&self.seen)?.unready.subscribe();
        let rest = async {
            // The watch may be a little behind what was answered.
            while tokio::time::timeout(Duration::from_secs(2), unready.changed()).await.is_ok() {}
            unready.wait_for(|count| *count == 0).await.map(|_| ())
        };
        tokio::time::timeout(PATIENCE, rest).await.map_err(|_| "the operator never rests")??;
        Ok(())
    }

    /// Begins to wait until these graphs have this many replicas.
    pub(crate) fn expect(&self, namespace: &str, names: &BTreeSet<String>, replicas: i64) -> Fallible<ArrivalWait> {
        let (tell, told) = oneshot::channel();
        let now = Instant::now();
        let mut expected = ExpectedGraphs {
            namespace: namespace.to_owned(),
            missing: names.iter().cloned().collect(),
            replicas,
            arrival: Arrival { first: now, last: now },
            tell,
        };
        let mut seen = lock(&self.seen)?;
        let mut there: Vec<Instant> = Vec::new();
        expected.missing.retain(|name| match seen.replicas.get(&(namespace.to_owned(), name.clone())) {
            Some((known, since)) if *known == replicas => {
                there.push(*since);
                false
            }
            Some(_) | None => true,
        });
        if let (Some(first), Some(last)) = (there.iter().min(), there.iter().max()) {
            expected.arrival = Arrival { first: *first, last: *last };
        }
        if expected.missing.is_empty() {
            // Nobody can have stopped listening yet.
            let _ = expected.tell.send(expected.arrival);
        } else {
            if there.is_empty() {
                // The first one that comes says when that was.
                expected.arrival.first = now + PATIENCE;
            }
            seen.expected.push(expected);
        }
        Ok(ArrivalWait { told, seen: Arc::clone(&self.seen) })
    }
}

impl ArrivalWait {
    /// Waits for the last of them.
    pub(crate) async fn arrived(self) -> Fallible<Arrival> {
        match tokio::time::timeout(PATIENCE, self.told).await {
            Ok(Ok(arrival)) => Ok(arrival),
            Ok(Err(_)) => Err(lock(&self.seen)?.failure.clone().unwrap_or_default().into()),
            Err(_) => Err(format!("no such graphs after {} s", PATIENCE.as_secs()).into()),
        }
    }
}

fn lock(seen: &Mutex<SeenGraphs>) -> Fallible<MutexGuard<'_, SeenGraphs>> {
    seen.lock().map_err(|_| "a task of the bench panicked".into())
}

/// Takes in what the watch shows, and gives the operator what it has to do.
async fn follow(mut events: WatchReceiver, seen: Arc<Mutex<SeenGraphs>>, unready: mpsc::UnboundedSender<Object>) {
    loop {
        let event = events.recv().await;
        let now = Instant::now();
        let Ok(mut seen) = seen.lock() else { return };
        match event {
            Some(WatchEvent::Applied(graph)) => {
                let ObjectRef { namespace, name, .. } = graph.reference();
                seen.take_in(&namespace, &name, replicas(&graph), now);
                if seen.operated.contains(&namespace) && !is_observed(&graph) {
                    seen.unready.send_modify(|count| *count += 1);
                    // The operator ends with this task.
                    let _ = unready.send(graph);
                }
            }
            Some(WatchEvent::Deleted(graph)) => {
                let ObjectRef { namespace, name, .. } = graph.reference();
                seen.replicas.remove(&(namespace, name));
            }
            Some(WatchEvent::Resync) | None => {
                return seen
                    .fail("the bench fell behind its own watch of graphs; run it on an idle machine".to_owned());
            }
        }
    }
}

impl SeenGraphs {
    fn take_in(&mut self, namespace: &str, name: &str, replicas: i64, now: Instant) {
        let known = self.replicas.insert((namespace.to_owned(), name.to_owned()), (replicas, now));
        if let Some(known) = known.filter(|(before, _)| *before == replicas) {
            // Something else changed.
            self.replicas.insert((namespace.to_owned(), name.to_owned()), known);
            return;
        }
        for one in &mut self.expected {
            if one.namespace == namespace && one.replicas == replicas && one.missing.remove(name) {
                one.arrival = Arrival { first: one.arrival.first.min(now), last: now };
            }
        }
        for done in self.expected.extract_if(.., |one| one.missing.is_empty()) {
            // The wait may have been given up.
            let _ = done.tell.send(done.arrival);
        }
    }

    fn fail(&mut self, why: String) {
        self.failure = Some(why);
        self.expected.clear();
    }
}

/// Says of each graph that it is Ready: one after the other, as a controller of Dynamo's does, unless it has more hands.
async fn operate(
    client: kube::Client,
    mut work: mpsc::UnboundedReceiver<Object>,
    seen: Arc<Mutex<SeenGraphs>>,
    hands: Arc<Semaphore>,
) {
    let mut writes = tokio::task::JoinSet::new();
    while let Some(graph) = work.recv().await {
        let Ok(hand) = Arc::clone(&hands).acquire_owned().await else { return };
        while writes.try_join_next().is_some() {}
        let (client, seen) = (client.clone(), Arc::clone(&seen));
        writes.spawn(async move {
            let answer = ready(&client, &graph).await;
            drop(hand);
            let Ok(mut seen) = seen.lock() else { return };
            seen.unready.send_modify(|count| *count -= 1);
            if let Err(error) = answer {
                seen.fail(format!("the stand-in for the operator: {error}"));
            }
        });
    }
}

async fn ready(client: &kube::Client, graph: &Object) -> Fallible<()> {
    let ObjectRef { namespace, name, .. } = graph.reference();
    let status = json!({"status": {
        "observedGeneration": graph.generation(), "state": "successful",
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "all_resources_are_ready", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    }});
    let api = objects_of(client, &kinds::GRAPH, &namespace);
    match api.patch_status(&name, &PatchParams::apply("manager"), &Patch::Merge(&status)).await {
        // It was deleted meanwhile.
        Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(()),
        answer => answer.map(|_| ()).map_err(Into::into),
    }
}

fn is_observed(graph: &Object) -> bool {
    graph.status().get("observedGeneration").and_then(Value::as_i64) == graph.generation()
}

/// How many replicas the worker of a graph has.
pub(crate) fn replicas(graph: &Object) -> i64 {
    let components = graph.spec().get("components").and_then(Value::as_array);
    let worker = components.into_iter().flatten().find(|one| one["name"] == "worker" || one["type"] == "worker");
    worker.and_then(|one| one["replicas"].as_i64()).unwrap_or_default()
}

/// Sets the replicas of a graph's worker.
pub(crate) fn set_replicas(graph: &mut Value, replicas: i64) {
    let components = graph.pointer_mut("/spec/components").and_then(Value::as_array_mut);
    for one in components.into_iter().flatten() {
        if one["name"] == "worker" || one["type"] == "worker" {
            one["replicas"] = replicas.into();
        }
    }
}
