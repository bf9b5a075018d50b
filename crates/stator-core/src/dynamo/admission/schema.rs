//! Faults of form: fields, types, patterns and CEL rules of the bundled CRDs.

use super::{AdmissionCollector, AdmissionOutcome, rules};
use crate::dynamo::graph_components::components;
use crate::dynamo::kinds::GRAPH;
use crate::fields::{self, TypingErrorKind, ViolationKind};
use crate::object::{FieldPath, KeyValue, Object, PathSegment};
use serde_json::Value;

/// CEL rules of the CRDs, by the message that each declares, that a rule of this room says in its own words, with the
/// place of the fault.
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
    let found: Vec<(FieldPath, String, &'static str)> = if typing.is_empty() {
        let mut value = object.value().clone();
        fields::apply_defaults(schema, &mut value);
        let violations = if is_covered_by_rules(object) {
            fields::structure_violations(schema, &value)
        } else {
            fields::violations(schema, &value, None)
        };
        let others = violations.into_iter().filter(|violation| !is_worded_by_rule(&violation.kind));
        others.map(|violation| (violation.path, violation.summary, violation_help(&violation.kind))).collect()
    } else {
        typing.into_iter().map(|fault| (fault.path, fault.message, typing_help(fault.kind))).collect()
    };
    for (path, message, help) in found {
        let path = path_by_name(object.value(), &path);
        let known = faults.findings.iter().any(|fault| fault.path == path && fault.outcome == AdmissionOutcome::Denied);
        if known {
            continue;
        }
        let text = format!("`{path}`: {message}");
        faults.deny_by_schema(rules::SCHEMA, path, text, help);
    }
}

/// True when the object has nothing that a CEL rule is about but what [`COVERED_BY_RULES`] covers: most graphs have no
/// `experimental` block, and rules in CEL take most of the time of a judgement.
fn is_covered_by_rules(object: &Object) -> bool {
    object.kind() == GRAPH.kind
        && object.api_version() == GRAPH.api_version()
        && components(object.spec()).all(|component| component.get("experimental").is_none())
}

fn is_worded_by_rule(kind: &ViolationKind) -> bool {
    match kind {
        ViolationKind::BrokenRule { rule } => COVERED_BY_RULES.contains(&rule.as_str()),
        ViolationKind::MissingValue | ViolationKind::UnsupportedValue | ViolationKind::InvalidValue => false,
    }
}

const GENERAL_HELP: &str = "correct the value: Dynamo's CRD of release 1.2 refuses it";

fn violation_help(kind: &ViolationKind) -> &'static str {
    match kind {
        ViolationKind::MissingValue => "set a value",
        ViolationKind::UnsupportedValue => "use one of the allowed values",
        ViolationKind::BrokenRule { .. } | ViolationKind::InvalidValue => GENERAL_HELP,
    }
}

fn typing_help(kind: TypingErrorKind) -> &'static str {
    match kind {
        TypingErrorKind::Undeclared => {
            "remove the field, or correct its name; `kubectl explain` lists the known fields"
        }
        TypingErrorKind::Duplicate => "keep one of the two, or give them different names",
        TypingErrorKind::Type { .. } | TypingErrorKind::ItemKey | TypingErrorKind::Unsupported => GENERAL_HELP,
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
