//! What became of a sync, as a verdict on its commit, and what is to be done next.

use super::keep::Unspoken;
use crate::controller::report::commit_ledger::{CommitVerdict, FirstFinding, ModelVerdict};
use stator_cluster::sync::{ModelOutcome, SyncReport, SyncResult};
use stator_core::finding::Finding;
use stator_model::plan::{Action, Change, Hold, HoldKind, Plan, PlanStep};
use stator_model::present::plan::hold_kind_name;
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
    /// Models of which something would change, and all of that is held back.
    stuck: BTreeSet<String>,
    /// How many models the plan left out, as nothing of them changes and all is well with them.
    beside: usize,
}

impl Before {
    pub(super) fn of(plan: &Plan, beside: usize) -> Self {
        let changing = plan.changes.iter().filter(|change| change.step != PlanStep::Nothing);
        let waits = |change: &&Change| change.step == PlanStep::Nothing && is_change(change.action);
        let moving: BTreeSet<&String> = changing.clone().map(|change| &change.model).collect();
        let stuck = plan.changes.iter().filter(waits).map(|change| &change.model);
        Self {
            stuck: stuck.filter(|model| !moving.contains(model)).cloned().collect(),
            holds: plan.holds.iter().filter(|hold| !hold.allowed).cloned().collect(),
            changing: changing.map(|change| change.model.clone()).collect(),
            models: plan.changes.iter().map(|change| change.model.clone()).collect(),
            retired: plan.retired.iter().cloned().collect(),
            beside,
        }
    }

    /// How many models something changes of; none when a sync would write nothing.
    pub(super) fn changing(&self) -> usize {
        self.changing.len() + self.retired.difference(&self.changing).count()
    }

    /// What the commit does not speak for: models with errors, by name, and those that wait for somebody to let them go.
    pub(super) fn unspoken(&self, faulty: &BTreeMap<String, String>) -> Option<Unspoken> {
        let names: BTreeSet<String> = faulty.keys().chain(&self.stuck).cloned().collect();
        let sources = faulty.values().cloned().collect();
        (!names.is_empty()).then_some(Unspoken::Models { names, sources })
    }

    /// How many models there are.
    pub(super) fn models(&self) -> usize {
        self.models.difference(&self.retired).count() + self.beside
    }
}

/// Whether an action is one that would do something.
fn is_change(action: Action) -> bool {
    match action {
        Action::Create | Action::Update | Action::Replace | Action::Delete => true,
        // What exists and is nobody's has no commit that it was good at.
        Action::Adopt | Action::Keep | Action::Blocked => false,
    }
}

/// A verdict on a commit.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) verdict: CommitVerdict,
    pub(super) models: Vec<(String, ModelVerdict)>,
    pub(super) well: usize,
    pub(super) not_well: usize,
    pub(super) next: Next,
    /// All models that git has.
    pub(super) models_in_all: usize,
    /// Models that somebody changed in the cluster, and that are left as they are.
    pub(super) drifted: usize,
    /// What guards hold back, and what each of them says.
    pub(super) held: BTreeMap<HoldKind, String>,
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
    let verdict = if let Some(first) = FirstFinding::from_findings(findings) {
        CommitVerdict::Invalid(first)
    } else if let Some(hold) = before.holds.first() {
        CommitVerdict::Held { guard: hold_kind_name(hold.kind).to_owned(), message: hold.message.clone() }
    } else if let Some(first) = faults.first() {
        CommitVerdict::Error { message: format!("{}: {}", first.name, first.message) }
    } else if let Some(first) = blocked.first() {
        CommitVerdict::Held { guard: "blocked".to_owned(), message: format!("{}: {}", first.name, first.message) }
    } else if let Some(first) = sick.first() {
        CommitVerdict::Unhealthy { model: first.name.clone(), why: first.message.clone(), more: sick.len() - 1 }
    } else if before.models() == 0 && before.changing() == 0 {
        CommitVerdict::NoModels
    } else {
        CommitVerdict::Healthy { models: before.models(), changed: before.changing() }
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
        if let Some(first) = FirstFinding::from_findings(&own) {
            models.push((model.clone(), ModelVerdict::Invalid(first)));
        }
    }
    let not_well = failed.len() + faulty.len();
    let well = sound().count().saturating_sub(failed.len()) + before.beside;
    let held = before.holds.iter().map(|hold| (hold.kind, hold.message.clone())).collect();
    Judged { verdict, models, well, not_well, next, health, models_in_all: before.models(), drifted: 0, held }
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
        SyncResult::Failed => ModelVerdict::Error { message },
    }
}
