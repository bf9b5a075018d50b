//! Desired objects as text: YAML documents that every reader reads alike, or a JSON `List`.

use crate::object::Object;
use serde_json::{Value, json};

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
}

/// YAML documents in the order given, each after a `---`.
///
/// Strings that YAML 1.1 reads as something else (`yes`, `0644`, `1e3`, `12:30`) are quoted, since kubectl and many
/// tools still read YAML 1.1.
pub fn yaml_documents(objects: &[&Object]) -> Result<String, EmitError> {
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&yaml(object)?);
    }
    Ok(text)
}

/// One object as a YAML document without a leading `---`.
pub fn yaml(object: &Object) -> Result<String, EmitError> {
    // Folded scalars hide how long a line of arguments is, and a folded JSON text no longer reads as JSON.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&sorted(object), options)
        .map_err(|reason| EmitError::Yaml { object: object.reference().to_string(), reason: reason.to_string() })
}

/// A Kubernetes `List` of the objects, indented, with a newline at the end.
pub fn json_list(objects: &[&Object]) -> String {
    let items: Vec<&Value> = objects.iter().map(|object| object.value()).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    format!("{list:#}\n")
}

/// An object whose fields come in the order that people read manifests in: `apiVersion`, `kind`, `metadata`, the rest
/// by name.
struct Sorted<'a>(&'a Object);

fn sorted(object: &Object) -> Sorted<'_> {
    Sorted(object)
}

impl serde::Serialize for Sorted<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        const FIRST: [&str; 3] = ["apiVersion", "kind", "metadata"];
        let fields = self.0.fields();
        let mut map = serializer.serialize_map(Some(fields.len()))?;
        for name in FIRST {
            if let Some(value) = fields.get(name) {
                map.serialize_entry(name, value)?;
            }
        }
        for (name, value) in fields.iter().filter(|(name, _)| !FIRST.contains(&name.as_str())) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
