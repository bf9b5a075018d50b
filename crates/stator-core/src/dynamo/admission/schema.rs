//! Faults of form: fields, types, patterns and CEL rules of the definitions that judge.

use super::{AdmissionCollector, AdmissionOutcome, defaulting, rules};
use crate::dynamo::kinds::GRAPH;
use crate::dynamo::release::{self, Behaviour, Definitions, Release};
use crate::fields::{self, SchemaViolation, TypingErrorKind, ViolationKind};
use crate::object::{FieldPath, KeyValue, Object, PathSegment};
use serde_json::Value;

/// CEL rules of the CRDs, by the message that each declares, that a rule of this module says in its own words, with the
/// place of the fault.
const COVERED_BY_RULES: &[&str] = &[
    release::RESTART_UNSET_ON_CREATE,
    "component names must be unique case-insensitively",
    "eppConfig may only be set when type is epp",
    "at most one component may have type epp",
    "exactly one of configMapRef or config must be specified",
];

/// Adds what the kind's schema refuses, but for fields that `faults` names already. Kinds and versions without a schema are
/// not judged.
pub(super) fn check(object: &Object, faults: &mut AdmissionCollector<'_>) {
    let definitions = faults.platform.definitions();
    let Some(schema) = definitions.schema(object.api_version(), object.kind()) else { return };
    let typing = fields::typing_errors(schema, object.value());
    let found: Vec<(FieldPath, String, Fault)> = if typing.is_empty() {
        let mut value = object.value().clone();
        let release = definitions.release();
        if object.kind() == GRAPH.kind && object.api_version() == GRAPH.api_version() {
            defaulting::fill_on_write(&mut value, release);
        }
        // Where objects are converted on their way to the store, a `null` does not survive that.
        if object.kind() == GRAPH.kind && release.has(Behaviour::StoredAsWritten) {
            fields::apply_defaults_after_merge(schema, &mut value);
        } else {
            fields::apply_defaults(schema, &mut value);
        }
        // Rules of this module stand for one version; for others those of the definition do.
        let covered = if object.kind() == GRAPH.kind { COVERED_BY_RULES } else { &[] };
        let violations = fields::violations_except(schema, &value, None, covered);
        let fault = |violation: SchemaViolation| (violation.path, violation.summary, Fault::Violation(violation.kind));
        violations.into_iter().map(fault).collect()
    } else {
        typing.into_iter().map(|fault| (fault.path, fault.message, Fault::Typing(fault.kind))).collect()
    };
    for (path, message, fault) in found {
        let newer = match fault {
            Fault::Typing(TypingErrorKind::Undeclared) => release_that_has(object.kind(), &path, definitions),
            Fault::Typing(_) | Fault::Violation(_) => None,
        };
        let path = path_by_name(object.value(), &path);
        let known = faults.findings.iter().any(|fault| fault.path == path && fault.outcome == AdmissionOutcome::Denied);
        if known {
            continue;
        }
        let of_release = definitions.release();
        let (text, help) = match newer {
            Some(release) => (
                format!("`{path}` is a field of Dynamo {release} and later; this is checked against {of_release}"),
                format!("remove the field, or upgrade Dynamo; {}", how_to_say(definitions)),
            ),
            None => (format!("`{path}`: {message}"), fault.help(definitions)),
        };
        match fault {
            // An API server may know what this evaluator does not.
            Fault::Violation(ViolationKind::UnevaluatedRule) if definitions.are_served() => {
                faults.warn(rules::SCHEMA, path, text, help);
            }
            Fault::Violation(_) | Fault::Typing(_) => faults.deny_by_schema(rules::SCHEMA, path, text, help),
        }
    }
}

/// The later release whose definitions have a field, where one does.
fn release_that_has(kind: &str, path: &FieldPath, definitions: &Definitions) -> Option<Release> {
    let names: Vec<&str> = path
        .0
        .iter()
        .filter_map(|step| match step {
            PathSegment::Field(name) => Some(name.as_str()),
            PathSegment::Index(_) | PathSegment::Key(_) | PathSegment::Item(_) => None,
        })
        .collect();
    release::release_of_field(kind, &names).filter(|release| *release > definitions.release())
}

fn how_to_say(definitions: &Definitions) -> &'static str {
    if definitions.are_served() {
        "the definitions that the cluster serves decide"
    } else {
        "after an upgrade, set `--dynamo`, or `dynamo` under the environment's `platform` in stator.yaml"
    }
}

/// What is wrong with the form of a value.
enum Fault {
    Typing(TypingErrorKind),
    Violation(ViolationKind),
}

impl Fault {
    fn help(&self, definitions: &Definitions) -> String {
        let by_definition = || {
            let whose = if definitions.are_served() { "the cluster's" } else { "Dynamo's" };
            format!("correct the value: {whose} definition of release {} refuses it", definitions.release())
        };
        match self {
            Self::Typing(TypingErrorKind::Undeclared) => {
                let release = definitions.release();
                format!(
                    "remove the field, or correct its name: Dynamo {release} has no such field; `kubectl explain` lists the fields of a cluster"
                )
            }
            Self::Typing(TypingErrorKind::Duplicate) => "keep one of the two, or give them different names".to_owned(),
            Self::Violation(ViolationKind::MissingValue) => "set a value".to_owned(),
            Self::Violation(ViolationKind::UnsupportedValue) => "use one of the allowed values".to_owned(),
            Self::Typing(TypingErrorKind::Type { .. } | TypingErrorKind::ItemKey | TypingErrorKind::Unsupported)
            | Self::Violation(
                ViolationKind::BrokenRule { .. } | ViolationKind::UnevaluatedRule | ViolationKind::InvalidValue,
            ) => by_definition(),
        }
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
