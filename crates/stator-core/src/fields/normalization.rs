//! One form for all spellings of the same values.

use super::field_set::MAX_DEPTH;
use super::schema::{ListType, SchemaNode, StructuralSchema};
use crate::object::Quantity;
use serde_json::Value;

/// Brings a value into the form in which two values that mean the same are equal: schema defaults are filled in, nulls,
/// empty lists and empty maps of names are left out (Kubernetes' encoders omit them), and quantities and numbers are
/// spelled one way.
///
/// An empty map whose fields the schema declares stays: `scalingAdapter: {}` says something.
pub fn normalize(schema: &StructuralSchema, value: &mut Value) {
    super::apply_defaults(schema, value);
    walk(Some(&schema.root), value, 0);
}

/// Sorts lists whose items the schema tells apart by keys, where the order does not count.
pub fn sort_keyed_lists(schema: &StructuralSchema, value: &mut Value, order_counts: &dyn Fn(&str, &[Value]) -> bool) {
    sort(Some(&schema.root), "", value, order_counts, 0);
}

fn sort(
    node: Option<&SchemaNode>,
    name: &str,
    value: &mut Value,
    order_counts: &dyn Fn(&str, &[Value]) -> bool,
    depth: usize,
) {
    let Some(node) = node.filter(|_| depth <= MAX_DEPTH) else { return };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let field = node.properties.get(name).or(node.additional.as_deref());
                sort(field, name, value, order_counts, depth + 1);
            }
        }
        Value::Array(items) => {
            for item in items.iter_mut() {
                sort(node.items.as_deref(), name, item, order_counts, depth + 1);
            }
            if let ListType::Map(keys) = &node.list_type
                && !order_counts(name, items)
            {
                items.sort_by_cached_key(|item| {
                    keys.iter().map(|key| item.get(key).map(ToString::to_string)).collect::<Vec<_>>()
                });
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn walk(node: Option<&SchemaNode>, value: &mut Value, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                let field = node.and_then(|node| node.properties.get(name).or(node.additional.as_deref()));
                walk(field, value, depth + 1);
                match value {
                    Value::Null => false,
                    Value::Array(items) => !items.is_empty(),
                    Value::Object(fields) => !fields.is_empty() || !field.is_some_and(is_map_of_names),
                    Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
                }
            });
        }
        Value::Array(items) => {
            let item = node.and_then(|node| node.items.as_deref());
            items.iter_mut().for_each(|value| walk(item, value, depth + 1));
        }
        Value::Number(_) | Value::String(_) => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if node.is_some_and(is_quantity)
                && let Some(quantity) = Quantity::parse(text.trim())
            {
                *value = quantity.to_string().into();
            } else if let Some(whole) = value.as_f64().filter(|_| value.is_f64()).and_then(exact_integer) {
                *value = whole.into();
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// `10.0` as `10`, as long as nothing is lost.
fn exact_integer(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "within the range in which every whole number is exact")]
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

fn is_map_of_names(node: &SchemaNode) -> bool {
    node.additional.is_some() && node.properties.is_empty()
}

/// A quantity is an int-or-string with a pattern; ports and shares have none.
fn is_quantity(node: &SchemaNode) -> bool {
    node.int_or_string && node.limits.as_ref().is_some_and(|limits| limits.pattern.is_some())
}
