//! What is known of `ModelSource` objects.

use crate::controller::sources::resolved_source::SourceKey;
use jiff::Timestamp;
use stator_core::object::Object;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::watch;

/// One `ModelSource`, as the API server holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSourceObject {
    /// Its namespace and name.
    pub key: SourceKey,
    /// What tells it from one of the same name that was deleted.
    pub uid: String,
    /// Goes up whenever its spec changes.
    pub generation: i64,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// All of it but `metadata.managedFields`: `status` among the rest.
    pub object: Object,
}

impl ModelSourceObject {
    /// Of an object.
    pub fn new(object: Object) -> Self {
        let object = match object.clone().map(without_managed_fields) {
            Ok(object) => object,
            Err(_) => object,
        };
        let annotations = object.annotations().into_iter();
        Self {
            key: SourceKey::new(object.namespace(), object.name()),
            uid: object.uid().unwrap_or_default().to_owned(),
            generation: object.generation().unwrap_or_default(),
            created: object.str_at("/metadata/creationTimestamp").and_then(|text| text.parse().ok()),
            annotations: annotations.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            object,
        }
    }
}

fn without_managed_fields(mut value: serde_json::Value) -> serde_json::Value {
    if let Some(metadata) = value.get_mut("metadata").and_then(serde_json::Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    value
}

/// All `ModelSource` objects that this controller answers for, as they were last seen: those in its scope and in shards
/// that it holds.
#[derive(Debug, Default)]
pub struct ModelSourceStore {
    known: RwLock<BTreeMap<SourceKey, Arc<ModelSourceObject>>>,
    changes: watch::Sender<u64>,
}

impl ModelSourceStore {
    /// One of them.
    pub fn get(&self, key: &SourceKey) -> Option<Arc<ModelSourceObject>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// All, sorted by namespace and name.
    pub fn all(&self) -> Vec<Arc<ModelSourceObject>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Goes up with every change of any of them.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Makes these all that there are.
    pub fn replace_all(&self, resources: BTreeMap<SourceKey, Arc<ModelSourceObject>>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let same = known.len() == resources.len()
            && known.iter().zip(&resources).all(|((_, one), (_, other))| Arc::ptr_eq(one, other));
        *known = resources;
        drop(known);
        if !same {
            self.changes.send_modify(|count| *count = count.wrapping_add(1));
        }
    }
}
