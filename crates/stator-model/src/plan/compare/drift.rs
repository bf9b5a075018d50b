//! Which models somebody changed in the cluster although git did not change, and how a plan leaves them alone.

use crate::plan::{Action, Change, Plan, PlanStep, PlannedWrite, Record};
use std::collections::{BTreeMap, BTreeSet};

/// The models of which somebody changed something that a record says was applied as it is wanted still, and whether a sync
/// can put it back: not where somebody else owns the field now, nor while a guard holds the write back. `records` are those that the plan was made of. An object
/// that was never applied, such as an adapter that waits for its graph, has not drifted.
pub fn drifted_models(plan: &Plan, records: &[Record]) -> BTreeMap<String, bool> {
    let mut models = BTreeMap::new();
    for (change, heals) in drifted_objects(plan, records) {
        let all = models.entry(change.model.clone()).or_insert(true);
        *all = *all && heals;
    }
    models
}

/// The lines of a plan whose objects drifted, and whether a sync puts each back: see [`drifted_models`].
pub fn drifted_objects<'a>(plan: &'a Plan, records: &[Record]) -> Vec<(&'a Change, bool)> {
    let recorded: BTreeMap<_, _> = records
        .iter()
        .flat_map(|record| &record.inventory)
        .filter(|entry| entry.uid.is_some())
        .map(|entry| (entry.object.identity(), entry.digest.as_str()))
        .collect();
    let mut drifted = Vec::new();
    for change in &plan.changes {
        let wanted = change.inventory.as_ref().map(|entry| entry.digest.as_str());
        let applied = recorded.get(&change.object.identity()).copied();
        // A write without a changed field ends what a sync began, and is nobody's drift.
        let differs = change.action == Action::Create || !change.fields.is_empty();
        let (heals, held) = match &change.step {
            PlanStep::Write(PlannedWrite::Apply(_) | PlannedWrite::Replace { .. }) => (differs, false),
            PlanStep::Held { would: PlannedWrite::Apply(_) | PlannedWrite::Replace { .. }, by: _ } => (false, differs),
            PlanStep::Write(PlannedWrite::Delete(_))
            | PlanStep::Held { would: PlannedWrite::Delete(_), by: _ }
            | PlanStep::NoWrite
            | PlanStep::AwaitGone { .. } => (false, false),
        };
        let disputed = change.action == Action::Blocked && !change.fields.is_empty();
        if applied.is_some() && applied == wanted && (heals || held || disputed) {
            drifted.push((change, heals));
        }
    }
    drifted
}

impl Plan {
    /// Leaves models out: a sync of the plan neither touches them nor waits for them, and their records stay as they are.
    pub fn exclude_models(&mut self, models: &BTreeSet<String>) {
        self.changes.retain(|change| !models.contains(&change.model));
        self.retired.retain(|model| !models.contains(model));
    }
}
