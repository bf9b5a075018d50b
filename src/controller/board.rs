//! What the server may know of the sources: who takes deliveries, and how each source stands.

use super::hints::Hints;
use super::news::News;
use super::sources::{Source, SourceKey};
pub use super::standing::{
    Counts, HeldBack, Judgement, Part, Phase, PlanSummary, Problem, Reason, Recalled, Revision, Shown, Standing,
    Statuses,
};
use secrecy::SecretString;
use stator_cluster::cluster::kube::Fence;
use stator_git::source::model_source::ForgeKind;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::{broadcast, watch};

/// Happenings that wait for a slow listener.
const MOST_NEWS: usize = 1024;

/// Why a source is not run at all. It has no [`Entry`] then, unless a unit of an earlier version of it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The kind of reason.
    pub reason: HeldReason,
    /// The whole of it, with what to do.
    pub message: String,
}

/// Why a source is not run. As reasons of conditions have it, in CamelCase: [`HeldReason::word`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HeldReason {
    /// Its spec cannot be worked by; only another spec helps.
    InvalidSpec,
    /// Another source syncs the same.
    Duplicate,
    /// It asks for a namespace that it may not touch.
    AccessDenied,
    /// A secret that it names is not there.
    SecretMissing,
    /// A secret that it names has not what it is read for.
    SecretInvalid,
    /// A secret could not be read yet; it is tried again.
    SecretUnread,
}

impl HeldReason {
    /// The reason of a condition.
    pub fn word(self) -> &'static str {
        match self {
            Self::InvalidSpec => "InvalidSpec",
            Self::Duplicate => "Duplicate",
            Self::AccessDenied => "AccessDenied",
            Self::SecretMissing => "SecretMissing",
            Self::SecretInvalid => "SecretInvalid",
            Self::SecretUnread => "SecretUnread",
        }
    }

    /// Whether only somebody's change of the source can help: kstatus calls that stalled. A secret may come by itself.
    pub fn is_stalled(self) -> bool {
        match self {
            Self::InvalidSpec | Self::Duplicate | Self::AccessDenied => true,
            Self::SecretMissing | Self::SecretInvalid | Self::SecretUnread => false,
        }
    }
}

/// Where deliveries for one source go: to its unit, or to whoever hands them on to the controller that has it.
#[derive(Clone, Debug)]
pub struct Inbox {
    /// Its namespace and name.
    pub key: SourceKey,
    /// The host that its deliveries come from.
    pub forge: ForgeKind,
    /// What they are signed with.
    pub secret: SecretString,
    /// Where what they hint at goes.
    pub hints: Arc<Hints>,
}

/// One source, as the server sees it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its namespace and name.
    pub key: SourceKey,
    /// The host that its deliveries come from.
    pub forge: Option<ForgeKind>,
    /// What its deliveries are signed with; empty when it takes none.
    pub webhook: Option<SecretString>,
    /// Where its hints go.
    pub hints: Arc<Hints>,
    /// How it stands.
    pub standing: watch::Receiver<Standing>,
    /// What writes about it ask first.
    pub fence: Option<Fence>,
}

impl Entry {
    /// Of a source.
    pub fn new(source: &Source, hints: Arc<Hints>, standing: watch::Receiver<Standing>) -> Self {
        Self {
            key: source.key.clone(),
            forge: source.spec.forge.as_ref().map(|forge| forge.kind),
            webhook: source.secrets.webhook.as_ref().and_then(|secret| secret.text("token")),
            hints,
            standing,
            fence: None,
        }
    }

    /// Where its deliveries go, where it takes any.
    fn inbox(&self) -> Option<Inbox> {
        let (forge, secret) = self.forge.zip(self.webhook.clone())?;
        Some(Inbox { key: self.key.clone(), forge, secret, hints: Arc::clone(&self.hints) })
    }
}

/// All sources that run now, those that are held back, and those that others run. A source that changed replaces its entry
/// while the server goes on.
#[derive(Debug)]
pub struct Board {
    entries: RwLock<BTreeMap<SourceKey, Entry>>,
    aside: RwLock<Aside>,
    changes: watch::Sender<u64>,
    news: broadcast::Sender<News>,
}

/// What is known beside the sources that run.
#[derive(Debug, Default)]
struct Aside {
    held: BTreeMap<SourceKey, Held>,
    remarks: BTreeMap<SourceKey, Vec<String>>,
    relayed: BTreeMap<SourceKey, Inbox>,
    lacking: BTreeMap<String, String>,
}

impl Default for Board {
    fn default() -> Self {
        Self {
            entries: RwLock::default(),
            aside: RwLock::default(),
            changes: watch::channel(0).0,
            news: broadcast::channel(MOST_NEWS).0,
        }
    }
}

impl Board {
    /// Puts a source up, in place of one of its name.
    pub fn put(&self, entry: Entry) {
        self.entries.write().unwrap_or_else(PoisonError::into_inner).insert(entry.key.clone(), entry);
        self.changed();
    }

    /// Takes a source down.
    pub fn remove(&self, key: &SourceKey) {
        self.entries.write().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.changed();
    }

    /// All sources that run, sorted.
    pub fn entries(&self) -> Vec<Entry> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The entry of a source that runs.
    pub fn entry(&self, key: &SourceKey) -> Option<Entry> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Goes up whenever an entry comes or goes, or what is held back or remarked changes. What a standing says has a
    /// channel of its own.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Tells whoever listens that something happened. Never waits: whoever listens too slowly is told how much he missed.
    pub fn tell(&self, news: News) {
        // Without listeners, nobody wants to know.
        let _ = self.news.send(news);
    }

    /// Hears of everything that happens from now on, to any source that runs here: see [`news`](super::news).
    pub fn listen(&self) -> broadcast::Receiver<News> {
        self.news.subscribe()
    }

    /// Makes these the sources that are not run, and what is to be said of others beside how they stand.
    pub fn hold(&self, held: BTreeMap<SourceKey, Held>, remarks: BTreeMap<SourceKey, Vec<String>>) {
        let mut aside = self.aside.write().unwrap_or_else(PoisonError::into_inner);
        let news = aside.held != held || aside.remarks != remarks;
        (aside.held, aside.remarks) = (held, remarks);
        drop(aside);
        if news {
            self.changed();
        }
    }

    /// The sources that are not run, sorted, and why.
    pub fn held(&self) -> BTreeMap<SourceKey, Held> {
        self.aside.read().unwrap_or_else(PoisonError::into_inner).held.clone()
    }

    /// What is to be said of a source beside how it stands: an annotation that says nothing, another source that wants
    /// the same.
    pub fn remarks(&self, key: &SourceKey) -> Vec<String> {
        self.aside.read().unwrap_or_else(PoisonError::into_inner).remarks.get(key).cloned().unwrap_or_default()
    }

    /// Makes these the sources that others run, whose deliveries are taken all the same.
    pub fn relay(&self, inboxes: Vec<Inbox>) {
        let relayed = inboxes.into_iter().map(|inbox| (inbox.key.clone(), inbox)).collect();
        self.aside.write().unwrap_or_else(PoisonError::into_inner).relayed = relayed;
    }

    /// How many sources others run whose deliveries are taken.
    pub fn elsewhere(&self) -> usize {
        self.aside.read().unwrap_or_else(PoisonError::into_inner).relayed.len()
    }

    /// Says what the process lacks before it is ready; `None` when it lacks that no longer.
    pub fn lacking(&self, what: &str, sentence: Option<String>) {
        let mut aside = self.aside.write().unwrap_or_else(PoisonError::into_inner);
        match sentence {
            Some(sentence) => drop(aside.lacking.insert(what.to_owned(), sentence)),
            None => drop(aside.lacking.remove(what)),
        }
    }

    /// What the process lacks before it is ready, sorted.
    pub fn lacks(&self) -> Vec<String> {
        self.aside.read().unwrap_or_else(PoisonError::into_inner).lacking.values().cloned().collect()
    }

    /// Where deliveries of a host go, sorted; all, or those that `which` says yes to.
    pub fn receivers(&self, forge: ForgeKind, which: impl Fn(&SourceKey) -> bool) -> Vec<Inbox> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let aside = self.aside.read().unwrap_or_else(PoisonError::into_inner);
        let own = entries.values().filter_map(Entry::inbox);
        let others = aside.relayed.values().filter(|inbox| !entries.contains_key(&inbox.key)).cloned();
        let mut found: Vec<Inbox> =
            own.chain(others).filter(|inbox| inbox.forge == forge && which(&inbox.key)).collect();
        found.sort_by(|a, b| a.key.cmp(&b.key));
        found
    }

    /// How every source stands that runs, sorted.
    pub fn standings(&self) -> Vec<(SourceKey, Standing)> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.values().map(|entry| (entry.key.clone(), entry.standing.borrow().clone())).collect()
    }
}
