//! Which models somebody changed in the cluster although git did not change, and how a plan leaves them alone.

use super::{Action, Plan, PlanStep, Record};
use std::collections::{BTreeMap, BTreeSet};

/// The models of which somebody changed something that a record says was applied as it is wanted still, and whether a sync
/// can put it back: not where somebody else owns the field now. `records` are those that the plan was made of. An object
/// that was never applied, such as an adapter that waits for its graph, has not drifted.
pub fn drifted_models(plan: &Plan, records: &[Record]) -> BTreeMap<String, bool> {
    let recorded: BTreeMap<_, _> = records
        .iter()
        .flat_map(|record| &record.inventory)
        .filter(|entry| entry.uid.is_some())
        .map(|entry| (entry.object.identity(), entry.digest.as_str()))
        .collect();
    let mut models = BTreeMap::new();
    for change in &plan.changes {
        let wanted = change.inventory.as_ref().map(|entry| entry.digest.as_str());
        let applied = recorded.get(&change.object.identity()).copied();
        // A write without a changed field ends what a sync began, and is nobody's drift.
        let differs = change.action == Action::Create || !change.fields.is_empty();
        let heals = matches!(change.step, PlanStep::Apply(_) | PlanStep::Replace { .. }) && differs;
        let disputed = change.action == Action::Blocked && !change.fields.is_empty();
        if applied.is_some() && applied == wanted && (heals || disputed) {
            let all = models.entry(change.model.clone()).or_insert(true);
            *all = *all && heals;
        }
    }
    models
}

impl Plan {
    /// Leaves models out: a sync of the plan neither touches them nor waits for them, and their records stay as they are.
    pub fn exclude_models(&mut self, models: &BTreeSet<String>) {
        self.changes.retain(|change| !models.contains(&change.model));
        self.retired.retain(|model| !models.contains(model));
    }
}
