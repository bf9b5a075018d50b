//! What holds a sync back: too many deletions, too many GPUs, replacements that nobody asked for.

use super::{Action, Change, Hold, HoldKind, PlanInput, PlanStep};
use stator_core::dynamo::gpus;
use std::collections::BTreeSet;

/// Deletions that are never many, whatever they are a part of.
pub(super) const MIN_DELETION_LIMIT: usize = 5;

/// Holds back what the guards say, and tells so.
pub(super) fn apply_guards(input: &PlanInput, changes: &mut [Change]) -> Vec<Hold> {
    let mut holds = Vec::new();
    holds.extend(replace_hold(input, changes));
    holds.extend(mass_delete_hold(input, changes));
    holds.extend(max_gpus_hold(input, changes));
    holds
}

fn replace_hold(input: &PlanInput, changes: &[Change]) -> Option<Hold> {
    let names: Vec<String> =
        changes.iter().filter(|one| one.action == Action::Replace).map(|one| one.object.to_string()).collect();
    (!names.is_empty()).then(|| Hold {
        kind: HoldKind::Replace,
        message: format!("Dynamo forbids the change in place; deleted and made again: {}", names.join(", ")),
        help: "allow it with --allow replace: the models are down until they have started again".to_owned(),
        allowed: input.allow.contains(&HoldKind::Replace),
    })
}

/// More deletions than max(5 objects, 20 %) in one plan look like a mistake in git more than like a wish.
fn mass_delete_hold(input: &PlanInput, changes: &mut [Change]) -> Option<Hold> {
    let deletions = changes.iter().filter(|one| one.action == Action::Delete).count();
    let present = changes.iter().filter(|one| one.action != Action::Create && one.counts_as_present()).count()
        + input.unchanged.totals.objects;
    let limit = match input.guards.max_deletions {
        Some(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
        None => MIN_DELETION_LIMIT.max(present / 5),
    };
    if deletions <= limit {
        return None;
    }
    let allowed = input.allow.contains(&HoldKind::MassDelete);
    if !allowed {
        for change in changes.iter_mut().filter(|one| one.action == Action::Delete) {
            change.step = PlanStep::Nothing;
            change.reasons.push("held back: too many deletions at once".to_owned());
        }
    }
    Some(Hold {
        kind: HoldKind::MassDelete,
        message: format!("{deletions} of {present} objects would be deleted, {limit} go without a release"),
        help: "check that git says what you mean, then allow it with --allow mass-delete".to_owned(),
        allowed,
    })
}

fn max_gpus_hold(input: &PlanInput, changes: &mut [Change]) -> Option<Hold> {
    let limit = u64::from(input.guards.max_gpus?);
    let shown: BTreeSet<_> = changes.iter().map(|one| one.object.identity()).collect();
    // Models out of scope hold their GPUs as well.
    let others = input
        .live
        .iter()
        .filter(|object| !shown.contains(&object.reference().identity()))
        .fold(0_u64, |sum, object| sum.saturating_add(gpus::gpu_use(object).total()));
    let others = others.saturating_add(input.unchanged.totals.gpus.peak);
    let peak = changes.iter().fold(others, |sum, one| sum.saturating_add(one.gpus.peak));
    let more = |one: &Change| one.gpus.peak > one.gpus.before && one.step != PlanStep::Nothing;
    if peak <= limit || !changes.iter().any(more) {
        return None;
    }
    let allowed = input.allow.contains(&HoldKind::MaxGpus);
    if !allowed {
        for change in changes.iter_mut().filter(|one| more(one)) {
            change.step = PlanStep::Nothing;
            change.reasons.push("held back: the environment would need more GPUs than it may have".to_owned());
        }
    }
    Some(Hold {
        kind: HoldKind::MaxGpus,
        message: format!("up to {peak} GPUs would be needed at once, the environment may have {limit}"),
        help: "scale something down, set `rollout` to surge 0, or allow it with --allow max-gpus".to_owned(),
        allowed,
    })
}

impl Change {
    /// True for objects that stator holds in the cluster: the ones that a share of deletions is a share of.
    fn counts_as_present(&self) -> bool {
        self.action == Action::Delete || self.inventory.is_some()
    }
}
