//! The pure parts of an API server, as this room uses them.

use super::Part;
use crate::cluster::{ClusterError, InvalidField};
use crate::dynamo::kinds::{CLAIM, Kind};
use crate::object::ObjectRef;
use serde_json::{Map, Value};

/// Why a merge failed.
pub(super) type Fault = Vec<InvalidField>;

pub(super) fn error(object: &ObjectRef, fault: Fault) -> ClusterError {
    ClusterError::Invalid { object: object.clone(), causes: fault }
}

/// RFC 3339 with whole seconds, as the API server writes times.
pub(super) fn time(now: jiff::Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Whether the API server counts generations of a kind: of custom resources, not of claims.
pub(super) fn has_generation(kind: &Kind) -> bool {
    *kind != CLAIM
}

pub(super) fn apply(
    _kind: &Kind,
    live: Option<&Value>,
    config: Value,
    _manager: &str,
    _force: bool,
    part: Part,
    _now: jiff::Timestamp,
) -> Result<Value, Fault> {
    let mut merged = live.cloned().unwrap_or_else(|| Value::Object(Map::new()));
    for (key, value) in config.as_object().into_iter().flatten() {
        if (key == "status") == (part == Part::Status) || key == "metadata" {
            merge(&mut merged[key], value);
        }
    }
    Ok(merged)
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

pub(super) fn track(
    _kind: &Kind,
    _old: Option<&Value>,
    new: Value,
    _manager: &str,
    _part: Part,
    _now: jiff::Timestamp,
) -> Result<Value, Fault> {
    Ok(new)
}

pub(super) fn default(_kind: &Kind, _value: &mut Value) {}

pub(super) fn validate(_kind: &Kind, _value: &Value, _old: Option<&Value>) -> Vec<InvalidField> {
    Vec::new()
}

/// Whether two states of an object differ in nothing but the times in `managedFields`.
pub(super) fn same(old: &Value, new: &Value) -> bool {
    old == new
}

/// Whether anything outside `metadata` and `status` differs.
pub(super) fn main_differs(old: &Value, new: &Value) -> bool {
    fn main(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
        value.as_object().into_iter().flatten().filter(|(key, _)| *key != "metadata" && *key != "status")
    }
    !main(old).eq(main(new))
}
