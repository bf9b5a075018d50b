//! From a cluster's `ModelSource` objects to the sources that run: what is new is gathered for a moment, and then all that
//! follows from it is done at once.

use super::book::{Book, Found, Need, Ours, Role, Wanted};
use super::follow::{self, News};
use super::markers;
use super::note::Batch;
use super::relay::Relay;
use super::resource::Resources;
use super::secrets;
use crate::controller::access::Tenancy;
use crate::controller::board::Board;
use crate::controller::lease::Held;
use crate::controller::run::{Applied, Controller};
use crate::controller::sources::SourceKey;
use stator_cluster::cluster::kube::Kube;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// What is new is gathered until nothing came for so long, but no longer than that.
const QUIET: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_millis(500);
/// Sources whose secrets are read at a time.
const READS: usize = 16;
/// How often is looked for sources that another secret may mend; in memory, without a request.
const LOOK: Duration = Duration::from_secs(10);
/// How long hints may take to be handed on at the end.
const FAREWELL: Duration = Duration::from_secs(5);
/// How many pieces of news may wait.
const QUEUE: usize = 4096;

/// What a feed is to follow.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is done with the sources.
    pub role: Role,
    /// The namespaces to answer for; where there are none, all but those that carry a marker.
    pub namespaces: BTreeSet<String>,
    /// What tenants may do.
    pub tenancy: Tenancy,
    /// What this process is called among others: the name of the pod.
    pub identity: String,
    /// Whether webhooks are taken here, also for sources that others run.
    pub webhooks: bool,
}

/// The sources of a cluster.
#[derive(Debug)]
pub struct Feed {
    kube: Kube,
    role: Role,
    book: Book,
    scope: Scope,
    board: Arc<Board>,
    resources: Arc<Resources>,
    relay: Relay,
    news: mpsc::Receiver<News>,
    marks: Option<markers::Marks>,
    /// Tells when a marker of our own is there.
    marking: watch::Receiver<BTreeSet<String>>,
    reads: JoinSet<(Need, BTreeMap<String, Found>)>,
    at_once: Arc<Semaphore>,
    /// Since when something is new, and when the last of it came.
    dirty: Option<(Instant, Instant)>,
    looked: Instant,
    /// Follow objects and markers, and end with this.
    _tasks: JoinSet<()>,
}

/// Which sources are this process's.
#[derive(Debug)]
struct Scope {
    /// Those that were listed; all, where `None` is among them.
    listed: BTreeSet<Option<String>>,
    /// Those with a marker of somebody else's. Empty for a process of single namespaces, which has markers of its own.
    shut: BTreeSet<String>,
    /// Single namespaces without a marker yet.
    unmarked: Arc<Unmarked>,
    held: Held,
}

/// Namespaces of our own whose marker is not there yet: nothing is done in them before.
#[derive(Debug)]
struct Unmarked(watch::Sender<BTreeSet<String>>);

impl Ours for Scope {
    fn answers_for(&self, namespace: &str) -> bool {
        let listed = self.listed.contains(&None) || self.listed.iter().flatten().any(|own| own == namespace);
        listed && !self.shut.contains(namespace) && !self.unmarked.0.borrow().contains(namespace)
    }

    fn runs(&self, key: &SourceKey) -> bool {
        self.held.holds(key)
    }
}

impl Feed {
    /// Starts to follow. `board` is told what is not there yet.
    pub fn start(kube: Kube, settings: Settings, board: Arc<Board>) -> Self {
        let Settings { role, namespaces, tenancy, identity, webhooks } = settings;
        let identity = format!("{identity}_stator-{}", env!("CARGO_PKG_VERSION"));
        let (sender, news) = mpsc::channel(QUEUE);
        let mut tasks = JoinSet::new();
        let scopes: Vec<Option<String>> = match namespaces.is_empty() {
            true => vec![None],
            false => namespaces.iter().cloned().map(Some).collect(),
        };
        for scope in scopes {
            board.lacking(&lacks_list(scope.as_deref()), Some(not_listed(scope.as_deref())));
            tasks.spawn(follow::follow(kube.clone(), scope, sender.clone()));
        }
        let unmarked = Arc::new(Unmarked(watch::channel(BTreeSet::new()).0));
        let mut marks = None;
        match (namespaces.is_empty(), role) {
            // A server runs nothing: whoever runs a source reads what it is told in the source itself.
            (_, Role::Server) => {}
            (true, Role::Controller) => {
                let (told, seen) = watch::channel(None);
                let told_board = Arc::clone(&board);
                let lacks = "markers";
                board.lacking(lacks, Some(format!("the leases {} were not listed yet", markers::MARKER)));
                let trouble = move |sentence| told_board.lacking(lacks, sentence);
                tasks.spawn(markers::follow(kube.clone(), told, trouble));
                marks = Some(seen);
            }
            (false, Role::Controller) => {
                unmarked.0.send_replace(namespaces.clone());
                for namespace in namespaces {
                    let (unmarked, board, own) = (Arc::clone(&unmarked), Arc::clone(&board), namespace.clone());
                    let trouble = move |sentence: Option<String>| {
                        if sentence.is_none() {
                            unmarked.0.send_if_modified(|names| names.remove(&own));
                        } else if !unmarked.0.borrow().contains(&own) {
                            // It was there, so sources run; that it may run out is in the log.
                            return;
                        }
                        board.lacking(&format!("marker {own}"), sentence);
                    };
                    tasks.spawn(markers::keep(kube.clone(), namespace, identity.clone(), trouble));
                }
            }
        }
        let marking = unmarked.0.subscribe();
        let scope = Scope { listed: BTreeSet::new(), shut: BTreeSet::new(), unmarked, held: Held::everything() };
        Self {
            relay: Relay::new(kube.clone()),
            kube,
            role,
            book: Book::new(role, tenancy, webhooks),
            scope,
            board,
            resources: Arc::default(),
            news,
            marks,
            marking,
            reads: JoinSet::new(),
            at_once: Arc::new(Semaphore::new(READS)),
            dirty: None,
            looked: Instant::now(),
            _tasks: tasks,
        }
    }

    /// The objects of the sources that this process answers for and runs, or would.
    pub fn resources(&self) -> Arc<Resources> {
        Arc::clone(&self.resources)
    }

    /// What this replica holds from now on.
    pub fn hold(&mut self, held: Held) {
        self.scope.held = held;
        self.touch();
    }

    fn touch(&mut self) {
        let now = Instant::now();
        let since = self.dirty.map_or(now, |(since, _)| since);
        self.dirty = Some((since, now));
    }

    /// What is wanted now, whenever that may have changed; what others are to know of it is said. Dropped while it waits, it
    /// loses nothing.
    pub async fn next(&mut self) -> Wanted {
        loop {
            let now = Instant::now();
            if now.duration_since(self.looked) >= LOOK {
                self.looked = now;
                self.mend(now);
            }
            let known = self.marks.as_ref().is_none_or(|marks| marks.borrow().is_some());
            let due = if known { self.read_due(now) } else { None };
            let settles = self.dirty.filter(|_| known).map(|(since, last)| (since + LONGEST).min(last + QUIET));
            if settles.is_some_and(|at| at <= now) {
                self.dirty = None;
                return self.settled();
            }
            let wakes = [settles, due, Some(self.looked + LOOK)].into_iter().flatten().min().unwrap_or(now);
            tokio::select! {
                Some(news) = self.news.recv() => self.hear(news),
                Some(read) = self.reads.join_next() => {
                    if let Ok((need, found)) = read {
                        self.book.read(&need, found, Instant::now());
                        self.touch();
                    }
                }
                () = moved(&mut self.marks) => self.marked(),
                Ok(()) = self.marking.changed() => self.touch(),
                () = tokio::time::sleep_until(wakes) => {}
            }
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Listed(namespace, resources) => {
                for (key, batch) in self.book.replace(namespace.as_deref(), resources) {
                    self.hint(&key, &batch);
                }
                self.board.lacking(&lacks_list(namespace.as_deref()), None);
                self.scope.listed.insert(namespace);
            }
            News::Set(resource) => {
                let key = resource.key.clone();
                for batch in self.book.set(*resource) {
                    self.hint(&key, &batch);
                }
            }
            News::Gone(key, uid) => self.book.remove(&key, &uid),
            News::Trouble(namespace, sentence) => {
                // What was listed once goes on as it was.
                if !self.scope.listed.contains(&namespace) {
                    self.board.lacking(&lacks_list(namespace.as_deref()), Some(sentence));
                }
                return;
            }
        }
        self.touch();
    }

    /// A unit that is not there yet looks when it starts.
    fn hint(&self, key: &SourceKey, batch: &Batch) {
        if let Some(entry) = self.board.entry(key) {
            batch.give(&entry.hints);
        }
    }

    fn marked(&mut self) {
        let shut = self.marks.as_mut().and_then(|marks| marks.borrow_and_update().clone()).unwrap_or_default();
        if shut != self.scope.shut {
            let names = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
                one.difference(other).cloned().collect::<Vec<_>>().join(", ")
            };
            let (left, taken) = (names(&shut, &self.scope.shut), names(&self.scope.shut, &shut));
            if !left.is_empty() {
                tracing::info!(namespaces = left, "left to controllers of their own");
            }
            if !taken.is_empty() {
                tracing::info!(namespaces = taken, "taken back, as their own controllers are gone");
            }
            self.scope.shut = shut;
        }
        self.touch();
    }

    /// Starts the reads that are due. Gives when the next is.
    fn read_due(&mut self, now: Instant) -> Option<Instant> {
        let (needs, next) = self.book.needs(&self.scope, now);
        for need in needs {
            let (kube, at_once) = (self.kube.clone(), Arc::clone(&self.at_once));
            self.reads.spawn(async move {
                let _turn = at_once.acquire_owned().await;
                let found = secrets::read(&kube, &need).await;
                (need, found)
            });
        }
        next
    }

    /// Finds the sources that another secret may mend.
    fn mend(&mut self, now: Instant) {
        let failing: Vec<SourceKey> = self
            .board
            .entries()
            .into_iter()
            .filter(|entry| {
                let standing = entry.standing.borrow();
                standing.statuses.problem.is_some()
                    || standing.problems.values().any(|problem| problem.reason.secret_may_help())
            })
            .map(|entry| entry.key)
            .collect();
        self.book.mend(&failing, now);
    }

    /// Waits until what webhooks hinted at is handed on, but not for long: the next poll finds it too.
    pub async fn flushed(&self) {
        self.relay.flushed(FAREWELL).await;
    }

    fn settled(&mut self) -> Wanted {
        let mut wanted = self.book.settle(&self.scope);
        let before = self.board.held();
        for (key, held) in wanted.held.iter().filter(|(key, held)| before.get(*key) != Some(*held)) {
            tracing::warn!(source = %key, reason = held.reason.word(), "held back: {}", held.message);
        }
        self.resources.set(std::mem::take(&mut wanted.resources));
        self.board.hold(std::mem::take(&mut wanted.held), std::mem::take(&mut wanted.remarks));
        self.relay.set(std::mem::take(&mut wanted.relayed), &self.board);
        wanted
    }

    /// Does for a controller what is wanted now.
    pub fn carry_out(&self, wanted: Wanted, controller: &mut Controller) -> Applied {
        let Wanted { sources, requests, .. } = wanted;
        let applied = match self.role {
            Role::Controller => controller.apply(sources),
            Role::Server => Applied::default(),
        };
        for (key, requests) in requests {
            controller.ask(&key, requests);
        }
        for (what, keys) in [("started", &applied.started), ("replaced", &applied.replaced), ("ended", &applied.ended)]
        {
            for key in keys {
                tracing::info!(source = %key, "{what}");
            }
        }
        applied
    }
}

fn lacks_list(namespace: Option<&str>) -> String {
    format!("sources {}", namespace.unwrap_or_default())
}

fn not_listed(namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("the ModelSource objects of namespace {namespace} were not listed yet"),
        None => "the ModelSource objects were not listed yet".to_owned(),
    }
}

async fn moved(marks: &mut Option<markers::Marks>) {
    let moved = match marks {
        Some(marks) => marks.changed().await.is_ok(),
        None => false,
    };
    if !moved {
        std::future::pending().await
    }
}
