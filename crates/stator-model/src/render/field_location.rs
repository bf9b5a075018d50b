//! Where in an intent a field of a rendered object was written.

use super::overrides;
use crate::intent::Intent;
use serde_json::Value;
use stator_core::dynamo::kinds;
use stator_core::finding::Location;
use stator_core::object::{FieldPath, Object, PathSegment};

/// The place of the field of the intent that a field of a rendered object comes from, or of the nearest one that is known.
pub(crate) fn locate_field(intent: &Intent, object: &Object, path: &FieldPath) -> Location {
    let is_same =
        |other: &&crate::intent::ManifestObject| other.kind.kind == object.kind() && other.name == object.name();
    if let Some(manifest) = intent.manifests.iter().find(is_same) {
        return manifest.locate(&intent.origins, &path.to_string());
    }
    let path = place_of(intent, object, path, object_origin(intent, object));
    finding_location(intent, object, &path)
}

/// What of an intent an object is rendered from.
fn object_origin(intent: &Intent, object: &Object) -> &'static str {
    let spec = &intent.model.spec;
    let kind = object.kind();
    if kind == kinds::CLAIM.kind {
        let is_cache = spec.cache.as_ref().is_some_and(|cache| cache.claim.as_str() == object.name());
        if is_cache { "spec.cache.size" } else { "spec.weights.claim.size" }
    } else if kind == kinds::CONFIG_MAP.kind {
        "spec.files"
    } else if kind == kinds::JOB.kind {
        "spec.weights"
    } else if kind == kinds::ADAPTER.kind {
        "spec.adapters"
    } else if spec.sla.is_some() {
        "spec.sla"
    } else {
        "spec"
    }
}

/// What the profiler chose stands in the lock, not in the intent.
pub(super) fn finding_location(intent: &Intent, object: &Object, path: &str) -> Location {
    let locked = intent.lock.as_ref().filter(|_| object.kind() == kinds::GRAPH.kind);
    locked.map_or_else(|| intent.origins.locate(path), |lock| lock.location.clone())
}

/// The path in the intent of a field of a rendered object, or of the nearest place above it that is known; `origin` where
/// that is what the object comes from.
pub(super) fn place_of(intent: &Intent, object: &Object, path: &FieldPath, origin: &str) -> String {
    if let Some(written) = written_path(intent, object, path) {
        return written;
    }
    let known = intent_path(intent, path, origin);
    // What is missing from a map of an override is missing there.
    let is_component = ["spec.serving.", "spec.components."]
        .iter()
        .any(|above| known.strip_prefix(above).is_some_and(|name| !name.contains('.')));
    let above = path.0.split_last().map(|(_, above)| FieldPath(above.to_vec()));
    let overridden = above.filter(|above| is_component && above.0.len() > 3);
    overridden.and_then(|above| written_path(intent, object, &above)).unwrap_or(known)
}

/// The very field of an override or a template that a field of a rendered object was written in.
pub(super) fn written_path(intent: &Intent, object: &Object, path: &FieldPath) -> Option<String> {
    let spec = &intent.model.spec;
    for (index, change) in spec.overrides.iter().enumerate().rev() {
        let named = change.target.name.as_deref().is_none_or(|name| name == object.name());
        if named && overrides::target_kind(change.target.kind).kind == object.kind() {
            let found = path_below(change.merge.get(first_field(path)?)?, path.0.get(1..)?);
            if let Some(below) = found {
                return Some(format!("spec.overrides[{index}].merge.{}{below}", first_field(path)?));
            }
        }
    }
    let [
        PathSegment::Field(_),
        PathSegment::Field(_),
        PathSegment::Key(keys),
        PathSegment::Field(template),
        below @ ..,
    ] = path.0.as_slice()
    else {
        return None;
    };
    let name = keys.get("name").filter(|_| template == "podTemplate")?.to_string();
    let base = component_base(intent, &name);
    let model = serde_json::to_value(&intent.model).ok()?;
    let written = base.split('.').chain(["template"]).try_fold(&model, |value, step| value.get(step))?;
    path_below(written, below).map(|below| format!("{base}.template{below}"))
}

fn first_field(path: &FieldPath) -> Option<&str> {
    match path.0.first() {
        Some(PathSegment::Field(name)) => Some(name),
        Some(PathSegment::Key(_) | PathSegment::Item(_) | PathSegment::Index(_)) | None => None,
    }
}

/// The path of a field below a value as intents are pointed at: `.spec.containers[0].image`. `None` when the value has
/// no such field.
fn path_below(value: &Value, steps: &[PathSegment]) -> Option<String> {
    let mut at = value;
    let mut text = String::new();
    for step in steps {
        match step {
            PathSegment::Field(name) => {
                at = at.get(name)?;
                text.push('.');
                text.push_str(name);
            }
            PathSegment::Key(keys) => {
                let items = at.as_array()?;
                let fits = |item: &Value| keys.iter().all(|(key, wanted)| item.get(key) == Some(&wanted.value()));
                let index = items.iter().position(fits)?;
                at = items.get(index)?;
                text.push_str(&format!("[{index}]"));
            }
            PathSegment::Index(index) => {
                at = at.as_array()?.get(*index)?;
                text.push_str(&format!("[{index}]"));
            }
            PathSegment::Item(_) => return None,
        }
    }
    Some(text)
}

/// The dotted path in the intent that a field of a rendered object comes from; `origin` where no closer one is known.
pub(super) fn intent_path(intent: &Intent, path: &FieldPath, origin: &str) -> String {
    let fields: Vec<&str> = path
        .0
        .iter()
        .filter_map(|step| match step {
            PathSegment::Field(name) => Some(name.as_str()),
            PathSegment::Key(_) | PathSegment::Item(_) | PathSegment::Index(_) => None,
        })
        .collect();
    match fields.as_slice() {
        ["metadata", "name", ..] => "metadata.name".to_owned(),
        ["metadata", "annotations", name] => format!("metadata.annotations.{name}"),
        ["spec", "priorityClassName"] => "spec.priorityClassName".to_owned(),
        ["spec", "runtimeVersionOverride"] => "spec.runtimeVersion".to_owned(),
        ["spec", "image"] => "spec.image".to_owned(),
        ["spec", "restart", ..] => "spec.restart".to_owned(),
        ["spec", "components", below @ ..] => component_path(intent, path, below).unwrap_or_else(|| origin.to_owned()),
        _ => origin.to_owned(),
    }
}

fn component_path(intent: &Intent, path: &FieldPath, below: &[&str]) -> Option<String> {
    let spec = &intent.model.spec;
    let name = path.0.get(2).and_then(|step| match step {
        PathSegment::Key(keys) => keys.get("name").map(ToString::to_string),
        PathSegment::Field(_) | PathSegment::Item(_) | PathSegment::Index(_) => None,
    })?;
    let base = component_base(intent, &name);
    let field = match below {
        ["sharedMemorySize", ..] => "sharedMemory",
        ["multinode", ..] => "nodes",
        ["eppConfig", ..] => "config",
        ["replicas"] => "replicas",
        ["minAvailable"] => "minAvailable",
        ["runtimeVersionOverride"] => {
            let own = format!("{base}.runtimeVersion");
            let is_own = intent.origins.locate_exact(&own).is_some();
            return Some(if is_own { own } else { "spec.runtimeVersion".to_owned() });
        }
        ["type"] => "type",
        ["podTemplate", .., "image"] => {
            // The image is the component's own, or the model's.
            let own = format!("{base}.image");
            if intent.origins.locate_exact(&own).is_some() {
                return Some(own);
            }
            return Some(if spec.image.is_some() { "spec.image" } else { "spec.runtime" }.to_owned());
        }
        ["podTemplate", .., "env"] => "env",
        ["podTemplate", .., "command"] => "command",
        ["podTemplate", .., "args"] => "args",
        ["podTemplate", ..] => "template",
        _ => return Some(base),
    };
    Some(format!("{base}.{field}"))
}

/// Where the intent has a component: among its further ones, or in `serving`.
fn component_base(intent: &Intent, name: &str) -> String {
    let further = intent.model.spec.components.keys().any(|component| component.as_str() == name);
    let role = intent.model.spec.serving.as_ref().and_then(|serving| serving.field_of_component(name)).unwrap_or(name);
    if further { format!("spec.components.{name}") } else { format!("spec.serving.{role}") }
}
