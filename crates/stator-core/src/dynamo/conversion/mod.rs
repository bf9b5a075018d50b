//! v1alpha1 objects become v1beta1 ones, as the operator's conversion webhook makes them.
//!
//! Whatever v1beta1 has no field for is kept in an annotation (`nvidia.com/dgd-spec` and its like), from which the
//! operator restores the v1alpha1 form, and some of which it still honours. [`Converted::left`] names the same things
//! for a person.
//!
//! Source: `deploy/operator/api/v1alpha1/*_conversion.go` of release 1.2, and the operator's own conversions of upstream's
//! manifests in `tests/data/dynamo/oracle/manifests.jsonl`.

mod component;
mod envelope;
mod graph;
mod merge;
mod parts;
mod pod;
mod request;
mod restore;
pub mod rules;
#[cfg(test)]
mod tests;

use super::kinds;
use crate::fields;
use crate::object::{FieldPath, KeyValue, Segment, json_type};
use rules::Fate;
use serde_json::Value;

/// A document at v1beta1, and what did not find a place in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Converted {
    /// The document at the version that stator writes.
    pub document: Value,
    /// What v1beta1 has no field for, in the order of the source's fields.
    pub left: Vec<Left>,
}

/// A field of the source that has no place in v1beta1.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    /// Where it stands in the source.
    pub path: FieldPath,
    /// What it says.
    pub value: Value,
    /// What becomes of it, and what to do instead.
    pub why: &'static str,
}

/// Why a document cannot be converted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unconvertible {
    /// The document is no map, or names no kind and version.
    #[error("this is not a Kubernetes object: {0}")]
    NoObject(String),
    /// A kind without a conversion.
    #[error("{kind} at {api_version} has no conversion: only graphs, requests, models and their parts have one")]
    Kind {
        /// The kind it names.
        kind: String,
        /// The version it names.
        api_version: String,
    },
    /// Fields hold something of another type than the kind declares.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Malformed(Vec<Fault>),
}

/// One field of another type than its kind declares.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{path}`: {message}")]
pub struct Fault {
    /// Which field.
    pub path: FieldPath,
    /// What was found and what is allowed.
    pub message: String,
}

impl Unconvertible {
    fn malformed(error: &serde_json::Error) -> Self {
        Self::Malformed(vec![Fault { path: FieldPath::root(), message: error.to_string() }])
    }
}

const ALPHA: &str = "nvidia.com/v1alpha1";
const BETA: &str = "nvidia.com/v1beta1";

/// Brings a document to the version that stator writes.
///
/// A document that is already there comes back as it is; what its annotations keep is listed all the same. The document
/// needs no namespace. Structure is checked against the kind's bundled schema; fields that the schema does not know are
/// left out and listed, as the API server prunes them.
///
/// # Errors
/// When the document is of another kind, or a field is of another type than the kind declares: all of them at once.
pub fn convert(document: &Value) -> Result<Converted, Unconvertible> {
    let fields = document.as_object().ok_or_else(|| Unconvertible::NoObject(json_type(document).to_owned()))?;
    let text = |name: &str| match fields.get(name).and_then(Value::as_str) {
        Some(text) if !text.is_empty() => Ok(text),
        Some(_) | None => Err(Unconvertible::NoObject(format!("`{name}` is missing"))),
    };
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    check(document, api_version, kind)?;
    let is = |wanted: kinds::Kind| kind == wanted.kind;
    match api_version {
        ALPHA if is(kinds::ADAPTER) => Ok(unchanged(document)),
        ALPHA if is(kinds::GRAPH) => graph::to_beta(document),
        ALPHA if is(kinds::REQUEST) => request::to_beta(document),
        ALPHA if is(kinds::SCALING_ADAPTER) => Ok(parts::scaling_adapter(document)),
        ALPHA if kind == parts::COMPONENT => parts::component_deployment(document),
        BETA if is(kinds::GRAPH) => Ok(Converted { left: envelope::kept(document), ..unchanged(document) }),
        BETA if is(kinds::REQUEST) || is(kinds::SCALING_ADAPTER) || kind == parts::COMPONENT => Ok(unchanged(document)),
        _ => Err(Unconvertible::Kind { kind: kind.to_owned(), api_version: api_version.to_owned() }),
    }
}

fn unchanged(document: &Value) -> Converted {
    Converted { document: document.clone(), left: Vec::new() }
}

/// Refuses a document whose fields are of another type than the bundled schema says.
fn check(document: &Value, api_version: &str, kind: &str) -> Result<(), Unconvertible> {
    let Some(schema) = fields::schema_of(api_version, kind) else { return Ok(()) };
    let faults: Vec<Fault> = fields::typing_faults(schema, document)
        .into_iter()
        .filter(|fault| match fault.kind {
            fields::TypingFaultKind::Type => true,
            // Undeclared fields are listed as left, what is there twice is for validation, and managed fields belong to
            // every live object.
            fields::TypingFaultKind::Undeclared | fields::TypingFaultKind::Duplicate => false,
            fields::TypingFaultKind::Unfit => fault.path.last_field() != Some("managedFields"),
        })
        .map(|fault| {
            let found = at(document, &fault.path).map(|value| format!(", found {}", json_type(value)));
            let expected = fault.message.split(", got").next().unwrap_or_default();
            Fault { message: format!("{expected}{}", found.unwrap_or_default()), path: fault.path }
        })
        .collect();
    if faults.is_empty() { Ok(()) } else { Err(Unconvertible::Malformed(faults)) }
}

/// The value at a path.
fn at<'a>(document: &'a Value, path: &FieldPath) -> Option<&'a Value> {
    path.0.iter().try_fold(document, |value, step| match step {
        Segment::Field(name) => value.get(name),
        Segment::Index(index) => value.get(index),
        Segment::Key(keys) => value.as_array()?.iter().find(|item| {
            keys.iter().all(|(name, key)| item.get(name).is_some_and(|value| KeyValue::new(value) == *key))
        }),
        Segment::Item(wanted) => value.as_array()?.iter().find(|item| KeyValue::new(item) == *wanted),
    })
}

/// What a conversion leaves aside, with the reason that the table of [`rules`] gives.
#[derive(Debug, Default)]
struct Aside(Vec<Left>);

impl Aside {
    /// Notes that the field stays behind. `rule` is its path in the table, with `*` for names.
    fn push(&mut self, rule: &str, path: FieldPath, value: Value) {
        let why = match rules::fate(rule) {
            Some(Fate::Kept(why)) => why,
            Some(Fate::Same | Fate::To(_)) | None => rules::UNKNOWN,
        };
        self.note(path, value, why);
    }

    fn note(&mut self, path: FieldPath, value: Value, why: &'static str) {
        self.0.push(Left { path, value, why });
    }
}
