//! Field paths as an API server prints them, read back.
//!
//! The printed form is ambiguous where a key holds a dot or a bracket (`.metadata.labels.example.com/team`), so a path is
//! looked up among those that are possible before it is taken apart.

use serde_json::Value;
use stator_core::fields::{FieldManager, FieldSet};
use stator_core::object::{FieldPath, KeyValue, PathSegment};
use std::fmt::Write as _;

/// A path as server-side apply prints it: `.spec.components[name="decode"].replicas`.
pub(super) fn format_path(path: &FieldPath) -> String {
    let mut text = String::new();
    for step in &path.0 {
        // Writing to a string cannot fail.
        let _ = match step {
            PathSegment::Field(name) => write!(text, ".{name}"),
            PathSegment::Key(keys) => {
                let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={}", value.value())).collect();
                write!(text, "[{}]", keys.join(","))
            }
            PathSegment::Item(value) => write!(text, "[={}]", value.value()),
            PathSegment::Index(index) => write!(text, "[{index}]"),
        };
    }
    text
}

/// The owned field that a printed path means, else the path as well as it can be read.
pub(super) fn resolve_owned_path(printed: &str, managers: &[FieldManager], manager: &str) -> FieldPath {
    let find = |set: &FieldSet| set.iter().find(|path| format_path(path) == printed);
    let named = managers.iter().filter(|own| own.name == manager).find_map(|own| find(&own.fields));
    named
        .or_else(|| managers.iter().find_map(|own| find(&own.fields)))
        .unwrap_or_else(|| parse_apply_path(printed, &Value::Null))
}

/// A path in the form of server-side apply, read along an object that it is about.
pub(super) fn parse_apply_path(printed: &str, object: &Value) -> FieldPath {
    let mut path = Vec::new();
    let mut rest = printed;
    let mut at = Some(object);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let name = field_name(after, at);
            rest = after.get(name.len()..).unwrap_or_default();
            at = at.and_then(|value| value.get(name));
            path.push(PathSegment::Field(name.to_owned()));
        } else if let Some(inside) = rest.strip_prefix('[') {
            let end = closing_bracket(inside);
            let step = parse_bracket(inside.get(..end).unwrap_or_default());
            rest = inside.get(end + 1..).unwrap_or_default();
            at = at.and_then(|value| child_value(value, &step));
            path.push(step);
        } else {
            let name = field_name(rest, at);
            rest = rest.get(name.len()..).unwrap_or_default();
            at = at.and_then(|value| value.get(name));
            path.push(PathSegment::Field(name.to_owned()));
        }
    }
    FieldPath(path)
}

/// A path in the form of validation (`spec.components[0].image`, `metadata.labels[example.com/team]`).
pub(super) fn parse_validation_path(printed: &str, object: &Value) -> FieldPath {
    let mut path = parse_apply_path(printed, object);
    let mut at = Some(object);
    for step in &mut path.0 {
        // In brackets, a list's position and a map's key look alike.
        if let (PathSegment::Index(index), Some(Value::Object(_))) = (&*step, at) {
            *step = PathSegment::Field(index.to_string());
        }
        at = at.and_then(|value| child_value(value, step));
    }
    path
}

/// The longest key of the object that the text begins with, else everything up to the next step.
fn field_name<'a>(text: &'a str, at: Option<&Value>) -> &'a str {
    let keys = at.and_then(Value::as_object).into_iter().flat_map(|map| map.keys());
    let known = keys
        .filter_map(|key| {
            let after = text.strip_prefix(key.as_str())?;
            (after.is_empty() || after.starts_with(['.', '['])).then_some(key.len())
        })
        .max();
    // A step is never empty, so that reading always goes on.
    let first = text.chars().next().map_or(0, char::len_utf8);
    let end = known.unwrap_or_else(|| {
        text.char_indices().skip(1).find(|(_, char)| matches!(char, '.' | '[')).map_or(text.len(), |(at, _)| at)
    });
    text.get(..end.max(first)).unwrap_or(text)
}

/// Where the bracket closes, quoted brackets passed over.
fn closing_bracket(inside: &str) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    for (at, char) in inside.char_indices() {
        match char {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ']' if !quoted => return at,
            _ => {}
        }
    }
    inside.len()
}

fn parse_bracket(text: &str) -> PathSegment {
    let value = |text: &str| KeyValue::new(&serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)));
    if let Some(item) = text.strip_prefix('=') {
        return PathSegment::Item(value(item));
    }
    if let Ok(index) = text.parse() {
        return PathSegment::Index(index);
    }
    let keys: Option<_> = split_keys(text)
        .into_iter()
        .map(|pair| pair.split_once('=').map(|(name, key)| (name.to_owned(), value(key))))
        .collect();
    match keys {
        Some(keys) => PathSegment::Key(keys),
        None => PathSegment::Field(text.to_owned()),
    }
}

/// `a="x,y",b=1` at the commas between pairs.
fn split_keys(text: &str) -> Vec<&str> {
    let (mut parts, mut from, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, char) in text.char_indices() {
        match char {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ',' if !quoted => {
                parts.extend(text.get(from..at));
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(text.get(from..));
    parts
}

/// One step down.
fn child_value<'a>(value: &'a Value, step: &PathSegment) -> Option<&'a Value> {
    match step {
        PathSegment::Field(name) => value.get(name),
        PathSegment::Index(index) => value.get(index),
        PathSegment::Key(keys) => value
            .as_array()?
            .iter()
            .find(|item| keys.iter().all(|(name, key)| item.get(name).is_some_and(|own| *own == key.value()))),
        PathSegment::Item(_) => None,
    }
}
