//! A walk over all values of an object, each with what its kind's schema declares of it: to find what a field is by its
//! type, wherever a schema has such a field.

use super::schema::{ListType, SchemaNode, StructuralSchema};
use crate::object::{KeyValue, PathSegment};
use serde_json::Value;
use std::collections::BTreeMap;

/// One value of an object, and what the schema declares of it.
pub struct DeclaredValue<'a> {
    /// Where it stands. Items of keyed lists are named by their keys.
    pub path: &'a [PathSegment],
    /// The value.
    pub value: &'a Value,
    node: Option<&'a SchemaNode>,
}

impl DeclaredValue<'_> {
    /// Whether the schema declares this field of it, and below that the next one, and so on.
    pub fn declares(&self, fields: &[&str]) -> bool {
        self.node.is_some_and(|node| declares(node, fields))
    }

    /// The fields that the schema declares with all of `below` under them, and that the value does not have.
    pub fn absent_fields(&self, below: &[&str]) -> Vec<&str> {
        let (Some(node), Some(map)) = (self.node, self.value.as_object()) else { return Vec::new() };
        let absent = node.properties.iter().filter(|(name, _)| map.get(*name).is_none_or(Value::is_null));
        absent.filter(|(_, field)| declares(field, below)).map(|(name, _)| name.as_str()).collect()
    }

    /// Whether it may have fields that no schema declares.
    pub fn is_open(&self) -> bool {
        self.node.is_none_or(|node| node.open)
    }
}

fn declares(node: &SchemaNode, fields: &[&str]) -> bool {
    let mut here = Some(node);
    for name in fields {
        here = here.and_then(|node| node.properties.get(*name));
    }
    here.is_some()
}

/// Visits an object and every value in it, from the top down. Without a schema, nothing is declared.
pub fn visit_values(schema: Option<&StructuralSchema>, object: &Value, visit: &mut dyn FnMut(&DeclaredValue<'_>)) {
    visit_node(schema.map(|schema| &schema.root), object, &mut Vec::new(), visit);
}

/// The recursion is as deep as the value, which its reader bounds.
fn visit_node(
    node: Option<&SchemaNode>,
    value: &Value,
    path: &mut Vec<PathSegment>,
    visit: &mut dyn FnMut(&DeclaredValue<'_>),
) {
    visit(&DeclaredValue { path, value, node });
    match value {
        Value::Object(map) => {
            for (name, below) in map {
                let field = node.and_then(|node| node.properties.get(name).or(node.additional.as_deref()));
                path.push(PathSegment::Field(name.clone()));
                visit_node(field, below, path, visit);
                path.pop();
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(item_segment(node, index, item));
                visit_node(node.and_then(|node| node.items.as_deref()), item, path, visit);
                path.pop();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn item_segment(list: Option<&SchemaNode>, index: usize, item: &Value) -> PathSegment {
    let Some(ListType::Map(keys)) = list.map(|node| &node.list_type) else { return PathSegment::Index(index) };
    let named = keys.iter().map(|key| Some((key.clone(), KeyValue::new(item.get(key)?))));
    named.collect::<Option<BTreeMap<_, _>>>().map_or(PathSegment::Index(index), PathSegment::Key)
}
