//! The record of one synced model: what stator applied.
//!
//! It lives in the cluster as a `Model` object (`stator.dev/v1alpha1`), so that any stator finds it again. Its `spec` is
//! the intent, its annotations name every object that may exist, and its status says what was made of it. The first two
//! are one write; the status is another, and ends a sync. Until both are there, a journal names the objects.

pub mod applyset;
mod crd;
mod error;
pub(super) mod journal;
mod object;
mod state;
#[cfg(test)]
mod tests;

pub use crd::custom_resource_definition;
pub use error::RecordError;
pub(super) use object::{ANNOTATION_ORIGIN, ANNOTATION_OWNER};
pub use state::{
    ObservedModelState, RecordCondition, RecordState, SyncState, abbreviate_revision, commit_of_revision,
    is_uncommitted,
};

use crate::plan::{RepositoryOrigin, SourceIdentity};
use serde::Serialize;
use serde_with::skip_serializing_none;
use stator_core::object::{JsonText, ObjectIdentity, ObjectRef};
use std::collections::{BTreeMap, BTreeSet};

/// One model's record.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The model's name.
    pub model: String,
    /// Namespace of the record and of its objects.
    pub namespace: String,
    /// The repository that it came from.
    pub repository: String,
    /// The environment that it was rendered for.
    pub environment: String,
    /// Path of its `model.yaml`.
    pub source: String,
    /// The folder that it was last synced from, where its repository has no name of its own; see
    /// [`crate::plan::PlanInput::folder`].
    pub folder: Option<String>,
    /// What it belongs to; `None` for one of a stator that did not record that.
    #[serde(skip)]
    pub owner: Option<SourceIdentity>,
    /// What its content came from before it came from there, where the record was taken over from another owner.
    #[serde(skip)]
    pub former_origin: Option<RepositoryOrigin>,
    /// The model whose place it takes, where it was renamed; also when that is gone.
    #[serde(skip)]
    pub predecessor: Option<String>,
    /// The intent's `spec` with defaults and overlay merged, as the last sync that changed anything had it. What looks
    /// like a secret is hidden in it. `null` when nobody kept it.
    #[serde(skip_serializing_if = "JsonText::is_null")]
    pub intent: JsonText,
    /// The commit of the last sync that changed anything; empty outside git.
    pub revision: String,
    /// How the model stood at the end of the last sync that wrote, or waited; `None` before the first one ended.
    pub state: Option<RecordState>,
    /// What was applied, or is about to be. Sorted by object.
    pub inventory: Vec<InventoryEntry>,
    /// The last ten outcomes, newest first.
    pub history: Vec<SyncHistoryEntry>,
    /// `metadata.generation` when it was read or written last.
    #[serde(skip)]
    pub generation: Option<i64>,
    /// `metadata.uid` when it was read; `None` before it was.
    #[serde(skip)]
    pub uid: Option<String>,
    /// `metadata.resourceVersion` when it was read, `None` once it was written since.
    #[serde(skip)]
    pub resource_version: Option<String>,
    /// The generation that the status is about.
    #[serde(skip)]
    pub observed_generation: Option<i64>,
    /// True for an object whose labels and annotations lag behind what this says: one of an older stator, or one that
    /// a sync left between two writes.
    #[serde(skip)]
    pub is_stale: bool,
    /// True for one that is not stored: all that is known of the model is what a journal says of it.
    #[serde(skip)]
    pub is_journaled: bool,
    /// What the inventory has from a journal alone. Whoever left that may still be at work, and delete it.
    #[serde(skip)]
    pub journaled_objects: BTreeSet<ObjectRef>,
}

/// One object that stator applied, or is about to.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InventoryEntry {
    /// The object.
    #[serde(flatten)]
    pub object: ObjectRef,
    /// Its uid; `None` until the first apply came back.
    pub uid: Option<String>,
    /// The generation that the last apply gave.
    pub generation: Option<i64>,
    /// SHA-256 of what was applied, in hex; empty until the first apply came back.
    pub digest: String,
    /// False for objects that are kept when the model goes.
    pub prune: bool,
}

/// How one sync of the model ended.
#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncHistoryEntry {
    /// When, RFC 3339 in UTC.
    pub time: String,
    /// The commit; empty outside git.
    pub revision: String,
    /// `Progressing` while health is waited for; after that `Synced`, `Unchanged`, `Healthy`, `Deleted`, `Deleting`,
    /// `Deferred`, `Held`, `Blocked`, `Failed`, `Cancelled` or `Superseded`. Records of versions before 0.1 have `Succeeded` too.
    pub result: String,
    /// One sentence.
    pub message: String,
    /// What was done: `create DynamoGraphDeployment prod/llama (none)`; and before it, what of that a guard held back until
    /// somebody approved it: `approved replace by alice`.
    pub changes: Vec<String>,
}

impl InventoryEntry {
    /// An object that may exist and that no apply has reported yet.
    pub fn pending(object: ObjectRef, prune: bool) -> Self {
        Self { object, uid: None, generation: None, digest: String::new(), prune }
    }
}

impl Record {
    /// True when `other` says the same outside of its status.
    pub fn has_same_object(&self, other: &Self) -> bool {
        let head = |record: &Self| {
            let Self { model, namespace, repository, environment, source, folder, .. } = record;
            [model, namespace, repository, environment, source].map(String::clone).into_iter().chain(folder.clone())
        };
        let named = |record: &Self| {
            let entries = record.inventory.iter().map(|entry| (entry.object.clone(), entry.prune));
            entries.collect::<std::collections::HashMap<_, _>>()
        };
        self.is_stale == other.is_stale
            && head(self).eq(head(other))
            && self.owner == other.owner
            && self.former_origin == other.former_origin
            && self.predecessor == other.predecessor
            && self.intent == other.intent
            && named(self) == named(other)
    }

    /// True when `other` has the same status.
    pub fn has_same_status(&self, other: &Self) -> bool {
        let status = |record: &Self| (record.revision.clone(), record.source.clone(), record.state.clone());
        status(self) == status(other) && self.inventory == other.inventory && self.history == other.history
    }

    /// True when the status is about an older generation of the object: a sync did not come to its end, or a person has
    /// edited the record.
    pub fn has_stale_status(&self) -> bool {
        self.observed_generation < self.generation
    }

    /// What a reader finds once this is written as the object, over `stored` and without a new status.
    pub fn to_pending_write(&self, stored: Option<&Self>) -> Self {
        let known: BTreeMap<ObjectIdentity, &InventoryEntry> =
            stored.iter().flat_map(|record| &record.inventory).map(|entry| (entry.object.identity(), entry)).collect();
        let inventory = self.inventory.iter().map(|entry| match known.get(&entry.object.identity()) {
            Some(known) => (*known).clone(),
            None => InventoryEntry::pending(entry.object.clone(), entry.prune),
        });
        Self {
            inventory: inventory.collect(),
            revision: stored.map(|record| record.revision.clone()).unwrap_or_default(),
            state: stored.and_then(|record| record.state.clone()),
            history: stored.map(|record| record.history.clone()).unwrap_or_default(),
            observed_generation: stored.and_then(|record| record.observed_generation),
            ..self.clone()
        }
    }
}
