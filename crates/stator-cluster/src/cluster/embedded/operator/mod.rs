//! Plays the part of Dynamo's operator, so that health moves where there is none.
//!
//! It moves status as the recordings under `tests/data/dynamo/recordings/` show the real one doing it, puts its
//! finalizer and annotations on, makes scaling adapters, and lets go of what is deleted. It binds claims too, as a
//! storage provisioner would, runs downloads, as the Job controller would, and takes routes, as the controller of a gateway
//! would. What a person can do with it:
//!
//! - an image with `broken` or `does-not-exist` in its name or tag, or from the registry `broken.invalid`, never
//!   becomes ready, and is never called failed;
//! - a download of something with `does-not-exist` in its name fails;
//! - a gateway with `does-not-exist` in its name takes no route;
//! - a request whose `sla.ttft` is below one millisecond fails in profiling;
//! - editing the replicas of a scaling adapter scales its component.
//!
//! What is to be done is worked out by pure functions (`graph`, `request`, `model`, `scaling`); this module waits and
//! writes.

mod adapter_script;
mod component;
mod graph_script;
mod graph_status;
mod other_controllers;
mod request_script;
mod scaling;
mod script;
#[cfg(test)]
mod tests;

use super::admission::OPERATOR_MANAGER;
use super::leadership::OperatorLeadership;
use super::{EmbeddedCluster, ObjectPart};
use crate::cluster::api_conventions::format_time;
use crate::cluster::{Cluster, ClusterError, Preconditions, WatchEvent};
use component::DeployedComponents;
use script::ScriptStep;
use stator_core::dynamo::kinds::{ADAPTER, CLAIM, GRAPH, HTTP_ROUTE, JOB, REQUEST, SCALING_ADAPTER, SERVICE};
use stator_core::object::{Object, ObjectRef};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;

/// After a fault of the folder, before the next try.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// The simulated operator.
#[derive(Debug)]
pub struct SimulatedOperator;

/// Keeps the operator running; dropping it ends it.
#[derive(Debug)]
pub struct OperatorHandle {
    task: tokio::task::JoinHandle<()>,
    cluster: EmbeddedCluster,
}

impl Drop for OperatorHandle {
    fn drop(&mut self) {
        self.task.abort();
        self.cluster.set_operator_running(false);
    }
}

impl SimulatedOperator {
    /// Starts it on the current tokio runtime. `speed` divides every wait: 1 is about what the recordings take.
    pub fn start(cluster: EmbeddedCluster, speed: f64) -> OperatorHandle {
        cluster.set_operator_running(true);
        let speed = if speed.is_finite() && speed > 0.0 { speed } else { 1.0 };
        let task = tokio::spawn(run_operator(cluster.clone(), speed));
        OperatorHandle { task, cluster }
    }
}

/// Waits until it leads, lists, follows, and starts over when it lost track.
async fn run_operator(cluster: EmbeddedCluster, speed: f64) {
    let cluster = loop {
        match OperatorLeadership::acquire(&cluster.store.root).await {
            Ok(leadership) => break cluster.holding(leadership),
            Err(error) => pause_after(&error).await,
        }
    };
    let mut driver = OperatorDriver { cluster, speed, objects: BTreeMap::new(), scripts: BTreeMap::new() };
    loop {
        if let Err(error) = driver.run_until_resync().await {
            pause_after(&error).await;
        }
    }
}

async fn pause_after(error: &ClusterError) {
    tracing::warn!(%error, "the simulated operator cannot continue at the moment");
    tokio::time::sleep(RETRY_DELAY).await;
}

struct OperatorDriver {
    cluster: EmbeddedCluster,
    speed: f64,
    objects: BTreeMap<ObjectRef, Object>,
    scripts: BTreeMap<ObjectRef, ScriptProgress>,
}

/// What is under way on one object.
struct ScriptProgress {
    /// What the script was made for; another cause makes another script.
    cause: String,
    frames: VecDeque<ScriptStep>,
    next_step_at: Instant,
    deployed: Option<DeployedComponents>,
}

impl OperatorDriver {
    async fn run_until_resync(&mut self) -> Result<(), ClusterError> {
        let kinds = [CLAIM, JOB, GRAPH, REQUEST, ADAPTER, SCALING_ADAPTER, SERVICE, HTTP_ROUTE];
        let mut events = self.cluster.watch(&kinds, None).await?;
        self.objects.clear();
        for kind in kinds {
            for object in self.cluster.list(&kind, None, &BTreeMap::new()).await? {
                self.objects.insert(object.reference(), object);
            }
        }
        loop {
            self.plan_scripts();
            self.reconcile_scaling().await?;
            let due =
                self.scripts.values().filter(|track| !track.frames.is_empty()).map(|track| track.next_step_at).min();
            if !self.wait_for_event(&mut events, due).await {
                return Ok(());
            }
            self.run_due_steps().await?;
        }
    }

    /// Waits for news or for the next step. False when the watch is over.
    async fn wait_for_event(&mut self, events: &mut Receiver<WatchEvent>, due: Option<Instant>) -> bool {
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
                    self.scripts.remove(&object.reference());
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
    fn plan_scripts(&mut self) {
        let now = Instant::now();
        for (reference, object) in &self.objects {
            let Some((cause, endpoints)) = self.script_cause(object) else { continue };
            let track = self.scripts.get(reference);
            if track.is_some_and(|track| track.cause == cause) {
                continue;
            }
            let before = track.and_then(|track| track.deployed.as_ref());
            let frames = if object.kind() == GRAPH.kind {
                graph_script::build_script(object, before, self.cluster.store.release())
            } else if object.kind() == CLAIM.kind {
                other_controllers::claim_script(object)
            } else if object.kind() == JOB.kind {
                other_controllers::download_script(object)
            } else if object.kind() == HTTP_ROUTE.kind {
                other_controllers::route_script(object, &other_controllers::missing_backends(object, &self.objects))
            } else if object.kind() == REQUEST.kind {
                request_script::build_script(object, self.objects.get(&request_script::graph_of(object)))
            } else {
                adapter_script::build_script(object, &endpoints)
            };
            let deployed = (object.kind() == GRAPH.kind).then(|| {
                component::components(object, self.cluster.store.release())
                    .into_iter()
                    .map(|own| (own.name, own.applied))
                    .collect()
            });
            let due = now + frames.first().map_or(Duration::ZERO, |frame| self.scale_duration(frame.after));
            self.scripts.insert(
                reference.clone(),
                ScriptProgress { cause, frames: frames.into(), next_step_at: due, deployed },
            );
        }
    }

    /// What a script is made for, and the endpoints of a model. `None` for kinds without one.
    fn script_cause(&self, object: &Object) -> Option<(String, Vec<(String, bool)>)> {
        let own = format!("{:?} {:?} {}", object.uid(), object.generation(), object.is_deleting());
        if object.kind() == GRAPH.kind {
            return Some((own, Vec::new()));
        }
        if object.kind() == CLAIM.kind {
            return Some((format!("{own} {}", other_controllers::is_claim_bound(object)), Vec::new()));
        }
        if object.kind() == JOB.kind {
            return Some((format!("{own} {}", other_controllers::is_job_over(object)), Vec::new()));
        }
        if object.kind() == HTTP_ROUTE.kind {
            let missing = other_controllers::missing_backends(object, &self.objects);
            return Some((format!("{own} {missing:?}"), Vec::new()));
        }
        if object.kind() == REQUEST.kind {
            let settled = matches!(object.str_at("/status/phase"), Some("Deploying" | "Deployed"));
            if !settled {
                // The phase of profiling moves with the script itself and is no cause.
                let ended = matches!(object.str_at("/status/phase"), Some("Ready" | "Failed"));
                return Some((format!("{own} {ended}"), Vec::new()));
            }
            let graph = self.objects.get(&request_script::graph_of(object)).map(|graph| {
                let counts = graph.status().get("components").map(ToString::to_string);
                (graph.str_at("/status/state"), counts)
            });
            let created = request_script::is_deployment_created(object);
            return Some((format!("{own} {created} {graph:?}"), Vec::new()));
        }
        if object.kind() == ADAPTER.kind {
            let graphs = self.objects.values().filter(|other| other.kind() == GRAPH.kind);
            let endpoints = adapter_script::adapter_endpoints(object, graphs, self.cluster.store.release());
            return Some((format!("{own} {endpoints:?}"), endpoints));
        }
        None
    }

    /// Does the steps that are due.
    async fn run_due_steps(&mut self) -> Result<(), ClusterError> {
        let now = Instant::now();
        let due: Vec<ObjectRef> = self
            .scripts
            .iter()
            .filter(|(_, track)| !track.frames.is_empty() && track.next_step_at <= now)
            .map(|(reference, _)| reference.clone())
            .collect();
        for reference in due {
            let Some(frame) = self.scripts.get_mut(&reference).and_then(|track| track.frames.pop_front()) else {
                continue;
            };
            self.write_step(&reference, frame).await?;
            let next = self.scripts.get(&reference).and_then(|track| track.frames.front()).map(|frame| frame.after);
            let wait = next.map_or(Duration::ZERO, |after| self.scale_duration(after));
            if let Some(track) = self.scripts.get_mut(&reference) {
                track.next_step_at = now + wait;
            }
        }
        Ok(())
    }

    async fn write_step(&self, reference: &ObjectRef, frame: ScriptStep) -> Result<(), ClusterError> {
        if let Some(object) = frame.create.clone() {
            self.cluster.create(object, OPERATOR_MANAGER).await?;
        }
        if frame.writes_main() {
            let main = frame.clone();
            self.cluster
                .update(reference, ObjectPart::Main, OPERATOR_MANAGER, move |value| main.write_main(value))
                .await?;
        }
        if let Some(status) = frame.status {
            let now = format_time(self.cluster.store.options.now());
            let change = move |value: &mut serde_json::Value| {
                let old = value.get("status").cloned().unwrap_or_default();
                value["status"] = script::with_times(status, &old, &now);
            };
            self.cluster.update(reference, ObjectPart::Status, OPERATOR_MANAGER, change).await?;
        }
        Ok(())
    }

    /// Brings graphs and their scaling adapters together, and takes away the adapters of graphs that are gone.
    async fn reconcile_scaling(&mut self) -> Result<(), ClusterError> {
        let adapters: Vec<&Object> = self.objects.values().filter(|own| own.kind() == SCALING_ADAPTER.kind).collect();
        let mut todo = Vec::new();
        for graph in self.objects.values().filter(|own| own.kind() == GRAPH.kind) {
            let own: Vec<&Object> = adapters
                .iter()
                .copied()
                .filter(|own| own.namespace() == graph.namespace() && scaling::graph_name(own) == Some(graph.name()))
                .collect();
            todo.extend(
                scaling::scaling_actions(graph, &own, self.cluster.store.release())
                    .into_iter()
                    .map(|action| (graph.reference(), action)),
            );
        }
        for adapter in adapters {
            let graph = ObjectRef {
                api_version: GRAPH.api_version(),
                kind: GRAPH.kind.to_owned(),
                namespace: adapter.namespace().to_owned(),
                name: scaling::graph_name(adapter).unwrap_or_default().to_owned(),
            };
            if !self.objects.contains_key(&graph) {
                todo.push((graph, scaling::ScalingAction::Delete(adapter.reference())));
            }
        }
        for (graph, action) in todo {
            match action {
                scaling::ScalingAction::Create(object) => {
                    let made = self.cluster.create(object, OPERATOR_MANAGER).await?.object;
                    self.objects.insert(made.reference(), made);
                }
                scaling::ScalingAction::Delete(adapter) => {
                    self.cluster.delete(&adapter, &Preconditions::default()).await?;
                    self.objects.remove(&adapter);
                }
                scaling::ScalingAction::Scale { component, replicas } => {
                    let change =
                        move |value: &mut serde_json::Value| scaling::set_replicas(value, &component, replicas);
                    if let Some(done) = self.cluster.update(&graph, ObjectPart::Main, OPERATOR_MANAGER, change).await? {
                        self.objects.insert(graph, done.object);
                    }
                }
                scaling::ScalingAction::UpdateStatus(adapter, status) => {
                    let change = move |value: &mut serde_json::Value| value["status"] = status;
                    if let Some(done) =
                        self.cluster.update(&adapter, ObjectPart::Status, OPERATOR_MANAGER, change).await?
                    {
                        self.objects.insert(adapter, done.object);
                    }
                }
            }
        }
        Ok(())
    }

    fn scale_duration(&self, wait: Duration) -> Duration {
        wait.div_f64(self.speed)
    }
}
