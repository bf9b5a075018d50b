//! Plays the part of Dynamo's operator, so that health moves where there is none.
//!
//! It moves status as the recordings under `tests/data/dynamo/recordings/` show the real one doing it, puts its
//! finalizer and annotations on, makes scaling adapters, and lets go of what is deleted. It binds claims too, as a
//! storage provisioner would. What a person can do with it:
//!
//! - an image with `broken` or `does-not-exist` in its name or tag, or from the registry `broken.invalid`, never
//!   becomes ready, and is never called failed;
//! - a request whose `sla.ttft` is below one millisecond fails in profiling;
//! - editing the replicas of a scaling adapter scales its component.
//!
//! What is to be done is worked out by pure functions (`graph`, `request`, `model`, `scaling`); this module waits and
//! writes.

mod claim;
mod component;
mod graph;
mod model;
mod request;
mod scaling;
mod script;
#[cfg(test)]
mod tests;
mod view;

use super::{Embedded, Part, engine};
use crate::cluster::{Cluster, ClusterError, Preconditions, WatchEvent};
use component::Deployed;
use script::Frame;
use stator_core::dynamo::kinds::{ADAPTER, CLAIM, GRAPH, REQUEST, SCALING_ADAPTER};
use stator_core::object::{Object, ObjectRef};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;

/// The field manager of the operator's writes, as the real one's client names itself.
const MANAGER: &str = "manager";
/// After a fault of the folder, before the next try.
const RETRY: Duration = Duration::from_millis(500);

/// The simulated operator.
#[derive(Debug)]
pub struct Operator;

/// Keeps the operator running; dropping it ends it.
#[derive(Debug)]
pub struct OperatorHandle {
    task: tokio::task::JoinHandle<()>,
    cluster: Embedded,
}

impl Drop for OperatorHandle {
    fn drop(&mut self) {
        self.task.abort();
        self.cluster.set_operated(false);
    }
}

impl Operator {
    /// Starts it on the current tokio runtime. `speed` divides every wait: 1 is about what the recordings take.
    pub fn start(cluster: Embedded, speed: f64) -> OperatorHandle {
        cluster.set_operated(true);
        let speed = if speed.is_finite() && speed > 0.0 { speed } else { 1.0 };
        let task = tokio::spawn(run(cluster.clone(), speed));
        OperatorHandle { task, cluster }
    }
}

/// Lists, follows, and starts over when it lost track.
async fn run(cluster: Embedded, speed: f64) {
    let mut driver = Driver { cluster, speed, objects: BTreeMap::new(), tracks: BTreeMap::new() };
    loop {
        if let Err(error) = driver.follow().await {
            tracing::warn!(%error, "the simulated operator cannot go on just now");
            tokio::time::sleep(RETRY).await;
        }
    }
}

struct Driver {
    cluster: Embedded,
    speed: f64,
    objects: BTreeMap<ObjectRef, Object>,
    tracks: BTreeMap<ObjectRef, Track>,
}

/// What is under way on one object.
struct Track {
    /// What the script was made for; another cause makes another script.
    cause: String,
    frames: VecDeque<Frame>,
    due: Instant,
    deployed: Option<Deployed>,
}

impl Driver {
    async fn follow(&mut self) -> Result<(), ClusterError> {
        let kinds = [CLAIM, GRAPH, REQUEST, ADAPTER, SCALING_ADAPTER];
        let mut events = self.cluster.watch(&kinds, None).await?;
        self.objects.clear();
        for kind in kinds {
            for object in self.cluster.list(&kind, None, &BTreeMap::new()).await? {
                self.objects.insert(object.reference(), object);
            }
        }
        loop {
            self.plan();
            self.scale().await?;
            let due = self.tracks.values().filter(|track| !track.frames.is_empty()).map(|track| track.due).min();
            if !self.wait(&mut events, due).await {
                return Ok(());
            }
            self.perform().await?;
        }
    }

    /// Waits for news or for the next step. False when the watch is over.
    async fn wait(&mut self, events: &mut Receiver<WatchEvent>, due: Option<Instant>) -> bool {
        let far = Instant::now() + Duration::from_secs(3600);
        let first = tokio::select! {
            event = events.recv() => event,
            () = tokio::time::sleep_until(due.unwrap_or(far)) => return true,
        };
        let mut next = first;
        loop {
            match next {
                Some(WatchEvent::Applied(object)) => {
                    self.objects.insert(object.reference(), object);
                }
                Some(WatchEvent::Deleted(object)) => {
                    self.objects.remove(&object.reference());
                    self.tracks.remove(&object.reference());
                }
                Some(WatchEvent::Resync) | None => return false,
            }
            match events.try_recv() {
                Ok(event) => next = Some(event),
                Err(_) => return true,
            }
        }
    }

    /// Makes a new script for every object whose cause is another than that of its script.
    fn plan(&mut self) {
        let now = Instant::now();
        for (reference, object) in &self.objects {
            let Some((cause, endpoints)) = self.cause(object) else { continue };
            let track = self.tracks.get(reference);
            if track.is_some_and(|track| track.cause == cause) {
                continue;
            }
            let before = track.and_then(|track| track.deployed.as_ref());
            let frames = if object.kind() == GRAPH.kind {
                graph::script(object, before)
            } else if object.kind() == CLAIM.kind {
                claim::script(object)
            } else if object.kind() == REQUEST.kind {
                request::script(object, self.objects.get(&request::graph_of(object)))
            } else {
                model::script(object, &endpoints)
            };
            let deployed = (object.kind() == GRAPH.kind)
                .then(|| component::components(object).into_iter().map(|own| (own.name, own.applied)).collect());
            let due = now + frames.first().map_or(Duration::ZERO, |frame| self.scaled(frame.after));
            self.tracks.insert(reference.clone(), Track { cause, frames: frames.into(), due, deployed });
        }
    }

    /// What a script is made for, and the endpoints of a model. `None` for kinds without one.
    fn cause(&self, object: &Object) -> Option<(String, Vec<(String, bool)>)> {
        let own = format!("{:?} {:?} {}", object.uid(), object.generation(), object.is_deleting());
        if object.kind() == GRAPH.kind {
            return Some((own, Vec::new()));
        }
        if object.kind() == CLAIM.kind {
            return Some((format!("{own} {}", claim::is_bound(object)), Vec::new()));
        }
        if object.kind() == REQUEST.kind {
            let settled = matches!(object.text("/status/phase"), Some("Deploying" | "Deployed"));
            if !settled {
                // The phase of profiling moves with the script itself and is no cause.
                let ended = matches!(object.text("/status/phase"), Some("Ready" | "Failed"));
                return Some((format!("{own} {ended}"), Vec::new()));
            }
            let graph = self.objects.get(&request::graph_of(object)).map(|graph| {
                let counts = graph.status().get("components").map(ToString::to_string);
                (graph.text("/status/state"), counts)
            });
            let created = object.status().to_string().contains("\"DeploymentReady\"");
            return Some((format!("{own} {created} {graph:?}"), Vec::new()));
        }
        if object.kind() == ADAPTER.kind {
            let graphs = self.objects.values().filter(|other| other.kind() == GRAPH.kind);
            let endpoints = model::endpoints(object, graphs);
            return Some((format!("{own} {endpoints:?}"), endpoints));
        }
        None
    }

    /// Does the steps that are due.
    async fn perform(&mut self) -> Result<(), ClusterError> {
        let now = Instant::now();
        let due: Vec<ObjectRef> = self
            .tracks
            .iter()
            .filter(|(_, track)| !track.frames.is_empty() && track.due <= now)
            .map(|(reference, _)| reference.clone())
            .collect();
        for reference in due {
            let Some(frame) = self.tracks.get_mut(&reference).and_then(|track| track.frames.pop_front()) else {
                continue;
            };
            self.write(&reference, frame).await?;
            let next = self.tracks.get(&reference).and_then(|track| track.frames.front()).map(|frame| frame.after);
            let wait = next.map_or(Duration::ZERO, |after| self.scaled(after));
            if let Some(track) = self.tracks.get_mut(&reference) {
                track.due = now + wait;
            }
        }
        Ok(())
    }

    async fn write(&self, reference: &ObjectRef, frame: Frame) -> Result<(), ClusterError> {
        if let Some(object) = frame.create.clone() {
            self.cluster.create(object, MANAGER).await?;
        }
        if frame.writes_main() {
            let main = frame.clone();
            self.cluster.update(reference, Part::Main, MANAGER, move |value| main.write_main(value)).await?;
        }
        if let Some(status) = frame.status {
            let now = engine::time(self.cluster.store.options.now());
            let change = move |value: &mut serde_json::Value| {
                let old = value.get("status").cloned().unwrap_or_default();
                value["status"] = script::with_times(status, &old, &now);
            };
            self.cluster.update(reference, Part::Status, MANAGER, change).await?;
        }
        Ok(())
    }

    /// Brings graphs and their scaling adapters together, and takes away the adapters of graphs that are gone.
    async fn scale(&mut self) -> Result<(), ClusterError> {
        let adapters: Vec<&Object> = self.objects.values().filter(|own| own.kind() == SCALING_ADAPTER.kind).collect();
        let mut todo = Vec::new();
        for graph in self.objects.values().filter(|own| own.kind() == GRAPH.kind) {
            let own: Vec<&Object> = adapters
                .iter()
                .copied()
                .filter(|own| own.namespace() == graph.namespace() && scaling::graph_name(own) == Some(graph.name()))
                .collect();
            todo.extend(scaling::actions(graph, &own).into_iter().map(|action| (graph.reference(), action)));
        }
        for adapter in adapters {
            let graph = ObjectRef {
                api_version: GRAPH.api_version(),
                kind: GRAPH.kind.to_owned(),
                namespace: adapter.namespace().to_owned(),
                name: scaling::graph_name(adapter).unwrap_or_default().to_owned(),
            };
            if !self.objects.contains_key(&graph) {
                todo.push((graph, scaling::Action::Delete(adapter.reference())));
            }
        }
        for (graph, action) in todo {
            match action {
                scaling::Action::Create(object) => {
                    let made = self.cluster.create(object, MANAGER).await?.object;
                    self.objects.insert(made.reference(), made);
                }
                scaling::Action::Delete(adapter) => {
                    self.cluster.delete(&adapter, &Preconditions::default()).await?;
                    self.objects.remove(&adapter);
                }
                scaling::Action::Scale { component, replicas } => {
                    let change = move |value: &mut serde_json::Value| scaling::scale(value, &component, replicas);
                    if let Some(done) = self.cluster.update(&graph, Part::Main, MANAGER, change).await? {
                        self.objects.insert(graph, done.object);
                    }
                }
                scaling::Action::Status(adapter, status) => {
                    let change = move |value: &mut serde_json::Value| value["status"] = status;
                    if let Some(done) = self.cluster.update(&adapter, Part::Status, MANAGER, change).await? {
                        self.objects.insert(adapter, done.object);
                    }
                }
            }
        }
        Ok(())
    }

    fn scaled(&self, wait: Duration) -> Duration {
        wait.div_f64(self.speed)
    }
}
