//! Drift that is told and not put back.

use super::judge::Judged;
use crate::controller::report::commit_ledger::CommitVerdict;
use stator_core::dynamo::health::Health;
use stator_model::plan::{self, Plan};
use std::collections::BTreeSet;

/// Models that drifted and are left as they are.
#[derive(Debug, Default)]
pub(super) struct Aside {
    models: usize,
    healthy: usize,
}

impl Aside {
    /// Takes these models out of a plan.
    pub(super) fn take(plan: &mut Plan, drifted: &BTreeSet<String>) -> Self {
        let sick = |change: &&plan::Change| change.health.is_some_and(|health| health != Health::Healthy);
        let sick: BTreeSet<&String> = plan.changes.iter().filter(sick).map(|change| &change.model).collect();
        let healthy = drifted.iter().filter(|model| !sick.contains(model)).count();
        plan.exclude_models(drifted);
        Self { models: drifted.len(), healthy }
    }

    /// Counts them among the models that a verdict is of.
    pub(super) fn count(&self, judged: &mut Judged) {
        judged.models_in_all += self.models;
        judged.well += self.healthy;
        judged.not_well += self.models - self.healthy;
        judged.drifted = self.models;
        if let CommitVerdict::Healthy { models, .. } = &mut judged.verdict {
            *models += self.models;
        }
    }
}
