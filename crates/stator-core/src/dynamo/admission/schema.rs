//! Faults of form: fields, types, patterns and CEL rules of the bundled CRDs.

use super::{AdmissionCollector, AdmissionOutcome, rules};
use crate::dynamo::kinds::GRAPH;
use crate::fields;
use crate::object::{FieldPath, KeyValue, Object, PathSegment};
use serde_json::Value;

/// CEL rules of the CRDs that a rule of this room says in its own words, with the place of the fault.
const COVERED_BY_RULES: &[&str] = &[
    "component names must be unique case-insensitively",
    "eppConfig may only be set when type is epp",
    "at most one component may have type epp",
    "exactly one of configMapRef or config must be specified",
];

/// Adds what the kind's schema refuses, but for fields that `faults` names already. Kinds and versions without a bundled
/// schema are not judged.
pub(super) fn check(object: &Object, faults: &mut AdmissionCollector<'_>) {
    let Some(schema) = fields::bundled_schema(object.api_version(), object.kind()) else { return };
    let typing = fields::typing_errors(schema, object.value());
    let found: Vec<(FieldPath, String)> = if typing.is_empty() {
        let mut value = object.value().clone();
        fields::apply_defaults(schema, &mut value);
        if is_covered_by_rules(object) {
            fields::validate_structure(schema, &value)
        } else {
            fields::validate(schema, &value, None)
        }
    } else {
        typing.into_iter().map(|fault| (fault.path, fault.message)).collect()
    };
    for (path, message) in found {
        let path = path_by_name(object.value(), &path);
        let known = faults.findings.iter().any(|fault| fault.path == path && fault.outcome == AdmissionOutcome::Denied);
        if known || COVERED_BY_RULES.iter().any(|said| message.contains(said)) {
            continue;
        }
        let message = without_path(&message);
        let text = format!("`{path}`: {message}");
        faults.deny_by_schema(rules::SCHEMA, path, text, help_for(&message));
    }
}

/// True when the object has nothing that a CEL rule is about but what [`COVERED_BY_RULES`] covers: most graphs have no
/// `experimental` block, and rules in CEL take most of the time of a judgement.
fn is_covered_by_rules(object: &Object) -> bool {
    let components = object.spec().get("components").and_then(Value::as_array);
    object.kind() == GRAPH.kind
        && object.api_version() == GRAPH.api_version()
        && components.is_none_or(|all| all.iter().all(|component| component.get("experimental").is_none()))
}

/// `Invalid value: "a_b": should match …` from `Invalid value: "a_b": spec.components[1].name in body should match …`: the
/// API server repeats the path, with positions for names.
fn without_path(message: &str) -> String {
    match message.split_once(" in body ") {
        Some((head, reason)) => match head.rsplit_once(": ") {
            Some((value, _)) => format!("{value}: {reason}"),
            None => reason.to_owned(),
        },
        None => message.to_owned(),
    }
}

fn help_for(message: &str) -> &'static str {
    if message.contains("not declared") {
        "remove the field, or correct its name; `kubectl explain` lists those that there are"
    } else if message.contains("Unsupported value") {
        "write one of the values that are allowed"
    } else if message.contains("duplicate entries") {
        "keep one of the two, or give them different names"
    } else if message.contains("Required value") || message.contains("at least 1 chars") {
        "give it a value"
    } else {
        "correct the value: Dynamo's CRD of release 1.2 refuses it"
    }
}

/// A path with items of lists named as people know them: `components[name=decode]` for `components[2]`.
fn path_by_name(value: &Value, path: &FieldPath) -> FieldPath {
    let mut at = Some(value);
    let steps = path.0.iter().map(|step| match step {
        PathSegment::Field(name) => {
            at = at.and_then(|value| value.get(name));
            step.clone()
        }
        PathSegment::Index(index) => {
            at = at.and_then(|value| value.get(index));
            match at.and_then(|item| item.get("name")).filter(|name| name.as_str().is_some_and(|name| !name.is_empty()))
            {
                Some(name) => PathSegment::Key([("name".to_owned(), KeyValue::new(name))].into()),
                None => step.clone(),
            }
        }
        PathSegment::Key(keys) => {
            at = at.and_then(Value::as_array).and_then(|items| {
                items.iter().find(|item| {
                    keys.iter().all(|(key, wanted)| item.get(key).is_some_and(|value| *value == wanted.value()))
                })
            });
            step.clone()
        }
        PathSegment::Item(_) => {
            at = None;
            step.clone()
        }
    });
    FieldPath(steps.collect())
}
