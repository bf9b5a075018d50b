use super::*;
use serde_json::{Value, json};

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pair {
    name: String,
    admitted: bool,
    workers_roll: bool,
    old: Value,
    new: Value,
}

fn object(value: Value) -> Object {
    Object::from_value(value).unwrap()
}

/// The operator's own verdicts on pairs of graphs one edit apart.
#[test]
fn every_update_is_classified_as_the_operator_does() {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/dynamo/oracle/updates.jsonl"));
    let mut faults = Vec::new();
    let mut count = 0;
    for line in text.lines() {
        let pair: Pair = serde_json::from_str(line).unwrap();
        let judgement = classify_change(&object(pair.old), &object(pair.new));
        count += 1;
        let agrees = match (pair.admitted, pair.workers_roll) {
            (false, _) => !judgement.forbidden.is_empty() && judgement.disruption == Disruption::Recreate,
            (true, true) => {
                judgement.forbidden.is_empty()
                    && matches!(judgement.disruption, Disruption::ManagedRoll | Disruption::NativeRoll)
            }
            // A restart replaces pods and leaves the hash.
            (true, false) if pair.name.starts_with("restart-id") => judgement.forbidden.is_empty(),
            (true, false) => judgement.forbidden.is_empty() && judgement.disruption <= Disruption::FrontendRoll,
        };
        if !agrees {
            faults.push(format!("{}: {judgement:?}", pair.name));
        }
    }
    assert_eq!(faults, Vec::<String>::new());
    assert_eq!(count, 168);
}

#[test]
fn the_edits_have_the_classes_that_people_expect() {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/dynamo/oracle/updates.jsonl"));
    let mut classes = std::collections::BTreeMap::<String, std::collections::BTreeSet<String>>::new();
    for line in text.lines() {
        let pair: Pair = serde_json::from_str(line).unwrap();
        let class = classify_change(&object(pair.old), &object(pair.new)).disruption.to_string();
        let edit = pair.name.split(':').next().unwrap().to_owned();
        classes.entry(edit).or_default().insert(class);
    }
    let lines: Vec<String> = classes
        .into_iter()
        .map(|(edit, classes)| format!("{edit}: {}", classes.into_iter().collect::<Vec<_>>().join(" ")))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    backend-framework: recreate
    components-reordered: none
    discovery-annotation: managed-roll native-roll
    frontend-args: frontend-roll
    frontend-env: frontend-roll
    frontend-image: frontend-roll
    frontend-removed: recreate
    frontend-replicas: scale
    graph-annotations: managed-roll
    graph-env: managed-roll
    graph-labels: frontend-roll managed-roll
    max-surge: none
    metadata-annotation: none
    metadata-label: none
    planner-added: recreate
    restart-id: rolling-restart
    restart-order-unknown: recreate
    topology-on: recreate
    vllm-executor: managed-roll
    worker-added: recreate
    worker-args: managed-roll
    worker-compilation-cache: managed-roll
    worker-env: managed-roll
    worker-env-order: managed-roll
    worker-global-namespace: managed-roll native-roll
    worker-gms: managed-roll
    worker-gpus: managed-roll native-roll
    worker-grace-period: managed-roll
    worker-image: managed-roll native-roll
    worker-model-ref: managed-roll native-roll
    worker-multinode-more: native-roll
    worker-multinode-on: recreate
    worker-node-selector: managed-roll
    worker-pod-annotation: managed-roll
    worker-pod-label: managed-roll
    worker-removed: recreate
    worker-rename: recreate
    worker-replicas: scale
    worker-replicas-zero: scale
    worker-scaling-adapter-on: scale
    worker-shared-memory: managed-roll
    worker-type: managed-roll
    ");
}

fn graph(worker: Value) -> Object {
    object(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "llama", "namespace": "prod"},
        "spec": {"components": [
            {"name": "frontend", "type": "frontend"},
            worker,
        ]},
    }))
}

fn worker(image: &str, extra: Value) -> Value {
    let mut value = json!({
        "name": "decode", "type": "decode", "replicas": 2,
        "podTemplate": {"spec": {"containers": [{"name": "main", "image": image}]}},
    });
    for (key, field) in extra.as_object().unwrap() {
        value[key] = field.clone();
    }
    value
}

#[test]
fn multinode_workers_roll_natively() {
    let extra = json!({"multinode": {"nodeCount": 2}});
    let judgement = classify_change(&graph(worker("a:1", extra.clone())), &graph(worker("a:2", extra)));
    assert_eq!(judgement.disruption, Disruption::NativeRoll);
}

#[test]
fn the_recreate_strategy_stops_all_pods_first() {
    let with = |image: &str| {
        let mut value = worker(image, json!({}));
        value["podTemplate"]["metadata"] = json!({"annotations": {"nvidia.com/deployment-strategy": "Recreate"}});
        graph(value)
    };
    let judgement = classify_change(&with("a:1"), &with("a:2"));
    assert_eq!(judgement.disruption, Disruption::Recreate);
    assert!(judgement.forbidden.is_empty());
}

#[test]
fn left_out_replicas_are_one() {
    let old = graph(json!({"name": "decode", "type": "decode"}));
    let new = graph(json!({"name": "decode", "type": "decode", "replicas": 1}));
    assert_eq!(classify_change(&old, &new).disruption, Disruption::None);
}

#[test]
fn a_claim_grows_but_never_shrinks_nor_moves() {
    let claim = |size: &str, class: &str| {
        object(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "cache", "namespace": "prod"},
            "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}},
        }))
    };
    let of = |old: &Object, new: &Object| {
        let judgement = classify_change(old, new);
        assert!(!judgement.is_replaceable(), "weights are never deleted to change a claim");
        judgement.forbidden.into_iter().map(|one| one.path.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(of(&claim("500Gi", "fast"), &claim("1Ti", "fast")), "");
    assert_eq!(of(&claim("1.5Ti", "fast"), &claim("1536Gi", "fast")), "");
    assert_eq!(of(&claim("500Gi", "fast"), &claim("400Gi", "fast")), "spec.resources.requests.storage");
    assert_eq!(of(&claim("500Gi", "fast"), &claim("500Gi", "slow")), "spec.storageClassName");
    // Numbers beyond any disk, and text that is no number, are nobody's panic.
    assert_eq!(of(&claim(&"9".repeat(60), "fast"), &claim("1.é5Gi", "fast")), "");
}

#[test]
fn an_adapter_cannot_change_its_base_in_place() {
    let adapter = |base: &str, uri: &str| {
        object(json!({
            "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoModel",
            "metadata": {"name": "sql", "namespace": "prod"},
            "spec": {"baseModelName": base, "modelName": "sql", "modelType": "lora", "source": {"uri": uri}},
        }))
    };
    let moved = classify_change(&adapter("a", "s3://x"), &adapter("b", "s3://x"));
    assert!(moved.is_replaceable());
    let loaded = classify_change(&adapter("a", "s3://x"), &adapter("a", "s3://y"));
    assert_eq!((loaded.disruption, loaded.forbidden.len()), (Disruption::AdapterOnly, 0));
}

/// Row C3 of the review: the operator's restart, replayed. Each component goes with a surge pod, also the workers, and
/// the plan says that many pods.
#[test]
fn a_restart_needs_the_pods_that_the_recording_shows() {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/dynamo/recordings/restart.jsonl"));
    let seen: Vec<Object> =
        text.lines().map(|line| object(serde_json::from_str::<Value>(line).unwrap()["object"].take())).collect();
    let restart = seen.iter().position(|one| one.spec().get("restart").is_some()).unwrap();
    let pods = |one: &Object| {
        let components = one.status()["components"].as_object().cloned().unwrap_or_default();
        components.values().map(|one| one["replicas"].as_u64().unwrap()).sum::<u64>()
    };
    // A GPU a pod, so that GPUs count pods.
    let counted = |one: &Object| {
        let mut value = one.value().clone();
        for component in value["spec"]["components"].as_array_mut().unwrap() {
            let containers = component["podTemplate"]["spec"]["containers"].as_array_mut().unwrap();
            containers[0]["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}});
        }
        object(value)
    };
    let (old, new) = (counted(&seen[restart - 1]), counted(&seen[restart]));
    let judgement = classify_change(&old, &new);
    assert_eq!(judgement.disruption, Disruption::RollingRestart);
    assert_eq!(judgement.notes, [DisruptionNote::RestartId { is_parallel: false }]);
    let most = seen[restart..].iter().map(pods).max().unwrap();
    let change = crate::dynamo::gpu_change::gpu_change(Some(&old), Some(&new), judgement.disruption);
    assert_eq!((change.totals.before, change.totals.after), (3, 3));
    assert_eq!((change.totals.peak, most), (4, 4), "one surge pod at a time, as recorded");
}

/// Row C3: by the sizes of the review, and by the ways to ask for a restart.
#[test]
fn the_peak_of_a_restart_is_above_what_runs() {
    let graph = |restart: Value| {
        let worker = |name: &str, replicas: u64, gpus: u64| {
            json!({"name": name, "type": name, "replicas": replicas, "podTemplate": {"spec": {"containers": [
                {"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus.to_string()}}}]}}})
        };
        object(json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
            "metadata": {"name": "llama", "namespace": "prod"},
            "spec": {"restart": restart, "components": [
                {"name": "frontend", "type": "frontend"}, worker("prefill", 2, 2), worker("decode", 3, 4)]},
        }))
    };
    let judge = |old: Value, new: Value| {
        let (old, new) = (graph(old), graph(new));
        let class = classify_change(&old, &new).disruption;
        (class.as_str(), crate::dynamo::gpu_change::gpu_change(Some(&old), Some(&new), class).totals.peak)
    };
    // 2 × 2 and 3 × 4 GPUs, and the surge of decode on top, or of both.
    let order = json!({"id": "r1", "strategy": {"type": "Sequential", "order": ["frontend", "prefill", "decode"]}});
    assert_eq!(judge(Value::Null, json!({"id": "r1"})), ("rolling-restart", 20));
    assert_eq!(judge(json!({"id": "r0"}), order.clone()), ("rolling-restart", 20));
    assert_eq!(judge(Value::Null, json!({"id": "r1", "strategy": {"type": "Parallel"}})), ("rolling-restart", 22));
    // The id alone asks for one.
    assert_eq!(judge(json!({"id": "r1"}), order), ("none", 16));
    assert_eq!(judge(json!({"id": "r1"}), Value::Null), ("none", 16));
}
