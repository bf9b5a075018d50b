//! Names that other parties own: label and annotation keys, environment variables.

use super::{ModelValidator, further_components, serving_workers};
use crate::intent::model::EnvValue;
use crate::intent::rules;
use crate::intent::scalar::EnvName;
use regex::Regex;
use stator_core::dynamo::registry;
use stator_core::mask;
use std::collections::BTreeMap;
use std::sync::LazyLock;

pub(super) fn validate_reserved_names(judge: &mut ModelValidator<'_>) {
    let model = judge.model;
    for key in model.metadata.labels.keys() {
        check_metadata_key(judge, "label", &format!("metadata.labels.{key}"), key);
    }
    for (name, file) in &model.spec.files {
        for key in file.labels.keys() {
            check_metadata_key(judge, "label", &format!("spec.files.{name}.labels.{key}"), key);
        }
    }
    for key in model.metadata.annotations.keys() {
        check_metadata_key(judge, "annotation", &format!("metadata.annotations.{key}"), key);
    }
    check_env(judge, "spec.env", &model.spec.env);
    for (index, one) in model.spec.graph_env.iter().enumerate() {
        check_variable(judge, &format!("spec.graphEnv[{index}]"), one.name.as_str(), &one.value);
    }
    if let Some(weights) = &model.spec.weights {
        check_env(judge, "spec.weights.env", &weights.env);
    }
    if let Some(frontend) = model.spec.serving.as_ref().and_then(|serving| serving.frontend.as_ref()) {
        check_env(judge, "spec.serving.frontend.env", &frontend.env);
    }
    for (_, path, worker) in serving_workers(model.spec.serving.as_ref()) {
        check_env(judge, &format!("{path}.env"), &worker.env);
    }
    for (_, path, component) in further_components(model) {
        check_env(judge, &format!("{path}.env"), &component.env);
    }
}

/// A qualified name, as Kubernetes asks of label and annotation keys.
static QUALIFIED_NAME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    )
    .ok()
});

fn check_metadata_key(judge: &mut ModelValidator<'_>, what: &str, path: &str, key: &str) {
    if !QUALIFIED_NAME.as_ref().is_none_or(|form| form.is_match(key)) {
        judge.error(
            rules::MODEL_KEY,
            path,
            format!("`{key}` is not a valid {what} key"),
            "Use letters, digits, `-`, `_` and `.`, optionally after a domain and `/`, as in `example.com/team`.",
        );
    } else if key.starts_with("stator.dev/") || key == "app.kubernetes.io/managed-by" {
        judge.error(
            rules::MODEL_KEY,
            path,
            format!("{what} `{key}` is reserved for stator's own objects"),
            "Choose another key.",
        );
    } else if registry::is_operator_key(key) {
        judge.error(rules::MODEL_KEY, path, format!("{what} `{key}` is written by Dynamo's operator"), "Remove it.");
    }
}

fn check_env(judge: &mut ModelValidator<'_>, path: &str, env: &BTreeMap<EnvName, EnvValue>) {
    for (name, value) in env {
        check_variable(judge, &format!("{path}.{name}"), name.as_str(), value);
    }
}

fn check_variable(judge: &mut ModelValidator<'_>, place: &str, name: &str, value: &EnvValue) {
    // From the pod itself it is what the operator sets.
    if registry::env::is_identity(name) && !matches!(value, EnvValue::Field(_)) {
        judge.error(
            rules::MODEL_ENV_INJECTED,
            place,
            format!("`{name}` is set by Dynamo's operator to identify the pod"),
            "Remove it.",
        );
    } else if registry::env::is_injected_at(name, judge.release) {
        judge.warning(
            rules::MODEL_ENV_INJECTED,
            place,
            format!("`{name}` is set by Dynamo's operator; this value replaces the operator's"),
            "Remove it, unless the operator's value is known to be wrong.",
        );
    }
    let EnvValue::Literal(text) = value else { return };
    // Switches, numbers and paths are settings about a secret, not one.
    let setting =
        text.is_empty() || text.starts_with('/') || text.parse::<f64>().is_ok() || text.parse::<bool>().is_ok();
    // A token of a known form is reported where it stands in its file.
    if mask::names_secret(name) && !setting && mask::find_tokens(text).is_empty() {
        judge.warning(
            rules::MODEL_ENV_SECRET,
            place,
            format!("`{name}` looks like a secret in plain text in git"),
            format!("Put it into a Secret, and write `{name}: {{secret: NAME, key: KEY}}`."),
        );
    }
}
