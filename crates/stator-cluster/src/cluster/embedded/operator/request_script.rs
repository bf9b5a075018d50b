//! What the operator does with a request, as the recordings show it: profile, then recommend or deploy.

use super::script::{ScriptStep, condition};
use serde_json::{Value, json};
use stator_core::dynamo::kinds::GRAPH;
use stator_core::object::{Object, ObjectRef};
use std::collections::BTreeMap;
use std::time::Duration;

/// The annotation in which the generated graph travels from the profiler to the operator.
const GENERATED_SPEC_ANNOTATION: &str = "nvidia.com/generated-dgd-spec";
/// Between two phases of profiling, which takes about fifteen seconds in the recordings.
const PHASE_TIME: Duration = Duration::from_millis(2000);
const SHORT_DELAY: Duration = Duration::from_millis(200);
/// What the profiler goes through, in its order.
const PROFILING_PHASES: &[&str] =
    &["SweepingPrefill", "SweepingDecode", "SelectingConfig", "BuildingCurves", "GeneratingDGD"];

/// The graph that a request deploys.
pub(super) fn graph_of(request: &Object) -> ObjectRef {
    let name = request.str_at("/status/dgdName").map(str::to_owned).unwrap_or_else(|| generated_name(request));
    ObjectRef {
        api_version: GRAPH.api_version(),
        kind: GRAPH.kind.to_owned(),
        namespace: request.namespace().to_owned(),
        name,
    }
}

fn generated_name(request: &Object) -> String {
    request.str_at("/spec/overrides/dgd/metadata/name").map_or_else(|| format!("{}-dgd", request.name()), str::to_owned)
}

/// The steps that carry a request on. `graph` is the one that it deploys, as it is now.
pub(super) fn build_script(request: &Object, graph: Option<&Object>) -> Vec<ScriptStep> {
    if request.is_deleting() {
        return vec![ScriptStep::release()];
    }
    let mut frames = Vec::new();
    if !request.finalizers().contains(&stator_core::dynamo::kinds::OPERATOR_FINALIZER) {
        frames.push(ScriptStep::adopt());
    }
    match request.str_at("/status/phase") {
        None | Some("" | "Pending" | "Profiling") => profile_steps(request, &mut frames),
        Some("Deploying" | "Deployed") => deploy_steps(request, graph, &mut frames),
        // Ready and Failed are the end, whatever is edited afterwards.
        Some(_) => {}
    }
    frames
}

fn profile_steps(request: &Object, frames: &mut Vec<ScriptStep>) {
    let generation = request.generation();
    let job = format!("profile-{}", request.name());
    let both = |reason: &str, message: &str, profiling: (&str, &str)| {
        json!([
            condition("Succeeded", false, reason, message, generation),
            condition("Profiling", false, profiling.0, profiling.1, generation),
        ])
    };
    let profiling = |phase: &str, conditions: Value| {
        json!({
            "observedGeneration": generation, "phase": "Profiling", "profilingPhase": phase,
            "profilingJobName": job, "conditions": conditions,
        })
    };
    let discover = "Discovering GPU hardware and preparing profiling job";
    let pending = both("Pending", "DGDR is pending", ("DiscoveringHardware", discover));
    let running = "Profiling is in progress";
    frames.push(ScriptStep::status(
        SHORT_DELAY,
        json!({"observedGeneration": generation, "phase": "Pending", "conditions": pending}),
    ));
    for (after, reason, message) in [(SHORT_DELAY, "Initializing", discover), (PHASE_TIME, "ProfilingRunning", running)]
    {
        let status = profiling("Initializing", both("Profiling", running, (reason, message)));
        frames.push(ScriptStep::status(after, status));
    }
    let unreachable = unreachable_target(request);
    for sweep in PROFILING_PHASES {
        frames.push(ScriptStep::status(PHASE_TIME, profiling(sweep, both(sweep, sweep, (sweep, sweep)))));
        if let Some(target) = unreachable.filter(|_| *sweep == "SweepingDecode") {
            let reason = format!("{sweep}Failed");
            let message = format!("profiling failed: no configuration meets ttft {target} ms");
            let mut status = profiling(sweep, both(&reason, &message, (&reason, &message)));
            status["phase"] = json!("Failed");
            frames.push(ScriptStep::status(PHASE_TIME, status));
            return;
        }
    }
    let done = profiling("Done", both("Completed", "Done", ("Completed", "Done")));
    frames.push(ScriptStep::status(PHASE_TIME, done));
    let selected = recommended_spec(request);
    let text = serde_saphyr::to_string(&selected).unwrap_or_default();
    frames.push(ScriptStep {
        after: SHORT_DELAY,
        annotations: BTreeMap::from([(GENERATED_SPEC_ANNOTATION, Some(text))]),
        ..ScriptStep::default()
    });
    let apply = request.spec().get("autoApply").and_then(Value::as_bool).unwrap_or(true);
    let (phase, succeeded, generated) = if apply {
        (
            "Deploying",
            condition("Succeeded", false, "Deploying", "Deployment is in progress", generation),
            "DynamoGraphDeployment spec generated successfully",
        )
    } else {
        (
            "Ready",
            condition("Succeeded", true, "SpecGenerated", "Profiling complete, spec available", generation),
            "Generated spec is available in annotation nvidia.com/generated-dgd-spec",
        )
    };
    let status = json!({
        "observedGeneration": generation, "phase": phase, "profilingJobName": job, "dgdName": generated_name(request),
        "profilingResults": {"selectedConfig": selected},
        "conditions": [
            succeeded,
            condition("Profiling", true, "ProfilingCompleted", "Profiling job completed successfully", generation),
            condition("SpecGenerated", true, "SpecGenerated", generated, generation),
        ],
    });
    frames.push(ScriptStep::status(SHORT_DELAY, status.clone()));
    if apply {
        frames.extend(create_graph_steps(request, status));
    }
}

/// How to make a simulated request fail: ask for a first token in less than a millisecond. Gives the target.
fn unreachable_target(request: &Object) -> Option<&Value> {
    let ttft = request.spec().pointer("/sla/ttft")?;
    ttft.as_f64().is_some_and(|target| target < 1.0).then_some(ttft)
}

/// Hands the generated graph over and creates it.
fn create_graph_steps(request: &Object, mut status: Value) -> Vec<ScriptStep> {
    let name = generated_name(request);
    replace_condition(
        &mut status,
        deployment_condition(false, "DeploymentCreated", &format!("DGD {name} created, waiting for Ready")),
    );
    vec![
        ScriptStep { annotations: BTreeMap::from([(GENERATED_SPEC_ANNOTATION, None)]), ..ScriptStep::default() },
        ScriptStep { create: generated_graph(request, &name), ..ScriptStep::status(SHORT_DELAY, status) },
    ]
}

/// Whether the request has made its graph: its status has the condition that says how the graph does.
pub(super) fn is_deployment_created(request: &Object) -> bool {
    let conditions = request.status().get("conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|own| own.get("type") == Some(&json!("DeploymentReady")))
}

/// Follows the graph, once profiling is over.
fn deploy_steps(request: &Object, graph: Option<&Object>, frames: &mut Vec<ScriptStep>) {
    let mut status = request.status().clone();
    let created = is_deployment_created(request);
    if !created {
        frames.extend(create_graph_steps(request, status));
        return;
    }
    let generation = request.generation();
    let Some(graph) = graph else {
        status["phase"] = json!("Failed");
        replace_condition(&mut status, condition("Succeeded", false, "Failed", "DGDR has failed", generation));
        let message = "Deployment was deleted by user. Create a new DGDR to redeploy.";
        replace_condition(&mut status, deployment_condition(false, "DeploymentDeleted", message));
        if let Some(map) = status.as_object_mut() {
            map.remove("dgdName");
            map.remove("deploymentInfo");
        }
        frames.push(ScriptStep::status(SHORT_DELAY, status));
        return;
    };
    let state = graph.str_at("/status/state").unwrap_or_default();
    let sum = |field: &str| -> i64 {
        let components = graph.status().get("components").and_then(Value::as_object);
        components.into_iter().flatten().filter_map(|(_, own)| own.get(field)?.as_i64()).sum()
    };
    status["deploymentInfo"] = json!({"replicas": sum("replicas"), "availableReplicas": sum("availableReplicas")});
    let name = graph.name();
    if state == "successful" {
        status["phase"] = json!("Deployed");
        replace_condition(&mut status, condition("Succeeded", true, "Deployed", "Deployment is healthy", generation));
        let message = format!("DynamoGraphDeployment {name} is ready");
        replace_condition(&mut status, deployment_condition(true, "DeploymentReady", &message));
        frames.push(ScriptStep::status(SHORT_DELAY, status));
        return;
    }
    let deployed = request.str_at("/status/phase") == Some("Deployed");
    status["phase"] = json!("Deploying");
    replace_condition(&mut status, condition("Succeeded", false, "Deploying", "Deployment is in progress", generation));
    if deployed {
        let mut degraded = status.clone();
        let message = format!("Deployment degraded to {state}");
        replace_condition(&mut degraded, deployment_condition(false, "DeploymentDegraded", &message));
        frames.push(ScriptStep::status(SHORT_DELAY, degraded));
    }
    let message = format!("DGD {name} is in {state} state");
    replace_condition(&mut status, deployment_condition(false, "DeploymentInProgress", &message));
    frames.push(ScriptStep::status(SHORT_DELAY, status));
}

fn deployment_condition(status: bool, reason: &str, message: &str) -> Value {
    condition("DeploymentReady", status, reason, message, None)
}

/// Puts a condition in the place of the one of its type.
fn replace_condition(status: &mut Value, condition: Value) {
    let Some(list) = status.get_mut("conditions").and_then(Value::as_array_mut) else { return };
    match list.iter_mut().find(|own| own.get("type") == condition.get("type")) {
        Some(own) => *own = condition,
        None => list.push(condition),
    }
}

struct ProfilerChoice<'a> {
    image: String,
    model: &'a str,
    module: &'static str,
    flag: &'static str,
}

/// What the simulated profiler always selects: one frontend and one worker on one GPU.
fn profiler_choice(request: &Object) -> ProfilerChoice<'_> {
    let (runtime, module, flag) = match request.str_at("/spec/backend") {
        Some("sglang") => ("sglang-runtime", "dynamo.sglang", "--model-path"),
        Some("trtllm") => ("tensorrtllm-runtime", "dynamo.trtllm", "--model"),
        Some(_) | None => ("vllm-runtime", "dynamo.vllm", "--model"),
    };
    // The runtime images carry the version of the profiler's own.
    let tag = request.str_at("/spec/image").and_then(|image| image.rsplit_once(':')).map_or("1.2.0", |(_, tag)| tag);
    ProfilerChoice {
        image: format!("nvcr.io/nvidia/ai-dynamo/{runtime}:{tag}"),
        model: request.str_at("/spec/model").unwrap_or_default(),
        module,
        flag,
    }
}

/// The recommendation, in the v1alpha1 shape that the profiler writes.
fn recommended_spec(request: &Object) -> Value {
    let ProfilerChoice { image, model, module, flag } = profiler_choice(request);
    json!({
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": generated_name(request)},
        "spec": {"services": {
            "Frontend": {
                "componentType": "frontend", "envFromSecret": "hf-token-secret", "replicas": 1,
                "extraPodSpec": {"mainContainer": {"image": image, "name": "", "resources": {}}},
            },
            "Worker": {
                "componentType": "worker", "envFromSecret": "hf-token-secret", "replicas": 1,
                "resources": {"limits": {"gpu": "1"}},
                "extraPodSpec": {"mainContainer": {
                    "image": image, "name": "", "resources": {},
                    "command": ["python3", "-m", module], "args": [flag, model],
                }},
            },
        }},
    })
}

/// The same, as the graph that the cluster holds.
fn generated_graph(request: &Object, name: &str) -> Option<Object> {
    let ProfilerChoice { image, model, module, flag } = profiler_choice(request);
    let secret = json!([{"secretRef": {"name": "hf-token-secret"}}]);
    Object::from_value(json!({
        "apiVersion": GRAPH.api_version(),
        "kind": GRAPH.kind,
        "metadata": {
            "name": name,
            "namespace": request.namespace(),
            "labels": {
                "dgdr.nvidia.com/name": request.name(),
                "dgdr.nvidia.com/namespace": request.namespace(),
                "nvidia.com/managed-by": "dynamo-operator",
            },
        },
        "spec": {"components": [
            {"name": "Frontend", "type": "frontend", "replicas": 1, "podTemplate": {"spec": {"containers": [
                {"name": "main", "image": image, "envFrom": secret}]}}},
            {"name": "Worker", "type": "worker", "replicas": 1, "podTemplate": {"spec": {"containers": [
                {"name": "main", "image": image, "envFrom": secret, "command": ["python3", "-m", module],
                 "args": [flag, model], "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}},
        ]},
    }))
    .ok()
}
