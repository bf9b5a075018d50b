//! Dynamo's admission, judged before anything is sent, and pointed at the line of the intent.

use super::{Context, overrides};
use serde_json::Value;
use stator_core::dynamo::admission::{self, Refusal, Weight, rules};
use stator_core::dynamo::deprecations::{self, Deprecation};
use stator_core::dynamo::kinds;
use stator_core::finding::{Finding, Location};
use stator_core::object::{FieldPath, Object, Segment};

/// Turns each refusal into a finding at the field of the intent that made it.
pub(super) fn judge(context: &mut Context<'_>, object: &Object, origin: &str) {
    for refusal in admission::check(object, &context.target.platform) {
        let path =
            written_in(context, object, &refusal.path).unwrap_or_else(|| intent_path(context, &refusal.path, origin));
        if told(context, &refusal, &path) {
            continue;
        }
        let location = locate(context, object, &path);
        context.findings.push(match refusal.weight {
            Weight::Refused => Finding::error(refusal.rule, location, refusal.message, refusal.help),
            Weight::Depends(_) | Weight::WouldFail => {
                Finding::warning(refusal.rule, location, refusal.message, refusal.help)
            }
        });
    }
    for found in deprecations::uses(object.value()) {
        let location = locate(context, object, &intent_path(context, &found.path, origin));
        let Deprecation { instead, .. } = found.deprecation;
        context.findings.push(Finding::warning(rules::DEPRECATED, location, found.deprecation.message(), *instead));
    }
}

/// What the profiler chose stands in the lock, not in the intent.
fn locate(context: &Context<'_>, object: &Object, path: &str) -> Location {
    let locked = context.intent.lock.as_ref().filter(|_| object.kind() == kinds::GRAPH.kind);
    locked.map_or_else(|| context.intent.origins.locate(path), |lock| lock.location.clone())
}

/// Whether the same has been said already: by the intent's own rules, of the same line, or by rendering.
fn told(context: &Context<'_>, refusal: &Refusal, path: &str) -> bool {
    let written = |path: &str| context.intent.origins.written(path).is_some();
    if refusal.rule == rules::INJECTED_ENV {
        let name = match refusal.path.0.last() {
            Some(Segment::Key(keys)) => keys.get("name").map(ToString::to_string).unwrap_or_default(),
            Some(Segment::Field(_) | Segment::Item(_) | Segment::Index(_)) | None => String::new(),
        };
        return written(&format!("{path}.{name}")) || written(&format!("spec.env.{name}"));
    }
    if refusal.rule == rules::IMAGE_MISSING {
        return context.findings.iter().any(|finding| finding.rule == crate::intent::rules::MODEL_IMAGE);
    }
    refusal.rule == rules::IMAGE_VERSION && refusal.message.contains(":latest`") && written(path)
}

/// The very field of an override or a template that a field of a rendered object was written in.
fn written_in(context: &Context<'_>, object: &Object, path: &FieldPath) -> Option<String> {
    let spec = &context.intent.model.spec;
    for (index, change) in spec.overrides.iter().enumerate().rev() {
        let named = change.target.name.as_deref().is_none_or(|name| name == object.name());
        if named && overrides::kind_of(change.target.kind).kind == object.kind() {
            let found = field_of(change.merge.get(first(path)?)?, path.0.get(1..)?);
            if let Some(below) = found {
                return Some(format!("spec.overrides[{index}].merge.{}{below}", first(path)?));
            }
        }
    }
    let [Segment::Field(_), Segment::Field(_), Segment::Key(keys), Segment::Field(template), below @ ..] =
        path.0.as_slice()
    else {
        return None;
    };
    let name = keys.get("name").filter(|_| template == "podTemplate")?.to_string();
    let base = component_base(context, &name);
    let model = serde_json::to_value(&context.intent.model).ok()?;
    let written = base.split('.').chain(["template"]).try_fold(&model, |value, step| value.get(step))?;
    field_of(written, below).map(|below| format!("{base}.template{below}"))
}

fn first(path: &FieldPath) -> Option<&str> {
    match path.0.first() {
        Some(Segment::Field(name)) => Some(name),
        Some(Segment::Key(_) | Segment::Item(_) | Segment::Index(_)) | None => None,
    }
}

/// The path of a field below a value as intents are pointed at: `.spec.containers[0].image`. `None` when the value has
/// no such field.
fn field_of(value: &Value, steps: &[Segment]) -> Option<String> {
    let mut at = value;
    let mut text = String::new();
    for step in steps {
        match step {
            Segment::Field(name) => {
                at = at.get(name)?;
                text.push('.');
                text.push_str(name);
            }
            Segment::Key(keys) => {
                let items = at.as_array()?;
                let fits = |item: &Value| keys.iter().all(|(key, wanted)| item.get(key) == Some(&wanted.value()));
                let index = items.iter().position(fits)?;
                at = items.get(index)?;
                text.push_str(&format!("[{index}]"));
            }
            Segment::Index(index) => {
                at = at.as_array()?.get(*index)?;
                text.push_str(&format!("[{index}]"));
            }
            Segment::Item(_) => return None,
        }
    }
    Some(text)
}

/// The dotted path in the intent that a field of a rendered object comes from; `origin` where no closer one is known.
fn intent_path(context: &Context<'_>, path: &FieldPath, origin: &str) -> String {
    let fields: Vec<&str> = path
        .0
        .iter()
        .filter_map(|step| match step {
            Segment::Field(name) => Some(name.as_str()),
            Segment::Key(_) | Segment::Item(_) | Segment::Index(_) => None,
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

fn component_path(context: &Context<'_>, path: &FieldPath, below: &[&str]) -> Option<String> {
    let spec = &context.intent.model.spec;
    let name = path.0.get(2).and_then(|step| match step {
        Segment::Key(keys) => keys.get("name").map(ToString::to_string),
        Segment::Field(_) | Segment::Item(_) | Segment::Index(_) => None,
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
            if context.intent.origins.written(&own).is_some() {
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
fn component_base(context: &Context<'_>, name: &str) -> String {
    let further = context.intent.model.spec.components.keys().any(|component| component.as_str() == name);
    let role = context.intent.model.spec.serving.as_ref().and_then(|serving| serving.role_of(name)).unwrap_or(name);
    if further { format!("spec.components.{name}") } else { format!("spec.serving.{role}") }
}
