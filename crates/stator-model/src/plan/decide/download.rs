//! Weights are downloaded before a graph serves them: which graphs wait for which Job.

use crate::plan::context::PlanContext;
use crate::plan::{Action, Change, ChangeReason, PlannedWrite};
use stator_core::dynamo::health::{self, Health};
use stator_core::dynamo::kinds::{ANNOTATION_WEIGHTS, GRAPH, JOB};
use stator_core::object::{JsonText, Object, ObjectRef};

/// Has every graph that is to serve other weights than it does wait for the Job that downloads them, unless that is known
/// to be complete. A graph that serves the same weights as before changes at once, whatever becomes of a Job.
pub(in crate::plan) fn wait_for_weights(context: &PlanContext<'_>, changes: &mut [Change]) {
    let jobs: Vec<(String, ObjectRef)> = changes
        .iter()
        .filter(|one| one.object.kind == JOB.kind && one.action != Action::Delete && !is_leftover(context, one))
        .map(|one| (one.model.clone(), one.object.clone()))
        .collect();
    for change in changes.iter_mut() {
        explain_download(change);
        if change.object.kind != GRAPH.kind {
            continue;
        }
        let Some((_, job)) = jobs.iter().find(|(model, _)| *model == change.model) else { continue };
        let Some(apply) = change.step.any_write_mut().and_then(apply_of) else { continue };
        let serving = context.live(&change.object).filter(|live| !live.is_deleting());
        let desired = apply.object.parse();
        let wanted = weights_of(&desired);
        if wanted.is_none() || serving.as_ref().and_then(weights_of) == wanted || is_complete(context, job) {
            continue;
        }
        apply.after = Some(Box::new(job.clone()));
        change.reasons.push(ChangeReason::WaitsForDownload { job: job.clone(), serves_old: serving.is_some() });
    }
}

/// As [`wait_for_weights`], where two revisions are compared and no cluster says what is downloaded.
pub(in crate::plan) fn explain_downloads(changes: &mut [Change]) {
    let created: Vec<(String, ObjectRef)> = changes
        .iter()
        .filter(|one| one.object.kind == JOB.kind && one.action == Action::Create)
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

/// What git no longer has, and what stays all the same.
fn is_leftover(context: &PlanContext<'_>, change: &Change) -> bool {
    let mut rendered = context.models().filter(|one| one.model == change.model).flat_map(|one| &one.objects);
    !rendered.any(|one| one.object.reference().identity() == change.object.identity())
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
