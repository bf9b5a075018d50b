//! Values as they are written into a document.

use crate::intent::yaml::{YamlValue, parse_yaml};
use serde_json::Value;

/// A field in block style, a line for each of its lines: maps are spread out, lists stand on one line.
pub(super) fn block_entry(name: &str, value: &Value, column: usize) -> Vec<String> {
    let indent = " ".repeat(column);
    let name = flow_value(&Value::from(name));
    match value {
        Value::Object(map) if !map.is_empty() => {
            let below = map.iter().flat_map(|(name, value)| block_entry(name, value, column + 2));
            std::iter::once(format!("{indent}{name}:")).chain(below).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            vec![format!("{indent}{name}: {}", flow_value(value))]
        }
    }
}

/// A value on one line.
pub(super) fn flow_value(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) if is_plain(text) => text.clone(),
        Value::String(_) => quoted(value),
        Value::Array(items) => format!("[{}]", items.iter().map(flow_value).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let field = |(name, value): (&String, &Value)| {
                format!("{}: {}", flow_value(&Value::from(name.as_str())), flow_value(value))
            };
            format!("{{{}}}", map.iter().map(field).collect::<Vec<_>>().join(", "))
        }
    }
}

/// A text in quotes: what JSON quotes, YAML reads, but for characters that YAML wants to see as escapes.
fn quoted(text: &Value) -> String {
    let is_escaped =
        |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}');
    text.to_string().chars().fold(String::new(), |mut quoted, c| {
        if is_escaped(c) {
            quoted.push_str(&format!("\\u{:04x}", u32::from(c)))
        } else {
            quoted.push(c)
        }
        quoted
    })
}

/// Whether a text needs no quotes, wherever it stands: it reads as itself, and holds nothing that means something to YAML.
fn is_plain(text: &str) -> bool {
    let is_word =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '@' | '+' | '=' | ':' | '%');
    let starts = text.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-'));
    if !starts || text.ends_with(':') || matches!(text, "-" | "---" | "...") || !text.chars().all(is_word) {
        return false;
    }
    let read = parse_yaml(text.as_bytes(), 0, "").root;
    read.is_some_and(|read| matches!(&read.value, YamlValue::Text(own) if **own == *text))
}
