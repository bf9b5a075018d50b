//! The health of a Job that downloads weights: Healthy once they are complete, and for good.
//!
//! Kubernetes counts a Job's pods and gives a reason at its end; why a pod failed only its log says.

use super::{Health, HealthVerdict, find_condition};
use crate::dynamo::kinds::ANNOTATION_WEIGHTS;
use crate::object::Object;
use serde_json::Value;
use std::time::Duration;

/// How long a download may take by its own deadline, once it has begun: until then the Job controller ends it.
pub fn download_deadline(job: &Object) -> Option<Duration> {
    job.str_at("/status/startTime")?;
    job.spec().get("activeDeadlineSeconds").and_then(Value::as_u64).map(Duration::from_secs)
}

pub(super) fn download_health(job: &Object) -> HealthVerdict {
    let holds = |kind: &str| find_condition(job, kind).filter(|one| one.status == "True");
    if holds("Complete").is_some() {
        return HealthVerdict::new(Health::Healthy, "the weights are downloaded");
    }
    let counts = describe_counts(job);
    // The first of the two says that the Job is to fail, and the second that its pods are gone.
    if let Some(failed) = holds("Failed").or_else(|| holds("FailureTarget")) {
        return HealthVerdict::new(Health::Failed, describe_failure(job, failed.reason, failed.message, &counts))
            .into_terminal();
    }
    if job.spec().get("suspend").and_then(Value::as_bool) == Some(true) {
        let resume =
            format!("kubectl patch job {} -n {} -p '{{\"spec\":{{\"suspend\":false}}}}'", job.name(), job.namespace());
        return HealthVerdict::progressing(format!(
            "the download of the weights is suspended: resume it with `{resume}`"
        ));
    }
    let Some(since) = job.str_at("/status/startTime") else {
        return HealthVerdict::progressing("waiting for the download of the weights to start");
    };
    let is_untried = ["active", "failed", "succeeded"].iter().all(|field| job.status().get(*field).is_none_or(is_zero));
    if is_untried {
        let describe = format!("kubectl describe job {} -n {}", job.name(), job.namespace());
        return HealthVerdict::progressing(format!(
            "waiting for the pod of the download: `{describe}` shows why there is none"
        ));
    }
    let deadline = deadline_text(job).map(|text| format!(", at most {text}")).unwrap_or_default();
    HealthVerdict::progressing(format!("downloading weights since {since}{deadline} ({counts})"))
}

fn is_zero(count: &Value) -> bool {
    count.as_u64() == Some(0)
}

/// `1 active, 2 failed, 0 succeeded`: the pods, as the Job counts them.
fn describe_counts(job: &Object) -> String {
    let count = |field: &str| job.status().get(field).and_then(Value::as_u64).unwrap_or(0);
    format!("{} active, {} failed, {} succeeded", count("active"), count("failed"), count("succeeded"))
}

fn deadline_text(job: &Object) -> Option<String> {
    let seconds = job.spec().get("activeDeadlineSeconds").and_then(Value::as_u64)?;
    Some(match seconds {
        _ if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        _ if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    })
}

fn describe_failure(job: &Object, reason: &str, message: &str, counts: &str) -> String {
    let (name, namespace) = (job.name(), job.namespace());
    if !job.annotations().contains_key(ANNOTATION_WEIGHTS) {
        let said = if message.is_empty() { String::new() } else { format!(": {message}") };
        return format!(
            "the Job failed ({counts}), {reason}{said}; read `kubectl logs -n {namespace} job/{name}`, then correct the Job in \
             `manifests`: what runs then is another Job"
        );
    }
    if reason == "DeadlineExceeded" {
        let deadline = deadline_text(job).unwrap_or_else(|| "its time".to_owned());
        return format!(
            "the weights were not downloaded within {deadline} ({counts}): raise `weights.deadline`; files already on \
             the volume are not downloaded again"
        );
    }
    let said = if message.is_empty() { String::new() } else { format!(": {message}") };
    let reason = if reason.is_empty() { "Failed" } else { reason };
    format!(
        "the download of the weights failed ({counts}), {reason}{said}; read `kubectl logs -n {namespace} job/{name}`, \
         then correct `weights`, or increase `weights.attempt` by one to try again"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job(spec: &Value, status: &Value) -> Object {
        Object::from_value(json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "weights-gpt", "namespace": "prod", "annotations": {ANNOTATION_WEIGHTS: "hf://a/b@main"}},
            "spec": spec, "status": status,
        }))
        .unwrap()
    }

    fn ended(kind: &str, reason: &str, message: &str) -> Value {
        json!([{"type": kind, "status": "True", "reason": reason, "message": message}])
    }

    #[test]
    fn a_download_is_healthy_once_it_is_complete_and_its_failure_is_for_good() {
        let timed = json!({"activeDeadlineSeconds": 7200});
        let began = "2026-01-01T00:00:00Z";
        let limit = "Job has reached the specified backoff limit";
        let jobs = [
            (timed.clone(), json!({})),
            (timed.clone(), json!({"active": 0, "startTime": began})),
            (timed.clone(), json!({"active": 1, "startTime": began})),
            (timed.clone(), json!({"active": 1, "failed": 2, "startTime": began})),
            (json!({}), json!({"active": 1, "startTime": began})),
            (json!({"suspend": true}), json!({"conditions": ended("Suspended", "JobSuspended", "")})),
            (
                timed.clone(),
                json!({"succeeded": 1, "startTime": began, "conditions": ended("SuccessCriteriaMet", "", "")}),
            ),
            (timed.clone(), json!({"succeeded": 1, "startTime": began, "conditions": ended("Complete", "", "")})),
            (
                timed.clone(),
                json!({"failed": 4, "startTime": began, "conditions": ended("FailureTarget", "BackoffLimitExceeded", limit)}),
            ),
            (timed, json!({"failed": 1, "startTime": began, "conditions": ended("Failed", "DeadlineExceeded", "")})),
        ];
        let described = jobs.iter().map(|(spec, status)| {
            let verdict = download_health(&job(spec, status));
            format!("{}{}: {}", verdict.health, if verdict.terminal { "!" } else { "" }, verdict.message)
        });
        insta::assert_snapshot!(described.collect::<Vec<_>>().join("\n"), @r#"
        Progressing: waiting for the download of the weights to start
        Progressing: waiting for the pod of the download: `kubectl describe job weights-gpt -n prod` shows why there is none
        Progressing: downloading weights since 2026-01-01T00:00:00Z, at most 2h (1 active, 0 failed, 0 succeeded)
        Progressing: downloading weights since 2026-01-01T00:00:00Z, at most 2h (1 active, 2 failed, 0 succeeded)
        Progressing: downloading weights since 2026-01-01T00:00:00Z (1 active, 0 failed, 0 succeeded)
        Progressing: the download of the weights is suspended: resume it with `kubectl patch job weights-gpt -n prod -p '{"spec":{"suspend":false}}'`
        Progressing: downloading weights since 2026-01-01T00:00:00Z, at most 2h (0 active, 0 failed, 1 succeeded)
        Healthy!: the weights are downloaded
        Failed!: the download of the weights failed (0 active, 4 failed, 0 succeeded), BackoffLimitExceeded: Job has reached the specified backoff limit; read `kubectl logs -n prod job/weights-gpt`, then correct `weights`, or increase `weights.attempt` by one to try again
        Failed!: the weights were not downloaded within 2h (0 active, 1 failed, 0 succeeded): raise `weights.deadline`; files already on the volume are not downloaded again
        "#);
    }

    #[test]
    fn the_deadline_counts_from_the_beginning() {
        let spec = json!({"activeDeadlineSeconds": 60});
        assert_eq!(download_deadline(&job(&spec, &json!({}))), None);
        let begun = json!({"startTime": "2026-01-01T00:00:00Z"});
        assert_eq!(download_deadline(&job(&spec, &begun)), Some(Duration::from_secs(60)));
    }
}
