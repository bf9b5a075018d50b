//! Dynamo's admission, judged before anything is sent, and pointed at the line of the intent.

use super::{RenderContext, overrides};
use serde_json::Value;
use stator_core::dynamo::admission::{self, AdmissionFinding, AdmissionOutcome, ImageTagFault, rules};
use stator_core::dynamo::deprecations::{self, Deprecation};
use stator_core::dynamo::kinds;
use stator_core::finding::{Finding, Location};
use stator_core::object::{FieldPath, Object, PathSegment};

/// Turns each refusal into a finding at the field of the intent that made it.
pub(super) fn check_admission(context: &mut RenderContext<'_>, object: &Object, origin: &str) {
    for refusal in admission::check_object(object, &context.target.platform) {
        let path =
            written_path(context, object, &refusal.path).unwrap_or_else(|| intent_path(context, &refusal.path, origin));
        if is_already_reported(context, &refusal, &path) {
            continue;
        }
        let location = finding_location(context, object, &path);
        context.findings.push(match refusal.outcome {
            AdmissionOutcome::Denied => Finding::error(refusal.rule, location, refusal.message, refusal.help),
            AdmissionOutcome::DependsOnCluster(_) | AdmissionOutcome::WouldFail => {
                Finding::warning(refusal.rule, location, refusal.message, refusal.help)
            }
        });
    }
    for found in deprecations::find_deprecated(object.value()) {
        let location = finding_location(context, object, &intent_path(context, &found.path, origin));
        let Deprecation { replacement: instead, .. } = found.deprecation;
        context.findings.push(Finding::warning(rules::DEPRECATED, location, found.deprecation.message(), *instead));
    }
}

/// What the profiler chose stands in the lock, not in the intent.
fn finding_location(context: &RenderContext<'_>, object: &Object, path: &str) -> Location {
    let locked = context.intent.lock.as_ref().filter(|_| object.kind() == kinds::GRAPH.kind);
    locked.map_or_else(|| context.intent.origins.locate(path), |lock| lock.location.clone())
}

/// Whether the same has been said already: by the intent's own rules, of the same line, or by rendering.
fn is_already_reported(context: &RenderContext<'_>, refusal: &AdmissionFinding, path: &str) -> bool {
    let written = |path: &str| context.intent.origins.locate_exact(path).is_some();
    if refusal.rule == rules::INJECTED_ENV {
        let name = match refusal.path.0.last() {
            Some(PathSegment::Key(keys)) => keys.get("name").map(ToString::to_string).unwrap_or_default(),
            Some(PathSegment::Field(_) | PathSegment::Item(_) | PathSegment::Index(_)) | None => String::new(),
        };
        return written(&format!("{path}.{name}")) || written(&format!("spec.env.{name}"));
    }
    if refusal.rule == rules::IMAGE_MISSING {
        return context.findings.iter().any(|finding| finding.rule == crate::intent::rules::MODEL_IMAGE);
    }
    refusal.image_tag == Some(ImageTagFault::Latest) && written(path)
}

/// The very field of an override or a template that a field of a rendered object was written in.
fn written_path(context: &RenderContext<'_>, object: &Object, path: &FieldPath) -> Option<String> {
    let spec = &context.intent.model.spec;
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
    let base = component_base(context, &name);
    let model = serde_json::to_value(&context.intent.model).ok()?;
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
fn intent_path(context: &RenderContext<'_>, path: &FieldPath, origin: &str) -> String {
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
        ["spec", "restart", ..] => "spec.restart".to_owned(),
        ["spec", "components", below @ ..] => component_path(context, path, below).unwrap_or_else(|| origin.to_owned()),
        _ => origin.to_owned(),
    }
}

fn component_path(context: &RenderContext<'_>, path: &FieldPath, below: &[&str]) -> Option<String> {
    let spec = &context.intent.model.spec;
    let name = path.0.get(2).and_then(|step| match step {
        PathSegment::Key(keys) => keys.get("name").map(ToString::to_string),
        PathSegment::Field(_) | PathSegment::Item(_) | PathSegment::Index(_) => None,
    })?;
    let base = component_base(context, &name);
    let field = match below {
        ["sharedMemorySize", ..] => "sharedMemory",
        ["multinode", ..] => "nodes",
        ["eppConfig", ..] => "config",
        ["replicas"] => "replicas",
        ["type"] => "type",
        ["podTemplate", .., "image"] => {
            // The image is the component's own, or the model's.
            let own = format!("{base}.image");
            if context.intent.origins.locate_exact(&own).is_some() {
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
fn component_base(context: &RenderContext<'_>, name: &str) -> String {
    let further = context.intent.model.spec.components.keys().any(|component| component.as_str() == name);
    let role =
        context.intent.model.spec.serving.as_ref().and_then(|serving| serving.field_of_component(name)).unwrap_or(name);
    if further { format!("spec.components.{name}") } else { format!("spec.serving.{role}") }
}
