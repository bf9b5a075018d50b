//! What a process has seen of its sources and of the cluster: what every view is made of.

use crate::link_template::LinkTemplate;
use jiff::Timestamp;
use stator_core::dynamo::kinds::GRAPH;
use stator_core::object::{Object, ObjectIdentity, ObjectText};
use stator_model::plan::{Action, Change, GpuTotals, ModelStatus, Plan, Record, SyncState, commit_of_revision};
use stator_model::present::history::ClusterEvent;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Events that are kept of a model, the newest.
const MAX_EVENTS: usize = 50;

/// What is known of all sources.
#[derive(Clone, Debug, Default)]
pub struct FleetFacts {
    /// Each source, sorted by namespace and name.
    pub sources: Vec<Arc<SourceFacts>>,
    /// The version of the observation in which a source was last taken down; 0 where none was.
    pub removed_in: u64,
    /// Links of every model's page to other tools.
    pub links: Arc<[LinkTemplate]>,
}

/// One source: a ModelSource, or the folder that a command was given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceFacts {
    /// Its namespace; empty for a folder.
    pub namespace: String,
    /// Its name; for a folder the repository's.
    pub name: String,
    /// Where its models come from, without a credential: an address or a path.
    pub origin: String,
    /// The environment that is synced, once it is known.
    pub environment: Option<String>,
    /// The context of its cluster, where a process shows several clusters.
    pub cluster: Option<String>,
    /// The namespace of its models, once it is known.
    pub models_namespace: Option<String>,
    /// What the source is doing, in a word.
    pub phase: String,
    /// The newest commit that was seen.
    pub seen: Option<RevisionFacts>,
    /// The commit that was last synced, well or not.
    pub attempted: Option<RevisionFacts>,
    /// The commit that was last synced well.
    pub applied: Option<RevisionFacts>,
    /// What is in the way, with what to do about it.
    pub problems: Vec<String>,
    /// What guards hold back, and the command that lets it go.
    pub held: Option<HeldFacts>,
    /// When the next sync window opens, while none is open.
    pub next_window: Option<Timestamp>,
    /// Options with which a command of stator finds this environment and its cluster.
    pub command_options: Vec<String>,
    /// Whether `kubectl` reaches the cluster.
    pub is_kubernetes: bool,
    /// Why its models are not known, where they are not; those that were known before stay.
    pub unread: Option<String>,
    /// The version of the observation in which it was last different; whoever puts it up need not say.
    pub changed_in: u64,
    /// Whether whoever looks may see its models and not itself.
    pub is_withheld: bool,
    /// Whether it syncs nothing until it is resumed.
    pub is_suspended: bool,
    /// GPUs that its cluster can allocate, by SKU; `None` where nobody says.
    pub allocatable: Option<Arc<BTreeMap<String, u64>>>,
    /// The open pull requests that were planned, by number.
    pub previews: Arc<BTreeMap<u64, PreviewFacts>>,
    /// Who does what people ask of it.
    pub control: SourceControl,
    /// Whether a change can be proposed from here.
    pub proposals: ProposalAccess,
    /// What is known of the commits that it and its models name, by commit.
    pub commits: Arc<BTreeMap<String, CommitFacts>>,
    /// Its models, sorted by name; a copy of the facts shares them.
    pub models: Arc<[ModelFacts]>,
}

/// An open pull request, and what it would change.
#[derive(Clone, Debug, PartialEq)]
pub struct PreviewFacts {
    /// Its title.
    pub title: String,
    /// Its page.
    pub url: String,
    /// The commit that was planned, in full.
    pub head: String,
    /// What was found, in a sentence.
    pub summary: String,
    /// Its changes; fewer than all where there are very many.
    pub changes: Arc<[Change]>,
    /// GPUs of its environment with it, by SKU.
    pub gpus_by_sku: BTreeMap<String, GpuTotals>,
}

/// Who does what people ask of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceControl {
    /// Nobody from here: a command of a person syncs it.
    Command {
        /// What to do instead.
        reason: String,
    },
    /// This process, which follows a file of sources.
    File,
    /// Whoever changes its object in the cluster.
    Object,
}

impl Default for SourceControl {
    fn default() -> Self {
        Self::Command { reason: "run `stator sync`".to_owned() }
    }
}

/// Whether pull requests can be opened for a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProposalAccess {
    /// They can.
    Open {
        /// The branch that they go into.
        base: String,
        /// The git host, as people know it.
        host: String,
    },
    /// They cannot: patches are offered instead.
    Closed {
        /// Why, with what to do about it.
        reason: String,
    },
}

impl Default for ProposalAccess {
    fn default() -> Self {
        Self::Closed { reason: "the source has not been read yet".to_owned() }
    }
}

/// What a commit says of itself, and where its page is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitFacts {
    /// Its author's name.
    pub author: String,
    /// The first line of its message.
    pub title: String,
    /// When it was committed.
    pub time: Timestamp,
    /// Its page at the git host, `http` or `https`; `None` where there is none.
    pub page: Option<String>,
}

/// A commit, and when something became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionFacts {
    /// In full.
    pub commit: String,
    /// When; `None` where nobody wrote it down.
    pub at: Option<Timestamp>,
}

/// What guards hold back until it is approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldFacts {
    /// What each guard says.
    pub reasons: Vec<String>,
    /// Of which commit, in full.
    pub commit: String,
    /// The digest of what is held back.
    pub plan: String,
}

/// One model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFacts {
    /// Its status, as `stator status` has it.
    pub status: ModelStatus,
    /// GPUs that it holds now, by SKU.
    pub gpus: BTreeMap<String, u64>,
    /// What these cost.
    pub cost: Option<HourlyCost>,
    /// Its record; `None` before the first sync.
    pub record: Option<Record>,
    /// Its objects, as the cluster holds them.
    pub live: Vec<ObjectText>,
    /// What the cluster's controllers say of its objects, oldest first.
    pub events: Vec<ClusterEvent>,
    /// Since when health and sync are what they are.
    pub since: Option<SinceFacts>,
    /// What the next sync does: each object that it changes.
    pub pending: Arc<[Change]>,
    /// The newest commit that changed its files, in full, where something is pending and git tells.
    pub changed_by: Option<String>,
}

/// Since when something is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinceFacts {
    /// The moment.
    pub time: Timestamp,
    /// Whether it may have been so before: this process has seen nothing else.
    pub at_least: bool,
}

/// What GPUs cost an hour, by the repository's prices.
#[derive(Clone, Debug, PartialEq)]
pub struct HourlyCost {
    /// As the repository writes it.
    pub currency: String,
    /// How much.
    pub amount: f64,
}

impl SourceFacts {
    /// The commits that the source and its models name, in full.
    pub fn named_commits(&self) -> BTreeSet<String> {
        let own = [&self.seen, &self.attempted, &self.applied].into_iter().flatten().map(|one| &one.commit);
        let history = |model: &ModelFacts| model.record.as_ref().map(|record| record.history.clone());
        let synced = self.models.iter().filter_map(history).flatten().map(|entry| entry.revision);
        let last = self.models.iter().map(|model| &model.status.revision);
        own.chain(last).cloned().chain(synced).map(|commit| commit_of_revision(&commit).to_owned()).collect()
    }

    /// The folders of models that the next sync changes, from the repository's root.
    pub fn pending_folders(&self) -> BTreeSet<String> {
        let pending = self.models.iter().filter(|model| !model.pending.is_empty() && !model.status.source.is_empty());
        pending.map(|model| model.folder().to_owned()).collect()
    }

    /// What rows and addresses call a namespace: `NAMESPACE@CONTEXT` where a process shows several clusters.
    pub fn place_of(&self, namespace: &str) -> String {
        self.cluster.as_ref().map_or_else(|| namespace.to_owned(), |cluster| format!("{namespace}@{cluster}"))
    }

    /// What is known of a commit.
    pub fn commit(&self, commit: &str) -> Option<&CommitFacts> {
        self.commits.get(commit_of_revision(commit))
    }
}

impl ModelFacts {
    /// The folder of its `model.yaml`, from the repository's root.
    pub fn folder(&self) -> &str {
        self.status.source.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// Whether there is nothing to wait for.
    pub fn is_well(&self) -> bool {
        self.status.health.is_good() && self.status.sync == SyncState::Synced
    }

    /// The graphs among its live objects.
    pub fn graphs(&self) -> impl Iterator<Item = Object> {
        self.live.iter().filter(|object| object.kind() == GRAPH.kind).map(ObjectText::parse)
    }
}

/// A moment without what is less than a second: as records and the API have it.
pub fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// The models of an environment: statuses made of a plan, with what the plan says of GPUs and their cost, the records, and
/// live objects. `earlier` is what was known before, for what only a process that watched can say: since when.
pub fn model_facts(
    statuses: Vec<ModelStatus>,
    plan: &Plan,
    records: Vec<Record>,
    live: Vec<ObjectText>,
    events: Vec<ClusterEvent>,
    earlier: &[ModelFacts],
    now: Timestamp,
) -> Vec<ModelFacts> {
    let mut changes: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
    for change in &plan.changes {
        changes.entry(&change.model).or_default().push(change);
    }
    let mut records: BTreeMap<String, Record> =
        records.into_iter().map(|record| (record.model.clone(), record)).collect();
    let mut live: BTreeMap<ObjectIdentity, ObjectText> =
        live.into_iter().map(|object| (object.reference().identity(), object)).collect();
    let mut said: BTreeMap<String, Vec<ClusterEvent>> = BTreeMap::new();
    for event in events {
        said.entry(event.model.clone()).or_default().push(event);
    }
    let earlier: BTreeMap<&str, &ModelFacts> = earlier.iter().map(|one| (one.status.name.as_str(), one)).collect();
    statuses
        .into_iter()
        .map(|status| {
            let own = changes.get(status.name.as_str()).map(Vec::as_slice).unwrap_or_default();
            let record = records.remove(&status.name);
            let objects = status.objects.iter().filter_map(|one| live.remove(&one.object.identity())).collect();
            let mut events = said.remove(&status.name).unwrap_or_default();
            events.drain(..events.len().saturating_sub(MAX_EVENTS));
            let since = since(&status, record.as_ref(), earlier.get(status.name.as_str()).copied(), now);
            ModelFacts {
                gpus: gpus_of(own),
                cost: cost_of(own),
                pending: pending(own),
                changed_by: None,
                since: Some(since),
                record,
                live: objects,
                events,
                status,
            }
        })
        .collect()
}

/// What a sync would do, without the objects as a whole, which nobody looks at here.
fn pending(changes: &[&Change]) -> Arc<[Change]> {
    let changed = changes.iter().filter(|change| change.action != Action::Keep);
    changed.map(|change| Change { before: None, after: None, inventory: None, ..(*change).clone() }).collect()
}

fn gpus_of(changes: &[&Change]) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::<String, u64>::new();
    for (sku, totals) in changes.iter().flat_map(|change| &change.gpus_by_sku).filter(|(_, totals)| totals.before > 0) {
        let sum = sums.entry(sku.clone()).or_default();
        *sum = sum.saturating_add(totals.before);
    }
    sums
}

fn cost_of(changes: &[&Change]) -> Option<HourlyCost> {
    let mut costs = changes.iter().filter_map(|change| change.cost.as_ref()).peekable();
    let currency = costs.peek()?.currency.clone();
    Some(HourlyCost { currency, amount: costs.map(|cost| cost.before_hour).sum() })
}

/// The record knows since when a model stands as it was recorded. What changed since, only who watched can say.
pub(crate) fn since(
    status: &ModelStatus,
    record: Option<&Record>,
    earlier: Option<&ModelFacts>,
    now: Timestamp,
) -> SinceFacts {
    let now = whole_second(now);
    let is_same = |other: &ModelStatus| other.health == status.health && other.sync == status.sync;
    if let Some(known) = earlier.filter(|one| is_same(&one.status)).and_then(|one| one.since) {
        return known;
    }
    let state = record.and_then(|record| record.state.as_ref());
    let recorded = state.filter(|state| state.health == status.health && state.sync == status.sync);
    let ready = recorded.and_then(|state| state.conditions.iter().find(|one| one.kind == "Ready"));
    match ready.and_then(|condition| condition.last_transition_time.parse().ok()) {
        // It was something else a moment ago, so this is when it became what it is.
        Some(_) | None if earlier.is_some() => SinceFacts { time: now, at_least: false },
        Some(time) => SinceFacts { time, at_least: false },
        None => SinceFacts { time: now, at_least: true },
    }
}
