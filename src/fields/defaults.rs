//! Schema defaults, filled in as an API server does when it decodes an object.

use super::schema::{Node, Schema};
use super::set::MAX_DEPTH;
use serde_json::Value;

/// Fills in the schema's defaults, and drops every `null` where the schema allows none and has no default for it.
pub fn default(schema: &Schema, value: &mut Value) {
    fill(Some(&schema.root), value, 0);
}

/// A schema's default for a field, when it has one.
fn default_of(node: &Node) -> Option<&Value> {
    node.default.as_ref()
}

fn fill(node: Option<&Node>, value: &mut Value, depth: usize) {
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
                        None => return false,
                    }
                }
                fill(field, value, depth + 1);
                true
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
                fill(item, value, depth + 1);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
