//! `fieldsV1` as text. As a tree it is the larger half of an object: each of its many small maps takes several hundred bytes,
//! and of most objects nobody ever asks who owns what. What an API server answers keeps it as the JSON text that was sent.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;

/// The `fieldsV1` of an entry of `metadata.managedFields`, whether it is there as a map or as text. Text that is not JSON
/// reads as null, which no reader takes for a set of fields.
pub fn fields_v1(entry: &Value) -> Option<Cow<'_, Value>> {
    Some(match entry.get("fieldsV1")? {
        Value::String(text) => Cow::Owned(serde_json::from_str(text).unwrap_or_default()),
        fields @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Cow::Borrowed(fields)
        }
    })
}

/// An object read from JSON with each `fieldsV1` as text; for what comes from an API server, and is kept by the thousand.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PackedObject(pub Value);

impl<'de> Deserialize<'de> for PackedObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Level::Object.deserialize(deserializer).map(Self)
    }
}

/// How deep on the way to a `fieldsV1`.
#[derive(Clone, Copy)]
enum Level {
    Object,
    Metadata,
    ManagedFields,
    Entry,
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = match (self, key.as_str()) {
                (Self::Object, "metadata") => map.next_value_seed(Self::Metadata)?,
                (Self::Metadata, "managedFields") => map.next_value_seed(Self::ManagedFields)?,
                (Self::Entry, "fieldsV1") => {
                    let text: Box<str> = map.next_value::<Box<RawValue>>()?.into();
                    Value::String(text.into())
                }
                (Self::Object | Self::Metadata | Self::ManagedFields | Self::Entry, _) => map.next_value()?,
            };
            read.insert(key, value);
        }
        Ok(Value::Object(read))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        loop {
            let item = match self {
                Self::ManagedFields => items.next_element_seed(Self::Entry)?,
                Self::Object | Self::Metadata | Self::Entry => items.next_element()?,
            };
            let Some(item) = item else { return Ok(Value::Array(read)) };
            read.push(item);
        }
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::managers;
    use crate::object::Object;
    use proptest::prelude::*;
    use serde_json::json;

    fn unpacked(mut value: Value) -> Value {
        let entries = value.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten() {
            if let Some(fields) = fields_v1(entry).map(Cow::into_owned) {
                entry["fieldsV1"] = fields;
            }
        }
        value
    }

    #[test]
    fn owners_are_the_same_whether_their_fields_are_a_map_or_text() {
        let whole = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "chat", "namespace": "models", "uid": "u-1", "managedFields": [
                {"manager": "stator", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:data": {".": {}, "f:engine": {}}}},
                {"manager": "kubectl", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                    "fieldsV1": null}]},
            "data": {"engine": "tp: 1", "fieldsV1": "kept"}});
        let PackedObject(packed) = serde_json::from_str(&whole.to_string()).unwrap();
        assert_eq!(
            packed.pointer("/metadata/managedFields/0/fieldsV1"),
            Some(&json!(r#"{"f:data":{".":{},"f:engine":{}}}"#))
        );
        let (whole, packed) = (Object::from_value(whole).unwrap(), Object::from_value(packed).unwrap());
        assert_eq!(managers(&packed).unwrap(), managers(&whole).unwrap());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let key = prop::sample::select(vec!["metadata", "managedFields", "fieldsV1", "manager", "f:spec", "."]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i32>().prop_map(|number| Value::from(f64::from(number) / 4.0)),
        ];
        leaf.prop_recursive(6, 64, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_is_packed_is_unpacked_as_it_was(value in any_json()) {
            let PackedObject(packed) = serde_json::from_str(&value.to_string()).unwrap();
            prop_assert_eq!(unpacked(packed), value);
        }
    }
}
