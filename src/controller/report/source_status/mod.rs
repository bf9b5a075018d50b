//! How a source stands → the status of its object. Pure: the same input gives the same status, and a status that is given
//! back as the previous one stays as it is, so that a source at rest is never written.
//!
//! kstatus reads the conditions: `Stalled` is in the way of everything until somebody does something, `Reconciling` goes
//! by itself, and `Ready` is true only when the newest commit is applied and healthy.

pub mod status_writer;
#[cfg(test)]
mod tests;

use crate::controller::sources::manual_requests::HoldApproval;
use crate::controller::sources::registry::source_state::{
    ModelHealthCounts, PlanSummary, ProblemReason, ProblemScope, RevisionVerdict, ShownStatus, SourcePhase,
    SourceProblem, SourceState, TimestampedRevision,
};
use crate::controller::sources::registry::{RejectedSource as NotRun, RejectionReason};
use crate::controller::sources::resolved_source::SourceKey;
use crate::controller::status_wording::{commit_label, prefix_commit, window_label};
use jiff::Timestamp;
use stator_git::source::model_source::status::{
    ApprovedRevision, ConditionStatus, GpuCounts, HeldGuard, HeldRevision, MAX_HELD_GUARDS, MAX_MESSAGE_LENGTH,
    MAX_POSTED_STATUSES, ModelCounts, ModelSourceStatus, PlanCounts, PostedStatus, READY, RECONCILING, Revisions,
    STALLED, SourceCondition, bound_message, truncate_line,
};
use std::borrow::Cow;

/// What a status depends on beside how the source stands.
#[derive(Clone, Copy, Debug)]
pub struct SourceStatusInput<'a> {
    /// Which source.
    pub key: &'a SourceKey,
    /// `metadata.generation` of the spec that it stands so by.
    pub generation: i64,
    /// What its object has now, or had when this process started.
    pub previous: &'a ModelSourceStatus,
    /// What is to be reported beside: [`SourceRegistry::remarks`](crate::controller::sources::registry::SourceRegistry::remarks).
    pub remarks: &'a [String],
    /// The time.
    pub now: Timestamp,
}

/// The status of a source that runs.
pub fn build_status(state: &SourceState, about: &SourceStatusInput<'_>) -> ModelSourceStatus {
    let before = about.previous;
    let judged = state.verdict.as_ref();
    let was = &before.revision;
    let (seen, seen_at) = observed_or_previous(state.seen.as_ref(), &was.seen, &was.seen_at);
    let (attempted, attempted_at) = observed_or_previous(state.attempted.as_ref(), &was.attempted, &was.attempted_at);
    let (applied, applied_at) = observed_or_previous(state.applied.as_ref(), &was.applied, &was.applied_at);
    let applied_from = if state.applied.is_some() { &state.applied_from } else { &was.applied_from }.clone();
    let revision = Revisions { seen, seen_at, attempted, attempted_at, applied, applied_from, applied_at };
    let is_current = revision.seen.is_some() && revision.seen == revision.applied;
    let summary = summarize_state(state, is_current, about);
    ModelSourceStatus {
        observed_generation: Some(about.generation),
        conditions: summary.conditions(state, about),
        last_handled_request: state
            .handled_request
            .as_deref()
            .map(|request| truncate_line(request, MAX_MESSAGE_LENGTH))
            .or_else(|| before.last_handled_request.clone()),
        phase: reported_phase(state).to_string(),
        environment: state
            .environment
            .as_deref()
            .map(|name| truncate_line(name, 253))
            .or_else(|| before.environment.clone()),
        commit: revision.applied.as_deref().map(|commit| truncate_line(&commit_label(commit), 64)),
        revision,
        models: match judged {
            // An attempt that ended before the models were looked at has counted nothing.
            Some(verdict) if verdict.is_success() || state.counts != ModelHealthCounts::default() => {
                Some(model_counts(state.counts))
            }
            Some(_) | None => before.models.clone(),
        },
        plan: plan_counts(state.plan.as_ref(), before.plan.as_ref()),
        held: if judged.is_some() {
            state.hold.as_ref().map(|held| {
                let guards = held.guards.iter().take(MAX_HELD_GUARDS).map(|(kind, message)| HeldGuard {
                    guard: kind.as_str().to_owned(),
                    message: bound_message(message),
                });
                HeldRevision {
                    revision: truncate_line(&held.revision, 64),
                    plan: truncate_line(&held.plan, 64),
                    guards: guards.collect(),
                    command: bound_message(&held.release_command(about.key)),
                }
            })
        } else {
            before.held.clone()
        },
        approval: state.approval.as_ref().map(approved_revision).or_else(|| before.approval.clone()),
        statuses: match &state.statuses.shown {
            Some(shown) => std::iter::once(posted_status(shown)).take(MAX_POSTED_STATUSES).collect(),
            None => before.statuses.clone(),
        },
        next_window: state.next_window.map(format_time),
    }
}

fn approved_revision(approval: &HoldApproval) -> ApprovedRevision {
    ApprovedRevision {
        revision: truncate_line(&approval.revision, 64),
        plan: truncate_line(&approval.plan, 64),
        guards: approval.guard_words(),
        by: approval.by.as_deref().map(|by| truncate_line(by, 253)),
    }
}

/// The status of a source that is not run: what it did before stays reported.
pub fn build_rejected_status(held: &NotRun, about: &SourceStatusInput<'_>) -> ModelSourceStatus {
    let progress = match (held.reason, held.reason.is_stalled()) {
        (_, true) => ConditionProgress::Stalled,
        (RejectionReason::SecretNotRead, false) => ConditionProgress::Retrying,
        // What is missing may come by itself, and is seen when it does.
        (_, false) => ConditionProgress::Waiting,
    };
    let summary = ConditionSummary::new(ConditionStatus::False, held.reason.as_str(), held.message.clone(), progress);
    ModelSourceStatus {
        observed_generation: Some(about.generation),
        conditions: summary.conditions(&SourceState::default(), about),
        phase: SourcePhase::Idle.to_string(),
        next_window: None,
        ..about.previous.clone()
    }
}

/// What the conditions say.
#[derive(Clone, Debug)]
struct ConditionSummary {
    ready: ConditionStatus,
    reason: Cow<'static, str>,
    message: String,
    progress: ConditionProgress,
    /// Whether an earlier process reported it, with all that there was to add.
    is_recalled: bool,
}

/// Whether things move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConditionProgress {
    /// Nothing has to.
    Idle,
    /// stator is at work.
    Reconciling,
    /// It tries again after a pause.
    Retrying,
    /// It goes on when something comes: a window, a secret, somebody who takes a suspension away.
    Waiting,
    /// Somebody has to do something.
    Stalled,
}

impl ConditionSummary {
    fn new(
        ready: ConditionStatus,
        reason: impl Into<Cow<'static, str>>,
        message: String,
        progress: ConditionProgress,
    ) -> Self {
        Self { ready, reason: reason.into(), message, progress, is_recalled: false }
    }

    /// All three conditions, sorted by type.
    fn conditions(&self, state: &SourceState, about: &SourceStatusInput<'_>) -> Vec<SourceCondition> {
        let mut message = self.message.clone();
        let more = !self.is_recalled;
        let posting =
            state.statuses.problem.as_ref().map(|problem| format!("no commit statuses are posted: {problem}"));
        for more in state.rejected_requests.iter().chain(about.remarks).chain(posting.as_ref()).filter(|_| more) {
            message = format!("{message}; {more}");
        }
        let message = bound_message(&message);
        let (reconciling, reason) = match self.progress {
            ConditionProgress::Reconciling => (ConditionStatus::True, "Progressing"),
            ConditionProgress::Retrying => (ConditionStatus::True, "ProgressingWithRetry"),
            ConditionProgress::Idle | ConditionProgress::Waiting | ConditionProgress::Stalled => {
                (ConditionStatus::False, &*self.reason)
            }
        };
        let stalled =
            if self.progress == ConditionProgress::Stalled { ConditionStatus::True } else { ConditionStatus::False };
        let one = |kind: &str, status: ConditionStatus, reason: &str| {
            let known = about.previous.condition(kind).filter(|known| known.status == status);
            SourceCondition {
                kind: kind.to_owned(),
                status,
                reason: reason.to_owned(),
                // The sentence stands where it is a reason for the status.
                message: if kind == READY || status == ConditionStatus::True { message.clone() } else { String::new() },
                last_transition_time: known
                    .map_or_else(|| format_time(about.now), |known| known.last_transition_time.clone()),
                observed_generation: Some(about.generation),
            }
        };
        vec![
            one(READY, self.ready, &self.reason),
            one(RECONCILING, reconciling, reason),
            one(STALLED, stalled, &self.reason),
        ]
    }
}

fn summarize_state(state: &SourceState, is_current: bool, about: &SourceStatusInput<'_>) -> ConditionSummary {
    let verdict = state.verdict.as_ref().filter(|verdict| is_verdict_of(&verdict.revision, state.seen.as_ref()));
    let recalled = previous_summary(state, about);
    let well = is_current && verdict.is_some_and(RevisionVerdict::is_success)
        || recalled.as_ref().is_some_and(|recalled| recalled.ready == ConditionStatus::True);
    let ready = if well { ConditionStatus::True } else { ConditionStatus::False };
    if state.phase == SourcePhase::Suspended {
        let message = format!(
            "syncing is suspended; resume it with `stator resume {} -n {}`",
            about.key.name, about.key.namespace
        );
        // Problems are reported anyway.
        let ready = if state.problems.is_empty() { ready } else { ConditionStatus::False };
        return ConditionSummary::new(ready, "Suspended", message, ConditionProgress::Waiting);
    }
    if let Some(problem) = state.problem() {
        return summarize_problem(problem, state);
    }
    if state.phase == SourcePhase::WindowClosed && !well {
        let window = window_label(state.window_policy.as_deref());
        let (message, progress) = match (state.next_window, &state.window_policy) {
            (Some(opens), _) => (
                format!("no {window} is open; the next one opens at {}", format_time(opens)),
                ConditionProgress::Waiting,
            ),
            (None, None) => (format!("no {window} will open; correct `spec.windows`"), ConditionProgress::Stalled),
            (None, Some(_)) => (
                format!("no {window} will open; ask an administrator to correct `windows` of the policy"),
                ConditionProgress::Stalled,
            ),
        };
        return ConditionSummary::new(ConditionStatus::False, "WindowClosed", message, progress);
    }
    if let Some(recalled) = recalled {
        return recalled;
    }
    match (verdict, &state.seen) {
        (Some(verdict), Some(_)) if well => {
            let progress = if state.phase == SourcePhase::Syncing {
                ConditionProgress::Reconciling
            } else {
                ConditionProgress::Idle
            };
            let drifted = state.counts.drifted;
            if drifted > 0 {
                let message = format!(
                    "live objects of {drifted} of {} models drifted; `stator sync --source {} -n {}` heals them",
                    state.counts.models, about.key.name, about.key.namespace
                );
                return ConditionSummary::new(ConditionStatus::False, "Drifted", message, progress);
            }
            let message = prefix_commit(&verdict.revision, verdict.verdict.sentence());
            ConditionSummary::new(ready, "ReconciliationSucceeded", message, progress)
        }
        // A verdict that is not well comes with a problem; between the two there is work.
        (_, Some(seen)) => {
            let message = prefix_commit(&seen.commit, phase_description(state.phase));
            ConditionSummary::new(ConditionStatus::Unknown, "Progressing", message, ConditionProgress::Reconciling)
        }
        (_, None) => {
            let message = "the repository is polled for the first time".to_owned();
            ConditionSummary::new(ConditionStatus::Unknown, "Progressing", message, ConditionProgress::Reconciling)
        }
    }
}

/// A process that has just started knows nothing yet. What an earlier one reported of the same commit and the same spec
/// stays, rather than that all is unknown each time that a pod moves.
fn previous_summary(state: &SourceState, about: &SourceStatusInput<'_>) -> Option<ConditionSummary> {
    let before = about.previous;
    let same =
        |now: Option<&TimestampedRevision>, before: Option<&String>| now.is_none_or(|now| Some(&now.commit) == before);
    let judged = state.verdict.as_ref().is_some_and(|verdict| is_verdict_of(&verdict.revision, state.seen.as_ref()));
    if judged
        || before.observed_generation != Some(about.generation)
        || before.revision.seen.is_none()
        || !same(state.seen.as_ref(), before.revision.seen.as_ref())
        || !same(state.applied.as_ref(), before.revision.applied.as_ref())
    {
        return None;
    }
    let ready = before.condition(READY)?;
    let progress = match ready.status {
        ConditionStatus::True
            if before.revision.seen == before.revision.applied && state.phase != SourcePhase::Syncing =>
        {
            ConditionProgress::Idle
        }
        ConditionStatus::False if ProblemReason::ALL.iter().any(|reason| reason.as_str() == ready.reason) => {
            ConditionProgress::Reconciling
        }
        ConditionStatus::True | ConditionStatus::False | ConditionStatus::Unknown => return None,
    };
    let summary = ConditionSummary::new(ready.status, ready.reason.clone(), ready.message.clone(), progress);
    Some(ConditionSummary { is_recalled: true, ..summary })
}

fn summarize_problem(problem: &SourceProblem, state: &SourceState) -> ConditionSummary {
    let at_work = matches!(state.phase, SourcePhase::Syncing | SourcePhase::Reading);
    let progress = match (problem.is_transient, at_work) {
        (true, _) => ConditionProgress::Retrying,
        (false, true) if state.problems.contains_key(&ProblemScope::Commit) => ConditionProgress::Reconciling,
        (false, _) => ConditionProgress::Stalled,
    };
    let progress = match problem.reason {
        // Models that are watched may become healthy by themselves.
        ProblemReason::HealthCheckFailed if progress == ConditionProgress::Stalled => ConditionProgress::Waiting,
        ProblemReason::AccessDenied
        | ProblemReason::SecretInvalid
        | ProblemReason::ClusterUnreachable
        | ProblemReason::InternalError
        | ProblemReason::AuthenticationFailed
        | ProblemReason::GitOperationFailed
        | ProblemReason::VerificationFailed
        | ProblemReason::Trial
        | ProblemReason::BuildFailed
        | ProblemReason::Held
        | ProblemReason::Blocked
        | ProblemReason::HealthCheckFailed
        | ProblemReason::ReconciliationFailed => progress,
    };
    let commit = state.seen.as_ref().filter(|_| state.problems.keys().next() == Some(&ProblemScope::Commit));
    let message = match commit {
        Some(seen) => prefix_commit(&seen.commit, problem),
        None => problem.to_string(),
    };
    ConditionSummary::new(ConditionStatus::False, problem.reason.as_str(), message, progress)
}

fn is_verdict_of(commit: &str, seen: Option<&TimestampedRevision>) -> bool {
    seen.is_some_and(|seen| seen.commit == commit)
}

/// A commit and when it came to be, in whole; as they were before, where none is known now.
fn observed_or_previous(
    now: Option<&TimestampedRevision>,
    before: &Option<String>,
    at: &Option<String>,
) -> (Option<String>, Option<String>) {
    let Some(now) = now else { return (before.clone(), at.clone()) };
    // An earlier process may have known it.
    let known = at.clone().filter(|_| before.as_ref() == Some(&now.commit));
    (Some(truncate_line(&now.commit, 64)), known.or_else(|| Some(format_time(now.at))))
}

/// A time as Kubernetes writes it: in UTC, in whole seconds.
fn format_time(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// What is done. A poll that finds nothing new is not reported, because each would be a write.
fn reported_phase(state: &SourceState) -> SourcePhase {
    let judged = state.verdict.as_ref().is_some_and(|verdict| is_verdict_of(&verdict.revision, state.seen.as_ref()));
    if judged && state.phase == SourcePhase::Reading { SourcePhase::Idle } else { state.phase }
}

fn phase_description(phase: SourcePhase) -> &'static str {
    match phase {
        SourcePhase::Idle | SourcePhase::WindowClosed | SourcePhase::Suspended => "seen, not synced yet",
        SourcePhase::Reading => "reading and rendering",
        SourcePhase::Syncing => "syncing",
        SourcePhase::Retrying => "waiting to retry",
    }
}

fn model_counts(counts: ModelHealthCounts) -> ModelCounts {
    ModelCounts {
        ready: format!("{}/{}", counts.healthy, counts.models),
        total: to_u64(counts.models),
        healthy: to_u64(counts.healthy),
        not_healthy: to_u64(counts.not_healthy),
        drifted: to_u64(counts.drifted),
    }
}

/// The last plan that was to change something; one that was not, only where there is none.
fn plan_counts(now: Option<&PlanSummary>, before: Option<&PlanCounts>) -> Option<PlanCounts> {
    match (now, before) {
        (Some(now), Some(before)) if now.is_empty() && now.blocked == 0 => {
            // What there is of GPUs is known anew all the same.
            let gpus = GpuCounts { before: before.gpus.before, after: now.gpus.after, peak: before.gpus.peak };
            Some(PlanCounts { gpus, ..before.clone() })
        }
        (Some(now), _) => Some(PlanCounts {
            revision: truncate_line(&now.revision, 64),
            create: to_u64(now.create),
            update: to_u64(now.update),
            replace: to_u64(now.replace),
            delete: to_u64(now.delete),
            adopt: to_u64(now.adopt),
            keep: to_u64(now.keep),
            blocked: to_u64(now.blocked),
            gpus: GpuCounts { before: now.gpus.before, after: now.gpus.after, peak: now.gpus.peak },
        }),
        (None, before) => before.cloned(),
    }
}

fn posted_status(shown: &ShownStatus) -> PostedStatus {
    PostedStatus {
        context: truncate_line(&shown.status.context, 255),
        revision: truncate_line(&shown.revision, 64),
        state: shown.status.state.to_string(),
        description: bound_message(&shown.status.description),
    }
}

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
