//! Desired objects as text: YAML documents that every reader reads alike, or a JSON `ManifestList`.

use crate::intent::format::{FormatError, format_document};
use crate::intent::lock::ModelLock;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use stator_core::object::Object;

/// Why objects could not be written.
#[derive(Debug, thiserror::Error)]
pub enum EmitError {
    /// The serializer refused a value.
    #[error("cannot write {object} as YAML: {reason}; use `-o json`")]
    Yaml {
        /// The object.
        object: String,
        /// What the serializer said.
        reason: String,
    },
    /// A lock that cannot be brought into the form that `stator fmt` gives it.
    #[error("cannot write the lock of {model}: {cause}")]
    Lock {
        /// The model.
        model: String,
        /// What the formatter said.
        #[source]
        cause: FormatError,
    },
}

/// What stands above every lock.
const LOCK_HEADER: &str = "\
# Written by `stator lock`: the graph that Dynamo's profiler chose for this model. Do not edit it. Change the graph with
# `overrides` in the intent; when the intent asks for something else, `stator lock` writes the file again.
";

/// A lock as its file, in the form that `stator fmt` gives it.
///
/// # Errors
/// When the graph holds text that YAML cannot carry unharmed.
pub fn lock_yaml(lock: &ModelLock) -> Result<String, EmitError> {
    let model = lock.metadata.name.to_string();
    let unreadable = |reason: String| EmitError::Yaml { object: format!("the lock of {model}"), reason };
    let value = serde_json::to_value(lock).map_err(|error| unreadable(error.to_string()))?;
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let text = serde_saphyr::to_string_with_options(&ReadingOrder(&value), options)
        .map_err(|error| unreadable(error.to_string()))?;
    format_document(&format!("{LOCK_HEADER}{text}")).map_err(|cause| EmitError::Lock { model, cause })
}

/// YAML documents in the order given, each after a `---`.
///
/// Strings that YAML 1.1 reads as something else (`yes`, `0644`, `1e3`, `12:30`) are quoted, since kubectl and many
/// tools still read YAML 1.1.
pub fn yaml_documents(objects: &[&Object]) -> Result<String, EmitError> {
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&object_yaml(object)?);
    }
    Ok(text)
}

/// One object as a YAML document without a leading `---`.
pub fn object_yaml(object: &Object) -> Result<String, EmitError> {
    // Folded scalars hide how long a line of arguments is, and a folded JSON text no longer reads as JSON.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&ReadingOrder(object.value()), options)
        .map_err(|reason| EmitError::Yaml { object: object.reference().to_string(), reason: reason.to_string() })
}

/// Writes a Kubernetes `List` of the objects in indented JSON, with a newline at the end, piece by piece.
///
/// # Errors
/// Those of `write`; none that a value of JSON could cause.
pub fn json_list<E: From<serde_json::Error>>(
    objects: impl IntoIterator<Item = Object>,
    mut write: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    // Its fields are in the order of their names, as in every other JSON of stator's.
    write("{\n  \"apiVersion\": \"v1\",\n  \"items\": [")?;
    let mut has_items = false;
    for object in objects {
        let text = serde_json::to_string_pretty(&object)?;
        let lines = text.lines().flat_map(|line| ["\n    ", line]);
        write(&std::iter::once(if has_items { "," } else { "" }).chain(lines).collect::<String>())?;
        has_items = true;
    }
    write(if has_items { "\n  ],\n" } else { "],\n" })?;
    write("  \"kind\": \"List\"\n}\n")
}

/// Fields that come first wherever they stand, in this order; the others follow by name. So a manifest reads from what
/// a thing is to what it has.
const LEADING_FIELDS: [&str; 10] =
    ["apiVersion", "kind", "metadata", "name", "namespace", "type", "image", "command", "args", "replicas"];

/// A value that is written in reading order.
struct ReadingOrder<'a>(&'a Value);

impl Serialize for ReadingOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                let first = LEADING_FIELDS.iter().filter_map(|name| fields.get_key_value(*name));
                let others = fields.iter().filter(|(name, _)| !LEADING_FIELDS.contains(&name.as_str()));
                for (name, value) in first.chain(others) {
                    map.serialize_entry(name, &ReadingOrder(value))?;
                }
                map.end()
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(ReadingOrder)),
            scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                scalar.serialize(serializer)
            }
        }
    }
}
