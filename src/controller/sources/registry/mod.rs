//! What the server may know of the sources: who takes deliveries, and how each source stands.

pub mod source_events;
pub mod source_state;
pub mod webhook_directory;

use super::hints::SourceHints;
use super::resolved_source::{ResolvedSource, SourceKey};
use secrecy::SecretString;
use source_events::SourceEvent;
pub use source_state::{
    ModelHealthCounts, PlanSummary, PreviousState, ProblemReason, ProblemScope, RevisionHold, RevisionVerdict,
    ShownStatus, SourcePhase, SourceProblem, SourceState, StatusPostingState, TimestampedRevision,
};
use stator_cluster::cluster::Fence;
use stator_git::source::model_source::ForgeKind;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::{broadcast, watch};
use webhook_directory::WebhookDirectory;

/// Happenings that wait for a slow listener.
const EVENT_CAPACITY: usize = 1024;

/// Why a source is not run at all. It has no [`RegisteredSource`] then, unless a reconciler of an earlier version of it continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedSource {
    /// The kind of reason.
    pub reason: RejectionReason,
    /// The whole of it, with what to do.
    pub message: String,
}

/// Why a source is not run. As reasons of conditions have it, in CamelCase: [`RejectionReason::as_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
pub enum RejectionReason {
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
    #[strum(serialize = "SecretUnread")]
    SecretNotRead,
}

impl RejectionReason {
    /// The reason of a condition.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether only somebody's change of the source can help: kstatus calls that stalled. A secret may come by itself.
    pub fn is_stalled(self) -> bool {
        match self {
            Self::InvalidSpec | Self::Duplicate | Self::AccessDenied => true,
            Self::SecretMissing | Self::SecretInvalid | Self::SecretNotRead => false,
        }
    }
}

/// Where deliveries for one source go: to its reconciler, or to whoever hands them on to the controller that has it.
#[derive(Clone, Debug)]
pub struct WebhookInbox {
    /// Its namespace and name.
    pub key: SourceKey,
    /// The host that its deliveries come from.
    pub forge: ForgeKind,
    /// What they are signed with.
    pub secret: SecretString,
    /// Where what they hint at goes.
    pub hints: Arc<SourceHints>,
}

/// One source, as the server sees it.
#[derive(Clone, Debug)]
pub struct RegisteredSource {
    /// Its namespace and name.
    pub key: SourceKey,
    /// The host that its deliveries come from.
    pub forge: Option<ForgeKind>,
    /// What its deliveries are signed with; empty when it takes none.
    pub webhook: Option<SecretString>,
    /// Where its hints go.
    pub hints: Arc<SourceHints>,
    /// How it stands.
    pub state: watch::Receiver<SourceState>,
    /// What writes about it ask first.
    pub fence: Option<Fence>,
}

impl RegisteredSource {
    /// Of a source.
    pub fn new(source: &ResolvedSource, hints: Arc<SourceHints>, state: watch::Receiver<SourceState>) -> Self {
        Self {
            key: source.key.clone(),
            forge: source.spec.forge.as_ref().map(|forge| forge.kind),
            webhook: source.secrets.webhook.as_ref().and_then(|secret| secret.text("token")),
            hints,
            state,
            fence: None,
        }
    }

    /// Where its deliveries go, where it takes any.
    fn webhook_inbox(&self) -> Option<WebhookInbox> {
        let (forge, secret) = self.forge.zip(self.webhook.clone())?;
        Some(WebhookInbox { key: self.key.clone(), forge, secret, hints: Arc::clone(&self.hints) })
    }
}

/// All sources that run now, those that are held back, and those that others run. A source that changed replaces its entry
/// while the server goes on.
#[derive(Debug)]
pub struct SourceRegistry {
    entries: RwLock<BTreeMap<SourceKey, RegisteredSource>>,
    annotations: RwLock<RegistryAnnotations>,
    /// Made anew when somebody asks after a change.
    directory: RwLock<Option<Arc<WebhookDirectory>>>,
    changes: watch::Sender<u64>,
    events: broadcast::Sender<SourceEvent>,
}

/// What is known beside the sources that run.
#[derive(Debug, Default)]
struct RegistryAnnotations {
    rejected: BTreeMap<SourceKey, RejectedSource>,
    remarks: BTreeMap<SourceKey, Vec<String>>,
    relayed: BTreeMap<SourceKey, WebhookInbox>,
    not_ready: BTreeMap<String, String>,
}

impl Default for SourceRegistry {
    fn default() -> Self {
        Self {
            entries: RwLock::default(),
            annotations: RwLock::default(),
            directory: RwLock::default(),
            changes: watch::channel(0).0,
            events: broadcast::channel(EVENT_CAPACITY).0,
        }
    }
}

impl SourceRegistry {
    /// Puts a source up, in place of one of its name.
    pub fn register(&self, entry: RegisteredSource) {
        self.entries.write().unwrap_or_else(PoisonError::into_inner).insert(entry.key.clone(), entry);
        self.forget_directory();
        self.notify_changed();
    }

    /// Takes a source down.
    pub fn unregister(&self, key: &SourceKey) {
        self.entries.write().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.forget_directory();
        self.notify_changed();
    }

    /// All sources that run, sorted.
    pub fn entries(&self) -> Vec<RegisteredSource> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The entry of a source that runs.
    pub fn entry(&self, key: &SourceKey) -> Option<RegisteredSource> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Goes up whenever an entry comes or goes, or what is held back or remarked changes. What a standing says has a
    /// channel of its own.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn notify_changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Publishes an event. Never waits: a receiver that is too slow learns how many events it missed.
    pub fn publish_event(&self, news: SourceEvent) {
        // Without listeners, nobody wants to know.
        let _ = self.events.send(news);
    }

    /// Hears of everything that happens from now on, to any source that runs here: see [`source_events`].
    pub fn subscribe_events(&self) -> broadcast::Receiver<SourceEvent> {
        self.events.subscribe()
    }

    /// Makes these the sources that are not run, and what is to be said of others beside how they stand.
    pub fn set_rejected(&self, held: BTreeMap<SourceKey, RejectedSource>, remarks: BTreeMap<SourceKey, Vec<String>>) {
        let mut aside = self.annotations.write().unwrap_or_else(PoisonError::into_inner);
        let news = aside.rejected != held || aside.remarks != remarks;
        (aside.rejected, aside.remarks) = (held, remarks);
        drop(aside);
        if news {
            self.notify_changed();
        }
    }

    /// The sources that are not run, sorted, and why.
    pub fn rejected(&self) -> BTreeMap<SourceKey, RejectedSource> {
        self.annotations.read().unwrap_or_else(PoisonError::into_inner).rejected.clone()
    }

    /// What is to be said of a source beside how it stands: an annotation that says nothing, another source that wants
    /// the same.
    pub fn remarks(&self, key: &SourceKey) -> Vec<String> {
        self.annotations.read().unwrap_or_else(PoisonError::into_inner).remarks.get(key).cloned().unwrap_or_default()
    }

    /// Makes these the sources that others run, whose deliveries are taken all the same.
    pub fn set_relayed(&self, inboxes: Vec<WebhookInbox>) {
        let relayed = inboxes.into_iter().map(|inbox| (inbox.key.clone(), inbox)).collect();
        self.annotations.write().unwrap_or_else(PoisonError::into_inner).relayed = relayed;
        self.forget_directory();
    }

    /// How many sources others run whose deliveries are taken.
    pub fn elsewhere(&self) -> usize {
        self.annotations.read().unwrap_or_else(PoisonError::into_inner).relayed.len()
    }

    /// Says what the process lacks before it is ready; `None` when it lacks that no longer.
    pub fn set_not_ready(&self, what: &str, sentence: Option<String>) {
        let mut aside = self.annotations.write().unwrap_or_else(PoisonError::into_inner);
        match sentence {
            Some(sentence) => drop(aside.not_ready.insert(what.to_owned(), sentence)),
            None => drop(aside.not_ready.remove(what)),
        }
    }

    /// What the process lacks before it is ready, sorted.
    pub fn not_ready_reasons(&self) -> Vec<String> {
        self.annotations.read().unwrap_or_else(PoisonError::into_inner).not_ready.values().cloned().collect()
    }

    /// Who receives webhooks. Whoever is not known may ask as often as they like: it is put together once after each change.
    pub fn webhook_directory(&self) -> Arc<WebhookDirectory> {
        if let Some(known) = self.directory.read().unwrap_or_else(PoisonError::into_inner).as_ref() {
            return Arc::clone(known);
        }
        let mut directory = self.directory.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(directory.get_or_insert_with(|| Arc::new(WebhookDirectory::new(self.webhook_inboxes()))))
    }

    fn forget_directory(&self) {
        *self.directory.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Where deliveries go, to sources that run here and to others.
    fn webhook_inboxes(&self) -> Vec<WebhookInbox> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let aside = self.annotations.read().unwrap_or_else(PoisonError::into_inner);
        let own = entries.values().filter_map(RegisteredSource::webhook_inbox);
        let others = aside.relayed.values().filter(|inbox| !entries.contains_key(&inbox.key)).cloned();
        own.chain(others).collect()
    }

    /// How every source stands that runs, sorted.
    pub fn states(&self) -> Vec<(SourceKey, SourceState)> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.values().map(|entry| (entry.key.clone(), entry.state.borrow().clone())).collect()
    }
}
