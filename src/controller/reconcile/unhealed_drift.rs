//! Drift that is not put back: since the source does not ask for it, since somebody else owns the field now, or since a
//! guard holds the repair back. All of it is reported.

use super::attempt_report::{AttemptReport, ModelFindings};
use crate::controller::status_wording::CommitVerdict;
use stator_core::dynamo::health::Health;
use stator_model::plan::{self, Change, Plan, Record};
use std::collections::BTreeSet;

/// The models that drifted, by what a sync can do about it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DriftedModels {
    /// Those that a sync puts back.
    pub(super) repairable: BTreeSet<String>,
    /// Those that a sync cannot put back, or not all of it: a field is somebody else's now, or a guard holds the repair.
    pub(super) unrepairable: BTreeSet<String>,
}

impl DriftedModels {
    /// Of a plan, and of the records that it was made of.
    pub(super) fn find(plan: &Plan, records: &[Record]) -> Self {
        let mut found = Self::default();
        for (model, heals) in plan::drifted_models(plan, records) {
            let models = if heals { &mut found.repairable } else { &mut found.unrepairable };
            models.insert(model);
        }
        found
    }

    /// All of them.
    pub(super) fn all(&self) -> BTreeSet<String> {
        self.repairable.union(&self.unrepairable).cloned().collect()
    }
}

/// Models that drifted and are left as they are, as the source does not ask for their repair.
#[derive(Debug, Default)]
pub(super) struct LeftAlone {
    models: usize,
    healthy: usize,
}

impl LeftAlone {
    /// Takes these models out of a plan, with what guards hold back of them alone.
    pub(super) fn take_from(plan: &mut Plan, drifted: &BTreeSet<String>) -> Self {
        if drifted.is_empty() {
            return Self::default();
        }
        let sick = |change: &&Change| change.health.is_some_and(|health| health != Health::Healthy);
        let sick: BTreeSet<&String> = plan.changes.iter().filter(sick).map(|change| &change.model).collect();
        let healthy = drifted.iter().filter(|model| !sick.contains(model)).count();
        plan.exclude_models(drifted);
        if plan.changes.iter().all(|change| change.step.held_by().is_none()) {
            plan.holds.clear();
        }
        Self { models: drifted.len(), healthy }
    }

    /// Counts them among the models of a report.
    pub(super) fn count_in(&self, report: &mut AttemptReport) {
        if let Some(ModelFindings { counts, .. }) = &mut report.models {
            counts.models += self.models;
            counts.healthy += self.healthy;
            counts.not_healthy += self.models - self.healthy;
            counts.drifted += self.models;
        }
        if let CommitVerdict::Healthy { models, .. } = &mut report.verdict {
            *models += self.models;
        }
    }
}
