//! How a source stands → the status of its object. Pure: the same input gives the same status, and a status that is given
//! back as the previous one stays as it is, so that a source at rest is never written.
//!
//! kstatus reads the conditions: `Stalled` is in the way of everything until somebody does something, `Reconciling` goes
//! by itself, and `Ready` is true only when the newest commit is applied and healthy.

#[cfg(test)]
mod tests;
pub mod writer;

use super::sources::SourceKey;
use super::standing::{Counts, Judgement, Part, Phase, PlanSummary, Problem, Reason, Revision, Shown, Standing};
use super::verdicts::short;
use crate::controller::board::{Held as NotRun, HeldReason};
use jiff::Timestamp;
use stator_git::source::model_source::status::{
    Condition, ConditionStatus, GpuCounts, Held, HeldGuard, LONGEST_MESSAGE, MOST_GUARDS, MOST_STATUSES, ModelCounts,
    ModelSourceStatus, PlanCounts, PostedStatus, READY, RECONCILING, Revisions, STALLED, bounded, cut,
};
use stator_model::plan::HoldKind;
use stator_model::present::plan::hold_word;
use std::borrow::Cow;

/// What a status depends on beside how the source stands.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Which source.
    pub key: &'a SourceKey,
    /// `metadata.generation` of the spec that it stands so by.
    pub generation: i64,
    /// What its object says now, or said when this process started.
    pub previous: &'a ModelSourceStatus,
    /// What is to be said beside: [`super::board::Board::remarks`].
    pub remarks: &'a [String],
    /// The time.
    pub now: Timestamp,
}

/// The status of a source that runs.
pub fn status_of(standing: &Standing, about: &About<'_>) -> ModelSourceStatus {
    let before = about.previous;
    let judged = standing.verdict.as_ref();
    let revision = Revisions {
        seen: commit(standing.seen.as_ref(), before.revision.seen.as_deref()),
        seen_at: since(standing.seen.as_ref(), before.revision.seen.as_deref(), before.revision.seen_at.as_deref()),
        attempted: commit(standing.attempted.as_ref(), before.revision.attempted.as_deref()),
        attempted_at: since(
            standing.attempted.as_ref(),
            before.revision.attempted.as_deref(),
            before.revision.attempted_at.as_deref(),
        ),
        applied: commit(standing.applied.as_ref(), before.revision.applied.as_deref()),
        applied_at: since(
            standing.applied.as_ref(),
            before.revision.applied.as_deref(),
            before.revision.applied_at.as_deref(),
        ),
    };
    let is_current = revision.seen.is_some() && revision.seen == revision.applied;
    let said = said(standing, is_current, about);
    ModelSourceStatus {
        observed_generation: Some(about.generation),
        conditions: said.conditions(standing, about),
        last_handled_request: standing
            .handled
            .as_deref()
            .map(|request| cut(request, LONGEST_MESSAGE))
            .or_else(|| before.last_handled_request.clone()),
        phase: phase(standing).to_owned(),
        environment: standing.environment.as_deref().map(|name| cut(name, 253)).or_else(|| before.environment.clone()),
        commit: revision.applied.as_deref().map(|commit| cut(&short(commit), 64)),
        revision,
        models: match judged {
            // An attempt that ended before the models were looked at has counted nothing.
            Some(verdict) if verdict.is_well() || standing.counts != Counts::default() => Some(counts(standing.counts)),
            Some(_) | None => before.models.clone(),
        },
        plan: plan(standing.plan.as_ref(), before.plan.as_ref()),
        held: if judged.is_some() {
            standing.held.as_ref().map(|held| {
                let guards = held.guards.iter().take(MOST_GUARDS).map(|(kind, message)| guard(*kind, message));
                Held {
                    revision: cut(&held.revision, 64),
                    guards: guards.collect(),
                    command: bounded(&held.command(about.key)),
                }
            })
        } else {
            before.held.clone()
        },
        statuses: match &standing.statuses.shown {
            Some(shown) => std::iter::once(posted(shown)).take(MOST_STATUSES).collect(),
            None => before.statuses.clone(),
        },
        next_window: standing.opens.map(seconds),
    }
}

/// The status of a source that is not run: what it did before stays said.
pub fn status_of_not_run(held: &NotRun, about: &About<'_>) -> ModelSourceStatus {
    let moves = match (held.reason, held.reason.is_stalled()) {
        (_, true) => Moves::Stalled,
        (HeldReason::SecretUnread, false) => Moves::Retries,
        // What is missing may come by itself, and is seen when it does.
        (_, false) => Moves::Waits,
    };
    let said = Said::new(ConditionStatus::False, held.reason.word(), held.message.clone(), moves);
    ModelSourceStatus {
        observed_generation: Some(about.generation),
        conditions: said.conditions(&Standing::default(), about),
        phase: word(Phase::Idle).to_owned(),
        next_window: None,
        ..about.previous.clone()
    }
}

/// What the conditions say.
#[derive(Clone, Debug)]
struct Said {
    ready: ConditionStatus,
    reason: Cow<'static, str>,
    message: String,
    moves: Moves,
    /// Whether an earlier process said it, with all that there was to say beside.
    is_recalled: bool,
}

/// Whether things move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moves {
    /// Nothing has to.
    Rests,
    /// stator is at work.
    Works,
    /// It tries again after a pause.
    Retries,
    /// It goes on when something comes: a window, a secret, somebody who takes a suspension away.
    Waits,
    /// Somebody has to do something.
    Stalled,
}

impl Said {
    fn new(ready: ConditionStatus, reason: impl Into<Cow<'static, str>>, message: String, moves: Moves) -> Self {
        Self { ready, reason: reason.into(), message, moves, is_recalled: false }
    }

    /// All three conditions, sorted by type.
    fn conditions(&self, standing: &Standing, about: &About<'_>) -> Vec<Condition> {
        let mut message = self.message.clone();
        let more = !self.is_recalled;
        let posting =
            standing.statuses.problem.as_ref().map(|problem| format!("no commit statuses are posted: {problem}"));
        for more in standing.unheard.iter().chain(about.remarks).chain(posting.as_ref()).filter(|_| more) {
            message = format!("{message}; {more}");
        }
        let message = bounded(&message);
        let (reconciling, reason) = match self.moves {
            Moves::Works => (ConditionStatus::True, "Progressing"),
            Moves::Retries => (ConditionStatus::True, "ProgressingWithRetry"),
            Moves::Rests | Moves::Waits | Moves::Stalled => (ConditionStatus::False, &*self.reason),
        };
        let stalled = if self.moves == Moves::Stalled { ConditionStatus::True } else { ConditionStatus::False };
        let one = |kind: &str, status: ConditionStatus, reason: &str| {
            let known = about.previous.condition(kind).filter(|known| known.status == status);
            Condition {
                kind: kind.to_owned(),
                status,
                reason: reason.to_owned(),
                // The sentence stands where it is a reason for the status.
                message: if kind == READY || status == ConditionStatus::True { message.clone() } else { String::new() },
                last_transition_time: known
                    .map_or_else(|| seconds(about.now), |known| known.last_transition_time.clone()),
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

fn said(standing: &Standing, is_current: bool, about: &About<'_>) -> Said {
    let verdict = standing.verdict.as_ref().filter(|verdict| is_of(&verdict.revision, standing.seen.as_ref()));
    let recalled = recalled(standing, about);
    let well = is_current && verdict.is_some_and(Judgement::is_well)
        || recalled.as_ref().is_some_and(|recalled| recalled.ready == ConditionStatus::True);
    let ready = if well { ConditionStatus::True } else { ConditionStatus::False };
    if standing.phase == Phase::Suspended {
        let message =
            format!("syncing is suspended; `stator resume {} -n {}` goes on", about.key.name, about.key.namespace);
        return Said::new(resting(ready, standing), "Suspended", message, Moves::Waits);
    }
    if let Some(problem) = standing.problem() {
        return of_problem(problem, standing);
    }
    if standing.phase == Phase::Window && !well {
        let (message, moves) = match standing.opens {
            Some(opens) => (format!("no sync window is open; the next one opens at {}", seconds(opens)), Moves::Waits),
            None => ("no sync window ever opens; correct `spec.windows`".to_owned(), Moves::Stalled),
        };
        return Said::new(ConditionStatus::False, "WindowClosed", message, moves);
    }
    if let Some(recalled) = recalled {
        return recalled;
    }
    match (verdict, &standing.seen) {
        (Some(verdict), Some(_)) if well => {
            let moves = if standing.phase == Phase::Syncing { Moves::Works } else { Moves::Rests };
            let drifted = standing.counts.drifted;
            if drifted > 0 {
                let message = format!(
                    "live objects of {drifted} of {} models were changed by somebody else; `stator sync --source {} -n {}` \
                     puts them back",
                    standing.counts.models, about.key.name, about.key.namespace
                );
                return Said::new(ConditionStatus::False, "Drifted", message, moves);
            }
            let message = format!("{}: {}", short(&verdict.revision), verdict.verdict.sentence());
            Said::new(ready, "ReconciliationSucceeded", message, moves)
        }
        // A verdict that is not well comes with a problem; between the two there is work.
        (_, Some(seen)) => {
            let message = format!("{}: {}", short(&seen.commit), doing(standing.phase));
            Said::new(ConditionStatus::Unknown, "Progressing", message, Moves::Works)
        }
        (_, None) => {
            let message = "the repository is looked at for the first time".to_owned();
            Said::new(ConditionStatus::Unknown, "Progressing", message, Moves::Works)
        }
    }
}

/// A process that has just started knows nothing yet. What an earlier one said of the same commit and the same spec is
/// said on, rather than that all is unknown each time that a pod moves.
fn recalled(standing: &Standing, about: &About<'_>) -> Option<Said> {
    let before = about.previous;
    let same = |now: Option<&Revision>, before: Option<&String>| now.is_none_or(|now| Some(&now.commit) == before);
    let judged = standing.verdict.as_ref().is_some_and(|verdict| is_of(&verdict.revision, standing.seen.as_ref()));
    if judged
        || before.observed_generation != Some(about.generation)
        || before.revision.seen.is_none()
        || !same(standing.seen.as_ref(), before.revision.seen.as_ref())
        || !same(standing.applied.as_ref(), before.revision.applied.as_ref())
    {
        return None;
    }
    let ready = before.condition(READY)?;
    let moves = match ready.status {
        ConditionStatus::True
            if before.revision.seen == before.revision.applied && standing.phase != Phase::Syncing =>
        {
            Moves::Rests
        }
        ConditionStatus::False if Reason::ALL.iter().any(|reason| reason.word() == ready.reason) => Moves::Works,
        ConditionStatus::True | ConditionStatus::False | ConditionStatus::Unknown => return None,
    };
    let said = Said::new(ready.status, ready.reason.clone(), ready.message.clone(), moves);
    Some(Said { is_recalled: true, ..said })
}

/// Whether a source that is suspended is as its newest commit says: problems are told all the same.
fn resting(ready: ConditionStatus, standing: &Standing) -> ConditionStatus {
    if standing.problems.is_empty() { ready } else { ConditionStatus::False }
}

fn of_problem(problem: &Problem, standing: &Standing) -> Said {
    let at_work = matches!(standing.phase, Phase::Syncing | Phase::Reading);
    let moves = match (problem.may_pass, at_work) {
        (true, _) => Moves::Retries,
        (false, true) if standing.problems.contains_key(&Part::Commit) => Moves::Works,
        (false, _) => Moves::Stalled,
    };
    let moves = match problem.reason {
        // Models that are watched may become healthy by themselves.
        Reason::HealthCheckFailed if moves == Moves::Stalled => Moves::Waits,
        Reason::AccessDenied
        | Reason::SecretInvalid
        | Reason::ClusterUnreachable
        | Reason::InternalError
        | Reason::AuthenticationFailed
        | Reason::GitOperationFailed
        | Reason::VerificationFailed
        | Reason::BuildFailed
        | Reason::Held
        | Reason::Blocked
        | Reason::HealthCheckFailed
        | Reason::ReconciliationFailed => moves,
    };
    let commit = standing.seen.as_ref().filter(|_| standing.problems.keys().next() == Some(&Part::Commit));
    let message = match commit {
        Some(seen) => format!("{}: {problem}", short(&seen.commit)),
        None => problem.to_string(),
    };
    Said::new(ConditionStatus::False, problem.reason.word(), message, moves)
}

fn is_of(commit: &str, seen: Option<&Revision>) -> bool {
    seen.is_some_and(|seen| seen.commit == commit)
}

fn commit(now: Option<&Revision>, before: Option<&str>) -> Option<String> {
    now.map(|revision| cut(&revision.commit, 64)).or_else(|| before.map(str::to_owned))
}

/// When a commit was first what it is now: an earlier process may have known it.
fn since(now: Option<&Revision>, before: Option<&str>, at: Option<&str>) -> Option<String> {
    let known = at.map(str::to_owned);
    match now {
        Some(revision) if before == Some(&revision.commit) => known.or_else(|| Some(seconds(revision.at))),
        Some(revision) => Some(seconds(revision.at)),
        None => known,
    }
}

/// A time as Kubernetes writes it: in UTC, in whole seconds.
fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// What is done. A look at the repository that finds nothing new is not told, or each would be a write.
fn phase(standing: &Standing) -> &'static str {
    let judged = standing.verdict.as_ref().is_some_and(|verdict| is_of(&verdict.revision, standing.seen.as_ref()));
    if judged && standing.phase == Phase::Reading { word(Phase::Idle) } else { word(standing.phase) }
}

fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Idle => "Idle",
        Phase::Reading => "Reading",
        Phase::Syncing => "Syncing",
        Phase::Retrying => "Retrying",
        Phase::Window => "Window",
        Phase::Suspended => "Suspended",
    }
}

fn doing(phase: Phase) -> &'static str {
    match phase {
        Phase::Idle | Phase::Window | Phase::Suspended => "seen, and not synced yet",
        Phase::Reading => "reading and rendering",
        Phase::Syncing => "syncing",
        Phase::Retrying => "tried again after a pause",
    }
}

fn counts(counts: Counts) -> ModelCounts {
    ModelCounts {
        ready: format!("{}/{}", counts.healthy, counts.models),
        total: wide(counts.models),
        healthy: wide(counts.healthy),
        not_healthy: wide(counts.not_healthy),
        drifted: wide(counts.drifted),
    }
}

/// The last plan that was to change something; one that was not, only where there is none.
fn plan(now: Option<&PlanSummary>, before: Option<&PlanCounts>) -> Option<PlanCounts> {
    match (now, before) {
        (Some(now), Some(before)) if now.is_empty() && now.blocked == 0 => {
            // What there is of GPUs is known anew all the same.
            let gpus = GpuCounts { before: before.gpus.before, after: now.gpus.after, peak: before.gpus.peak };
            Some(PlanCounts { gpus, ..before.clone() })
        }
        (Some(now), _) => Some(PlanCounts {
            revision: cut(&now.revision, 64),
            create: wide(now.create),
            update: wide(now.update),
            replace: wide(now.replace),
            delete: wide(now.delete),
            adopt: wide(now.adopt),
            keep: wide(now.keep),
            blocked: wide(now.blocked),
            gpus: GpuCounts { before: now.gpus.before, after: now.gpus.after, peak: now.gpus.peak },
        }),
        (None, before) => before.cloned(),
    }
}

fn guard(kind: HoldKind, message: &str) -> HeldGuard {
    HeldGuard { guard: hold_word(kind).to_owned(), message: bounded(message) }
}

fn posted(shown: &Shown) -> PostedStatus {
    PostedStatus {
        context: cut(&shown.status.context, 255),
        revision: cut(&shown.revision, 64),
        state: state(shown).to_owned(),
        description: bounded(&shown.status.description),
    }
}

fn state(shown: &Shown) -> &'static str {
    use stator_git::forge::StatusState::{Error, Failure, Pending, Success};
    match shown.status.state {
        Pending => "pending",
        Success => "success",
        Failure => "failure",
        Error => "error",
    }
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
