//! Values and shapes in words.

use crate::intent::schema_tree::{ExtraKeys, SchemaShape, SchemaTree, ShapeId};
use crate::intent::yaml::{YamlNode, YamlValue};
use stator_core::mask;

/// The longest piece of a user's text in a message, in characters.
const MAX_TEXT_LENGTH: usize = 60;
/// How many words a message lists before it stops.
const MAX_LISTED_WORDS: usize = 40;

/// A user's text, cut short and without control characters. Tokens are hidden before the cut: a part of one looks like none.
pub(super) fn truncate_text(text: &str) -> String {
    let text = &*mask::redact_tokens(text);
    let mut short: String = text.chars().take(MAX_TEXT_LENGTH).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(MAX_TEXT_LENGTH).is_some() {
        short.push('…');
    }
    short
}

/// `a`, `b`, `c`.
pub(super) fn join_quoted<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    match words.get(MAX_LISTED_WORDS..) {
        Some([_, ..]) => format!("{}, …", words.get(..MAX_LISTED_WORDS).unwrap_or_default().join(", ")),
        Some([]) | None => words.join(", "),
    }
}

/// `a`, `b` or `c`.
pub fn join_alternatives(words: &[String]) -> String {
    let quoted = |words: &[String]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    match words {
        [] => String::new(),
        [only] => quoted(std::slice::from_ref(only)),
        [first @ .., last] => format!("{} or `{last}`", quoted(first)),
    }
}

/// What a value is, in words.
pub(super) fn describe_value<P>(node: &YamlNode<P>) -> String {
    match &node.value {
        YamlValue::Invalid => "unreadable".to_owned(),
        YamlValue::Bool(flag) => format!("the boolean `{flag}`"),
        YamlValue::Number(number) => format!("the number `{number}`"),
        YamlValue::Text(text) if text.is_empty() => "an empty string".to_owned(),
        YamlValue::Text(text) => format!("the string `{}`", truncate_text(text)),
        YamlValue::List(_) => "a list".to_owned(),
        YamlValue::Map(_) => "a map".to_owned(),
    }
}

/// What a shape asks for, in words.
pub(super) fn describe_shape(shapes: &SchemaTree, id: ShapeId) -> String {
    match shapes.get(id) {
        SchemaShape::Any => "any value".to_owned(),
        SchemaShape::Map(shape) => match &shape.extra_keys {
            // A short map is named by its fields: `{secret, key}`.
            ExtraKeys::None if shape.fields.len() <= 3 && !shape.fields.is_empty() => {
                let fields: Vec<&str> = match shape.required.as_slice() {
                    [] => shape.fields.keys().map(String::as_str).collect(),
                    required => required.iter().map(String::as_str).collect(),
                };
                format!("`{{{}}}`", fields.join(", "))
            }
            ExtraKeys::None | ExtraKeys::Any(_) | ExtraKeys::Pattern(..) => "a map".to_owned(),
        },
        SchemaShape::List(item) => match shapes.get(*item) {
            SchemaShape::Text(_) => "a list of strings".to_owned(),
            SchemaShape::Map(_) => "a list of maps".to_owned(),
            SchemaShape::Any
            | SchemaShape::List(_)
            | SchemaShape::Enum(_)
            | SchemaShape::Integer { .. }
            | SchemaShape::Number { .. }
            | SchemaShape::Bool
            | SchemaShape::Choice(..) => "a list".to_owned(),
        },
        SchemaShape::Text(shape) => shape.expected.clone().unwrap_or_else(|| "text".to_owned()),
        SchemaShape::Enum(words) => match words.as_slice() {
            [word] => format!("`{}`", word.value),
            words => format!("one of {}", join_quoted(words.iter().map(|word| word.value.as_str()))),
        },
        SchemaShape::Integer { min, max } if *max >= i128::from(u32::MAX) => format!("a whole number from {min}"),
        SchemaShape::Integer { min, max } => format!("a whole number from {min} to {max}"),
        SchemaShape::Number { min, max } => match (min.is_finite(), max.is_finite()) {
            (true, true) => format!("a number from {min} to {max}"),
            (true, false) => format!("a number from {min}"),
            (false, true) => format!("a number up to {max}"),
            (false, false) => "a number".to_owned(),
        },
        SchemaShape::Bool => "`true` or `false`".to_owned(),
        SchemaShape::Choice(_, Some(words)) => words.clone(),
        SchemaShape::Choice(options, None) => {
            options.iter().map(|id| describe_shape(shapes, *id)).collect::<Vec<_>>().join(", or ")
        }
    }
}
