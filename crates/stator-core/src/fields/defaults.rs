//! Schema defaults, filled in as an API server does when it decodes an object.

use super::field_set::MAX_DEPTH;
use super::schema::{SchemaNode, StructuralSchema};
use crate::object::Quantity;
use serde_json::Value;

/// Fills in the schema's defaults, drops every `null` where the schema allows none and has no default for it, and writes
/// the quantities of built-in kinds as the API server does.
pub fn apply_defaults(schema: &StructuralSchema, value: &mut Value) {
    let dropping = DefaultingOptions { drop_nulls: true, drop_empty: schema.builtin };
    fill_defaults(Some(&schema.root), value, dropping, 0);
}

/// Fills in the schema's defaults as an API server does after the merge of an apply: of a custom resource, a `null`
/// without a default stays, and validation will refuse it.
pub fn apply_defaults_after_merge(schema: &StructuralSchema, value: &mut Value) {
    let builtin = schema.builtin;
    fill_defaults(Some(&schema.root), value, DefaultingOptions { drop_nulls: builtin, drop_empty: builtin }, 0);
}

/// Leaves out of `metadata` what an API server does not write: maps and lists with nothing in them.
pub fn tidy_metadata(object: &mut Value) {
    const LEFT_OUT: &[&str] = &["labels", "annotations", "finalizers", "ownerReferences"];
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, value| {
            let empty = match value {
                Value::Null => true,
                Value::Array(items) => items.is_empty(),
                Value::Object(map) => map.is_empty(),
                Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
            };
            !(empty && LEFT_OUT.contains(&name.as_str()))
        });
    }
}

/// What goes, besides what is filled in.
#[derive(Clone, Copy)]
struct DefaultingOptions {
    /// Each `null` that has no default.
    drop_nulls: bool,
    /// Lists and free maps with nothing in them.
    drop_empty: bool,
}

/// Whether a built-in kind's type leaves a field out when it is written.
fn is_omitted_when_empty(node: &SchemaNode, value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty() && node.additional.is_some(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// A schema's default for a field, when it has one.
fn default_of(node: &SchemaNode) -> Option<&Value> {
    node.default.as_ref()
}

fn fill_defaults(node: Option<&SchemaNode>, value: &mut Value, dropping: DefaultingOptions, depth: usize) {
    let Some(node) = node else { return };
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, field) in &node.properties {
                let Some(default) = default_of(field) else { continue };
                let missing = map.get(name).is_none_or(|value| value.is_null() && !field.nullable);
                if missing {
                    map.insert(name.clone(), default.clone());
                }
            }
            map.retain(|name, value| {
                let field = node.properties.get(name).or(node.additional.as_deref());
                if let Some(field) = field
                    && value.is_null()
                    && !field.nullable
                {
                    match default_of(field) {
                        Some(default) => *value = default.clone(),
                        None if dropping.drop_nulls => return false,
                        None => {}
                    }
                }
                fill_defaults(field, value, dropping, depth + 1);
                !(dropping.drop_empty && field.is_some_and(|field| is_omitted_when_empty(field, value)))
            });
        }
        Value::Array(items) => {
            let item = node.items.as_deref();
            for value in items {
                if value.is_null()
                    && let Some(item) = item
                    && !item.nullable
                    && let Some(default) = default_of(item)
                {
                    *value = default.clone();
                }
                fill_defaults(item, value, dropping, depth + 1);
            }
        }
        Value::Number(_) | Value::String(_) if node.quantity => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if let Some(text) = Quantity::canonical(&text) {
                *value = Value::String(text);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
