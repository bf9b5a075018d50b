//! How a model stood at the end of a sync, in the form that `kubectl wait` and every kstatus reader understands.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use stator_core::dynamo::health::Health;

/// The condition of a model whose files have errors. What runs of it goes on, and is judged by the other conditions.
const FILES_INVALID: &str = "FilesInvalid";

/// How a model stood when its record was last written.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordState {
    /// Whether the cluster matched git.
    pub sync: SyncState,
    /// The worst health of its objects.
    pub health: Health,
    /// GPUs that its objects asked for.
    pub gpus: u64,
    /// The SKU of those GPUs, where the graph says.
    pub gpu_sku: Option<String>,
    /// `Ready`, `Reconciling` and `Stalled`, and `FilesInvalid` where it is true; sorted by type.
    pub conditions: Vec<RecordCondition>,
}

/// A condition in Kubernetes' format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordCondition {
    /// `Ready`, `Reconciling`, `Stalled` or `FilesInvalid`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True` or `False`.
    pub status: String,
    /// One word in CamelCase.
    pub reason: String,
    /// One sentence.
    #[serde(default)]
    pub message: String,
    /// Since when the status is that, RFC 3339 in UTC.
    pub last_transition_time: String,
}

/// What the end of a sync knows of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedModelState {
    /// Whether the cluster matches git.
    pub sync: SyncState,
    /// The worst health of its objects.
    pub health: Health,
    /// Why, in a sentence.
    pub message: String,
    /// True when nothing moves any more until somebody does something: it failed, or is blocked.
    pub is_stuck: bool,
    /// GPUs that its objects ask for.
    pub gpus: u64,
    /// The SKU of those GPUs.
    pub gpu_sku: Option<String>,
}

impl RecordState {
    /// The state that is written for what was seen. A condition that stays as it was keeps its time.
    pub fn new(seen: ObservedModelState, time: &str, before: Option<&Self>) -> Self {
        let ObservedModelState { sync, health, message, is_stuck, gpus, gpu_sku } = seen;
        let ready = sync == SyncState::Synced && matches!(health, Health::Healthy | Health::Suspended);
        // What is not ready and not stuck is on its way, but for what served and no longer does: nobody works on that.
        let let_down = sync == SyncState::Synced && health == Health::Degraded;
        let moving = !(ready || is_stuck || let_down);
        let reason = if sync == SyncState::Synced { health.as_str() } else { sync.as_str() };
        let conditions = [("Ready", ready), ("Reconciling", moving), ("Stalled", is_stuck && !ready)];
        let conditions = conditions.map(|(kind, is_true)| {
            let status = if is_true { "True" } else { "False" };
            let since = before
                .and_then(|before| before.conditions.iter().find(|known| known.kind == kind && known.status == status))
                .map_or(time, |known| known.last_transition_time.as_str());
            RecordCondition {
                kind: kind.to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
                // The sentence stands where it is a reason for the status, once.
                message: if is_true || kind == "Ready" { message.clone() } else { String::new() },
                last_transition_time: since.to_owned(),
            }
        });
        Self { sync, health, gpus, gpu_sku, conditions: conditions.into() }
    }

    /// The same, with what is to be said of the model's files: what is wrong with them, in a sentence, or nothing. `before`
    /// is the state that the cluster holds.
    pub fn with_file_fault(mut self, fault: Option<&str>, time: &str, before: Option<&Self>) -> Self {
        self.conditions.retain(|one| one.kind != FILES_INVALID);
        if let Some(fault) = fault {
            let since = before.and_then(Self::file_fault).map_or(time, |known| known.last_transition_time.as_str());
            let condition = RecordCondition {
                kind: FILES_INVALID.to_owned(),
                status: "True".to_owned(),
                reason: "BuildFailed".to_owned(),
                message: fault.to_owned(),
                last_transition_time: since.to_owned(),
            };
            self.conditions.insert(0, condition);
        }
        self
    }

    /// What is wrong with the model's files, where anything is.
    pub fn file_fault(&self) -> Option<&RecordCondition> {
        self.conditions.iter().find(|one| one.kind == FILES_INVALID)
    }

    /// The sentence of `Ready`.
    pub fn message(&self) -> &str {
        self.conditions.iter().find(|one| one.kind == "Ready").map(|one| one.message.as_str()).unwrap_or_default()
    }
}

/// What a commit's name ends in where the files that were read are not the commit's.
const UNCOMMITTED: &str = "-dirty";

/// Whether a revision is of files that differ from those of its commit.
pub fn is_uncommitted(revision: &str) -> bool {
    revision.ends_with(UNCOMMITTED)
}

/// The commit that a revision begins from: itself, unless its files differ.
pub fn commit_of_revision(revision: &str) -> &str {
    revision.strip_suffix(UNCOMMITTED).unwrap_or(revision)
}

/// A revision as people read it: the first seven digits of a commit, with `-dirty` where it has that.
pub fn abbreviate_revision(revision: &str) -> String {
    let (commit, dirty) = (commit_of_revision(revision), if is_uncommitted(revision) { UNCOMMITTED } else { "" });
    let is_commit = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    format!("{}{dirty}", if is_commit { stator_core::commit::short_commit(commit) } else { commit })
}

/// Whether the cluster is as git says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, strum::IntoStaticStr)]
pub enum SyncState {
    /// It is.
    Synced,
    /// A sync would change something.
    OutOfSync,
    /// A sync cannot make it so: somebody else is in the way, or the model has errors.
    Blocked,
    /// It is unknown.
    #[default]
    Unknown,
}

impl SyncState {
    /// The word for it, in JSON and wherever people read it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The state of a word; `Unknown` for any other, so that what a later stator wrote can be read.
    pub fn parse_or_unknown(word: &str) -> Self {
        let all = [Self::Synced, Self::OutOfSync, Self::Blocked];
        all.into_iter().find(|one| one.as_str() == word).unwrap_or_default()
    }
}
