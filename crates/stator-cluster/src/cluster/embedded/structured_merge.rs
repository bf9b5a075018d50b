//! The field module's apply, update, defaults and validation, in this module's errors.

use super::layout;
use crate::cluster::api_conventions::format_time;
use crate::cluster::{ClusterError, FieldConflict, InvalidField};
use serde_json::{Value, json};
use stator_core::dynamo::kinds::{CLAIM, CONFIG_MAP, JOB, ObjectKind, RESOURCE_CLAIM_TEMPLATE, SERVICE};
use stator_core::dynamo::release::{Definitions, RESTART_UNSET_ON_CREATE, Release};
use stator_core::fields::{self, ApplyError, ApplyInput, StructuralSchema};
use stator_core::object::{Object, ObjectRef};
use std::path::Path;
use std::sync::LazyLock;

/// The schema of a kind that comes without a bundled one: anything goes, and status is a subresource.
static PERMISSIVE_SCHEMA: LazyLock<StructuralSchema> = LazyLock::new(|| {
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
    StructuralSchema::new(&kind.api_version(), kind.kind, &schema, true)
});

/// The schema of a kind in the release that is simulated.
pub(super) fn schema_of(kind: &ObjectKind, release: Release) -> &'static StructuralSchema {
    Definitions::of_release(release).schema(&kind.api_version(), kind.kind).unwrap_or(&PERMISSIVE_SCHEMA)
}

/// Whether the API server counts generations of a kind: of custom resources, and of few of its own.
pub(super) fn has_generation(kind: &ObjectKind) -> bool {
    ![CLAIM, CONFIG_MAP, SERVICE, RESOURCE_CLAIM_TEMPLATE].contains(kind)
}

/// One server-side apply, as it reaches the field module.
pub(super) struct ServerSideApply<'a> {
    pub(super) release: Release,
    pub(super) kind: &'a ObjectKind,
    pub(super) live: Option<&'a Value>,
    pub(super) config: &'a Value,
    pub(super) manager: &'a str,
    pub(super) force: bool,
    pub(super) part: ObjectPart,
    pub(super) now: jiff::Timestamp,
}

/// Merges, and settles who owns what. An object that comes back equal to the live one is unchanged.
pub(super) fn apply(apply: &ServerSideApply<'_>) -> Result<Value, ApplyError> {
    let now = format_time(apply.now);
    let input = ApplyInput {
        schema: schema_of(apply.kind, apply.release),
        live: apply.live,
        config: apply.config,
        manager: apply.manager,
        force: apply.force,
        status: apply.part == ObjectPart::Status,
        now: &now,
    };
    fields::apply_as_api_server(&input).map(|result| result.object)
}

/// The cluster's error for an apply that did not happen.
pub(super) fn apply_error(root: &Path, object: &ObjectRef, fault: ApplyError) -> ClusterError {
    let object = object.clone();
    match fault {
        ApplyError::Conflicts(list) => ClusterError::Conflict {
            object,
            conflicts: list.into_iter().map(|(manager, path)| FieldConflict { manager, path }).collect(),
        },
        ApplyError::TypeErrors(faults) => {
            let cause = |fault: fields::TypingError| InvalidField { path: fault.path, message: fault.message };
            ClusterError::Invalid { object, causes: faults.into_iter().map(cause).collect() }
        }
        ApplyError::MalformedManagedFields(fault) => ClusterError::Damaged {
            path: layout::path_of(&object)
                .map_or_else(|_| object.to_string(), |at| root.join(at).display().to_string()),
            message: fault.to_string(),
        },
        ApplyError::ObjectNotFound => ClusterError::Precondition {
            object,
            message: "the object does not exist, so its status cannot be written".to_owned(),
        },
    }
}

/// Records a plain write.
pub(super) fn track_managers(
    schema: &StructuralSchema,
    old: Option<&Value>,
    mut new: Value,
    manager: &str,
    part: ObjectPart,
    now: jiff::Timestamp,
) -> Value {
    // What is left out when it is written is nobody's change.
    fields::tidy_metadata(&mut new);
    fields::update(schema, old.unwrap_or(&Value::Null), new, manager, part == ObjectPart::Status, &format_time(now))
}

/// Fills in what the schema says.
pub(super) fn fill_defaults(kind: &ObjectKind, release: Release, value: &mut Value) {
    fields::apply_defaults_after_merge(schema_of(kind, release), value);
    if *kind == SERVICE {
        super::built_in_kinds::fill_service(value);
    }
}

/// What the schema and its rules refuse, but for the rules with these messages.
pub(super) fn validate(
    kind: &ObjectKind,
    release: Release,
    value: &Value,
    old: Option<&Value>,
    except: &[&str],
) -> Vec<InvalidField> {
    let faults = fields::violations_except(schema_of(kind, release), value, old, except).into_iter();
    let mut causes: Vec<InvalidField> =
        faults.map(|fault| InvalidField { path: fault.path, message: fault.message }).collect();
    if *kind == CLAIM {
        causes.extend(super::claim_validation::validate(value, old));
    }
    if *kind == JOB {
        causes.extend(super::job_validation::validate(value, old));
    }
    if *kind == SERVICE {
        causes.extend(super::built_in_kinds::validate_service(value));
    }
    if *kind == RESOURCE_CLAIM_TEMPLATE {
        causes.extend(super::built_in_kinds::validate_claim_template(value, old));
    }
    if *kind == CONFIG_MAP {
        causes.extend(super::config_map_validation::validate(value, old));
    }
    causes
}

/// Whether an object that a person edited may count as live; the error says what is wrong. A field that the release does
/// not know is kept and shown: it may be of another one.
pub(super) fn check_manual_edit(kind: &ObjectKind, object: &Object, release: Release) -> Result<(), String> {
    fields::managers(object).map_err(|fault| format!("`metadata.managedFields` is damaged: {fault}"))?;
    // What is there may have been made without a restart.
    let faults = validate(kind, release, object.value(), None, &[RESTART_UNSET_ON_CREATE]);
    if faults.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = faults.into_iter().map(|fault| format!("{}: {}", fault.path, fault.message)).collect();
    Err(format!("was edited into something that the schema refuses: {}", list.join("; ")))
}

/// Whether anything outside `metadata` and `status` differs. Numbers count by value: an API server writes `1.0` as `1`,
/// and reads that back.
pub(super) fn main_differs(old: &Value, new: &Value) -> bool {
    fn main(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
        value.as_object().into_iter().flatten().filter(|(key, _)| *key != "metadata" && *key != "status")
    }
    let (old, new): (Vec<_>, Vec<_>) = (main(old).collect(), main(new).collect());
    old.len() != new.len() || old.iter().zip(&new).any(|(a, b)| a.0 != b.0 || !fields::values_equal(a.1, b.1))
}

/// Which half of an object an update writes; the other half of what it returns is ignored, as an API server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectPart {
    /// Everything but the status.
    Main,
    /// The status subresource.
    Status,
}
