//! What the Job controller and the pods of a download do: fetch the weights, or fail. Not Dynamo's work, and done here all
//! the same, because a graph is not served from weights that nobody downloads.

use super::component::is_broken;
use super::script::ScriptStep;
use serde_json::{Value, json};
use stator_core::object::Object;
use std::time::Duration;

/// Until a pod runs.
const START_TIME: Duration = Duration::from_millis(500);
/// Downloading.
const DOWNLOAD_TIME: Duration = Duration::from_secs(2);

/// True once a Job has come to its end.
pub(super) fn is_over(job: &Object) -> bool {
    let conditions = job.status().get("conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|one| matches!(one["type"].as_str(), Some("Complete" | "Failed")))
}

/// Runs a Job that is not over. An image that cannot be pulled keeps it active until its deadline; one that is told to
/// download something with `does-not-exist` in its name fails as often as it may.
pub(super) fn build_script(job: &Object) -> Vec<ScriptStep> {
    if job.is_deleting() || is_over(job) {
        return Vec::new();
    }
    let container = job.spec().pointer("/template/spec/containers/0").unwrap_or(&Value::Null);
    let number = |field: &str, default: u64| job.spec().get(field).and_then(Value::as_u64).unwrap_or(default);
    let active = json!({"active": 1, "ready": 0, "startTime": null});
    let mut steps = vec![ScriptStep::status(START_TIME, active)];
    if container.get("image").and_then(Value::as_str).is_some_and(is_broken) {
        let after = Duration::from_secs(number("activeDeadlineSeconds", 3600));
        let message = "Job was active longer than specified deadline";
        steps.push(ScriptStep::status(after, failed(1, "DeadlineExceeded", message)));
        return steps;
    }
    let mut env = container.get("env").and_then(Value::as_array).into_iter().flatten();
    let is_missing = |one: &Value| one["value"].as_str().is_some_and(|value| value.contains("does-not-exist"));
    if env.any(is_missing) {
        let limit = number("backoffLimit", 6);
        for count in 1..=limit {
            steps.push(ScriptStep::status(START_TIME, json!({"active": 1, "failed": count, "startTime": null})));
        }
        let message = "Job has reached the specified backoff limit";
        steps.push(ScriptStep::status(START_TIME, failed(limit + 1, "BackoffLimitExceeded", message)));
        return steps;
    }
    let done = "Reached expected number of succeeded pods";
    let complete =
        |kind: &str| json!({"type": kind, "status": "True", "reason": "CompletionsReached", "message": done});
    let status = json!({
        "succeeded": 1, "startTime": null, "completionTime": null,
        "conditions": [complete("SuccessCriteriaMet"), complete("Complete")],
    });
    steps.push(ScriptStep::status(DOWNLOAD_TIME, status));
    steps
}

fn failed(count: u64, reason: &str, message: &str) -> Value {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": reason, "message": message});
    json!({
        "failed": count, "startTime": null,
        "conditions": [condition("FailureTarget"), condition("Failed")],
    })
}
