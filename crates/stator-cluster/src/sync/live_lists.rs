//! What the lists of a look at a cluster showed: live objects, what cannot be listed, and the bookkeeping of syncs.

use crate::cluster::ClusterError;
use rayon::prelude::*;
use stator_core::dynamo::kinds::ObjectKind;
use stator_core::object::{ObjectIdentity, ObjectRef, ObjectText};
use stator_model::plan::{self, Journal, LeftoverJournal, Record, UnlistedCause, UnlistedKind, UnreadableObject};
use std::collections::{BTreeMap, BTreeSet};

/// A kind, and what came of its list.
pub(super) type ListedKind = (&'static ObjectKind, Result<Vec<ObjectText>, ClusterError>);

/// What the lists of all kinds showed.
#[derive(Debug, Default)]
pub(super) struct LiveLists {
    pub(super) live: BTreeMap<ObjectIdentity, ObjectText>,
    /// Kinds that are not served, or may not be listed, and of which nothing is there that stator is about.
    pub(super) unserved: BTreeSet<&'static str>,
    /// Kinds that are needed and cannot be listed.
    pub(super) unlisted: Vec<UnlistedKind>,
}

impl LiveLists {
    /// Judges the answers. `is_wanted` says of which kinds models have objects, `is_named` of which models, records or
    /// journals do.
    pub(super) fn of(
        answers: Vec<ListedKind>,
        is_wanted: impl Fn(&ObjectKind) -> bool,
        is_named: impl Fn(&ObjectKind) -> bool,
    ) -> Result<Self, Box<GatherError>> {
        let mut lists = Self::default();
        for (kind, answer) in answers {
            let cause = match answer {
                Ok(objects) => {
                    lists.live.extend(objects.into_iter().map(|object| (object.reference().identity(), object)));
                    continue;
                }
                // There is nothing of a kind that is not served.
                Err(ClusterError::UnknownKind { .. }) if !is_wanted(kind) => {
                    lists.unserved.insert(kind.kind);
                    continue;
                }
                Err(ClusterError::Forbidden { .. }) if !kind.is_required() && !is_named(kind) => {
                    lists.unserved.insert(kind.kind);
                    continue;
                }
                Err(ClusterError::UnknownKind { .. }) if !kind.is_required() => UnlistedCause::NotServed,
                Err(ClusterError::Forbidden { message, fix }) if !kind.is_required() => {
                    UnlistedCause::Forbidden { message, fix }
                }
                Err(cause) => return Err(Box::new(GatherError { what: format!("{}s", kind.kind), cause })),
            };
            lists.unlisted.push(UnlistedKind { kind: *kind, cause });
        }
        Ok(lists)
    }
}

/// What syncs remembered of a namespace, as it is read.
#[derive(Debug, Default)]
pub(super) struct ReadBookkeeping {
    records: Vec<Record>,
    damaged_records: Vec<UnreadableObject>,
    journals: Vec<Journal>,
    damaged_journals: Vec<UnreadableObject>,
}

impl ReadBookkeeping {
    /// Takes in records. Those of others, too: whose they are is the plan's to say.
    pub(super) fn read_records(&mut self, objects: Vec<ObjectText>) {
        let read: Vec<_> = objects.par_iter().map(|object| (object, Record::from_object(&object.parse()))).collect();
        for (object, record) in read {
            match record {
                Ok(record) => self.records.push(record),
                Err(fault) => self.damaged_records.push(UnreadableObject {
                    object: object.reference().clone(),
                    message: fault.to_string(),
                    is_foreign: fault.is_foreign(),
                }),
            }
        }
    }

    /// Takes in the journals that there are, in place of those that were seen before.
    pub(super) fn read_journals(&mut self, objects: Vec<ObjectText>) {
        self.journals.clear();
        self.damaged_journals.clear();
        for object in objects {
            match Journal::from_object(&object.parse()) {
                Ok(journal) => self.journals.push(journal),
                Err(fault) => self.damaged_journals.push(UnreadableObject {
                    object: object.reference().clone(),
                    message: fault.to_string(),
                    is_foreign: false,
                }),
            }
        }
    }

    /// Whether something is there that cannot be read, and may name anything.
    pub(super) fn is_damaged(&self) -> bool {
        !(self.damaged_records.is_empty() && self.damaged_journals.is_empty())
    }

    /// The kinds of which something is named: by what is wanted, by a record, or by a journal.
    pub(super) fn named_kinds(&self, wanted: &[ObjectRef]) -> BTreeSet<String> {
        let recorded = self.records.iter().flat_map(|record| &record.inventory).map(|entry| &entry.object);
        let models = self.journals.iter().flat_map(|journal| &journal.models);
        let journaled = models.flat_map(|model| &model.objects).map(|one| &one.object);
        wanted.iter().chain(recorded).chain(journaled).map(|object| object.kind.clone()).collect()
    }

    /// Reads journals into records. Gives records, what is left of journals, and what cannot be read.
    pub(super) fn merge(self) -> (Vec<Record>, Vec<LeftoverJournal>, Vec<UnreadableObject>) {
        let unreadable: BTreeSet<String> = self.damaged_records.iter().map(|one| one.object.name.clone()).collect();
        let (records, journals) = plan::merge_journals(self.records, &self.journals, &unreadable);
        let damaged = self.damaged_records.into_iter().chain(self.damaged_journals).collect();
        (records, journals, damaged)
    }
}

/// Why a cluster could not be looked at.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "{what} cannot be read from the cluster, so nothing is planned (a partial view would look like removals): {cause}"
)]
pub struct GatherError {
    /// What was asked for.
    pub what: String,
    /// The cluster's answer.
    #[source]
    pub cause: ClusterError,
}
