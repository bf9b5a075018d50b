//! What the operator does with a request, as the recordings show it: profile, then recommend or deploy.

use super::script::{Frame, condition};
use serde_json::{Value, json};
use stator_core::dynamo::kinds::GRAPH;
use stator_core::object::{Object, ObjectRef};
use std::collections::BTreeMap;
use std::time::Duration;

/// The annotation in which the generated graph travels from the profiler to the operator.
const GENERATED: &str = "nvidia.com/generated-dgd-spec";
/// Between two phases of profiling, which takes about fifteen seconds in the recordings.
const PHASE: Duration = Duration::from_millis(2000);
const SOON: Duration = Duration::from_millis(200);
/// What the profiler goes through, in its order.
const SWEEPS: &[&str] = &["SweepingPrefill", "SweepingDecode", "SelectingConfig", "BuildingCurves", "GeneratingDGD"];

/// The graph that a request deploys.
pub(super) fn graph_of(request: &Object) -> ObjectRef {
    let name = request.text("/status/dgdName").map(str::to_owned).unwrap_or_else(|| generated_name(request));
    ObjectRef {
        api_version: GRAPH.api_version(),
        kind: GRAPH.kind.to_owned(),
        namespace: request.namespace().to_owned(),
        name,
    }
}

fn generated_name(request: &Object) -> String {
    request.text("/spec/overrides/dgd/metadata/name").map_or_else(|| format!("{}-dgd", request.name()), str::to_owned)
}

/// The steps that carry a request on. `graph` is the one that it deploys, as it is now.
pub(super) fn script(request: &Object, graph: Option<&Object>) -> Vec<Frame> {
    if request.is_deleting() {
        return vec![Frame::release()];
    }
    let mut frames = Vec::new();
    if !request.finalizers().contains(&stator_core::dynamo::kinds::OPERATOR_FINALIZER) {
        frames.push(Frame::adopt());
    }
    match request.text("/status/phase") {
        None | Some("" | "Pending" | "Profiling") => profile(request, &mut frames),
        Some("Deploying" | "Deployed") => deploy(request, graph, &mut frames),
        // Ready and Failed are the end, whatever is edited afterwards.
        Some(_) => {}
    }
    frames
}

fn profile(request: &Object, frames: &mut Vec<Frame>) {
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
    frames.push(Frame::status(
        SOON,
        json!({"observedGeneration": generation, "phase": "Pending", "conditions": pending}),
    ));
    for (after, reason, message) in [(SOON, "Initializing", discover), (PHASE, "ProfilingRunning", running)] {
        let status = profiling("Initializing", both("Profiling", running, (reason, message)));
        frames.push(Frame::status(after, status));
    }
    let unreachable = unreachable_target(request);
    for sweep in SWEEPS {
        frames.push(Frame::status(PHASE, profiling(sweep, both(sweep, sweep, (sweep, sweep)))));
        if let Some(target) = unreachable.filter(|_| *sweep == "SweepingDecode") {
            let reason = format!("{sweep}Failed");
            let message = format!("profiling failed: no configuration meets ttft {target} ms");
            let mut status = profiling(sweep, both(&reason, &message, (&reason, &message)));
            status["phase"] = json!("Failed");
            frames.push(Frame::status(PHASE, status));
            return;
        }
    }
    let done = profiling("Done", both("Completed", "Done", ("Completed", "Done")));
    frames.push(Frame::status(PHASE, done));
    let selected = selected(request);
    let text = serde_saphyr::to_string(&selected).unwrap_or_default();
    frames.push(Frame { after: SOON, annotations: BTreeMap::from([(GENERATED, Some(text))]), ..Frame::default() });
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
    frames.push(Frame::status(SOON, status.clone()));
    if apply {
        frames.extend(create(request, status));
    }
}

/// How to make a simulated request fail: ask for a first token in less than a millisecond. Gives the target.
fn unreachable_target(request: &Object) -> Option<&Value> {
    let ttft = request.spec().pointer("/sla/ttft")?;
    ttft.as_f64().is_some_and(|target| target < 1.0).then_some(ttft)
}

/// Hands the generated graph over and creates it.
fn create(request: &Object, mut status: Value) -> Vec<Frame> {
    let name = generated_name(request);
    set(&mut status, deployment(false, "DeploymentCreated", &format!("DGD {name} created, waiting for Ready")));
    vec![
        Frame { annotations: BTreeMap::from([(GENERATED, None)]), ..Frame::default() },
        Frame { create: generated_graph(request, &name), ..Frame::status(SOON, status) },
    ]
}

/// Follows the graph, once profiling is over.
fn deploy(request: &Object, graph: Option<&Object>, frames: &mut Vec<Frame>) {
    let mut status = request.status().clone();
    let conditions = status.get("conditions").and_then(Value::as_array);
    let created = conditions.into_iter().flatten().any(|own| own.get("type") == Some(&json!("DeploymentReady")));
    if !created {
        frames.extend(create(request, status));
        return;
    }
    let generation = request.generation();
    let Some(graph) = graph else {
        status["phase"] = json!("Failed");
        set(&mut status, condition("Succeeded", false, "Failed", "DGDR has failed", generation));
        let message = "Deployment was deleted by user. Create a new DGDR to redeploy.";
        set(&mut status, deployment(false, "DeploymentDeleted", message));
        if let Some(map) = status.as_object_mut() {
            map.remove("dgdName");
            map.remove("deploymentInfo");
        }
        frames.push(Frame::status(SOON, status));
        return;
    };
    let state = graph.text("/status/state").unwrap_or_default();
    let sum = |field: &str| -> i64 {
        let components = graph.status().get("components").and_then(Value::as_object);
        components.into_iter().flatten().filter_map(|(_, own)| own.get(field)?.as_i64()).sum()
    };
    status["deploymentInfo"] = json!({"replicas": sum("replicas"), "availableReplicas": sum("availableReplicas")});
    let name = graph.name();
    if state == "successful" {
        status["phase"] = json!("Deployed");
        set(&mut status, condition("Succeeded", true, "Deployed", "Deployment is healthy", generation));
        let message = format!("DynamoGraphDeployment {name} is ready");
        set(&mut status, deployment(true, "DeploymentReady", &message));
        frames.push(Frame::status(SOON, status));
        return;
    }
    let deployed = request.text("/status/phase") == Some("Deployed");
    status["phase"] = json!("Deploying");
    set(&mut status, condition("Succeeded", false, "Deploying", "Deployment is in progress", generation));
    if deployed {
        let mut degraded = status.clone();
        let message = format!("Deployment degraded to {state}");
        set(&mut degraded, deployment(false, "DeploymentDegraded", &message));
        frames.push(Frame::status(SOON, degraded));
    }
    let message = format!("DGD {name} is in {state} state");
    set(&mut status, deployment(false, "DeploymentInProgress", &message));
    frames.push(Frame::status(SOON, status));
}

fn deployment(status: bool, reason: &str, message: &str) -> Value {
    condition("DeploymentReady", status, reason, message, None)
}

/// Puts a condition in the place of the one of its type.
fn set(status: &mut Value, condition: Value) {
    let Some(list) = status.get_mut("conditions").and_then(Value::as_array_mut) else { return };
    match list.iter_mut().find(|own| own.get("type") == condition.get("type")) {
        Some(own) => *own = condition,
        None => list.push(condition),
    }
}

struct Choice<'a> {
    image: String,
    model: &'a str,
    module: &'static str,
    flag: &'static str,
}

/// What the simulated profiler always selects: one frontend and one worker on one GPU.
fn choice(request: &Object) -> Choice<'_> {
    let (runtime, module, flag) = match request.text("/spec/backend") {
        Some("sglang") => ("sglang-runtime", "dynamo.sglang", "--model-path"),
        Some("trtllm") => ("tensorrtllm-runtime", "dynamo.trtllm", "--model"),
        Some(_) | None => ("vllm-runtime", "dynamo.vllm", "--model"),
    };
    // The runtime images carry the version of the profiler's own.
    let tag = request.text("/spec/image").and_then(|image| image.rsplit_once(':')).map_or("1.2.0", |(_, tag)| tag);
    Choice {
        image: format!("nvcr.io/nvidia/ai-dynamo/{runtime}:{tag}"),
        model: request.text("/spec/model").unwrap_or_default(),
        module,
        flag,
    }
}

/// The recommendation, in the v1alpha1 shape that the profiler writes.
fn selected(request: &Object) -> Value {
    let Choice { image, model, module, flag } = choice(request);
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
    let Choice { image, model, module, flag } = choice(request);
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
