//! Puts a plan together.

use super::context::PlanContext;
use super::decide::desired_form::with_owner_labels;
use super::decide::desired_object::{self, PlannedChange, block_change};
use super::decide::replacement::{self, PlacedModels};
use super::decide::{download, file_versions, gpu_usage, left_behind, prune, renames, route, shared_use, unlisted};
use super::guard::held_changes;
use super::ownership::takeover_findings;
use super::{
    Action, Change, ChangeReason, DeleteStep, HeldChanges, HoldKind, KeptBy, Plan, PlanInput, PlanOwnership, PlanStep,
    PlannedWrite, ServerAnswers, guard, masking, rules, totals,
};
use crate::render::{ApplyStage, RenderedObject, RenderedText};
use rayon::prelude::*;
use serde_json::Value;
use stator_core::dynamo::kinds::{CLAIM, CONFIG_MAP, GRAPH, JOB, JOURNAL, LABEL_MODEL, RECORD};
use stator_core::finding::{self, Finding, Location};
use stator_core::object::{Object, ObjectIdentity, ObjectText};
use std::collections::{BTreeMap, BTreeSet};

/// Plans one environment: what a sync would do, and why. Pure; models are decided on in parallel.
pub fn build_plan(input: &PlanInput) -> Plan {
    let context = context_of(input);
    finish_plan(&context, decide_objects(&context, Vec::new(), |_| true))
}

/// A plan in the making: each object that git wants is decided on once, and what is learned of some of them later decides
/// those alone again. Its plan is always the one that [`build_plan`] makes of the same input.
#[derive(Debug)]
pub struct PlanDraft {
    input: PlanInput,
    /// In the order of models and their objects; what is not there is decided when it is needed.
    decided: Vec<PlannedChange>,
}

impl PlanDraft {
    /// Decides on everything.
    pub fn new(input: PlanInput) -> Self {
        let decided = decide_objects(&context_of(&input), Vec::new(), |_| true);
        Self { input, decided }
    }

    /// What the plan is made of.
    pub fn input(&self) -> &PlanInput {
        &self.input
    }

    /// What the plan is made of, and nothing else.
    pub fn into_input(self) -> PlanInput {
        self.input
    }

    /// The plan as it is by now.
    pub fn plan(&mut self) -> Plan {
        // Where nearly everything is new there is nothing to ask, and what is decided is large: it is not kept twice.
        let is_simple = |one: &PlannedChange| matches!(one.change.action, Action::Create | Action::Keep);
        let decided =
            if self.decided.iter().all(is_simple) { std::mem::take(&mut self.decided) } else { self.decided.clone() };
        finish_plan(&context_of(&self.input), decided)
    }

    /// Takes in what the cluster answered about the plan, in place of what it answered before.
    pub fn answer(&mut self, answers: ServerAnswers) {
        let is_first = self.input.answers.is_empty();
        self.input.answers = answers;
        let answers = self.input.answers.clone();
        self.decide_again(|one| !is_first || one.change.objects().any(|object| answers.is_about(object)));
    }

    /// Allows what guards of these kinds hold back.
    pub fn allow(&mut self, kinds: BTreeSet<HoldKind>) {
        // A moved model is another source's until then, and so may be everything beside it.
        let moves = kinds.contains(&HoldKind::Move);
        let opts_in = kinds.contains(&HoldKind::Replace) || kinds.contains(&HoldKind::Adopt);
        self.input.allow.extend(kinds);
        self.decide_again(|one| moves || (opts_in && !matches!(one.change.action, Action::Create | Action::Keep)));
    }

    fn decide_again(&mut self, is_open: impl Fn(&PlannedChange) -> bool + Sync) {
        self.decided = decide_objects(&context_of(&self.input), std::mem::take(&mut self.decided), is_open);
    }
}

fn context_of(input: &PlanInput) -> PlanContext<'_> {
    let context = PlanContext::new(input);
    let PlacedModels { models, replaced } = replacement::place_graphs(&context, &input.rendered);
    let context = context.with_placed_graphs(models, replaced);
    let renames = renames::find_renames(&context);
    context.with_renames(renames)
}

/// The models that the plan is about.
fn covered_models<'a>(context: &'a PlanContext<'_>) -> Vec<&'a RenderedText> {
    context.models().filter(|one| context.input.scope.covers(&one.model)).collect()
}

/// Decides on each object that git wants, but for those that are `decided` and not open again.
fn decide_objects(
    context: &PlanContext<'_>,
    decided: Vec<PlannedChange>,
    is_open: impl Fn(&PlannedChange) -> bool + Sync,
) -> Vec<PlannedChange> {
    let claims = SharedObjects::of(context.models());
    let mut decided = decided.into_iter();
    let objects =
        covered_models(context).into_iter().flat_map(|model| model.objects.iter().map(move |one| (model, one)));
    let objects: Vec<_> = objects.map(|(model, desired)| (model, desired, decided.next())).collect();
    let decide = |(model, desired, decided): (&RenderedText, &RenderedObject<ObjectText>, Option<PlannedChange>)| {
        decided.filter(|one| !is_open(one)).unwrap_or_else(|| {
            let mut decided = decide_by_role(context, &claims, model, desired);
            // A list that grew has room for several, and there is one for each object.
            decided.change.reasons.shrink_to_fit();
            decided
        })
    };
    objects.into_par_iter().map(decide).collect()
}

/// Puts a plan together of what is decided of each object that git wants.
fn finish_plan(context: &PlanContext<'_>, mut decided: Vec<PlannedChange>) -> Plan {
    let (input, rendered) = (context.input, covered_models(context));
    let claims = SharedObjects::of(context.models());
    route::follow_new_graphs(context, &rendered, &mut decided);
    unlisted::hold_dependents(context, &mut decided);
    let mut findings = input.findings.clone();
    findings.extend(input.unchanged.findings.iter().cloned());
    findings.extend(rendered.iter().flat_map(|one| one.findings.iter().cloned()));
    findings.extend(claims.findings());
    findings.extend(unreadable_findings(input));
    // What git no longer has goes with its record, whoever had it.
    let taken_over =
        context.takeovers().filter(|(_, one)| input.scope.covers(&one.model) && context.renders(&one.model));
    let taken_over = taken_over.map(|(cause, one)| (cause, one.owner.as_ref(), one.model.as_str()));
    findings.extend(takeover_findings(taken_over));
    for one in &mut decided {
        findings.append(&mut one.findings);
    }

    let desired: BTreeSet<ObjectIdentity> = context
        .models()
        .flat_map(|one| one.objects.iter().map(|desired| desired.object.reference().identity()))
        .collect();
    let mut leftovers = prune::plan_pruning(context, &desired);
    findings.append(&mut leftovers.findings);
    finding::sort_and_dedup(&mut findings);
    finding::limit::limit_findings(&mut findings, finding::limit::MAX_FINDINGS, &Location::default());
    let lines = decided.into_iter().map(|one| (one.stage, one.change)).chain(leftovers.changes);
    let mut changes = sort_changes(lines.collect());
    file_versions::pair_file_versions(&mut changes);
    file_versions::delete_after_switch(&mut changes);
    renames::follow_renames(context, &mut changes);
    shared_use::keep_used(context, &mut changes);
    let holds = guard::apply_guards(context, &mut changes);
    keep_unreplaced(context, &mut changes);
    // What stays by now uses what it used.
    shared_use::keep_used(context, &mut changes);
    download::wait_for_weights(context, &mut changes);
    route::wait_for_graphs(context, &mut changes);
    // What stays of a model is known by its record.
    let staying: BTreeSet<&str> = changes
        .iter()
        .filter(|one| {
            let is_kept = |reason: &ChangeReason| matches!(reason, ChangeReason::Kept(cause) if cause.is_for_now());
            matches!(one.step, PlanStep::Held { would: PlannedWrite::Delete(_), .. })
                || one.action == Action::Blocked
                || one.reasons.iter().any(is_kept)
        })
        .map(|one| one.model.as_str())
        .collect();
    let retired = leftovers.retired.into_iter().filter(|model| !staying.contains(model.as_str())).collect();
    let digest = totals::plan_digest(&changes, &holds);
    let held = HeldChanges::of(&changes, held_changes::held_rewind(input));
    // No sync does anything about these, so that they are no part of what it would do.
    let left_behind = left_behind::find_left_behind(context, &changes);
    changes.extend(left_behind);
    totals::price_changes(&mut changes, input.prices.as_ref());
    let summary = totals::summarize_changes(&changes, Some(&input.unchanged.totals), input.prices.as_ref());
    findings.extend(totals::capacity_findings(&summary, &input.platform));
    finding::sort_and_dedup(&mut findings);
    masking::mask_changes(&mut changes);
    let shown: BTreeSet<String> = changes.iter().map(|change| change.model.clone()).collect();
    Plan {
        api_version: "stator.dev/v1alpha1",
        kind: "Plan",
        repository: input.repository.clone(),
        environment: input.environment.clone(),
        revision: input.revision.clone(),
        base: "live".to_owned(),
        digest,
        summary,
        changes,
        holds,
        held,
        retired,
        renames: context.renames().iter().map(|(old, rename)| (old.clone(), rename.model.clone())).collect(),
        upgrade: None,
        elsewhere: context.other_folder_models().map(str::to_owned).collect(),
        folder: input.folder.clone(),
        ownership: PlanOwnership {
            owner: input.owner.as_ref().map(|claim| claim.identity.clone()),
            foreign: context.foreign_models().filter(|model| shown.contains(*model)).map(str::to_owned).collect(),
            damaged: damaged_records(input),
        },
        intents: rendered.par_iter().map(|one| (one.model.clone(), masking::recorded_intent(one))).collect(),
        findings,
    }
}

/// A graph that another takes the place of stays as long as that one is not made what git wants.
fn keep_unreplaced(context: &PlanContext<'_>, changes: &mut [Change]) {
    let waiting: BTreeMap<ObjectIdentity, (Action, Option<HoldKind>)> = changes
        .iter()
        .filter(|one| one.action == Action::Blocked || one.step.held_by().is_some())
        .flat_map(|one| one.objects().map(|object| (object.identity(), (one.action, one.step.held_by()))))
        .collect();
    for change in changes.iter_mut() {
        let Some(PlannedWrite::Delete(DeleteStep { after, .. })) = change.step.write() else { continue };
        let renamed = || context.rename_of(&change.model)?.workload.as_ref();
        let Some(successor) = after.as_deref().or_else(renamed) else { continue };
        let Some((action, guard)) = waiting.get(&successor.identity()) else { continue };
        let (graph, is_held) = (successor.clone(), guard.is_some());
        let unfinished = if change.object.kind == GRAPH.kind {
            KeptBy::UnfinishedGraph { graph, is_held }
        } else {
            KeptBy::GraphUnchanged { graph, is_held }
        };
        if let Some(guard) = guard {
            change.step.hold_back(*guard);
        } else if *action == Action::Blocked {
            *change = Change::new(&change.model, &change.source, change.object.clone());
            if let Some(live) = context.live(&change.object) {
                gpu_usage::set_unchanged_gpus(change, &live);
            }
        }
        change.reasons.push(ChangeReason::Kept(unfinished));
    }
}

/// Models whose record is there and cannot be read, and is nobody else's.
fn damaged_records(input: &PlanInput) -> Vec<String> {
    let records = input.unreadable.iter().filter(|one| !one.is_foreign && one.object.kind == RECORD.kind);
    let models: BTreeSet<&str> = records.map(|one| one.object.name.as_str()).collect();
    models.into_iter().map(str::to_owned).collect()
}

/// By model, then in the order of applying; deletions last, in reverse order.
pub(super) fn sort_changes(mut lines: Vec<(ApplyStage, Box<Change>)>) -> Vec<Change> {
    lines.sort_by(|(a_stage, a), (b_stage, b)| {
        let goes = |change: &Change| matches!(change.action, Action::Delete | Action::Deleting);
        let (a_goes, b_goes) = (goes(a), goes(b));
        let stages = if a_goes { b_stage.cmp(a_stage) } else { a_stage.cmp(b_stage) };
        a_goes.cmp(&b_goes).then_with(|| a.model.cmp(&b.model)).then(stages).then_with(|| a.object.cmp(&b.object))
    });
    lines.into_iter().map(|(_, change)| *change).collect()
}

fn decide_by_role(
    context: &PlanContext<'_>,
    claims: &SharedObjects<'_>,
    rendered: &RenderedText,
    desired: &RenderedObject<ObjectText>,
) -> PlannedChange {
    if let Some(unlisted) = context.unlisted_kind(desired.object.kind()) {
        let change = Change::new(&rendered.model, &rendered.source, desired.object.reference().clone());
        return unlisted::block_unlisted(change, &desired.parse(), unlisted);
    }
    match claims.role(rendered, desired) {
        SharedObjectRole::Owner => {
            let labelled = with_owner_labels(context.input, &rendered.model, &desired.parse());
            let desired = RenderedObject { prune: claims.all_prune(desired), ..labelled };
            desired_object::decide_desired(context, rendered, &desired)
        }
        SharedObjectRole::Shares(owner) => {
            let mut change = Change::new(&rendered.model, &rendered.source, desired.object.reference().clone());
            change.reasons.push(ChangeReason::SharedObject { owner });
            PlannedChange { change: Box::new(change), stage: desired.stage, findings: Vec::new() }
        }
        SharedObjectRole::Disputed(others) => {
            let mut change = Change::new(&rendered.model, &rendered.source, desired.object.reference().clone());
            if let Some(live) = context.live(&change.object) {
                gpu_usage::set_unchanged_gpus(&mut change, &live);
            }
            block_change(&mut change, ChangeReason::Disputed { others });
            PlannedChange { change: Box::new(change), stage: desired.stage, findings: Vec::new() }
        }
    }
}

fn unreadable_findings(input: &PlanInput) -> impl Iterator<Item = Finding> {
    input.unreadable.iter().map(|one| {
        let what = if one.is_foreign {
            one.message.clone()
        } else if one.object.kind == RECORD.kind {
            format!(
                "the record of model {} cannot be read, so none of its objects are pruned: {}",
                one.object.name, one.message
            )
        } else if one.object.kind == JOURNAL.kind {
            format!("nothing is pruned: a journal of an earlier sync cannot be read: {}", one.message)
        } else {
            format!("{} cannot be read: {}", one.object, one.message)
        };
        let help = if one.is_foreign {
            "nothing of the model is synced or pruned until then"
        } else if one.object.kind == JOURNAL.kind {
            "delete it once no sync is running; `kubectl get syncjournals` lists it"
        } else {
            "correct it or delete it; the next sync writes a model's record again"
        };
        Finding::warning(rules::UNREADABLE_OBJECT, Location::default(), what, help)
    })
}

/// The errors of objects that several models render and that are not the same.
pub fn duplicate_findings(rendered: &[RenderedText]) -> Vec<Finding> {
    SharedObjects::of(rendered.iter()).findings().collect()
}

/// Objects that several models render.
struct SharedObjects<'a> {
    /// Identity → who renders it, by model; only where there are several.
    renderers: BTreeMap<ObjectIdentity, Vec<(&'a RenderedText, &'a RenderedObject<ObjectText>)>>,
}

enum SharedObjectRole {
    Owner,
    Shares(String),
    Disputed(Vec<String>),
}

impl<'a> SharedObjects<'a> {
    fn of(rendered: impl Iterator<Item = &'a RenderedText>) -> Self {
        let mut all: BTreeMap<ObjectIdentity, Vec<(&RenderedText, &RenderedObject<ObjectText>)>> = BTreeMap::new();
        for one in rendered {
            for desired in &one.objects {
                all.entry(desired.object.reference().identity()).or_default().push((one, desired));
            }
        }
        all.retain(|_, users| users.len() > 1);
        for users in all.values_mut() {
            users.sort_by(|(a, _), (b, _)| (&a.model, &a.source).cmp(&(&b.model, &b.source)));
        }
        Self { renderers: all }
    }

    fn role(&self, rendered: &RenderedText, desired: &RenderedObject<ObjectText>) -> SharedObjectRole {
        let Some(users) = self.renderers.get(&desired.object.reference().identity()) else {
            return SharedObjectRole::Owner;
        };
        if !are_identical(users) {
            let others = users.iter().map(|(one, _)| one).filter(|one| one.source != rendered.source);
            return SharedObjectRole::Disputed(others.map(|one| format!("{} ({})", one.model, one.source)).collect());
        }
        match users.first() {
            Some((first, _)) if first.model != rendered.model => SharedObjectRole::Shares(first.model.clone()),
            Some(_) | None => SharedObjectRole::Owner,
        }
    }

    /// Whether all who render an object let it be deleted once nobody does.
    fn all_prune(&self, desired: &RenderedObject<ObjectText>) -> bool {
        let users = self.renderers.get(&desired.object.reference().identity());
        users.map_or(desired.prune, |users| users.iter().all(|(_, one)| one.prune))
    }

    fn findings(&self) -> impl Iterator<Item = Finding> {
        self.renderers.iter().filter(|(_, users)| !are_identical(users)).flat_map(|(identity, users)| {
            let names: Vec<&str> = users.iter().map(|(one, _)| one.model.as_str()).collect();
            let message =
                format!("{} `{}` is rendered by several models: {}", identity.kind, identity.name, names.join(", "));
            users.iter().map(move |(one, _)| {
                let help = if identity.kind == CONFIG_MAP.kind {
                    "give the objects different names, or keep the object in one of the models"
                } else if identity.kind == CLAIM.kind {
                    "give the claims the same size, class and access mode, or different names"
                } else {
                    "give the models different names"
                };
                Finding::error(rules::DUPLICATE_OBJECT, Location::file(one.source.clone()), message.clone(), help)
            })
        })
    }
}

/// True when all render the same claim, but for the label that names the model, or Jobs that do the same: whatever their
/// labels are, one download is enough.
fn are_identical(users: &[(&RenderedText, &RenderedObject<ObjectText>)]) -> bool {
    let plain = |object: &Object| {
        let mut value = object.value().clone();
        if let Some(labels) = value.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.remove(LABEL_MODEL);
        }
        value
    };
    let mut users = users.iter().map(|(_, desired)| desired.object.parse());
    let Some(first) = users.next() else { return true };
    if first.kind() == JOB.kind {
        return users.all(|other| other.spec() == first.spec());
    }
    first.kind() == CLAIM.kind && {
        let first = plain(&first);
        users.all(|other| plain(&other) == first)
    }
}
