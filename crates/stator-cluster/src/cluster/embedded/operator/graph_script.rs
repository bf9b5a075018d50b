//! What the operator does with a graph, as the recordings under `tests/data/dynamo/recordings/` show it.

use super::component::{self, DeployedComponents, SimulatedComponent};
use super::graph_status::{ComponentReplicaCounts, GraphStatusView};
use super::script::ScriptStep;
use serde_json::{Value, json};
use stator_core::dynamo::release::{Behaviour, Release};
use stator_core::object::Object;
use std::collections::BTreeMap;
use std::time::Duration;

/// The annotation with the hash of the workers that serve now.
const WORKER_HASH_ANNOTATION: &str = "nvidia.com/current-worker-hash";
const WORKER_HASH_V2_ANNOTATION: &str = "nvidia.com/current-worker-hash-v2";
/// Between two steps, about what the recordings take on an idle machine.
const STEP_TIME: Duration = Duration::from_millis(350);
const NOT_AVAILABLE_REASON: &str = "Component deployment not ready - Available condition not true";

/// The steps that carry a graph's spec out, from the status that it has. `before` is what was carried out last, where
/// that is known. Empty when there is nothing left to do.
pub(super) fn build_script(graph: &Object, before: Option<&DeployedComponents>, release: Release) -> Vec<ScriptStep> {
    if graph.is_deleting() {
        return vec![ScriptStep::release()];
    }
    let components = component::components(graph, release);
    let hashes = WorkerHashes::of(graph, &components, release);
    let target = hashes.serving().to_owned();
    let status = graph.status();
    let generation = graph.generation().unwrap_or(1);
    let observed = status.get("observedGeneration").and_then(Value::as_i64);
    let done = observed == Some(generation) && status.get("state") == Some(&json!("successful"));
    let mut script = GraphScript {
        graph: graph.name().to_owned(),
        hash: graph.annotations().get(hashes.annotation()).map_or_else(|| target.clone(), |hash| (*hash).to_owned()),
        view: GraphStatusView::from_status(status, generation),
        frames: Vec::new(),
    };
    let known = graph.annotations().contains_key(hashes.annotation());
    if !known || !graph.finalizers().contains(&stator_core::dynamo::kinds::OPERATOR_FINALIZER) {
        let annotations = if known { BTreeMap::new() } else { hashes.annotations() };
        script.frames.push(ScriptStep { annotations, ..ScriptStep::adopt() });
    }
    if done {
        return script.frames;
    }
    let managed = !components.iter().any(|c| c.multinode);
    let (workers, others): (Vec<&SimulatedComponent>, Vec<&SimulatedComponent>) =
        components.iter().partition(|c| c.worker);
    if observed.is_none() {
        let all: Vec<&SimulatedComponent> = others.into_iter().chain(workers).collect();
        script.deploy_components(&all, 0);
    } else if managed && target != script.hash {
        script.roll_workers(&workers, &others, before, &hashes);
    } else if managed && script.view.is_rolling() {
        script.undo_rollout(&workers);
        script.update_in_place(&others, before);
    } else {
        if target != script.hash {
            script.frames.push(ScriptStep { annotations: hashes.annotations(), ..ScriptStep::default() });
            script.hash = target;
        }
        script.update_in_place(&components.iter().collect::<Vec<_>>(), before);
    }
    script.restart_components(graph, &components, observed.is_none());
    script.push_status();
    script.frames
}

/// The hashes over all workers of a graph.
struct WorkerHashes {
    /// That of the releases before the second one decides alone.
    first: Option<String>,
    second: String,
}

impl WorkerHashes {
    fn of(graph: &Object, components: &[SimulatedComponent], release: Release) -> Self {
        let (first, second) = component::worker_hashes(graph, components);
        Self { first: (!release.has(Behaviour::SecondHashAlone)).then_some(first), second }
    }

    /// The one that names the workers' children.
    fn serving(&self) -> &str {
        self.first.as_deref().unwrap_or(&self.second)
    }

    /// The annotation that has it.
    fn annotation(&self) -> &'static str {
        if self.first.is_some() { WORKER_HASH_ANNOTATION } else { WORKER_HASH_V2_ANNOTATION }
    }

    fn annotations(&self) -> BTreeMap<&'static str, Option<String>> {
        let first = self.first.clone().map(|first| (WORKER_HASH_ANNOTATION, Some(first)));
        first.into_iter().chain([(WORKER_HASH_V2_ANNOTATION, Some(self.second.clone()))]).collect()
    }
}

struct GraphScript {
    graph: String,
    /// The workers' hash that names their children.
    hash: String,
    view: GraphStatusView,
    frames: Vec<ScriptStep>,
}

impl GraphScript {
    fn child_name(&self, component: &SimulatedComponent) -> String {
        let base = format!("{}-{}", self.graph, component.name.to_lowercase());
        if component.worker { format!("{base}-{}", self.hash) } else { base }
    }

    /// One more step that shows the view as it is, unless the one before shows the same.
    fn push_status(&mut self) {
        let status = self.view.to_status();
        if self.frames.last().and_then(|frame| frame.status.as_ref()) != Some(&status) {
            self.frames.push(ScriptStep::status(STEP_TIME, status));
        }
    }

    fn set_waiting(&mut self, component: &SimulatedComponent, why: &str) {
        self.view.waiting.insert(self.child_name(component), why.to_owned());
    }

    fn set_unprocessed(&mut self, component: &SimulatedComponent, observed: i64) {
        let why = format!("spec not yet processed: generation={}, observedGeneration={observed}", self.view.generation);
        self.set_waiting(component, &why);
    }

    fn set_counts(&mut self, component: &SimulatedComponent, counts: ComponentReplicaCounts) {
        self.view.components.insert(component.name.clone(), counts);
    }

    /// Pods come up, none, all created, then ready one after the other.
    fn deploy_components(&mut self, components: &[&SimulatedComponent], observed: i64) {
        for component in components {
            self.set_unprocessed(component, observed);
        }
        self.push_status();
        for component in components {
            self.set_counts(
                component,
                ComponentReplicaCounts::all_or_none_ready(component, self.child_name(component), 0, 0),
            );
            self.set_waiting(component, NOT_AVAILABLE_REASON);
        }
        self.push_status();
        for component in components {
            self.set_counts(
                component,
                ComponentReplicaCounts::all_or_none_ready(component, self.child_name(component), component.replicas, 0),
            );
        }
        self.push_status();
        for component in components {
            self.become_ready(component, 0);
        }
    }

    /// Replicas become ready one by one, many of them in about four steps.
    fn become_ready(&mut self, component: &SimulatedComponent, from: i64) {
        if component.broken && component.replicas > 0 {
            return;
        }
        let stride = ((component.replicas - from) / 4).max(1);
        let mut ready = from;
        loop {
            ready = (ready + stride).min(component.replicas);
            self.set_counts(
                component,
                ComponentReplicaCounts::all_or_none_ready(
                    component,
                    self.child_name(component),
                    component.replicas,
                    ready,
                ),
            );
            if ready >= component.replicas {
                break;
            }
            self.push_status();
        }
        self.view.waiting.remove(&self.child_name(component));
        self.push_status();
    }

    /// Components that change without a managed rollout.
    fn update_in_place(&mut self, components: &[&SimulatedComponent], before: Option<&DeployedComponents>) {
        let old = |component: &SimulatedComponent| before.and_then(|before| before.get(&component.name));
        let todo = components.iter().filter(|component| {
            // Left over from a generation that was never finished.
            let counts = self.view.components.get(&component.name);
            let ready = counts.is_some_and(|c| c.ready >= component.replicas && c.replicas == component.replicas);
            old(component).is_none_or(|old| *old != component.applied) || !ready || component.broken
        });
        let todo: Vec<&SimulatedComponent> = todo.copied().collect();
        // All of them wait from the start: a graph is not ready between two of its components.
        for component in &todo {
            self.set_unprocessed(component, self.view.generation - 1);
        }
        for component in todo {
            let old = old(component);
            self.push_status();
            self.set_waiting(component, NOT_AVAILABLE_REASON);
            if old.is_some_and(|old| old.pods != component.applied.pods) {
                self.push_status();
                if self.replace_pods(component) {
                    self.push_status();
                }
            } else {
                self.scale_component(component);
            }
        }
    }

    fn scale_component(&mut self, component: &SimulatedComponent) {
        let have = self.view.components.get(&component.name).map_or(0, |counts| counts.ready);
        if component.replicas > have {
            self.push_status();
            self.set_counts(
                component,
                ComponentReplicaCounts::all_or_none_ready(
                    component,
                    self.child_name(component),
                    component.replicas,
                    have,
                ),
            );
            self.push_status();
            self.become_ready(component, have);
            return;
        }
        let counts = ComponentReplicaCounts::all_or_none_ready(
            component,
            self.child_name(component),
            component.replicas,
            component.replicas,
        );
        if self.view.components.get(&component.name) != Some(&counts) {
            self.push_status();
        }
        self.set_counts(component, counts);
        self.view.waiting.remove(&self.child_name(component));
        self.push_status();
    }

    /// New pods beside the old ones, then in their place. A broken image stays at the first new pod for ever.
    fn replace_pods(&mut self, component: &SimulatedComponent) -> bool {
        let whole = ComponentReplicaCounts::all_or_none_ready(
            component,
            self.child_name(component),
            component.replicas,
            component.replicas,
        );
        let names = self.view.components.get(&component.name).map_or(whole.names.clone(), |own| own.names.clone());
        let surged = ComponentReplicaCounts { names, replicas: component.replicas + 1, updated: 1, ..whole.clone() };
        self.set_counts(component, surged.clone());
        self.push_status();
        if component.broken {
            return false;
        }
        self.set_counts(component, ComponentReplicaCounts { ready: component.replicas + 1, ..surged });
        self.push_status();
        self.set_counts(component, whole);
        self.view.waiting.remove(&self.child_name(component));
        true
    }

    /// A managed rolling update: every worker of the graph, under a new hash.
    fn roll_workers(
        &mut self,
        workers: &[&SimulatedComponent],
        others: &[&SimulatedComponent],
        before: Option<&DeployedComponents>,
        hashes: &WorkerHashes,
    ) {
        let old = std::mem::replace(&mut self.hash, hashes.serving().to_owned());
        for worker in workers {
            self.view.components.remove(&worker.name);
        }
        self.view.rolling = Some(("Pending".to_owned(), Vec::new()));
        self.push_status();
        self.view.rolling = Some(("InProgress".to_owned(), Vec::new()));
        self.push_status();
        self.update_in_place(others, before);
        for worker in workers {
            let previous = format!("{}-{}-{old}", self.graph, worker.name.to_lowercase());
            let mut names = vec![self.child_name(worker), previous];
            names.sort();
            let counts =
                ComponentReplicaCounts::all_or_none_ready(worker, String::new(), worker.replicas, worker.replicas);
            self.set_counts(worker, ComponentReplicaCounts { names, updated: 0, ..counts });
            self.push_status();
        }
        let mut through = Vec::new();
        let broken = workers.iter().any(|worker| worker.broken);
        for (position, worker) in workers.iter().enumerate() {
            let names = self.view.components.get(&worker.name).map(|own| own.names.clone()).unwrap_or_default();
            if !self.replace_pods(worker) {
                continue;
            }
            through.push(worker.name.clone());
            let last = position + 1 == workers.len();
            if !last || broken {
                let counts =
                    ComponentReplicaCounts::all_or_none_ready(worker, String::new(), worker.replicas, worker.replicas);
                self.set_counts(worker, ComponentReplicaCounts { names, ..counts });
                self.view.rolling = Some(("InProgress".to_owned(), through.clone()));
                self.push_status();
            }
        }
        if broken {
            return;
        }
        self.frames.push(ScriptStep { after: STEP_TIME, annotations: hashes.annotations(), ..ScriptStep::default() });
        for worker in workers {
            self.set_counts(
                worker,
                ComponentReplicaCounts::all_or_none_ready(
                    worker,
                    self.child_name(worker),
                    worker.replicas,
                    worker.replicas,
                ),
            );
        }
        self.view.rolling = Some(("Completed".to_owned(), through));
        self.push_status();
    }

    /// A rollout whose spec went back half-way: it completes under the old hash, and the workers whose old pods were
    /// gone come up again.
    fn undo_rollout(&mut self, workers: &[&SimulatedComponent]) {
        let through = self.view.rolling.take().map(|(_, through)| through).unwrap_or_default();
        let names = workers.iter().map(|worker| worker.name.clone()).collect();
        self.view.rolling = Some(("Completed".to_owned(), names));
        let (gone, kept): (Vec<&&SimulatedComponent>, Vec<&&SimulatedComponent>) =
            workers.iter().partition(|w| through.contains(&w.name));
        for worker in kept {
            self.set_counts(
                worker,
                ComponentReplicaCounts::all_or_none_ready(
                    worker,
                    self.child_name(worker),
                    worker.replicas,
                    worker.replicas,
                ),
            );
        }
        for worker in &gone {
            self.set_counts(worker, ComponentReplicaCounts::all_or_none_ready(worker, self.child_name(worker), 0, 0));
        }
        if gone.is_empty() {
            return;
        }
        let gone: Vec<&SimulatedComponent> = gone.into_iter().copied().collect();
        self.deploy_components(&gone, self.view.generation - 1);
    }

    /// A restart by `spec.restart.id`: one component after the other, or all at once.
    fn restart_components(&mut self, graph: &Object, components: &[SimulatedComponent], first: bool) {
        let Some(id) = graph.spec().pointer("/restart/id").and_then(Value::as_str) else { return };
        let observed = self.view.restart.as_ref();
        let phase = observed.and_then(|own| own.get("phase")).and_then(Value::as_str);
        if observed.and_then(|own| own.get("observedID")).and_then(Value::as_str) == Some(id)
            && phase == Some("Completed")
        {
            return;
        }
        let completed = json!({"observedID": id, "phase": "Completed"});
        // Pods that were just made are not made again.
        if first {
            self.view.restart = Some(completed);
            return;
        }
        let strategy = graph.spec().pointer("/restart/strategy");
        let order: Vec<&str> = strategy
            .and_then(|own| own.get("order"))
            .and_then(Value::as_array)
            .map(|list| list.iter().filter_map(Value::as_str).collect())
            .filter(|list: &Vec<&str>| !list.is_empty())
            .unwrap_or_else(|| components.iter().map(|c| c.name.as_str()).collect());
        let batches: Vec<Vec<&str>> =
            if strategy.and_then(|own| own.get("type")).and_then(Value::as_str) == Some("Parallel") {
                vec![order]
            } else {
                order.into_iter().map(|name| vec![name]).collect()
            };
        for batch in batches {
            self.view.restart = Some(json!({"observedID": id, "phase": "Restarting", "inProgress": batch}));
            let batch: Vec<&SimulatedComponent> =
                components.iter().filter(|c| batch.contains(&c.name.as_str())).collect();
            for component in &batch {
                self.set_unprocessed(component, self.view.generation - 1);
            }
            self.push_status();
            for component in batch {
                self.set_waiting(component, NOT_AVAILABLE_REASON);
                self.push_status();
                if !self.replace_pods(component) {
                    return;
                }
            }
        }
        self.view.restart = Some(completed);
    }
}
