//! What git no longer has: deleted only when label, recorded uid and field manager all say that it is stator's.

mod protection;

use crate::plan::compare::dry_run;
use crate::plan::context::{LiveOwnership, PlanContext, SourceMarks, is_applied_by_stator, model_of, request_of};
use crate::plan::decide::gpu_usage::{add_graph_gpus, set_left_gpus, set_unchanged_gpus};
use crate::plan::decide::unlisted;
use crate::plan::{
    Action, AddressMove, Change, ChangeReason, DeleteStep, DeletionSequel, ForeignOwner, HoldKind, KeptBy,
    OwnershipDoubt, PlanStep, PlannedWrite, rules,
};
use crate::render::ApplyStage;
use protection::PruneProtection;
pub(in crate::plan) use protection::unread_finding;
use serde_json::Value;
use stator_core::dynamo::disruption;
use stator_core::dynamo::health::{self, Health, HealthContext};
use stator_core::dynamo::kinds::{CLAIM, GRAPH, MANAGED, REQUEST};
use stator_core::finding::{Finding, Location};
use stator_core::object::{JsonText, Object, ObjectIdentity, ObjectRef, ObjectText};
use std::collections::{BTreeMap, BTreeSet};

/// What is left of earlier revisions, and the models that are through.
pub(in crate::plan) struct PrunePlan {
    /// One line an object, not sorted.
    pub(in crate::plan) changes: Vec<(ApplyStage, Box<Change>)>,
    /// Models whose records go once their objects are gone.
    pub(in crate::plan) retired: Vec<String>,
    /// What is left although git no longer has it, and needs somebody.
    pub(in crate::plan) findings: Vec<Finding>,
}

/// Finds what git no longer has.
pub(in crate::plan) fn plan_pruning(context: &PlanContext<'_>, desired: &BTreeSet<ObjectIdentity>) -> PrunePlan {
    let input = context.input;
    let protection = PruneProtection::new(context);
    let (mut changes, mut findings) = (Vec::new(), protection.unread_findings(context));
    let mut candidates: BTreeMap<ObjectIdentity, &ObjectText> = BTreeMap::new();
    for object in &input.live {
        let reference = object.reference();
        let recorded = context.inventory_entry(reference).is_some();
        if (recorded || context.has_source_labels(&SourceMarks::of_text(object)))
            && MANAGED.iter().any(|kind| kind.kind == object.kind())
        {
            let identity = reference.identity();
            if !desired.contains(&identity) {
                candidates.insert(identity, object);
            }
        }
    }
    for object in candidates.into_values() {
        let object = &object.parse();
        let recorded = context.inventory_entry(&object.reference());
        let model = model_of(object).or(recorded.map(|(record, _)| record.model.as_str())).unwrap_or_default();
        if !input.scope.covers(model) {
            continue;
        }
        let source = recorded
            .map(|(record, _)| record.source.as_str())
            .or_else(|| context.models().find(|one| one.model == model).map(|one| one.source.as_str()))
            .unwrap_or_default();
        let mut change = Change::new(model, source, object.reference());
        set_unchanged_gpus(&mut change, object);
        add_graph_gpus(context, &mut change, object);
        match prune_refusal(context, &protection, model, object) {
            Some(reason) => {
                if matches!(reason, ChangeReason::Deleting { .. }) && recorded.is_some() {
                    change.action = Action::Deleting;
                    change.step = PlanStep::AwaitGone { uid: object.uid().unwrap_or_default().to_owned() };
                }
                if let ChangeReason::Kept(cause) = &reason {
                    if needs_somebody(cause) {
                        change.action = Action::Blocked;
                    }
                    if matches!(cause, KeptBy::MadeByRequest { .. }) {
                        change.action = Action::LeftBehind;
                        set_left_gpus(context, &mut change, object);
                    }
                    if matches!(cause, KeptBy::Doubt(_)) {
                        findings.push(leftover_finding(&change, cause));
                    }
                }
                change.reasons.push(reason);
            }
            None => plan_deletion(context, object, &mut change),
        }
        changes.push((ApplyStage::of_kind(object.kind()), Box::new(change)));
    }
    let kept = unlisted::keep_recorded(context, desired);
    for (stage, change, finding) in kept {
        changes.push((stage, Box::new(change)));
        findings.push(finding);
    }
    let mentioned: BTreeSet<&str> = changes.iter().map(|(_, change)| change.model.as_str()).collect();
    // Nothing is lost with a record that names nothing, and a person has asked for it.
    let may_delete = input.allow.contains(&HoldKind::Delete);
    let retired = context
        .records()
        .iter()
        .filter(|(model, record)| {
            // Where nothing is there of what a journal names, there is nothing to be kept.
            (input.prune || (record.is_journaled && !mentioned.contains(*model)))
                && (!input.is_empty_render() || (may_delete && !mentioned.contains(*model)))
                && context.unread_journal().is_none()
                && input.scope.covers(model)
                && protection.protecting_cause(context, model).is_none()
                && context.other_folder_reason(model).is_none()
                && !context.renders(model)
        })
        .map(|(model, _)| (*model).to_owned())
        .collect();
    PrunePlan { changes, retired, findings }
}

/// Whether something stays that only a person can settle: the model is not as git says, and no sync will make it so.
fn needs_somebody(cause: &KeptBy) -> bool {
    match cause {
        KeptBy::EmptyRender | KeptBy::UnreadPlace(_) | KeptBy::UnreadJournal { .. } | KeptBy::KindUnlisted(_) => true,
        KeptBy::Doubt(doubt) => match doubt {
            // Whoever it belongs to sees to it.
            OwnershipDoubt::Foreign(_) => false,
            OwnershipDoubt::LabelsLost
            | OwnershipDoubt::NotFieldManager
            | OwnershipDoubt::RecordDamaged
            | OwnershipDoubt::NoRecord
            | OwnershipDoubt::OtherUid => true,
        },
        KeptBy::OtherFolder { .. }
        | KeptBy::ModelErrors
        | KeptBy::UnreadableSource { .. }
        | KeptBy::SuccessorFaulty { .. }
        | KeptBy::Data
        | KeptBy::MadeByRequest { .. }
        | KeptBy::NextRequestGraph { .. }
        | KeptBy::UnlockedResult { .. }
        | KeptBy::UnfinishedGraph { .. }
        | KeptBy::GraphUnchanged { .. }
        | KeptBy::StillUsed { .. }
        | KeptBy::PerhapsUsed { .. }
        | KeptBy::PruningOff => false,
    }
}

/// What is said of an object that stays because it may not be stator's.
fn leftover_finding(change: &Change, cause: &KeptBy) -> Finding {
    let gpus = match change.gpus.before {
        0 => String::new(),
        1 => " and holds 1 GPU".to_owned(),
        count => format!(" and holds {count} GPUs"),
    };
    Finding::warning(
        rules::LEFTOVER,
        Location::file(change.source.clone()),
        format!("{} stays{gpus}: {cause}", change.object),
        "delete the object; to keep it, remove its labels `stator.dev/…` and the model's record (`kubectl delete \
         models.stator.dev`)",
    )
}

/// Why an object that git no longer has is not deleted.
fn prune_refusal(
    context: &PlanContext<'_>,
    protection: &PruneProtection<'_>,
    model: &str,
    object: &Object,
) -> Option<ChangeReason> {
    if object.is_deleting() {
        return Some(ChangeReason::deleting(object, DeletionSequel::Nothing));
    }
    keeping_cause(context, protection, model, object).map(ChangeReason::Kept)
}

/// What keeps an object that git no longer has and that is not on its way out.
fn keeping_cause(
    context: &PlanContext<'_>,
    protection: &PruneProtection<'_>,
    model: &str,
    object: &Object,
) -> Option<KeptBy> {
    let input = context.input;
    if let Some(cause) = context.other_folder_reason(model) {
        return Some(cause);
    }
    if let Some(cause) = protection.protecting_cause(context, model) {
        return Some(cause);
    }
    if let Some(rename) = context.rename_of(model).filter(|rename| rename.workload.is_none()) {
        return Some(KeptBy::SuccessorFaulty { model: rename.model.clone() });
    }
    if input.is_empty_render() {
        return Some(KeptBy::EmptyRender);
    }
    if let Some(journal) = context.unread_journal() {
        return Some(KeptBy::UnreadJournal { journal: journal.clone() });
    }
    let entry = context.inventory_entry(&object.reference()).map(|(_, entry)| entry);
    if let Some(request) = request_of(object).filter(|_| object.kind() == GRAPH.kind && entry.is_some()) {
        return Some(KeptBy::MadeByRequest { request: request.to_owned(), graph: object.reference() });
    }
    if object.kind() == CLAIM.kind && entry.is_none_or(|entry| !entry.prune) || entry.is_some_and(|entry| !entry.prune)
    {
        return Some(KeptBy::Data);
    }
    if let Some(doubt) = ownership_doubt(context, model, object) {
        return Some(KeptBy::Doubt(doubt));
    }
    // The end of a replacement, and no pruning.
    let is_replaced = context.successor_of(&object.reference()).is_some();
    let cause = if object.kind() == GRAPH.kind { still_serving(context, model) } else { None };
    cause.or((!input.prune && !is_replaced).then_some(KeptBy::PruningOff))
}

/// What says that an object is not stator's to delete.
fn ownership_doubt(context: &PlanContext<'_>, model: &str, object: &Object) -> Option<OwnershipDoubt> {
    match context.ownership_of(object) {
        LiveOwnership::Foreign(owner) => return Some(OwnershipDoubt::Foreign(owner)),
        LiveOwnership::Unowned(Some(tracking)) => {
            return Some(OwnershipDoubt::Foreign(ForeignOwner::Tool { tool: tracking.tool, mark: tracking.mark }));
        }
        LiveOwnership::Unowned(None) | LiveOwnership::Ours => {}
    }
    if !context.has_source_labels(&SourceMarks::of(object)) {
        return Some(OwnershipDoubt::LabelsLost);
    }
    if !is_applied_by_stator(object) {
        return Some(OwnershipDoubt::NotFieldManager);
    }
    match context.inventory_entry(&object.reference()) {
        None if context.is_record_unreadable(model) => Some(OwnershipDoubt::RecordDamaged),
        None => Some(OwnershipDoubt::NoRecord),
        // An apply whose answer was lost in a crash: named by a journal or a record before it was sent, labelled and managed since.
        Some((_, entry)) if entry.uid.is_none() => None,
        Some((_, entry)) if entry.uid.as_deref() == object.uid() => None,
        Some(_) => Some(OwnershipDoubt::OtherUid),
    }
}

/// The request that follows an old one, as long as it has not succeeded: the old one goes once it has.
fn next_request(context: &PlanContext<'_>, model: &str) -> Option<ObjectRef> {
    let rendered = context.models().find(|one| one.model == model)?;
    let request = rendered.objects.iter().find(|one| one.object.kind() == REQUEST.kind)?.object.reference();
    let done = context.live(request).is_some_and(|live| health::assess_health(&live, None).health == Health::Healthy);
    (!done).then(|| request.clone())
}

/// A graph goes on serving while the request that is to follow it has made none: a request with `autoApply` makes one,
/// any other only recommends one, and the graph is changed in place when that is locked.
fn still_serving(context: &PlanContext<'_>, model: &str) -> Option<KeptBy> {
    let rendered = context.models().find(|one| one.model == model)?;
    let request = rendered.objects.iter().find(|one| one.object.kind() == REQUEST.kind)?.object.parse();
    let name = request.name().to_owned();
    if request.spec().get("autoApply").and_then(Value::as_bool).unwrap_or(true) {
        let live = context.live(&request.reference());
        // It has not come to its end, and the graph goes once it has.
        if next_request(context, model).is_some() {
            return None;
        }
        let graph = live.and_then(|live| context.graph_made_by(&live).map(|graph| (live, graph)));
        let serves = graph.is_some_and(|(live, graph)| {
            let made = health::assess_health(&graph, None);
            health::assess_request_health(&live, HealthContext::default(), &graph, made).health == Health::Healthy
        });
        return (!serves).then_some(KeptBy::NextRequestGraph { request: name });
    }
    Some(KeptBy::UnlockedResult { request: name })
}

fn plan_deletion(context: &PlanContext<'_>, object: &Object, change: &mut Change) {
    let rendered = context.renders(&change.model);
    change.action = Action::Delete;
    change.disruption = disruption::of_delete(object);
    let made = context.graph_made_by(object);
    if made.is_none() {
        change.gpus.after = 0;
        for totals in change.gpus_by_sku.values_mut() {
            totals.after = 0;
        }
    }
    let follows = [REQUEST.kind, GRAPH.kind].contains(&object.kind());
    let request = follows.then(|| next_request(context, &change.model)).flatten();
    let successor = context.successor_of(&change.object).or(request.as_ref());
    change.reasons.push(match successor {
        Some(request) if request.kind == REQUEST.kind => ChangeReason::FollowedBy { request: request.name.clone() },
        Some(graph) => {
            let moves = context.live(graph).map(|new| AddressMove::between(object, &new)).unwrap_or_default();
            ChangeReason::ReplacedBy { graph: graph.clone(), moves }
        }
        None if rendered => ChangeReason::NoLongerInModel,
        None => ChangeReason::ModelGone { model: change.model.clone() },
    });
    let leaves = made.map(|graph| Box::new((graph.reference(), graph.uid().unwrap_or_default().to_owned())));
    if let Some((graph, _)) = leaves.as_deref() {
        // Dynamo gives it no owner, so it outlives its request.
        change.reasons.push(ChangeReason::GraphStays { graph: graph.clone() });
    }
    change.before = dry_run::owned_fields(object).map(JsonText::from);
    let delete = DeleteStep::of(object, ApplyStage::of_kind(object.kind()));
    change.step =
        PlanStep::Write(PlannedWrite::Delete(DeleteStep { after: successor.cloned().map(Box::new), leaves, ..delete }));
}
