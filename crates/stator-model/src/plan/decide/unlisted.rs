//! Kinds that cannot be listed: what of them is neither created nor changed nor pruned, and what waits for that.

use super::desired_object::{PlannedChange, block_change};
use super::gpu_usage;
use crate::plan::context::PlanContext;
use crate::plan::{Action, Change, ChangeReason, KeptBy, PlanStep, UnlistedCause, UnlistedKind, rules};
use crate::render::{ApplyStage, RenderedObject};
use stator_core::dynamo::kinds;
use stator_core::finding::{Finding, Location};
use stator_core::object::{ObjectIdentity, ObjectRef};
use std::collections::{BTreeMap, BTreeSet};

/// The line of an object that git wants, of a kind that cannot be listed: it may be there, and be anybody's.
pub(in crate::plan) fn block_unlisted(
    mut change: Change,
    desired: &RenderedObject,
    unlisted: &UnlistedKind,
) -> PlannedChange {
    // A test's own object comes from nowhere.
    let is_located = !desired.location.file.is_empty();
    let location = if is_located { desired.location.clone() } else { Location::file(change.source.clone()) };
    let finding = unlisted_finding(&change, location, unlisted);
    block_change(&mut change, ChangeReason::KindUnlisted(unlisted.clone()));
    PlannedChange { change: Box::new(change), stage: desired.stage, findings: vec![finding] }
}

/// Holds back the writes of a model that come after one of its objects that cannot be looked at, where pods would miss
/// that object. What serves beside the graph, or leads to it, holds nothing back.
pub(in crate::plan) fn hold_dependents(context: &PlanContext<'_>, decided: &mut [PlannedChange]) {
    let missing: BTreeMap<String, ObjectRef> = decided
        .iter()
        .filter(|one| one.stage == ApplyStage::Cache)
        .filter(|one| one.change.reasons.iter().any(|reason| matches!(reason, ChangeReason::KindUnlisted(_))))
        .map(|one| (one.change.model.clone(), one.change.object.clone()))
        .collect();
    for one in decided.iter_mut().filter(|one| one.stage != ApplyStage::Cache) {
        let Some(object) = missing.get(&one.change.model) else { continue };
        if one.change.step == PlanStep::NoWrite {
            continue;
        }
        let mut held = Change::new(&one.change.model, &one.change.source, one.change.object.clone());
        if let Some(live) = context.live(&held.object) {
            gpu_usage::set_unchanged_gpus(&mut held, &live);
        }
        // What is there stays the record's, as it was applied last.
        held.inventory = one.change.inventory.clone().filter(|entry| entry.uid.is_some());
        block_change(&mut held, ChangeReason::Needs { object: object.clone() });
        *one.change = held;
    }
}

/// What records name of kinds that may not be listed, and git no longer has: a line for each, so that its record goes on
/// naming it. Of a kind that is not served, nothing is there.
pub(in crate::plan) fn keep_recorded(
    context: &PlanContext<'_>,
    desired: &BTreeSet<ObjectIdentity>,
) -> Vec<(ApplyStage, Change, Finding)> {
    let mut kept = Vec::new();
    for record in context.records().values().filter(|record| context.input.scope.covers(&record.model)) {
        for entry in &record.inventory {
            let Some(unlisted) = context.unlisted_kind(&entry.object.kind) else { continue };
            match unlisted.cause {
                UnlistedCause::Forbidden { .. } => {}
                UnlistedCause::NotServed => continue,
            }
            if desired.contains(&entry.object.identity()) {
                continue;
            }
            let mut change = Change::new(&record.model, &record.source, entry.object.clone());
            change.action = Action::Blocked;
            change.reasons.push(ChangeReason::Kept(KeptBy::KindUnlisted(unlisted.clone())));
            let finding = unlisted_finding(&change, Location::file(change.source.clone()), unlisted);
            kept.push((ApplyStage::of_kind(&entry.object.kind), change, finding));
        }
    }
    kept
}

/// What is said of an object of a kind that cannot be listed.
fn unlisted_finding(change: &Change, location: Location, unlisted: &UnlistedKind) -> Finding {
    let UnlistedKind { kind, cause } = unlisted;
    let (message, help) = match cause {
        UnlistedCause::Forbidden { message, fix } => (
            format!("{} stays unchanged, because {}s cannot be listed: {message}", change.object, kind.kind),
            fix.clone(),
        ),
        UnlistedCause::NotServed => (
            format!(
                "{} is not applied: the cluster does not serve {} {}",
                change.object,
                kind.api_version(),
                kind.kind
            ),
            kinds::installation_advice(kind),
        ),
    };
    Finding::error(rules::UNLISTED_KIND, location, message, help)
}
