//! Paths into an object, printed as people and `plan -o json` read them.

use serde::{Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// One step of a path, as server-side apply knows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Segment {
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
pub struct FieldPath(pub Vec<Segment>);

impl FieldPath {
    /// The empty path: the object itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// A path of plain fields.
    pub fn of<S: Into<String>>(fields: impl IntoIterator<Item = S>) -> Self {
        Self(fields.into_iter().map(|field| Segment::Field(field.into())).collect())
    }

    /// This path with one more step.
    #[must_use]
    pub fn join(&self, segment: Segment) -> Self {
        let mut steps = self.0.clone();
        steps.push(segment);
        Self(steps)
    }

    /// This path with one more field.
    #[must_use]
    pub fn field(&self, name: impl Into<String>) -> Self {
        self.join(Segment::Field(name.into()))
    }

    /// True when `self` is `other` or lies below it.
    pub fn starts_with(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// The name of the last step, when that is a field.
    pub fn last_field(&self) -> Option<&str> {
        match self.0.last() {
            Some(Segment::Field(name)) => Some(name),
            Some(Segment::Key(_) | Segment::Item(_) | Segment::Index(_)) | None => None,
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                // A name with a dot or bracket is quoted, so that the path stays unambiguous.
                Segment::Field(name) if name.contains(['.', '[', ']', '"']) => {
                    write!(f, "[{}]", Value::String(name.clone()))?;
                }
                Segment::Field(name) if position == 0 => f.write_str(name)?,
                Segment::Field(name) => write!(f, ".{name}")?,
                Segment::Key(keys) => {
                    let text: Vec<String> = keys.iter().map(|(k, v)| format!("{k}={v}")).collect();
                    write!(f, "[{}]", text.join(","))?;
                }
                Segment::Item(value) => write!(f, "[={value}]")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
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
