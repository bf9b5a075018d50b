//! What became of a sync, as a verdict on its commit, and what is to be done next.

use crate::controller::verdicts::{FirstFinding, ModelVerdict, Verdict};
use crate::finding::Finding;
use crate::plan::{Hold, Plan, Step};
use crate::present::plan::hold_word;
use crate::sync::{ModelOutcome, SyncReport, SyncResult};
use std::collections::{BTreeMap, BTreeSet};

/// What is to be done after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Look again: what was written may have been answered.
    Settle,
    /// Nothing, before something changes. With `health`, a status of what is live is such a change.
    Await {
        /// Whether statuses count.
        health: bool,
    },
    /// The same again, after a pause.
    Retry,
}

/// What is known of a plan before it is carried out; a sync consumes the plan.
#[derive(Clone, Debug)]
pub(super) struct Before {
    holds: Vec<Hold>,
    /// The models that something changes of.
    changing: BTreeSet<String>,
    /// All models.
    models: BTreeSet<String>,
    /// Models that git no longer has.
    retired: BTreeSet<String>,
}

impl Before {
    pub(super) fn of(plan: &Plan) -> Self {
        let changing = plan.changes.iter().filter(|change| change.step != Step::Nothing);
        Self {
            holds: plan.holds.iter().filter(|hold| !hold.allowed).cloned().collect(),
            changing: changing.map(|change| change.model.clone()).collect(),
            models: plan.changes.iter().map(|change| change.model.clone()).collect(),
            retired: plan.retired.iter().cloned().collect(),
        }
    }

    /// How many models something changes of; none when a sync would write nothing.
    pub(super) fn changing(&self) -> usize {
        self.changing.len() + self.retired.difference(&self.changing).count()
    }

    /// How many models there are.
    pub(super) fn models(&self) -> usize {
        self.models.difference(&self.retired).count()
    }
}

/// A verdict on a commit.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) verdict: Verdict,
    pub(super) models: Vec<(String, ModelVerdict)>,
    pub(super) well: usize,
    pub(super) not_well: usize,
    pub(super) next: Next,
    /// Whether a status of what is live may change the verdict.
    pub(super) health: bool,
}

/// Judges a sync that ran to its end. `findings` are those of the intents and of what they render to.
pub(super) fn judge(
    before: &Before,
    findings: &[Finding],
    faulty: &BTreeMap<String, String>,
    report: &SyncReport,
) -> Judged {
    let sound = || report.models.iter().filter(|outcome| !faulty.contains_key(&outcome.name));
    let failed: Vec<&ModelOutcome> = sound().filter(|outcome| !outcome.result.is_success()).collect();
    let unhealthy = |outcome: &&&ModelOutcome| outcome.is_unhealthy || report.timed_out;
    let faults: Vec<&&ModelOutcome> =
        failed.iter().filter(|outcome| outcome.result == SyncResult::Failed && !unhealthy(outcome)).collect();
    let sick: Vec<&&ModelOutcome> =
        failed.iter().filter(|outcome| outcome.result == SyncResult::Failed && unhealthy(outcome)).collect();
    let blocked: Vec<&&ModelOutcome> =
        failed.iter().filter(|outcome| matches!(outcome.result, SyncResult::Blocked | SyncResult::Cancelled)).collect();
    let verdict = if let Some(first) = FirstFinding::of(findings) {
        Verdict::Invalid(first)
    } else if let Some(hold) = before.holds.first() {
        Verdict::Held { guard: hold_word(hold.kind).to_owned(), message: hold.message.clone() }
    } else if let Some(first) = faults.first() {
        Verdict::Fault { message: format!("{}: {}", first.name, first.message) }
    } else if let Some(first) = blocked.first() {
        Verdict::Held { guard: "blocked".to_owned(), message: format!("{}: {}", first.name, first.message) }
    } else if let Some(first) = sick.first() {
        Verdict::Unhealthy { model: first.name.clone(), why: first.message.clone(), more: sick.len() - 1 }
    } else if before.models() == 0 && before.changing() == 0 {
        Verdict::Nothing
    } else {
        Verdict::Healthy { models: before.models(), changed: before.changing() }
    };
    let health = !sick.is_empty() || !blocked.is_empty();
    let next = if !faults.is_empty() {
        Next::Retry
    } else if report.writes > 0 {
        Next::Settle
    } else {
        Next::Await { health }
    };
    let mut models: Vec<(String, ModelVerdict)> = Vec::new();
    for outcome in sound() {
        let told = before.changing.contains(&outcome.name) || !outcome.result.is_success();
        if told {
            models.push((outcome.name.clone(), of_model(before, report, outcome)));
        }
    }
    for (model, source) in faulty {
        let own: Vec<Finding> =
            findings.iter().filter(|finding| beside(&finding.location.file, source)).cloned().collect();
        if let Some(first) = FirstFinding::of(&own) {
            models.push((model.clone(), ModelVerdict::Invalid(first)));
        }
    }
    let not_well = failed.len() + faulty.len();
    let well = sound().count().saturating_sub(failed.len());
    Judged { verdict, models, well, not_well, next, health }
}

/// Whether a file belongs to the model of that `model.yaml`.
fn beside(file: &str, source: &str) -> bool {
    let folder = |path: &str| path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned());
    folder(file) == folder(source)
}

fn of_model(before: &Before, report: &SyncReport, outcome: &ModelOutcome) -> ModelVerdict {
    let message = outcome.message.clone();
    match outcome.result {
        SyncResult::Synced | SyncResult::Healthy | SyncResult::Deferred if before.retired.contains(&outcome.name) => {
            ModelVerdict::Removed
        }
        SyncResult::Synced | SyncResult::Healthy | SyncResult::Deferred => ModelVerdict::Healthy,
        SyncResult::Blocked | SyncResult::Cancelled => ModelVerdict::Held { message },
        SyncResult::Failed if outcome.is_unhealthy || report.timed_out => ModelVerdict::Unhealthy { why: message },
        SyncResult::Failed => ModelVerdict::Fault { message },
    }
}
