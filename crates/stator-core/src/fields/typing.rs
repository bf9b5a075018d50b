//! What an apply must look like before anything is merged: declared fields, right types, no item twice.

use super::schema::{JsonType, ListType, Schema};
use super::set::MAX_DEPTH;
use super::typed::{Form, Type};
use crate::object::{FieldPath, KeyValue, Segment};
use serde_json::Value;
use std::collections::BTreeSet;

/// One reason why a value cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypingFault {
    /// Where.
    pub path: FieldPath,
    /// What is wrong, in the API server's words.
    pub message: String,
    /// What kind of fault it is.
    pub kind: TypingFaultKind,
}

/// The kinds of [`TypingFault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TypingFaultKind {
    /// The schema has no such field.
    Undeclared,
    /// An item of a keyed list or set is there twice.
    Duplicate,
    /// The value has another type than the schema asks for, or a list item lacks its keys.
    Type,
    /// The value is nested too deep, or has `metadata.managedFields`.
    Unfit,
}

/// Every reason why this value cannot be applied; empty when it can.
pub fn typing_faults(schema: &Schema, value: &Value) -> Vec<TypingFault> {
    let mut faults = Vec::new();
    walk(Type::Declared(&schema.root), value, &mut Vec::new(), &mut faults);
    faults.sort();
    faults
}

/// Fields that the schema does not declare, and keys of list items that are there twice.
pub fn undeclared(schema: &Schema, value: &Value) -> Vec<FieldPath> {
    let faults = typing_faults(schema, value).into_iter();
    faults
        .filter(|fault| match fault.kind {
            TypingFaultKind::Undeclared | TypingFaultKind::Duplicate => true,
            TypingFaultKind::Type | TypingFaultKind::Unfit => false,
        })
        .map(|fault| fault.path)
        .collect()
}

fn walk(r#type: Type<'_>, value: &Value, path: &mut Vec<Segment>, faults: &mut Vec<TypingFault>) {
    let mut fault = |path: &[Segment], kind, message: String| {
        faults.push(TypingFault { path: FieldPath(path.to_vec()), message, kind });
    };
    if path.len() >= MAX_DEPTH {
        let message = format!("nested more than {MAX_DEPTH} levels deep");
        return fault(path, TypingFaultKind::Unfit, message);
    }
    match r#type.form(Some(value)) {
        Form::Scalar => {
            if let Some(message) = scalar_fault(r#type, value) {
                fault(path, TypingFaultKind::Type, message);
            }
        }
        Form::Map | Form::Unsaid => match value {
            Value::Null => {}
            Value::Object(map) => {
                for (name, value) in map {
                    path.push(Segment::Field(name.clone()));
                    match r#type.declared_field(name) {
                        Some(field) => walk(field, value, path, faults),
                        None => faults.push(TypingFault {
                            path: FieldPath(path.clone()),
                            message: "field not declared in schema".to_owned(),
                            kind: TypingFaultKind::Undeclared,
                        }),
                    }
                    path.pop();
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                fault(path, TypingFaultKind::Type, format!("expected map, got {}", wrapped(value)));
            }
        },
        Form::List => match value {
            Value::Null => {}
            Value::Array(items) => walk_items(r#type, items, path, faults),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                fault(path, TypingFaultKind::Type, format!("expected list, got {}", wrapped(value)));
            }
        },
    }
}

fn walk_items(r#type: Type<'_>, items: &[Value], path: &mut Vec<Segment>, faults: &mut Vec<TypingFault>) {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let step = match r#type.list() {
            ListType::Atomic => Segment::Index(index),
            ListType::Set | ListType::Map(_) => match r#type.identify(item) {
                Ok(step) => step,
                Err(reason) => {
                    let message = format!("element {index}: {reason}");
                    faults.push(TypingFault { path: FieldPath(path.clone()), message, kind: TypingFaultKind::Type });
                    return;
                }
            },
        };
        path.push(step.clone());
        if !seen.insert(step.clone()) {
            faults.push(TypingFault {
                path: FieldPath(path.clone()),
                message: format!("duplicate entries for key {}", printed(&step)),
                kind: TypingFaultKind::Duplicate,
            });
        }
        walk(r#type.item(), item, path, faults);
        path.pop();
    }
}

fn scalar_fault(r#type: Type<'_>, value: &Value) -> Option<String> {
    let kind = match r#type {
        Type::Declared(node) => node.kind,
        Type::Deduced | Type::Whole => JsonType::Any,
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
                Type::Declared(node) => node.limits.as_ref().and_then(|limits| limits.format.as_deref()),
                Type::Deduced | Type::Whole => None,
            };
            let any = formatted.is_some_and(|format| format != "byte") && !value.is_array() && !value.is_object();
            (!any).then(|| format!("expected string, got &value.valueUnstructured{{Value:{}}}", plain(value)))
        }
        JsonType::Boolean if !value.is_boolean() => Some(format!("expected boolean, got {}", wrapped(value))),
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

fn wrapped(value: &Value) -> String {
    format!("&{{{}}}", plain(value))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// A step as an API server prints it: `[name="main"]`.
fn printed(step: &Segment) -> String {
    let text = |value: &KeyValue| value.value().to_string();
    match step {
        Segment::Field(name) => format!(".{name}"),
        Segment::Key(keys) => {
            let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
            format!("[{}]", keys.join(","))
        }
        Segment::Item(value) => format!("[={}]", text(value)),
        Segment::Index(index) => format!("[{index}]"),
    }
}
