//! What an attempt to sync a commit found: what it is judged by, what is said of it, and what decides the next step.

use super::drift_repairs::DriftFindings;
use crate::controller::sources::manual_requests::HoldApproval;
use crate::controller::sources::registry::{ModelHealthCounts, ProblemReason};
use crate::controller::status_wording::{CommitVerdict, ModelVerdict};
use stator_cluster::sync::SyncApproval;
use stator_core::object::ObjectIdentity;
use stator_model::plan::{HeldChanges, HoldKind};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// An attempt that came to a verdict.
#[derive(Clone, Debug)]
pub(super) struct AttemptReport {
    /// What decides the next step.
    pub(super) summary: AttemptSummary,
    /// The commit's verdict.
    pub(super) verdict: CommitVerdict,
    /// What is in the way, where it is more than the verdict says.
    pub(super) failure: Option<FailureDetails>,
    /// What was found of the models; none where the attempt ended before it looked at them.
    pub(super) models: Option<ModelFindings>,
    /// Whether a change of a live object's status may change the verdict.
    pub(super) watches_statuses: bool,
    /// What guards hold back, and what each of them says.
    pub(super) holds: BTreeMap<HoldKind, String>,
    /// The digest of what they hold back; empty where that is nothing.
    pub(super) held_plan: String,
    /// How many writes the cluster carried out.
    pub(super) writes: usize,
    /// How long it took.
    pub(super) took: Duration,
}

/// Why an attempt ended before it wrote anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FailureDetails {
    /// The reason, where the verdict alone does not say it.
    pub(super) reason: Option<ProblemReason>,
    /// What to do about it.
    pub(super) help: String,
    /// Whether it may pass by itself, soon.
    pub(super) is_transient: bool,
}

/// The models of a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ModelFindings {
    /// The namespace of their records.
    pub(super) namespace: String,
    /// How many are how.
    pub(super) counts: ModelHealthCounts,
    /// Those that something changed of, and those that are not well.
    pub(super) verdicts: Vec<(String, ModelVerdict)>,
}

/// What of an attempt decides what is done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AttemptSummary {
    /// What is to be done next.
    pub(super) next: NextStep,
    /// Whether the commit is applied and its models are healthy.
    pub(super) is_success: bool,
    /// What guards hold back that an approval would release.
    pub(super) held: Option<HeldPlan>,
    /// The models that the commit has nothing valid to say of.
    pub(super) uncovered: Option<UncoveredModels>,
    /// What it found of drift.
    pub(super) drift: DriftFindings,
}

/// What waits for an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldPlan {
    /// Its digest.
    pub(super) digest: String,
    /// What holds it back.
    pub(super) guards: BTreeSet<HoldKind>,
}

/// What somebody approved: an attempt that was interrupted has less left of it, and needs no approval of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApprovedChanges {
    pub(super) approval: HoldApproval,
    pub(super) changes: HeldChanges,
}

impl ApprovedChanges {
    /// For the records of the models.
    pub(super) fn for_records(&self) -> SyncApproval {
        let Self { approval, changes } = self;
        let text = approval.guard_words() + &approval.by_words();
        SyncApproval { text, models: changes.models() }
    }
}

/// What a verdict stands on beside what is to be written. An attempt that finds it as it was has nothing new to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VerdictBasis {
    /// Objects that may not be touched: their owner may give them back, or take more.
    pub(super) blocked: BTreeSet<ObjectIdentity>,
    /// What guards held back, and what each said.
    pub(super) holds: BTreeMap<HoldKind, String>,
    /// The digest of what they held back.
    pub(super) held_plan: String,
    /// Models that had drifted and were not put back.
    pub(super) unhealed: BTreeSet<String>,
}

/// What is to be done after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Plan again: the cluster may have answered what was written.
    Settle,
    /// The same again after a short, growing pause: the fault may pass by itself.
    Retry,
    /// The same again after minutes: the cluster refuses, and somebody has to grant or install something.
    RetrySlowly,
    /// Nothing before something changes.
    Watch {
        /// Whether a change of a live object's status is such a change.
        statuses: bool,
    },
}

/// The models that a commit has nothing valid to say of: they stay as the last good commit has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UncoveredModels {
    /// Nothing of the commit may be synced.
    All,
    /// Some have errors, or all that would happen to them is held back.
    Some {
        /// By name, where that is known.
        names: BTreeSet<String>,
        /// By their `model.yaml`: one that cannot be read has no name.
        sources: BTreeSet<String>,
    },
}

#[cfg(test)]
impl HeldPlan {
    /// Of a plan that one guard holds.
    pub(super) fn for_test(digest: &str) -> Self {
        Self { digest: digest.to_owned(), guards: BTreeSet::from([HoldKind::Replace]) }
    }
}

#[cfg(test)]
impl AttemptReport {
    /// With nothing but what decides the next step.
    pub(super) fn for_test(summary: AttemptSummary) -> Self {
        Self {
            summary,
            verdict: CommitVerdict::NoModels,
            failure: None,
            models: None,
            watches_statuses: false,
            holds: BTreeMap::new(),
            held_plan: String::new(),
            writes: 0,
            took: Duration::ZERO,
        }
    }
}
