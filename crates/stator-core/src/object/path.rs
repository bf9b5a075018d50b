//! Paths into an object, printed as people and `plan -o json` read them.

use serde::{Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// One step of a path, as server-side apply knows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PathSegment {
    /// A field of a map: `.replicas`.
    Field(String),
    /// An item of a list-map, by its keys: `[name=decode]`. Values are JSON text of the key.
    Key(BTreeMap<String, KeyValue>),
    /// An item of a set, by its value: `[=a]`.
    Item(KeyValue),
    /// An item of any other list, by its position: `[0]`.
    Index(usize),
}

/// A scalar that identifies a list item, comparable and ordered by its JSON text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyValue(String);

impl KeyValue {
    /// Takes any JSON scalar.
    pub fn new(value: &Value) -> Self {
        Self(value.to_string())
    }

    /// The scalar again.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or(Value::Null)
    }
}

impl fmt::Display for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value() {
            Value::String(text) => f.write_str(&text),
            other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                write!(f, "{other}")
            }
        }
    }
}

/// A path into an object: `spec.components[name=decode].replicas`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath(pub Vec<PathSegment>);

impl FieldPath {
    /// The empty path: the object itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// A path of plain fields.
    pub fn from_fields<S: Into<String>>(fields: impl IntoIterator<Item = S>) -> Self {
        Self(fields.into_iter().map(|field| PathSegment::Field(field.into())).collect())
    }

    /// This path with one more step.
    #[must_use]
    pub fn join(&self, segment: PathSegment) -> Self {
        let mut steps = self.0.clone();
        steps.push(segment);
        Self(steps)
    }

    /// This path with one more field.
    #[must_use]
    pub fn field(&self, name: impl Into<String>) -> Self {
        self.join(PathSegment::Field(name.into()))
    }

    /// True when `self` is `other` or lies below it.
    pub fn starts_with(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// The name of the last step, when that is a field.
    pub fn last_field(&self) -> Option<&str> {
        match self.0.last() {
            Some(PathSegment::Field(name)) => Some(name),
            Some(PathSegment::Key(_) | PathSegment::Item(_) | PathSegment::Index(_)) | None => None,
        }
    }
}

/// A text that is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a path: write names after dots, items by key as `[name=main]`, names with dots as `[\"a.b/c\"]`")]
pub struct ParseFieldPathError;

impl std::str::FromStr for FieldPath {
    type Err = ParseFieldPathError;

    /// Reads what [`fmt::Display`] prints. The value of a key is text unless it is a number.
    fn from_str(text: &str) -> Result<Self, ParseFieldPathError> {
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(inside) = rest.strip_prefix('[') {
                let (step, tail) = parse_bracket(inside).ok_or(ParseFieldPathError)?;
                steps.push(step);
                rest = tail;
                continue;
            }
            // The first name has no dot before it.
            let name = if steps.is_empty() { rest } else { rest.strip_prefix('.').ok_or(ParseFieldPathError)? };
            let (name, tail) = name.split_at(name.find(['.', '[']).unwrap_or(name.len()));
            if name.is_empty() || name.contains([']', '"']) {
                return Err(ParseFieldPathError);
            }
            steps.push(PathSegment::Field(name.to_owned()));
            rest = tail;
        }
        if steps.is_empty() { Err(ParseFieldPathError) } else { Ok(Self(steps)) }
    }
}

/// What stands between brackets, and what comes after them.
fn parse_bracket(inside: &str) -> Option<(PathSegment, &str)> {
    if inside.starts_with('"') {
        let mut values = serde_json::Deserializer::from_str(inside).into_iter::<String>();
        let name = values.next()?.ok()?;
        let tail = inside.get(values.byte_offset()..)?.strip_prefix(']')?;
        return Some((PathSegment::Field(name), tail));
    }
    let (content, tail) = inside.split_once(']')?;
    if let Ok(index) = content.parse::<usize>() {
        return Some((PathSegment::Index(index), tail));
    }
    let value = |text: &str| match text.parse::<i64>() {
        Ok(number) => KeyValue::new(&Value::from(number)),
        Err(_) => KeyValue::new(&Value::from(text)),
    };
    if let Some(item) = content.strip_prefix('=') {
        return Some((PathSegment::Item(value(item)), tail));
    }
    let mut keys = BTreeMap::new();
    for pair in content.split(',') {
        let (name, text) = pair.split_once('=')?;
        keys.insert(name.to_owned(), value(text));
    }
    Some((PathSegment::Key(keys), tail))
}

impl FieldPath {
    /// Removes the field or item from a value; false when it is not there. A list item is found by its key.
    pub fn remove_from(&self, value: &mut Value) -> bool {
        let Some((last, before)) = self.0.split_last() else { return false };
        let mut place = value;
        for step in before {
            let Some(below) = step.resolve_mut(place) else { return false };
            place = below;
        }
        match (last, place) {
            (PathSegment::Field(name), Value::Object(map)) => map.remove(name).is_some(),
            (PathSegment::Key(_) | PathSegment::Item(_) | PathSegment::Index(_), Value::Array(items)) => {
                let found = items.iter().enumerate().position(|(index, item)| last.matches_item(index, item));
                found.map(|index| items.remove(index)).is_some()
            }
            (_, _) => false,
        }
    }
}

impl PathSegment {
    /// Whether an item of a list is meant.
    fn matches_item(&self, position: usize, item: &Value) -> bool {
        match self {
            // Texts that look like numbers are numbers in a path: compare as printed.
            Self::Key(keys) => keys.iter().all(|(name, wanted)| {
                item.get(name).is_some_and(|found| KeyValue::new(found).to_string() == wanted.to_string())
            }),
            Self::Item(wanted) => KeyValue::new(item).to_string() == wanted.to_string(),
            Self::Index(index) => *index == position,
            Self::Field(_) => false,
        }
    }

    fn resolve_mut<'a>(&self, value: &'a mut Value) -> Option<&'a mut Value> {
        match (self, value) {
            (Self::Field(name), Value::Object(map)) => map.get_mut(name),
            (Self::Key(_) | Self::Item(_) | Self::Index(_), Value::Array(items)) => {
                let mut items = items.iter_mut().enumerate();
                items.find(|(index, item)| self.matches_item(*index, item)).map(|(_, item)| item)
            }
            (_, _) => None,
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                // A name with a dot or bracket is quoted, so that the path stays unambiguous.
                PathSegment::Field(name) if name.contains(['.', '[', ']', '"']) => {
                    write!(f, "[{}]", Value::String(name.clone()))?;
                }
                PathSegment::Field(name) if position == 0 => f.write_str(name)?,
                PathSegment::Field(name) => write!(f, ".{name}")?,
                PathSegment::Key(keys) => {
                    let text: Vec<String> = keys.iter().map(|(k, v)| format!("{k}={v}")).collect();
                    write!(f, "[{}]", text.join(","))?;
                }
                PathSegment::Item(value) => write!(f, "[={value}]")?,
                PathSegment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

impl Serialize for FieldPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
