//! The record as an object of the cluster, and back.

use super::crd::{Item, RecordStatus};
use super::{InventoryEntry, Record, RecordFault, RecordState, applyset, short_commit};
use crate::plan::SyncState;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stator_core::dynamo::health::Health;
use stator_core::dynamo::kinds::{LABEL_ENVIRONMENT, LABEL_MANAGED_BY, LABEL_MODEL, LABEL_REPOSITORY, MANAGER, RECORD};
use stator_core::object::{MalformedObject, Object, ObjectRef, json_type};
use std::collections::{BTreeMap, BTreeSet};

/// Path of the model's `model.yaml`.
const SOURCE: &str = "stator.dev/source";
/// The folder that it was last synced from, for a repository without a name.
const FOLDER: &str = "stator.dev/folder";
/// Every object that may exist: the inventory before there is a status. Part of the write that goes ahead.
const OBJECTS: &str = "stator.dev/objects";

/// One entry of the annotation [`OBJECTS`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    api_version: String,
    kind: String,
    /// Left out where it is the record's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
    prune: bool,
}

impl Record {
    /// The record as two server-side applies: the object itself, which names everything that may exist, then its
    /// status.
    ///
    /// # Errors
    /// When the model or the namespace has no name.
    pub fn to_object(&self) -> Result<(Object, Object), MalformedObject> {
        Ok((self.head()?, self.tail()?))
    }

    fn head(&self) -> Result<Object, MalformedObject> {
        let named: Vec<Named> = self.inventory.iter().map(|entry| named(&self.namespace, entry)).collect();
        let mut annotations = json!({
            SOURCE: self.source,
            // Plain fields: serializing cannot fail.
            OBJECTS: serde_json::to_string(&named).unwrap_or_default(),
            applyset::TOOLING: applyset::tooling(),
            applyset::GROUP_KINDS: applyset::group_kinds(self),
        });
        if let Some(namespaces) = applyset::namespaces(self) {
            annotations[applyset::NAMESPACES] = json!(namespaces);
        }
        if let Some(folder) = &self.folder {
            annotations[FOLDER] = json!(folder);
        }
        let mut value = self.shell();
        value["metadata"]["annotations"] = annotations;
        value["metadata"]["labels"] = json!({
            LABEL_MANAGED_BY: MANAGER,
            LABEL_MODEL: self.model,
            LABEL_REPOSITORY: self.repository,
            LABEL_ENVIRONMENT: self.environment,
            applyset::ID: applyset::id_of(&self.model, &self.namespace),
        });
        value["spec"] = if self.intent.is_object() { self.intent.clone() } else { json!({}) };
        Object::from_value(value)
    }

    fn tail(&self) -> Result<Object, MalformedObject> {
        let inventory: Vec<Value> = self.inventory.iter().map(item).collect();
        let mut status = json!({
            "revision": self.revision,
            "commit": short_commit(&self.revision),
            "source": self.source,
            "inventory": inventory,
            "history": self.history,
        });
        if let Some(generation) = self.generation {
            status["observedGeneration"] = json!(generation);
        }
        if let Some(RecordState { sync, health, gpus, gpu_sku, conditions }) = &self.state {
            status["sync"] = json!(sync.word());
            status["health"] = json!(health.word());
            status["gpus"] = json!(gpus);
            status["conditions"] = json!(conditions);
            if let Some(sku) = gpu_sku {
                status["gpuSku"] = json!(sku);
            }
        }
        let mut value = self.shell();
        value["status"] = status;
        Object::from_value(value)
    }

    fn shell(&self) -> Value {
        json!({
            "apiVersion": RECORD.api_version(),
            "kind": RECORD.kind,
            "metadata": {"name": self.model, "namespace": self.namespace},
        })
    }

    /// Reads a record. One that has no status yet, from a sync that ended after its first write, is one whose objects
    /// are all pending.
    ///
    /// # Errors
    /// When the object is no record, is another tool's, is a copy of one, or cannot be understood.
    pub fn from_object(object: &Object) -> Result<Self, RecordFault> {
        let reference = object.reference();
        if object.kind() != RECORD.kind || reference.group() != RECORD.group {
            return Err(RecordFault::OtherKind(Box::new(reference)));
        }
        let (labels, annotations) = (object.labels(), object.annotations());
        if let Some(tooling) = annotations.get(applyset::TOOLING).filter(|tooling| !applyset::is_own(tooling)) {
            return Err(RecordFault::OtherTool { object: Box::new(reference), tooling: (*tooling).to_owned() });
        }
        let id = applyset::id_of(object.name(), object.namespace());
        if let Some(other) = labels.get(applyset::ID).filter(|label| **label != id) {
            return Err(RecordFault::Copied { object: Box::new(reference), id: (*other).to_owned() });
        }
        // An earlier form had these in `spec`, which holds the intent now.
        let old = |field: &str| object.spec().get(field).and_then(Value::as_str);
        let is_old = !annotations.contains_key(SOURCE);
        let text = |map: &BTreeMap<&str, &str>, what: &str, key: &str, field: &str| {
            let value = if is_old { old(field).or_else(|| map.get(key).copied()) } else { map.get(key).copied() };
            value.map(str::to_owned).ok_or_else(|| RecordFault::Unreadable {
                object: Box::new(object.reference()),
                part: format!("metadata.{what}[{key}]"),
                message: "it is missing".to_owned(),
            })
        };
        let status = status(object)?;
        let mut record = Self {
            model: object.name().to_owned(),
            namespace: object.namespace().to_owned(),
            repository: text(&labels, "labels", LABEL_REPOSITORY, "repository")?,
            environment: text(&labels, "labels", LABEL_ENVIRONMENT, "environment")?,
            source: text(&annotations, "annotations", SOURCE, "source")?,
            folder: text(&annotations, "annotations", FOLDER, "folder").ok(),
            intent: if is_old || object.spec().as_object().is_none_or(serde_json::Map::is_empty) {
                Value::Null
            } else {
                object.spec().clone()
            },
            state: state(&status),
            revision: status.revision,
            inventory: status.inventory.into_iter().map(entry).collect(),
            history: status.history,
            generation: object.generation(),
            uid: object.uid().map(str::to_owned),
            resource_version: object.resource_version().map(str::to_owned),
            observed_generation: status.observed_generation,
            is_stale: false,
        };
        let named = pending(object, &annotations)?;
        let known: BTreeSet<ObjectRef> = record.inventory.iter().map(|entry| entry.object.clone()).collect();
        let names_all = known.iter().all(|object| named.iter().any(|entry| entry.object == *object));
        record.inventory.extend(named.into_iter().filter(|entry| !known.contains(&entry.object)));
        record.inventory.sort_by(|a, b| a.object.cmp(&b.object));
        // What names too much is believed as it stands; what names too little is to be written again.
        let is_marked = labels.contains_key(applyset::ID) && annotations.contains_key(applyset::TOOLING);
        record.is_stale = is_old || !names_all || !is_marked;
        Ok(record)
    }
}

fn status(object: &Object) -> Result<RecordStatus, RecordFault> {
    match object.status() {
        Value::Null => Ok(RecordStatus::default()),
        status @ Value::Object(_) => {
            // The inventory is read entry by entry, so that the fault names the one that is wrong.
            let list = status.get("inventory").and_then(Value::as_array);
            for (index, entry) in list.into_iter().flatten().enumerate() {
                part::<Item>(object, &format!("status.inventory[{index}]"), entry)?;
            }
            part(object, "status", status)
        }
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            let message = format!("expected a map, found {}", json_type(other));
            Err(RecordFault::Unreadable { object: Box::new(object.reference()), part: "status".to_owned(), message })
        }
    }
}

/// `None` for a status of a stator that did not say how the model stood.
fn state(status: &RecordStatus) -> Option<RecordState> {
    (!status.sync.is_empty()).then(|| RecordState {
        sync: SyncState::from_word(&status.sync),
        health: Health::from_word(&status.health),
        gpus: status.gpus,
        gpu_sku: status.gpu_sku.clone(),
        conditions: status.conditions.clone(),
    })
}

/// Everything that the object names, as if nothing were known of it.
fn pending(object: &Object, annotations: &BTreeMap<&str, &str>) -> Result<Vec<InventoryEntry>, RecordFault> {
    let Some(text) = annotations.get(OBJECTS) else { return Ok(Vec::new()) };
    let list: Vec<Named> = serde_json::from_str(text).map_err(|error| RecordFault::Unreadable {
        object: Box::new(object.reference()),
        part: format!("metadata.annotations[{OBJECTS}]"),
        message: error.to_string(),
    })?;
    let entries = list.into_iter().map(|named| {
        let Named { api_version, kind, namespace, name, prune } = named;
        let namespace = namespace.unwrap_or_else(|| object.namespace().to_owned());
        InventoryEntry::pending(ObjectRef { api_version, kind, namespace, name }, prune)
    });
    Ok(entries.collect())
}

fn named(namespace: &str, entry: &InventoryEntry) -> Named {
    let ObjectRef { api_version, kind, namespace: other, name } = entry.object.clone();
    Named { api_version, kind, namespace: (other != namespace).then_some(other), name, prune: entry.prune }
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
