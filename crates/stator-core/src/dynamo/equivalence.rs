//! When two documents ask for the same: the order of maps, defaulted leaves and quantities spelled otherwise do not
//! count.
//!
//! Exactly these do not count:
//! - `status`, `metadata` but for name, labels and annotations, and what the operator or stator writes there of its own;
//! - the order of lists whose items the schema tells apart by keys (components, containers, volumes, mounts, environment
//!   variables, …), but for init containers, which run in their order, and for variables of which one is made of another
//!   (`$(NAME)`); the order of every other list counts, that of arguments above all;
//! - a component's type that v1beta1 has no word for (`main`, `default`): the operator treats it as none, and an API
//!   server refuses it;
//! - the name of a request, which stator derives from what it asks for;
//! - nulls, empty lists, empty maps of names, and the zero values of `EMPTY_SAYS_NOTHING` below;
//! - leaves at the default of the bundled schema (`protocol: TCP`, `mode: IntraPod`), and `replicas: 1`, which the
//!   operator's webhook fills in;
//! - how a quantity (`1Gi`, `1024Mi`) or a number (`10`, `10.0`) is spelled.

use super::conversion::container_merge::is_empty;
use super::graph_components::components_mut;
use super::list_order::is_order_significant;
use super::{kinds, registry};
use crate::deployment_tools;
use crate::fields;
use crate::object::{FieldPath, KeyValue, PathSegment};
use serde_json::Value;
use std::collections::BTreeMap;

/// Fields whose zero value is the same as none: in Go they are no pointers, so an encoder leaves it out.
const EMPTY_SAYS_NOTHING: &[&str] = &[
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "initialDelaySeconds",
    "metadata",
    "name",
    "readOnly",
    "resources",
    "spec",
    "stdin",
    "stdinOnce",
    "subPath",
    "tty",
    "value",
];

/// The desired state of a document, in one form for all that ask for the same.
pub fn normalize_document(document: &Value) -> Value {
    let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut desired = document.clone();
    if let Some(fields) = desired.as_object_mut() {
        fields.remove("status");
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            let named = document.get("kind").is_none_or(|kind| kind != kinds::REQUEST.kind);
            metadata.retain(|name, _| match name.as_str() {
                "labels" | "annotations" => true,
                "name" => named,
                _ => false,
            });
            for name in ["labels", "annotations"] {
                if let Some(map) = metadata.get_mut(name).and_then(Value::as_object_mut) {
                    map.retain(|key, _| !is_reserved_key(key));
                }
            }
        }
    }
    if let Some(schema) = fields::bundled_schema(text("apiVersion"), text("kind")) {
        fields::normalize(schema, &mut desired);
    }
    for component in components_mut(&mut desired) {
        component.entry("replicas").or_insert_with(|| 1.into());
        if component.get("type").and_then(Value::as_str).is_some_and(is_unknown_component_type) {
            component.remove("type");
        }
    }
    if let Some(schema) = fields::bundled_schema(text("apiVersion"), text("kind")) {
        fields::sort_keyed_lists(schema, &mut desired, &is_order_significant);
    }
    drop_empty(&mut desired, 0);
    desired
}

/// The component types of v1beta1.
const COMPONENT_TYPES: [&str; 6] = ["frontend", "worker", "prefill", "decode", "planner", "epp"];

/// Whether v1beta1 has no word for a component's type. The operator gives a component of such a type the defaults of one
/// without a type (its `ComponentDefaultsFactory`).
pub fn is_unknown_component_type(word: &str) -> bool {
    !COMPONENT_TYPES.contains(&word)
}

/// A field in which two documents ask for different things.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentDifference {
    /// Which field.
    pub path: FieldPath,
    /// What the first asks for.
    pub left: Option<Value>,
    /// What the second asks for.
    pub right: Option<Value>,
}

/// Every field in which two documents ask for different things, in the order of paths.
pub fn differences(a: &Value, b: &Value) -> Vec<DocumentDifference> {
    let mut found = Vec::new();
    compare(Some(&normalize_document(a)), Some(&normalize_document(b)), &FieldPath::root(), &mut found);
    found
}

/// Whether a label or annotation is written by the operator, by stator, by `kubectl apply` for itself, or by another tool as
/// its mark.
pub fn is_reserved_key(key: &str) -> bool {
    registry::is_operator_key(key) || is_stator_key(key) || deployment_tools::is_tool_mark(key)
}

fn is_stator_key(key: &str) -> bool {
    key == kinds::LABEL_MANAGED_BY || key.starts_with("stator.dev/") || key == fields::LAST_APPLIED_ANNOTATION
}

fn name(value: &Value) -> Option<&str> {
    value.get("name").and_then(Value::as_str)
}

/// Documents nest a few dozen levels.
const MAX_DEPTH: usize = 128;

fn drop_empty(value: &mut Value, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            drop_empty(value, depth + 1);
            !(is_empty(value) && EMPTY_SAYS_NOTHING.contains(&name.as_str()))
        }),
        Value::Array(items) => items.iter_mut().for_each(|item| drop_empty(item, depth + 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn compare(a: Option<&Value>, b: Option<&Value>, path: &FieldPath, found: &mut Vec<DocumentDifference>) {
    match (a, b) {
        (Some(a), Some(b)) if a == b => {}
        (Some(Value::Object(a)), Some(Value::Object(b))) if path.0.len() < MAX_DEPTH => {
            let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
            let mut names: Vec<&String> = names.collect();
            names.sort();
            for name in names {
                compare(a.get(name), b.get(name), &path.field(name.clone()), found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) if path.0.len() < MAX_DEPTH => {
            items(a, b, path, found);
        }
        (left, right) => {
            found.push(DocumentDifference { path: path.clone(), left: left.cloned(), right: right.cloned() });
        }
    }
}

/// Items that all have a name are compared by it, and by position otherwise; an order of names that differs is said once.
fn items(a: &[Value], b: &[Value], path: &FieldPath, found: &mut Vec<DocumentDifference>) {
    let by_name = |items: &[Value]| -> Option<BTreeMap<String, Value>> {
        let named: Option<BTreeMap<String, Value>> =
            items.iter().map(|item| Some((name(item)?.to_owned(), item.clone()))).collect();
        named.filter(|named| named.len() == items.len())
    };
    if let (Some(left), Some(right)) = (by_name(a), by_name(b)) {
        let before = found.len();
        let mut names: Vec<&String> =
            left.keys().chain(right.keys().filter(|name| !left.contains_key(*name))).collect();
        names.sort();
        for name in names {
            let key = PathSegment::Key([("name".to_owned(), KeyValue::new(&name.as_str().into()))].into());
            compare(left.get(name), right.get(name), &path.join(key), found);
        }
        if found.len() == before {
            let order = |items: &[Value]| Some(items.iter().filter_map(|item| item.get("name").cloned()).collect());
            found.push(DocumentDifference { path: path.clone(), left: order(a), right: order(b) });
        }
        return;
    }
    for index in 0..a.len().max(b.len()) {
        compare(a.get(index), b.get(index), &path.join(PathSegment::Index(index)), found);
    }
}

#[cfg(test)]
mod tests;
