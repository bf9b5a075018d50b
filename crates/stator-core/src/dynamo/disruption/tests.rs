use super::*;
use crate::dynamo::admission::{self, Platform};
use crate::dynamo::equivalence;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pair {
    name: String,
    admitted: bool,
    workers_roll: bool,
    old: Value,
    new: Value,
}

fn dynamo(release: Release) -> Platform {
    Platform { dynamo: Some(release), ..Platform::default() }
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
        let judgement = classify_change(&object(pair.old), &object(pair.new), &dynamo(Release::V1_2));
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

/// A pair that was applied to a live operator of 1.5.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct MeasuredPair {
    name: String,
    admitted: bool,
    denied: Option<String>,
    workers_roll: Option<bool>,
    #[serde(default)]
    late: bool,
    old: Value,
    new: Value,
}

/// Puts into `new` what the webhook put into `old` when that was created, as an apply leaves it there.
fn keep_what_was_filled_in(given: &Value, old: &Value, new: &mut Value) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (name, filled) in old {
                match (given.get(name), new.get_mut(name)) {
                    (Some(given), Some(new)) => keep_what_was_filled_in(given, filled, new),
                    (None, Some(new)) => keep_what_was_filled_in(&json!({}), filled, new),
                    (None, None) => {
                        new.insert(name.clone(), filled.clone());
                    }
                    // What was given was taken away, and what was filled in beside it stays.
                    (Some(given), None) => {
                        let beside = filled.as_object().into_iter().flatten();
                        let beside: serde_json::Map<String, Value> = beside
                            .filter(|(name, _)| given.get(*name).is_none())
                            .map(|(name, value)| (name.clone(), value.clone()))
                            .collect();
                        if !beside.is_empty() {
                            new.insert(name.clone(), Value::Object(beside));
                        }
                    }
                }
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for (index, filled) in old.iter().enumerate() {
                let same =
                    new.iter_mut().find(|item| item.get("name").is_some() && item.get("name") == filled.get("name"));
                if let (Some(given), Some(new)) = (given.get(index), same) {
                    keep_what_was_filled_in(given, filled, new);
                }
            }
        }
        _ => {}
    }
}

/// What the API server makes of an empty map that is applied over fields of the same manager, which is not for these rules.
fn empties_a_map(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            (new.is_empty() && !old.is_empty())
                || new.iter().any(|(name, new)| old.get(name).is_some_and(|old| empties_a_map(old, new)))
        }
        (Value::Array(old), Value::Array(new)) => old.iter().zip(new).any(|(old, new)| empties_a_map(old, new)),
        _ => false,
    }
}

#[test]
fn updates_on_the_newest_operator_are_judged_as_they_were_measured() {
    let grove = Platform {
        topologies: Some(BTreeMap::from([("t".to_owned(), ["zone", "rack", "host"].map(str::to_owned).to_vec())])),
        ..Platform::from_api_groups(["grove.io"])
    };
    let (mut faults, mut count) = (Vec::new(), 0);
    let components = Platform::from_api_groups(["inference.networking.k8s.io"]);
    for (file, platform) in [("updates", components), ("updates-grove", grove.clone()), ("updates-others", grove)] {
        let platform = Platform { dynamo: Some(Release::V1_5), checkpoints: Some(false), ..platform };
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/dynamo/1.5/oracle");
        for line in fs_err::read_to_string(format!("{root}/{file}.jsonl")).unwrap().lines() {
            let pair: MeasuredPair = serde_json::from_str(line).unwrap();
            if empties_a_map(&pair.old["spec"], &pair.new["spec"]) {
                continue;
            }
            count += 1;
            let (mut old, mut new) = (pair.old, pair.new);
            // What the server has is what its webhooks made of both.
            let given = old.clone();
            let kind = old["kind"].as_str().unwrap().to_owned();
            admission::fill_on_create(&kind, &mut old, &platform, "1.5.0");
            keep_what_was_filled_in(&given, &old, &mut new);
            // The phase that a request was in is in the name of its case.
            if let Some(phase) = pair.name.strip_prefix("request in ") {
                old["status"] = json!({"phase": phase.split(' ').next()});
            }
            let respelled = equivalence::differences(&old, &new).is_empty();
            let (old, new) = (object(old), object(new));
            let judgement = classify_change(&old, &new, &platform);
            let mut refused: Vec<String> =
                admission::check_update(&old, &new, admission::UpdateAuthor::User, Release::V1_5)
                    .into_iter()
                    .chain(admission::check_object(&new, &platform))
                    .filter(|finding| finding.outcome == admission::AdmissionOutcome::Denied)
                    .filter(|finding| finding.rule != admission::rules::RESTART_ON_CREATE)
                    .map(|finding| finding.message)
                    .collect();
            refused.dedup();
            let class = judgement.disruption;
            let restarts = judgement.notes.iter().any(|note| matches!(note, DisruptionNote::RestartId { .. }));
            let rolls = matches!(class, Disruption::ManagedRoll | Disruption::NativeRoll | Disruption::OnDelete);
            let agrees = if pair.admitted {
                refused.is_empty()
                    && match pair.workers_roll {
                        // By another rule: every component, one after the other, or all at once.
                        _ if class == Disruption::Recreate => true,
                        Some(false) if restarts => true,
                        Some(true) => rolls || pair.late,
                        Some(false) => !rolls || respelled,
                        None => true,
                    }
            } else {
                !refused.is_empty()
            };
            if !agrees {
                faults.push(format!(
                    "{file}: {} {:?} {class:?} {:?} {refused:?}",
                    pair.name, pair.workers_roll, pair.denied
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // Two of them empty a map.
    assert_eq!(count, 304 + 57 + 126 - 2);
}

#[test]
fn the_edits_have_the_classes_that_people_expect() {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/dynamo/oracle/updates.jsonl"));
    let mut classes = std::collections::BTreeMap::<String, std::collections::BTreeSet<String>>::new();
    for line in text.lines() {
        let pair: Pair = serde_json::from_str(line).unwrap();
        let class =
            classify_change(&object(pair.old), &object(pair.new), &dynamo(Release::V1_2)).disruption.to_string();
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
    let judgement =
        classify_change(&graph(worker("a:1", extra.clone())), &graph(worker("a:2", extra)), &dynamo(Release::STABLE));
    assert_eq!(judgement.disruption, Disruption::NativeRoll);
}

/// What each release does with the same change of one of two workers.
#[test]
fn the_same_change_disrupts_as_the_release_has_it() {
    let two = |image: &str, annotations: Value, status: Value| {
        let prefill = json!({"name": "prefill", "type": "prefill",
            "podTemplate": {"spec": {"containers": [{"name": "main", "image": "a:1.2.0"}]}}});
        let mut value = graph(worker(image, json!({}))).into_value();
        value["spec"]["components"].as_array_mut().unwrap().push(prefill);
        value["metadata"]["annotations"] = annotations;
        value["status"] = status;
        object(value)
    };
    let judged = |release: Release, annotations: Value, status: Value, platform: Platform| {
        let platform = Platform { dynamo: Some(release), ..platform };
        let (old, new) = (two("a:1.2.0", annotations.clone(), status.clone()), two("a:1.2.1", annotations, status));
        let judgement = classify_change(&old, &new, &platform);
        let workers = judgement.notes.iter().find_map(|note| match note {
            DisruptionNote::WorkersRoll { components } => Some(components.join("+")),
            DisruptionNote::RestartId { .. } => None,
        });
        let peak = crate::dynamo::gpu_change::gpu_change(Some(&old), Some(&new), judgement.disruption).totals.peak;
        assert_eq!(peak, 0);
        format!("{} {}", judgement.disruption, workers.unwrap_or_else(|| "decode".to_owned()))
    };
    let cliques = json!({"components": {"decode": {"componentKind": "PodClique"}}});
    let deployments = json!({"components": {"decode": {"componentKind": "Deployment"}}});
    let on_delete = json!({"nvidia.com/grove-update-strategy": "OnDelete"});
    let kept_off = json!({"nvidia.com/enable-grove": "false"});
    let served = Platform::from_api_groups(["grove.io"]);
    let shown: Vec<String> = Release::KNOWN
        .into_iter()
        .map(|release| {
            let by = |annotations: &Value, status: &Value, platform: &Platform| {
                judged(release, annotations.clone(), status.clone(), platform.clone())
            };
            [
                by(&Value::Null, &deployments, &Platform::default()),
                by(&Value::Null, &cliques, &Platform::default()),
                by(&on_delete, &cliques, &Platform::default()),
                by(&Value::Null, &Value::Null, &served),
                by(&kept_off, &Value::Null, &served),
                by(&on_delete, &deployments, &served),
            ]
            .join(" | ")
        })
        .collect();
    // On Deployments; on Grove; on Grove with OnDelete; not created yet where Grove is served; kept off it; on Deployments there.
    insta::assert_snapshot!(shown.join("\n"), @"
    managed-roll decode+prefill | native-roll decode | native-roll decode | native-roll decode | managed-roll decode+prefill | managed-roll decode+prefill
    managed-roll decode+prefill | native-roll decode | native-roll decode | native-roll decode | managed-roll decode+prefill | managed-roll decode+prefill
    managed-roll decode+prefill | native-roll decode | on-delete decode | native-roll decode | managed-roll decode+prefill | managed-roll decode+prefill
    managed-roll decode+prefill | native-roll decode+prefill | on-delete decode+prefill | native-roll decode+prefill | managed-roll decode+prefill | managed-roll decode+prefill
    ");
}

#[test]
fn the_recreate_strategy_stops_all_pods_first_from_the_release_that_honours_it() {
    let with = |image: &str| {
        let mut value = worker(image, json!({}));
        value["podTemplate"]["metadata"] = json!({"annotations": {"nvidia.com/deployment-strategy": "Recreate"}});
        value["podTemplate"]["spec"]["containers"][0]["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}});
        graph(value)
    };
    let (old, new) = (with("a:1.2.0"), with("a:1.2.1"));
    let judged = Release::KNOWN.map(|release| {
        let judgement = classify_change(&old, &new, &dynamo(release));
        assert!(judgement.forbidden.is_empty());
        let change = crate::dynamo::gpu_change::gpu_change(Some(&old), Some(&new), judgement.disruption);
        (judgement.disruption.as_str(), change.totals.peak)
    });
    // Before, the roll surges all the same.
    assert_eq!(judged, [("managed-roll", 3), ("managed-roll", 3), ("recreate", 2), ("recreate", 2)]);
}

#[test]
fn left_out_replicas_are_one() {
    let old = graph(json!({"name": "decode", "type": "decode"}));
    let new = graph(json!({"name": "decode", "type": "decode", "replicas": 1}));
    assert_eq!(classify_change(&old, &new, &dynamo(Release::STABLE)).disruption, Disruption::None);
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
        let judgement = classify_change(old, new, &dynamo(Release::STABLE));
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
    let moved = classify_change(&adapter("a", "s3://x"), &adapter("b", "s3://x"), &dynamo(Release::STABLE));
    assert!(moved.is_replaceable());
    let loaded = classify_change(&adapter("a", "s3://x"), &adapter("a", "s3://y"), &dynamo(Release::STABLE));
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
    let judgement = classify_change(&old, &new, &dynamo(Release::STABLE));
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
        let class = classify_change(&old, &new, &dynamo(Release::STABLE)).disruption;
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
