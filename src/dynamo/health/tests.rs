use super::*;
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
        let verdict = judge_since(&object, None, healthy_at);
        let settled = object.status().get("observedGeneration").and_then(Value::as_i64) == object.generation();
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
        story(include_str!(concat!("../../../tests/data/dynamo/recordings/", $name, ".jsonl")))
    };
}

#[test]
fn a_frontend_gets_a_new_image() {
    insta::assert_snapshot!(recording!("frontend-image"), @r#"
    1 Progressing: the operator has not seen it yet
    1 Progressing: waiting for frontend: the operator has not processed it yet; worker: the operator has not processed it yet
    1 Progressing: waiting for frontend: the operator has not processed it yet; worker (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for frontend (0 of 1 ready): its pods are not available yet; worker (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for worker (0 of 1 ready): its pods are not available yet
    1 Healthy!: all components are ready
    2 Progressing: the operator is at generation 1, the object at 2
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
    1 Failed!: the request failed while deploying (DeploymentDeleted): Deployment was deleted by user. Create a new DGDR to redeploy; set `sla.attempt` one higher to have it made again
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
    1 Failed!: the request failed while profiling (SweepingDecodeFailed): profiling failed: no configuration meets ttft 300 ms; change what `sla` asks for, or set `sla.attempt` one higher to try again
    2 Progressing: is being deleted, waiting for finalizer nvidia.com/finalizer
    "#);
}

#[test]
fn a_request_ends_ready_and_is_edited_afterwards() {
    insta::assert_snapshot!(recording!("request-ready"), @r#"
    1 Progressing: the operator has not seen it yet
    1 Progressing: waiting to be profiled
    1 Progressing: profiling: Initializing
    1 Progressing: profiling: SweepingPrefill
    1 Progressing: profiling: SweepingDecode
    1 Progressing: profiling: SelectingConfig
    1 Progressing: profiling: BuildingCurves
    1 Progressing: profiling: GeneratingDGD
    1 Progressing: profiling: Done
    1 Healthy!: a recommendation is available: `stator lock` keeps it in git
    2 Degraded!: was edited after its end, which Dynamo ignores: delete it, and the next sync makes it again
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
    2 Progressing: the operator is at generation 1, the object at 2
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
    1 Progressing: the operator has not seen it yet
    1 Progressing: waiting for frontend: the operator has not processed it yet; worker: the operator has not processed it yet
    1 Progressing: waiting for frontend: the operator has not processed it yet; worker (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for frontend (0 of 1 ready): its pods are not available yet; worker (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for worker (0 of 1 ready): its pods are not available yet
    1 Healthy!: all components are ready
    2 Progressing: the operator is at generation 1, the object at 2
    2 Progressing: waiting for worker: the operator has not processed it yet
    2 Healthy!: all components are ready
    3 Progressing: is being deleted, waiting for finalizer nvidia.com/finalizer
    "#);
}

#[test]
fn workers_roll() {
    insta::assert_snapshot!(recording!("worker-args-managed-roll"), @r#"
    1 Progressing: the operator has not seen it yet
    1 Progressing: waiting for frontend (0 of 1 ready): its pods are not available yet; worker: the operator has not processed it yet
    1 Progressing: waiting for frontend (0 of 1 ready): its pods are not available yet; worker (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for worker (0 of 1 ready): its pods are not available yet
    1 Healthy!: all components are ready
    2 Progressing: the operator is at generation 1, the object at 2
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
    1 Progressing: the operator has not seen it yet
    1 Progressing: waiting for decode: the operator has not processed it yet; frontend: the operator has not processed it yet; prefill: the operator has not processed it yet
    1 Progressing: waiting for decode: the operator has not processed it yet; frontend: the operator has not processed it yet; prefill (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for decode (0 of 1 ready): its pods are not available yet; frontend: the operator has not processed it yet; prefill (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for decode (0 of 1 ready): its pods are not available yet; frontend (0 of 1 ready): its pods are not available yet; prefill (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for decode (0 of 1 ready): its pods are not available yet; frontend (0 of 1 ready): its pods are not available yet
    1 Progressing: waiting for frontend (0 of 1 ready): its pods are not available yet
    1 Healthy!: all components are ready
    2 Progressing: the operator is at generation 1, the object at 2
    2 Progressing: rolling update under way: workers are starting
    2 Progressing: rolling update: decode 0 of 1 updated
    2 Progressing: rolling update: prefill 1 of 2 updated, decode 0 of 1 updated
    2 Progressing: rolling update: prefill 1 of 2 updated, decode 1 of 2 updated
    2 Progressing: rolling update: decode 1 of 2 updated
    3 Progressing: the operator is at generation 2, the object at 3
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
    2 Progressing: the operator is at generation 1, the object at 2
    2 Progressing: waiting for worker (1 of 3 ready): the operator has not processed it yet
    2 Progressing: waiting for worker (1 of 3 ready): its pods are not available yet
    2 Progressing: waiting for worker (2 of 3 ready): its pods are not available yet
    2 Healthy!: all components are ready
    3 Progressing: the operator is at generation 2, the object at 3
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
    let verdict = judge(&graph(1, ready(3)), Some(4));
    assert_eq!((verdict.health, verdict.terminal), (Health::Progressing, false));
    assert_eq!(judge(&graph(1, ready(3)), Some(3)).health, Health::Healthy);
}

#[test]
fn all_components_at_zero_are_suspended() {
    assert_eq!(judge(&graph(0, ready(3)), None).health, Health::Suspended);
}

#[test]
fn what_was_healthy_at_this_generation_is_degraded() {
    let status = json!({"observedGeneration": 3, "state": "pending", "conditions": [
        {"type": "Ready", "status": "False", "reason": "some_resources_are_not_ready",
         "message": "Resources not ready: llama-decode-fe70d00d: Component deployment not ready - Available condition not true"}]});
    let object = graph(1, status);
    assert_eq!(judge_since(&object, None, Some(3)).health, Health::Degraded);
    assert_eq!(judge_since(&object, None, Some(2)).health, Health::Progressing);
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
        assert_ne!(judge(&graph(1, status), None).health, Health::Healthy);
    }
}
