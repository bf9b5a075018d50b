//! The field room's apply, update, defaults and validation, in this room's errors.

use super::{Part, layout};
use crate::cluster::{ClusterError, FieldConflict, InvalidField};
use serde_json::{Value, json};
use stator_core::dynamo::kinds::{CLAIM, Kind};
use stator_core::fields::{self, ApplyFault, ApplyInput, Schema};
use stator_core::object::{FieldPath, Object, ObjectRef};
use std::path::Path;
use std::sync::LazyLock;

/// The schema of a kind that comes without a bundled one: anything goes, and status is a subresource.
static OPEN: LazyLock<Schema> = LazyLock::new(|| {
    let schema = json!({
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-map-type": "atomic"},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-map-type": "atomic"},
        },
    });
    let kind = stator_core::dynamo::kinds::RECORD;
    Schema::new(&kind.api_version(), kind.kind, &schema, true)
});

fn schema_of(kind: &Kind) -> &'static Schema {
    fields::schema_of(&kind.api_version(), kind.kind).unwrap_or(&OPEN)
}

/// RFC 3339 with whole seconds, as the API server writes times.
pub(super) fn time(now: jiff::Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Whether the API server counts generations of a kind: of custom resources, not of claims.
pub(super) fn has_generation(kind: &Kind) -> bool {
    *kind != CLAIM
}

/// One server-side apply, as it reaches the field room.
pub(super) struct Apply<'a> {
    pub(super) kind: &'a Kind,
    pub(super) live: Option<&'a Value>,
    pub(super) config: &'a Value,
    pub(super) manager: &'a str,
    pub(super) force: bool,
    pub(super) part: Part,
    pub(super) now: jiff::Timestamp,
}

/// Merges, and settles who owns what. An object that comes back equal to the live one is unchanged.
pub(super) fn apply(apply: &Apply<'_>) -> Result<Value, ApplyFault> {
    let now = time(apply.now);
    let input = ApplyInput {
        schema: schema_of(apply.kind),
        live: apply.live,
        config: apply.config,
        manager: apply.manager,
        force: apply.force,
        status: apply.part == Part::Status,
        now: &now,
    };
    fields::serve(&input).map(|result| result.object)
}

/// The cluster's error for an apply that did not happen.
pub(super) fn error(root: &Path, object: &ObjectRef, fault: ApplyFault) -> ClusterError {
    let object = object.clone();
    match fault {
        ApplyFault::Conflicts(list) => ClusterError::Conflict {
            object,
            conflicts: list.into_iter().map(|(manager, path)| FieldConflict { manager, path }).collect(),
        },
        ApplyFault::Untyped(faults) => {
            let cause = |fault: fields::TypingFault| InvalidField { path: fault.path, message: fault.message };
            ClusterError::Invalid { object, causes: faults.into_iter().map(cause).collect() }
        }
        ApplyFault::Damaged(fault) => ClusterError::Damaged {
            path: layout::path_of(&object)
                .map_or_else(|_| object.to_string(), |at| root.join(at).display().to_string()),
            message: fault.to_string(),
        },
        ApplyFault::Absent => {
            ClusterError::Precondition { object, message: "there is no such object to write the status of".to_owned() }
        }
    }
}

/// Records a plain write.
pub(super) fn track(
    kind: &Kind,
    old: Option<&Value>,
    mut new: Value,
    manager: &str,
    part: Part,
    now: jiff::Timestamp,
) -> Value {
    // What is left out when it is written is nobody's change.
    fields::tidy_metadata(&mut new);
    fields::update(schema_of(kind), old.unwrap_or(&Value::Null), new, manager, part == Part::Status, &time(now))
}

/// Fills in what the schema says.
pub(super) fn default(kind: &Kind, value: &mut Value) {
    fields::default_merged(schema_of(kind), value);
}

/// What the schema and its rules refuse.
pub(super) fn validate(kind: &Kind, value: &Value, old: Option<&Value>) -> Vec<InvalidField> {
    let faults = fields::validate(schema_of(kind), value, old);
    let mut causes: Vec<InvalidField> =
        faults.into_iter().map(|(path, message)| InvalidField { path, message }).collect();
    if *kind == CLAIM {
        causes.extend(super::claim::validate(value, old));
    }
    causes
}

/// Whether an object that a person edited may count as live; the error says what is wrong.
pub(super) fn by_hand(kind: &Kind, object: &Object) -> Result<(), String> {
    fields::managers(object).map_err(|fault| format!("`metadata.managedFields` is damaged: {fault}"))?;
    let undeclared = fields::undeclared(schema_of(kind), object.value()).into_iter();
    let mut faults: Vec<(FieldPath, String)> =
        undeclared.map(|path| (path, "field not declared in schema".to_owned())).collect();
    faults.extend(validate(kind, object.value(), None).into_iter().map(|cause| (cause.path, cause.message)));
    if faults.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = faults.into_iter().map(|(path, message)| format!("{path}: {message}")).collect();
    Err(format!("was edited into something that the schema refuses: {}", list.join("; ")))
}

/// Whether anything outside `metadata` and `status` differs. Numbers count by value: an API server writes `1.0` as `1`,
/// and reads that back.
pub(super) fn main_differs(old: &Value, new: &Value) -> bool {
    fn main(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
        value.as_object().into_iter().flatten().filter(|(key, _)| *key != "metadata" && *key != "status")
    }
    let (old, new): (Vec<_>, Vec<_>) = (main(old).collect(), main(new).collect());
    old.len() != new.len() || old.iter().zip(&new).any(|(a, b)| a.0 != b.0 || !fields::same(a.1, b.1))
}
