use super::*;
use crate::dynamo::served_models::FrontendAnswer;
use proptest::prelude::*;
use serde_json::json;

#[derive(serde::Deserialize)]
struct Frame {
    object: Value,
}

/// What a person who watches the scenario reads, repeated lines once.
fn story(recording: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut healthy_at = None;
    for line in recording.lines() {
        let frame: Frame = serde_json::from_str(line).unwrap();
        let object = Object::from_value(frame.object).unwrap();
        let verdict = assess_health_in_context(&object, HealthContext { healthy_at, ..HealthContext::default() });
        // Not every kind of Dynamo says which generation its status is of.
        let observed = object.status().get("observedGeneration").and_then(Value::as_i64);
        let settled = observed.is_none_or(|observed| Some(observed) == object.generation());
        let rolling = object.status().pointer("/rollingUpdate/phase").and_then(Value::as_str);
        if verdict.health == Health::Healthy {
            healthy_at = object.generation();
            assert!(settled, "healthy at an old generation");
            assert!(!object.is_deleting(), "healthy while it goes");
            assert!(!matches!(rolling, Some("Pending" | "InProgress")), "healthy during a roll");
        }
        let line = format!(
            "{} {}{}: {}",
            object.generation().unwrap(),
            verdict.health,
            if verdict.terminal { "!" } else { "" },
            verdict.message
        );
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    }
    lines.join("\n")
}

macro_rules! recording {
    ($name:literal) => {
        story(include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/data/dynamo/recordings/",
            $name,
            ".jsonl"
        )))
    };
}

/// What a person reads of each recording of the newest release, by its name.
#[test]
fn the_newest_operators_recordings_are_told() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/dynamo/1.5/recordings");
    let mut names: Vec<_> = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let described = names.iter().map(|path| {
        let name = path.file_stem().unwrap().to_str().unwrap();
        format!("{name}\n{}\n", story(&fs_err::read_to_string(path).unwrap()))
    });
    insta::assert_snapshot!(described.collect::<Vec<_>>().join("\n"));
}

/// A graph of generation 2 with this condition, as the operator of 1.4 and later writes it.
fn not_ready(state: &str, reason: &str, message: &str, annotations: Value) -> HealthVerdict {
    let graph = Object::from_value(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "llama", "namespace": "prod", "generation": 2, "annotations": annotations},
        "spec": {"components": [{"name": "decode", "type": "decode"}]},
        "status": {"state": state, "observedGeneration": 2, "conditions": [
            {"type": "Ready", "status": "False", "reason": reason, "message": message},
        ]},
    }))
    .unwrap();
    assess_health(&graph, Some(2))
}

#[test]
fn the_reasons_of_later_releases_have_their_cause_and_their_end() {
    let described = |state: &str, reason: &str, message: &str| {
        let verdict = not_ready(state, reason, message, json!({}));
        format!("{}{}: {}", verdict.health, if verdict.terminal { "!" } else { "" }, verdict.message)
    };
    insta::assert_snapshot!(described("pending", "insufficient_capacity", "decode: 0/4 nodes are available"), @"Progressing: waiting for capacity: decode: 0/4 nodes are available");
    insta::assert_snapshot!(described("pending", "pods_not_ready", "decode: 1 of 2 pods ready"), @"Progressing: waiting for pods: decode: 1 of 2 pods ready");
    insta::assert_snapshot!(described("pending", "updating", "decode: 1 of 2 updated"), @"Progressing: pods are updated: decode: 1 of 2 updated");
    insta::assert_snapshot!(described("pending", "mixed_not_ready_reasons", "decode: no capacity; frontend: not ready"), @"Progressing: waiting for capacity and pods: decode: no capacity; frontend: not ready");
    insta::assert_snapshot!(described("pending", "waiting_for_checkpoint", ""), @"Progressing: waiting for a checkpoint");
    insta::assert_snapshot!(described("failed", "selected_workload_provider_unavailable", "grove is not available"), @"Failed!: grove is not available");
    insta::assert_snapshot!(described("pending", "unsupported_workload_provider", "lws"), @"Failed!: lws");
    insta::assert_snapshot!(described("failed", "no_multinode_orchestrator_available", "no multinode orchestrator available"), @"Failed!: no multinode orchestrator available");
    let on_delete = json!({"nvidia.com/grove-update-strategy": "OnDelete"});
    insta::assert_snapshot!(not_ready("pending", "updating", "decode: 0 of 2 updated", on_delete).message, @"waiting for you to delete pods: with `nvidia.com/grove-update-strategy: OnDelete`, only a deleted pod is updated (decode: 0 of 2 updated)");
}

#[test]
fn an_adapter_is_healthy_where_another_endpoint_covers_one() {
    let adapter = |ready: &str, loaded: u64| {
        let object = Object::from_value(json!({
            "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoModel",
            "metadata": {"name": "sql", "namespace": "prod", "generation": 1},
            "spec": {"modelName": "sql", "baseModelName": "m", "modelType": "lora", "source": {"uri": "hf://a/b"}},
            "status": {"readyEndpoints": loaded, "totalEndpoints": 2, "loraFallbackCoveredEndpoints": 1, "conditions": [
                {"type": "ServicesFound", "status": "True", "reason": "ServicesFound", "observedGeneration": 1},
                {"type": "EndpointsReady", "status": ready, "reason": "x", "message": "said", "observedGeneration": 1},
            ]},
        }));
        let verdict = assess_health(&object.unwrap(), Some(1));
        format!("{}: {}", verdict.health, verdict.message)
    };
    insta::assert_snapshot!(adapter("True", 1), @"Healthy: loaded on 1 of 2 endpoints, the other covered");
    insta::assert_snapshot!(adapter("False", 1), @"Degraded: loaded on 1 of 2 endpoints: said");
    insta::assert_snapshot!(adapter("False", 0), @"Progressing: loaded on 0 of 2 endpoints: said");
}

#[test]
fn a_frontend_gets_a_new_image() {
    insta::assert_snapshot!(recording!("frontend-image"), @r#"
    1 Unknown: the operator has not observed it yet
    1 Progressing: waiting for frontend: the operator has not processed it yet; worker: the operator has not processed it yet
    1 Progressing: waiting for frontend: the operator has not processed it yet; worker (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for frontend (0 of 1 ready): its pods are not available yet; worker (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for worker (0 of 1 ready): its pods are not available yet
    1 Healthy!: all components are ready
    2 Progressing: waiting for the operator to observe generation 2 (observed 1)
    2 Progressing: waiting for frontend: the operator has not processed it yet
    2 Progressing: waiting for frontend: its pods are not available yet
    2 Healthy!: all components are ready
    3 Progressing: is being deleted, waiting for finalizer nvidia.com/finalizer
    "#);
}

#[test]
fn an_adapter_finds_no_endpoints() {
    insta::assert_snapshot!(recording!("model"), @r#"
    1 Failed: No endpoint slices found for base model Qwen/Qwen3-0.6B
    2 Progressing: is being deleted, waiting for finalizer nvidia.com/finalizer
    "#);
}

#[test]
fn a_request_is_deployed_and_loses_its_graph() {
    insta::assert_snapshot!(recording!("request-deployed-then-graph-deleted"), @r#"
    1 Progressing: profiling: Initializing
    1 Progressing: profiling: SweepingPrefill
    1 Progressing: profiling: SweepingDecode
    1 Progressing: profiling: SelectingConfig
    1 Progressing: profiling: BuildingCurves
    1 Progressing: profiling: GeneratingDGD
    1 Progressing: profiling: Done
    1 Progressing: deploying deploy-dgd
    1 Healthy!: deployed as deploy-dgd
    1 Degraded: Deployment degraded to pending
    1 Progressing: deploying deploy-dgd
    1 Failed!: the request failed while deploying (DeploymentDeleted): Deployment was deleted by user. Create a new DGDR to redeploy; increase `sla.attempt` by one to create it again
    2 Progressing: is being deleted, waiting for finalizer nvidia.com/finalizer
    "#);
}

#[test]
fn a_request_fails() {
    insta::assert_snapshot!(recording!("request-failed"), @r#"
    1 Progressing: profiling: Initializing
    1 Progressing: profiling: SweepingPrefill
    1 Progressing: profiling: SweepingDecode
    1 Progressing: profiling: SelectingConfig
    1 Progressing: profiling: BuildingCurves
    1 Progressing: profiling: GeneratingDGD
    1 Progressing: profiling: Done
    1 Progressing: profiling: SweepingDecode
    1 Failed!: the request failed while profiling (SweepingDecodeFailed): profiling failed: no configuration meets ttft 300 ms; change the targets in `sla`, or increase `sla.attempt` by one to try again
    2 Progressing: is being deleted, waiting for finalizer nvidia.com/finalizer
    "#);
}

#[test]
fn a_request_ends_ready_and_is_edited_afterwards() {
    insta::assert_snapshot!(recording!("request-ready"), @r#"
    1 Unknown: the operator has not observed it yet
    1 Progressing: waiting to be profiled
    1 Progressing: profiling: Initializing
    1 Progressing: profiling: SweepingPrefill
    1 Progressing: profiling: SweepingDecode
    1 Progressing: profiling: SelectingConfig
    1 Progressing: profiling: BuildingCurves
    1 Progressing: profiling: GeneratingDGD
    1 Progressing: profiling: Done
    1 Healthy!: a recommendation is available: `stator lock` keeps it in git
    2 Degraded!: was edited after it completed, which Dynamo ignores: delete it, and the next sync creates it again
    3 Progressing: is being deleted, waiting for finalizer nvidia.com/finalizer
    "#);
}

#[test]
fn a_request_is_deleted_while_it_profiles() {
    insta::assert_snapshot!(recording!("request"), @r#"
    1 Progressing: profiling: Initializing
    2 Progressing: is being deleted, waiting for finalizer nvidia.com/finalizer
    "#);
}

#[test]
fn a_graph_is_restarted() {
    insta::assert_snapshot!(recording!("restart"), @r#"
    1 Progressing: waiting for decode: the operator has not processed it yet; frontend: the operator has not processed it yet; prefill: the operator has not processed it yet
    1 Progressing: waiting for decode: the operator has not processed it yet; frontend (0 of 1 ready): its pods are not available yet; prefill: the operator has not processed it yet
    1 Progressing: waiting for decode: the operator has not processed it yet; frontend (0 of 1 ready): its pods are not available yet; prefill (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for decode (0 of 1 ready): its pods are not available yet; frontend (0 of 1 ready): its pods are not available yet; prefill (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for decode (0 of 1 ready): its pods are not available yet; prefill (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for decode (0 of 1 ready): its pods are not available yet
    1 Healthy!: all components are ready
    2 Progressing: waiting for the operator to observe generation 2 (observed 1)
    2 Progressing: restarting decode
    2 Progressing: restarting frontend
    2 Progressing: restarting prefill
    2 Healthy!: all components are ready
    3 Progressing: is being deleted, waiting for finalizer nvidia.com/finalizer
    "#);
}

#[test]
fn a_scaling_adapter_is_switched_on() {
    insta::assert_snapshot!(recording!("scaling-adapter-on"), @r#"
    1 Unknown: the operator has not observed it yet
    1 Progressing: waiting for frontend: the operator has not processed it yet; worker: the operator has not processed it yet
    1 Progressing: waiting for frontend: the operator has not processed it yet; worker (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for frontend (0 of 1 ready): its pods are not available yet; worker (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for worker (0 of 1 ready): its pods are not available yet
    1 Healthy!: all components are ready
    2 Progressing: waiting for the operator to observe generation 2 (observed 1)
    2 Progressing: waiting for worker: the operator has not processed it yet
    2 Healthy!: all components are ready
    3 Progressing: is being deleted, waiting for finalizer nvidia.com/finalizer
    "#);
}

#[test]
fn workers_roll() {
    insta::assert_snapshot!(recording!("worker-args-managed-roll"), @r#"
    1 Unknown: the operator has not observed it yet
    1 Progressing: waiting for frontend (0 of 1 ready): its pods are not available yet; worker: the operator has not processed it yet
    1 Progressing: waiting for frontend (0 of 1 ready): its pods are not available yet; worker (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for worker (0 of 1 ready): its pods are not available yet
    1 Healthy!: all components are ready
    2 Progressing: waiting for the operator to observe generation 2 (observed 1)
    2 Progressing: rolling update under way: workers are starting
    2 Progressing: rolling update: worker 0 of 1 updated
    2 Progressing: rolling update: worker 1 of 2 updated
    2 Healthy!: all components are ready
    3 Progressing: is being deleted, waiting for finalizer nvidia.com/finalizer
    "#);
}

#[test]
fn a_broken_image_is_fixed() {
    insta::assert_snapshot!(recording!("worker-broken-image-then-fixed"), @r#"
    1 Unknown: the operator has not observed it yet
    1 Progressing: waiting for decode: the operator has not processed it yet; frontend: the operator has not processed it yet; prefill: the operator has not processed it yet
    1 Progressing: waiting for decode: the operator has not processed it yet; frontend: the operator has not processed it yet; prefill (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for decode (0 of 1 ready): its pods are not available yet; frontend: the operator has not processed it yet; prefill (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for decode (0 of 1 ready): its pods are not available yet; frontend (0 of 1 ready): its pods are not available yet; prefill (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for decode (0 of 1 ready): its pods are not available yet; frontend (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for frontend (0 of 1 ready): its pods are not available yet
    1 Healthy!: all components are ready
    2 Progressing: waiting for the operator to observe generation 2 (observed 1)
    2 Progressing: rolling update under way: workers are starting
    2 Progressing: rolling update: decode 0 of 1 updated
    2 Progressing: rolling update: prefill 1 of 2 updated, decode 0 of 1 updated
    2 Progressing: rolling update: prefill 1 of 2 updated, decode 1 of 2 updated
    2 Progressing: rolling update: decode 1 of 2 updated
    3 Progressing: waiting for the operator to observe generation 3 (observed 2)
    3 Progressing: waiting for prefill (0 of 1 ready): the operator has not processed it yet
    3 Progressing: waiting for prefill (0 of 1 ready): its pods are not available yet
    3 Healthy!: all components are ready
    4 Progressing: is being deleted, waiting for finalizer nvidia.com/finalizer
    "#);
}

#[test]
fn workers_scale() {
    insta::assert_snapshot!(recording!("worker-scale-up-and-down"), @r#"
    1 Progressing: waiting for frontend: the operator has not processed it yet; worker: the operator has not processed it yet
    1 Progressing: waiting for frontend: the operator has not processed it yet; worker (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for frontend (0 of 1 ready): its pods are not available yet; worker (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for worker (0 of 1 ready): its pods are not available yet
    1 Healthy!: all components are ready
    2 Progressing: waiting for the operator to observe generation 2 (observed 1)
    2 Progressing: waiting for worker (1 of 3 ready): the operator has not processed it yet
    2 Progressing: waiting for worker (1 of 3 ready): its pods are not available yet
    2 Progressing: waiting for worker (2 of 3 ready): its pods are not available yet
    2 Healthy!: all components are ready
    3 Progressing: waiting for the operator to observe generation 3 (observed 2)
    3 Progressing: waiting for worker: the operator has not processed it yet
    3 Progressing: waiting for worker: its pods are not available yet
    3 Healthy!: all components are ready
    4 Progressing: is being deleted, waiting for finalizer nvidia.com/finalizer
    "#);
}

fn graph(replicas: u64, status: Value) -> Object {
    Object::from_value(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "llama", "namespace": "prod", "generation": 3},
        "spec": {"components": [{"name": "decode", "replicas": replicas}]},
        "status": status,
    }))
    .unwrap()
}

fn ready(generation: i64) -> Value {
    json!({"observedGeneration": generation, "state": "successful",
        "conditions": [{"type": "Ready", "status": "True", "reason": "all_resources_are_ready"}]})
}

#[test]
fn a_cache_that_lags_behind_the_apply_is_not_believed() {
    let verdict = assess_health(&graph(1, ready(3)), Some(4));
    assert_eq!((verdict.health, verdict.terminal), (Health::Progressing, false));
    assert_eq!(assess_health(&graph(1, ready(3)), Some(3)).health, Health::Healthy);
}

#[test]
fn all_components_at_zero_are_suspended() {
    assert_eq!(assess_health(&graph(0, ready(3)), None).health, Health::Suspended);
}

#[test]
fn what_was_healthy_at_this_generation_is_degraded() {
    let status = json!({"observedGeneration": 3, "state": "pending", "conditions": [
        {"type": "Ready", "status": "False", "reason": "some_resources_are_not_ready",
         "message": "Resources not ready: llama-decode-fe70d00d: Component deployment not ready - Available condition not true"}]});
    let object = graph(1, status);
    assert_eq!(
        assess_health_in_context(&object, HealthContext { healthy_at: Some(3), ..HealthContext::default() }).health,
        Health::Degraded
    );
    assert_eq!(
        assess_health_in_context(&object, HealthContext { healthy_at: Some(2), ..HealthContext::default() }).health,
        Health::Progressing
    );
}

#[test]
fn a_status_of_the_wrong_shape_is_never_healthy() {
    for status in [
        json!(null),
        json!([]),
        json!("x"),
        json!({"conditions": {"type": "Ready"}}),
        json!({"observedGeneration": "3"}),
    ] {
        assert_ne!(assess_health(&graph(1, status), None).health, Health::Healthy);
    }
}

/// Cases in the manner of kstatus' own: an object, its status, and what may be said of it.
#[test]
fn the_cases_that_others_get_wrong() {
    let object = |kind: &str, generation: i64, spec: Value, status: Value| {
        let value = json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": kind,
            "metadata": {"name": "x", "namespace": "prod", "generation": generation}, "spec": spec, "status": status,
        });
        Object::from_value(value).unwrap()
    };
    let (dgd, dgdr, dm) = ("DynamoGraphDeployment", "DynamoGraphDeploymentRequest", "DynamoModel");
    let one = json!({"components": [{"name": "decode", "replicas": 1}]});
    let lora = json!({"modelType": "lora"});
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let endpoints = |generation: Option<i64>| {
        let mut condition = json!({"type": "EndpointsReady", "status": "True"});
        if let Some(generation) = generation {
            condition["observedGeneration"] = json!(generation);
        }
        json!({"conditions": [condition], "readyEndpoints": 2, "totalEndpoints": 2})
    };
    let cases = [
        ("no status at all", object(dgd, 1, one.clone(), Value::Null)),
        ("the state that reading fills in", object(dgd, 1, one.clone(), json!({"state": "initializing"}))),
        (
            "Ready without a generation",
            object(dgd, 1, one.clone(), json!({"state": "successful", "conditions": ready})),
        ),
        (
            "Ready of the last generation",
            object(dgd, 2, one.clone(), json!({"observedGeneration": 1, "state": "successful", "conditions": ready})),
        ),
        (
            "successful and not Ready",
            object(dgd, 1, one.clone(), json!({"observedGeneration": 1, "state": "successful", "conditions": []})),
        ),
        (
            "Ready and rolling",
            object(
                dgd,
                1,
                one.clone(),
                json!({"observedGeneration": 1, "state": "successful", "conditions": ready, "rollingUpdate": {"phase": "InProgress"}}),
            ),
        ),
        (
            "Ready and restarting",
            object(
                dgd,
                1,
                one.clone(),
                json!({"observedGeneration": 1, "state": "successful", "conditions": ready, "restart": {"phase": "Pending"}}),
            ),
        ),
        ("Ready", object(dgd, 1, one, json!({"observedGeneration": 1, "state": "successful", "conditions": ready}))),
        (
            "a request that is done without a generation",
            object(dgdr, 1, json!({}), json!({"phase": "Deployed", "dgdName": "x"})),
        ),
        ("adapters loaded, no generation", object(dm, 1, lora.clone(), endpoints(None))),
        ("adapters loaded before the change", object(dm, 2, lora.clone(), endpoints(Some(1)))),
        ("adapters loaded", object(dm, 2, lora, endpoints(Some(2)))),
        ("a kind without a rule", object("DynamoCheckpoint", 1, json!({}), json!({"phase": "Ready"}))),
    ];
    let lines: Vec<String> = cases
        .iter()
        .map(|(name, object)| {
            let verdict = assess_health(object, None);
            format!("{name}: {}, {}", verdict.health, verdict.message)
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    no status at all: Unknown, the operator has not observed it yet
    the state that reading fills in: Unknown, the operator has not observed it yet
    Ready without a generation: Unknown, the operator has not observed it yet
    Ready of the last generation: Progressing, waiting for the operator to observe generation 2 (observed 1)
    successful and not Ready: Progressing, not ready yet
    Ready and rolling: Progressing, rolling update under way: workers are starting
    Ready and restarting: Progressing, restarting components
    Ready: Healthy, all components are ready
    a request that is done without a generation: Unknown, the operator has not observed it yet
    adapters loaded, no generation: Unknown, the operator has not observed it yet
    adapters loaded before the change: Progressing, the operator has not observed the change yet
    adapters loaded: Healthy, loaded on 2 of 2 endpoints
    a kind without a rule: Unknown, no health rule for DynamoCheckpoint
    ");
}

/// The operator looks at an adapter some time after its workers were replaced.
#[test]
fn an_adapter_is_held_against_the_workers_that_are_ready() {
    let graph = Object::from_value(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": {"name": "x", "namespace": "prod"},
        "spec": {"components": [
            {"name": "frontend"}, {"name": "prefill", "modelRef": {"name": "m"}}, {"name": "decode", "modelRef": {"name": "m"}},
        ]},
        "status": {"components": {"prefill": {"readyReplicas": 1}, "decode": {"readyReplicas": 2}, "frontend": {"readyReplicas": 9}}},
    }))
    .unwrap();
    let workers = ready_workers(&graph);
    let said: Vec<String> = [1, 2, 3, 4]
        .iter()
        .map(|total| {
            let endpoints =
                AdapterEndpoints { served_name: "sql".to_owned(), base_model: "m".to_owned(), total: *total };
            let alone = HealthVerdict::new(Health::Healthy, format!("loaded on {total} of {total} endpoints"));
            let HealthVerdict { health, message, .. } = endpoints.check_against_workers(alone, workers["m"]);
            format!("{health}, {message}")
        })
        .collect();
    insta::assert_snapshot!(said.join("\n"), @r"
    Progressing, loaded on 1 endpoints, and 3 workers are ready
    Progressing, loaded on 2 endpoints, and 3 workers are ready
    Healthy, loaded on 3 of 3 endpoints
    Healthy, loaded on 4 of 4 endpoints
    ");
}

/// Workers that have loaded an adapter serve nobody before the frontend lists it.
#[test]
fn an_adapter_is_healthy_when_the_frontend_serves_it() {
    let adapter = AdapterEndpoints { served_name: "sql".to_owned(), base_model: "m".to_owned(), total: 2 };
    let serves = |names: &[&str]| FrontendAnswer::Serves(names.iter().map(|name| (*name).to_owned()).collect());
    let answers = [
        serves(&["m", "sql"]),
        serves(&["m", "sql-2"]),
        serves(&[]),
        FrontendAnswer::NotAsked,
        FrontendAnswer::unknown("give stator the right `get` on `services/proxy`"),
    ];
    let loaded = || HealthVerdict::new(Health::Healthy, "loaded on 2 of 2 endpoints");
    let loading = || HealthVerdict::progressing("loaded on 1 of 2 endpoints");
    let said = |alone: fn() -> HealthVerdict| -> Vec<String> {
        let judged = answers.iter().map(|answer| adapter.check_against_frontend(alone(), answer));
        judged.map(|one| format!("{}{}: {}", one.health, if one.terminal { "!" } else { "" }, one.message)).collect()
    };
    insta::assert_snapshot!(said(loaded).join("\n"), @r"
    Healthy!: loaded on 2 of 2 endpoints, served
    Progressing: loaded on 2 of 2 endpoints, not served yet: /v1/models of the frontend does not list `sql`
    Progressing: loaded on 2 of 2 endpoints, not served yet: /v1/models of the frontend does not list `sql`
    Healthy!: loaded on 2 of 2 endpoints
    Healthy!: loaded on 2 of 2 endpoints; unknown whether it is served: give stator the right `get` on `services/proxy`
    ");
    // What is not loaded is not better for being served.
    assert_eq!(said(loading), ["Progressing: loaded on 1 of 2 endpoints"; 5]);
}

#[test]
fn an_object_that_does_not_go_is_found_out() {
    let mut value = graph(1, ready(3)).into_value();
    value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    value["metadata"]["finalizers"] = json!(["nvidia.com/finalizer", "foregroundDeletion"]);
    let at = |now: &str| {
        let object = Object::from_value(value.clone()).unwrap();
        let verdict = assess_health_in_context(
            &object,
            HealthContext { now: Some(now.parse().unwrap()), ..HealthContext::default() },
        );
        format!("{}: {}", verdict.health, verdict.message)
    };
    insta::assert_snapshot!([at("2026-01-01T00:09:59Z"), at("2026-01-01T00:10:01Z")].join("\n"), @r"
    Progressing: is being deleted, waiting for finalizers nvidia.com/finalizer, foregroundDeletion
    Degraded: is stuck in deletion since 2026-01-01T00:00:00Z, waiting for finalizers nvidia.com/finalizer, foregroundDeletion: check that its controller is running
    ");
}

fn some_status() -> impl Strategy<Value = Value> {
    let phase = prop_oneof![
        Just(""),
        Just("Pending"),
        Just("InProgress"),
        Just("Completed"),
        Just("Failed"),
        Just("Restarting")
    ];
    let request =
        prop_oneof![Just(""), Just("Profiling"), Just("Ready"), Just("Deployed"), Just("Deploying"), Just("Failed")];
    let state = prop_oneof![Just("initializing"), Just("pending"), Just("successful"), Just("failed")];
    let truth = prop_oneof![Just("True"), Just("False"), Just("Unknown")];
    (prop::option::of(0..4i64), state, truth, phase.clone(), phase, request, prop::option::of(0..4i64)).prop_map(
        |(observed, state, truth, rolling, restart, phase, condition)| {
            let mut status = json!({
                "state": state, "phase": phase, "rollingUpdate": {"phase": rolling}, "restart": {"phase": restart},
                "readyEndpoints": 1, "totalEndpoints": 1,
                "conditions": [{"type": "Ready", "status": truth}, {"type": "EndpointsReady", "status": truth}],
            });
            if let Some(observed) = observed {
                status["observedGeneration"] = json!(observed);
            }
            if let Some(observed) = condition {
                status["conditions"][1]["observedGeneration"] = json!(observed);
            }
            status
        },
    )
}

proptest! {
    /// The law of the module: nothing is Healthy before the operator has said so of this very generation, none that was
    /// applied later, none while it rolls, and none while it goes. Through any sequence of statuses.
    #[test]
    fn nothing_is_healthy_too_early(
        statuses in prop::collection::vec((some_status(), 1..4i64, prop::bool::ANY), 1..12),
        kind in prop_oneof![Just("DynamoGraphDeployment"), Just("DynamoGraphDeploymentRequest"), Just("DynamoModel")],
        applied in prop::option::of(1..4i64),
    ) {
        let mut healthy_at = None;
        for (status, generation, going) in statuses {
            let mut value = json!({
                "apiVersion": "nvidia.com/v1beta1", "kind": kind,
                "metadata": {"name": "x", "namespace": "prod", "generation": generation},
                "spec": {"components": [{"name": "decode"}], "modelType": "lora"}, "status": status,
            });
            if going {
                value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            let object = Object::from_value(value).unwrap();
            let verdict = assess_health_in_context(&object, HealthContext { applied_generation: applied, healthy_at, now: None });
            if verdict.health == Health::Healthy {
                let observed = match kind {
                    "DynamoModel" => status["conditions"][1]["observedGeneration"].as_i64(),
                    _ => status["observedGeneration"].as_i64(),
                };
                prop_assert!(observed.is_some_and(|observed| observed >= generation), "old: {status}");
                prop_assert!(applied.is_none_or(|applied| generation >= applied), "not what was applied: {status}");
                prop_assert!(!going, "going: {status}");
                if kind == "DynamoGraphDeployment" {
                    for pointer in ["/rollingUpdate/phase", "/restart/phase"] {
                        let phase = status.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
                        prop_assert!(!matches!(phase, "Pending" | "InProgress" | "Restarting" | "Failed"), "{phase}");
                    }
                }
                healthy_at = Some(generation);
            }
        }
    }
}

#[test]
fn a_claim_without_a_volume_says_what_it_lacks() {
    let described = |spec: serde_json::Value, status: serde_json::Value| {
        let claim = serde_json::json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "weights", "namespace": "prod"},
            "spec": spec, "status": status,
        });
        assess_health(&Object::from_value(claim).unwrap(), None).message
    };
    let pending = serde_json::json!({"phase": "Pending"});
    let said = [
        described(serde_json::json!({}), serde_json::json!({})),
        described(serde_json::json!({}), pending.clone()),
        described(serde_json::json!({"volumeName": "nfs-1"}), pending.clone()),
        described(serde_json::json!({"storageClassName": "fast"}), pending),
    ];
    insta::assert_snapshot!(said.join("\n"), @"
    waiting for a volume
    waiting for a volume; it names no storage class, and the cluster has no default one: set one in git, or create a volume for it
    waiting for a volume
    waiting for a volume of storage class `fast`
    ");
}
