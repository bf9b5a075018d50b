//! What one namespace holds, kept up to date by a list and a watch of each kind.

use super::shelf::{Kept, News, Shelf, version_of};
use stator_cluster::cluster::kube::{Kube, Told};
use stator_cluster::cluster::{ClusterError, WatchEvent};
use stator_cluster::sync::steady::KINDS;
use stator_core::dynamo::kinds::Kind;
use stator_core::object::{Object, ObjectRef};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How long a reader waits for the first list.
const FILLING: Duration = Duration::from_secs(60);
/// How long a reader waits for a watch that is being opened again.
const BEHIND: Duration = Duration::from_secs(10);
/// How many events a watcher may be behind before it is told to list again.
const CAPACITY: usize = 4096;

/// A namespace that is kept. Ends when it is dropped.
#[derive(Debug)]
pub(super) struct Cache {
    state: Arc<Keeping>,
    _tasks: JoinSet<()>,
}

/// How well a kind is known.
#[derive(Clone, Debug)]
enum Standing {
    /// A list is under way.
    Filling,
    /// Everything is known.
    Whole,
    /// There may be news that nobody has heard of.
    Behind(ClusterError),
    /// Nothing is known.
    Failed(ClusterError),
}

#[derive(Debug)]
struct Row {
    shelf: Shelf,
    standing: Standing,
    /// How many lists have failed.
    failures: u64,
    /// Whether it was whole at least once: who watches from before the first list reads that.
    begun: bool,
}

#[derive(Debug)]
struct State {
    rows: Vec<Row>,
    watchers: Vec<Watcher>,
    /// Resource versions are no numbers here: nothing can be kept.
    opaque: bool,
}

#[derive(Debug)]
struct Watcher {
    kinds: Vec<usize>,
    queue: mpsc::Sender<WatchEvent>,
    /// What was known when it began and the watch had not told yet: up to those versions it is no news.
    before: HashMap<Box<str>, u64>,
    /// The last place, kept for the word that events were lost.
    last: Option<mpsc::OwnedPermit<WatchEvent>>,
}

#[derive(Debug)]
struct Keeping {
    state: Mutex<State>,
    /// Counts changes of how well something is known.
    turns: watch::Sender<u64>,
    nudges: Vec<Notify>,
}

/// The place of a kind among those that are kept.
pub(super) fn place_of(kind: &Kind) -> Option<usize> {
    KINDS.iter().position(|known| known == kind)
}

/// The place of an object's kind, at the version that is kept.
pub(super) fn place_of_object(object: &ObjectRef) -> Option<usize> {
    KINDS.iter().position(|known| known.kind == object.kind && known.api_version() == object.api_version)
}

impl Cache {
    /// Begins to keep a namespace.
    pub(super) fn keep(cluster: &Kube, namespace: &str) -> Self {
        let row = || Row { shelf: Shelf::default(), standing: Standing::Filling, failures: 0, begun: false };
        let state = State { rows: KINDS.iter().map(|_| row()).collect(), watchers: Vec::new(), opaque: false };
        let (turns, _) = watch::channel(0);
        let nudges = KINDS.iter().map(|_| Notify::new()).collect();
        let state = Arc::new(Keeping { state: Mutex::new(state), turns, nudges });
        let mut tasks = JoinSet::new();
        for (at, kind) in KINDS.iter().enumerate() {
            let (state, cluster, namespace) = (Arc::clone(&state), cluster.clone(), namespace.to_owned());
            tasks.spawn(async move {
                let Some(nudge) = state.nudges.get(at) else { return };
                cluster.follow(kind, &namespace, nudge, &|told| state.hear(at, told)).await;
            });
        }
        Self { state, _tasks: tasks }
    }

    /// Waits until everything of a kind is known.
    ///
    /// # Errors
    /// When it cannot be had: what is known is a part, and a part looks like removals.
    pub(super) async fn whole(&self, at: usize) -> Result<(), ClusterError> {
        let mut turns = self.state.turns.subscribe();
        let (began, mut nudged) = (Instant::now(), false);
        let before = self.state.row(at, |row| row.failures).unwrap_or_default();
        loop {
            turns.borrow_and_update();
            let Some((standing, failures)) = self.state.row(at, |row| (row.standing.clone(), row.failures)) else {
                return Err(ClusterError::transient("the kind is not kept"));
            };
            let (patience, error) = match standing {
                Standing::Whole => return Ok(()),
                Standing::Failed(error) if failures > before => return Err(error),
                Standing::Failed(error) => {
                    if !std::mem::replace(&mut nudged, true) {
                        self.state.nudge(at);
                    }
                    (FILLING, error)
                }
                Standing::Behind(error) => (BEHIND, error),
                Standing::Filling => (FILLING, ClusterError::transient("the first list of the cluster goes on")),
            };
            if tokio::time::timeout_at(began + patience, turns.changed()).await.is_err() {
                return Err(error);
            }
        }
    }

    /// Everything of a kind that may have these labels.
    pub(super) fn select(&self, at: usize, labels: &BTreeMap<String, String>) -> Vec<Arc<Kept>> {
        self.state.row(at, |row| row.shelf.select(labels)).unwrap_or_default()
    }

    /// Everything of a kind: name, version, and whether it may have these labels.
    pub(super) fn lines(&self, at: usize, labels: &BTreeMap<String, String>, tell: impl FnMut(&str, u64, bool)) {
        self.state.row(at, |row| row.shelf.lines(labels, tell));
    }

    /// What is known of an object, and whether that is in doubt.
    pub(super) fn get(&self, at: usize, name: &str) -> (Option<Arc<Kept>>, bool) {
        self.state.row(at, |row| (row.shelf.get(name), row.shelf.is_doubted(name))).unwrap_or_default()
    }

    /// Objects in doubt.
    pub(super) fn doubted(&self, at: usize) -> Vec<String> {
        self.state.row(at, |row| row.shelf.doubted()).unwrap_or_default()
    }

    /// The cluster answered with an object.
    pub(super) fn answered(&self, at: usize, object: &Object) {
        if let Some(version) = object.resource_version().and_then(version_of) {
            self.state.row(at, |row| row.shelf.answered(object, version));
        }
    }

    /// The cluster answered that an object is gone.
    pub(super) fn gone(&self, at: usize, name: &str, uid: &str) {
        self.state.row(at, |row| row.shelf.gone(name, uid));
    }

    /// An object is not as we thought.
    pub(super) fn doubt(&self, at: usize, name: &str) {
        self.state.row(at, |row| row.shelf.doubt(name));
    }

    /// True where nothing can be kept, since resource versions are no numbers.
    pub(super) fn is_opaque(&self) -> bool {
        self.state.lock().opaque
    }

    /// Changes of the kinds from now on.
    pub(super) fn watch(&self, kinds: Vec<usize>) -> Result<mpsc::Receiver<WatchEvent>, ClusterError> {
        let (queue, receiver) = mpsc::channel(CAPACITY + 1);
        let last = queue.clone().try_reserve_owned().map_err(|_| ClusterError::transient("a new queue is full"))?;
        let mut state = self.state.lock();
        state.watchers.retain(|watcher| !watcher.queue.is_closed());
        let rows = kinds.iter().filter_map(|at| state.rows.get(*at));
        let before = rows.flat_map(|row| row.shelf.ahead()).collect();
        state.watchers.push(Watcher { kinds, queue, before, last: Some(last) });
        Ok(receiver)
    }
}

impl Keeping {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is made by one call that does not panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn row<T>(&self, at: usize, look: impl FnOnce(&mut Row) -> T) -> Option<T> {
        self.lock().rows.get_mut(at).map(look)
    }

    fn nudge(&self, at: usize) {
        if let Some(nudge) = self.nudges.get(at) {
            nudge.notify_one();
        }
    }

    fn hear(&self, at: usize, told: Told) {
        let mut state = self.lock();
        if told.version().is_some_and(|version| version_of(version).is_none()) {
            state.opaque = true;
        }
        let Some(row) = state.rows.get_mut(at) else { return };
        let turned = row.turn(&told);
        let events = row.take(told);
        state.tell(at, events);
        drop(state);
        if turned {
            self.turns.send_modify(|turns| *turns = turns.wrapping_add(1));
        }
    }
}

impl Row {
    /// How well everything is known now. True when that is another answer than before.
    fn turn(&mut self, told: &Told) -> bool {
        self.standing = match told {
            Told::Begins(_) => Standing::Filling,
            Told::Whole | Told::Follows => Standing::Whole,
            Told::Behind(error) => Standing::Behind(error.clone()),
            Told::Failed(error) => {
                self.failures = self.failures.wrapping_add(1);
                Standing::Failed(error.clone())
            }
            Told::Listed(_) | Told::Event(..) | Told::Version(_) => return false,
        };
        true
    }

    /// Takes it in, and gives what watchers are to hear.
    fn take(&mut self, told: Told) -> Vec<WatchEvent> {
        let number = |text: &str| version_of(text).unwrap_or_default();
        let shelf = &mut self.shelf;
        match told {
            Told::Begins(version) => shelf.begins(number(&version)),
            Told::Listed(object) => {
                let version = object.resource_version().map(number).unwrap_or_default();
                if shelf.listed(&object, version) == News::Changed && self.begun {
                    return vec![WatchEvent::Applied(object)];
                }
            }
            Told::Whole => {
                self.begun = true;
                if let News::Gone(objects) = shelf.whole() {
                    return objects.into_iter().map(WatchEvent::Deleted).collect();
                }
            }
            // What we wrote ourselves is no news here, and still an event there.
            Told::Event(WatchEvent::Applied(object), version) => {
                shelf.changed(&object, number(&version));
                return vec![WatchEvent::Applied(object)];
            }
            Told::Event(WatchEvent::Deleted(object), version) => {
                shelf.deleted(&object, number(&version));
                return vec![WatchEvent::Deleted(object)];
            }
            Told::Event(WatchEvent::Resync, _) => return vec![WatchEvent::Resync],
            Told::Version(version) => shelf.told(number(&version)),
            Told::Follows | Told::Behind(_) | Told::Failed(_) => {}
        }
        Vec::new()
    }
}

impl Watcher {
    /// Whether it is of before the watcher began.
    fn knew(&self, event: &WatchEvent) -> bool {
        match event {
            WatchEvent::Applied(object) | WatchEvent::Deleted(object) => {
                let version = object.resource_version().and_then(version_of);
                let before = object.uid().and_then(|uid| self.before.get(uid));
                before.zip(version).is_some_and(|(before, version)| version <= *before)
            }
            WatchEvent::Resync => false,
        }
    }
}

impl State {
    fn tell(&mut self, at: usize, events: Vec<WatchEvent>) {
        for event in events {
            self.watchers.retain_mut(|watcher| {
                if !watcher.kinds.contains(&at) || watcher.knew(&event) {
                    return !watcher.queue.is_closed();
                }
                if watcher.queue.try_send(event.clone()).is_ok() {
                    return true;
                }
                if let Some(last) = watcher.last.take() {
                    last.send(WatchEvent::Resync);
                }
                false
            });
        }
    }
}
