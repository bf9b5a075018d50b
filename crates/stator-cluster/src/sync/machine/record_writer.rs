//! One model's record while it is synced: what it said, what a journal must say before the first write, and what it must
//! say itself after the last.

use super::protocol::{ClusterCall, ExpectedRecord, RecordWriteResult};
use stator_core::dynamo::health::Health;
use stator_core::object::{Object, ObjectIdentity, ObjectRef};
use stator_model::plan::{
    Action, Change, DeleteStep, InventoryEntry, JournalModel, JournalObject, ObservedModelState, PlanStep, Record,
    RecordState, SourceIdentity, SyncHistoryEntry, SyncState, is_uncommitted,
};
use std::collections::{BTreeMap, BTreeSet};

/// The outcomes that a record keeps.
const MAX_HISTORY: usize = 10;

/// The bookkeeping of one model.
#[derive(Debug)]
pub(super) struct RecordWriter {
    /// As the cluster has it, as far as known.
    stored: Option<Record>,
    /// What is true now.
    entries: BTreeMap<ObjectIdentity, InventoryEntry>,
    /// What is about to be applied.
    intended: BTreeMap<ObjectIdentity, InventoryEntry>,
    /// What goes once another has taken its place.
    outgoing: BTreeSet<ObjectIdentity>,
    /// The record without inventory and history.
    template: Record,
    /// Something was written, or may have been.
    has_written: bool,
    /// The cluster has what git says and the record does not know it: a sync ended before it could say so.
    caught_up: bool,
    /// This sync's outcome heads the history already.
    in_history: bool,
    /// What was done, for the history.
    history_lines: Vec<String>,
    /// What cannot be read is in the record's place, and is written over.
    replaces_unreadable: bool,
    /// The labels of owners that objects of this model may have: whose it is, and whose it was until now.
    owner_ids: BTreeSet<String>,
    /// What is wrong with the model's files, in a sentence: nothing is done for it, and its health is not judged.
    file_fault: Option<String>,
    /// What was wrong with them before a sync that does not look at them.
    kept_fault: Option<String>,
}

/// How a model's sync has gone so far, for its record.
pub(super) struct SyncEnding<'a> {
    /// When, RFC 3339 in UTC.
    pub time: &'a str,
    /// The word of [`SyncHistoryEntry::result`].
    pub result: &'a str,
    /// One sentence.
    pub message: &'a str,
    /// The cluster refused a write, which is worth a line in the history although nothing changed.
    pub refused: bool,
    /// Health was waited for to its end, which is worth a status although nothing changed.
    pub waited: bool,
    /// How the model stands.
    pub seen: ObservedModelState,
}

/// A record to be written, and which parts of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RecordWrite {
    pub record: Record,
    pub expected: ExpectedRecord,
    pub object: bool,
    pub status: bool,
}

impl RecordWrite {
    pub(super) fn to_call(&self) -> ClusterCall {
        let Self { record, expected, object, status } = self.clone();
        ClusterCall::WriteRecord { record: Box::new(record), expected, object, status }
    }
}

impl RecordWriter {
    /// `template` is the record as git has it now, without inventory and history.
    pub(super) fn new(stored: Option<Record>, mut template: Record, replaces_unreadable: bool) -> Self {
        let owners = template.owner.iter().chain(stored.iter().filter_map(|record| record.owner.as_ref()));
        let owner_ids = owners.map(SourceIdentity::owner_id).collect();
        template.generation = stored.as_ref().and_then(|record| record.generation);
        template.observed_generation = stored.as_ref().and_then(|record| record.observed_generation);
        let entries = stored.iter().flat_map(|record| &record.inventory);
        Self {
            entries: entries.map(|entry| (entry.object.identity(), entry.clone())).collect(),
            intended: BTreeMap::new(),
            outgoing: BTreeSet::new(),
            template,
            stored,
            has_written: false,
            caught_up: false,
            in_history: false,
            history_lines: Vec::new(),
            replaces_unreadable,
            owner_ids,
            file_fault: None,
            kept_fault: None,
        }
    }

    /// Whether the record says that all is as git says, and well.
    pub(super) fn says_healthy(&self) -> bool {
        let state = self.stored.as_ref().and_then(|stored| stored.state.as_ref());
        state.is_some_and(|state| state.sync == SyncState::Synced && state.health == Health::Healthy)
    }

    /// The SKU of the GPUs that the record tells of.
    pub(super) fn recorded_sku(&self) -> Option<String> {
        self.stored.as_ref()?.state.as_ref()?.gpu_sku.clone()
    }

    /// Whether the label of an owner is one that this model's objects may have. What is from before there was one has none.
    pub(super) fn accepts_owner(&self, owner_id: Option<&str>) -> bool {
        owner_id.is_none_or(|id| self.owner_ids.contains(id))
    }

    /// What a write of the record must find.
    fn expected(&self) -> ExpectedRecord {
        match &self.stored {
            Some(stored) if !stored.is_journaled => ExpectedRecord::Present {
                uid: stored.uid.clone(),
                resource_version: stored.resource_version.clone(),
                owner: stored.owner.clone(),
            },
            Some(_) | None if self.replaces_unreadable => ExpectedRecord::Unreadable,
            Some(_) | None => ExpectedRecord::Absent,
        }
    }

    /// Takes in what is wrong with the model's files.
    pub(super) fn set_file_fault(&mut self, fault: Option<String>) {
        self.file_fault = fault;
    }

    /// What the record says is wrong with the model's files stays said.
    pub(super) fn keep_file_fault(&mut self) {
        let state = self.stored.as_ref().and_then(|stored| stored.state.as_ref());
        self.kept_fault = state.and_then(RecordState::file_fault).map(|condition| condition.message.clone());
    }

    /// Puts right what an interrupted sync, or a person, left in the record: objects that nothing is to be done about
    /// get the uid that the plan saw, and entries of objects that are no longer there go.
    pub(super) fn repair_inventory(&mut self, changes: &[Change], retired: bool) {
        let mentioned: BTreeSet<ObjectIdentity> = changes.iter().map(|change| change.object.identity()).collect();
        self.entries.retain(|identity, _| mentioned.contains(identity));
        for change in changes {
            let identity = change.object.identity();
            match (&change.step, &change.inventory) {
                // What is held back or blocked was not applied: the digest stays that of what was.
                (PlanStep::Held { .. }, Some(entry)) | (PlanStep::NoWrite, Some(entry))
                    if change.action != Action::Keep =>
                {
                    let digest = self.entries.get(&identity).map(|known| known.digest.clone()).unwrap_or_default();
                    if entry.uid.is_some() {
                        let generation = self.entries.get(&identity).map_or(entry.generation, |known| known.generation);
                        self.entries.insert(identity, InventoryEntry { digest, generation, ..entry.clone() });
                    }
                }
                (PlanStep::Held { .. } | PlanStep::NoWrite, Some(entry)) => {
                    let same = self.entries.get(&identity).is_some_and(|known| {
                        // The generation moves with every scaling: it is no reason to write.
                        let InventoryEntry { object, uid, generation: _, digest, prune } = known;
                        (object, uid, digest, prune) == (&entry.object, &entry.uid, &entry.digest, &entry.prune)
                    });
                    self.caught_up |= self.entries.get(&identity).is_some_and(|known| known.digest != entry.digest);
                    if !same && entry.uid.is_some() {
                        self.entries.insert(identity, entry.clone());
                    }
                }
                // Of a model that is gone: weights that outlive it are no longer this record's.
                (PlanStep::NoWrite, None) if retired && change.action == Action::Keep => {
                    self.entries.remove(&identity);
                }
                (PlanStep::NoWrite | PlanStep::Held { .. }, None)
                | (PlanStep::AwaitGone { .. } | PlanStep::Write(_), _) => {}
            }
        }
    }

    /// An apply is coming.
    pub(super) fn mark_intended(&mut self, entry: &InventoryEntry) {
        self.intended.insert(entry.object.identity(), entry.clone());
    }

    /// What is to be applied, or goes once another has its place, that the record does not name. A journal that another sync
    /// left does not count: it may go at any moment.
    fn unrecorded(&self) -> impl Iterator<Item = &InventoryEntry> {
        let stored = self.stored.iter().flat_map(|record| {
            record.inventory.iter().filter(|entry| !record.journaled_objects.contains(&entry.object))
        });
        let named: BTreeSet<ObjectIdentity> = stored.map(|entry| entry.object.identity()).collect();
        let outgoing = self.entries.iter().filter(|(identity, _)| self.outgoing.contains(*identity));
        let named_first = self.intended.iter().chain(outgoing);
        named_first.filter(move |(identity, _)| !named.contains(*identity)).map(|(_, entry)| entry)
    }

    /// Whether something is to be applied that a journal has to name first.
    pub(super) fn needs_journal(&self) -> bool {
        self.unrecorded().next().is_some()
    }

    /// What a journal has to name of the model, and in which namespace; `None` when there is nothing.
    pub(super) fn to_journal_entry(&self) -> Option<(String, JournalModel)> {
        let named = self.unrecorded().map(|entry| JournalObject { object: entry.object.clone(), prune: entry.prune });
        let objects: Vec<JournalObject> = named.collect();
        let Record { model, namespace, source, .. } = &self.template;
        let entry = JournalModel { model: model.clone(), source: source.clone(), objects };
        (!entry.objects.is_empty()).then(|| (namespace.clone(), entry))
    }

    /// Whether the stored record names every object that may exist, those that are to be applied yet among them.
    pub(super) fn is_recorded(&self, is_pending: impl Fn(&ObjectIdentity) -> bool) -> bool {
        let stored = self.stored.iter().filter(|record| !record.is_journaled && !record.is_stale);
        let named: BTreeSet<ObjectIdentity> =
            stored.flat_map(|record| &record.inventory).map(|entry| entry.object.identity()).collect();
        let pending = self.intended.keys().filter(|identity| is_pending(identity));
        self.entries.keys().chain(pending).all(|identity| named.contains(identity))
    }

    /// Whether there is a record.
    pub(super) fn is_stored(&self) -> bool {
        self.stored.as_ref().is_some_and(|record| !record.is_journaled)
    }

    /// Whether a record is stored that has been given a status.
    pub(super) fn has_status(&self) -> bool {
        self.stored.as_ref().is_some_and(|record| record.state.is_some())
    }

    /// A graph goes once another has taken its place: until then the record names both, or nobody could tell any more
    /// that it was stator's.
    pub(super) fn mark_outgoing(&mut self, delete: &DeleteStep) {
        let entry =
            InventoryEntry { uid: Some(delete.uid.clone()), ..InventoryEntry::pending(delete.object.clone(), true) };
        self.outgoing.insert(delete.object.identity());
        self.entries.entry(delete.object.identity()).or_insert(entry);
    }

    /// An apply is sent: from now on the object may exist.
    pub(super) fn mark_sent(&mut self, entry: &InventoryEntry) {
        self.entries.entry(entry.object.identity()).or_insert_with(|| InventoryEntry { uid: None, ..entry.clone() });
    }

    /// What is in the place of an object that was to be created is somebody else's: nothing of it is this model's.
    pub(super) fn mark_not_created(&mut self, identity: &ObjectIdentity) {
        let mut stored = self.stored.iter().flat_map(|record| &record.inventory);
        if stored.all(|entry| entry.object.identity() != *identity) {
            self.entries.remove(identity);
        }
    }

    /// An apply came back.
    pub(super) fn mark_applied(&mut self, entry: &InventoryEntry, live: &Object, wrote: bool) {
        self.has_written |= wrote;
        self.entries.insert(
            entry.object.identity(),
            InventoryEntry { uid: live.uid().map(str::to_owned), generation: live.generation(), ..entry.clone() },
        );
    }

    /// The uid that an apply of this sync, or an earlier one, gave.
    pub(super) fn uid(&self, identity: &ObjectIdentity) -> Option<&str> {
        self.entries.get(identity)?.uid.as_deref()
    }

    /// The deletion of an object was asked for, and it waits for its finalizers: until it is gone the record names it.
    pub(super) fn mark_deletion_requested(&mut self) {
        self.has_written = true;
    }

    /// An object is gone.
    pub(super) fn mark_deleted(&mut self, identity: &ObjectIdentity, wrote: bool) {
        self.has_written |= wrote;
        self.entries.remove(identity);
    }

    /// Something stays that an object which went had made: the record names it, so that it is not forgotten.
    pub(super) fn mark_left(&mut self, object: &ObjectRef, uid: &str) {
        let entry = InventoryEntry { uid: Some(uid.to_owned()), ..InventoryEntry::pending(object.clone(), false) };
        self.entries.insert(object.identity(), entry);
    }

    /// A line for the history.
    pub(super) fn add_history_line(&mut self, line: String) {
        self.history_lines.push(line);
    }

    /// What is to be written of the record now, `None` when the stored one says the same.
    /// What is still to be applied in this sync stays in it, so that it need not be written again before that.
    pub(super) fn next_write(
        &self,
        ending: SyncEnding<'_>,
        is_pending: impl Fn(&ObjectIdentity) -> bool,
    ) -> Option<RecordWrite> {
        let SyncEnding { time, result, message, refused, waited, seen } = ending;
        let pending = self.intended.iter().filter(|(identity, _)| !self.entries.contains_key(*identity));
        let pending = pending.filter(|(identity, _)| is_pending(identity)).map(|(_, entry)| entry);
        let inventory = sort_inventory(self.entries.values().chain(pending).cloned());
        let outcome = SyncHistoryEntry {
            time: time.to_owned(),
            revision: self.template.revision.clone(),
            result: result.to_owned(),
            message: message.to_owned(),
            changes: self.history_lines.clone(),
        };
        // A sync that fails alike every minute is one line, not one a minute; one that did nothing is none.
        let alike = self.history().first().is_some_and(|newest| {
            let SyncHistoryEntry { time: _, revision, result, message, changes } = newest;
            (revision, result, message) == (&outcome.revision, &outcome.result, &outcome.message)
                && (*changes == outcome.changes || outcome.changes.is_empty())
        });
        let news = if self.has_written { !(self.in_history && alike) } else { refused && !alike };
        let history = if news {
            let earlier = self.history().get(usize::from(self.in_history)..).unwrap_or_default();
            std::iter::once(outcome).chain(earlier.iter().cloned()).take(MAX_HISTORY).collect()
        } else {
            self.history().to_vec()
        };
        let mut record = Record { inventory, history, ..self.template.clone() };
        let mut is_fresh = self.has_written || self.caught_up;
        if let Some(stored) = &self.stored {
            // An inventory that is put right is that of a sync which was interrupted after its last apply.
            is_fresh |= stored.has_stale_status() || stored.is_stale || stored.inventory != record.inventory;
            // What was synced from files that no commit had is in one now.
            is_fresh |= is_uncommitted(&stored.revision) && !is_uncommitted(&record.revision);
            if !is_fresh {
                // What nothing was done for is as it was: a commit that changes no object is no reason to write.
                record.revision.clone_from(&stored.revision);
                record.source.clone_from(&stored.source);
                record.intent.clone_from(&stored.intent);
            }
        }
        let before = self.stored.as_ref().and_then(|stored| stored.state.as_ref());
        let is_judged = self.file_fault.is_none() && (is_fresh || news || waited || self.stored.is_none());
        let state = if is_judged { Some(RecordState::new(seen, time, before)) } else { before.cloned() };
        let fault = self.file_fault.as_ref().or(self.kept_fault.as_ref());
        record.state = state.map(|state| state.with_file_fault(fault.map(String::as_str), time, before));
        let (object, status) = match &self.stored {
            Some(stored) if !stored.is_journaled => {
                (!stored.has_same_object(&record), stored.has_stale_status() || !stored.has_same_status(&record))
            }
            Some(_) | None if record.inventory.is_empty() && record.history.is_empty() => (false, false),
            Some(_) | None => (true, true),
        };
        // A status is about a generation: a new object gets a new status.
        (object || status).then(|| RecordWrite { record, expected: self.expected(), object, status: true })
    }

    /// The record as stored, when there is one and nothing is left in it: it may go.
    pub(super) fn record_to_delete(&self) -> Option<Record> {
        self.stored.clone().filter(|stored| self.entries.is_empty() && !stored.is_journaled)
    }

    /// Whether anything is left that a record has to name.
    pub(super) fn has_entries(&self) -> bool {
        !self.entries.is_empty()
    }

    /// The record was written.
    pub(super) fn mark_stored(&mut self, write: RecordWrite, result: RecordWriteResult) {
        let RecordWrite { mut record, expected: _, object: _, status } = write;
        let RecordWriteResult { writes: _, generation, uid } = result;
        record.generation = generation;
        // It has another resource version now; which one nobody needs before the next sync reads it.
        record.uid = uid.or_else(|| self.stored.as_ref().and_then(|stored| stored.uid.clone()));
        self.replaces_unreadable = false;
        if status {
            // Any record after the first write that does not leave the history alone heads it.
            self.in_history |= record.history.first() != self.history().first();
            record.observed_generation = generation;
        } else {
            record = record.to_pending_write(self.stored.as_ref());
        }
        self.template.generation = generation;
        self.template.observed_generation = record.observed_generation;
        self.stored = Some(record);
    }

    /// The record is gone.
    pub(super) fn mark_retired(&mut self) {
        self.stored = None;
    }

    fn history(&self) -> &[SyncHistoryEntry] {
        self.stored.as_ref().map(|record| record.history.as_slice()).unwrap_or_default()
    }
}

fn sort_inventory(entries: impl Iterator<Item = InventoryEntry>) -> Vec<InventoryEntry> {
    let mut entries: Vec<InventoryEntry> = entries.collect();
    entries.sort_by(|a, b| a.object.cmp(&b.object));
    entries
}
