//! Where what was seen is kept.

use super::draft_basis::DraftBasis;
use super::proposals::ProposalDesk;
use jiff::Timestamp;
use stator_cluster::cluster::AnyCluster;
use stator_view::facts::{FleetFacts, SourceFacts, whole_second};
use stator_view::link_template::LinkTemplate;
use stator_view::observation::FleetObservation;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// For so long after a draft there may be another one of the same source.
const DRAFT_INTEREST: Duration = Duration::from_secs(60);
/// The longest that a draft waits for what it is held against.
const DRAFT_WAIT: Duration = Duration::from_secs(20);

/// Takes what people ask of one source.
pub trait SourceRequests: Send + Sync {
    /// Looks and syncs now.
    fn sync_now(&self);

    /// Lets go what is held back, as a commit and the digest of a plan name it.
    fn approve(&self, commit: &str, plan: &str);
}

/// Where people ask. Clones are of the same.
#[derive(Clone)]
pub struct RequestDesk(pub Arc<dyn SourceRequests>);

impl fmt::Debug for RequestDesk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestDesk")
    }
}

/// Where people ask something of one source.
#[derive(Clone, Debug, Default)]
pub struct SourceDesks {
    /// Where pull requests are opened.
    pub proposals: Option<ProposalDesk>,
    /// Where syncs and approvals are asked for, if this process follows the source by itself.
    pub requests: Option<RequestDesk>,
    /// Its cluster, as this process reaches it.
    pub cluster: Option<AnyCluster>,
    /// Its cluster, as its syncs reach it.
    pub target: Option<AnyCluster>,
}

/// What drafts of one source are held against.
#[derive(Debug, Default)]
struct SourceDrafts {
    /// When there was the last draft.
    asked: Option<Instant>,
    basis: Option<Arc<DraftBasis>>,
}

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
    /// By namespace and name of the source.
    drafts: Mutex<BTreeMap<(String, String), SourceDrafts>>,
    /// Moves when a basis is asked for, or is there.
    draft_changes: watch::Sender<()>,
    /// By namespace and name of the source.
    desks: Mutex<BTreeMap<(String, String), SourceDesks>>,
}

impl Default for ObservationBoard {
    fn default() -> Self {
        let nothing = FleetObservation::new(0, Timestamp::now(), FleetFacts::default());
        let shared = SharedBoard {
            writing: Mutex::default(),
            observations: watch::channel(Arc::new(nothing)).0,
            drafts: Mutex::default(),
            draft_changes: watch::channel(()).0,
            desks: Mutex::default(),
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

    fn lock_drafts(&self) -> MutexGuard<'_, BTreeMap<(String, String), SourceDrafts>> {
        self.shared.drafts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts up what drafts of a source are held against; `None` where nobody drafts, and what was there is no longer true.
    pub fn set_draft_basis(&self, namespace: &str, name: &str, basis: Option<DraftBasis>) {
        let key = (namespace.to_owned(), name.to_owned());
        self.lock_drafts().entry(key).or_default().basis = basis.map(Arc::new);
        self.shared.draft_changes.send_replace(());
    }

    /// What drafts of a source are held against; waits up to 20 s for who looks at the source to put it up. `None` where
    /// the source cannot be read.
    pub async fn draft_basis(&self, namespace: &str, name: &str) -> Option<Arc<DraftBasis>> {
        let key = (namespace.to_owned(), name.to_owned());
        self.lock_drafts().entry(key.clone()).or_default().asked = Some(Instant::now());
        self.shared.draft_changes.send_replace(());
        let (mut changes, mut observations) = (self.draft_changes(), self.subscribe());
        let waiting = async {
            loop {
                changes.mark_unchanged();
                observations.mark_unchanged();
                if let Some(basis) = self.lock_drafts().get(&key)?.basis.clone() {
                    return Some(basis);
                }
                if self.source(namespace, name)?.unread.is_some() {
                    return None;
                }
                tokio::select! {
                    _ = changes.changed() => {}
                    _ = observations.changed() => {}
                }
            }
        };
        tokio::time::timeout(DRAFT_WAIT, waiting).await.ok().flatten()
    }

    /// Whether somebody drafts models of a source.
    pub fn is_drafted(&self, namespace: &str, name: &str) -> bool {
        let drafts = self.lock_drafts();
        let asked = drafts.get(&(namespace.to_owned(), name.to_owned())).and_then(|drafts| drafts.asked);
        asked.is_some_and(|asked| asked.elapsed() < DRAFT_INTEREST)
    }

    /// Whether somebody drafts models of a source, and what drafts are held against is not there.
    pub fn lacks_draft_basis(&self, namespace: &str, name: &str) -> bool {
        let key = (namespace.to_owned(), name.to_owned());
        self.is_drafted(namespace, name) && self.lock_drafts().get(&key).is_none_or(|drafts| drafts.basis.is_none())
    }

    /// Hears when a basis of drafts is asked for.
    pub fn draft_changes(&self) -> watch::Receiver<()> {
        self.shared.draft_changes.subscribe()
    }

    fn lock_desks(&self) -> MutexGuard<'_, BTreeMap<(String, String), SourceDesks>> {
        self.shared.desks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn desk<T>(&self, namespace: &str, name: &str, of: impl FnOnce(&SourceDesks) -> Option<T>) -> Option<T> {
        self.lock_desks().get(&(namespace.to_owned(), name.to_owned())).and_then(of)
    }

    /// Says where people ask something of a source.
    pub fn set_desks(&self, namespace: &str, name: &str, set: impl FnOnce(&mut SourceDesks)) {
        set(self.lock_desks().entry((namespace.to_owned(), name.to_owned())).or_default());
    }

    /// Where people ask something of a source; `None` where nobody said.
    pub fn request_desk(&self, namespace: &str, name: &str) -> Option<RequestDesk> {
        self.desk(namespace, name, |desks| desks.requests.clone())
    }

    /// Where pull requests of a source are opened; `None` where nobody said.
    pub fn proposal_desk(&self, namespace: &str, name: &str) -> Option<ProposalDesk> {
        self.desk(namespace, name, |desks| desks.proposals.clone())
    }

    /// The cluster of a source, as this process reaches it; `None` where nobody said.
    pub fn cluster(&self, namespace: &str, name: &str) -> Option<AnyCluster> {
        self.desk(namespace, name, |desks| desks.cluster.clone())
    }

    /// The cluster of a source, as its syncs reach it; `None` where nobody said.
    pub fn target(&self, namespace: &str, name: &str) -> Option<AnyCluster> {
        self.desk(namespace, name, |desks| desks.target.clone())
    }

    /// Says which links every model's page has to other tools.
    pub fn set_links(&self, links: Vec<LinkTemplate>) {
        self.change(|facts, _| {
            facts.links = links.into();
            true
        });
    }

    /// Takes a source down.
    pub fn remove_source(&self, namespace: &str, name: &str) {
        self.lock_drafts().remove(&(namespace.to_owned(), name.to_owned()));
        self.lock_desks().remove(&(namespace.to_owned(), name.to_owned()));
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
            true => before.next(version, now, facts),
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
