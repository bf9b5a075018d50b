//! How a source stands: the one structured truth that statuses, events, notifications and metrics are made of.
//!
//! Whoever tells people of a source maps this, and parses no sentence. The reconciler writes it; see `controller::reconcile`.

use crate::controller::sources::manual_requests::HoldApproval;
use crate::controller::sources::resolved_source::SourceKey;
use crate::controller::status_wording::CommitVerdict;
use jiff::Timestamp;
use stator_core::dynamo::gpus::GpuTotals;
use stator_core::outcome::SyncOutcome;
use stator_git::forge::CommitStatus;
use stator_git::source::model_source::status::{ModelSourceStatus, READY};
use stator_model::plan::{HoldKind, Summary};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How one source stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceState {
    /// Whether its repository was asked at least once, whatever came of it.
    pub was_polled: bool,
    /// Its state when an earlier process last reported it, where that is known.
    pub previous: Option<PreviousState>,
    /// The environment that is synced, once it is known.
    pub environment: Option<String>,
    /// The newest commit that was seen, and when.
    pub seen: Option<TimestampedRevision>,
    /// The commit that was last synced, well or not, and when that began.
    pub attempted: Option<TimestampedRevision>,
    /// The commit that was last synced well, and when that was done.
    pub applied: Option<TimestampedRevision>,
    /// The repository and the branch that led to it, where the source follows a branch.
    pub applied_from: Option<String>,
    /// What is done now.
    pub phase: SourcePhase,
    /// What is in the way, by where it lies. [`SourceState::problem`] is the first.
    pub problems: BTreeMap<ProblemScope, SourceProblem>,
    /// How the newest commit ended, once it has.
    pub verdict: Option<RevisionVerdict>,
    /// What guards hold back of the newest commit.
    pub hold: Option<RevisionHold>,
    /// What was approved last, and carried out.
    pub approval: Option<HoldApproval>,
    /// The commit that live objects are kept at, where the newest one may not be synced: its signature is refused, or no
    /// window is open.
    pub last_known_good: Option<String>,
    /// The models of the last attempt.
    pub counts: ModelHealthCounts,
    /// The last plan.
    pub plan: Option<PlanSummary>,
    /// Commit statuses.
    pub statuses: StatusPostingState,
    /// When the next sync window opens, while none is open.
    pub next_window: Option<Timestamp>,
    /// The administrators' policy whose windows are closed; none where they are the source's own.
    pub window_policy: Option<String>,
    /// The commit that is synced outside the sync windows, as requested.
    pub outside_windows: Option<String>,
    /// The last request for a look and a sync that was answered: [`ManualRequests::requested_at`](crate::controller::sources::manual_requests::ManualRequests::requested_at).
    pub handled_request: Option<String>,
    /// What somebody asked for and did not get, with the reason: sentences, sorted.
    pub rejected_requests: BTreeSet<String>,
    /// Attempts, looks included, that failed since the last that went well.
    pub failures: u32,
}

/// A commit, and a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimestampedRevision {
    /// In full.
    pub commit: String,
    /// When, by the wall clock.
    pub at: Timestamp,
}

impl TimestampedRevision {
    /// A commit, now.
    pub fn now(commit: impl Into<String>) -> Self {
        Self { commit: commit.into(), at: Timestamp::now() }
    }
}

/// What is known of the time before this process: by the source's own status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreviousState {
    /// The commit that was last synced successfully.
    pub applied: Option<String>,
    /// The repository and the branch that led to it.
    pub applied_from: Option<String>,
    /// Whether all was well.
    pub ready: bool,
    /// The reason word of what was not.
    pub reason: Option<String>,
    /// Of which commit the last verdict was.
    pub judged_commit: Option<String>,
    /// The commit that was seen last, which may have been taken up.
    pub seen: Option<String>,
}

impl PreviousState {
    /// Of a source's status, as the cluster holds it.
    pub fn from_status(status: &ModelSourceStatus) -> Self {
        let ready = status.condition(READY);
        Self {
            applied: status.revision.applied.clone(),
            applied_from: status.revision.applied_from.clone(),
            ready: status.is_condition_true(READY),
            reason: ready.map(|condition| condition.reason.clone()),
            judged_commit: status.revision.attempted.clone(),
            seen: status.revision.seen.clone(),
        }
    }
}

/// What a source is at; shown as its status has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::Display)]
pub enum SourcePhase {
    /// Waits for something to change.
    #[default]
    Idle,
    /// Fetches, reads and renders.
    Reading,
    /// Writes, or waits for health.
    Syncing,
    /// Pauses before it tries again.
    Retrying,
    /// No window is open.
    #[strum(serialize = "Window")]
    WindowClosed,
    /// `spec.suspend`.
    Suspended,
}

/// Where a problem lies. The first in this order is reported first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemScope {
    /// The source itself: its spec, its secrets, the account that it acts as.
    Source,
    /// The repository: it cannot be looked at.
    Repository,
    /// The newest commit: it does not become what it should.
    Commit,
}

/// What is in the way, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceProblem {
    /// In one word.
    pub reason: ProblemReason,
    /// What is wrong, in a sentence, without a secret.
    pub message: String,
    /// What to do about it; empty where the message says it.
    pub help: String,
    /// Whether it may pass by itself: then it is tried again, and else something has to change first.
    pub is_transient: bool,
}

impl SourceProblem {
    /// One that waits for somebody to change something.
    pub fn permanent(reason: ProblemReason, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { reason, message: message.into(), help: help.into(), is_transient: false }
    }

    /// One that may pass by itself.
    pub fn transient(reason: ProblemReason, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { reason, message: message.into(), help: help.into(), is_transient: true }
    }

    /// A message about it, and what to do about it.
    pub fn with_help(&self, message: &str) -> String {
        if self.help.is_empty() { message.to_owned() } else { format!("{message}; {}", self.help) }
    }
}

impl fmt::Display for SourceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with_help(&self.message))
    }
}

/// Why a source is not as it should be. The words are those of conditions and events; Flux's where they fit.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display, strum::IntoStaticStr, strum::VariantArray,
)]
pub enum ProblemReason {
    /// It may not do what its repository asks for: another namespace.
    AccessDenied,
    /// A secret that it names says what cannot be used.
    SecretInvalid,
    /// The cluster cannot be reached as the account that it acts as.
    ClusterUnreachable,
    /// Its own task ended unexpectedly.
    InternalError,
    /// The git host refuses the login.
    AuthenticationFailed,
    /// The git host does not give what is asked for, or cannot be reached.
    GitOperationFailed,
    /// The signature is missing or not one of those that are trusted.
    VerificationFailed,
    /// Reading the commit ended the process, more than once.
    Trial,
    /// The files of the commit have errors.
    BuildFailed,
    /// A guard holds the plan back until it is approved.
    Held,
    /// An object cannot be changed.
    Blocked,
    /// Models do not become healthy.
    HealthCheckFailed,
    /// The cluster, the network or stator is at fault.
    ReconciliationFailed,
}

impl ProblemReason {
    /// All of them.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// In CamelCase, as conditions have it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether another secret could mend it: then the source's secrets are worth reading again.
    pub const fn secret_may_help(self) -> bool {
        match self {
            Self::SecretInvalid | Self::AuthenticationFailed | Self::VerificationFailed => true,
            Self::AccessDenied
            | Self::ClusterUnreachable
            | Self::InternalError
            | Self::GitOperationFailed
            | Self::Trial
            | Self::BuildFailed
            | Self::Held
            | Self::Blocked
            | Self::HealthCheckFailed
            | Self::ReconciliationFailed => false,
        }
    }

    /// Of an outcome; none where it says that all is well.
    pub const fn from_outcome(outcome: SyncOutcome) -> Option<Self> {
        match outcome {
            SyncOutcome::Synced
            | SyncOutcome::Unchanged
            | SyncOutcome::Healthy
            | SyncOutcome::Deferred
            | SyncOutcome::Deleting
            | SyncOutcome::Deleted
            | SyncOutcome::Cancelled
            | SyncOutcome::Superseded => None,
            SyncOutcome::Invalid => Some(Self::BuildFailed),
            SyncOutcome::Unsigned => Some(Self::VerificationFailed),
            SyncOutcome::Held => Some(Self::Held),
            SyncOutcome::Blocked => Some(Self::Blocked),
            SyncOutcome::Unhealthy => Some(Self::HealthCheckFailed),
            SyncOutcome::Failed => Some(Self::ReconciliationFailed),
        }
    }
}

/// How a commit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionVerdict {
    /// The commit, in full.
    pub revision: String,
    /// How.
    pub verdict: CommitVerdict,
    /// When this was first so, by the wall clock.
    pub at: Timestamp,
}

impl RevisionVerdict {
    /// Whether all is well.
    pub fn is_success(&self) -> bool {
        self.verdict.is_success()
    }
}

/// What guards hold back until it is approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionHold {
    /// The guards, and what each says, with the numbers; all of them have to be let go at once. Sorted, and never empty.
    pub guards: BTreeMap<HoldKind, String>,
    /// Of which commit, in full.
    pub revision: String,
    /// The digest of what is held back.
    pub plan: String,
}

impl RevisionHold {
    /// The value of the annotation `stator.dev/allow` that lets it go.
    pub fn approval_annotation(&self) -> String {
        format!("{}@{}:{}", self.guard_list(), self.revision, self.plan)
    }

    /// The command that lets it go.
    pub fn release_command(&self, source: &SourceKey) -> String {
        format!("stator sync --source {} -n {} --allow {}", source.name, source.namespace, self.guard_list())
    }

    /// The guards' words, with commas.
    pub fn guard_list(&self) -> String {
        self.guards.keys().map(|kind| kind.as_str()).collect::<Vec<_>>().join(",")
    }
}

/// How many models stand how, in the last attempt. Models that git no longer has are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelHealthCounts {
    /// All of them.
    pub models: usize,
    /// Those that are applied and healthy.
    pub healthy: usize,
    /// Those that are not, whatever the reason.
    pub not_healthy: usize,
    /// Those with live objects that somebody else changed since, and that are not put back yet.
    pub drifted: usize,
}

/// What a plan was going to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanSummary {
    /// Of which commit, in full.
    pub revision: String,
    /// Objects to create.
    pub create: usize,
    /// Objects to update in place.
    pub update: usize,
    /// Objects to delete and create again.
    pub replace: usize,
    /// Objects to delete.
    pub delete: usize,
    /// Objects to take over.
    pub adopt: usize,
    /// Objects that stay as they are.
    pub keep: usize,
    /// Objects that cannot be changed.
    pub blocked: usize,
    /// Objects whose change waits for an approval.
    pub held: usize,
    /// GPUs of all models, the unchanged ones included.
    pub gpus: GpuTotals,
}

impl PlanSummary {
    /// Of a plan of a commit.
    pub fn from_summary(revision: &str, summary: &Summary) -> Self {
        Self {
            revision: revision.to_owned(),
            create: summary.create,
            update: summary.update,
            replace: summary.replace,
            delete: summary.delete,
            adopt: summary.adopt,
            keep: summary.keep,
            blocked: summary.blocked,
            held: summary.held,
            gpus: summary.gpus,
        }
    }

    /// Whether it was going to change nothing.
    pub fn is_empty(&self) -> bool {
        self.create + self.update + self.replace + self.delete + self.adopt + self.held == 0
    }
}

/// What became of the commit statuses of a source. Those of models are not distinguished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusPostingState {
    /// What the git host shows of the newest commit as a whole.
    pub shown: Option<ShownStatus>,
    /// Statuses that are wanted and not posted yet.
    pub pending: usize,
    /// Statuses that were refused for good since the start.
    pub given_up: u64,
    /// Why none is posted, with what to do about it.
    pub problem: Option<String>,
}

/// A status, as the git host shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownStatus {
    /// The commit, in full.
    pub revision: String,
    /// What it shows: `stator/prod`.
    pub status: CommitStatus,
}

impl SourceState {
    /// The first of the problems.
    pub fn problem(&self) -> Option<&SourceProblem> {
        self.problems.values().next()
    }

    /// Whether the newest commit is the one that was last synced well.
    pub fn is_newest_applied(&self) -> bool {
        let applied = self.applied.as_ref().map(|one| &one.commit);
        self.seen.as_ref().is_some_and(|seen| Some(&seen.commit) == applied)
    }

    /// Whether the newest commit is synced, its models are healthy, and nothing is in the way.
    pub fn is_ready(&self) -> bool {
        self.problems.is_empty() && self.is_newest_applied()
    }

    /// Puts a problem, or takes it away.
    pub fn set_problem(&mut self, part: ProblemScope, problem: Option<SourceProblem>) {
        match problem {
            Some(problem) => drop(self.problems.insert(part, problem)),
            None => drop(self.problems.remove(&part)),
        }
    }
}
