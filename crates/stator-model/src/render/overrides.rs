//! `spec.overrides`: maps merged over rendered objects, at the very end. They may change anything but what identifies
//! an object and stator's labels.

use super::{ObjectDraft, RenderContext, strategic_merge};
use crate::intent::model::{OverrideKind, STATOR_LABELS, is_identity_path};
use crate::intent::scalar::RemovedPath;
use serde_json::Value;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::object::FieldPath;

pub(super) fn apply_overrides(context: &mut RenderContext<'_>, drafts: &mut [ObjectDraft]) {
    let intent = context.intent;
    for (index, change) in intent.model.spec.overrides.iter().enumerate() {
        let path = format!("spec.overrides[{index}]");
        let kind = target_kind(change.target.kind);
        for forbidden in ["/apiVersion", "/kind", "/status", "/metadata/name", "/metadata/namespace"] {
            if lookup_pointer(&change.merge, forbidden).is_some() {
                let field = forbidden[1..].replace('/', ".");
                context.error(
                    crate::intent::rules::MODEL_OVERRIDE,
                    &format!("{path}.merge.{field}"),
                    format!("an override cannot set `{field}`: it identifies the object, or stator sets it"),
                    "remove it from `merge`",
                );
            }
        }
        if let Some(labels) = lookup_pointer(&change.merge, "/metadata/labels").and_then(Value::as_object)
            && let Some(label) = STATOR_LABELS.into_iter().find(|label| labels.contains_key(*label))
        {
            context.error(
                crate::intent::rules::MODEL_OVERRIDE,
                &format!("{path}.merge.metadata.labels"),
                format!("an override cannot set label `{label}`: stator finds its objects by it"),
                "remove it from `merge`",
            );
        }
        let mut hit = false;
        for draft in drafts.iter_mut().filter(|draft| draft.kind == kind) {
            let name = draft.value.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str);
            if change.target.name.as_deref().is_none_or(|wanted| Some(wanted) == name) {
                hit = true;
                remove_fields(context, draft, &change.remove, &path);
                strategic_merge::merge_maps(&mut draft.value, Some(&change.merge));
            }
        }
        // A model by target has its graph while it is locked, and its request while it is not.
        let has = |kind| drafts.iter().any(|draft| draft.kind == kind);
        let while_unlocked = kind == kinds::REQUEST && has(kinds::GRAPH) && intent.lock.is_some();
        if !hit && kind == kinds::GRAPH && has(kinds::REQUEST) {
            context.warning(
                crate::intent::rules::MODEL_IGNORED,
                &format!("{path}.target"),
                "an override of the graph has no effect before the profiler's result is locked: Dynamo writes the \
                 graph",
                "Run `stator lock` when the request has its result.",
            );
        } else if !hit && !while_unlocked {
            let named = change.target.name.as_ref().map(|name| format!(" named `{name}`")).unwrap_or_default();
            context.error(
                crate::intent::rules::MODEL_OVERRIDE,
                &format!("{path}.target"),
                format!("this model renders no {}{named}", kind.kind),
                "run `stator render` to see what it renders",
            );
        }
    }
}

/// Removes fields. One that is not there is reported: a mistyped path would otherwise keep what was to go. Paths that are none,
/// or that no override may remove, are reported where the intent is read.
fn remove_fields(context: &mut RenderContext<'_>, draft: &mut ObjectDraft, paths: &[RemovedPath], origin: &str) {
    let mut value = Value::Object(std::mem::take(&mut draft.value));
    for (index, text) in paths.iter().enumerate() {
        let Ok(path) = text.as_str().parse::<FieldPath>() else { continue };
        if !is_identity_path(&path) && !path.remove_from(&mut value) {
            context.warning(
                crate::intent::rules::MODEL_OVERRIDE,
                &format!("{origin}.remove[{index}]"),
                format!("there is no `{text}` to remove"),
                "run `stator render` to see the fields, or drop it from `remove`",
            );
        }
    }
    if let Value::Object(map) = value {
        draft.value = map;
    }
}

fn lookup_pointer<'a>(map: &'a serde_json::Map<String, Value>, path: &str) -> Option<&'a Value> {
    let mut steps = path.split('/').skip(1);
    let first = map.get(steps.next()?)?;
    steps.try_fold(first, |value, step| value.get(step))
}

pub(super) fn target_kind(kind: OverrideKind) -> ObjectKind {
    match kind {
        OverrideKind::DynamoGraphDeployment => kinds::GRAPH,
        OverrideKind::DynamoGraphDeploymentRequest => kinds::REQUEST,
        OverrideKind::DynamoModel => kinds::ADAPTER,
        OverrideKind::PersistentVolumeClaim => kinds::CLAIM,
        OverrideKind::Job => kinds::JOB,
    }
}
