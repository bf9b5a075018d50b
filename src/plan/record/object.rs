//! The record as an object of the cluster, and back.

use super::crd::{Item, RecordSpec, RecordStatus};
use super::{InventoryEntry, Record};
use crate::dynamo::kinds::{LABEL_ENVIRONMENT, LABEL_MANAGED_BY, LABEL_MODEL, LABEL_REPOSITORY, MANAGER, RECORD};
use crate::object::{MalformedObject, Object, ObjectRef, json_type};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Why an object is no readable record. Its model is then neither pruned nor thought to be without objects; the next
/// sync of the model writes the record anew.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// The object is of another kind.
    #[error("{0} is not a Model of stator.dev: leave it out")]
    OtherKind(Box<ObjectRef>),
    /// A part of it cannot be read.
    #[error(
        "{object}: `{part}` cannot be read: {message}; correct it, or delete the record if the model is still in git"
    )]
    Unreadable {
        /// Which record.
        object: Box<ObjectRef>,
        /// `spec`, `status`, or one entry of the inventory.
        part: String,
        /// What is wrong.
        message: String,
    },
}

impl Record {
    /// The record as two server-side applies: the object itself, then its status, which holds the inventory.
    pub fn to_object(&self) -> Result<(Object, Object), MalformedObject> {
        let head = |rest: (&str, Value), labels: bool| {
            let mut value = json!({
                "apiVersion": RECORD.api_version(),
                "kind": RECORD.kind,
                "metadata": {"name": self.model, "namespace": self.namespace},
            });
            value[rest.0] = rest.1;
            if labels {
                value["metadata"]["labels"] = json!({
                    LABEL_MANAGED_BY: MANAGER,
                    LABEL_MODEL: self.model,
                    LABEL_REPOSITORY: self.repository,
                    LABEL_ENVIRONMENT: self.environment,
                });
            }
            Object::from_value(value)
        };
        let mut spec = json!({"repository": self.repository, "environment": self.environment, "source": self.source});
        if let Some(folder) = &self.folder {
            spec["folder"] = json!(folder);
        }
        let inventory: Vec<Value> = self.inventory.iter().map(item).collect();
        let status = json!({"revision": self.revision, "inventory": inventory, "history": self.history});
        Ok((head(("spec", spec), true)?, head(("status", status), false)?))
    }

    /// Reads a record. A record that has no status yet, from a sync that ended between its two writes, is an empty one.
    pub fn from_object(object: &Object) -> Result<Self, RecordFault> {
        let reference = object.reference();
        if object.kind() != RECORD.kind || reference.group() != RECORD.group {
            return Err(RecordFault::OtherKind(Box::new(reference)));
        }
        let spec: RecordSpec = part(object, "spec", object.spec())?;
        let status = object.status();
        let status: RecordStatus = match status {
            Value::Null => RecordStatus::default(),
            Value::Object(_) => {
                // The inventory is read entry by entry, so that the fault names the one that is wrong.
                let list = status.get("inventory").and_then(Value::as_array);
                for (index, entry) in list.into_iter().flatten().enumerate() {
                    part::<Item>(object, &format!("status.inventory[{index}]"), entry)?;
                }
                part(object, "status", status)?
            }
            other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                let message = format!("expected a map, found {}", json_type(other));
                return Err(RecordFault::Unreadable {
                    object: Box::new(reference),
                    part: "status".to_owned(),
                    message,
                });
            }
        };
        Ok(Self {
            model: object.name().to_owned(),
            namespace: object.namespace().to_owned(),
            repository: spec.repository,
            environment: spec.environment,
            source: spec.source,
            folder: spec.folder,
            revision: status.revision,
            inventory: status.inventory.into_iter().map(entry).collect(),
            history: status.history,
        })
    }
}

fn part<T: DeserializeOwned>(object: &Object, name: &str, value: &Value) -> Result<T, RecordFault> {
    T::deserialize(value).map_err(|error| RecordFault::Unreadable {
        object: Box::new(object.reference()),
        part: name.to_owned(),
        message: error.to_string(),
    })
}

fn item(entry: &InventoryEntry) -> Value {
    // The fields of an entry are plain, so that serializing cannot fail.
    serde_json::to_value(entry).unwrap_or_default()
}

fn entry(item: Item) -> InventoryEntry {
    InventoryEntry {
        object: ObjectRef {
            api_version: item.api_version,
            kind: item.kind,
            namespace: item.namespace,
            name: item.name,
        },
        uid: item.uid,
        generation: item.generation,
        digest: item.digest,
        prune: item.prune,
    }
}
