//! What admission forbids to change after creation.

use super::{ChangeRemedy, ForbiddenChange};
use crate::dynamo::admission::{self, UpdateAuthor};
use crate::dynamo::release::Release;
use crate::object::{FieldPath, Object, Quantity};

fn correction_needed(path: FieldPath, message: impl Into<String>) -> ForbiddenChange {
    ForbiddenChange { path, message: message.into(), remedy: ChangeRemedy::Correct }
}

/// What admission forbids about a change; replicas under a scaling adapter are never stator's to write, so they are left
/// out. A restart's order is refused whatever was there before.
pub(super) fn forbidden_changes(old: &Object, new: &Object, release: Release) -> Vec<ForbiddenChange> {
    let changed = admission::check_update(old, new, UpdateAuthor::Operator, release).into_iter();
    changed
        .map(|one| ForbiddenChange { path: one.path, message: one.message, remedy: one.remedy })
        .chain(
            admission::check_restart_order(new)
                .into_iter()
                .map(|one| correction_needed(one.path, format!("{}; {}", one.message, one.help))),
        )
        .collect()
}

/// A claim only grows. It holds weights, so stator never deletes it to change it.
pub(super) fn forbidden_claim_changes(old: &Object, new: &Object) -> Vec<ForbiddenChange> {
    let strip = |object: &Object| {
        let mut spec = object.spec().clone();
        if let Some(map) = spec.as_object_mut() {
            map.remove("resources");
            map.remove("volumeName");
        }
        spec
    };
    let (before, after) = (strip(old), strip(new));
    let mut faults = Vec::new();
    let empty = serde_json::Map::new();
    for (field, value) in after.as_object().unwrap_or(&empty) {
        if before.get(field) != Some(value) {
            faults.push(correction_needed(
                FieldPath::from_fields(["spec", field]),
                format!("a claim's `{field}` cannot be changed; give the new claim another name"),
            ));
        }
    }
    let size = |object: &Object| object.str_at("/spec/resources/requests/storage").and_then(Quantity::parse);
    if let (Some(before), Some(after)) = (size(old), size(new))
        && after < before
    {
        faults.push(correction_needed(
            FieldPath::from_fields(["spec", "resources", "requests", "storage"]),
            "a claim cannot shrink; give the smaller claim another name",
        ));
    }
    faults
}

/// The content of an immutable ConfigMap stays as it is: the API server refuses every change of it, and of the word itself.
pub(super) fn forbidden_config_map_changes(old: &Object, new: &Object) -> Vec<ForbiddenChange> {
    let is_immutable = old.value().get("immutable").and_then(serde_json::Value::as_bool) == Some(true);
    let changed = |field: &&str| is_immutable && old.value().get(*field) != new.value().get(*field);
    ["immutable", "data", "binaryData"]
        .into_iter()
        .filter(changed)
        .map(|field| ForbiddenChange {
            path: FieldPath::from_fields([field]),
            message: format!("`{field}` of an immutable ConfigMap cannot be changed"),
            remedy: ChangeRemedy::Replace,
        })
        .collect()
}

/// What a Job runs stays as it is: the API server refuses every change of it.
pub(super) fn forbidden_job_changes(old: &Object, new: &Object) -> Vec<ForbiddenChange> {
    let changed = |field: &&str| old.spec().get(*field) != new.spec().get(*field);
    ["completionMode", "completions", "selector", "template"]
        .into_iter()
        .filter(changed)
        .map(|field| ForbiddenChange {
            path: FieldPath::from_fields(["spec", field]),
            message: format!("`{field}` of a Job cannot be changed"),
            remedy: ChangeRemedy::Replace,
        })
        .collect()
}

/// What devices pods claim stays as it is: the API server refuses every change of the spec.
pub(super) fn forbidden_spec_changes(old: &Object, new: &Object) -> Vec<ForbiddenChange> {
    let is_changed = old.spec() != new.spec();
    let message = format!("`spec` of a {} cannot be changed", new.kind());
    let path = FieldPath::from_fields(["spec"]);
    is_changed.then_some(ForbiddenChange { path, message, remedy: ChangeRemedy::Replace }).into_iter().collect()
}
