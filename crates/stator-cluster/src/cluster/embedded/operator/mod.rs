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
mod known_objects;
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
use crate::cluster::{Cluster, ClusterError, NoEvent, Preconditions, WatchEvent, WatchReceiver};
use component::DeployedComponents;
use known_objects::KnownObjects;
use script::ScriptStep;
use stator_core::dynamo::kinds::{ADAPTER, CLAIM, GRAPH, HTTP_ROUTE, JOB, REQUEST, SCALING_ADAPTER, SERVICE};
use stator_core::object::{Object, ObjectRef};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// An operator that is later than this does all steps of an object that are due at once, as one that has much to do sees
/// only the last state.
const MAX_DELAY: Duration = Duration::from_millis(200);
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
    let mut driver = OperatorDriver::new(cluster, speed);
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
    objects: KnownObjects,
    scripts: BTreeMap<ObjectRef, ScriptProgress>,
    /// When the next step of each script is due that has one.
    due: BTreeSet<(Instant, ObjectRef)>,
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
    fn new(cluster: EmbeddedCluster, speed: f64) -> Self {
        Self { cluster, speed, objects: KnownObjects::default(), scripts: BTreeMap::new(), due: BTreeSet::new() }
    }

    async fn run_until_resync(&mut self) -> Result<(), ClusterError> {
        let kinds = [CLAIM, JOB, GRAPH, REQUEST, ADAPTER, SCALING_ADAPTER, SERVICE, HTTP_ROUTE];
        let mut events = self.cluster.watch(&kinds, None).await?;
        self.objects = KnownObjects::default();
        for kind in kinds {
            for object in self.cluster.list_texts(&kind, None, &BTreeMap::new()).await? {
                self.objects.insert(object.parse());
            }
        }
        loop {
            let changed = self.objects.take_changed();
            self.plan_scripts(&changed);
            self.reconcile_scaling(&changed).await?;
            if !self.wait_for_event(&mut events).await {
                return Ok(());
            }
            self.run_due_steps().await?;
        }
    }

    /// Waits for news or for the next step. False when the watch is over.
    async fn wait_for_event(&mut self, events: &mut WatchReceiver) -> bool {
        if !self.objects.has_changed() {
            let due = self.due.first().map(|(due, _)| *due);
            let first = tokio::select! {
                event = events.recv() => event,
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => return true,
            };
            if !self.take_in(first) {
                return false;
            }
        }
        loop {
            let is_open = match events.try_recv() {
                Ok(event) => self.take_in(Some(event)),
                Err(NoEvent::Waiting) => return true,
                Err(NoEvent::Ended) => false,
            };
            if !is_open {
                return false;
            }
        }
    }

    fn take_in(&mut self, event: Option<WatchEvent>) -> bool {
        match event {
            Some(WatchEvent::Applied(object)) => self.objects.insert(object),
            Some(WatchEvent::Deleted(object)) => {
                let reference = object.reference();
                self.objects.remove(&reference);
                self.forget_script(&reference);
            }
            Some(WatchEvent::Resync) | None => return false,
        }
        true
    }

    /// Makes a new script for each of these objects whose cause is another than that of its script.
    fn plan_scripts(&mut self, changed: &BTreeSet<ObjectRef>) {
        for reference in changed {
            let Some(object) = self.objects.get(reference) else { continue };
            let object = &object;
            let Some((cause, endpoints)) = self.script_cause(object) else { continue };
            let track = self.scripts.get(reference);
            if track.is_some_and(|track| track.cause == cause) {
                continue;
            }
            let release = self.cluster.store.release();
            let before = track.and_then(|track| track.deployed.as_ref());
            let frames = if object.kind() == GRAPH.kind {
                graph_script::build_script(object, before, release)
            } else if object.kind() == CLAIM.kind {
                other_controllers::claim_script(object)
            } else if object.kind() == JOB.kind {
                other_controllers::download_script(object)
            } else if object.kind() == HTTP_ROUTE.kind {
                other_controllers::route_script(
                    object,
                    &other_controllers::missing_backends(object, |one| self.objects.get(one)),
                )
            } else if object.kind() == REQUEST.kind {
                let graph = self.objects.get(&request_script::graph_of(object));
                request_script::build_script(object, graph.as_ref())
            } else {
                adapter_script::build_script(object, &endpoints)
            };
            let deployed = (object.kind() == GRAPH.kind).then(|| {
                component::components(object, release).into_iter().map(|own| (own.name, own.applied)).collect()
            });
            let first = frames.first().map_or(Duration::ZERO, |frame| self.scale_duration(frame.after));
            let next_step_at = Instant::now() + first;
            let script = ScriptProgress { cause, frames: frames.into(), next_step_at, deployed };
            self.schedule(reference.clone(), script);
        }
    }

    fn forget_script(&mut self, object: &ObjectRef) {
        if let Some(gone) = self.scripts.remove(object) {
            self.due.remove(&(gone.next_step_at, object.clone()));
        }
    }

    /// Goes on with a script from its next step, and with no other of its object.
    fn schedule(&mut self, object: ObjectRef, script: ScriptProgress) {
        if !script.frames.is_empty() {
            self.due.insert((script.next_step_at, object.clone()));
        }
        let next_step_at = script.next_step_at;
        if let Some(before) = self.scripts.insert(object.clone(), script)
            && before.next_step_at != next_step_at
        {
            self.due.remove(&(before.next_step_at, object));
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
            let missing = other_controllers::missing_backends(object, |one| self.objects.get(one));
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
                (graph.str_at("/status/state").map(str::to_owned), counts)
            });
            let created = request_script::is_deployment_created(object);
            return Some((format!("{own} {created} {graph:?}"), Vec::new()));
        }
        if object.kind() == ADAPTER.kind {
            let graphs = self.objects.graphs_that_serve(object);
            let endpoints = adapter_script::adapter_endpoints(object, graphs.iter(), self.cluster.store.release());
            return Some((format!("{own} {endpoints:?}"), endpoints));
        }
        None
    }

    /// Does the steps that are due.
    async fn run_due_steps(&mut self) -> Result<(), ClusterError> {
        let now = Instant::now();
        while self.due.first().is_some_and(|(due, _)| *due <= now)
            && let Some((_, reference)) = self.due.pop_first()
        {
            let Some(mut script) = self.scripts.remove(&reference) else { continue };
            let mut step = script.frames.pop_front();
            let mut done_at = now;
            if now.duration_since(script.next_step_at) > MAX_DELAY {
                done_at = script.next_step_at;
                while let (Some(first), Some(next)) = (&mut step, script.frames.front())
                    && done_at + self.scale_duration(next.after) <= now
                    && first.can_be_followed_by(next)
                    && let Some(next) = script.frames.pop_front()
                {
                    done_at += self.scale_duration(next.after);
                    first.follow_by(next);
                }
            }
            let wait = script.frames.front().map_or(Duration::ZERO, |next| self.scale_duration(next.after));
            script.next_step_at = done_at + wait;
            self.schedule(reference.clone(), script);
            if let Some(step) = step {
                let written = self.write_step(&reference, step).await;
                if let Err(error) = written {
                    // What was not written is worked out again, but for what is refused each time.
                    if !matches!(error, ClusterError::Invalid { .. } | ClusterError::Denied { .. }) {
                        self.forget_script(&reference);
                    }
                    return Err(error);
                }
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
    async fn reconcile_scaling(&mut self, changed: &BTreeSet<ObjectRef>) -> Result<(), ClusterError> {
        let mut todo = Vec::new();
        for reference in changed.iter().filter(|own| own.kind == GRAPH.kind) {
            let adapters = self.objects.scaling_adapters_of(reference);
            if adapters.is_empty() && !self.objects.is_scaled(reference) {
                continue;
            }
            let actions = match self.objects.get(reference) {
                Some(graph) => {
                    scaling::scaling_actions(&graph, &adapters.iter().collect::<Vec<_>>(), self.cluster.store.release())
                }
                None => adapters.iter().map(|own| scaling::ScalingAction::Delete(own.reference())).collect(),
            };
            todo.extend(actions.into_iter().map(|action| (reference.clone(), action)));
        }
        for (graph, action) in todo {
            match action {
                scaling::ScalingAction::Create(object) => {
                    let made = self.cluster.create(object, OPERATOR_MANAGER).await?.object;
                    self.objects.insert(made);
                }
                scaling::ScalingAction::Delete(adapter) => {
                    self.cluster.delete(&adapter, &Preconditions::default()).await?;
                    self.objects.remove(&adapter);
                }
                scaling::ScalingAction::Scale { component, replicas } => {
                    let change =
                        move |value: &mut serde_json::Value| scaling::set_replicas(value, &component, replicas);
                    if let Some(done) = self.cluster.update(&graph, ObjectPart::Main, OPERATOR_MANAGER, change).await? {
                        self.objects.insert(done.object);
                    }
                }
                scaling::ScalingAction::UpdateStatus(adapter, status) => {
                    let change = move |value: &mut serde_json::Value| value["status"] = status;
                    if let Some(done) =
                        self.cluster.update(&adapter, ObjectPart::Status, OPERATOR_MANAGER, change).await?
                    {
                        self.objects.insert(done.object);
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
