//! Weights are downloaded before a graph serves them: which graphs wait for which Job.

use crate::plan::context::PlanContext;
use crate::plan::{Action, Change, ChangeReason, PlannedWrite};
use stator_core::dynamo::health::{self, Health};
use stator_core::dynamo::kinds::{ANNOTATION_WEIGHTS, GRAPH, JOB};
use stator_core::object::{JsonText, Object, ObjectRef};
use std::collections::BTreeMap;

/// Has every graph that is to serve other weights than it does wait for the Job that downloads them, unless that is known
/// to be complete, and a new graph for every Job of its model. A graph that serves the same weights as before changes at
/// once, whatever becomes of their Job. The Jobs themselves run one after the other.
pub(in crate::plan) fn wait_for_weights(context: &PlanContext<'_>, changes: &mut [Change]) {
    let mut jobs: BTreeMap<String, Vec<PendingJob>> = BTreeMap::new();
    for rendered in context.models() {
        let of_model = rendered.objects.iter().map(|one| &one.object).filter(|object| object.kind() == JOB.kind);
        for object in of_model {
            let reference = object.reference();
            let same = |one: &&Change| one.object.identity() == reference.identity() && one.action != Action::Delete;
            let of_model = |one: &&Change| one.model == rendered.model && same(one);
            // A Job that models share is a change of each of them, or of one.
            let change = changes.iter().find(of_model).or_else(|| changes.iter().find(same));
            let Some(change) = change.filter(|_| !is_complete(context, reference)) else { continue };
            let job =
                PendingJob { downloads_weights: weights_of(&object.parse()).is_some(), job: change.object.clone() };
            jobs.entry(rendered.model.clone()).or_default().push(job);
        }
    }
    for change in changes.iter_mut() {
        explain_download(change);
        let pending = jobs.get(&change.model).map(Vec::as_slice).unwrap_or_default();
        let is_graph = change.object.kind == GRAPH.kind;
        if !is_graph && change.object.kind != JOB.kind {
            continue;
        }
        let serving = context.live(&change.object).filter(|live| !live.is_deleting());
        let Some(apply) = change.step.any_write_mut().and_then(apply_of) else { continue };
        let desired = apply.object.parse();
        let wanted = weights_of(&desired);
        let serves_others = serving.as_ref().and_then(weights_of) != wanted;
        let before = if is_graph {
            let is_needed = |one: &&PendingJob| {
                if one.downloads_weights { wanted.is_some() && serves_others } else { serving.is_none() }
            };
            pending.iter().rfind(is_needed)
        } else {
            let own = pending.iter().position(|one| one.job == change.object);
            own.and_then(|own| own.checked_sub(1)).and_then(|before| pending.get(before))
        };
        let Some(PendingJob { job, .. }) = before else { continue };
        apply.after = Some(Box::new(job.clone()));
        change
            .reasons
            .push(ChangeReason::WaitsForDownload { job: job.clone(), serves_old: is_graph && serving.is_some() });
    }
}

/// A Job that is not complete.
struct PendingJob {
    job: ObjectRef,
    downloads_weights: bool,
}

/// As [`wait_for_weights`], where two revisions are compared and no cluster says what is downloaded.
pub(in crate::plan) fn explain_downloads(changes: &mut [Change]) {
    let created: Vec<(String, ObjectRef)> = changes
        .iter()
        .filter(|one| one.object.kind == JOB.kind && one.action == Action::Create)
        .filter(|one| one.after.as_ref().and_then(annotated_weights).is_some())
        .map(|one| (one.model.clone(), one.object.clone()))
        .collect();
    for change in changes.iter_mut() {
        explain_download(change);
        if change.object.kind != GRAPH.kind {
            continue;
        }
        let Some((_, job)) = created.iter().find(|(model, _)| *model == change.model) else { continue };
        let (before, after) =
            (change.before.as_ref().and_then(annotated_weights), change.after.as_ref().and_then(annotated_weights));
        if after.is_some() && before != after {
            let serves_old = change.before.is_some();
            change.reasons.push(ChangeReason::WaitsForDownload { job: job.clone(), serves_old });
        }
    }
}

/// Says of a new Job what it downloads.
fn explain_download(change: &mut Change) {
    if change.object.kind != JOB.kind || change.action != Action::Create {
        return;
    }
    if let Some(source) = change.after.as_ref().and_then(annotated_weights) {
        let reason = ChangeReason::DownloadsWeights { source };
        change.reasons.push(reason);
    }
}

fn annotated_weights(object: &JsonText) -> Option<String> {
    Some(object.parse().get("metadata")?.get("annotations")?.get(ANNOTATION_WEIGHTS)?.as_str()?.to_owned())
}

fn apply_of(write: &mut PlannedWrite) -> Option<&mut crate::plan::ApplyStep> {
    match write {
        PlannedWrite::Apply(apply) | PlannedWrite::Replace { delete: _, apply } => Some(apply),
        PlannedWrite::Delete(_) => None,
    }
}

/// The weights that a graph serves.
fn weights_of(graph: &Object) -> Option<&str> {
    graph.annotations().get(ANNOTATION_WEIGHTS).copied()
}

/// A Job that is complete stays so.
fn is_complete(context: &PlanContext<'_>, job: &ObjectRef) -> bool {
    context
        .live(job)
        .is_some_and(|live| !live.is_deleting() && health::assess_health(&live, None).health == Health::Healthy)
}
