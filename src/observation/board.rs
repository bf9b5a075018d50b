//! Where what was seen is kept.

use super::draft_basis::DraftBasis;
use jiff::Timestamp;
use stator_view::facts::{FleetFacts, SourceFacts, whole_second};
use stator_view::observation::FleetObservation;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// What was seen last of every source. Clones are the same.
#[derive(Clone, Debug)]
pub struct ObservationBoard {
    shared: Arc<SharedBoard>,
}

#[derive(Debug)]
struct SharedBoard {
    /// Whoever writes holds it.
    writing: Mutex<()>,
    observations: watch::Sender<Arc<FleetObservation>>,
    /// What drafts are held against, by namespace and name of the source.
    drafts: Mutex<BTreeMap<(String, String), Arc<DraftBasis>>>,
}

impl Default for ObservationBoard {
    fn default() -> Self {
        let nothing = FleetObservation::new(0, Timestamp::now(), FleetFacts::default());
        let shared = SharedBoard {
            writing: Mutex::default(),
            observations: watch::channel(Arc::new(nothing)).0,
            drafts: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }
}

impl ObservationBoard {
    /// What is known now.
    pub fn observation(&self) -> Arc<FleetObservation> {
        Arc::clone(&self.shared.observations.borrow())
    }

    /// Hears of every observation from now on. One that says what the last one said has its version.
    pub fn subscribe(&self) -> watch::Receiver<Arc<FleetObservation>> {
        self.shared.observations.subscribe()
    }

    /// What is known of a source.
    pub fn source(&self, namespace: &str, name: &str) -> Option<Arc<SourceFacts>> {
        let observation = self.observation();
        let found = observation
            .facts
            .sources
            .iter()
            .find(|one| (one.namespace.as_str(), one.name.as_str()) == (namespace, name));
        found.cloned()
    }

    /// Puts a source up, in place of what was known of it.
    pub fn set_source(&self, source: SourceFacts) {
        self.set_source_while(source, || true);
    }

    /// The same, unless who looked is no longer to: a source that was taken down does not come back by a late look.
    pub fn set_source_while(&self, source: SourceFacts, is_wanted: impl FnOnce() -> bool) {
        self.change(|facts, next| {
            if !is_wanted() {
                return false;
            }
            let sources = &mut facts.sources;
            let key = |one: &SourceFacts| (one.namespace.clone(), one.name.clone());
            match sources.binary_search_by_key(&key(&source), |one| key(one)) {
                Ok(at) => {
                    let changed_in = sources.get(at).map_or(0, |known| known.changed_in);
                    let source = SourceFacts { changed_in, ..source };
                    if sources.get(at).is_some_and(|known| **known == source) {
                        return false;
                    }
                    sources.splice(at..=at, [Arc::new(SourceFacts { changed_in: next, ..source })]);
                }
                Err(at) => sources.insert(at, Arc::new(SourceFacts { changed_in: next, ..source })),
            }
            true
        });
    }

    /// Puts up what drafts of a source are held against.
    pub fn set_draft_basis(&self, namespace: &str, name: &str, basis: DraftBasis) {
        let mut drafts = self.shared.drafts.lock().unwrap_or_else(PoisonError::into_inner);
        drafts.insert((namespace.to_owned(), name.to_owned()), Arc::new(basis));
    }

    /// What drafts of a source are held against, where that is known.
    pub fn draft_basis(&self, namespace: &str, name: &str) -> Option<Arc<DraftBasis>> {
        let drafts = self.shared.drafts.lock().unwrap_or_else(PoisonError::into_inner);
        drafts.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Takes a source down.
    pub fn remove_source(&self, namespace: &str, name: &str) {
        let mut drafts = self.shared.drafts.lock().unwrap_or_else(PoisonError::into_inner);
        drafts.remove(&(namespace.to_owned(), name.to_owned()));
        drop(drafts);
        self.change(|facts, next| {
            let before = facts.sources.len();
            facts.sources.retain(|one| (one.namespace.as_str(), one.name.as_str()) != (namespace, name));
            let is_removed = facts.sources.len() != before;
            if is_removed {
                facts.removed_in = next;
            }
            is_removed
        });
    }

    /// Changes the facts, which have the next version then; `change` says whether anything is different.
    fn change(&self, change: impl FnOnce(&mut FleetFacts, u64) -> bool) {
        let _writing = self.shared.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.observation();
        let mut facts = before.facts.clone();
        let now = whole_second(Timestamp::now());
        let version = before.version.wrapping_add(1);
        let next = match change(&mut facts, version) {
            true => FleetObservation::new(version, now, facts),
            false => before.seen_again(now),
        };
        self.shared.observations.send_replace(Arc::new(next));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, phase: &str) -> SourceFacts {
        SourceFacts { name: name.to_owned(), phase: phase.to_owned(), ..SourceFacts::default() }
    }

    #[test]
    fn only_what_is_different_has_another_version() {
        let board = ObservationBoard::default();
        board.set_source(source("b", "Idle"));
        board.set_source(source("a", "Idle"));
        let first = board.observation();
        board.set_source(source("a", "Idle"));
        assert_eq!((first.version, board.observation().version), (2, 2));
        assert!(board.observation().as_of >= first.as_of);
        board.set_source(source("a", "Syncing"));
        let names = |board: &ObservationBoard| -> Vec<String> {
            board.observation().facts.sources.iter().map(|one| format!("{} {}", one.name, one.phase)).collect()
        };
        assert_eq!(
            (board.observation().version, names(&board)),
            (3, vec!["a Syncing".to_owned(), "b Idle".to_owned()])
        );
        board.remove_source("", "a");
        assert_eq!((board.observation().version, names(&board)), (4, vec!["b Idle".to_owned()]));
        board.remove_source("", "a");
        board.set_source_while(source("a", "Late"), || false);
        assert_eq!((board.observation().version, names(&board).len()), (4, 1));
    }
}
