//! The journal of a sync: the objects that it may create and no record names yet, stored before it creates them.
//!
//! It lives in the cluster as a few `SyncJournal` objects (`stator.dev/v1alpha1`) beside the records, so that objects are
//! created at once and their records follow. Whoever plans next reads what is left of it into the records, as
//! entries whose apply nobody has reported; so after a crash every object that may exist is known. It is deleted once the records name
//! what it does.

mod crd;
mod object;
#[cfg(test)]
mod tests;

pub use crd::journal_definition;
pub use object::JournalError;

use crate::plan::{InventoryEntry, OwnerRelation, Record, SourceIdentity};
use stator_core::object::ObjectRef;
use std::collections::{BTreeMap, BTreeSet};

/// The size of one journal object's list, in bytes of JSON. An API server takes requests of 3 MiB, and etcd values of
/// 1.5 MiB.
pub const MAX_JOURNAL_BYTES: usize = 512 * 1024;

/// One part of what a sync may create.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Journal {
    /// The object's name: other for each sync, as two may run.
    pub name: String,
    /// Namespace of the journal and of the records that it stands in for.
    pub namespace: String,
    /// The repository that the models came from.
    pub repository: String,
    /// The environment that they were rendered for.
    pub environment: String,
    /// See [`Record::folder`].
    pub folder: Option<String>,
    /// See [`Record::owner`].
    pub owner: Option<SourceIdentity>,
    /// The models, sorted by name.
    pub models: Vec<JournalModel>,
    /// `metadata.uid` when it was read or written; `None` before.
    pub uid: Option<String>,
}

/// What a sync may create for one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalModel {
    /// The model's name.
    pub model: String,
    /// Path of its `model.yaml`.
    pub source: String,
    /// The objects that may exist from now on.
    pub objects: Vec<JournalObject>,
}

/// One object that may exist. It has no uid: what a uid proves, only the answer to an apply can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalObject {
    /// Which.
    pub object: ObjectRef,
    /// False for objects that are kept when the model goes.
    pub prune: bool,
}

/// A journal that an earlier sync left, and what keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftoverJournal {
    /// It, without its list of models.
    pub journal: Journal,
    /// The models whose records do not name yet what it does. It goes when there are none.
    pub open_models: BTreeSet<String>,
}

impl Journal {
    /// As many journals as the list of models takes. Each has the head of this one, whose own list is not read, and a name
    /// that ends in its place among them.
    pub fn split(&self, models: impl IntoIterator<Item = JournalModel>) -> Vec<Self> {
        let mut parts: Vec<Self> = Vec::new();
        let mut size = 0;
        for model in models {
            let bytes = object::encoded_size(&self.namespace, &model);
            match parts.last_mut() {
                Some(part) if size + bytes <= MAX_JOURNAL_BYTES => part.models.push(model),
                Some(_) | None => {
                    size = 0;
                    let name = format!("{}-{}", self.name, parts.len());
                    parts.push(Self { name, models: vec![model], ..self.clone() });
                }
            }
            size += bytes;
        }
        parts
    }

    /// True when it was written by a sync of the same source and environment: by owner, and where nobody says, by name.
    fn is_of(&self, record: &Record) -> bool {
        let is_same_source = match (&self.owner, &record.owner) {
            (Some(own), Some(recorded)) => own.relation_to(recorded) != OwnerRelation::Foreign,
            (Some(_) | None, None) | (None, Some(_)) => self.repository == record.repository,
        };
        is_same_source && self.environment == record.environment
    }

    /// The record of a model of which there is nothing but this.
    fn to_record(&self, model: &JournalModel) -> Record {
        Record {
            model: model.model.clone(),
            namespace: self.namespace.clone(),
            repository: self.repository.clone(),
            environment: self.environment.clone(),
            source: model.source.clone(),
            folder: self.folder.clone(),
            owner: self.owner.clone(),
            is_stale: true,
            is_journaled: true,
            ..Record::default()
        }
    }
}

/// What the cluster remembers of a source's syncs.
#[derive(Clone, Debug, Default)]
pub struct SyncBookkeeping {
    /// The records, with what journals add to them.
    pub records: Vec<Record>,
    /// What earlier syncs left of their journals.
    pub journals: Vec<LeftoverJournal>,
}

/// Reads journals into the records of their namespace, as if the record of every model had been written before its objects:
/// each names what a journal does, and a model without one gets one that is not stored yet. Models of `unreadable`
/// records are left out. Records come back sorted by model, with what is left of each journal.
pub fn merge_journals(
    records: Vec<Record>,
    journals: &[Journal],
    unreadable: &BTreeSet<String>,
) -> (Vec<Record>, Vec<LeftoverJournal>) {
    let mut records: BTreeMap<String, Record> =
        records.into_iter().map(|record| (record.model.clone(), record)).collect();
    let mut leftovers = Vec::new();
    for journal in journals {
        let mut open_models = BTreeSet::new();
        for model in &journal.models {
            if unreadable.contains(&model.model) {
                open_models.insert(model.model.clone());
                continue;
            }
            let record = records.entry(model.model.clone()).or_insert_with(|| journal.to_record(model));
            let known: BTreeSet<&ObjectRef> = record.inventory.iter().map(|entry| &entry.object).collect();
            let unknown = model.objects.iter().filter(|named| !known.contains(&named.object));
            let pending: Vec<InventoryEntry> = unknown.map(JournalObject::to_entry).collect();
            if !pending.is_empty() || record.is_journaled {
                open_models.insert(model.model.clone());
            }
            // What another source records is not this journal's to add to.
            if !pending.is_empty() && journal.is_of(record) {
                record.journaled_objects.extend(pending.iter().map(|entry| entry.object.clone()));
                record.inventory.extend(pending);
                record.inventory.sort_by(|a, b| a.object.cmp(&b.object));
                record.is_stale = true;
            }
        }
        leftovers.push(LeftoverJournal { journal: Journal { models: Vec::new(), ..journal.clone() }, open_models });
    }
    (records.into_values().collect(), leftovers)
}

impl JournalObject {
    fn to_entry(&self) -> InventoryEntry {
        InventoryEntry::pending(self.object.clone(), self.prune)
    }
}
