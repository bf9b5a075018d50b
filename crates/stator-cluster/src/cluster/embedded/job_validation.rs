//! The API server's own validation of a Job, as far as stator writes one: the rules and the words of `ValidateJobUpdate`
//! (k8s.io/kubernetes `pkg/apis/batch/validation`, 1.36).

use crate::cluster::InvalidField;
use serde_json::Value;
use stator_core::object::FieldPath;

const IMMUTABLE: &str = "Invalid value: field is immutable";

/// What the API server refuses of a Job that is created, or changed from `old`.
pub(super) fn validate(new: &Value, old: Option<&Value>) -> Vec<InvalidField> {
    let mut faults = Vec::new();
    if let Some(old) = old {
        for field in ["completions", "selector", "template"] {
            let at = |job: &Value| job.get("spec").and_then(|spec| spec.get(field)).cloned();
            if at(old) != at(new) {
                faults.push(invalid_field(&["spec", field], IMMUTABLE));
            }
        }
        return faults;
    }
    let policy = new.pointer("/spec/template/spec/restartPolicy").and_then(Value::as_str).unwrap_or_default();
    if !["Never", "OnFailure"].contains(&policy) {
        let message = format!("Required value: valid values: \"OnFailure\", \"Never\" (found {policy:?})");
        faults.push(invalid_field(&["spec", "template", "spec", "restartPolicy"], message));
    }
    faults
}

fn invalid_field(fields: &[&str], message: impl Into<String>) -> InvalidField {
    InvalidField { path: FieldPath::from_fields(fields.iter().copied()), message: message.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job(image: &str, policy: &str, deadline: u64) -> Value {
        json!({"spec": {"activeDeadlineSeconds": deadline, "template": {"spec": {
            "restartPolicy": policy, "containers": [{"name": "download", "image": image}]}}}})
    }

    fn judge(new: &Value, old: Option<&Value>) -> String {
        validate(new, old).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_a_job_runs_stays_and_its_deadline_may_change() {
        let old = job("python:3.10-slim", "Never", 60);
        assert_eq!(judge(&old, None), "");
        assert_eq!(judge(&job("python:3.10-slim", "Never", 90), Some(&old)), "");
        insta::assert_snapshot!(judge(&job("python:3.12-slim", "Never", 60), Some(&old)), @"spec.template: Invalid value: field is immutable");
    }

    #[test]
    fn a_pod_of_a_job_does_not_restart_for_ever() {
        insta::assert_snapshot!(judge(&job("python:3.10-slim", "Always", 60), None), @r#"spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never" (found "Always")"#);
    }
}
