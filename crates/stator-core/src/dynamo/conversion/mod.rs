//! v1alpha1 objects become v1beta1 ones, as the operator's conversion webhook makes them.
//!
//! Whatever v1beta1 has no field for is kept in an annotation (`nvidia.com/dgd-spec` and its like), from which the
//! operator restores the v1alpha1 form, and some of which it still honours. [`ConvertedDocument::unmapped`] names the same things
//! for a person.
//!
//! Source: `deploy/operator/api/v1alpha1/*_conversion.go` of the releases 1.2 and 1.5, and the conversions of upstream's
//! manifests by both operators (`oracle/manifests.jsonl` under `tests/data/dynamo/`).

mod component;
pub(super) mod container_merge;
pub mod field_mappings;
mod graph;
pub(super) mod operator_objects;
mod pod;
mod preserved_spec;
mod request;
mod restore;
#[cfg(test)]
mod tests;

use super::kinds;
use super::release::Release;
use crate::fields::{self, ExpectedType};
use crate::object::{FieldPath, JsonValueKind, KeyValue, PathSegment, json_type};
use field_mappings::MappingTarget;
use serde_json::{Map, Value};
use std::fmt;

/// A document at v1beta1, and what did not find a place in it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvertedDocument {
    /// The document at the version that stator writes.
    pub document: Value,
    /// What v1beta1 has no field for, in the order of the source's fields.
    pub unmapped: Vec<UnmappedField>,
}

/// A field of the source that has no place in v1beta1.
#[derive(Clone, Debug, PartialEq)]
pub struct UnmappedField {
    /// Where it stands in the source.
    pub path: FieldPath,
    /// What it says.
    pub value: Value,
    /// What becomes of it, and what to do instead.
    pub reason: &'static str,
}

/// Why a document cannot be converted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConversionError {
    /// The document is no map, or names no kind and version.
    #[error("this is not a Kubernetes object: {0}")]
    NotAnObject(String),
    /// A kind without a conversion.
    #[error("{kind} at {api_version} has no conversion: only graphs, requests, models and their parts have one")]
    UnsupportedKind {
        /// The kind it names.
        kind: String,
        /// The version it names.
        api_version: String,
    },
    /// Fields hold something of another type than the kind declares.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Malformed(Vec<MalformedFieldError>),
}

/// One field that cannot be read as its kind declares it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{path}`: {reason}")]
pub struct MalformedFieldError {
    /// Which field.
    pub path: FieldPath,
    /// Why.
    pub reason: MalformedFieldReason,
}

/// Why a field cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub enum MalformedFieldReason {
    /// It has another type than its kind declares.
    WrongType {
        /// The declared type.
        expected: ExpectedType,
        /// The type that it has; `None` where the value cannot be found again in the document.
        found: Option<JsonValueKind>,
    },
    /// Anything else, in a sentence that says what was found and what is allowed.
    Other(String),
}

impl fmt::Display for MalformedFieldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongType { expected, found: Some(found) } => {
                write!(f, "expected {expected}, found {}", found.as_str())
            }
            Self::WrongType { expected, found: None } => write!(f, "expected {expected}"),
            Self::Other(message) => f.write_str(message),
        }
    }
}

impl ConversionError {
    fn malformed(error: &serde_json::Error) -> Self {
        Self::Malformed(vec![MalformedFieldError {
            path: FieldPath::root(),
            reason: MalformedFieldReason::Other(error.to_string()),
        }])
    }
}

const ALPHA: &str = "nvidia.com/v1alpha1";
const BETA: &str = "nvidia.com/v1beta1";

/// Brings a document to the version that stator writes, as the operator of a release does.
///
/// A document that is already there comes back as it is; what its annotations keep is listed all the same. The document
/// needs no namespace. Structure is checked against the kind's bundled schema; fields that the schema does not know are
/// left out and listed, as the API server prunes them.
///
/// # Errors
/// When the document is of another kind, or a field is of another type than the kind declares: all of them at once.
pub fn convert(document: &Value, release: Release) -> Result<ConvertedDocument, ConversionError> {
    let fields = document.as_object().ok_or_else(|| ConversionError::NotAnObject(json_type(document).to_owned()))?;
    let text = |name: &str| match fields.get(name).and_then(Value::as_str) {
        Some(text) if !text.is_empty() => Ok(text),
        Some(_) | None => Err(ConversionError::NotAnObject(format!("`{name}` is missing"))),
    };
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    check_structure(document, api_version, kind)?;
    let is = |wanted: kinds::ObjectKind| kind == wanted.kind;
    match api_version {
        ALPHA if is(kinds::ADAPTER) => Ok(unchanged(document)),
        ALPHA if is(kinds::GRAPH) => graph::to_v1beta1(document, release),
        ALPHA if is(kinds::REQUEST) => request::to_v1beta1(document),
        ALPHA if is(kinds::SCALING_ADAPTER) => Ok(operator_objects::convert_scaling_adapter(document)),
        ALPHA if kind == operator_objects::COMPONENT => {
            operator_objects::convert_component_deployment(document, release)
        }
        BETA if is(kinds::GRAPH) => {
            Ok(ConvertedDocument { unmapped: graph::preserved_fields(document, release), ..unchanged(document) })
        }
        BETA if is(kinds::REQUEST) || is(kinds::SCALING_ADAPTER) || kind == operator_objects::COMPONENT => {
            Ok(unchanged(document))
        }
        _ => Err(ConversionError::UnsupportedKind { kind: kind.to_owned(), api_version: api_version.to_owned() }),
    }
}

fn unchanged(document: &Value) -> ConvertedDocument {
    ConvertedDocument { document: document.clone(), unmapped: Vec::new() }
}

/// Refuses a document whose fields are of another type than the bundled schema says.
fn check_structure(document: &Value, api_version: &str, kind: &str) -> Result<(), ConversionError> {
    let Some(schema) = fields::bundled_schema(api_version, kind) else { return Ok(()) };
    let faults: Vec<MalformedFieldError> = fields::typing_errors(schema, document)
        .into_iter()
        .filter(|fault| match fault.kind {
            fields::TypingErrorKind::Type { .. } | fields::TypingErrorKind::ItemKey => true,
            // Undeclared fields are listed as left, what is there twice is for validation, and managed fields belong to
            // every live object.
            fields::TypingErrorKind::Undeclared | fields::TypingErrorKind::Duplicate => false,
            fields::TypingErrorKind::Unsupported => fault.path.last_field() != Some("managedFields"),
        })
        .map(|fault| {
            let found = value_at(document, &fault.path).map(JsonValueKind::of);
            let reason = match fault.kind {
                fields::TypingErrorKind::Type { expected } => MalformedFieldReason::WrongType { expected, found },
                fields::TypingErrorKind::ItemKey
                | fields::TypingErrorKind::Undeclared
                | fields::TypingErrorKind::Duplicate
                | fields::TypingErrorKind::Unsupported => {
                    let found = found.map(|found| format!(", found {}", found.as_str())).unwrap_or_default();
                    MalformedFieldReason::Other(format!("{}{found}", fault.message))
                }
            };
            MalformedFieldError { path: fault.path, reason }
        })
        .collect();
    if faults.is_empty() { Ok(()) } else { Err(ConversionError::Malformed(faults)) }
}

/// The value at a path.
fn value_at<'a>(document: &'a Value, path: &FieldPath) -> Option<&'a Value> {
    path.0.iter().try_fold(document, |value, step| match step {
        PathSegment::Field(name) => value.get(name),
        PathSegment::Index(index) => value.get(index),
        PathSegment::Key(keys) => value.as_array()?.iter().find(|item| {
            keys.iter().all(|(name, key)| item.get(name).is_some_and(|value| KeyValue::new(value) == *key))
        }),
        PathSegment::Item(wanted) => value.as_array()?.iter().find(|item| KeyValue::new(item) == *wanted),
    })
}

/// What a conversion leaves aside, with the reason that the table of [`rules`] gives.
#[derive(Debug, Default)]
struct UnmappedCollector(Vec<UnmappedField>);

impl UnmappedCollector {
    /// Notes that the field stays behind. `rule` is its path in the table, with `*` for names.
    fn record(&mut self, rule: &str, path: FieldPath, value: Value) {
        let why = match field_mappings::mapping_target(rule) {
            Some(MappingTarget::KeptInAnnotation(why)) => why,
            Some(MappingTarget::Same | MappingTarget::MovedTo(_)) | None => field_mappings::UNKNOWN_FIELD,
        };
        self.record_with_reason(path, value, why);
    }

    fn record_with_reason(&mut self, path: FieldPath, value: Value, why: &'static str) {
        self.0.push(UnmappedField { path, value, reason: why });
    }

    /// The end of a conversion, with the status where there is one.
    fn finish(mut self, mut document: Value, status: Option<Map<String, Value>>) -> ConvertedDocument {
        if let Some(status) = status {
            document["status"] = Value::Object(status);
        }
        self.0.sort_by(|a, b| a.path.cmp(&b.path));
        ConvertedDocument { document, unmapped: self.0 }
    }
}

/// The metadata of a document without annotations, and these.
fn split_metadata(document: &Value) -> (Map<String, Value>, Map<String, Value>) {
    let mut metadata = document.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    let annotations = match metadata.remove("annotations") {
        Some(Value::Object(annotations)) => annotations,
        Some(_) | None => Map::new(),
    };
    (metadata, annotations)
}
