//! Lives of objects on which the two clusters once disagreed, as short as they were found.

use super::steps::{Meant, Sequence, Step, Subject, Which, apply, delete, merge};
use serde_json::{Value, json};

/// A claim's spec that is valid, with more fields.
fn claim(more: Value) -> Value {
    let mut spec = json!({"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}});
    for (name, value) in more.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    json!({"spec": spec})
}

/// A request that is to bear so much.
fn load(concurrency: Value) -> Value {
    json!({"spec": {"image": "a:1", "model": "Qwen/Qwen3-0.6B", "workload": {"concurrency": concurrency}}})
}

fn meaning(step: Step, meaning: Meant) -> Step {
    match step {
        Step::Apply { manager, config, force, dry_run, status, meant: _ } => {
            Step::Apply { manager, config, force, dry_run, status, meant: meaning }
        }
        Step::Delete { meant: _ } => Step::Delete { meant: meaning },
        Step::Merge { .. } => step,
    }
}

pub fn all() -> Vec<(&'static str, Sequence)> {
    let graph = |steps: Vec<Step>| Sequence { subject: Subject::Graph, steps };
    let of_claim = |steps: Vec<Step>| Sequence { subject: Subject::Claim, steps };
    let empty = || json!({"spec": {}});
    let labelled = |labels: Value| json!({"metadata": {"labels": labels}, "spec": {}});
    let pod = |metadata: Value| json!({"spec": {"components": [{"name": "a", "podTemplate": {"metadata": metadata}}]}});
    let other_uid = Meant { uid: Which::Other, version: Which::Any };
    let other_version = Meant { uid: Which::Any, version: Which::Other };
    let replicas = |count: i64| json!({"spec": {"components": [{"name": "a", "replicas": count}]}});
    vec![
        (
            "empty labels are owned and not kept",
            graph(vec![apply("stator", labelled(json!({}))), apply("stator", empty())]),
        ),
        (
            "what an empty map of metadata does to the storage is not seen",
            graph(vec![
                apply("helm", labelled(json!({}))),
                apply("helm", labelled(json!({}))),
                apply("stator", json!({"spec": {"components": []}})),
                apply("stator", json!({"spec": {"components": []}})),
            ]),
        ),
        (
            "neither is what an empty list of finalizers does",
            graph(vec![
                apply("stator", json!({"metadata": {"finalizers": []}, "spec": {}})),
                apply("stator", json!({"metadata": {"finalizers": []}, "spec": {}})),
            ]),
        ),
        (
            "who gives up all of its metadata leaves the name",
            graph(vec![apply("stator", labelled(json!({"a": "b"}))), apply("stator", empty())]),
        ),
        (
            "a map that loses all its fields becomes null, and is refused",
            graph(vec![apply("stator", pod(json!({"labels": {"app": "x"}}))), apply("stator", pod(json!({})))]),
        ),
        ("a null is refused", graph(vec![apply("stator", json!({"spec": {"labels": {"x": null}}}))])),
        (
            "the resource version of nothing says nothing, and a uid that there is something",
            graph(vec![
                meaning(apply("stator", empty()), other_uid),
                meaning(apply("stator", empty()), other_version),
                meaning(apply("stator", empty()), other_version),
            ]),
        ),
        (
            "the status has no uid",
            graph(vec![
                apply("stator", empty()),
                meaning(apply("manager", json!({"status": {"state": "pending"}})).of_status(), other_uid),
            ]),
        ),
        (
            "a conflict is told before another uid, and what does not fit the schema before both",
            graph(vec![
                apply("helm", replicas(1)),
                meaning(apply("stator", replicas(2)), other_uid),
                meaning(apply("stator", json!({"spec": {"components": {}}})), other_uid),
                meaning(apply("stator", replicas(2)).forced(), other_version),
            ]),
        ),
        (
            "the last finalizer takes the object along",
            graph(vec![
                apply("stator", json!({"metadata": {"finalizers": ["example.com/hold"]}, "spec": {}})),
                delete(),
                apply("stator", empty()),
                apply("stator", empty()),
            ]),
        ),
        (
            "sizes of a claim are written in one way and compared as text",
            of_claim(vec![
                apply("stator", claim(json!({"resources": {"requests": {"storage": "1024Mi"}, "limits": {}}}))),
                apply("stator", claim(json!({"resources": {"requests": {"storage": "1Gi"}}}))),
                apply("helm", claim(json!({"resources": {"requests": {"storage": "1024Mi"}}}))),
            ]),
        ),
        (
            "a claim that waits for its volume keeps its size, however it is written",
            of_claim(vec![
                apply("stator", claim(json!({}))),
                apply("stator", claim(json!({"resources": {"requests": {"storage": 1_073_741_824}}}))),
            ]),
        ),
        (
            "what an API server encodes anew is no write: of a claim",
            of_claim(vec![apply("stator", claim(json!({}))), apply("stator", claim(json!({})))]),
        ),
        (
            "a claim that waits for its volume cannot grow, and no claim shrinks",
            of_claim(vec![
                apply("stator", claim(json!({}))),
                merge("editor", json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}})),
                apply("stator", json!({"spec": {"accessModes": ["ReadWriteMany"]}})),
            ]),
        ),
        (
            "a claim without a class may be given one, once",
            of_claim(vec![
                apply("stator", claim(json!({}))),
                merge("editor", json!({"spec": {"storageClassName": "slow"}})),
                merge("editor", json!({"spec": {"storageClassName": "fast"}})),
                apply("stator", claim(json!({"volumeMode": "Block"}))),
            ]),
        ),
        (
            "a number that is written in another way is the same number",
            Sequence {
                subject: Subject::Request,
                steps: vec![
                    apply("stator", load(json!(1.0))),
                    apply("stator", load(json!(1))),
                    apply("stator", load(json!(1.5))),
                    merge("editor", load(json!(1.5))),
                    apply("stator", load(json!(2.0))),
                ],
            },
        ),
        (
            "a size that is none is told before anything else",
            of_claim(vec![
                meaning(apply("stator", json!({"spec": {"resources": {"requests": {"storage": "much"}}}})), other_uid),
                apply("stator", empty()),
            ]),
        ),
    ]
}
