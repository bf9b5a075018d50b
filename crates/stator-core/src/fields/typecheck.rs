//! What an apply must look like before anything is merged: declared fields, right types, no item twice.

use super::field_set::MAX_DEPTH;
use super::schema::{JsonType, ListType, StructuralSchema};
use super::type_ref::{TypeRef, ValueForm};
use crate::object::{FieldPath, KeyValue, PathSegment};
use serde_json::Value;
use std::collections::BTreeSet;

/// One reason why a value cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypingError {
    /// Where.
    pub path: FieldPath,
    /// What is wrong, in the API server's words.
    pub message: String,
    /// What kind of fault it is.
    pub kind: TypingErrorKind,
}

/// The kinds of [`TypingError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TypingErrorKind {
    /// The schema has no such field.
    Undeclared,
    /// An item of a keyed list or set is there twice.
    Duplicate,
    /// The value has another type than the schema asks for, or a list item lacks its keys.
    Type,
    /// The value is nested too deep, or has `metadata.managedFields`.
    Unsupported,
}

/// Every reason why this value cannot be applied; empty when it can.
pub fn typing_errors(schema: &StructuralSchema, value: &Value) -> Vec<TypingError> {
    let mut faults = Vec::new();
    walk(TypeRef::Declared(&schema.root), value, &mut Vec::new(), &mut faults);
    faults.sort();
    faults
}

/// Fields that the schema does not declare, and keys of list items that are there twice.
pub fn undeclared_fields(schema: &StructuralSchema, value: &Value) -> Vec<FieldPath> {
    let faults = typing_errors(schema, value).into_iter();
    faults
        .filter(|fault| match fault.kind {
            TypingErrorKind::Undeclared | TypingErrorKind::Duplicate => true,
            TypingErrorKind::Type | TypingErrorKind::Unsupported => false,
        })
        .map(|fault| fault.path)
        .collect()
}

fn walk(r#type: TypeRef<'_>, value: &Value, path: &mut Vec<PathSegment>, faults: &mut Vec<TypingError>) {
    let mut fault = |path: &[PathSegment], kind, message: String| {
        faults.push(TypingError { path: FieldPath(path.to_vec()), message, kind });
    };
    if path.len() >= MAX_DEPTH {
        let message = format!("nested more than {MAX_DEPTH} levels deep");
        return fault(path, TypingErrorKind::Unsupported, message);
    }
    match r#type.form(Some(value)) {
        ValueForm::Scalar => {
            if let Some(message) = scalar_error(r#type, value) {
                fault(path, TypingErrorKind::Type, message);
            }
        }
        ValueForm::Map | ValueForm::Ambiguous => match value {
            Value::Null => {}
            Value::Object(map) => {
                for (name, value) in map {
                    path.push(PathSegment::Field(name.clone()));
                    match r#type.declared_field_type(name) {
                        Some(field) => walk(field, value, path, faults),
                        None => faults.push(TypingError {
                            path: FieldPath(path.clone()),
                            message: "field not declared in schema".to_owned(),
                            kind: TypingErrorKind::Undeclared,
                        }),
                    }
                    path.pop();
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                fault(path, TypingErrorKind::Type, format!("expected map, got {}", format_go_struct(value)));
            }
        },
        ValueForm::List => match value {
            Value::Null => {}
            Value::Array(items) => walk_items(r#type, items, path, faults),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                fault(path, TypingErrorKind::Type, format!("expected list, got {}", format_go_struct(value)));
            }
        },
    }
}

fn walk_items(r#type: TypeRef<'_>, items: &[Value], path: &mut Vec<PathSegment>, faults: &mut Vec<TypingError>) {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let step = match r#type.list_type() {
            ListType::Atomic => PathSegment::Index(index),
            ListType::Set | ListType::Map(_) => match r#type.identify(item) {
                Ok(step) => step,
                Err(reason) => {
                    let message = format!("element {index}: {reason}");
                    faults.push(TypingError { path: FieldPath(path.clone()), message, kind: TypingErrorKind::Type });
                    return;
                }
            },
        };
        path.push(step.clone());
        if !seen.insert(step.clone()) {
            faults.push(TypingError {
                path: FieldPath(path.clone()),
                message: format!("duplicate entries for key {}", format_path_element(&step)),
                kind: TypingErrorKind::Duplicate,
            });
        }
        walk(r#type.item_type(), item, path, faults);
        path.pop();
    }
}

fn scalar_error(r#type: TypeRef<'_>, value: &Value) -> Option<String> {
    let kind = match r#type {
        TypeRef::Declared(node) => node.kind,
        TypeRef::Deduced | TypeRef::Atomic => JsonType::Any,
    };
    if value.is_null() {
        return None;
    }
    match kind {
        JsonType::Integer | JsonType::Number if !value.is_number() => {
            Some(format!("expected numeric (int or float), got {}", go_type(value)))
        }
        // A string with a format may be any scalar here; validation judges it.
        JsonType::String if !value.is_string() => {
            let formatted = match r#type {
                TypeRef::Declared(node) => node.limits.as_ref().and_then(|limits| limits.format.as_deref()),
                TypeRef::Deduced | TypeRef::Atomic => None,
            };
            let any = formatted.is_some_and(|format| format != "byte") && !value.is_array() && !value.is_object();
            (!any).then(|| format!("expected string, got &value.valueUnstructured{{Value:{}}}", format_go_value(value)))
        }
        JsonType::Boolean if !value.is_boolean() => Some(format!("expected boolean, got {}", format_go_struct(value))),
        JsonType::Any | JsonType::Object | JsonType::Array => None,
        JsonType::String | JsonType::Integer | JsonType::Number | JsonType::Boolean => None,
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn format_go_struct(value: &Value) -> String {
    format!("&{{{}}}", format_go_value(value))
}

fn format_go_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// A step as an API server prints it: `[name="main"]`.
fn format_path_element(step: &PathSegment) -> String {
    let text = |value: &KeyValue| value.value().to_string();
    match step {
        PathSegment::Field(name) => format!(".{name}"),
        PathSegment::Key(keys) => {
            let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
            format!("[{}]", keys.join(","))
        }
        PathSegment::Item(value) => format!("[={}]", text(value)),
        PathSegment::Index(index) => format!("[{index}]"),
    }
}
