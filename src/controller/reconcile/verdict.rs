//! What became of a sync, as a verdict on its commit, and what is to be done next.
//!
//! A commit has one verdict, however much is wrong with it. The first that applies is reported:
//!
//! | | Verdict | since |
//! |-|-|-|
//! | 1 | invalid | only another commit helps |
//! | 2 | held | somebody has to release it |
//! | 3 | error | something failed, and is tried again |
//! | 4 | blocked | an object cannot be touched; no approval helps |
//! | 5 | unhealthy | everything is applied, and not all of it works |
//! | 6 | no models, or healthy | |

use super::attempt_report::{AttemptReport, AttemptSummary, HeldPlan, ModelFindings, NextStep, UncoveredModels};
use super::drift_repairs::DriftFindings;
use crate::controller::sources::registry::ModelHealthCounts;
use crate::controller::status_wording::HoldCause;
use crate::controller::status_wording::{CommitVerdict, FirstFinding, ModelVerdict};
use stator_cluster::sync::{ModelOutcome, SyncReport};
use stator_core::finding::Finding;
use stator_core::outcome::{OutcomeClass, SyncOutcome};
use stator_model::plan::{Action, Change, Hold, HoldKind, Plan};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What is known of a plan before it is carried out; a sync consumes the plan.
#[derive(Clone, Debug, Default)]
pub(super) struct PlanOverview {
    /// What guards hold back, in the order in which the plan names it.
    holds: Vec<Hold>,
    /// The digest of what they hold back.
    held_plan: String,
    /// The models that something changes of.
    changing: BTreeSet<String>,
    /// All models.
    models: BTreeSet<String>,
    /// Models that git no longer has.
    retired: BTreeSet<String>,
    /// Models of which something would change, and all of that is held back.
    stuck: BTreeSet<String>,
    /// How many models the plan left out, as nothing of them changes and all is well with them.
    unchanged: usize,
}

impl PlanOverview {
    pub(super) fn of_plan(plan: &Plan, unchanged: usize) -> Self {
        let changing = plan.changes.iter().filter(|change| change.step.write().is_some());
        let waits = |change: &&Change| change.step.held_by().is_some() && is_change(change.action);
        let moving: BTreeSet<&String> = changing.clone().map(|change| &change.model).collect();
        let stuck = plan.changes.iter().filter(waits).map(|change| &change.model);
        Self {
            stuck: stuck.filter(|model| !moving.contains(model)).cloned().collect(),
            held_plan: plan.held.digest().to_owned(),
            holds: plan.holds.iter().filter(|hold| !hold.allowed).cloned().collect(),
            changing: changing.map(|change| change.model.clone()).collect(),
            models: plan.changes.iter().map(|change| change.model.clone()).collect(),
            retired: plan.retired.iter().cloned().collect(),
            unchanged,
        }
    }

    /// How many models something changes of; none when a sync would write nothing.
    pub(super) fn changing(&self) -> usize {
        self.changing.len() + self.retired.difference(&self.changing).count()
    }

    /// What guards hold back, and what each of them says.
    pub(super) fn holds(&self) -> BTreeMap<HoldKind, String> {
        self.holds.iter().map(|hold| (hold.kind, hold.message.clone())).collect()
    }

    /// The digest of what guards hold back.
    pub(super) fn held_plan(&self) -> &str {
        &self.held_plan
    }

    /// The models that the commit has nothing valid to say of: those with errors, by name, and those that are held back.
    pub(super) fn uncovered(&self, faulty: &BTreeMap<String, String>) -> Option<UncoveredModels> {
        let names: BTreeSet<String> = faulty.keys().chain(&self.stuck).cloned().collect();
        let sources = faulty.values().cloned().collect();
        (!names.is_empty()).then_some(UncoveredModels::Some { names, sources })
    }

    /// How many models there are.
    pub(super) fn models(&self) -> usize {
        self.models.difference(&self.retired).count() + self.unchanged
    }
}

/// Whether an action is one that would do something.
pub(super) fn is_change(action: Action) -> bool {
    match action {
        Action::Create | Action::Update | Action::Replace | Action::Delete | Action::Deleting => true,
        // What exists and is nobody's has no commit that it was good at.
        Action::Adopt | Action::Keep | Action::Blocked | Action::LeftBehind => false,
    }
}

/// The models of a sync that did not end as they should, by what is wrong.
#[derive(Debug, Default)]
struct FailedModels<'a> {
    /// Something failed.
    errors: Vec<&'a ModelOutcome>,
    /// Something may not be touched.
    blocked: Vec<&'a ModelOutcome>,
    /// Everything is applied, and it does not work.
    unhealthy: Vec<&'a ModelOutcome>,
}

impl<'a> FailedModels<'a> {
    fn of_models(models: impl Iterator<Item = &'a ModelOutcome>) -> Self {
        let mut failed = Self::default();
        for model in models {
            match model.result.class() {
                OutcomeClass::Success => {}
                OutcomeClass::Failure if model.result == SyncOutcome::Unhealthy => failed.unhealthy.push(model),
                OutcomeClass::Failure | OutcomeClass::Cancelled => failed.blocked.push(model),
                OutcomeClass::Error => failed.errors.push(model),
            }
        }
        failed
    }

    fn len(&self) -> usize {
        self.errors.len() + self.blocked.len() + self.unhealthy.len()
    }
}

/// Judges a sync that ran to its end. `findings` are those of the intents and of what they render to; `faulty` are the
/// models with errors and their `model.yaml`.
pub(super) fn evaluate_sync(
    overview: &PlanOverview,
    findings: &[Finding],
    faulty: &BTreeMap<String, String>,
    report: &SyncReport,
) -> AttemptReport {
    let sound = || report.models.iter().filter(|outcome| !faulty.contains_key(&outcome.name));
    let failed = FailedModels::of_models(sound());
    let verdict = first_verdict(FirstFinding::from_findings(findings), overview, &failed);
    let watches_statuses = !failed.unhealthy.is_empty() || !failed.blocked.is_empty();
    let next = if !failed.errors.is_empty() {
        NextStep::Retry
    } else if report.writes > 0 {
        NextStep::Settle
    } else {
        NextStep::Watch { statuses: watches_statuses }
    };
    let mut models: Vec<(String, ModelVerdict)> = Vec::new();
    for outcome in sound() {
        if overview.changing.contains(&outcome.name) || !outcome.result.is_success() {
            models.push((outcome.name.clone(), model_verdict(outcome)));
        }
    }
    for (model, source) in faulty {
        let is_own = |finding: &&Finding| folder_of(&finding.location.file) == folder_of(source);
        let own: Vec<Finding> = findings.iter().filter(is_own).cloned().collect();
        if let Some(first) = FirstFinding::from_findings(&own) {
            let message = first.sentence();
            models.push((model.clone(), ModelVerdict { outcome: SyncOutcome::Invalid, message }));
        }
    }
    let is_success = verdict.is_success();
    let counts = ModelHealthCounts {
        models: overview.models(),
        healthy: sound().count().saturating_sub(failed.len()) + overview.unchanged,
        not_healthy: failed.len() + faulty.len(),
        drifted: 0,
    };
    let (holds, held_plan) = (overview.holds(), overview.held_plan().to_owned());
    let held =
        (!holds.is_empty()).then(|| HeldPlan { digest: held_plan.clone(), guards: holds.keys().copied().collect() });
    AttemptReport {
        summary: AttemptSummary { next, is_success, held, uncovered: None, drift: DriftFindings::default() },
        verdict,
        failure: None,
        models: Some(ModelFindings { namespace: String::new(), counts, verdicts: models }),
        watches_statuses,
        holds,
        held_plan,
        writes: report.writes,
        took: Duration::ZERO,
    }
}

/// The verdict that comes first: see the table above.
fn first_verdict(invalid: Option<FirstFinding>, overview: &PlanOverview, failed: &FailedModels<'_>) -> CommitVerdict {
    if let Some(first) = invalid {
        return CommitVerdict::Invalid(first);
    }
    if let Some(hold) = overview.holds.first() {
        return CommitVerdict::Held { by: HoldCause::Guard(hold.kind), message: hold.message.clone() };
    }
    if let Some(first) = failed.errors.first() {
        return CommitVerdict::Error { message: format!("{}: {}", first.name, first.message) };
    }
    if let Some(first) = failed.blocked.first() {
        let message = format!("{}: {}", first.name, first.message);
        return CommitVerdict::Held { by: HoldCause::BlockedObject, message };
    }
    if let Some((first, more)) = failed.unhealthy.split_first() {
        return CommitVerdict::Unhealthy { model: first.name.clone(), why: first.message.clone(), more: more.len() };
    }
    match (overview.models(), overview.changing()) {
        (0, 0) => CommitVerdict::NoModels,
        (models, changed) => CommitVerdict::Healthy { models, changed },
    }
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn model_verdict(outcome: &ModelOutcome) -> ModelVerdict {
    match outcome.result {
        // Whether health was waited for is of no interest to whoever reads of the commit.
        SyncOutcome::Synced | SyncOutcome::Unchanged | SyncOutcome::Healthy | SyncOutcome::Deferred => {
            ModelVerdict::success(SyncOutcome::Healthy)
        }
        SyncOutcome::Deleted => ModelVerdict::success(SyncOutcome::Deleted),
        SyncOutcome::Deleting
        | SyncOutcome::Invalid
        | SyncOutcome::Unsigned
        | SyncOutcome::Held
        | SyncOutcome::Blocked
        | SyncOutcome::Unhealthy
        | SyncOutcome::Failed
        | SyncOutcome::Cancelled
        | SyncOutcome::Superseded => ModelVerdict { outcome: outcome.result, message: outcome.message.clone() },
    }
}

#[cfg(test)]
mod tests;
