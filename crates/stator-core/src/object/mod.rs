//! A Kubernetes object as data: its reference, its JSON, and paths into it.
//!
//! Every module may use this one; it knows nothing of Dynamo, of clusters or of intents.

mod path;
mod quantity;
mod text;

pub use path::{FieldPath, KeyValue, ParseFieldPathError, PathSegment};
pub use quantity::Quantity;
pub use text::{CompressedText, JsonText, ObjectText};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;

/// Names one object in a cluster. Ordered by namespace, kind, name, so that every list sorts alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// `group/version`, or `v1` for the core group.
    pub api_version: String,
    /// The kind, in its singular CamelCase form.
    pub kind: String,
    /// The namespace; every kind that stator handles is namespaced.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl ObjectRef {
    /// The API group, empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// The same object under any version of its group: what identifies it in a cluster.
    pub fn identity(&self) -> ObjectIdentity {
        ObjectIdentity {
            namespace: self.namespace.clone(),
            group: self.group().to_owned(),
            kind: self.kind.clone(),
            name: self.name.clone(),
        }
    }
}

impl Ord for ObjectRef {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (&self.namespace, &self.kind, &self.name, &self.api_version).cmp(&(
            &other.namespace,
            &other.kind,
            &other.name,
            &other.api_version,
        ))
    }
}

impl PartialOrd for ObjectRef {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ObjectRef {
    /// `DynamoGraphDeployment prod/llama`: what a person reads in a message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// What makes an object the same object whatever version it is read at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectIdentity {
    /// The namespace.
    pub namespace: String,
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
}

/// Why a JSON value is not a Kubernetes object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedObjectError {
    /// The value is not a map.
    #[error("an object must be a map, found {0}")]
    NotAMap(&'static str),
    /// A field that every object has is missing, or is not a non-empty string.
    #[error("`{0}` is missing or is not a non-empty string")]
    Missing(&'static str),
}

/// A Kubernetes object: a map with `apiVersion`, `kind`, `metadata.name` and `metadata.namespace`.
///
/// The constructor is the only way in, so those four are always there.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Object(Value);

impl Object {
    /// Takes a JSON value, checking the four fields that identify an object.
    pub fn from_value(value: Value) -> Result<Self, MalformedObjectError> {
        if !value.is_object() {
            return Err(MalformedObjectError::NotAMap(json_type(&value)));
        }
        for (pointer, name) in [
            ("/apiVersion", "apiVersion"),
            ("/kind", "kind"),
            ("/metadata/name", "metadata.name"),
            ("/metadata/namespace", "metadata.namespace"),
        ] {
            match value.pointer(pointer).and_then(Value::as_str) {
                Some(text) if !text.is_empty() => {}
                Some(_) | None => return Err(MalformedObjectError::Missing(name)),
            }
        }
        Ok(Self(value))
    }

    /// The object's name in a cluster.
    pub fn reference(&self) -> ObjectRef {
        let text = |pointer: &str| self.str_at(pointer).unwrap_or_default().to_owned();
        ObjectRef {
            api_version: text("/apiVersion"),
            kind: text("/kind"),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
        }
    }

    /// The whole object as JSON.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// The whole object as JSON, by value.
    pub fn into_value(self) -> Value {
        self.0
    }

    /// Replaces the JSON, keeping the guarantee of [`Object::from_value`].
    pub fn map(self, change: impl FnOnce(Value) -> Value) -> Result<Self, MalformedObjectError> {
        Self::from_value(change(self.0))
    }

    /// The object with a uid, without which it may be any object of its name; as it is when there is none to give.
    #[must_use]
    pub fn with_uid(mut self, uid: Option<&str>) -> Self {
        let metadata = self.0.get_mut("metadata").and_then(Value::as_object_mut);
        if let (Some(uid), Some(metadata)) = (uid, metadata) {
            metadata.insert("uid".to_owned(), uid.into());
        }
        self
    }

    /// The same object with a resource version, as a precondition of its write.
    #[must_use]
    pub fn with_resource_version(mut self, version: &str) -> Self {
        if let Some(metadata) = self.0.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), version.into());
        }
        self
    }

    /// A string at a JSON pointer (`/metadata/uid`).
    pub fn str_at(&self, pointer: &str) -> Option<&str> {
        self.0.pointer(pointer).and_then(Value::as_str)
    }

    /// `kind`.
    pub fn kind(&self) -> &str {
        self.str_at("/kind").unwrap_or_default()
    }

    /// `apiVersion`.
    pub fn api_version(&self) -> &str {
        self.str_at("/apiVersion").unwrap_or_default()
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.str_at("/metadata/name").unwrap_or_default()
    }

    /// `metadata.namespace`.
    pub fn namespace(&self) -> &str {
        self.str_at("/metadata/namespace").unwrap_or_default()
    }

    /// `metadata.uid`, which a cluster gives on create.
    pub fn uid(&self) -> Option<&str> {
        self.str_at("/metadata/uid")
    }

    /// `metadata.resourceVersion`, opaque, changed by every write.
    pub fn resource_version(&self) -> Option<&str> {
        self.str_at("/metadata/resourceVersion")
    }

    /// [`Object::resource_version`] as a number: see [`parse_resource_version`].
    pub fn version_number(&self) -> Option<u64> {
        self.resource_version().and_then(parse_resource_version)
    }

    /// `metadata.generation`, raised by every change outside metadata and status.
    pub fn generation(&self) -> Option<i64> {
        self.0.pointer("/metadata/generation").and_then(Value::as_i64)
    }

    /// True while the object waits for its finalizers.
    pub fn is_deleting(&self) -> bool {
        self.str_at("/metadata/deletionTimestamp").is_some()
    }

    /// `metadata.finalizers`.
    pub fn finalizers(&self) -> Vec<&str> {
        self.0
            .pointer("/metadata/finalizers")
            .and_then(Value::as_array)
            .map(|list| list.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default()
    }

    /// `metadata.labels`.
    pub fn labels(&self) -> BTreeMap<&str, &str> {
        self.string_map("/metadata/labels")
    }

    /// Whether it carries all these labels with these values, as the selector of a list asks.
    pub fn has_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        let own = self.labels();
        labels.iter().all(|(label, value)| own.get(label.as_str()) == Some(&value.as_str()))
    }

    /// `metadata.annotations`.
    pub fn annotations(&self) -> BTreeMap<&str, &str> {
        self.string_map("/metadata/annotations")
    }

    fn string_map(&self, pointer: &str) -> BTreeMap<&str, &str> {
        self.0
            .pointer(pointer)
            .and_then(Value::as_object)
            .map(|map| map.iter().filter_map(|(k, v)| v.as_str().map(|v| (k.as_str(), v))).collect())
            .unwrap_or_default()
    }

    /// `spec`, `Null` when absent.
    pub fn spec(&self) -> &Value {
        self.0.get("spec").unwrap_or(&Value::Null)
    }

    /// `status`, `Null` when absent.
    pub fn status(&self) -> &Value {
        self.0.get("status").unwrap_or(&Value::Null)
    }

    /// The top-level map.
    pub fn fields(&self) -> &Map<String, Value> {
        static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        self.0.as_object().unwrap_or(&EMPTY)
    }
}

/// The JSON type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonValueKind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number.
    Number,
    /// Text.
    String,
    /// A list.
    List,
    /// A map.
    Map,
}

impl JsonValueKind {
    /// The type of this value.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::List,
            Value::Object(_) => Self::Map,
        }
    }

    /// The words a message uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::List => "a list",
            Self::Map => "a map",
        }
    }
}

/// The JSON type of a value, in the words a message uses.
pub fn json_type(value: &Value) -> &'static str {
    JsonValueKind::of(value).as_str()
}

/// A resource version as a number that grows with every write. Kubernetes 1.35 says that it is one, and servers before it
/// give one as well (KEP-5504). `None` where a server does otherwise: then two versions can only be compared for
/// equality.
pub fn parse_resource_version(text: &str) -> Option<u64> {
    text.parse().ok()
}
