//! Whose fields pass to stator: those of an object that it takes over, and those that another writer came to own beside it.

use stator_core::deployment_tools::ToolTracking;
use stator_core::dynamo::kinds::FIELD_MANAGER;
use stator_core::fields::{
    self, FieldManager, FieldSet, LAST_APPLIED_ANNOTATION, ManagerOperation, OwnershipTransfer, StructuralSchema,
};
use stator_core::object::{FieldPath, Object};
use std::collections::BTreeSet;

/// The manager that holds replica counts while they pass from git to a scaling adapter.
pub const SEED_MANAGER: &str = "stator-initial-replicas";

/// What passes to stator when it takes an object over: every field that the intent declares, from whoever wrote it, with
/// the marks of the tool that managed it and kubectl's copy of the manifest. An autoscaler, which owns replica counts and
/// nothing else, keeps them: it goes on writing them.
pub(super) fn adoption_transfer(
    schema: &StructuralSchema,
    live: &Object,
    applied: &Object,
    managers: &[FieldManager],
    tracking: Option<&ToolTracking>,
) -> OwnershipTransfer {
    let from = managers.iter().filter(|manager| is_other_writer(manager) && !fields::owns_only_replicas(manager));
    let declared = |field: &str, key: &String| {
        let map = applied.value().get("metadata").and_then(|metadata| metadata.get(field));
        map.is_some_and(|map| map.get(key).is_some())
    };
    let undeclared = |field: &str, keys: &BTreeSet<String>| -> BTreeSet<String> {
        keys.iter().filter(|key| !declared(field, key)).cloned().collect()
    };
    let mut annotations = tracking.map(|one| undeclared("annotations", &one.annotations)).unwrap_or_default();
    if live.annotations().contains_key(LAST_APPLIED_ANNOTATION) {
        annotations.insert(LAST_APPLIED_ANNOTATION.to_owned());
    }
    OwnershipTransfer {
        from: from.map(|manager| (manager.name.clone(), manager.operation)).collect(),
        fields: FieldSet::from_value(schema, applied.value()),
        labels: tracking.map(|one| undeclared("labels", &one.labels)).unwrap_or_default(),
        annotations,
    }
}

/// What passes to stator of an object that is its own: fields that it applied, that are about to change or to go, and that
/// another writer owns as well, because it wrote the very value that git has. Such a writer (`kubectl edit`, a client-side
/// `kubectl apply` from before the adoption) has no configuration that it holds the object to, so that its claim would only
/// keep what git gives up. Whoever applies server-side has one, and keeps its claim; so does an autoscaler. A value that is no
/// longer the one that stator applied is not stator's, and is left to the conflict.
///
/// `changes` are the fields that the apply would change.
pub(super) fn co_owned_transfer(
    schema: &StructuralSchema,
    live: &Object,
    applied: &Object,
    managers: &[FieldManager],
    changes: &[FieldPath],
) -> Option<OwnershipTransfer> {
    let own = fields::applied_fields(live, FIELD_MANAGER)?;
    let given_up = own.difference(&FieldSet::from_value(schema, applied.value()));
    let changing = own.iter().filter(|field| changes.iter().any(|changed| field.starts_with(changed)));
    let is_count = |path: &FieldPath| path.last_field() == Some("replicas");
    let fields = FieldSet::from_paths(given_up.iter().chain(changing).filter(|path| !is_count(path)));
    let holds = |manager: &&FieldManager| {
        is_other_writer(manager)
            && manager.operation == ManagerOperation::Update
            && !fields::owns_only_replicas(manager)
            && !manager.fields.intersection(&fields).is_empty()
    };
    let from: BTreeSet<(String, ManagerOperation)> =
        managers.iter().filter(holds).map(|manager| (manager.name.clone(), manager.operation)).collect();
    (!from.is_empty()).then(|| OwnershipTransfer { from, fields, ..OwnershipTransfer::default() })
}

/// A writer of the object itself that is not stator.
fn is_other_writer(manager: &FieldManager) -> bool {
    manager.subresource.is_none()
        && manager.name != SEED_MANAGER
        && !(manager.name == FIELD_MANAGER && manager.operation == ManagerOperation::Apply)
}
