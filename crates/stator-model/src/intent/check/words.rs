//! Values and shapes in words.

use super::compile::{Id, Rest, Shape, Shapes};
use crate::intent::yaml::{Content, Node};

/// The longest piece of a user's text in a message, in characters.
const LONGEST: usize = 60;
/// How many words a message lists before it stops.
const MOST_WORDS: usize = 40;

/// A user's text, cut short and without control characters.
pub(super) fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    short
}

/// `a`, `b`, `c`.
pub(super) fn list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    match words.get(MOST_WORDS..) {
        Some([_, ..]) => format!("{}, …", words.get(..MOST_WORDS).unwrap_or_default().join(", ")),
        Some([]) | None => words.join(", "),
    }
}

/// What a value is, in words.
pub(super) fn found(node: &Node) -> String {
    match &node.value {
        Content::Refused => "unreadable".to_owned(),
        Content::Bool(flag) => format!("the boolean `{flag}`"),
        Content::Number(number) => format!("the number `{number}`"),
        Content::Text(text) if text.is_empty() => "an empty text".to_owned(),
        Content::Text(text) => format!("the text `{}`", shown(text)),
        Content::List(_) => "a list".to_owned(),
        Content::Map(_) => "a map".to_owned(),
    }
}

/// What a shape asks for, in words.
pub(super) fn expected(shapes: &Shapes, id: Id) -> String {
    match shapes.get(id) {
        Shape::Any => "any value".to_owned(),
        Shape::Map(shape) => match &shape.rest {
            // A short map is named by its fields: `{secret, key}`.
            Rest::None if shape.fields.len() <= 3 && !shape.fields.is_empty() => {
                let fields: Vec<&str> = match shape.required.as_slice() {
                    [] => shape.fields.keys().map(String::as_str).collect(),
                    required => required.iter().map(String::as_str).collect(),
                };
                format!("`{{{}}}`", fields.join(", "))
            }
            Rest::None | Rest::Any(_) | Rest::Form(..) => "a map".to_owned(),
        },
        Shape::List(item) => match shapes.get(*item) {
            Shape::Text(_) => "a list of texts".to_owned(),
            Shape::Map(_) => "a list of maps".to_owned(),
            Shape::Any
            | Shape::List(_)
            | Shape::Words(_)
            | Shape::Integer { .. }
            | Shape::Number { .. }
            | Shape::Bool
            | Shape::Choice(..) => "a list".to_owned(),
        },
        Shape::Text(shape) => shape.expected.clone().unwrap_or_else(|| "text".to_owned()),
        Shape::Words(words) => match words.as_slice() {
            [word] => format!("`{word}`"),
            words => format!("one of {}", list(words.iter().map(String::as_str))),
        },
        Shape::Integer { min, max } if *max >= i128::from(u32::MAX) => format!("a whole number from {min}"),
        Shape::Integer { min, max } => format!("a whole number from {min} to {max}"),
        Shape::Number { min, max } => match (min.is_finite(), max.is_finite()) {
            (true, true) => format!("a number from {min} to {max}"),
            (true, false) => format!("a number from {min}"),
            (false, true) => format!("a number up to {max}"),
            (false, false) => "a number".to_owned(),
        },
        Shape::Bool => "`true` or `false`".to_owned(),
        Shape::Choice(_, Some(words)) => words.clone(),
        Shape::Choice(options, None) => {
            options.iter().map(|id| expected(shapes, *id)).collect::<Vec<_>>().join(", or ")
        }
    }
}
