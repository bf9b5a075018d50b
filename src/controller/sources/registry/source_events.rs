//! What happens to sources, as people are notified of it: made of how a source stood before and how it stands now, so that
//! nothing is notified twice, and nothing that did not change.
//!
//! Events of the cluster and notifications are both made of these. [`SourceRegistry::subscribe_events`](super::SourceRegistry::subscribe_events)
//! hears of them, in order, however fast one follows the other.

use super::source_state::{ProblemReason, ProblemScope, SourcePhase, SourceState};
use crate::controller::sources::resolved_source::SourceKey;
use crate::controller::status_wording::{
    CommitVerdict, ModelVerdict, OUTSIDE_WINDOWS, commit_label, prefix_commit, window_label,
};
use jiff::Timestamp;
use stator_core::outcome::SyncOutcome;
use stator_model::present::pluralize;

/// Something that happened to a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceEvent {
    /// The source.
    pub source: SourceKey,
    /// What.
    pub kind: SourceEventKind,
    /// The model that it is about, where it is about one alone.
    pub model: Option<ModelName>,
    /// The commit that it is about, in full, where it is about one.
    pub revision: Option<String>,
    /// In a sentence, without a secret; with what to do about it where something is to be done.
    pub message: String,
    /// When, by the wall clock.
    pub at: Timestamp,
}

/// A model of a source, as its record is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    /// The namespace of its record.
    pub namespace: String,
    /// Its name, and its record's.
    pub name: String,
}

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
pub enum SourceEventKind {
    /// A commit was synced, and its models are healthy.
    Synced,
    /// A look, a commit, or a model of it failed.
    Failed(ProblemReason),
    /// A failure has ended.
    Recovered,
    /// A guard holds a plan back until it is approved.
    Held,
    /// Somebody approved what a guard held back.
    Approved,
    /// Live objects were changed by another client.
    Drifted,
    /// They are as they should be again.
    Healed,
    /// A commit is synced outside the sync windows, as requested.
    OutsideWindows,
    /// No window is open, and a commit waits for one.
    WindowClosed,
    /// The source is suspended.
    Suspended,
    /// It is suspended no longer.
    Resumed,
    /// Somebody asked for something that cannot be done.
    #[strum(serialize = "RequestNotMet")]
    RequestRejected,
}

impl SourceEventKind {
    /// In one word in CamelCase: the reason of an event.
    pub fn as_str(self) -> &'static str {
        if let Self::Failed(reason) = self { reason.as_str() } else { self.into() }
    }

    /// Whether somebody should look.
    pub fn is_warning(self) -> bool {
        match self {
            Self::Failed(_) | Self::Held | Self::Drifted | Self::OutsideWindows | Self::RequestRejected => true,
            Self::Approved
            | Self::Synced
            | Self::Recovered
            | Self::Healed
            | Self::WindowClosed
            | Self::Suspended
            | Self::Resumed => false,
        }
    }
}

/// What happened, if anything, between two moments of one source, in the order in which people want to read it.
pub fn diff_states(source: &SourceKey, before: &SourceState, now: &SourceState) -> Vec<SourceEvent> {
    let mut all: Vec<(SourceEventKind, Option<String>, String)> = Vec::new();
    let newest = now.seen.as_ref().map(|seen| seen.commit.clone());
    match (before.phase == SourcePhase::Suspended, now.phase == SourcePhase::Suspended) {
        (false, true)
            if before.previous.as_ref().is_none_or(|recalled| recalled.reason.as_deref() != Some("Suspended")) =>
        {
            all.push((SourceEventKind::Suspended, None, "nothing is synced until the source is resumed".to_owned()));
        }
        (true, false) => all.push((SourceEventKind::Resumed, None, "syncs resume with the newest commit".to_owned())),
        (false | true, true) | (false, false) => {}
    }
    if let Some(approval) = now.approval.as_ref().filter(|approval| before.approval.as_ref() != Some(*approval)) {
        all.push((SourceEventKind::Approved, Some(approval.revision.clone()), approval.sentence()));
    }
    if now.outside_windows.is_some() && before.outside_windows != now.outside_windows {
        let of = now.outside_windows.clone().unwrap_or_default();
        let message = format!("{} is synced {OUTSIDE_WINDOWS}", commit_label(&of));
        all.push((SourceEventKind::OutsideWindows, Some(of), message));
    }
    let closed = before.phase != SourcePhase::WindowClosed || before.seen != now.seen;
    if now.phase == SourcePhase::WindowClosed && closed && !now.is_newest_applied() {
        let opens = now
            .next_window
            .map_or_else(|| "no further window opens".to_owned(), |at| format!("the next one opens at {at}"));
        let what = newest.as_deref().map_or_else(|| "the newest commit".to_owned(), commit_label);
        let message = format!("{what} is waiting for a {}: {opens}", window_label(now.window_policy.as_deref()));
        all.push((SourceEventKind::WindowClosed, newest.clone(), message));
    }
    if now.counts.drifted > before.counts.drifted {
        let models = pluralize(now.counts.drifted, "model", "models");
        all.push((SourceEventKind::Drifted, newest.clone(), format!("live objects of {models} drifted")));
    }
    all.extend(verdict_events(before, now));
    all.extend(problem_events(before, now));
    if before.counts.drifted > 0 && now.counts.drifted == 0 && before.seen == now.seen && now.problems.is_empty() {
        all.push((SourceEventKind::Healed, newest.clone(), "live objects match the commit again".to_owned()));
    }
    for sentence in now.rejected_requests.difference(&before.rejected_requests) {
        all.push((SourceEventKind::RequestRejected, newest.clone(), sentence.clone()));
    }
    let at = Timestamp::now();
    let of = |(what, revision, message)| SourceEvent {
        source: source.clone(),
        kind: what,
        model: None,
        revision,
        message,
        at,
    };
    all.into_iter().map(of).collect()
}

/// The event of one model of a commit.
pub(in crate::controller) fn model_event(
    source: &SourceKey,
    revision: &str,
    model: ModelName,
    verdict: &ModelVerdict,
) -> Option<SourceEvent> {
    let what = match ProblemReason::from_outcome(verdict.outcome) {
        // Its record is gone, and with it whoever would read of it.
        None if verdict.outcome == SyncOutcome::Deleted => return None,
        None => SourceEventKind::Synced,
        Some(ProblemReason::Held | ProblemReason::Blocked) => SourceEventKind::Held,
        Some(reason) => SourceEventKind::Failed(reason),
    };
    let message = prefix_commit(revision, verdict.sentence());
    let (source, revision, model) = (source.clone(), Some(revision.to_owned()), Some(model));
    Some(SourceEvent { source, kind: what, model, revision, message, at: Timestamp::now() })
}

/// A verdict that is new.
fn verdict_events(before: &SourceState, now: &SourceState) -> Vec<(SourceEventKind, Option<String>, String)> {
    let Some(judged) = now.verdict.as_ref() else { return Vec::new() };
    let last = before.verdict.as_ref();
    let reason_of = |verdict: &CommitVerdict| ProblemReason::from_outcome(verdict.outcome());
    let reason = reason_of(&judged.verdict);
    let known =
        last.is_some_and(|last| last.revision == judged.revision && is_same_verdict(&last.verdict, &judged.verdict));
    if known {
        return Vec::new();
    }
    let recalled = before.previous.as_ref().filter(|_| last.is_none());
    let was_reported = recalled.is_some_and(|recalled| match reason {
        None => recalled.ready && recalled.applied.as_ref() == Some(&judged.revision),
        Some(reason) => {
            recalled.judged_commit.as_ref() == Some(&judged.revision)
                && recalled.reason.as_deref() == Some(reason.as_str())
        }
    });
    if was_reported {
        return Vec::new();
    }
    let revision = Some(judged.revision.clone());
    let sentence = prefix_commit(&judged.revision, judged.verdict.sentence());
    let problem = now.problems.get(&ProblemScope::Commit);
    let message = problem.map_or_else(|| sentence.clone(), |problem| problem.with_help(&sentence));
    match reason {
        Some(ProblemReason::Held) => vec![(SourceEventKind::Held, revision, message)],
        Some(reason) => vec![(SourceEventKind::Failed(reason), revision, message)],
        None => {
            let last_reason = last.map(|last| reason_of(&last.verdict));
            let was_bad = match last_reason {
                Some(reason) => reason.is_some_and(|reason| reason != ProblemReason::Held),
                None => recalled.is_some_and(|recalled| !recalled.ready && recalled.judged_commit.is_some()),
            };
            let same_commit = last.is_some_and(|last| last.revision == judged.revision);
            let was_held = last_reason == Some(Some(ProblemReason::Held));
            // The first success of a commit is that it was synced; what comes after a failure of it is a recovery too.
            let mut all = Vec::new();
            if !same_commit || was_held || was_bad {
                all.push((SourceEventKind::Synced, revision.clone(), sentence.clone()));
            }
            if was_bad {
                all.push((SourceEventKind::Recovered, revision, sentence));
            }
            all
        }
    }
}

/// Whether two verdicts are one to people: numbers that move while a model starts are no change.
fn is_same_verdict(one: &CommitVerdict, other: &CommitVerdict) -> bool {
    let is = ProblemReason::from_outcome(one.outcome());
    match is {
        None => ProblemReason::from_outcome(other.outcome()).is_none(),
        Some(ProblemReason::HealthCheckFailed | ProblemReason::ReconciliationFailed) => {
            is == ProblemReason::from_outcome(other.outcome())
        }
        Some(_) => one == other,
    }
}

/// Failed polls in a row before an event is sent: hosts fail briefly, and nobody wants to know.
const POLL_FAILURES_BEFORE_EVENT: u32 = 3;

/// A look, or the source itself, that fails, or works again.
fn problem_events(before: &SourceState, now: &SourceState) -> Vec<(SourceEventKind, Option<String>, String)> {
    let mut all = Vec::new();
    for part in [ProblemScope::Source, ProblemScope::Repository] {
        let worth = |state: &SourceState| {
            let problem = state.problems.get(&part)?;
            let hiccup =
                part == ProblemScope::Repository && problem.is_transient && state.failures < POLL_FAILURES_BEFORE_EVENT;
            (!hiccup).then(|| problem.clone())
        };
        let recalled = before.previous.as_ref().and_then(|recalled| recalled.reason.clone());
        match (worth(before), worth(now)) {
            (None, Some(problem)) if !before.was_polled && recalled.as_deref() == Some(problem.reason.as_str()) => {}
            (None, Some(problem)) => all.push((SourceEventKind::Failed(problem.reason), None, problem.to_string())),
            (Some(last), Some(problem)) if last.reason != problem.reason => {
                all.push((SourceEventKind::Failed(problem.reason), None, problem.to_string()));
            }
            (Some(_), None) if part == ProblemScope::Repository => {
                all.push((SourceEventKind::Recovered, None, "the repository can be polled again".to_owned()));
            }
            (Some(_), None) => all.push((SourceEventKind::Recovered, None, "the source works again".to_owned())),
            (Some(_), Some(_)) | (None, None) => {}
        }
    }
    all
}
