//! Objects and values as JSON text.

use super::{Object, ObjectRef};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An object as JSON text, with what it is found by. A tree takes more than ten times as much memory, so what is kept by the
/// thousand is kept like this, and is parsed when it is looked into.
///
/// Clones share everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectText(Arc<IndexedText>);

#[derive(Debug, PartialEq, Eq)]
struct IndexedText {
    reference: ObjectRef,
    uid: Option<Box<str>>,
    resource_version: Option<Box<str>>,
    labels: LabelText,
    text: CompressedText,
}

/// Labels sorted by key, in one text: two allocations of each label would take most of an object's memory.
#[derive(Debug, PartialEq, Eq)]
struct LabelText {
    /// Keys and values, each key before its value.
    words: Box<str>,
    /// Where each of them ends.
    ends: Box<[u32]>,
}

impl LabelText {
    fn of<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let (mut words, mut ends) = (String::new(), Vec::new());
        for word in labels.flat_map(|(key, value)| [key, value]) {
            words.push_str(word);
            // The text of an object has a bound far below this.
            ends.push(u32::try_from(words.len()).unwrap_or(u32::MAX));
        }
        Self { words: words.into(), ends: ends.into() }
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let word = |at: usize| {
            let end = |at: usize| self.ends.get(at).copied().unwrap_or_default() as usize;
            self.words.get(at.checked_sub(1).map_or(0, end)..end(at)).unwrap_or_default()
        };
        (0..self.ends.len()).step_by(2).map(move |at| (word(at), word(at + 1)))
    }
}

/// A text, compressed: the JSON of an object repeats its own words. Clones share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressedText(Arc<[u8]>);

impl CompressedText {
    /// Takes a text.
    pub fn of(text: &str) -> Self {
        Self(lz4_flex::block::compress_prepend_size(text.as_bytes()).into())
    }

    /// The text again.
    pub fn to_text(&self) -> String {
        let bytes = lz4_flex::block::decompress_size_prepended(&self.0).ok();
        // What is here was made of a text.
        bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

/// What an object is found by.
#[derive(Deserialize)]
struct ObjectHead<'a> {
    #[serde(rename = "apiVersion", borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    metadata: MetadataHead<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetadataHead<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(default)]
    uid: Value,
    #[serde(default)]
    resource_version: Value,
    #[serde(default)]
    labels: Value,
}

impl ObjectText {
    /// Takes the text of an object, reading only what finds it. `None` for a text that is none.
    pub fn from_text(text: CompressedText) -> Option<Self> {
        let json = text.to_text();
        let head: ObjectHead<'_> = serde_json::from_str(&json).ok()?;
        let metadata = head.metadata;
        if [&head.api_version, &head.kind, &metadata.name, &metadata.namespace].into_iter().any(|one| one.is_empty()) {
            return None;
        }
        let labels = metadata.labels.as_object().into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
        let indexed = IndexedText {
            reference: ObjectRef {
                api_version: head.api_version.into_owned(),
                kind: head.kind.into_owned(),
                namespace: metadata.namespace.into_owned(),
                name: metadata.name.into_owned(),
            },
            uid: metadata.uid.as_str().map(Into::into),
            resource_version: metadata.resource_version.as_str().map(Into::into),
            labels: LabelText::of(labels),
            text,
        };
        Some(Self(Arc::new(indexed)))
    }

    /// The object itself.
    pub fn parse(&self) -> Object {
        let value: Option<Value> = serde_json::from_str(&self.to_json()).ok();
        let parsed = value.and_then(|value| Object::from_value(value).ok());
        // Every text here was an object's before, so that this is its name at least.
        parsed.unwrap_or_else(|| Object(bare_object(&self.0.reference)))
    }

    /// The text.
    pub fn to_json(&self) -> String {
        self.0.text.to_text()
    }

    /// The object's name in a cluster.
    pub fn reference(&self) -> &ObjectRef {
        &self.0.reference
    }

    /// `kind`.
    pub fn kind(&self) -> &str {
        &self.0.reference.kind
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        &self.0.reference.name
    }

    /// `metadata.uid`, which a cluster gives on create.
    pub fn uid(&self) -> Option<&str> {
        self.0.uid.as_deref()
    }

    /// `metadata.resourceVersion`, opaque, changed by every write.
    pub fn resource_version(&self) -> Option<&str> {
        self.0.resource_version.as_deref()
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.0.labels.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// Whether it carries all these labels with these values, as the selector of a list asks.
    pub fn has_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.iter().all(|(label, value)| self.label(label) == Some(value))
    }

    /// `metadata.labels`.
    pub fn labels(&self) -> BTreeMap<&str, &str> {
        self.0.labels.iter().collect()
    }
}

impl From<&Object> for ObjectText {
    fn from(object: &Object) -> Self {
        let labels = object.labels().into_iter();
        Self(Arc::new(IndexedText {
            reference: object.reference(),
            uid: object.uid().map(Into::into),
            resource_version: object.resource_version().map(Into::into),
            labels: LabelText::of(labels),
            text: CompressedText::of(&object.value().to_string()),
        }))
    }
}

impl From<Object> for ObjectText {
    fn from(object: Object) -> Self {
        Self::from(&object)
    }
}

/// A JSON value as text, for what is kept by the thousand and seldom looked into. Maps are sorted by key, so equal values
/// have equal texts. Clones share the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonText(CompressedText);

impl JsonText {
    /// The value itself.
    pub fn parse(&self) -> Value {
        // Every text here was a value's before.
        serde_json::from_str(&self.to_text()).unwrap_or_default()
    }

    /// The text.
    pub fn to_text(&self) -> String {
        self.0.to_text()
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        *self == Self::default()
    }
}

/// Of an object; the text is shared.
impl From<&ObjectText> for JsonText {
    fn from(object: &ObjectText) -> Self {
        Self(object.0.text.clone())
    }
}

impl From<&Value> for JsonText {
    fn from(value: &Value) -> Self {
        Self(CompressedText::of(&value.to_string()))
    }
}

impl From<Value> for JsonText {
    fn from(value: Value) -> Self {
        Self::from(&value)
    }
}

impl Default for JsonText {
    fn default() -> Self {
        Self::from(Value::Null)
    }
}

/// As the value.
impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.parse().serialize(serializer)
    }
}

fn bare_object(reference: &ObjectRef) -> Value {
    let ObjectRef { api_version, kind, namespace, name } = reference;
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace, "name": name}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn leaf() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e9..1e9_f64).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ]
    }

    fn json_value() -> impl Strategy<Value = Value> {
        leaf().prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// What goes in comes out, and what it is found by is the same whether it was read of the object or of its text.
        #[test]
        fn an_object_survives_as_text(
            spec in json_value(),
            labels in prop::collection::btree_map(any::<String>(), leaf(), 0..4),
            name in ".+",
            uid in prop::option::of(leaf()),
        ) {
            let mut metadata = json!({"name": name, "namespace": "prod", "resourceVersion": "7", "labels": labels});
            if let Some(uid) = &uid {
                metadata["uid"] = json!(uid);
            }
            let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "spec": spec});
            let object = Object::from_value(value).unwrap();
            let text = ObjectText::from(&object);
            prop_assert_eq!(ObjectText::from_text(CompressedText::of(&text.to_json())), Some(text.clone()));
            prop_assert_eq!(text.parse(), object.clone());
            prop_assert_eq!(text.reference(), &object.reference());
            prop_assert_eq!(text.uid(), object.uid());
            prop_assert_eq!(text.resource_version(), object.resource_version());
            prop_assert_eq!(text.labels(), object.labels());
            for (key, value) in &labels {
                prop_assert_eq!(text.label(key), value.as_str());
            }
            prop_assert_eq!(text.label("none of these"), None);
        }
    }

    proptest! {
        #[test]
        fn a_value_survives_as_text(value in json_value()) {
            let text = JsonText::from(&value);
            prop_assert_eq!(text.parse(), value.clone());
            prop_assert_eq!(text.is_null(), value.is_null());
            prop_assert_eq!(serde_json::to_value(&text).unwrap(), value);
        }
    }

    #[test]
    fn a_text_that_is_no_object_is_none() {
        for text in ["", "null", "{}", r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#] {
            assert_eq!(ObjectText::from_text(CompressedText::of(text)), None, "{text}");
        }
    }
}
