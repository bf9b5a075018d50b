//! YAML bytes → a tree of nodes that know their place, with a finding for everything that strict YAML refuses.
//!
//! What is refused, and why: aliases and merge keys (a file must read as it stands, and they make bombs), duplicate
//! keys (parsers disagree on which one counts), tags, several documents, `null` (it would be neither set nor unset
//! under merging), and anything too big to be written by hand.

mod parser;
mod plain_scalar;

pub use parser::{ParsedDocuments, ParsedYaml, parse_yaml, parse_yaml_documents};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Number, Value};
use stator_core::finding::Location;

/// The most bytes in one file.
pub const MAX_BYTES: usize = 1024 * 1024;
/// The most nodes (scalars, lists, maps) in one file.
pub const MAX_NODES: usize = 100_000;
/// How deep lists and maps may be nested.
pub const MAX_DEPTH: usize = 64;

/// Which file of the source tree: an index into its sorted files.
pub type FileId = u32;

/// Where something was written. Small, because every node of every model carries one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct YamlSpan {
    /// The file.
    pub file: FileId,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// How many characters are meant, at least 1.
    pub length: u32,
}

impl YamlSpan {
    /// The same place, with the file's name.
    pub fn location(self, file: &str) -> Location {
        Location { file: file.to_owned(), line: self.line, column: self.column, length: self.length }
    }
}

/// A value and its place: where it was written, or for what was never text, a place of the reader's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct YamlNode<P = YamlSpan> {
    /// The value.
    pub value: YamlValue<P>,
    /// Its place. A block map or list starts at its first key or item.
    pub span: P,
}

/// A YAML value, by the core schema of YAML 1.2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum YamlValue<P = YamlSpan> {
    /// Something that was refused: its finding exists already, and nothing more is to be said of it.
    Invalid,
    /// `true` or `false`.
    Bool(bool),
    /// An integer of 64 bits or a finite float.
    Number(#[serde(serialize_with = "write_number", deserialize_with = "read_number")] Number),
    /// Text.
    Text(Box<str>),
    /// A list.
    List(Vec<YamlNode<P>>),
    /// A map, in the order written, without duplicate keys.
    Map(Vec<YamlEntry<P>>),
}

/// A key of a map and its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct YamlEntry<P = YamlSpan> {
    /// The key.
    pub key: Box<str>,
    /// Where the key stands.
    pub key_span: P,
    /// The value.
    pub value: YamlNode<P>,
}

impl<P: Copy> YamlEntry<P> {
    /// The place to show for this field: the value if it is a scalar, else the key.
    pub fn place(&self) -> P {
        match self.value.value {
            YamlValue::List(_) | YamlValue::Map(_) => self.key_span,
            YamlValue::Invalid | YamlValue::Bool(_) | YamlValue::Number(_) | YamlValue::Text(_) => self.value.span,
        }
    }
}

impl<P> YamlNode<P> {
    /// The entries of a map, none for anything else.
    pub fn entries(&self) -> &[YamlEntry<P>] {
        if let YamlValue::Map(entries) = &self.value { entries } else { &[] }
    }

    /// The items of a list, none for anything else.
    pub fn items(&self) -> &[Self] {
        if let YamlValue::List(items) = &self.value { items } else { &[] }
    }

    /// The items of a list that may not be there.
    pub fn items_of(node: Option<&Self>) -> &[Self] {
        node.map_or(&[], Self::items)
    }

    /// The entry of a map with this key.
    pub fn entry(&self, key: &str) -> Option<&YamlEntry<P>> {
        self.entries().iter().find(|entry| &*entry.key == key)
    }

    /// The value under a key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        if let YamlValue::Text(text) = &self.value { Some(text) } else { None }
    }

    /// The same value as JSON; what was refused becomes `null`.
    pub fn to_json(&self) -> Value {
        match &self.value {
            YamlValue::Invalid => Value::Null,
            YamlValue::Bool(flag) => Value::Bool(*flag),
            YamlValue::Number(number) => Value::Number(number.clone()),
            YamlValue::Text(text) => Value::String(text.to_string()),
            YamlValue::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            YamlValue::Map(entries) => Value::Object(
                entries.iter().map(|entry| (entry.key.to_string(), entry.value.to_json())).collect::<Map<_, _>>(),
            ),
        }
    }
}

/// A node as bytes: about a fifth of its memory, for the documents of a whole repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedNode(Box<[u8]>);

impl PackedNode {
    /// Packs a node.
    pub fn of(node: &YamlNode) -> Self {
        // Writing to memory fails for types that do not say their length, of which a node has none.
        Self(postcard::to_allocvec(node).unwrap_or_default().into())
    }

    /// How many bytes it takes.
    pub fn byte_count(&self) -> usize {
        self.0.len()
    }

    /// The node again.
    pub fn unpack(&self) -> YamlNode {
        // What is here was made of a node.
        postcard::from_bytes(&self.0).unwrap_or(YamlNode { value: YamlValue::Invalid, span: YamlSpan::default() })
    }
}

/// A number as the three that JSON has: its own form is for formats that describe themselves.
#[derive(Serialize, Deserialize)]
enum NumberForm {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
}

fn write_number<S: Serializer>(number: &Number, serializer: S) -> Result<S::Ok, S::Error> {
    let form = match (number.as_u64(), number.as_i64()) {
        (Some(number), _) => NumberForm::Unsigned(number),
        (None, Some(number)) => NumberForm::Signed(number),
        (None, None) => NumberForm::Float(number.as_f64().unwrap_or_default()),
    };
    form.serialize(serializer)
}

fn read_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Number, D::Error> {
    Ok(match NumberForm::deserialize(deserializer)? {
        NumberForm::Unsigned(number) => number.into(),
        NumberForm::Signed(number) => number.into(),
        NumberForm::Float(number) => Number::from_f64(number).unwrap_or_else(|| 0.into()),
    })
}

#[cfg(test)]
mod tests;
