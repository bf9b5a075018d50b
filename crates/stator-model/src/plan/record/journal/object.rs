//! The journal as an object of the cluster, and back.

use super::crd::{JournalModelEntry, JournalObjectEntry, JournalSpec};
use super::{Journal, JournalModel, JournalObject};
use crate::plan::SourceIdentity;
use crate::plan::record::{ANNOTATION_ORIGIN, ANNOTATION_OWNER};
use serde::Deserialize as _;
use serde_json::json;
use stator_core::dynamo::kinds::{
    FIELD_MANAGER, JOURNAL, LABEL_ENVIRONMENT, LABEL_MANAGED_BY, LABEL_OWNER_ID, LABEL_REPOSITORY,
};
use stator_core::object::{MalformedObjectError, Object, ObjectRef};

/// Why an object is no journal that this version can read. What it names is not known, so nothing is pruned beside it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{object}: `{part}` cannot be read: {message}; use the version of stator that wrote it, or delete it once no sync is running"
)]
pub struct JournalError {
    /// Which object.
    pub object: Box<ObjectRef>,
    /// The label, annotation or field.
    pub part: String,
    /// What is wrong.
    pub message: String,
}

impl Journal {
    /// The journal as a server-side apply.
    ///
    /// # Errors
    /// When it has no name or namespace.
    pub fn to_object(&self) -> Result<Object, MalformedObjectError> {
        let mut labels = json!({
            LABEL_MANAGED_BY: FIELD_MANAGER,
            LABEL_REPOSITORY: self.repository,
            LABEL_ENVIRONMENT: self.environment,
        });
        let mut metadata = json!({"name": self.name, "namespace": self.namespace});
        if let Some(owner) = &self.owner {
            labels[LABEL_OWNER_ID] = json!(owner.owner_id());
            metadata["annotations"] =
                json!({ANNOTATION_OWNER: owner.owner_text(), ANNOTATION_ORIGIN: owner.origin().to_string()});
        }
        metadata["labels"] = labels;
        let models = self.models.iter().map(|model| to_entry(&self.namespace, model)).collect();
        Object::from_value(json!({
            "apiVersion": JOURNAL.api_version(),
            "kind": JOURNAL.kind,
            "metadata": metadata,
            "spec": JournalSpec { folder: self.folder.clone(), models },
        }))
    }

    /// Reads a journal.
    ///
    /// # Errors
    /// When a part of it cannot be understood.
    pub fn from_object(object: &Object) -> Result<Self, JournalError> {
        let fault = |part: &str, message: String| JournalError {
            object: Box::new(object.reference()),
            part: part.to_owned(),
            message,
        };
        let (labels, annotations) = (object.labels(), object.annotations());
        let label = |key: &str| {
            let value = labels.get(key).map(|value| (*value).to_owned());
            value.ok_or_else(|| fault(&format!("metadata.labels[{key}]"), "it is missing".to_owned()))
        };
        let text = |key: &str| annotations.get(key).copied();
        let owner = match (text(ANNOTATION_OWNER), text(ANNOTATION_ORIGIN)) {
            (None, None) => None,
            (owner, origin) => {
                let read = SourceIdentity::from_texts(owner.unwrap_or_default(), origin.unwrap_or_default());
                Some(read.map_err(|error| fault("metadata.annotations", error.to_string()))?)
            }
        };
        let spec = JournalSpec::deserialize(object.spec()).map_err(|error| fault("spec", error.to_string()))?;
        let namespace = object.namespace().to_owned();
        Ok(Self {
            name: object.name().to_owned(),
            repository: label(LABEL_REPOSITORY)?,
            environment: label(LABEL_ENVIRONMENT)?,
            folder: spec.folder,
            owner,
            models: spec.models.into_iter().map(|entry| from_entry(&namespace, entry)).collect(),
            uid: object.uid().map(str::to_owned),
            namespace,
        })
    }
}

/// What a model takes of a journal, in bytes.
pub(super) fn encoded_size(namespace: &str, model: &JournalModel) -> usize {
    // Plain fields: serializing cannot fail.
    serde_json::to_vec(&to_entry(namespace, model)).map_or(0, |text| text.len() + 1)
}

fn to_entry(namespace: &str, model: &JournalModel) -> JournalModelEntry {
    let objects = model.objects.iter().map(|named| {
        let ObjectRef { api_version, kind, namespace: other, name } = named.object.clone();
        let namespace = (other != namespace).then_some(other);
        JournalObjectEntry { api_version, kind, namespace, name, prune: named.prune }
    });
    JournalModelEntry { model: model.model.clone(), source: model.source.clone(), objects: objects.collect() }
}

fn from_entry(namespace: &str, entry: JournalModelEntry) -> JournalModel {
    let objects = entry.objects.into_iter().map(|named| {
        let JournalObjectEntry { api_version, kind, namespace: other, name, prune } = named;
        let namespace = other.unwrap_or_else(|| namespace.to_owned());
        JournalObject { object: ObjectRef { api_version, kind, namespace, name }, prune }
    });
    JournalModel { model: entry.model, source: entry.source, objects: objects.collect() }
}
