//! Why pods do not run, in a sentence: what the operator does not say of a graph that waits.
//!
//! The operator only counts pods. An image that cannot be pulled, a container that crashes and a GPU that is not to be had
//! all look alike in a graph's status, and stay so for ever; the pods tell them apart.

use crate::dynamo::kinds::{JOB, POD};
use crate::mask;
use crate::object::{Object, ObjectRef};
use serde_json::Value;
use std::collections::BTreeMap;

/// The label with which Dynamo's operator marks a pod as a graph's.
pub const LABEL_GRAPH: &str = "nvidia.com/dynamo-graph-deployment-name";
/// The label with which the Job controller marks a pod as a Job's.
pub const LABEL_JOB: &str = "batch.kubernetes.io/job-name";
/// The label with which it says of which component.
pub const LABEL_COMPONENT: &str = "nvidia.com/dynamo-component";
/// The longest message of a pod that is repeated, in characters.
const MAX_MESSAGE_LENGTH: usize = 200;

/// What keeps a pod, from what ends by itself to what does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PodProblemSeverity {
    /// It runs, and has not answered its probe yet: weights are loaded in that time.
    Starting,
    /// It restarted.
    Restarting,
    /// No node takes it.
    Unschedulable,
    /// It cannot start: the image, the configuration, a crash.
    Broken,
}

struct PodProblem {
    severity: PodProblemSeverity,
    /// `ImagePullBackOff in container main`.
    reason: String,
    /// The kubelet's or the scheduler's own words.
    message: String,
}

/// The worst cause of each component of a graph, sorted by component: `worker: ImagePullBackOff in container main (2
/// pods): Back-off pulling image "x"`; of a Job, of all its pods. Pods of others, pods that are ready and pods that go are
/// passed over.
pub fn pod_problems(owner: &ObjectRef, pods: &[Object]) -> Vec<String> {
    let mut by_component: BTreeMap<&str, Vec<(PodProblem, &str)>> = BTreeMap::new();
    let is_job = owner.kind == JOB.kind;
    let label = owner_label(owner);
    for pod in pods {
        let labels = pod.labels();
        if labels.get(label) != Some(&owner.name.as_str()) {
            continue;
        }
        if let Some(cause) = pod_problem(pod) {
            let of_pod = || labels.get(LABEL_COMPONENT).copied().unwrap_or(pod.name());
            let component = if is_job { "download" } else { of_pod() };
            by_component.entry(component).or_default().push((cause, pod.name()));
        }
    }
    let worst = |causes: Vec<(PodProblem, &str)>| {
        // The first by name among equals, so that the sentence stays the same while nothing changes.
        let (worst, name) = causes.iter().min_by_key(|(cause, name)| (std::cmp::Reverse(cause.severity), *name))?;
        let alike = causes.iter().filter(|(cause, _)| cause.reason == worst.reason).count();
        let who = if alike == 1 { format!("pod {name}") } else { format!("{alike} pods") };
        let why = if worst.message.is_empty() { String::new() } else { format!(": {}", worst.message) };
        Some(format!("{} ({who}){why}", worst.reason))
    };
    let sentences = by_component.into_iter();
    sentences.filter_map(|(component, causes)| Some(format!("{component}: {}", worst(causes)?))).collect()
}

/// Why one pod is not ready: `ImagePullBackOff in container main: Back-off pulling image "x"`. `None` for one that is, that is
/// done, or that goes, and for what is no pod.
pub fn describe_pod_problem(pod: &Object) -> Option<String> {
    let problem = (pod.kind() == POD.kind).then(|| pod_problem(pod)).flatten()?;
    let why = if problem.message.is_empty() { String::new() } else { format!(": {}", problem.message) };
    Some(format!("{}{why}", problem.reason))
}

/// The label by which the pods of a graph, or of a Job, are found.
pub fn owner_label(owner: &ObjectRef) -> &'static str {
    if owner.kind == JOB.kind { LABEL_JOB } else { LABEL_GRAPH }
}

/// Why a pod is not ready; `None` for one that is, that is done, or that goes.
fn pod_problem(pod: &Object) -> Option<PodProblem> {
    let phase = pod.str_at("/status/phase").unwrap_or_default();
    let is_ready = find_condition(pod, "Ready").is_some_and(|ready| str_field(ready, "status") == "True");
    if pod.is_deleting() || is_ready || phase == "Succeeded" {
        return None;
    }
    let containers = |list: &str| -> Vec<&Value> {
        pod.status().get(list).and_then(Value::as_array).map(|list| list.iter().collect()).unwrap_or_default()
    };
    let inits = containers("initContainerStatuses");
    let init = inits.iter().filter_map(|status| container_problem(status, "init container"));
    let mains = containers("containerStatuses");
    let main = mains.iter().filter_map(|status| container_problem(status, "container"));
    if let Some(cause) = init.chain(main).max_by_key(|cause| cause.severity) {
        return Some(cause);
    }
    if let Some(placed) = find_condition(pod, "PodScheduled").filter(|placed| str_field(placed, "status") == "False") {
        let reason = str_field(placed, "reason");
        return Some(PodProblem {
            severity: PodProblemSeverity::Unschedulable,
            reason: if reason.is_empty() { "Unschedulable".to_owned() } else { reason.to_owned() },
            message: truncate_message(str_field(placed, "message")),
        });
    }
    if phase == "Failed" {
        let reason = pod.str_at("/status/reason").unwrap_or("Failed");
        let why = truncate_message(pod.str_at("/status/message").unwrap_or_default());
        return Some(PodProblem { severity: PodProblemSeverity::Broken, reason: reason.to_owned(), message: why });
    }
    let unready = mains.iter().find(|status| {
        status.pointer("/state/running").is_some() && status.get("ready").and_then(Value::as_bool) == Some(false)
    })?;
    let what = format!("container {} is running but not ready", str_field(unready, "name"));
    Some(PodProblem { severity: PodProblemSeverity::Starting, reason: what, message: String::new() })
}

/// What stopped a container, when something did.
fn container_problem(status: &Value, kind: &str) -> Option<PodProblem> {
    let name = str_field(status, "name");
    let restarts = status.get("restartCount").and_then(Value::as_u64).unwrap_or(0);
    let last = status.pointer("/lastState/terminated").map(describe_termination);
    if let Some(waiting) = status.pointer("/state/waiting") {
        let reason = str_field(waiting, "reason");
        // On their way: volumes are mounted, init containers run.
        if !matches!(reason, "" | "ContainerCreating" | "PodInitializing") {
            let message = truncate_message(str_field(waiting, "message"));
            let why = match last {
                Some(last) if reason == "CrashLoopBackOff" => last,
                Some(_) | None => message,
            };
            return Some(PodProblem {
                severity: PodProblemSeverity::Broken,
                reason: format!("{reason} in {kind} {name}"),
                message: why,
            });
        }
    }
    if let Some(terminated) = status.pointer("/state/terminated")
        && terminated.get("exitCode").and_then(Value::as_i64) != Some(0)
    {
        let reason = str_field(terminated, "reason");
        let reason = if reason.is_empty() { "Error" } else { reason };
        return Some(PodProblem {
            severity: PodProblemSeverity::Broken,
            reason: format!("{reason} in {kind} {name}"),
            message: describe_termination(terminated),
        });
    }
    let is_ready = status.get("ready").and_then(Value::as_bool) == Some(true);
    (restarts > 0 && !is_ready).then(|| PodProblem {
        severity: PodProblemSeverity::Restarting,
        reason: format!("{restarts} restarts of {kind} {name}"),
        message: last.unwrap_or_default(),
    })
}

/// `it exited with code 137 (OOMKilled)`.
fn describe_termination(terminated: &Value) -> String {
    let code = terminated.get("exitCode").and_then(Value::as_i64).unwrap_or_default();
    let reason = str_field(terminated, "reason");
    let reason = if matches!(reason, "" | "Error") { String::new() } else { format!(" ({reason})") };
    let message = truncate_message(str_field(terminated, "message"));
    let message = if message.is_empty() { String::new() } else { format!(": {message}") };
    format!("it exited with code {code}{reason}{message}")
}

fn find_condition<'a>(pod: &'a Object, wanted: &str) -> Option<&'a Value> {
    let list = pod.status().get("conditions").and_then(Value::as_array)?;
    list.iter().find(|one| str_field(one, "type") == wanted)
}

fn str_field<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The first line of a message, cut where it is long. Tokens are hidden before the cut: a part of one looks like none.
fn truncate_message(message: &str) -> String {
    let message = mask::redact_tokens(message);
    let line = message.trim().lines().next().unwrap_or_default();
    let short: String = line.chars().take(MAX_MESSAGE_LENGTH).collect();
    if short.len() < line.len() { format!("{short}…") } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamo::kinds::{GRAPH, ObjectKind};
    use proptest::prelude::*;
    use serde_json::json;

    fn pod(name: &str, component: &str, status: Value) -> Object {
        Object::from_value(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "prod", "labels": {LABEL_GRAPH: "llama", LABEL_COMPONENT: component}},
            "status": status,
        }))
        .unwrap()
    }

    fn owner(kind: &ObjectKind, name: &str) -> ObjectRef {
        let (namespace, name) = ("prod".to_owned(), name.to_owned());
        ObjectRef { api_version: kind.api_version(), kind: kind.kind.to_owned(), namespace, name }
    }

    fn waiting(reason: &str, message: &str) -> Value {
        json!({"phase": "Pending", "containerStatuses": [
            {"name": "main", "ready": false, "state": {"waiting": {"reason": reason, "message": message}}}]})
    }

    #[test]
    fn each_component_says_its_worst() {
        let pull =
            |name: &str| pod(name, "decode", waiting("ImagePullBackOff", "Back-off pulling image \"vllm:1.2.9\""));
        let crash = json!({"phase": "Running", "containerStatuses": [{"name": "main", "ready": false, "restartCount": 5,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}},
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]});
        let unplaced = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."}]});
        let init = json!({"phase": "Pending",
            "initContainerStatuses": [{"name": "fetch", "ready": false, "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}],
            "containerStatuses": [{"name": "main", "ready": false, "state": {"waiting": {"reason": "PodInitializing"}}}]});
        let slow = json!({"phase": "Running", "containerStatuses": [{"name": "main", "ready": false, "state": {"running": {}}}]});
        let restarted = json!({"phase": "Running", "containerStatuses": [{"name": "main", "ready": false, "restartCount": 2,
            "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1, "message": "CUDA error\nat line 3"}}}]});
        let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let pods = [
            pod("llama-decode-b", "decode", slow.clone()),
            pull("llama-decode-c"),
            pull("llama-decode-a"),
            pod("llama-prefill-a", "prefill", crash),
            pod("llama-planner-a", "planner", unplaced),
            pod("llama-router-a", "router", init),
            pod("llama-frontend-a", "frontend", slow),
            pod("llama-epp-a", "epp", restarted),
            pod("llama-done-a", "done", ready),
            pod("llama-made-a", "made", waiting("ContainerCreating", "")),
            pod(
                "llama-evicted-a",
                "evicted",
                json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
            ),
        ];
        insta::assert_snapshot!(pod_problems(&owner(&GRAPH, "llama"), &pods).join("\n"), @r#"
        decode: ImagePullBackOff in container main (2 pods): Back-off pulling image "vllm:1.2.9"
        epp: 2 restarts of container main (pod llama-epp-a): it exited with code 1: CUDA error
        evicted: Evicted (pod llama-evicted-a): low on memory
        frontend: container main is running but not ready (pod llama-frontend-a)
        planner: Unschedulable (pod llama-planner-a): 0/4 nodes are available: 4 Insufficient nvidia.com/gpu.
        prefill: CrashLoopBackOff in container main (pod llama-prefill-a): it exited with code 137 (OOMKilled)
        router: Error in init container fetch (pod llama-router-a): it exited with code 1
        "#);
        assert!(pod_problems(&owner(&GRAPH, "qwen"), &pods).is_empty(), "another graph's pods are not its own");
    }

    #[test]
    fn a_download_says_why_its_pods_do_not_run() {
        let pod = |name: &str, job: &str, status: Value| {
            Object::from_value(json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "namespace": "prod", "labels": {LABEL_JOB: job}}, "status": status,
            }))
            .unwrap()
        };
        let unplaced = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/4 nodes are available: pod has unbound immediate PersistentVolumeClaims."}]});
        let ended = json!({"phase": "Failed", "containerStatuses": [{"name": "download", "ready": false,
            "state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "Error: Repository not found.\n"}}}]});
        let pods = [
            pod("weights-a-x", "weights-a", ended),
            pod("weights-a-y", "weights-a", unplaced.clone()),
            pod("weights-b-x", "weights-b", unplaced),
        ];
        insta::assert_snapshot!(pod_problems(&owner(&JOB, "weights-a"), &pods).join("\n"), @"download: Error in container download (pod weights-a-x): it exited with code 1: Error: Repository not found.");
        insta::assert_snapshot!(pod_problems(&owner(&JOB, "weights-b"), &pods).join("\n"), @"download: Unschedulable (pod weights-b-x): 0/4 nodes are available: pod has unbound immediate PersistentVolumeClaims.");
    }

    #[test]
    fn a_pod_that_goes_is_passed_over() {
        let going = pod("a", "decode", waiting("ImagePullBackOff", "")).map(|mut value| {
            value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            value
        });
        assert!(pod_problems(&owner(&GRAPH, "llama"), &[going.unwrap()]).is_empty());
    }

    proptest! {
        /// Whatever a status holds, a sentence comes of it or none, and it is one line.
        #[test]
        fn any_status_can_be_read(text in ".{0,600}", code in any::<i64>(), shape in 0..6u8) {
            let odd = [json!(text), json!(code), json!([text]), json!({"reason": text}), json!(null), json!({"exitCode": text})];
            let odd = &odd[usize::from(shape)];
            for status in [
                odd.clone(),
                json!({"containerStatuses": odd, "conditions": odd}),
                json!({"containerStatuses": [{"state": odd, "lastState": {"terminated": odd}, "restartCount": odd}]}),
                json!({"initContainerStatuses": [{"name": odd, "state": {"waiting": {"reason": text, "message": text}}}]}),
            ] {
                for sentence in pod_problems(&owner(&GRAPH, "llama"), &[pod("a", "decode", status)]) {
                    prop_assert!(sentence.starts_with("decode: "), "{sentence}");
                }
            }
        }
    }
}
