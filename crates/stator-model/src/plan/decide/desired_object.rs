//! One desired object against the live one: what happens to it, and why.

use super::replacement::{self, GraphReplacement, NewGraph};
use super::{desired_form, gpu_usage};
use crate::plan::compare::dry_run::{self, MergeTarget, MergedObject};
use crate::plan::compare::server_merge::settle_by_dry_run;
use crate::plan::context::{LiveOwnership, PlanContext, SourceMarks, model_of};
use crate::plan::{
    Action, AddressMove, ApplyStep, Change, ChangeReason, DeleteStep, DeletionSequel, HoldKind, ImmutableAdvice,
    InventoryEntry, PlanStep, PlannedWrite, applyset, rules,
};
use crate::render::{ApplyStage, RenderedObject, RenderedText};
use serde_json::Value;
use sha2::{Digest, Sha256};
use stator_core::deployment_tools::ToolTracking;
use stator_core::dynamo::disruption::{self, ChangeRemedy, Disruption};
use stator_core::dynamo::health::{self, Health};
use stator_core::dynamo::kinds::{self, FIELD_MANAGER};
use stator_core::fields;
use stator_core::finding::{Finding, Location};
use stator_core::object::{FieldPath, Object};
use std::collections::BTreeSet;

/// A change with what it says to the whole plan.
#[derive(Clone, Debug)]
pub(in crate::plan) struct PlannedChange {
    /// Large, and moved from list to list.
    pub(in crate::plan) change: Box<Change>,
    pub(in crate::plan) stage: ApplyStage,
    pub(in crate::plan) findings: Vec<Finding>,
}

/// SHA-256 of what is applied, in hex. JSON maps are sorted, so equal objects have equal digests.
pub(in crate::plan) fn object_digest(object: &Object) -> String {
    hex::encode(Sha256::digest(object.value().to_string().as_bytes()))
}

pub(in crate::plan) fn block_change(change: &mut Change, reason: ChangeReason) {
    change.action = Action::Blocked;
    change.step = PlanStep::NoWrite;
    change.reasons.push(reason);
}

/// Decides on one object that git wants.
pub(in crate::plan) fn decide_desired(
    context: &PlanContext<'_>,
    rendered: &RenderedText,
    desired: &RenderedObject,
) -> PlannedChange {
    let reference = desired.object.reference();
    let live = context.live(&reference);
    let live = live.as_ref();
    let desired = &*desired_form::desired_beside(desired, live);
    let mut decided = PlannedChange {
        change: Box::new(Change::new(&rendered.model, &rendered.source, reference)),
        stage: desired.stage,
        findings: Vec::new(),
    };
    let change = &mut decided.change;
    if let Some(live) = live {
        gpu_usage::set_unchanged_gpus(change, live);
        gpu_usage::add_graph_gpus(context, change, live);
    }
    if rendered.findings.iter().any(Finding::is_error) {
        block_change(change, ChangeReason::ModelFaulty);
        return decided;
    }
    if let Some(message) = context.foreign_record_reason(&rendered.model) {
        block_change(change, ChangeReason::RecordForeign { message: message.to_owned() });
        return decided;
    }
    if let Some(owner) = context.foreign_record_owner(&rendered.model) {
        block_change(change, ChangeReason::Foreign(owner));
        return decided;
    }
    if let Some(message) = context.unreadable_reason(&change.object) {
        block_change(change, ChangeReason::Unreadable { message: message.to_owned() });
        return decided;
    }
    match live {
        None => decide_create(context, rendered, desired, change),
        Some(live) => decide_existing(context, rendered, desired, live, &mut decided),
    }
    if decided.change.step.any_write().is_some() {
        let untried = decided.change.objects().find_map(|object| context.input.answers.untried.get(&object.identity()));
        decided.change.reasons.extend(untried.cloned().map(ChangeReason::NotTried));
    }
    if decided.change.action == Action::Blocked && decided.change.inventory.is_some() && live.is_none() {
        decided.change.inventory = None;
    }
    decided
}

fn decide_create(context: &PlanContext<'_>, rendered: &RenderedText, desired: &RenderedObject, change: &mut Change) {
    let desired = &*desired_form::created_form(desired);
    change.action = Action::Create;
    change.disruption = disruption::of_create(&desired.object);
    let whole = desired.with_initial_replicas();
    gpu_usage::set_changed_gpus(change, None, Some(&whole));
    change.gpu_range = gpu_usage::scaling_gpu_range(desired);
    let apply = ApplyStep::create(desired);
    // By the hundred thousand, two texts of one object are felt.
    change.after = Some(if whole == desired.object { (&apply.object).into() } else { whole.value().into() });
    change.inventory = Some(inventory_entry(desired, None, context));
    change.reasons.push(ChangeReason::NotInCluster);
    if desired.stage == ApplyStage::Adapter {
        explain_graph_wait(context, rendered, change);
    }
    change.reasons.extend(gpu_usage::search_reason(&desired.object));
    change.step = PlanStep::Write(PlannedWrite::Apply(apply));
}

/// Adapters load into running workers: before the graph is Ready the load fails.
fn explain_graph_wait(context: &PlanContext<'_>, rendered: &RenderedText, change: &mut Change) {
    let Some(graph) = rendered.objects.iter().find(|one| one.stage == ApplyStage::Graph) else { return };
    let reference = graph.object.reference();
    let healthy =
        context.live(reference).is_some_and(|live| health::assess_health(&live, None).health == Health::Healthy);
    if !healthy {
        change.reasons.push(ChangeReason::WaitsForWorkload { workload: reference.clone() });
    }
}

fn decide_existing(
    context: &PlanContext<'_>,
    rendered: &RenderedText,
    desired: &RenderedObject,
    live: &Object,
    decided: &mut PlannedChange,
) {
    let change = &mut decided.change;
    let ownership = context.ownership_of(live);
    if let LiveOwnership::Foreign(owner) = ownership {
        return block_change(change, ChangeReason::Foreign(owner));
    }
    if live.is_deleting() {
        return decide_deleting(context, rendered, desired, live, &ownership, change);
    }
    let Some(schema) = context.input.platform.merge_schema(live.api_version(), live.kind()) else {
        return block_change(change, ChangeReason::UnknownVersion { api_version: live.api_version().to_owned() });
    };
    // The cheap test before any merge: nearly every object of nearly every plan ends here.
    if ownership == LiveOwnership::Ours
        && fields::is_noop_apply(schema, live.value(), desired.object.value(), FIELD_MANAGER)
    {
        change.inventory = Some(inventory_entry(desired, Some(live), context));
        explain_keep(context, live, change);
        return;
    }
    let target = match &ownership {
        LiveOwnership::Unowned(tracking) => MergeTarget::Adopted(tracking.as_ref()),
        LiveOwnership::Ours | LiveOwnership::Foreign(_) => MergeTarget::Own,
    };
    let release = context.input.platform.release();
    let merged = match dry_run::merge_desired(schema, rendered, desired, live, target, release) {
        Ok(merged) => merged,
        Err(fault) => {
            change.inventory =
                (ownership == LiveOwnership::Ours).then(|| inventory_entry(desired, Some(live), context));
            change.fields = fault.fields;
            if let Some((before, after)) = fault.sides {
                change.before = Some(before.into());
                change.after = Some(after.into());
            }
            for reason in fault.reasons {
                block_change(change, reason);
            }
            return;
        }
    };
    let merged = match context.dry_run_of(live) {
        Some(result) => settle_by_dry_run(merged, schema, live, result),
        None => merged,
    };
    // A record that names the object makes it stator's: none may before its adoption is approved.
    let may_record = ownership == LiveOwnership::Ours || context.input.allow.contains(&HoldKind::Adopt);
    change.inventory = may_record.then(|| inventory_entry(desired, Some(live), context));
    if ownership == LiveOwnership::Ours
        && merged.fields.is_empty()
        && merged.released.is_empty()
        && !merged.ownership_lost
    {
        explain_keep(context, live, change);
        return;
    }
    decide_write(context, rendered, desired, live, merged, ownership, decided);
}

/// Something is to be written: in place, or, where that is forbidden, by making the object again.
fn decide_write(
    context: &PlanContext<'_>,
    rendered: &RenderedText,
    desired: &RenderedObject,
    live: &Object,
    merged: MergedObject,
    ownership: LiveOwnership,
    decided: &mut PlannedChange,
) {
    let change = &mut decided.change;
    let judgement = disruption::classify_change(live, &merged.object, &context.input.platform);
    change.disruption = judgement.disruption;
    change.fields = merged.fields;
    change.before = Some(merged.before.into());
    change.after = Some(merged.after.into());
    if !judgement.forbidden.is_empty()
        && (!judgement.is_replaceable() || !desired.prune || ownership != LiveOwnership::Ours)
    {
        for one in &judgement.forbidden {
            block_change(change, forbidden_reason(one, desired.prune));
        }
        change.disruption = Disruption::None;
        return;
    }
    gpu_usage::set_changed_gpus(change, Some(live), Some(&merged.object));
    explain_write(context, rendered, live, &ownership, change);
    if let LiveOwnership::Unowned(Some(tracking)) = &ownership {
        decided.findings.push(still_managed(rendered, change, tracking));
    }
    change.reasons.extend(judgement.notes.into_iter().map(ChangeReason::Disrupts));
    if !judgement.forbidden.is_empty() {
        change.reasons.extend(
            judgement
                .forbidden
                .into_iter()
                .map(|one| ChangeReason::Immutable { message: one.message, advice: ImmutableAdvice::InMessage }),
        );
        return decide_replace(context, rendered, desired, live, change);
    }
    if let Some(transfer) = &merged.transfer
        && !transfer.from.is_empty()
    {
        let managers: BTreeSet<&String> = transfer.from.iter().map(|(manager, _)| manager).collect();
        change.reasons.push(ChangeReason::OwnershipMoves { managers: managers.into_iter().cloned().collect() });
    }
    if merged.ownership_lost && ownership == LiveOwnership::Ours && change.fields.is_empty() {
        change.reasons.push(ChangeReason::OwnershipLost);
    }
    if change.fields.is_empty() && !merged.released.is_empty() {
        // A sync that ended between its applies left it at that.
        change.reasons.push(ChangeReason::ReplicasReleased { components: merged.released });
    }
    if let Some(first) = &merged.first {
        change.reasons.push(ChangeReason::TwoWrites { components: dry_run::counted_later(first, &merged.applied) });
    }
    if !merged.forced.is_empty() {
        change.reasons.push(ChangeReason::FieldsTaken { managers: merged.forced.clone() });
    }
    if is_mid_rollout(live) && change.disruption >= Disruption::ManagedRoll {
        let reason = ChangeReason::MidRollout { object: change.object.clone() };
        let message = reason.to_string();
        change.reasons.push(reason);
        decided.findings.push(Finding::warning(
            rules::MID_ROLLOUT,
            Location::file(rendered.source.clone()),
            message,
            "wait until the rollout is complete, then sync",
        ));
    }
    change.action = if ownership == LiveOwnership::Ours { Action::Update } else { Action::Adopt };
    change.step = PlanStep::Write(PlannedWrite::Apply(ApplyStep {
        first: merged.first.map(|first| first.with_uid(live.uid()).into()),
        object: merged.applied.with_uid(live.uid()).into(),
        stage: desired.stage,
        force: !merged.forced.is_empty(),
        planned_resource_version: live.resource_version().map(str::to_owned),
        seed_replicas: merged.seeds,
        transfer: merged.transfer,
        after: None,
        after_graphs: Vec::new(),
    }));
    if change.action == Action::Adopt {
        hold_unless_allowed(context, change, HoldKind::Adopt);
    }
}

/// What the tool that manages an object does to it as long as it does.
fn still_managed(rendered: &RenderedText, change: &Change, tracking: &ToolTracking) -> Finding {
    let ToolTracking { tool, mark, labels: _, annotations: _ } = tracking;
    let message = format!("{} is managed by {} (`{mark}`)", change.object, tool.name());
    let location = Location::file(rendered.source.clone());
    Finding::warning(rules::STILL_MANAGED, location, message, tool.release_advice())
}

/// Holds a write back that needs an approval by its kind, whatever else the plan does.
fn hold_unless_allowed(context: &PlanContext<'_>, change: &mut Change, guard: HoldKind) {
    if !context.input.allow.contains(&guard) {
        change.step.hold_back(guard);
        change.reasons.push(ChangeReason::Held(guard));
    }
}

fn forbidden_reason(one: &disruption::ForbiddenChange, prune: bool) -> ChangeReason {
    let advice = match one.remedy {
        ChangeRemedy::Correct => ImmutableAdvice::InMessage,
        ChangeRemedy::Wait => ImmutableAdvice::Wait,
        ChangeRemedy::Replace if prune => ImmutableAdvice::NotOurs,
        ChangeRemedy::Replace => ImmutableAdvice::NeverDeleted,
    };
    ChangeReason::Immutable { message: one.message.clone(), advice }
}

/// Why an object is written: drift, another model's object, or a change in git.
fn explain_write(
    context: &PlanContext<'_>,
    rendered: &RenderedText,
    live: &Object,
    ownership: &LiveOwnership,
    change: &mut Change,
) {
    if let LiveOwnership::Unowned(tracking) = ownership {
        let is_allowed = context.input.allow.contains(&HoldKind::Adopt);
        change.reasons.push(match (tracking, is_allowed) {
            (None, true) => ChangeReason::Adopted,
            (None, false) => ChangeReason::Unmanaged,
            (Some(tracking), true) => ChangeReason::AdoptedFrom { tool: tracking.tool },
            (Some(tracking), false) => ChangeReason::ManagedByTool { tool: tracking.tool, mark: tracking.mark.clone() },
        });
        return;
    }
    if let Some(model) = model_of(live).filter(|model| *model != rendered.model) {
        change.reasons.push(ChangeReason::MovedFrom { model: model.to_owned() });
    }
    if let Some(from) = context.moved_from(&rendered.model).or_else(|| context.other_source(&SourceMarks::of(live))) {
        change.reasons.push(ChangeReason::Moved { from });
        return;
    }
    if let [only] = change.fields.as_slice()
        && only.path == applyset_label()
    {
        change.reasons.push(ChangeReason::LabelMissing);
        return;
    }
    let recorded = context.inventory_entry(&change.object).map(|(_, entry)| entry.digest.as_str());
    let wanted = change.inventory.as_ref().map(|entry| entry.digest.as_str());
    change.reasons.push(match recorded {
        Some(_) if recorded == wanted => ChangeReason::Drifted,
        Some(_) if change.fields.iter().all(|field| is_owner_label(&field.path)) => ChangeReason::OwnerLabels,
        Some(_) => ChangeReason::ChangedInGit,
        None => ChangeReason::RecordMissing,
    });
}

/// The labels by which stator tells whose an object is; what they say is no matter of the model.
fn is_owner_label(path: &FieldPath) -> bool {
    let labels = [applyset::PART_OF, kinds::LABEL_OWNER_ID, kinds::LABEL_REPOSITORY, kinds::LABEL_ENVIRONMENT];
    labels.iter().any(|label| *path == FieldPath::from_fields(["metadata", "labels", label]))
}

fn applyset_label() -> FieldPath {
    FieldPath::from_fields(["metadata", "labels", applyset::PART_OF])
}

fn decide_replace(
    context: &PlanContext<'_>,
    rendered: &RenderedText,
    desired: &RenderedObject,
    live: &Object,
    change: &mut Change,
) {
    match replacement::plan_replacement(context, rendered, desired, live) {
        GraphReplacement::OldFirst => {}
        GraphReplacement::NewFirst(new) => return decide_new_first(context, new, live, change),
        GraphReplacement::Obstructed(obstacle) => {
            return block_replacement(live, change, ChangeReason::NoNewGraph(obstacle));
        }
    }
    if let Some(message) = context.input.answers.refused_replacements.get(&change.object.identity()) {
        return block_replacement(live, change, ChangeReason::ReplacementRefused { message: message.clone() });
    }
    if let Some(beside) = context.outgoing_graph_of(&change.object) {
        let moves = AddressMove::between(&beside, &desired.object);
        change.reasons.push(ChangeReason::ServedMeanwhile { graph: beside.reference(), moves });
    }
    change.action = Action::Replace;
    let desired = &*desired_form::created_form(desired);
    change.inventory = Some(inventory_entry(desired, Some(live), context));
    let write = PlannedWrite::Replace {
        delete: DeleteStep::of(live, desired.stage),
        apply: ApplyStep {
            planned_resource_version: live.resource_version().map(str::to_owned),
            ..ApplyStep::create(desired)
        },
    };
    change.step = PlanStep::Write(write);
    hold_unless_allowed(context, change, HoldKind::Replace);
}

/// What cannot be replaced stays as it is.
fn block_replacement(live: &Object, change: &mut Change, reason: ChangeReason) {
    change.disruption = Disruption::None;
    gpu_usage::set_unchanged_gpus(change, live);
    block_change(change, reason);
}

/// A graph of another name comes up, and the live one goes once that is Healthy. The record names both from the first write
/// on.
fn decide_new_first(context: &PlanContext<'_>, new: NewGraph, live: &Object, change: &mut Change) {
    let NewGraph { desired, moves } = new;
    let desired = &*desired_form::created_form(&desired);
    let graph = desired.object.reference();
    if let Some(message) = context.input.answers.refused_replacements.get(&graph.identity()) {
        return block_replacement(live, change, ChangeReason::ReplacementRefused { message: message.clone() });
    }
    change.action = Action::Replace;
    // Every pod is replaced, beside those that run.
    change.disruption = Disruption::ManagedRoll;
    gpu_usage::set_side_by_side_gpus(change, live, &desired.with_initial_replicas());
    change.inventory = Some(inventory_entry(desired, None, context));
    change.reasons.push(ChangeReason::NewGraphFirst { graph: Some(graph.clone()), moves });
    change.step = PlanStep::Write(PlannedWrite::Replace {
        delete: DeleteStep { after: Some(Box::new(graph)), ..DeleteStep::of(live, desired.stage) },
        apply: ApplyStep::create(desired),
    });
    if !context.input.allow.contains(&HoldKind::Replace) {
        change.step.hold_back(HoldKind::Replace);
        change.reasons.push(ChangeReason::AddressHeld);
    }
}

/// An object on its way out: stator's own is made again once it is gone, which is how an interrupted replacement ends.
fn decide_deleting(
    context: &PlanContext<'_>,
    rendered: &RenderedText,
    desired: &RenderedObject,
    live: &Object,
    ownership: &LiveOwnership,
    change: &mut Change,
) {
    if *ownership != LiveOwnership::Ours {
        return block_change(change, ChangeReason::deleting(live, DeletionSequel::Wait));
    }
    decide_create(context, rendered, desired, change);
    change.reasons = vec![ChangeReason::deleting(live, DeletionSequel::Recreate)];
    let step = std::mem::replace(&mut change.step, PlanStep::NoWrite);
    if let PlanStep::Write(PlannedWrite::Apply(mut apply)) = step {
        apply.planned_resource_version = live.resource_version().map(str::to_owned);
        change.step = PlanStep::Write(PlannedWrite::Replace { delete: DeleteStep::of(live, desired.stage), apply });
    }
}

fn explain_keep(context: &PlanContext<'_>, live: &Object, change: &mut Change) {
    change.health = Some(health::assess_health(live, None).health);
    // The one thing that is written for an object that stays: without it a later sync could not prune.
    match context.inventory_entry(&change.object) {
        None => change.reasons.push(ChangeReason::RecordMissing),
        Some((_, entry)) if entry.uid.as_deref() != live.uid() => {
            change.reasons.push(ChangeReason::RecordIncomplete);
        }
        Some(_) => {}
    }
    if live.kind() == kinds::REQUEST.kind {
        let verdict = health::assess_health(live, None);
        if verdict.health == Health::Failed {
            change.reasons.push(ChangeReason::RequestFailed { message: verdict.message });
        }
    }
}

fn is_mid_rollout(live: &Object) -> bool {
    matches!(live.status().pointer("/rollingUpdate/phase").and_then(Value::as_str), Some("Pending" | "InProgress"))
}

/// What the record has to say. The generation that was recorded stands while nothing is applied: others raise it too.
fn inventory_entry(desired: &RenderedObject, live: Option<&Object>, context: &PlanContext<'_>) -> InventoryEntry {
    let digest = object_digest(&desired.object);
    let object = desired.object.reference();
    let recorded = context.inventory_entry(&object).map(|(_, entry)| entry);
    let uid = live.and_then(Object::uid).map(str::to_owned);
    let generation = match recorded {
        Some(entry)
            if entry.uid == uid && entry.digest == digest && entry.generation <= live.and_then(Object::generation) =>
        {
            entry.generation.or_else(|| live.and_then(Object::generation))
        }
        Some(_) | None => live.and_then(Object::generation),
    };
    InventoryEntry { object, uid, generation, digest, prune: desired.prune }
}
