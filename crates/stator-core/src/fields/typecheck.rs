//! What an apply must look like before anything is merged: declared fields, right types, no item twice.

use super::field_set::MAX_DEPTH;
use super::schema::{JsonType, ListType, StructuralSchema};
use super::type_ref::{TypeRef, ValueForm};
use crate::object::{FieldPath, KeyValue, PathSegment};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;

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
    /// The value has another type than the schema asks for.
    Type {
        /// The type that the schema asks for.
        expected: ExpectedType,
    },
    /// An item of a keyed list or set has nothing to tell it apart by.
    ItemKey,
    /// The value is nested too deep, or has `metadata.managedFields`.
    Unsupported,
}

/// The type that a schema asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExpectedType {
    /// Text.
    String,
    /// A number, whole or not.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list.
    List,
    /// A map.
    Map,
}

impl fmt::Display for ExpectedType {
    /// In the API server's words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::String => "string",
            Self::Number => "numeric (int or float)",
            Self::Boolean => "boolean",
            Self::List => "list",
            Self::Map => "map",
        })
    }
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
            TypingErrorKind::Type { .. } | TypingErrorKind::ItemKey | TypingErrorKind::Unsupported => false,
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
    let mistyped =
        |expected, got: String| (TypingErrorKind::Type { expected }, format!("expected {expected}, got {got}"));
    match r#type.form(Some(value)) {
        ValueForm::Scalar => {
            if let Some((expected, got)) = scalar_error(r#type, value) {
                let (kind, message) = mistyped(expected, got);
                fault(path, kind, message);
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
                let (kind, message) = mistyped(ExpectedType::Map, format_go_struct(value));
                fault(path, kind, message);
            }
        },
        ValueForm::List => match value {
            Value::Null => {}
            Value::Array(items) => walk_items(r#type, items, path, faults),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                let (kind, message) = mistyped(ExpectedType::List, format_go_struct(value));
                fault(path, kind, message);
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
                    faults.push(TypingError { path: FieldPath(path.clone()), message, kind: TypingErrorKind::ItemKey });
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

/// The type that a scalar should have and has not, and what is there as an API server prints it.
fn scalar_error(r#type: TypeRef<'_>, value: &Value) -> Option<(ExpectedType, String)> {
    let kind = match r#type {
        TypeRef::Declared(node) => node.kind,
        TypeRef::Deduced | TypeRef::Atomic => JsonType::Any,
    };
    if value.is_null() {
        return None;
    }
    match kind {
        JsonType::Integer | JsonType::Number if !value.is_number() => {
            Some((ExpectedType::Number, go_type(value).to_owned()))
        }
        // A string with a format may be any scalar here; validation judges it.
        JsonType::String if !value.is_string() => {
            let formatted = match r#type {
                TypeRef::Declared(node) => node.limits.as_ref().and_then(|limits| limits.format.as_deref()),
                TypeRef::Deduced | TypeRef::Atomic => None,
            };
            let any = formatted.is_some_and(|format| format != "byte") && !value.is_array() && !value.is_object();
            let got = || format!("&value.valueUnstructured{{Value:{}}}", format_go_value(value));
            (!any).then(|| (ExpectedType::String, got()))
        }
        JsonType::Boolean if !value.is_boolean() => Some((ExpectedType::Boolean, format_go_struct(value))),
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
