//! What a dry run on the cluster says of an apply, and what that leaves of a difference.
//!
//! A server may make something else of what is applied: it fills in defaults, converts to the version that it stores and
//! back, and lets webhooks change it. Which fields that concerns only the server knows. So before a difference that git
//! has no part in is called drift, and before an object is taken over, the cluster is asked by a dry run.

use super::dry_run::{MergedObject, compared_sides, field_changes, is_ownership_lost};
use crate::plan::{Action, ApplyStep, Change, ChangeReason, Plan, PlannedWrite};
use stator_core::fields::{self, StructuralSchema};
use stator_core::object::{FieldPath, Object, PathSegment};

/// So many of the updates that git asks for are tried before they are planned. Of the others the plan says what is known here:
/// it may name fields, and a disruption, that the server's own form of them does not need.
const MAX_TRIED_UPDATES: usize = 32;

/// Why the cluster is asked about an apply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DryRunCause {
    /// git has no part in the difference, or the object is somebody else's: only the cluster can tell what is to be done.
    Unexplained,
    /// git changed: only the cluster can tell whether more than that would change.
    ChangedInGit,
}

impl Plan {
    /// The applies whose effect only the cluster can tell. What it answers goes into the
    /// [draft](crate::plan::PlanDraft) of the plan.
    pub fn unexplained_applies(&self) -> impl Iterator<Item = &ApplyStep> {
        self.asked_applies().filter(|(_, is_tried)| *is_tried).map(|(apply, _)| apply)
    }

    /// Updates that are too many to be tried as well.
    pub fn surplus_updates(&self) -> impl Iterator<Item = &ApplyStep> {
        self.asked_applies().filter(|(_, is_tried)| !is_tried).map(|(apply, _)| apply)
    }

    /// The applies that the cluster is asked about, and whether there is space for that.
    fn asked_applies(&self) -> impl Iterator<Item = (&ApplyStep, bool)> {
        let mut updates = 0;
        self.changes.iter().filter_map(dry_run_of_change).map(move |(cause, apply)| {
            updates += usize::from(cause == DryRunCause::ChangedInGit);
            (apply, cause == DryRunCause::Unexplained || updates <= MAX_TRIED_UPDATES)
        })
    }
}

impl Plan {
    /// What is to take the place of objects, and whether that is created beside them. Whether the cluster takes it is asked
    /// before: where the object is deleted first, the model would be down afterwards.
    pub fn replacements(&self) -> impl Iterator<Item = (&ApplyStep, bool)> {
        let replaced = self.changes.iter().filter(|change| change.action == Action::Replace);
        replaced.filter_map(|change| {
            let PlannedWrite::Replace { delete, apply } = change.step.any_write()? else { return None };
            Some((apply, delete.after.is_some()))
        })
    }
}

fn dry_run_of_change(change: &Change) -> Option<(DryRunCause, &ApplyStep)> {
    let cause = match change.action {
        Action::Adopt => DryRunCause::Unexplained,
        Action::Update if change.reasons.contains(&ChangeReason::Drifted) => DryRunCause::Unexplained,
        Action::Update => DryRunCause::ChangedInGit,
        Action::Create
        | Action::Replace
        | Action::Delete
        | Action::Deleting
        | Action::Keep
        | Action::Blocked
        | Action::LeftBehind => {
            return None;
        }
    };
    let PlannedWrite::Apply(apply) = change.step.any_write()? else { return None };
    // The first of two writes shows nothing of what the second one does.
    apply.first.is_none().then_some((cause, apply))
}

/// The merge as the cluster carries it out: only what `result`, the answer to a dry run, has otherwise than the live object is
/// a change.
pub(in crate::plan) fn settle_by_dry_run(
    merged: MergedObject,
    schema: &StructuralSchema,
    live: &Object,
    result: &Object,
) -> MergedObject {
    let managers = fields::managers(live).unwrap_or_default();
    let result = &as_read_again(schema, result);
    // A server that takes away what is live and declared (a definition that no longer knows it) makes nothing of an apply that
    // could be planned by.
    if drops_declared(schema, &merged, live, result) {
        return merged;
    }
    let form = fields::take_server_form(schema, merged.applied.value(), live.value(), result.value());
    let applied = Object::from_value(form).unwrap_or_else(|_| merged.applied.clone());
    let mut changes = field_changes(schema, live, result, &managers);
    changes.retain(|change| !is_counted_by_server(&change.path));
    // A dry run cannot move ownership, and leaves the marks that go with it.
    let is_mark = |path: &FieldPath| {
        let gone = merged.transfer.iter().flat_map(|transfer| {
            let labels = transfer.labels.iter().map(|name| ["metadata", "labels", name.as_str()]);
            labels.chain(transfer.annotations.iter().map(|name| ["metadata", "annotations", name.as_str()]))
        });
        gone.map(FieldPath::from_fields).any(|gone| gone.starts_with(path) || *path == gone)
    };
    let known: Vec<FieldPath> = changes.iter().map(|change| change.path.clone()).collect();
    changes.extend(merged.fields.iter().filter(|one| is_mark(&one.path) && !known.contains(&one.path)).cloned());
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    let (before, after) = compared_sides(schema, live, result, &applied, &managers);
    let ownership_lost = is_ownership_lost(live, result);
    MergedObject { fields: changes, applied, object: result.clone(), ownership_lost, before, after, ..merged }
}

/// The answer to a dry run as a reader would find it, had it been no dry run: a webhook of typed code writes `null` for what
/// it has no value for, and an API server drops that when it reads what it stored.
fn as_read_again(schema: &StructuralSchema, answer: &Object) -> Object {
    let mut read = answer.value().clone();
    fields::apply_defaults(schema, &mut read);
    Object::from_value(read).unwrap_or_else(|_| answer.clone())
}

fn drops_declared(schema: &StructuralSchema, merged: &MergedObject, live: &Object, result: &Object) -> bool {
    let fields_of = |object: &Object| fields::FieldSet::from_value(schema, object.value());
    let declared = fields_of(&merged.applied).intersection(&fields_of(live));
    !declared.difference(&fields_of(result)).is_empty()
}

/// Fields of `metadata` that move with every write.
fn is_counted_by_server(path: &FieldPath) -> bool {
    let counted = ["generation", "resourceVersion"];
    matches!(path.0.as_slice(), [PathSegment::Field(metadata), PathSegment::Field(name)]
        if metadata == "metadata" && counted.contains(&name.as_str()))
}
