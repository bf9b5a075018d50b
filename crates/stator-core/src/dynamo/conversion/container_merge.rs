//! How the operator lays one container over another.

use serde_json::{Map, Value};

/// Lays `over` over `base`: maps key by key, lists and scalars as a whole; what is empty changes nothing.
///
/// Source: `mergo.Merge(…, WithOverride)`, as the operator merges `extraPodSpec.mainContainer`.
pub(super) fn merge_over(base: &mut Map<String, Value>, over: &Map<String, Value>) {
    for (name, value) in over {
        match (base.get_mut(name), value) {
            (_, Value::Null) => {}
            (None, value) => {
                base.insert(name.clone(), value.clone());
            }
            (Some(Value::Object(base)), Value::Object(over)) => merge_over(base, over),
            (Some(place), value) if !is_empty(value) => *place = value.clone(),
            (Some(_), _) => {}
        }
    }
}

/// The zero value of its type.
pub(in crate::dynamo) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// Variables of both, by name: the special one stands in the place of the common one.
///
/// Source: `mergeEnvs`.
pub(super) fn merge_variables(common: &[Value], special: &[Value]) -> Vec<Value> {
    merge_by("name", common, special)
}

/// Mounts of both, by their path: the special one stands in the place of the common one.
pub(super) fn merge_mounts(common: &[Value], special: &[Value]) -> Vec<Value> {
    merge_by("mountPath", common, special)
}

fn merge_by(key: &str, common: &[Value], special: &[Value]) -> Vec<Value> {
    let mut merged = common.to_vec();
    for item in special {
        match merged.iter_mut().find(|other| other.get(key) == item.get(key)) {
            Some(place) => *place = item.clone(),
            None => merged.push(item.clone()),
        }
    }
    merged
}

/// Variables as the operator writes them: one without a value has none, rather than an empty one.
pub(super) fn serialize_variables(variables: &[Value]) -> Value {
    let mut variables = variables.to_vec();
    for variable in &mut variables {
        if let Value::Object(fields) = variable {
            fields.retain(|name, value| name != "value" || !is_empty(value));
        }
    }
    Value::Array(variables)
}
