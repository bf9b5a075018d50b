//! Server-side apply and plain updates: what becomes of an object, and of who owns its fields.
//!
//! The reference is sigs.k8s.io/structured-merge-diff 6.4.2 below k8s.io/apimachinery's `managedfields`. Conversion
//! between versions is not done here: entries that were written at another version are compared path by path.

use super::compare::FieldComparison;
use super::defaults::{apply_defaults, apply_defaults_after_merge, tidy_metadata};
use super::field_set::FieldSet;
use super::managers::{FieldManager, ManagedFieldsError, ManagerOperation, read_managers, write_managers};
use super::merge::merge;
use super::remove::remove_fields;
use super::schema::StructuralSchema;
use super::type_ref::{TypeRef, too_deep, values_equal};
use super::typecheck::{TypingError, TypingErrorKind, typing_errors};
use crate::object::FieldPath;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// One server-side apply.
pub struct ApplyInput<'a> {
    /// The schema of the kind, at the version of `config`.
    pub schema: &'a StructuralSchema,
    /// The object as it is, with its `managedFields`; `None` when there is none yet.
    pub live: Option<&'a Value>,
    /// What the manager wants, and nothing else.
    pub config: &'a Value,
    /// The field manager.
    pub manager: &'a str,
    /// Take disputed fields from every other manager.
    pub force: bool,
    /// Write `status` and nothing else, in place of everything but `status`.
    pub status: bool,
    /// The time to record, RFC 3339 with seconds.
    pub now: &'a str,
}

/// What came of an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplyResult {
    /// The object, with defaults and `managedFields`. It is not validated yet.
    pub object: Value,
    /// False when there is nothing to write: the object is the live one, times included.
    pub changed: bool,
}

/// Why an apply did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Other managers own fields that would change: manager and field, sorted. Leave the fields out, agree on the
    /// value, or force.
    #[error("{} would change and other managers own them: {}", count_fields(.0.len()), conflict_list(.0))]
    Conflicts(Vec<(String, FieldPath)>),
    /// What is applied does not fit the schema. Correct it.
    #[error("failed to create typed patch object: {}", typing_list(.0))]
    TypeErrors(Vec<TypingError>),
    /// The live object's ownership records cannot be read. Correct them, or remove `metadata.managedFields`.
    #[error(transparent)]
    MalformedManagedFields(#[from] ManagedFieldsError),
    /// There is no object whose status could be written. Create it first.
    #[error("the object does not exist, so its status cannot be written")]
    ObjectNotFound,
}

fn count_fields(fields: usize) -> String {
    if fields == 1 { "1 field".to_owned() } else { format!("{fields} fields") }
}

fn conflict_list(conflicts: &[(String, FieldPath)]) -> String {
    conflicts.iter().map(|(manager, path)| format!("{path} ({manager})")).collect::<Vec<_>>().join(", ")
}

fn typing_list(faults: &[TypingError]) -> String {
    faults.iter().map(|fault| format!("{}: {}", fault.path, fault.message)).collect::<Vec<_>>().join("; ")
}

/// The manager that gets everything of an object that nobody has owned before the first apply.
const BEFORE_FIRST_APPLY_MANAGER: &str = "before-first-apply";
/// The manager that the oldest of more than [`MAX_UPDATE_ENTRIES`] Update entries are folded into.
const ANCIENT_CHANGES_MANAGER: &str = "ancient-changes";
/// How many Update entries an object keeps apart.
const MAX_UPDATE_ENTRIES: usize = 10;

/// What only a cluster writes into `metadata`.
const SYSTEM_METADATA_FIELDS: &[&str] = &[
    "name",
    "namespace",
    "uid",
    "generation",
    "resourceVersion",
    "creationTimestamp",
    "selfLink",
    "clusterName",
    "managedFields",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Fields that nobody ever owns: they name the object or are the server's.
pub(super) static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    let paths = SYSTEM_METADATA_FIELDS.iter().map(|name| FieldPath::from_fields(["metadata", name]));
    FieldSet::from_paths(paths.chain(["apiVersion", "kind", "metadata"].map(|name| FieldPath::from_fields([name]))))
});

/// What a write through one endpoint cannot touch.
fn unwritable_fields(schema: &StructuralSchema, status: bool) -> FieldSet {
    let names: &[&str] = match (status, schema.status_subresource) {
        (true, _) => &["metadata", "spec"],
        (false, true) => &["status"],
        (false, false) => &[],
    };
    FieldSet::from_paths(names.iter().map(|name| FieldPath::from_fields([*name])))
}

/// Applies a configuration: merges it, removes what the manager gave up, and settles who owns what.
///
/// Of the merge alone: a `null` without a default is dropped. See [`apply_as_api_server`].
pub fn apply(input: &ApplyInput<'_>) -> Result<ApplyResult, ApplyError> {
    apply_with_defaulting(input, |object| apply_defaults(input.schema, object))
}

/// The same with what an API server makes of the merged object: of a custom resource, a `null` without a default stays
/// (and is refused when the object is validated), and `metadata` keeps nothing empty.
pub fn apply_as_api_server(input: &ApplyInput<'_>) -> Result<ApplyResult, ApplyError> {
    apply_with_defaulting(input, |object| {
        apply_defaults_after_merge(input.schema, object);
        tidy_metadata(object);
    })
}

fn apply_with_defaulting(input: &ApplyInput<'_>, decode: impl FnOnce(&mut Value)) -> Result<ApplyResult, ApplyError> {
    let root = TypeRef::Declared(&input.schema.root);
    let faults = config_errors(input);
    if !faults.is_empty() {
        return Err(ApplyError::TypeErrors(faults));
    }
    if input.status && input.live.is_none() {
        return Err(ApplyError::ObjectNotFound);
    }
    let live = input.live.map(without_managers);
    let mut managers = input.live.map_or(Ok(Vec::new()), read_managers)?;
    let ignored = unwritable_fields(input.schema, input.status);
    for manager in &mut managers {
        manager.fields = manager.fields.reconciled(root);
    }
    if managers.is_empty()
        && let Some(live) = &live
    {
        let empty = empty_object_like(live);
        let compared = FieldComparison::between(root, Some(&empty), Some(live)).without(&ignored);
        let entry = manager_entry(input, BEFORE_FIRST_APPLY_MANAGER, ManagerOperation::Update);
        record_update(&mut managers, entry, &compared, input.now);
    }

    let start = live.clone().unwrap_or_else(|| empty_object_like(input.config));
    let merged = merge(root, Some(&start), Some(input.config), 0).unwrap_or(Value::Null);
    let mut mine = manager_entry(input, input.manager, ManagerOperation::Apply);
    mine.fields = FieldSet::from_value(input.schema, input.config).without(&ignored).difference(&NEVER_OWNED);
    let last = managers.iter().position(|manager| manager.identity() == mine.identity()).map(|at| managers.remove(at));
    let (last_fields, last_time) = last.map_or((None, None), |last| (Some(last.fields), last.time));
    let pruned = match &last_fields {
        // Who applies the same fields again gives nothing up: the common case, and pruning is the dear part.
        Some(last) if !last.is_empty() && *last != mine.fields => prune(root, &merged, last, &mine.fields, &managers),
        Some(_) | None => merged,
    };
    // An object of which nothing is left is still an object, and keeps what nobody owns: its name, its uid.
    let mut pruned = if pruned.is_object() { pruned } else { empty_object_like(input.config) };
    keep_system_fields(&start, &mut pruned);

    let moved = !values_equal(&start, &pruned);
    if moved {
        let compared = FieldComparison::between(root, Some(&start), Some(&pruned)).without(&ignored);
        evict_conflicting_managers(&mut managers, &compared, input.force)?;
    }
    managers.retain(|manager| !manager.fields.is_empty());
    mine.time = if moved || input.live.is_none() { Some(input.now.to_owned()) } else { last_time };
    if !mine.fields.is_empty() {
        managers.push(mine);
    }

    let mut object = restore_unwritable_fields(input.schema, input.status, live.as_ref(), pruned);
    decode(&mut object);
    Ok(finish_apply(input.live, object, managers))
}

/// Records a plain write of a whole object (a PUT or PATCH that is no apply): whoever owned a field that changed loses
/// it, and the writer owns it. `old` is `null` for a create. Damaged `managedFields` are dropped, as an API server
/// does for such writes.
pub fn update(schema: &StructuralSchema, old: &Value, new: Value, manager: &str, status: bool, now: &str) -> Value {
    let root = TypeRef::Declared(&schema.root);
    let mut managers = read_managers(old).unwrap_or_default();
    let exists = old.is_object();
    let live = exists.then(|| without_managers(old));
    let mut object = restore_unwritable_fields(schema, status, live.as_ref(), without_managers(&new));
    apply_defaults(schema, &mut object);
    // An object whose fields nobody tracks stays so until the first apply.
    if !exists || !managers.is_empty() {
        for manager in &mut managers {
            manager.fields = manager.fields.reconciled(root);
        }
        let ignored = unwritable_fields(schema, status);
        let start = live.unwrap_or_else(|| empty_object_like(&object));
        let compared = FieldComparison::between(root, Some(&start), Some(&object)).without(&ignored);
        let entry = FieldManager {
            name: if manager.is_empty() { "unknown".to_owned() } else { manager.to_owned() },
            operation: ManagerOperation::Update,
            subresource: status.then(|| "status".to_owned()),
            api_version: schema.api_version.clone(),
            time: None,
            fields: FieldSet::new(),
        };
        remove_lost_fields(&mut managers, &compared);
        record_update(&mut managers, entry, &compared, now);
        fold_ancient(&mut managers);
    }
    finish_apply(exists.then_some(old), object, managers).object
}

fn config_errors(input: &ApplyInput<'_>) -> Vec<TypingError> {
    let unfit = |path: FieldPath, message: String| TypingError { path, message, kind: TypingErrorKind::Unsupported };
    if !input.config.is_object() {
        let found = crate::object::json_type(input.config);
        return vec![unfit(FieldPath::root(), format!("expected map, got {found}"))];
    }
    if input.config.pointer("/metadata/managedFields").is_some_and(|value| !value.is_null()) {
        let message = "metadata.managedFields must be nil".to_owned();
        return vec![unfit(FieldPath::from_fields(["metadata", "managedFields"]), message)];
    }
    if input.live.is_some_and(too_deep) {
        return vec![unfit(FieldPath::root(), "the live object is nested too deep".to_owned())];
    }
    typing_errors(input.schema, input.config)
}

fn manager_entry(input: &ApplyInput<'_>, name: &str, operation: ManagerOperation) -> FieldManager {
    FieldManager {
        name: name.to_owned(),
        operation,
        subresource: input.status.then(|| "status".to_owned()),
        api_version: input.schema.api_version.clone(),
        time: None,
        fields: FieldSet::new(),
    }
}

/// What remains after the manager gave up fields: gone is what it applied last time, does not apply now, and nobody
/// else claims.
fn prune(root: TypeRef<'_>, merged: &Value, last: &FieldSet, mine: &FieldSet, others: &[FieldManager]) -> Value {
    let last = last.with_named_containers(root);
    let pruned = remove_fields(root, merged, &last, 0);
    let fields = |value: &Value| FieldSet::from_typed_value(root, value).with_named_containers(root);
    let merged_fields = fields(merged);

    let claimed = others.iter().fold(mine.clone(), |all, manager| all.union(&manager.fields));
    let keep = fields(&pruned).union(&claimed.with_named_containers(root));
    let pruned = remove_fields(root, merged, &merged_fields.difference(&keep), 0);

    let gone = merged_fields.difference(&fields(&pruned)).intersection(&last);
    remove_fields(root, merged, &gone, 0)
}

/// Puts back into `metadata` what nobody ever owns, and so nobody can give up.
fn keep_system_fields(start: &Value, pruned: &mut Value) {
    let Some(before) = start.get("metadata").and_then(Value::as_object) else { return };
    let Some(object) = pruned.as_object_mut() else { return };
    let Some(after) = object.entry("metadata").or_insert_with(|| json!({})).as_object_mut() else { return };
    for name in SYSTEM_METADATA_FIELDS {
        if let Some(value) = before.get(*name) {
            after.entry(*name).or_insert_with(|| value.clone());
        }
    }
}

/// Takes changed fields from every other manager, or says who would lose what.
fn evict_conflicting_managers(
    managers: &mut Vec<FieldManager>,
    compared: &FieldComparison,
    force: bool,
) -> Result<(), ApplyError> {
    let touched = compared.modified.union(&compared.added);
    if !force {
        let mut conflicts: Vec<(String, FieldPath)> = Vec::new();
        for manager in managers.iter() {
            let disputed = manager.fields.intersection(&touched);
            conflicts.extend(disputed.iter().map(|path| (manager.name.clone(), path)));
        }
        if !conflicts.is_empty() {
            conflicts.sort();
            conflicts.dedup();
            return Err(ApplyError::Conflicts(conflicts));
        }
    }
    remove_lost_fields(managers, compared);
    Ok(())
}

fn remove_lost_fields(managers: &mut Vec<FieldManager>, compared: &FieldComparison) {
    let lost = compared.modified.union(&compared.added).union(&compared.removed);
    if !lost.is_empty() {
        for manager in managers.iter_mut() {
            manager.fields = manager.fields.difference(&lost);
        }
    }
    managers.retain(|manager| !manager.fields.is_empty());
}

/// Gives what changed to the writer, together with what it owned before.
fn record_update(managers: &mut Vec<FieldManager>, mut entry: FieldManager, compared: &FieldComparison, now: &str) {
    entry.fields = compared.modified.union(&compared.added).difference(&NEVER_OWNED);
    if entry.fields.is_empty() {
        return;
    }
    if let Some(at) = managers.iter().position(|manager| manager.identity() == entry.identity()) {
        let before = managers.remove(at);
        entry.fields = entry.fields.union(&before.fields);
    }
    entry.time = Some(now.to_owned());
    managers.push(entry);
}

/// Folds the oldest Update entries of each version into one, until there are few enough.
fn fold_ancient(managers: &mut Vec<FieldManager>) {
    let updaters =
        |managers: &[FieldManager]| managers.iter().filter(|m| m.operation == ManagerOperation::Update).count();
    while updaters(managers) > MAX_UPDATE_ENTRIES {
        let mut oldest: Vec<usize> = (0..managers.len()).collect();
        oldest.retain(|at| managers.get(*at).is_some_and(|m| m.operation == ManagerOperation::Update));
        oldest.sort_by(|a, b| {
            let key = |at: &usize| managers.get(*at).map(|m| (m.time.clone(), m.name.clone()));
            key(a).cmp(&key(b))
        });
        // The oldest two of one version become one entry, with the time of the younger.
        let pair = oldest.iter().enumerate().find_map(|(position, first)| {
            let version = &managers.get(*first)?.api_version;
            let second = oldest
                .iter()
                .skip(position + 1)
                .find(|at| managers.get(**at).is_some_and(|manager| manager.api_version == *version))?;
            Some((*first, *second))
        });
        let Some((first, second)) = pair else { return };
        let Some(first_fields) = managers.get(first).map(|manager| manager.fields.clone()) else { return };
        if let Some(kept) = managers.get_mut(second) {
            kept.fields = kept.fields.union(&first_fields);
            kept.name = ANCIENT_CHANGES_MANAGER.to_owned();
            kept.subresource = None;
        }
        managers.remove(first);
    }
}

/// Puts back what the endpoint cannot write.
fn restore_unwritable_fields(
    schema: &StructuralSchema,
    status: bool,
    live: Option<&Value>,
    mut object: Value,
) -> Value {
    let live_status = live.and_then(|live| live.get("status"));
    if status {
        let written = object.get("status").cloned();
        let mut kept = live.cloned().unwrap_or_else(|| object.clone());
        set_status(&mut kept, written);
        return kept;
    }
    if schema.status_subresource {
        set_status(&mut object, live_status.cloned());
    }
    object
}

fn set_status(object: &mut Value, status: Option<Value>) {
    if let Some(map) = object.as_object_mut() {
        match status {
            Some(status) => drop(map.insert("status".to_owned(), status)),
            None => drop(map.remove("status")),
        }
    }
}

/// Adds `managedFields`, or gives back the live object when nothing but times would differ.
fn finish_apply(live: Option<&Value>, mut object: Value, managers: Vec<FieldManager>) -> ApplyResult {
    if let Some(live) = live {
        let same_owners = read_managers(live).is_ok_and(|before| equal_except_times(before, &managers));
        if same_owners && values_equal(&without_managers(live), &object) {
            return ApplyResult { object: live.clone(), changed: false };
        }
    }
    if !managers.is_empty()
        && let Some(map) = object.as_object_mut()
        && let Some(metadata) = map.entry("metadata").or_insert_with(|| json!({})).as_object_mut()
    {
        metadata.insert("managedFields".to_owned(), write_managers(managers));
    }
    ApplyResult { object, changed: true }
}

fn equal_except_times(mut before: Vec<FieldManager>, after: &[FieldManager]) -> bool {
    let mut after = after.to_vec();
    for manager in before.iter_mut().chain(&mut after) {
        manager.time = None;
    }
    let order = |a: &FieldManager, b: &FieldManager| (a.identity(), &a.fields).cmp(&(b.identity(), &b.fields));
    before.sort_by(order);
    after.sort_by(order);
    before == after
}

fn without_managers(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

/// An object of the same kind with nothing in it.
fn empty_object_like(object: &Value) -> Value {
    let named = ["apiVersion", "kind"].into_iter();
    let fields: Map<String, Value> =
        named.filter_map(|name| Some((name.to_owned(), object.get(name)?.clone()))).collect();
    Value::Object(fields)
}
