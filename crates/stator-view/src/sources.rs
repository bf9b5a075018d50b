//! The sources: what was seen, attempted and applied of each, and what is in the way.

use crate::facts::{RevisionFacts, SourceFacts};
use crate::models::HealthCounts;
use crate::observation::FleetObservation;
use crate::words::{HEALTHS, SYNC_STATES};
use schemars::JsonSchema;
use serde::Serialize;
use serde_with::skip_serializing_none;

/// One source.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Source")]
pub struct SourceView {
    /// What models name as their source.
    pub label: String,
    /// Its namespace; empty for a folder.
    pub namespace: String,
    /// Its name; for a folder the repository's.
    pub name: String,
    /// Where its models come from: an address or a path.
    pub origin: String,
    /// The environment that is synced, once it is known.
    pub environment: Option<String>,
    /// Its current phase, in a word.
    pub phase: String,
    /// The newest commit that was seen.
    pub seen: Option<RevisionView>,
    /// The commit that was last synced, successfully or not.
    pub attempted: Option<RevisionView>,
    /// The commit that was last synced successfully.
    pub applied: Option<RevisionView>,
    /// Its problems, each with its fix.
    pub problems: Vec<String>,
    /// The changes that guards hold until they are approved.
    pub held: Vec<String>,
    /// The held commit, in full; absent where nothing is held.
    pub held_commit: Option<String>,
    /// The digest of what is held back, as an approval names it.
    pub held_plan: Option<String>,
    /// Whether it syncs nothing until it is resumed.
    pub suspended: bool,
    /// When the next sync window opens, RFC 3339, while none is open.
    pub next_window: Option<String>,
    /// Why the current state of its models is unknown, if it is.
    pub unread: Option<String>,
    /// Models that the next sync changes.
    pub pending_models: usize,
    /// Its models, counted by health and sync state.
    pub models: HealthCounts,
}

/// A commit, and the time of its event.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Revision")]
pub struct RevisionView {
    /// In full.
    pub commit: String,
    /// When, RFC 3339 in UTC.
    pub time: Option<String>,
    /// The name of its author; absent where the repository does not tell.
    pub author: Option<String>,
    /// The first line of its message.
    pub title: Option<String>,
    /// Its page at the git host.
    pub page: Option<String>,
}

impl RevisionView {
    /// Of a commit that a source or one of its models names. `at` is when something became of it.
    pub(crate) fn new(source: &SourceFacts, commit: &str, at: Option<String>) -> Self {
        let known = source.commit(commit);
        let is_web = |page: &&String| page.starts_with("https://") || page.starts_with("http://");
        Self {
            commit: commit.to_owned(),
            time: at,
            author: known.map(|one| one.author.clone()),
            title: known.map(|one| one.title.clone()),
            page: known.and_then(|one| one.page.as_ref()).filter(is_web).cloned(),
        }
    }
}

/// Every source.
pub fn sources(observation: &FleetObservation) -> Vec<SourceView> {
    observation.listed_sources().map(source_view).collect()
}

/// One source.
pub fn source_view(source: &SourceFacts) -> SourceView {
    let revision = |one: &Option<RevisionFacts>| {
        one.as_ref().map(|one| RevisionView::new(source, &one.commit, one.at.map(|at| at.to_string())))
    };
    SourceView {
        label: source.label(),
        namespace: source.namespace.clone(),
        name: source.name.clone(),
        origin: source.origin.clone(),
        environment: source.environment.clone(),
        phase: source.phase.clone(),
        seen: revision(&source.seen),
        attempted: revision(&source.attempted),
        applied: revision(&source.applied),
        problems: source.problems.clone(),
        held: source.held.as_ref().map(|held| held.reasons.clone()).unwrap_or_default(),
        held_commit: source.held.as_ref().map(|held| held.commit.clone()),
        held_plan: source.held.as_ref().map(|held| held.plan.clone()),
        suspended: source.is_suspended,
        next_window: source.next_window.map(|time| time.to_string()),
        unread: source.unread.clone(),
        pending_models: source.models.iter().filter(|model| !model.pending.is_empty()).count(),
        models: counts(source),
    }
}

fn counts(source: &SourceFacts) -> HealthCounts {
    let mut counts = HealthCounts {
        all: source.models.len(),
        health: HEALTHS.iter().map(|one| (one.as_str(), 0)).collect(),
        sync: SYNC_STATES.iter().map(|one| (one.as_str(), 0)).collect(),
        drifted: 0,
    };
    for model in source.models.iter() {
        *counts.health.entry(model.status.health.as_str()).or_default() += 1;
        *counts.sync.entry(model.status.sync.as_str()).or_default() += 1;
        counts.drifted += usize::from(!model.status.drift.is_empty());
    }
    counts
}
