//! The journals of a sync: the one that it writes before it creates anything, and what earlier syncs left.

use super::context::{FIRST_RETRY_DELAY, JournalGate, MAX_RETRY_DELAY};
use super::protocol::{JournalWriteResult, MachineEffect, MachineSettings};
use crate::cluster::ClusterError;
use stator_core::retry::{JitterSource, backoff_delay};
use stator_model::plan::{Journal, JournalModel, LeftoverJournal};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The journal objects that a sync has to do with.
#[derive(Debug, Default)]
pub(super) struct JournalKeeper {
    parts: Vec<JournalPart>,
    /// The part that names what a model is to create.
    part_of_model: BTreeMap<String, usize>,
    /// Models whose records are somebody else's: what a journal says of them stays.
    foreign_models: BTreeSet<String>,
    /// No model is left that could create anything.
    is_closed: bool,
}

/// One journal object.
#[derive(Debug)]
struct JournalPart {
    journal: Journal,
    state: JournalState,
    /// Models whose records do not name yet what this does.
    open_models: BTreeSet<String>,
    /// Tries of the next call.
    attempt: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum JournalState {
    /// Nobody has asked for it: it may be that nothing of it is ever created.
    Unneeded,
    /// It is to be written, not before that time.
    Unwritten(Duration),
    Writing,
    /// It could not be written, and why.
    Failed(String),
    /// It is there, and may be deleted from that time on.
    Stored(Duration),
    Deleting,
    /// It is gone, or left to the next sync.
    Finished,
}

impl JournalKeeper {
    /// The journal of everything that models are to create and no record names, by namespace, and `leftovers` of earlier
    /// syncs.
    pub(super) fn new(
        head: &Journal,
        entries: impl IntoIterator<Item = (String, JournalModel)>,
        leftovers: Vec<LeftoverJournal>,
        foreign_models: BTreeSet<String>,
        jitter: &mut JitterSource,
    ) -> Self {
        let mut by_namespace: BTreeMap<String, Vec<JournalModel>> = BTreeMap::new();
        for (namespace, entry) in entries {
            by_namespace.entry(namespace).or_default().push(entry);
        }
        let mut keeper = Self { foreign_models, ..Self::default() };
        for (namespace, entries) in by_namespace {
            let head = Journal { name: random_name(jitter), namespace, ..head.clone() };
            for journal in head.split(entries) {
                let open_models: BTreeSet<String> = journal.models.iter().map(|one| one.model.clone()).collect();
                let part = keeper.parts.len();
                keeper.part_of_model.extend(open_models.iter().map(|model| (model.clone(), part)));
                keeper.parts.push(JournalPart { journal, state: JournalState::Unneeded, open_models, attempt: 0 });
            }
        }
        let leftovers = leftovers.into_iter().map(|left| {
            let LeftoverJournal { journal, open_models } = left;
            JournalPart { journal, state: JournalState::Stored(Duration::ZERO), open_models, attempt: 0 }
        });
        keeper.parts.extend(leftovers);
        keeper
    }

    /// Whether a model may create what no record names.
    pub(super) fn gate_of(&self, model: &str) -> JournalGate {
        // What has no part is named by what an earlier sync left.
        let Some(part) = self.part_of_model.get(model).and_then(|part| self.parts.get(*part)) else {
            return JournalGate::Open;
        };
        match &part.state {
            JournalState::Unneeded | JournalState::Unwritten(_) | JournalState::Writing => JournalGate::Closed,
            JournalState::Failed(why) => JournalGate::Failed(why.clone()),
            JournalState::Stored(_) | JournalState::Deleting | JournalState::Finished => JournalGate::Open,
        }
    }

    /// A model is about to create something.
    pub(super) fn request(&mut self, model: &str, now: Duration) {
        if let Some(part) = self.part_of_model.get(model).and_then(|part| self.parts.get_mut(*part))
            && part.state == JournalState::Unneeded
        {
            part.state = JournalState::Unwritten(now);
        }
    }

    /// Whether any journal waits for a model's record.
    pub(super) fn awaits_record_of(&self, model: &str) -> bool {
        self.parts.iter().any(|part| part.open_models.contains(model))
    }

    /// The record of a model names what journals do.
    pub(super) fn mark_recorded(&mut self, model: &str) {
        if self.foreign_models.contains(model) {
            return;
        }
        for part in &mut self.parts {
            part.open_models.remove(model);
        }
    }

    /// No model is left that could create anything: what was not written need not be.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        for part in &mut self.parts {
            if matches!(part.state, JournalState::Unwritten(_)) {
                part.state = JournalState::Finished;
            }
        }
    }

    /// Whether nothing is left to be done about any, now that all models are through.
    pub(super) fn is_done(&self) -> bool {
        self.parts.iter().all(|part| match part.state {
            JournalState::Unwritten(_) | JournalState::Writing | JournalState::Deleting => false,
            JournalState::Stored(_) => !part.open_models.is_empty(),
            JournalState::Unneeded | JournalState::Failed(_) | JournalState::Finished => true,
        })
    }

    /// When something is to be done although nothing happens.
    pub(super) fn wake_at(&self) -> Option<Duration> {
        let due = self.parts.iter().filter_map(|part| match part.state {
            JournalState::Unwritten(at) => Some(at),
            JournalState::Stored(at) if part.open_models.is_empty() => Some(at),
            JournalState::Unneeded
            | JournalState::Stored(_)
            | JournalState::Writing
            | JournalState::Deleting
            | JournalState::Failed(_)
            | JournalState::Finished => None,
        });
        due.min()
    }

    /// The next call about a journal, where one is due.
    pub(super) fn next_call(&mut self, now: Duration) -> Option<MachineEffect> {
        for (index, part) in self.parts.iter_mut().enumerate() {
            match part.state {
                JournalState::Unwritten(at) if at <= now => {
                    part.state = JournalState::Writing;
                    return Some(MachineEffect::WriteJournal { part: index, journal: Box::new(part.journal.clone()) });
                }
                JournalState::Stored(at) if at <= now && part.open_models.is_empty() => {
                    part.state = JournalState::Deleting;
                    let Journal { name, namespace, uid, .. } = &part.journal;
                    let (name, namespace, uid) = (name.clone(), namespace.clone(), uid.clone());
                    return Some(MachineEffect::DeleteJournal { part: index, namespace, name, uid });
                }
                JournalState::Unneeded
                | JournalState::Unwritten(_)
                | JournalState::Stored(_)
                | JournalState::Writing
                | JournalState::Deleting
                | JournalState::Failed(_)
                | JournalState::Finished => {}
            }
        }
        None
    }

    /// A call about a journal came back. Once the sync is stopped, nothing is tried again. How many writes the cluster carried out; `None` for an answer to nothing.
    pub(super) fn handle_result(
        &mut self,
        settings: &MachineSettings,
        (now, is_stopped): (Duration, bool),
        index: usize,
        result: Result<JournalWriteResult, ClusterError>,
        jitter: &mut JitterSource,
    ) -> Option<usize> {
        let part = self.parts.get_mut(index)?;
        let is_write = match part.state {
            JournalState::Writing => true,
            JournalState::Deleting => false,
            JournalState::Unneeded
            | JournalState::Unwritten(_)
            | JournalState::Stored(_)
            | JournalState::Failed(_)
            | JournalState::Finished => return None,
        };
        let error = match result {
            Ok(JournalWriteResult { writes, uid }) => {
                part.attempt = 0;
                if is_write {
                    part.journal.uid = uid;
                    part.journal.models = Vec::new();
                    part.state = JournalState::Stored(now);
                } else {
                    part.state = JournalState::Finished;
                }
                return Some(writes);
            }
            Err(error) => error,
        };
        part.attempt += 1;
        let is_needed = !(is_stopped || (is_write && self.is_closed));
        let may_try = is_needed && part.attempt < settings.attempts.max(1);
        let delay = backoff_delay(FIRST_RETRY_DELAY, MAX_RETRY_DELAY, part.attempt - 1, jitter.next_u64());
        part.state = match (error.retry_delay(), is_write) {
            (Some(asked), true) if may_try => JournalState::Unwritten(now + delay.max(asked)),
            (Some(asked), false) if may_try => JournalState::Stored(now + delay.max(asked)),
            (None, true) if may_try && matches!(error, ClusterError::Precondition { .. }) => {
                // Another sync has that name.
                part.journal.name = random_name(jitter);
                JournalState::Unwritten(now)
            }
            (Some(_) | None, true) => JournalState::Failed(format!("{error}; {}", error.help())),
            // What stays is read by the next sync, and deleted then.
            (Some(_) | None, false) => JournalState::Finished,
        };
        Some(0)
    }
}

/// A name that no other sync has.
fn random_name(jitter: &mut JitterSource) -> String {
    format!("sync-{:016x}", jitter.next_u64())
}
