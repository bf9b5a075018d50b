//! The recordings of the real operator, replayed: the same edits of the spec must give the same states in the same
//! order. What is let pass, and why:
//!
//! - In which order independent components become ready: the sum of ready replicas is compared step by step, and each
//!   component by itself whenever the operator has come to rest.
//! - Steps before the first observed generation: some recordings begin after them.
//! - Consecutive steps that differ in none of the compared fields (children that are counted but not ready).
//! - The operator's hash numbers; that they move is compared.
//! - In `request-failed` the profiler was made to go through all sweeps and then back to the one that failed; the
//!   simulated one fails at once.

use super::component::{self, DeployedComponents};
use super::script::{ScriptStep, with_times};
use super::{adapter_script, graph_script, other_controllers, request_script};
use serde_json::{Value, json};
use stator_core::dynamo::health;
use stator_core::dynamo::release::Release;
use stator_core::object::Object;

fn recording(name: &str) -> Vec<Object> {
    let path = format!("{}/tests/data/dynamo/recordings/{name}.jsonl", concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let text = fs_err::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["type"] != "DELETED")
        .map(|mut event| Object::from_value(event["object"].take()).unwrap())
        .collect()
}

/// Does one step as the driver would, without a cluster.
fn perform(object: Object, frame: &ScriptStep) -> Object {
    object
        .map(|mut value| {
            frame.write_main(&mut value);
            if let Some(status) = &frame.status {
                let old = value["status"].clone();
                value["status"] = with_times(status.clone(), &old, "2026-11-21T00:00:00Z");
            }
            value
        })
        .unwrap()
}

/// The object as a person just created it: without what the operator adds.
fn fresh(recorded: &Object) -> Object {
    recorded
        .clone()
        .map(|mut value| {
            let map = value.as_object_mut().unwrap();
            map.remove("status");
            let metadata = map["metadata"].as_object_mut().unwrap();
            metadata.remove("annotations");
            metadata.remove("finalizers");
            value
        })
        .unwrap()
}

/// The same edit that the recording shows.
fn edited(object: Object, recorded: &Object) -> Object {
    object
        .map(|mut value| {
            value["spec"] = recorded.spec().clone();
            for field in ["generation", "deletionTimestamp"] {
                if let Some(own) = recorded.value()["metadata"].get(field) {
                    value["metadata"][field] = own.clone();
                }
            }
            value
        })
        .unwrap()
}

fn reason<'a>(object: &'a Object, kind: &str) -> &'a str {
    let list = object.status().get("conditions").and_then(Value::as_array);
    let found = list.into_iter().flatten().find(|own| own["type"] == kind);
    found.and_then(|own| own["reason"].as_str()).unwrap_or_default()
}

/// What is compared of one step of a graph.
fn graph_step(object: &Object) -> String {
    let status = object.status();
    let ready: i64 = status["components"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(_, own)| own["readyReplicas"].as_i64())
        .sum();
    format!(
        "generation {} observed {} {} {} ready {ready} roll {} {} restart {} {}{}",
        object.generation().unwrap(),
        status["observedGeneration"],
        status["state"],
        reason(object, "Ready"),
        status["rollingUpdate"]["phase"],
        status["rollingUpdate"]["updatedComponents"],
        status["restart"]["phase"],
        status["restart"]["inProgress"],
        if object.is_deleting() { " deleting" } else { "" },
    )
}

fn collapsed(steps: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut list: Vec<String> = steps.into_iter().filter(|step| !step.contains("observed null")).collect();
    list.dedup();
    list
}

/// A status without the operator's hashes and times.
fn at_rest(object: &Object) -> Value {
    let text = object.status().to_string();
    let hash = regex::Regex::new(r"-[0-9a-f]{8}\b").unwrap().replace_all(&text, "-HASH").into_owned();
    let time = regex::Regex::new(r"\d{4}-\d\d-\d\dT[0-9:]+Z").unwrap().replace_all(&hash, "TIME").into_owned();
    serde_json::from_str(&time).unwrap()
}

/// Replays a graph's recording: the simulated steps and the recorded ones, and compares whole statuses at rest.
fn replay_graph(name: &str) -> (Vec<String>, Vec<String>) {
    let recorded = recording(name);
    let mut object = fresh(&recorded[0]);
    let mut before: Option<DeployedComponents> = None;
    let mut steps = vec![graph_step(&object)];
    let mut generation = object.generation();
    for position in 0..recorded.len() {
        let last_of_generation =
            recorded.get(position + 1).map(Object::generation) != Some(recorded[position].generation());
        if recorded[position].generation() != generation {
            generation = recorded[position].generation();
            object = edited(object, &recorded[position]);
            steps.push(graph_step(&object));
        }
        if !last_of_generation {
            continue;
        }
        for frame in graph_script::build_script(&object, before.as_ref(), Release::V1_2) {
            object = perform(object, &frame);
            steps.push(graph_step(&object));
        }
        before = Some(
            component::components(&object, Release::V1_2).into_iter().map(|own| (own.name, own.applied)).collect(),
        );
        pretty(&at_rest(&object), &at_rest(&recorded[position]), name);
    }
    (collapsed(steps), collapsed(recorded.iter().map(graph_step)))
}

fn pretty(found: &Value, want: &Value, what: &str) {
    let text = |value: &Value| serde_json::to_string_pretty(value).unwrap();
    assert!(found == want, "{what} at rest\n--- simulated\n{}\n--- recorded\n{}", text(found), text(want));
}

fn same_steps(name: &str) {
    let (simulated, recorded) = replay_graph(name);
    assert!(
        simulated == recorded,
        "{name}\n--- simulated\n{}\n--- recorded\n{}",
        simulated.join("\n"),
        recorded.join("\n")
    );
}

#[test]
fn a_frontend_changes_in_place() {
    same_steps("frontend-image");
}

#[test]
fn a_worker_change_rolls_all_workers() {
    same_steps("worker-args-managed-roll");
}

#[test]
fn workers_scale_up_and_down() {
    same_steps("worker-scale-up-and-down");
}

#[test]
fn a_broken_image_hangs_and_its_undoing_completes_under_the_old_hash() {
    same_steps("worker-broken-image-then-fixed");
}

#[test]
fn a_restart_goes_one_by_one() {
    same_steps("restart");
}

#[test]
fn switching_a_scaling_adapter_on_restarts_nothing() {
    same_steps("scaling-adapter-on");
}

#[test]
fn the_worker_hash_moves_when_the_operators_does() {
    let recorded = recording("worker-args-managed-roll");
    let own = |object: &Object| component::worker_hashes(object, &component::components(object, Release::V1_2)).0;
    let (first, last) = (&recorded[0], &recorded[recorded.len() - 1]);
    assert_ne!(own(first), own(last));
    let recorded = recording("worker-scale-up-and-down");
    assert!(recorded.iter().all(|object| own(object) == own(&recorded[0])), "replicas are not in it");
}

/// What is compared of one step of a request.
fn request_step(object: &Object) -> String {
    let status = object.status();
    let conditions: Vec<String> = status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|own| format!("{}={} {} {:?}", own["type"], own["status"], own["reason"], own["message"].as_str()))
        .collect();
    format!(
        "generation {} observed {} {} {} {} {} [{}]{}",
        object.generation().unwrap(),
        status["observedGeneration"],
        status["phase"],
        status["profilingPhase"],
        status["dgdName"],
        status["deploymentInfo"],
        conditions.join(", "),
        if object.is_deleting() { " deleting" } else { "" },
    )
}

/// The graph of a request, as the request's own recorded status tells of it.
fn graph_described_by(recorded: &Object, known: bool) -> Option<Object> {
    let message = recorded.status()["conditions"].as_array()?.iter().find(|own| own["type"] == "DeploymentReady")?;
    let message = message["message"].as_str()?;
    if message.contains("deleted by user") {
        return None;
    }
    let state = if message.ends_with("is ready") {
        "successful"
    } else if message.contains("pending") {
        "pending"
    } else {
        ""
    };
    let info = &recorded.status()["deploymentInfo"];
    let counts = json!({"replicas": info["replicas"], "availableReplicas": info["availableReplicas"]});
    known.then(|| {
        Object::from_value(json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
            "metadata": {"name": "deploy-dgd", "namespace": "default"},
            "status": {"state": state, "components": {"all": counts}},
        }))
        .unwrap()
    })
}

fn replay_request(name: &str, change: impl Fn(&mut Value)) -> (Vec<String>, Vec<String>) {
    let recorded = recording(name);
    let first = fresh(&recorded[0]);
    let mut object = first
        .map(|mut value| {
            change(&mut value["spec"]);
            value
        })
        .unwrap();
    let mut steps = vec![request_step(&object)];
    let target = |object: &Object| request_step(object);
    // Profiling first: until the step that the recording shows last before an edit or before its graph moves.
    let mut frames: std::collections::VecDeque<ScriptStep> = request_script::build_script(&object, None).into();
    let mut created = false;
    for goal in &recorded {
        if goal.generation() != object.generation() {
            object = edited(object, goal);
            steps.push(request_step(&object));
            frames = request_script::build_script(&object, None).into();
            continue;
        }
        if created {
            let graph = graph_described_by(goal, true);
            frames = request_script::build_script(&object, graph.as_ref()).into();
        }
        while target(&object) != target(goal) {
            let Some(frame) = frames.pop_front() else { break };
            created |= frame.create.is_some();
            object = perform(object, &frame);
            steps.push(request_step(&object));
        }
    }
    (collapsed(steps), collapsed(recorded.iter().map(request_step)))
}

fn same_request(name: &str) {
    let (mut simulated, recorded) = replay_request(name, |_| {});
    // A recording may begin later; it then shows the rest of the same steps.
    let skipped = simulated.iter().position(|step| Some(step) == recorded.first()).unwrap_or_default();
    simulated.drain(..skipped);
    assert!(
        simulated == recorded,
        "{name}\n--- simulated\n{}\n--- recorded\n{}",
        simulated.join("\n"),
        recorded.join("\n")
    );
}

#[test]
fn a_request_profiles_and_recommends() {
    same_request("request-ready");
}

#[test]
fn a_request_is_deleted_while_profiling() {
    same_request("request");
}

#[test]
fn a_request_deploys_follows_its_graph_and_fails_when_it_is_deleted() {
    same_request("request-deployed-then-graph-deleted");
}

#[test]
fn a_request_fails_where_its_target_cannot_be_met() {
    let (simulated, recorded) = replay_request("request-failed", |spec| spec["sla"]["ttft"] = json!(0.5));
    let ends = |steps: &[String]| -> Vec<String> {
        let sweep =
            steps.iter().find(|step| step.contains("SweepingDecode \\\"") || step.contains("SweepingDecode")).cloned();
        let failed = steps.iter().filter(|step| step.contains("\"Failed\"")).cloned();
        sweep.into_iter().chain(failed).map(|step| step.replace("ttft 0.5 ms", "ttft 300 ms")).collect()
    };
    assert_eq!(ends(&simulated), ends(&recorded));
    assert_eq!(ends(&recorded).len(), 3, "the sweep, the failure, and its deletion");
}

#[test]
fn a_model_without_endpoints_says_so() {
    let recorded = recording("model");
    let mut object = fresh(&recorded[0]);
    for frame in adapter_script::build_script(&object, &[]) {
        object = perform(object, &frame);
    }
    assert_eq!(at_rest(&object), at_rest(&recorded[0]));
    assert_eq!(object.finalizers(), recorded[0].finalizers());
    let deleted = edited(object, &recorded[1]);
    for frame in adapter_script::build_script(&deleted, &[]) {
        assert!(perform(deleted.clone(), &frame).finalizers().is_empty());
    }
}

#[test]
fn a_step_never_panics_on_a_malformed_object() {
    for spec in
        [json!(null), json!({"components": 3}), json!({"components": [3, {"name": 4}, {"name": "a", "replicas": -7}]})]
    {
        for status in [json!(null), json!({"components": [], "rollingUpdate": 1, "conditions": {"a": 1}})] {
            let object = Object::from_value(json!({
                "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
                "metadata": {"name": "x", "namespace": "default", "annotations": [], "finalizers": "x"},
                "spec": spec, "status": status,
            }))
            .unwrap();
            for frame in graph_script::build_script(&object, None, Release::V1_2)
                .iter()
                .chain(&request_script::build_script(&object, None))
            {
                perform(object.clone(), frame);
            }
        }
    }
}

/// An operator that is started anew finds a graph half-way: it is Ready when all of its components are, and not before.
#[test]
fn a_graph_that_was_left_half_way_is_not_ready_between_its_components() {
    let component = |name: &str, kind: &str| json!({"name": name, "type": kind, "replicas": 1});
    let counts = json!({"componentKind": "Deployment", "componentNames": ["x"], "replicas": 1, "readyReplicas": 0});
    let graph = Object::from_value(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "half", "namespace": "prod", "generation": 1},
        "spec": {"components": [component("frontend", "frontend"), component("worker", "worker")]},
        "status": {"observedGeneration": 1, "state": "pending", "components": {"frontend": counts, "worker": counts}},
    }))
    .unwrap();
    let frames = graph_script::build_script(&graph, None, Release::V1_2);
    let states: Vec<&Value> = frames.iter().filter_map(|frame| frame.status.as_ref()).collect();
    let (last, earlier) = states.split_last().unwrap();
    assert_eq!(last["state"], "successful", "{last:#}");
    assert_eq!(last["components"]["worker"]["readyReplicas"], 1, "{last:#}");
    for status in earlier {
        assert_eq!(status["state"], "pending", "{status:#}");
    }
}

/// The statuses that a download goes through.
fn downloaded(image: &str, repository: &str) -> Vec<String> {
    let mut job = Object::from_value(json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "weights", "namespace": "prod", "annotations": {"stator.dev/weights": "hf://a/b@main"}},
        "spec": {"activeDeadlineSeconds": 60, "backoffLimit": 1, "template": {"spec": {"containers": [
            {"name": "download", "image": image, "env": [{"name": "WEIGHTS_REPOSITORY", "value": repository}]}]}}},
    }))
    .unwrap();
    let mut said = Vec::new();
    for step in other_controllers::download_script(&job) {
        job = perform(job, &step);
        said.push(health::assess_health(&job, None).message);
    }
    assert_eq!(other_controllers::download_script(&job), [], "a Job that is over stays so");
    said
}

#[test]
fn a_download_completes_or_fails_as_its_image_and_its_source_say() {
    let said = [("python:3.10-slim", "a/b"), ("python:broken", "a/b"), ("python:3.10-slim", "a/does-not-exist")];
    let said = said.map(|(image, repository)| downloaded(image, repository).join("\n"));
    insta::assert_snapshot!(said.join("\n--\n"), @"
    downloading weights since 2026-11-21T00:00:00Z, at most 1m (1 active, 0 failed, 0 succeeded)
    the weights are downloaded
    --
    downloading weights since 2026-11-21T00:00:00Z, at most 1m (1 active, 0 failed, 0 succeeded)
    the weights were not downloaded within 1m (0 active, 1 failed, 0 succeeded): raise `weights.deadline`; files already on the volume are not downloaded again
    --
    downloading weights since 2026-11-21T00:00:00Z, at most 1m (1 active, 0 failed, 0 succeeded)
    downloading weights since 2026-11-21T00:00:00Z, at most 1m (1 active, 1 failed, 0 succeeded)
    the download of the weights failed (0 active, 2 failed, 0 succeeded), BackoffLimitExceeded: Job has reached the specified backoff limit; read `kubectl logs -n prod job/weights`, then correct `weights`, or increase `weights.attempt` by one to try again
    ");
}

/// What the operator of each release makes of the same graph, by what moves the hash over its workers.
#[test]
fn the_worker_hash_is_that_of_the_release() {
    let graph = |component: Value| {
        let mut worker = json!({"name": "w", "type": "worker", "replicas": 1, "podTemplate": {"spec": {"containers": [
            {"name": "main", "image": "x@sha256:00"}]}}});
        let more = component.as_object().unwrap();
        more.iter().for_each(|(name, value)| worker[name] = value.clone());
        let value = json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
            "metadata": {"name": "q", "namespace": "prod"}, "spec": {"components": [worker]},
        });
        Object::from_value(value).unwrap()
    };
    let moves = |component: Value, release: Release| {
        let hash = |object: &Object| component::worker_hashes(object, &component::components(object, release)).1;
        hash(&graph(json!({}))) != hash(&graph(component))
    };
    for release in [Release::V1_4, Release::V1_5] {
        assert!(!moves(json!({"minAvailable": 1}), release));
        assert!(!moves(json!({"runtimeVersionOverride": "1.4.0"}), release));
        assert_eq!(moves(json!({"runtimeVersionOverride": "1.5.0"}), release), release == Release::V1_5);
        let frames = graph_script::build_script(&graph(json!({})), None, release);
        let written: Vec<&str> = frames.iter().flat_map(|frame| frame.annotations.keys().copied()).collect();
        assert_eq!(written, ["nvidia.com/current-worker-hash-v2"]);
    }
}
