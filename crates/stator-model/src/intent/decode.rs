//! Nodes → Rust types, through serde, keeping the place of whatever serde refuses.

use super::rules;
use super::yaml::{YamlEntry, YamlNode, YamlSpan, YamlValue};
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use stator_core::finding::{Finding, Location};
use std::fmt;

/// What serde refused, and where, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodeError {
    /// Serde's message.
    pub message: String,
    /// The innermost value that was being read.
    pub span: Option<YamlSpan>,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DecodeError {}

impl serde::de::Error for DecodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { message: message.to_string(), span: None }
    }
}

/// Decodes a node. Its depth is bounded by the reader, so the recursion is too.
pub fn decode<'de, T: Deserialize<'de>>(node: &'de YamlNode) -> Result<T, DecodeError> {
    T::deserialize(node).map_err(|error| with_span(error, node.span))
}

/// The finding of what serde refused, at its place.
pub(super) fn decode_finding(location: Location, message: &str) -> Finding {
    Finding::error(
        rules::SCHEMA_REFUSED,
        location,
        message.to_owned(),
        "Compare the field with `stator explain`, and correct it.",
    )
}

fn with_span(mut error: DecodeError, span: YamlSpan) -> DecodeError {
    error.span.get_or_insert(span);
    error
}

impl<'de> Deserializer<'de> for &'de YamlNode {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.value {
            YamlValue::Invalid => visitor.visit_unit(),
            YamlValue::Bool(flag) => visitor.visit_bool(*flag),
            YamlValue::Number(number) => {
                if let Some(number) = number.as_u64() {
                    visitor.visit_u64(number)
                } else if let Some(number) = number.as_i64() {
                    visitor.visit_i64(number)
                } else {
                    visitor.visit_f64(number.as_f64().unwrap_or_default())
                }
            }
            YamlValue::Text(text) => visitor.visit_borrowed_str(text),
            YamlValue::List(items) => visitor.visit_seq(NodeSeqAccess { rest: items.iter() }),
            YamlValue::Map(entries) => visitor.visit_map(NodeMapAccess { rest: entries.iter(), value: None }),
        }
        .map_err(|error| with_span(error, self.span))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match self.as_str() {
            Some(word) => visitor.visit_enum(word.into_deserializer()).map_err(|error| with_span(error, self.span)),
            None => Err(with_span(DecodeError::custom("expected a word"), self.span)),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct NodeSeqAccess<'de> {
    rest: std::slice::Iter<'de, YamlNode>,
}

impl<'de> SeqAccess<'de> for NodeSeqAccess<'de> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, DecodeError> {
        let Some(item) = self.rest.next() else { return Ok(None) };
        seed.deserialize(item).map(Some).map_err(|error| with_span(error, item.span))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

struct NodeMapAccess<'de> {
    rest: std::slice::Iter<'de, YamlEntry>,
    value: Option<&'de YamlNode>,
}

impl<'de> MapAccess<'de> for NodeMapAccess<'de> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        let Some(entry) = self.rest.next() else { return Ok(None) };
        self.value = Some(&entry.value);
        let key = BorrowedStrDeserializer::<DecodeError>::new(&entry.key);
        seed.deserialize(key).map(Some).map_err(|error| with_span(error, entry.key_span))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeError> {
        let node = self.value.take().ok_or_else(|| DecodeError::custom("a value was asked for before its key"))?;
        seed.deserialize(node).map_err(|error| with_span(error, node.span))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}
