//! The record as an object of the cluster, and back.

use super::crd::{InventoryStatusEntry, RecordStatus};
use super::{InventoryEntry, Record, RecordError, RecordState, abbreviate_revision, applyset};
use crate::plan::{SourceIdentity, SyncState};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_with::skip_serializing_none;
use stator_core::dynamo::health::Health;
use stator_core::dynamo::kinds::{
    FIELD_MANAGER, LABEL_ENVIRONMENT, LABEL_MANAGED_BY, LABEL_MODEL, LABEL_OWNER_ID, LABEL_REPOSITORY, RECORD,
};
use stator_core::object::{JsonText, MalformedObjectError, Object, ObjectRef, json_type};
use std::collections::{BTreeMap, BTreeSet};

/// Path of the model's `model.yaml`.
const ANNOTATION_SOURCE: &str = "stator.dev/source";
/// The folder that it was last synced from, for a repository without a name.
const ANNOTATION_FOLDER: &str = "stator.dev/folder";
/// What the record belongs to, and where that has its content from: [`SourceIdentity::from_texts`] reads both.
pub(in crate::plan) const ANNOTATION_OWNER: &str = "stator.dev/owner";
pub(in crate::plan) const ANNOTATION_ORIGIN: &str = "stator.dev/origin";
/// Where that had it from before, where it was taken over.
const ANNOTATION_FORMER_ORIGIN: &str = "stator.dev/former-origin";
/// The model whose place it takes.
const ANNOTATION_PREDECESSOR: &str = "stator.dev/predecessor";
/// Every object that may exist: the inventory before there is a status. Part of the object, which is written before its status.
const ANNOTATION_OBJECTS: &str = "stator.dev/objects";

/// One entry of the annotation [`ANNOTATION_OBJECTS`].
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InventoryAnnotationEntry {
    api_version: String,
    kind: String,
    /// Left out where it is the record's own.
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
    pub fn to_object(&self) -> Result<(Object, Object), MalformedObjectError> {
        Ok((self.object_part()?, self.status_part()?))
    }

    fn object_part(&self) -> Result<Object, MalformedObjectError> {
        let named: Vec<InventoryAnnotationEntry> =
            self.inventory.iter().map(|entry| to_annotation_entry(&self.namespace, entry)).collect();
        let mut annotations = json!({
            ANNOTATION_SOURCE: self.source,
            // Plain fields: serializing cannot fail.
            ANNOTATION_OBJECTS: serde_json::to_string(&named).unwrap_or_default(),
            applyset::TOOLING: applyset::tooling(),
            applyset::CONTAINS_GROUP_KINDS: applyset::group_kinds(self),
        });
        if let Some(namespaces) = applyset::namespaces(self) {
            annotations[applyset::ADDITIONAL_NAMESPACES] = json!(namespaces);
        }
        if let Some(folder) = &self.folder {
            annotations[ANNOTATION_FOLDER] = json!(folder);
        }
        if let Some(owner) = &self.owner {
            annotations[ANNOTATION_OWNER] = json!(owner.owner_text());
            annotations[ANNOTATION_ORIGIN] = json!(owner.origin().to_string());
        }
        if let Some(model) = &self.predecessor {
            annotations[ANNOTATION_PREDECESSOR] = json!(model);
        }
        if let Some(origin) = &self.former_origin {
            annotations[ANNOTATION_FORMER_ORIGIN] = json!(origin.to_string());
        }
        let mut value = self.skeleton();
        value["metadata"]["annotations"] = annotations;
        let mut labels = json!({
            LABEL_MANAGED_BY: FIELD_MANAGER,
            LABEL_MODEL: self.model,
            LABEL_REPOSITORY: self.repository,
            LABEL_ENVIRONMENT: self.environment,
            applyset::ID: applyset::id_of(&self.model, &self.namespace),
        });
        if let Some(owner) = &self.owner {
            labels[LABEL_OWNER_ID] = json!(owner.owner_id());
        }
        value["metadata"]["labels"] = labels;
        let intent = self.intent.parse();
        value["spec"] = if intent.is_object() { intent } else { json!({}) };
        Object::from_value(value)
    }

    fn status_part(&self) -> Result<Object, MalformedObjectError> {
        let inventory: Vec<Value> = self.inventory.iter().map(to_status_entry).collect();
        let mut status = json!({
            "revision": self.revision,
            "commit": abbreviate_revision(&self.revision),
            "source": self.source,
            "inventory": inventory,
            "history": self.history,
        });
        if let Some(generation) = self.generation {
            status["observedGeneration"] = json!(generation);
        }
        if let Some(RecordState { sync, health, gpus, gpu_sku, conditions }) = &self.state {
            status["sync"] = json!(sync.as_str());
            status["health"] = json!(health.as_str());
            status["gpus"] = json!(gpus);
            status["conditions"] = json!(conditions);
            if let Some(sku) = gpu_sku {
                status["gpuSku"] = json!(sku);
            }
        }
        let mut value = self.skeleton();
        value["status"] = status;
        Object::from_value(value)
    }

    fn skeleton(&self) -> Value {
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
    pub fn from_object(object: &Object) -> Result<Self, RecordError> {
        let reference = object.reference();
        if object.kind() != RECORD.kind || reference.group() != RECORD.group {
            return Err(RecordError::OtherKind(Box::new(reference)));
        }
        let (labels, annotations) = (object.labels(), object.annotations());
        if let Some(tooling) = annotations.get(applyset::TOOLING).filter(|tooling| !applyset::is_own(tooling)) {
            return Err(RecordError::OtherTool { object: Box::new(reference), tooling: (*tooling).to_owned() });
        }
        let id = applyset::id_of(object.name(), object.namespace());
        if let Some(other) = labels.get(applyset::ID).filter(|label| **label != id) {
            return Err(RecordError::Copied { object: Box::new(reference), id: (*other).to_owned() });
        }
        // An earlier form had these in `spec`, which holds the intent now.
        let old = |field: &str| object.spec().get(field).and_then(Value::as_str);
        let is_old = !annotations.contains_key(ANNOTATION_SOURCE);
        let text = |map: &BTreeMap<&str, &str>, what: &str, key: &str, field: &str| {
            let value = if is_old { old(field).or_else(|| map.get(key).copied()) } else { map.get(key).copied() };
            value.map(str::to_owned).ok_or_else(|| RecordError::Unreadable {
                object: Box::new(object.reference()),
                part: format!("metadata.{what}[{key}]"),
                message: "it is missing".to_owned(),
            })
        };
        let status = parse_status(object)?;
        let mut record = Self {
            model: object.name().to_owned(),
            namespace: object.namespace().to_owned(),
            repository: text(&labels, "labels", LABEL_REPOSITORY, "repository")?,
            environment: text(&labels, "labels", LABEL_ENVIRONMENT, "environment")?,
            source: text(&annotations, "annotations", ANNOTATION_SOURCE, "source")?,
            folder: text(&annotations, "annotations", ANNOTATION_FOLDER, "folder").ok(),
            owner: parse_owner(object, &annotations)?,
            predecessor: annotations.get(ANNOTATION_PREDECESSOR).map(|model| (*model).to_owned()),
            // It is for lists alone: one that nobody can read says nothing.
            former_origin: annotations.get(ANNOTATION_FORMER_ORIGIN).and_then(|origin| origin.parse().ok()),
            intent: if is_old || object.spec().as_object().is_none_or(serde_json::Map::is_empty) {
                JsonText::default()
            } else {
                object.spec().into()
            },
            state: parse_state(&status),
            revision: status.revision,
            inventory: status.inventory.into_iter().map(from_status_entry).collect(),
            history: status.history,
            generation: object.generation(),
            uid: object.uid().map(str::to_owned),
            resource_version: object.resource_version().map(str::to_owned),
            observed_generation: status.observed_generation,
            is_stale: false,
            is_journaled: false,
            journaled_objects: BTreeSet::new(),
        };
        let named = parse_annotated_inventory(object, &annotations)?;
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

fn parse_status(object: &Object) -> Result<RecordStatus, RecordError> {
    match object.status() {
        Value::Null => Ok(RecordStatus::default()),
        status @ Value::Object(_) => {
            // The inventory is read entry by entry, so that the fault names the one that is wrong.
            let list = status.get("inventory").and_then(Value::as_array);
            for (index, entry) in list.into_iter().flatten().enumerate() {
                parse_part::<InventoryStatusEntry>(object, &format!("status.inventory[{index}]"), entry)?;
            }
            parse_part(object, "status", status)
        }
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            let message = format!("expected a map, found {}", json_type(other));
            Err(RecordError::Unreadable { object: Box::new(object.reference()), part: "status".to_owned(), message })
        }
    }
}

/// What the record belongs to. What this version cannot read, a later one wrote: it is somebody's.
fn parse_owner(object: &Object, annotations: &BTreeMap<&str, &str>) -> Result<Option<SourceIdentity>, RecordError> {
    let text = |key: &str| annotations.get(key).copied();
    let (owner, origin) = match (text(ANNOTATION_OWNER), text(ANNOTATION_ORIGIN)) {
        (None, None) => return Ok(None),
        (owner, origin) => (owner.unwrap_or_default(), origin.unwrap_or_default()),
    };
    SourceIdentity::from_texts(owner, origin).map(Some).map_err(|_| RecordError::UnknownOwner {
        object: Box::new(object.reference()),
        owner: format!("{owner}, {origin}"),
    })
}

/// `None` for a status of a stator that did not say how the model stood.
fn parse_state(status: &RecordStatus) -> Option<RecordState> {
    (!status.sync.is_empty()).then(|| RecordState {
        sync: SyncState::parse_or_unknown(&status.sync),
        health: Health::from_name(&status.health),
        gpus: status.gpus,
        gpu_sku: status.gpu_sku.clone(),
        conditions: status.conditions.clone(),
    })
}

/// Everything that the object names, as if nothing were known of it.
fn parse_annotated_inventory(
    object: &Object,
    annotations: &BTreeMap<&str, &str>,
) -> Result<Vec<InventoryEntry>, RecordError> {
    let Some(text) = annotations.get(ANNOTATION_OBJECTS) else { return Ok(Vec::new()) };
    let list: Vec<InventoryAnnotationEntry> = serde_json::from_str(text).map_err(|error| RecordError::Unreadable {
        object: Box::new(object.reference()),
        part: format!("metadata.annotations[{ANNOTATION_OBJECTS}]"),
        message: error.to_string(),
    })?;
    let entries = list.into_iter().map(|named| {
        let InventoryAnnotationEntry { api_version, kind, namespace, name, prune } = named;
        let namespace = namespace.unwrap_or_else(|| object.namespace().to_owned());
        InventoryEntry::pending(ObjectRef { api_version, kind, namespace, name }, prune)
    });
    Ok(entries.collect())
}

fn to_annotation_entry(namespace: &str, entry: &InventoryEntry) -> InventoryAnnotationEntry {
    let ObjectRef { api_version, kind, namespace: other, name } = entry.object.clone();
    InventoryAnnotationEntry {
        api_version,
        kind,
        namespace: (other != namespace).then_some(other),
        name,
        prune: entry.prune,
    }
}

fn parse_part<T: DeserializeOwned>(object: &Object, name: &str, value: &Value) -> Result<T, RecordError> {
    T::deserialize(value).map_err(|error| RecordError::Unreadable {
        object: Box::new(object.reference()),
        part: name.to_owned(),
        message: error.to_string(),
    })
}

fn to_status_entry(entry: &InventoryEntry) -> Value {
    // The fields of an entry are plain, so that serializing cannot fail.
    serde_json::to_value(entry).unwrap_or_default()
}

fn from_status_entry(item: InventoryStatusEntry) -> InventoryEntry {
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
