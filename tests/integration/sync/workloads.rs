//! What is synced while it crashes: each a state of the repository, and the next one.

use super::pipeline::Site;
use serde_json::json;
use stator_core::object::Object;
use stator_model::plan::HoldKind;

/// One change of a repository.
pub struct Workload {
    pub name: &'static str,
    /// The repository as it was synced before.
    pub before: fn(&Site),
    /// Objects that somebody else made before that.
    pub others: fn(&str) -> Vec<Object>,
    /// What changes in it.
    pub then: fn(&Site),
    /// What somebody else forces upon the cluster at the same time.
    pub meanwhile: fn(&str) -> Vec<Object>,
    pub allow: &'static [HoldKind],
    /// The graph that admission refuses.
    pub refused: Option<&'static str>,
    /// Changes that stay undone, because something is in their way.
    pub left: usize,
    /// Changes that the plan does not try in the end, because somebody else has a say in them.
    pub blocked: usize,
}

/// Nothing happens.
pub const NOTHING: Workload = Workload {
    name: "nothing",
    before: |_| {},
    others: |_| Vec::new(),
    then: |_| {},
    meanwhile: |_| Vec::new(),
    allow: &[],
    refused: None,
    left: 0,
    blocked: 0,
};

pub const WORKER: &str = "{worker: {replicas: 1}}";
pub const TWO_WORKERS: &str = "{worker: {replicas: 2}}";
const NEW_FIRST: &str = "  rollout: {replace: new-first}\n";
/// What a model of [`write_new_first`] has: one worker, two of different kinds, or one of another name.
pub const TOGETHER: &str = WORKER;
pub const SOLO: &str = "{worker: {name: solo, replicas: 1}}";
pub const APART: &str = "{prefill: {replicas: 1}, decode: {replicas: 1}}";

pub fn write(site: &Site, name: &str, serving: &str, more: &str) {
    let text = format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {{name: {name}}}\nspec:\n  model: Qwen/Qwen3-0.6B\n  \
         engine: vllm\n  runtime: 1.2.0\n  hardware: {{gpu: l40s, gpusPerNode: 4}}\n  serving: {serving}\n{more}"
    );
    site.write(&format!("models/{name}/model.yaml"), &text);
}

/// A model whose graph is replaced new-first.
pub fn write_new_first(site: &Site, serving: &str) {
    write(site, "a", serving, NEW_FIRST);
}

pub fn weights(name: &str) -> String {
    format!("  cache: {{claim: {name}, size: 1Gi}}\n")
}

/// Weights that are downloaded, at a commit of one digit.
fn downloads(digit: &str) -> String {
    let commit = digit.repeat(40);
    format!("  weights: {{source: 'hf://Qwen/Qwen3-0.6B@{commit}', claim: {{name: weights, size: 1Gi}}}}\n")
}

pub fn adapters(names: &[&str]) -> String {
    let list: Vec<String> =
        names.iter().map(|name| format!("{{name: {name}, source: s3://adapters/{name}}}")).collect();
    format!("  adapters: [{}]\n", list.join(", "))
}

/// The graph of model `theirs`, as somebody without stator made it.
fn theirs(namespace: &str, replicas: i64) -> Object {
    let graph = json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "theirs", "namespace": namespace},
        "spec": {"components": [{"name": "worker", "type": "worker", "replicas": replicas}]},
    });
    Object::from_value(graph).unwrap()
}

pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "create",
        then: |site| write(site, "new", APART, &(weights("weights") + &adapters(&["sql"]))),
        ..NOTHING
    },
    Workload {
        name: "update",
        before: |site| write(site, "a", WORKER, &weights("weights")),
        then: |site| write(site, "a", TWO_WORKERS, &weights("weights")),
        ..NOTHING
    },
    Workload {
        name: "download",
        then: |site| write(site, "a", WORKER, &(downloads("0") + &adapters(&["sql"]))),
        ..NOTHING
    },
    Workload {
        name: "revision",
        before: |site| write(site, "a", WORKER, &downloads("0")),
        then: |site| write(site, "a", TWO_WORKERS, &downloads("1")),
        ..NOTHING
    },
    Workload {
        name: "replace",
        before: |site| write(site, "a", WORKER, &adapters(&["sql"])),
        then: |site| write(site, "a", APART, &adapters(&["sql"])),
        allow: &[HoldKind::Replace],
        ..NOTHING
    },
    Workload {
        name: "new-first",
        before: |site| write(site, "a", WORKER, &(weights("weights") + NEW_FIRST)),
        then: |site| write(site, "a", APART, &(weights("weights") + NEW_FIRST)),
        allow: &[HoldKind::Replace],
        ..NOTHING
    },
    Workload {
        name: "prune",
        before: |site| {
            write(site, "stays", WORKER, "");
            write(site, "goes", WORKER, &(weights("weights") + &adapters(&["sql"])));
        },
        then: |site| site.remove("goes"),
        ..NOTHING
    },
    Workload {
        name: "adopt",
        others: |namespace| vec![theirs(namespace, 1)],
        then: |site| write(site, "theirs", WORKER, ""),
        allow: &[HoldKind::Adopt],
        ..NOTHING
    },
    Workload {
        name: "move",
        before: |site| {
            write(site, "a", WORKER, &weights("weights"));
            write(site, "b", WORKER, "");
        },
        then: |site| {
            write(site, "a", WORKER, "");
            write(site, "b", WORKER, &weights("weights"));
        },
        ..NOTHING
    },
    Workload {
        name: "three",
        before: |site| {
            write(site, "changed", WORKER, "");
            write(site, "gone", WORKER, "");
        },
        then: |site| {
            write(site, "changed", TWO_WORKERS, "");
            site.remove("gone");
            write(site, "new", WORKER, "");
        },
        ..NOTHING
    },
    Workload {
        name: "refused",
        before: |site| {
            write(site, "a", WORKER, "");
            write(site, "broken", WORKER, &weights("weights"));
            write(site, "gone", WORKER, "");
        },
        // Admission refuses the graph in the middle; what comes after it goes on, and others are pruned.
        then: |site| {
            write(site, "a", TWO_WORKERS, "");
            write(site, "broken", TWO_WORKERS, &weights("weights"));
            site.remove("gone");
            write(site, "new", WORKER, "");
        },
        refused: Some("broken"),
        left: 1,
        ..NOTHING
    },
    Workload {
        name: "disputed",
        before: |site| {
            write(site, "theirs", WORKER, &weights("weights"));
            write(site, "gone", WORKER, "");
        },
        then: |site| {
            write(site, "theirs", TWO_WORKERS, &weights("weights"));
            site.remove("gone");
            write(site, "new", WORKER, "");
        },
        // Somebody scales by hand: stator's number is a conflict now.
        meanwhile: |namespace| vec![theirs(namespace, 7)],
        blocked: 1,
        ..NOTHING
    },
    Workload {
        name: "adapters",
        before: |site| {
            write(site, "a", WORKER, &adapters(&["sql", "old"]));
            write(site, "b", WORKER, "");
        },
        then: |site| {
            write(site, "a", TWO_WORKERS, &adapters(&["sql", "new"]));
            write(site, "b", WORKER, &adapters(&["chat"]));
            write(site, "c", WORKER, &adapters(&["late"]));
        },
        ..NOTHING
    },
    Workload {
        name: "scaled",
        then: |site| write(site, "ext", "{worker: {replicas: 2, scaling: external}}", ""),
        ..NOTHING
    },
];
