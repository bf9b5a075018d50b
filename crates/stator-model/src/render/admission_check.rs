//! Dynamo's admission, judged before anything is sent, and pointed at the line of the intent.

use super::RenderContext;
use super::field_location::{finding_location, intent_path, written_path};
use stator_core::dynamo::admission::{self, AdmissionFinding, AdmissionOutcome, ImageTagFault, rules};
use stator_core::dynamo::deprecations::{self, Deprecation};
use stator_core::finding::Finding;
use stator_core::object::{Object, PathSegment};

/// Turns each refusal into a finding at the field of the intent that made it.
pub(super) fn check_admission(context: &mut RenderContext<'_>, object: &Object, origin: &str) {
    for refusal in admission::check_object(object, &context.target.platform) {
        // A plan leaves it out where it creates the graph.
        if refusal.rule == rules::RESTART_ON_CREATE {
            continue;
        }
        let intent = context.intent;
        let path =
            written_path(intent, object, &refusal.path).unwrap_or_else(|| intent_path(intent, &refusal.path, origin));
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
        let location = finding_location(context.intent, object, &intent_path(context.intent, &found.path, origin));
        let Deprecation { replacement: instead, .. } = found.deprecation;
        context.deprecated.push((location.clone(), found.deprecation));
        context.findings.push(Finding::warning(rules::DEPRECATED, location, found.deprecation.message(), *instead));
    }
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
    // Where the version is given beside the image, a release that asks for it finds it.
    let version = path.strip_suffix(".image").map(|base| format!("{base}.runtimeVersion"));
    refusal.image_tag.is_some()
        && refusal.outcome == AdmissionOutcome::WouldFail
        && ((refusal.image_tag == Some(ImageTagFault::Latest) && written(path))
            || version.is_some_and(|version| written(&version)))
}
