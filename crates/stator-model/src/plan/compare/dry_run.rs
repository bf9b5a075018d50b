//! What a server-side apply of the desired object would make of the live one: run here, dry, before it is run there.

use super::adoption::{SEED_MANAGER, adoption_transfer, co_owned_transfer};
use crate::plan::{ChangeReason, FieldChange};
use crate::render::{RenderedObject, RenderedText};
use serde_json::{Value, json};
use stator_core::deployment_tools::ToolTracking;
use stator_core::dynamo::admission;
use stator_core::dynamo::graph_components::{edit_components, named_components, with_replicas};
use stator_core::dynamo::kinds::{FIELD_MANAGER, GRAPH};
use stator_core::dynamo::list_order::may_take_live_order;
use stator_core::dynamo::release::{Behaviour, Release};
use stator_core::dynamo::replica_intent::{ReplicaIntents, has_scaling_adapter};
use stator_core::fields::{
    self, ApplyError, ApplyInput, FieldManager, FieldSet, LAST_APPLIED_ANNOTATION, ManagerOperation, OwnershipTransfer,
    StructuralSchema,
};
use stator_core::object::{FieldPath, KeyValue, Object, PathSegment};
use std::collections::{BTreeMap, BTreeSet};

/// Times are the cluster's to give: a dry run needs one that is well formed.
const DRY_RUN_TIME: &str = "1970-01-01T00:00:00Z";

/// Seeds to give up later, by component.
pub(in crate::plan) type SeedReplicas = BTreeMap<String, u64>;

/// A merge that the cluster would take.
pub(in crate::plan) struct MergedObject {
    /// The live object as it becomes.
    pub(in crate::plan) object: Object,
    /// What is applied before; see [`crate::plan::ApplyStep::first`].
    pub(in crate::plan) first: Option<Object>,
    /// The format of the messages.
    pub(in crate::plan) applied: Object,
    /// What differs, without what stator never looks at.
    pub(in crate::plan) fields: Vec<FieldChange>,
    /// Managers whose fields are taken.
    pub(in crate::plan) forced: Vec<String>,
    /// Counts to hold while stator gives them up.
    pub(in crate::plan) seeds: SeedReplicas,
    /// Components whose count stator still owns and leaves to others from now on.
    pub(in crate::plan) released: Vec<String>,
    /// Ownership that passes to stator before the apply; see [`crate::plan::ApplyStep::transfer`].
    pub(in crate::plan) transfer: Option<OwnershipTransfer>,
    /// True when stator does not own everything that git declares, although the object is its own: another writer set a field
    /// to the value that git has.
    pub(in crate::plan) ownership_lost: bool,
    pub(in crate::plan) before: Value,
    pub(in crate::plan) after: Value,
}

/// A merge that the cluster would refuse.
#[derive(Default)]
pub(in crate::plan) struct MergeRefusal {
    pub(in crate::plan) reasons: Vec<ChangeReason>,
    pub(in crate::plan) fields: Vec<FieldChange>,
    /// Before and after, had it been forced.
    pub(in crate::plan) sides: Option<(Value, Value)>,
}

/// Whose the live object is that something is merged into.
#[derive(Clone, Copy)]
pub(in crate::plan) enum MergeTarget<'a> {
    /// stator's.
    Own,
    /// To be taken over: from nobody that says so, or from a tool.
    Adopted(Option<&'a ToolTracking>),
}

/// Runs the apply dry. Disputed fields are taken only from managers that the intent names, and from those that an object is
/// adopted from; a disputed replica count that git does not insist on is left out; one that stator hands over to somebody
/// else keeps its value. Keyed lists keep the order that they have live, as any other order would replace pods.
pub(in crate::plan) fn merge_desired(
    schema: &StructuralSchema,
    rendered: &RenderedText,
    desired: &RenderedObject,
    live: &Object,
    target: MergeTarget<'_>,
    release: Release,
) -> Result<MergedObject, MergeRefusal> {
    let managers = fields::managers(live).map_err(owners_damaged)?;
    // What is disputed may be left to others, in this merge alone.
    let mut replicas = desired.replicas.clone();
    let mut applied = keeping_annotations(in_live_order(schema, desired.object.clone(), live), live);
    let transfer = transfer_to_stator(schema, live, &applied, &managers, target);
    let after_transfer = match &transfer {
        Some(transfer) => transfer.carry_out(schema, live, FIELD_MANAGER).map_err(owners_damaged)?,
        None => None,
    };
    let transfer = transfer.filter(|_| after_transfer.is_some());
    let mut start = after_transfer.unwrap_or_else(|| live.clone());
    let mut seeds = SeedReplicas::new();
    let mut force = false;
    let mut forced = Vec::new();
    loop {
        let mut result = match run_apply(schema, &start, &applied, FIELD_MANAGER, force) {
            Ok(value) => value,
            Err(ApplyError::Conflicts(conflicts)) => {
                let disputed = conflicts.iter().filter_map(|(_, path)| replicas_component(path));
                let yielded: BTreeSet<String> = disputed.filter(|name| replicas.yield_count(name)).collect();
                if !yielded.is_empty() {
                    applied = without_replicas(&applied, &yielded);
                    continue;
                }
                let may_take = |(manager, path): &(String, FieldPath)| {
                    rendered.take_over.contains(manager)
                        || manager == SEED_MANAGER
                        || is_handed_back(&replicas, live, path)
                };
                if !force && conflicts.iter().all(may_take) {
                    let who: BTreeSet<&String> = conflicts.iter().map(|(manager, _)| manager).collect();
                    forced = who.into_iter().cloned().collect();
                    force = true;
                    continue;
                }
                let mut refusal = explain_conflicts(schema, rendered, live, &start, &applied, &managers, conflicts);
                refusal.fields.retain(|change| !is_manifest_copy(change));
                return Err(refusal);
            }
            Err(
                fault
                @ (ApplyError::TypeErrors(_) | ApplyError::MalformedManagedFields(_) | ApplyError::ObjectNotFound),
            ) => {
                let reasons = vec![ChangeReason::ApplyRefused { message: fault.to_string() }];
                return Err(MergeRefusal { reasons, ..MergeRefusal::default() });
            }
        };
        // Giving up a count that nobody else holds would make it 1: it is held under another name meanwhile.
        let lost = lost_replicas(live, &result, &replicas);
        if seeds.is_empty() && !lost.is_empty() {
            let held = replicas_only(&applied, &lost);
            if let Ok(value) = run_apply(schema, &start, &held, SEED_MANAGER, false)
                && let Ok(object) = Object::from_value(value)
            {
                start = object;
                seeds = lost;
                continue;
            }
        }
        if live.kind() == GRAPH.kind {
            admission::refill_on_write(&mut result, live.value(), release);
        }
        let Ok(object) = Object::from_value(result) else {
            let reasons = vec![ChangeReason::NameLost];
            return Err(MergeRefusal { reasons, ..MergeRefusal::default() });
        };
        let (before, after) = compared_sides(schema, live, &object, &applied, &managers);
        let mut fields = field_changes(schema, live, &object, &managers);
        fields.retain(|change| !is_manifest_copy(change));
        // What is stator's moves no ownership for its own sake: nothing is written while nothing changes.
        let moves = matches!(target, MergeTarget::Adopted(_)) || !fields.is_empty();
        let first = adapters_only(live, &object, &applied, release);
        return Ok(MergedObject {
            first,
            fields,
            transfer: transfer.filter(|_| moves),
            ownership_lost: is_ownership_lost(live, &object),
            released: released_components(live, &applied, &replicas),
            object,
            applied,
            forced,
            seeds,
            before,
            after,
        });
    }
}

/// An apply that no longer names any annotation takes the whole map away, and with it what admission wrote there, which
/// nobody owns. An empty map of its own leaves that standing.
fn keeping_annotations(applied: Object, live: &Object) -> Object {
    let annotations = FieldPath::from_fields(["metadata", "annotations"]);
    let owned = fields::applied_fields(live, FIELD_MANAGER).unwrap_or_default();
    let owned: Vec<FieldPath> = owned.leaves().filter(|path| path.starts_with(&annotations)).collect();
    let is_others = |name: &str| !owned.contains(&FieldPath::from_fields(["metadata", "annotations", name]));
    if owned.is_empty()
        || !live.annotations().keys().any(|name| is_others(name))
        || applied.value().pointer("/metadata/annotations").is_some()
    {
        return applied;
    }
    let kept = applied.clone().map(|mut value| {
        value["metadata"]["annotations"] = json!({});
        value
    });
    kept.unwrap_or(applied)
}

pub(in crate::plan) fn is_ownership_lost(live: &Object, merged: &Object) -> bool {
    let owned = fields::applied_fields(merged, FIELD_MANAGER).unwrap_or_default();
    fields::applied_fields(live, FIELD_MANAGER).is_none_or(|known| !owned.difference(&known).is_empty())
}

fn owners_damaged(fault: impl ToString) -> MergeRefusal {
    let reasons = vec![ChangeReason::FieldOwnersDamaged { message: fault.to_string() }];
    MergeRefusal { reasons, ..MergeRefusal::default() }
}

/// What is applied, with keyed lists in the live order wherever pods come out the same.
fn in_live_order(schema: &StructuralSchema, applied: Object, live: &Object) -> Object {
    let aligned = fields::align_keyed_lists(schema, applied.value(), live.value(), &may_take_live_order);
    Object::from_value(aligned).unwrap_or(applied)
}

fn transfer_to_stator(
    schema: &StructuralSchema,
    live: &Object,
    applied: &Object,
    managers: &[FieldManager],
    target: MergeTarget<'_>,
) -> Option<OwnershipTransfer> {
    match target {
        MergeTarget::Adopted(tracking) => Some(adoption_transfer(schema, live, applied, managers, tracking)),
        MergeTarget::Own => {
            let forced = run_apply(schema, live, applied, FIELD_MANAGER, true).ok();
            let differences = forced.map(|forced| fields::diff(schema, live.value(), &forced)).unwrap_or_default();
            let changes: Vec<FieldPath> = differences.into_iter().map(|one| one.path).collect();
            co_owned_transfer(schema, live, applied, managers, &changes)
        }
    }
}

/// kubectl's copy of a manifest: long, kubectl's own, and gone with the adoption.
fn is_manifest_copy(change: &FieldChange) -> bool {
    let is_alone = || change.old.as_object().is_some_and(|all| all.keys().all(|key| key == LAST_APPLIED_ANNOTATION));
    change.path == FieldPath::from_fields(["metadata", "annotations", LAST_APPLIED_ANNOTATION])
        || (change.path == FieldPath::from_fields(["metadata", "annotations"]) && change.new.is_null() && is_alone())
}

fn run_apply(
    schema: &StructuralSchema,
    live: &Object,
    config: &Object,
    manager: &str,
    force: bool,
) -> Result<Value, ApplyError> {
    let input = ApplyInput {
        schema,
        live: Some(live.value()),
        config: config.value(),
        manager,
        force,
        status: false,
        now: DRY_RUN_TIME,
    };
    fields::apply(&input).map(|result| result.object)
}

/// What the live object would be if git had its way with every field, whoever owns it.
pub(in crate::plan) fn forced_result(
    schema: &StructuralSchema,
    desired: &RenderedObject,
    live: &Object,
) -> Option<Object> {
    let applied = in_live_order(schema, desired.object.clone(), live);
    Object::from_value(run_apply(schema, live, &applied, FIELD_MANAGER, true).ok()?).ok()
}

/// What changes, and who owns it now.
pub(in crate::plan) fn field_changes(
    schema: &StructuralSchema,
    live: &Object,
    merged: &Object,
    managers: &[FieldManager],
) -> Vec<FieldChange> {
    fields::diff(schema, live.value(), merged.value())
        .into_iter()
        .filter(|one| {
            !one.path.starts_with(&FieldPath::from_fields(["metadata", "managedFields"]))
                && !one.path.starts_with(&FieldPath::from_fields(["status"]))
        })
        .map(|one| {
            let owners = fields::owners_of(managers, &one.path);
            let owner = if owners.is_empty() { FIELD_MANAGER.to_owned() } else { owners.join(", ") };
            field_change(one, owner)
        })
        .collect()
}

/// Before and after, restricted to what stator owns or wants.
pub(in crate::plan) fn compared_sides(
    schema: &StructuralSchema,
    live: &Object,
    merged: &Object,
    applied: &Object,
    managers: &[FieldManager],
) -> (Value, Value) {
    let mut set = FieldSet::from_value(schema, applied.value());
    for manager in managers.iter().filter(|one| one.name == FIELD_MANAGER && one.operation == ManagerOperation::Apply) {
        set = set.union(&manager.fields);
    }
    let names = ["name", "namespace"].map(|name| FieldPath::from_fields(["metadata", name]));
    let set = set.union(&FieldSet::from_paths(
        names.into_iter().chain(["apiVersion", "kind"].map(|n| FieldPath::from_fields([n]))),
    ));
    (fields::restrict_to(schema, live.value(), &set), fields::restrict_to(schema, merged.value(), &set))
}

fn explain_conflicts(
    schema: &StructuralSchema,
    rendered: &RenderedText,
    live: &Object,
    start: &Object,
    applied: &Object,
    managers: &[FieldManager],
    conflicts: Vec<(String, FieldPath)>,
) -> MergeRefusal {
    let mut by_manager: BTreeMap<&str, Vec<FieldPath>> = BTreeMap::new();
    for (manager, path) in &conflicts {
        by_manager.entry(manager).or_default().push(path.clone());
    }
    let reasons = by_manager
        .into_iter()
        .map(|(manager, paths)| ChangeReason::FieldConflict {
            manager: manager.to_owned(),
            paths,
            is_named: rendered.take_over.iter().any(|one| one == manager),
        })
        .collect();
    let would_be =
        run_apply(schema, start, applied, FIELD_MANAGER, true).ok().and_then(|value| Object::from_value(value).ok());
    let (fields, sides) = would_be.map_or((Vec::new(), None), |object| {
        (field_changes(schema, live, &object, managers), Some(compared_sides(schema, live, &object, applied, managers)))
    });
    MergeRefusal { reasons, fields, sides }
}

/// A field's change with its owner.
pub(in crate::plan) fn field_change(difference: fields::FieldDifference, owner: String) -> FieldChange {
    FieldChange {
        path: difference.path,
        old: difference.old.unwrap_or(Value::Null),
        new: difference.new.unwrap_or(Value::Null),
        owner,
    }
}

/// The component whose replica count a path is.
fn replicas_component(path: &FieldPath) -> Option<String> {
    if path.last_field() != Some("replicas") {
        return None;
    }
    path.0.iter().find_map(|step| match step {
        PathSegment::Key(keys) => keys.get("name").map(ToString::to_string),
        PathSegment::Field(_) | PathSegment::Item(_) | PathSegment::Index(_) => None,
    })
}

/// True when a path is a replica count that a scaling adapter had and git takes back by leaving the adapter out.
fn is_handed_back(replicas: &ReplicaIntents, live: &Object, path: &FieldPath) -> bool {
    replicas_component(path).is_some_and(|name| {
        let had_adapter = |(other, component): (&str, &Value)| other == name && has_scaling_adapter(component);
        !replicas.is_left_to_others(&name) && named_components(live.spec()).any(had_adapter)
    })
}

/// What takes the scaling adapters of components away and leaves their counts, where the counts change as well: a release
/// that locks them while there is an adapter, before or after, refuses both in one write.
fn adapters_only(live: &Object, merged: &Object, applied: &Object, release: Release) -> Option<Object> {
    if !release.has(Behaviour::AdapterLocksBothWays) {
        return None;
    }
    let count = |component: &Value| component.get("replicas").and_then(Value::as_u64).unwrap_or(1);
    let after: BTreeMap<&str, &Value> = named_components(merged.spec()).collect();
    let kept: BTreeMap<String, u64> = named_components(live.spec())
        .filter(|(_, before)| has_scaling_adapter(before))
        .filter_map(|(name, before)| Some((name, before, *after.get(name)?)))
        .filter(|(_, before, after)| !has_scaling_adapter(after) && count(before) != count(after))
        .map(|(name, before, _)| (name.to_owned(), count(before)))
        .collect();
    (!kept.is_empty()).then(|| with_replicas(applied, &kept))
}

/// The components whose count the second of two applies changes.
pub(in crate::plan) fn counted_later(first: &Object, second: &Object) -> Vec<String> {
    let before: BTreeMap<&str, &Value> = named_components(first.spec()).collect();
    let differs = |(name, after): &(&str, &Value)| before.get(name).is_some_and(|before| before != after);
    named_components(second.spec()).filter(differs).map(|(name, _)| name.to_owned()).collect()
}

fn without_replicas(object: &Object, names: &BTreeSet<String>) -> Object {
    edit_components(object, |name, component| {
        if names.contains(name) {
            component.remove("replicas");
        }
    })
}

/// Nothing but the seeded counts: what the seeding manager applies.
pub fn replicas_only(object: &Object, seeds: &BTreeMap<String, u64>) -> Object {
    let list: Vec<Value> = seeds.iter().map(|(name, count)| json!({"name": name, "replicas": count})).collect();
    let value = json!({
        "apiVersion": object.api_version(),
        "kind": object.kind(),
        "metadata": {"name": object.name(), "namespace": object.namespace()},
        "spec": {"components": list},
    });
    Object::from_value(value).unwrap_or_else(|_| object.clone())
}

/// Components whose count stator owns, and does not apply.
fn released_components(live: &Object, applied: &Object, replicas: &ReplicaIntents) -> Vec<String> {
    let Some(own) = fields::applied_fields(live, FIELD_MANAGER) else { return Vec::new() };
    let counted = |name: &str| {
        let key = BTreeMap::from([("name".to_owned(), KeyValue::new(&Value::from(name)))]);
        FieldPath::from_fields(["spec", "components"]).join(PathSegment::Key(key)).field("replicas")
    };
    named_components(applied.spec())
        .map(|(name, _)| name.to_owned())
        .filter(|name| replicas.is_left_to_others(name))
        .filter(|name| !own.intersection(&FieldSet::from_paths([counted(name)])).is_empty())
        .collect()
}

/// Counts that the live object has, that the merge would take away, of components that stay and give their count up.
fn lost_replicas(live: &Object, merged: &Value, replicas: &ReplicaIntents) -> SeedReplicas {
    let count = |component: &Value| component.get("replicas").and_then(Value::as_u64);
    let merged_components: BTreeMap<&str, &Value> = named_components(&merged["spec"]).collect();
    named_components(live.spec())
        .filter(|(name, _)| replicas.is_left_to_others(name))
        .filter_map(|(name, component)| {
            let before = count(component)?;
            let after = merged_components.get(name)?;
            (count(after) != Some(before)).then(|| (name.to_owned(), before))
        })
        .collect()
}

/// What stator owns of a live object, for a diff of its deletion.
pub(in crate::plan) fn owned_fields(live: &Object) -> Option<Value> {
    let schema = fields::bundled_schema(live.api_version(), live.kind())?;
    let names = ["name", "namespace"].map(|name| FieldPath::from_fields(["metadata", name]));
    let heads = ["apiVersion", "kind"].map(|name| FieldPath::from_fields([name]));
    let set = fields::applied_fields(live, FIELD_MANAGER)?.union(&FieldSet::from_paths(names.into_iter().chain(heads)));
    Some(fields::restrict_to(schema, live.value(), &set))
}
