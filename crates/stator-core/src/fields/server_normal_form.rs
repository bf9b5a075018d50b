//! What a server makes of applied values by itself: defaults, conversion to the stored version and back, webhooks.

use super::field_set::MAX_DEPTH;
use super::schema::{ListType, StructuralSchema};
use super::type_ref::{TypeRef, ValueForm, values_equal};
use crate::object::PathSegment;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What is about to be applied, with every leaf in the form that the server gives it: where an apply of `config` leads to
/// `result`, and the live object has that already, the live form is taken; a field that the server drops is left out.
/// Applied so, a server sees no change where there will be none, and does not raise the generation.
pub fn take_server_form(schema: &StructuralSchema, config: &Value, live: &Value, result: &Value) -> Value {
    take(TypeRef::Declared(&schema.root), Some(config), Some(live), Some(result), 0).unwrap_or_else(|| config.clone())
}

/// `None` for what is left out.
fn take(
    r#type: TypeRef<'_>,
    config: Option<&Value>,
    live: Option<&Value>,
    result: Option<&Value>,
    depth: usize,
) -> Option<Value> {
    let config = config?;
    let (live, result) = match (live, result) {
        (Some(live), Some(result)) => (live, result),
        // Dropped by the server, now as before.
        (None, None) => return None,
        (Some(_), None) | (None, Some(_)) => return Some(config.clone()),
    };
    if depth >= MAX_DEPTH {
        return Some(config.clone());
    }
    match (r#type.form(Some(config)), config, live, result) {
        (ValueForm::Map | ValueForm::Ambiguous, Value::Object(wanted), Value::Object(have), Value::Object(becomes))
            if !r#type.map_type().atomic =>
        {
            let fields = wanted.iter().filter_map(|(name, value)| {
                let field = take(r#type.field_type(name), Some(value), have.get(name), becomes.get(name), depth + 1)?;
                Some((name.clone(), field))
            });
            Some(Value::Object(fields.collect::<Map<String, Value>>()))
        }
        (ValueForm::List, Value::Array(wanted), Value::Array(have), Value::Array(becomes))
            if *r#type.list_type() != ListType::Atomic =>
        {
            let (have, becomes) = (by_identity(r#type, have), by_identity(r#type, becomes));
            let items = wanted.iter().filter_map(|item| match r#type.identify(item) {
                Ok(key) => {
                    take(r#type.item_type(), Some(item), have.get(&key).copied(), becomes.get(&key).copied(), depth + 1)
                }
                Err(_) => Some(item.clone()),
            });
            Some(Value::Array(items.collect()))
        }
        (ValueForm::Scalar | ValueForm::Map | ValueForm::Ambiguous | ValueForm::List, _, _, _) => {
            Some(if values_equal(live, result) { live.clone() } else { config.clone() })
        }
    }
}

fn by_identity<'a>(r#type: TypeRef<'_>, items: &'a [Value]) -> BTreeMap<PathSegment, &'a Value> {
    items.iter().filter_map(|item| Some((r#type.identify(item).ok()?, item))).collect()
}
