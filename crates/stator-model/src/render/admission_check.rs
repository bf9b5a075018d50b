//! Dynamo's admission, judged before anything is sent, and pointed at the line of the intent.

use super::field_location::{finding_location, intent_path, place_of, written_path};
use super::{RenderContext, RenderedText};
use crate::intent::Intent;
use serde_json::Value;
use stator_core::dynamo::admission::{self, AdmissionFinding, AdmissionOutcome, ImageTagFault, rules};
use stator_core::dynamo::deprecations::{self, DeprecatedItem, DeprecatedUsage, Deprecation};
use stator_core::finding::Finding;
use stator_core::object::{FieldPath, Object, PathSegment};
use std::collections::BTreeMap;

/// Turns each refusal into a finding at the field of the intent that made it.
pub(super) fn check_admission(context: &mut RenderContext<'_>, object: &Object, origin: &str) {
    for refusal in admission::check_object(object, &context.target.platform) {
        // A plan leaves it out where it creates the graph.
        if refusal.rule == rules::RESTART_ON_CREATE {
            continue;
        }
        let intent = context.intent;
        let path = place_of(intent, object, &refusal.path, origin);
        if is_already_reported(context, &refusal, &path) {
            continue;
        }
        let location = finding_location(intent, object, &path);
        context.findings.push(match refusal.outcome {
            AdmissionOutcome::Denied => Finding::error(refusal.rule, location, refusal.message, refusal.help),
            AdmissionOutcome::DependsOnCluster(_) | AdmissionOutcome::WouldFail => {
                Finding::warning(refusal.rule, location, refusal.message, refusal.help)
            }
        });
    }
    for found in deprecations::find_deprecated(object.value(), context.target.platform.release()) {
        let path = usage_path(context.intent, object, &found, origin);
        let location = finding_location(context.intent, object, &path);
        let Deprecation { replacement: instead, .. } = found.deprecation;
        context.deprecated.push((location.clone(), found.deprecation));
        context.findings.push(Finding::warning(rules::DEPRECATED, location, found.deprecation.message(), *instead));
    }
}

/// Where an intent has what an object uses that is deprecated: the very variable or argument, if it is written as one.
fn usage_path(intent: &Intent, object: &Object, usage: &DeprecatedUsage, origin: &str) -> String {
    if let Some(written) = written_path(intent, object, &usage.path) {
        return written;
    }
    let path = intent_path(intent, &usage.path, origin);
    let is_written = |place: &String| intent.origins.locate_exact(place).is_some();
    let closer = match usage.deprecation.subject {
        DeprecatedItem::Variable(_) => {
            let name = item_name(&usage.path);
            let of_graph = intent.model.spec.graph_env.iter().position(|one| one.name.as_str() == name);
            let of_graph = of_graph.map(|index| format!("spec.graphEnv[{index}]"));
            let mut places = [format!("{path}.{name}"), format!("spec.env.{name}")].into_iter().chain(of_graph);
            places.find(is_written)
        }
        DeprecatedItem::Flag(flag) | DeprecatedItem::FlagValue(flag, _) => argument_path(intent, &path, flag),
        DeprecatedItem::Label(key) => Some(format!("metadata.labels.{key}")).filter(is_written),
        DeprecatedItem::Version(..) | DeprecatedItem::Field(..) | DeprecatedItem::Annotation(_) => None,
    };
    closer.unwrap_or(path)
}

/// The item of a list of arguments that gives a flag.
fn argument_path(intent: &Intent, list: &str, flag: &str) -> Option<String> {
    let model = serde_json::to_value(&intent.model).ok()?;
    let arguments = list.split('.').try_fold(&model, |value, step| value.get(step))?.as_array()?;
    let is_flag = |word: &str| word.split('=').next() == Some(flag);
    let gives = |line: &Value| line.as_str().is_some_and(|line| line.split_whitespace().any(is_flag));
    arguments.iter().position(gives).map(|index| format!("{list}[{index}]"))
}

/// The name of the list item that a path ends at.
fn item_name(path: &FieldPath) -> String {
    match path.0.last() {
        Some(PathSegment::Key(keys)) => keys.get("name").map(ToString::to_string).unwrap_or_default(),
        Some(PathSegment::Field(_) | PathSegment::Item(_) | PathSegment::Index(_)) | None => String::new(),
    }
}

/// How often models use what is deprecated, by the release that removes it.
pub fn count_deprecated(models: &[RenderedText]) -> BTreeMap<Option<&'static str>, usize> {
    let mut counts = BTreeMap::new();
    for (_, deprecation) in models.iter().flat_map(|model| &model.deprecated) {
        *counts.entry(deprecation.removed_in).or_default() += 1;
    }
    counts
}

/// Whether the same has been said already: by the intent's own rules, of the same line, or by rendering.
fn is_already_reported(context: &RenderContext<'_>, refusal: &AdmissionFinding, path: &str) -> bool {
    let written = |path: &str| context.intent.origins.locate_exact(path).is_some();
    if refusal.rule == rules::INJECTED_ENV {
        let name = item_name(&refusal.path);
        return written(&format!("{path}.{name}")) || written(&format!("spec.env.{name}"));
    }
    if refusal.rule == rules::IMAGE_MISSING {
        return context.findings.iter().any(|finding| finding.rule == crate::intent::rules::MODEL_IMAGE);
    }
    // Where the version is given beside the image, a release that asks for it finds it.
    let version = path.strip_suffix(".image").map(|base| {
        let component = base.split_once(".template.").map_or(base, |(component, _)| component);
        format!("{component}.runtimeVersion")
    });
    refusal.image_tag.is_some()
        && refusal.outcome == AdmissionOutcome::WouldFail
        && ((refusal.image_tag == Some(ImageTagFault::Latest) && written(path))
            || version.is_some_and(|version| written(&version)))
}
