//! What the operator does with a graph, as the recordings under `tests/data/dynamo/recordings/` show it.

use super::component::{self, Component, Deployed};
use super::script::Frame;
use super::view::{Counts, View};
use serde_json::{Value, json};
use stator_core::object::Object;
use std::collections::BTreeMap;
use std::time::Duration;

/// The annotation with the hash of the workers that serve now.
const HASH: &str = "nvidia.com/current-worker-hash";
const HASH_V2: &str = "nvidia.com/current-worker-hash-v2";
/// Between two steps, about what the recordings take on an idle machine.
const STEP: Duration = Duration::from_millis(350);
const NOT_AVAILABLE: &str = "Component deployment not ready - Available condition not true";

/// The steps that carry a graph's spec out, from the status that it has. `before` is what was carried out last, where
/// that is known. Empty when there is nothing left to do.
pub(super) fn script(graph: &Object, before: Option<&Deployed>) -> Vec<Frame> {
    if graph.is_deleting() {
        return vec![Frame::release()];
    }
    let components = component::components(graph);
    let (target, second) = component::worker_hashes(graph, &components);
    let status = graph.status();
    let generation = graph.generation().unwrap_or(1);
    let observed = status.get("observedGeneration").and_then(Value::as_i64);
    let done = observed == Some(generation) && status.get("state") == Some(&json!("successful"));
    let mut script = Script {
        graph: graph.name().to_owned(),
        hash: graph.annotations().get(HASH).map_or_else(|| target.clone(), |hash| (*hash).to_owned()),
        view: View::read(status, generation),
        frames: Vec::new(),
    };
    let known = graph.annotations().contains_key(HASH);
    if !known || !graph.finalizers().contains(&stator_core::dynamo::kinds::OPERATOR_FINALIZER) {
        let annotations = if known { BTreeMap::new() } else { hashes(&target, &second) };
        script.frames.push(Frame { annotations, ..Frame::adopt() });
    }
    if done {
        return script.frames;
    }
    let managed = !components.iter().any(|c| c.multinode);
    let (workers, others): (Vec<&Component>, Vec<&Component>) = components.iter().partition(|c| c.worker);
    if observed.is_none() {
        let all: Vec<&Component> = others.into_iter().chain(workers).collect();
        script.deploy(&all, 0);
    } else if managed && target != script.hash {
        script.roll(&workers, &others, before, (target, second));
    } else if managed && script.view.is_rolling() {
        script.undo(&workers);
        script.in_place(&others, before);
    } else {
        if target != script.hash {
            script.frames.push(Frame { annotations: hashes(&target, &second), ..Frame::default() });
            script.hash = target;
        }
        script.in_place(&components.iter().collect::<Vec<_>>(), before);
    }
    script.restart(graph, &components, observed.is_none());
    script.push();
    script.frames
}

fn hashes(first: &str, second: &str) -> BTreeMap<&'static str, Option<String>> {
    BTreeMap::from([(HASH, Some(first.to_owned())), (HASH_V2, Some(second.to_owned()))])
}

struct Script {
    graph: String,
    /// The workers' hash that names their children.
    hash: String,
    view: View,
    frames: Vec<Frame>,
}

impl Script {
    fn child(&self, component: &Component) -> String {
        let base = format!("{}-{}", self.graph, component.name.to_lowercase());
        if component.worker { format!("{base}-{}", self.hash) } else { base }
    }

    /// One more step that shows the view as it is, unless the one before shows the same.
    fn push(&mut self) {
        let status = self.view.write();
        if self.frames.last().and_then(|frame| frame.status.as_ref()) != Some(&status) {
            self.frames.push(Frame::status(STEP, status));
        }
    }

    fn wait_for(&mut self, component: &Component, why: &str) {
        self.view.waiting.insert(self.child(component), why.to_owned());
    }

    fn unprocessed(&mut self, component: &Component, observed: i64) {
        let why = format!("spec not yet processed: generation={}, observedGeneration={observed}", self.view.generation);
        self.wait_for(component, &why);
    }

    fn count(&mut self, component: &Component, counts: Counts) {
        self.view.components.insert(component.name.clone(), counts);
    }

    /// Pods come up, none, all created, then ready one after the other.
    fn deploy(&mut self, components: &[&Component], observed: i64) {
        for component in components {
            self.unprocessed(component, observed);
        }
        self.push();
        for component in components {
            self.count(component, Counts::even(component, self.child(component), 0, 0));
            self.wait_for(component, NOT_AVAILABLE);
        }
        self.push();
        for component in components {
            self.count(component, Counts::even(component, self.child(component), component.replicas, 0));
        }
        self.push();
        for component in components {
            self.become_ready(component, 0);
        }
    }

    /// Replicas become ready one by one, many of them in about four steps.
    fn become_ready(&mut self, component: &Component, from: i64) {
        if component.broken && component.replicas > 0 {
            return;
        }
        let stride = ((component.replicas - from) / 4).max(1);
        let mut ready = from;
        loop {
            ready = (ready + stride).min(component.replicas);
            self.count(component, Counts::even(component, self.child(component), component.replicas, ready));
            if ready >= component.replicas {
                break;
            }
            self.push();
        }
        self.view.waiting.remove(&self.child(component));
        self.push();
    }

    /// Components that change without a managed rollout.
    fn in_place(&mut self, components: &[&Component], before: Option<&Deployed>) {
        let old = |component: &Component| before.and_then(|before| before.get(&component.name));
        let todo = components.iter().filter(|component| {
            // Left over from a generation that was never finished.
            let counts = self.view.components.get(&component.name);
            let ready = counts.is_some_and(|c| c.ready >= component.replicas && c.replicas == component.replicas);
            old(component).is_none_or(|old| *old != component.applied) || !ready || component.broken
        });
        let todo: Vec<&Component> = todo.copied().collect();
        // All of them wait from the start: a graph is not ready between two of its components.
        for component in &todo {
            self.unprocessed(component, self.view.generation - 1);
        }
        for component in todo {
            let old = old(component);
            self.push();
            self.wait_for(component, NOT_AVAILABLE);
            if old.is_some_and(|old| old.pods != component.applied.pods) {
                self.push();
                if self.replace_pods(component) {
                    self.push();
                }
            } else {
                self.scale(component);
            }
        }
    }

    fn scale(&mut self, component: &Component) {
        let have = self.view.components.get(&component.name).map_or(0, |counts| counts.ready);
        if component.replicas > have {
            self.push();
            self.count(component, Counts::even(component, self.child(component), component.replicas, have));
            self.push();
            self.become_ready(component, have);
            return;
        }
        let counts = Counts::even(component, self.child(component), component.replicas, component.replicas);
        if self.view.components.get(&component.name) != Some(&counts) {
            self.push();
        }
        self.count(component, counts);
        self.view.waiting.remove(&self.child(component));
        self.push();
    }

    /// New pods beside the old ones, then in their place. A broken image stays at the first new pod for ever.
    fn replace_pods(&mut self, component: &Component) -> bool {
        let whole = Counts::even(component, self.child(component), component.replicas, component.replicas);
        let names = self.view.components.get(&component.name).map_or(whole.names.clone(), |own| own.names.clone());
        let surged = Counts { names, replicas: component.replicas + 1, updated: 1, ..whole.clone() };
        self.count(component, surged.clone());
        self.push();
        if component.broken {
            return false;
        }
        self.count(component, Counts { ready: component.replicas + 1, ..surged });
        self.push();
        self.count(component, whole);
        self.view.waiting.remove(&self.child(component));
        true
    }

    /// A managed rolling update: every worker of the graph, under a new hash.
    fn roll(
        &mut self,
        workers: &[&Component],
        others: &[&Component],
        before: Option<&Deployed>,
        (target, second): (String, String),
    ) {
        let old = std::mem::replace(&mut self.hash, target.clone());
        for worker in workers {
            self.view.components.remove(&worker.name);
        }
        self.view.rolling = Some(("Pending".to_owned(), Vec::new()));
        self.push();
        self.view.rolling = Some(("InProgress".to_owned(), Vec::new()));
        self.push();
        self.in_place(others, before);
        for worker in workers {
            let previous = format!("{}-{}-{old}", self.graph, worker.name.to_lowercase());
            let mut names = vec![self.child(worker), previous];
            names.sort();
            let counts = Counts::even(worker, String::new(), worker.replicas, worker.replicas);
            self.count(worker, Counts { names, updated: 0, ..counts });
            self.push();
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
                let counts = Counts::even(worker, String::new(), worker.replicas, worker.replicas);
                self.count(worker, Counts { names, ..counts });
                self.view.rolling = Some(("InProgress".to_owned(), through.clone()));
                self.push();
            }
        }
        if broken {
            return;
        }
        self.frames.push(Frame { after: STEP, annotations: hashes(&target, &second), ..Frame::default() });
        for worker in workers {
            self.count(worker, Counts::even(worker, self.child(worker), worker.replicas, worker.replicas));
        }
        self.view.rolling = Some(("Completed".to_owned(), through));
        self.push();
    }

    /// A rollout whose spec went back half-way: it completes under the old hash, and the workers whose old pods were
    /// gone come up again.
    fn undo(&mut self, workers: &[&Component]) {
        let through = self.view.rolling.take().map(|(_, through)| through).unwrap_or_default();
        let names = workers.iter().map(|worker| worker.name.clone()).collect();
        self.view.rolling = Some(("Completed".to_owned(), names));
        let (gone, kept): (Vec<&&Component>, Vec<&&Component>) =
            workers.iter().partition(|w| through.contains(&w.name));
        for worker in kept {
            self.count(worker, Counts::even(worker, self.child(worker), worker.replicas, worker.replicas));
        }
        for worker in &gone {
            self.count(worker, Counts::even(worker, self.child(worker), 0, 0));
        }
        if gone.is_empty() {
            return;
        }
        let gone: Vec<&Component> = gone.into_iter().copied().collect();
        self.deploy(&gone, self.view.generation - 1);
    }

    /// A restart by `spec.restart.id`: one component after the other, or all at once.
    fn restart(&mut self, graph: &Object, components: &[Component], first: bool) {
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
            let batch: Vec<&Component> = components.iter().filter(|c| batch.contains(&c.name.as_str())).collect();
            for component in &batch {
                self.unprocessed(component, self.view.generation - 1);
            }
            self.push();
            for component in batch {
                self.wait_for(component, NOT_AVAILABLE);
                self.push();
                if !self.replace_pods(component) {
                    return;
                }
            }
        }
        self.view.restart = Some(completed);
    }
}
