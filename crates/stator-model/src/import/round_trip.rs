//! The proof: the text is read as an intent, rendered, and held against the manifests.

use super::documents::ManifestDocument;
use super::{ImportedFile, completion, rules};
use crate::intent::{SourceFile, SourceTree, Workspace};
use crate::render;
use serde_json::Value;
use stator_core::dynamo::equivalence::{self, DocumentDifference};
use stator_core::dynamo::release::Release;
use stator_core::dynamo::{admission, kinds};
use stator_core::finding::Finding;
use stator_core::mask;
use stator_core::object::{FieldPath, Object};

/// What differs between the manifests and what the text renders to; no error when nothing does.
pub fn verify_manifests(
    text: &str,
    files: &[ImportedFile],
    targets: &[Value],
    root: &ManifestDocument,
    release: Release,
) -> Vec<Finding> {
    let number = root.number;
    let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), content: Ok(text.as_bytes().into()) };
    let beside = files.iter().map(|one| file(&one.path, &one.text)).collect();
    let workspace = Workspace::parse(&SourceTree {
        files: vec![file("model.yaml", text)],
        mounted_files: [(String::new(), beside)].into(),
        ..SourceTree::default()
    });
    let refused = |message: String, help: &str| Finding::error(rules::NO_MODEL, root.location(), message, help);
    let selection = match workspace.resolve_environment(None) {
        Ok(selection) => selection,
        Err(error) => return vec![refused(format!("document {number}: {error}"), "report this with the manifest")],
    };
    let reported = |finding: &Finding| {
        let place = format!("model.yaml:{}", finding.location.line);
        // What Dynamo refuses of an image it refuses of the manifest as well: the model is what that says.
        if finding.is_error() && finding.rule != admission::rules::IMAGE_VERSION {
            refused(format!("document {number}: the model is invalid ({place}): {}", finding.message), &finding.help)
        } else {
            let message = format!("document {number}: {} ({place})", finding.message);
            Finding::warning(finding.rule, root.location(), message, finding.help.clone())
        }
    };
    let mut faults: Vec<Finding> = selection.findings.iter().map(reported).collect();
    let [intent] = selection.intents.as_slice() else { return faults };
    let rendered = render::render_unchecked(intent, &completion::place(release));
    faults.extend(rendered.findings.iter().map(reported));
    let labels = FieldPath::from_fields(["metadata", "labels"]);
    for target in targets {
        let text = |pointer: &str| target.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let named = text("/kind") != kinds::REQUEST.kind;
        let is_named = |object: &Object| match text("/metadata/name") {
            // What a Job runs is part of its name.
            name if text("/kind") == kinds::JOB.kind => render::is_job_of(object.name(), name),
            name => object.name() == name,
        };
        let object = rendered
            .objects
            .iter()
            .map(crate::render::RenderedObject::with_initial_replicas)
            .find(|object| object.kind() == text("/kind") && (!named || is_named(object)));
        let Some(object) = object else {
            let message = format!("document {number}: {} `{}` is not rendered", text("/kind"), text("/metadata/name"));
            faults.push(Finding::error(rules::NOT_CARRIED, root.location(), message, "report this with the manifest"));
            continue;
        };
        // Labels of the model are on its other objects too.
        let is_own = |difference: &DocumentDifference| {
            difference.left.is_none()
                && difference.path.starts_with(&labels)
                && kinds::IN_MANIFESTS.iter().any(|kind| kind.kind == text("/kind"))
        };
        let mut target = target.clone();
        if object.kind() == kinds::JOB.kind {
            target["metadata"]["name"] = object.name().into();
            if let Some(spec) = target.get_mut("spec").and_then(Value::as_object_mut) {
                spec.remove("ttlSecondsAfterFinished");
            }
        }
        if let Some(template) = target.as_object_mut().filter(|_| object.kind() == kinds::RESOURCE_CLAIM_TEMPLATE.kind)
        {
            render::complete_requests(template);
        }
        let mut rendered = object.value().clone();
        if object.kind() == kinds::HTTP_ROUTE.kind {
            [&mut target, &mut rendered].into_iter().for_each(completion::fill_defaults);
        }
        for difference in equivalence::differences(&target, &rendered).into_iter().filter(|one| !is_own(one)) {
            let shown = |value: &Option<Value>| value.as_ref().map_or("absent".to_owned(), ToString::to_string);
            faults.push(Finding::error(
                rules::NOT_CARRIED,
                root.at(&difference.path),
                format!(
                    "document {number}: {} `{}`: `{}` is {}, but the model renders {}",
                    text("/kind"),
                    text("/metadata/name"),
                    difference.path,
                    shorten(&shown(&difference.left)),
                    shorten(&shown(&difference.right))
                ),
                "correct the model by hand, under `overrides` if need be",
            ));
        }
    }
    faults
}

fn shorten(text: &str) -> String {
    const MAX_CHARACTERS: usize = 120;
    // Before the cut: a part of a token looks like none.
    let text = &*mask::redact_tokens(text);
    if text.chars().count() <= MAX_CHARACTERS {
        text.to_owned()
    } else {
        text.chars().take(MAX_CHARACTERS).chain(['…']).collect()
    }
}
