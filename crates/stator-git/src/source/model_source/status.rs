//! What is said of a source in its `status`: conditions as kstatus reads them, revisions, counts, and what is held back.
//!
//! Its size does not depend on how many models there are. Nothing in it moves while nothing happens, so that a source at
//! rest is never written. Every field may be missing: an older stator wrote less, and a later one may write more.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;
use stator_core::text::{TextLimit, one_line};

/// The most characters of a message.
pub const MAX_MESSAGE_LENGTH: usize = 1024;
/// The most commit statuses that are named.
pub const MAX_POSTED_STATUSES: usize = 10;
/// The most guards that are named.
pub const MAX_HELD_GUARDS: usize = 8;

/// The condition that tells whether the cluster is as the newest commit says, and healthy.
pub const READY: &str = "Ready";
/// The condition that tells whether stator is at work, or tries again.
pub const RECONCILING: &str = "Reconciling";
/// The condition that tells whether nothing moves any more until somebody does something.
pub const STALLED: &str = "Stalled";

/// The state of a source. Written by stator; editing it does not change live objects.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelSourceStatus {
    /// `metadata.generation` of the spec that this is about.
    pub observed_generation: Option<i64>,
    /// `Ready`, `Reconciling` and `Stalled`. The last two are never true at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub conditions: Vec<SourceCondition>,
    /// The value of the annotation `stator.dev/requestedAt` (or Flux's) that was last handled, successfully or not.
    #[schemars(length(max = 1024))]
    pub last_handled_request: Option<String>,
    /// The current phase: `Idle`, `Reading`, `Syncing`, `Retrying`, `Window` or `Suspended`.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub phase: String,
    /// The environment that is synced.
    #[schemars(length(max = 253))]
    pub environment: Option<String>,
    /// Commits, and since when.
    #[serde(skip_serializing_if = "Revisions::is_empty")]
    pub revision: Revisions,
    /// The commit that is applied, short.
    #[schemars(length(max = 64))]
    pub commit: Option<String>,
    /// The number of models, by state.
    pub models: Option<ModelCounts>,
    /// The counts of the last plan that changed anything.
    pub plan: Option<PlanCounts>,
    /// The changes that guards hold until they are approved.
    pub held: Option<HeldRevision>,
    /// The approval that was last carried out.
    pub approval: Option<ApprovedRevision>,
    /// The newest commit's statuses on the git host, without those of models.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub statuses: Vec<PostedStatus>,
    /// When the next sync window opens, if none is open: RFC 3339 in UTC.
    #[schemars(extend("format" = "date-time"))]
    pub next_window: Option<String>,
}

/// A condition in Kubernetes' format.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceCondition {
    /// `Ready`, `Reconciling` or `Stalled`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 64))]
    pub kind: String,
    /// The status of the condition.
    pub status: ConditionStatus,
    /// One word in CamelCase.
    #[schemars(length(min = 1, max = 128))]
    pub reason: String,
    /// What is wrong, and how to fix it.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub message: String,
    /// Since when the status is that: RFC 3339 in UTC.
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// `metadata.generation` of the spec that it is about.
    pub observed_generation: Option<i64>,
}

/// Whether something is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr)]
pub enum ConditionStatus {
    /// It is.
    True,
    /// It is not.
    False,
    /// That is not known yet.
    Unknown,
}

/// Commits, in full, and since when.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Revisions {
    /// The newest commit that was seen.
    #[schemars(length(max = 64))]
    pub seen: Option<String>,
    /// When it was first seen.
    #[schemars(extend("format" = "date-time"))]
    pub seen_at: Option<String>,
    /// The commit that was last synced, successfully or not.
    #[schemars(length(max = 64))]
    pub attempted: Option<String>,
    /// When that sync first began.
    #[schemars(extend("format" = "date-time"))]
    pub attempted_at: Option<String>,
    /// The commit that was last synced successfully.
    #[schemars(length(max = 64))]
    pub applied: Option<String>,
    /// The repository and the branch of that commit: while the source follows them, new commits must descend from it.
    #[schemars(length(max = 4096))]
    pub applied_from: Option<String>,
    /// When that sync first ended.
    #[schemars(extend("format" = "date-time"))]
    pub applied_at: Option<String>,
}

/// The number of models, by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelCounts {
    /// Healthy models of all models, such as `3/4`.
    #[schemars(length(max = 64))]
    pub ready: String,
    /// All models of the environment.
    pub total: u64,
    /// In sync with git, and healthy.
    pub healthy: u64,
    /// Failed, blocked, not healthy, or with errors in their intent.
    pub not_healthy: u64,
    /// Drifted, and not healed.
    pub drifted: u64,
}

/// The numbers of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanCounts {
    /// The commit that was planned.
    #[schemars(length(max = 64))]
    pub revision: String,
    /// Objects to create.
    pub create: u64,
    /// Objects to update in place.
    pub update: u64,
    /// Objects to delete and create again.
    pub replace: u64,
    /// Objects to delete.
    pub delete: u64,
    /// Objects to take over.
    pub adopt: u64,
    /// Objects that stay as they are.
    pub keep: u64,
    /// Objects that cannot be changed.
    pub blocked: u64,
    /// GPUs of the environment.
    pub gpus: GpuCounts,
}

/// GPUs of the environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GpuCounts {
    /// Before the sync.
    pub before: u64,
    /// After it.
    pub after: u64,
    /// The peak during the sync.
    pub peak: u64,
}

/// The changes that guards hold until they are approved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HeldRevision {
    /// The commit that is held: an approval is for this commit only.
    #[schemars(length(max = 64))]
    pub revision: String,
    /// SHA-256 of the held changes: an approval is for exactly these.
    // An earlier stator wrote none.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub plan: String,
    /// Which guards, and why.
    #[schemars(length(max = 8))]
    pub guards: Vec<HeldGuard>,
    /// The command that approves it.
    #[schemars(length(max = 1024))]
    pub command: String,
}

/// An approval that released what was held.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApprovedRevision {
    /// The commit.
    #[schemars(length(max = 64))]
    pub revision: String,
    /// SHA-256 of the held changes.
    #[schemars(length(max = 64))]
    pub plan: String,
    /// The guards that were released, with commas.
    #[schemars(length(max = 256))]
    pub guards: String,
    /// Who approved, as the annotation `stator.dev/allowed-by` says.
    #[schemars(length(max = 253))]
    pub by: Option<String>,
}

/// One guard that holds something back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HeldGuard {
    /// `mass-delete`, `replace`, `adopt`, `move`, `max-gpus` or `rollback`, as `stator sync --allow` takes it; `blocked` if no approval helps.
    #[schemars(length(max = 64))]
    pub guard: String,
    /// Why, in a sentence, with the numbers.
    #[schemars(length(max = 1024))]
    pub message: String,
}

/// A commit status on the git host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PostedStatus {
    /// Its context: `stator/prod`.
    #[schemars(length(max = 255))]
    pub context: String,
    /// The commit.
    #[schemars(length(max = 64))]
    pub revision: String,
    /// `pending`, `success`, `failure` or `error`.
    #[schemars(length(max = 64))]
    pub state: String,
    /// Its description.
    #[schemars(length(max = 1024))]
    pub description: String,
}

impl ModelSourceStatus {
    /// The status of an object as the cluster holds it; an empty one where there is none, or one that cannot be read: what
    /// stands there is written over, and must not be in the way of that.
    pub fn read(object: &Value) -> Self {
        object.get("status").and_then(|status| Self::deserialize(status).ok()).unwrap_or_default()
    }

    /// The condition of a type.
    pub fn condition(&self, kind: &str) -> Option<&SourceCondition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// Whether a condition is there and true.
    pub fn is_condition_true(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition.status == ConditionStatus::True)
    }
}

impl Revisions {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl ConditionStatus {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A message for a status: one line without control characters, cut to what the definition takes.
pub fn bound_message(message: &str) -> String {
    truncate_line(message, MAX_MESSAGE_LENGTH)
}

/// One line of at most `most` characters, see [`one_line`].
pub fn truncate_line(text: &str, most: usize) -> String {
    one_line(text, TextLimit::Characters(most))
}
