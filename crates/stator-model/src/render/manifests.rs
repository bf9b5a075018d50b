//! Other objects of the namespace (`spec.manifests`): as they were written, with stator's labels and the namespace.

use super::{ApplyStage, ObjectDraft, RenderContext, object_metadata};
use crate::intent::ManifestObject;
use crate::intent::rules::MODEL_MANIFEST;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use stator_core::dynamo::kinds;
use stator_core::finding::Finding;

/// Adds the model's other objects to what stator renders itself; overrides have been applied, and are not for these.
pub(super) fn add_drafts(context: &mut RenderContext<'_>, drafts: &mut Vec<ObjectDraft>) {
    let intent = context.intent;
    for (index, manifest) in intent.manifests.iter().enumerate() {
        if let Some(fault) = check_place(context, manifest, drafts) {
            context.findings.push(fault);
            continue;
        }
        let draft = draft_object(context, manifest, format!("spec.manifests[{index}]"));
        drafts.push(draft);
    }
}

/// Why an object cannot be where it is to be: another namespace, or the name of something that stator renders.
fn check_place(context: &RenderContext<'_>, manifest: &ManifestObject, drafts: &[ObjectDraft]) -> Option<Finding> {
    let origins = &context.intent.origins;
    let metadata = manifest.value.get("metadata").and_then(Value::as_object);
    let namespace = metadata.and_then(|metadata| metadata.get("namespace"));
    if let Some(namespace) = namespace.filter(|namespace| namespace.as_str() != Some(&context.target.namespace)) {
        let message = format!("{} is in namespace {namespace}, not in the environment's", manifest.describe());
        let location = manifest.locate(origins, "metadata.namespace");
        return Some(Finding::error(
            MODEL_MANIFEST,
            location,
            message,
            format!("Remove `namespace`: the object goes to the environment's, {}.", context.target.namespace),
        ));
    }
    let own_name = |draft: &&ObjectDraft| {
        let name = draft.value.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str);
        draft.kind == manifest.kind && name == Some(&object_name(manifest))
    };
    let other = drafts.iter().find(own_name)?;
    let message =
        format!("{} has the same name as the object that stator renders from `{}`", manifest.describe(), other.path);
    let location = manifest.locate(origins, "metadata.name");
    Some(Finding::error(MODEL_MANIFEST, location, message, "Give it another name."))
}

/// How many hex digits of what a Job runs are part of its name.
const DIGEST_LENGTH: usize = 10;
/// The longest part of a Job's name that was written: with a dash and the digest it has at most 63 characters.
const MAX_JOB_NAME_LENGTH: usize = 52;

/// What an object is called in the cluster. What a Job runs cannot be changed, so that a digest of it is part of the name:
/// it runs once, and again when it is to run something else.
fn object_name(manifest: &ManifestObject) -> String {
    if manifest.kind != kinds::JOB {
        return manifest.name.clone();
    }
    let spec = manifest.value.get("spec").unwrap_or(&Value::Null).to_string();
    let mut digest = hex::encode(Sha256::digest(spec.as_bytes()));
    digest.truncate(DIGEST_LENGTH);
    let written: String = manifest.name.chars().take(MAX_JOB_NAME_LENGTH).collect();
    format!("{}-{digest}", written.trim_end_matches(['-', '.']))
}

/// Whether a Job of the cluster is one that was written under a name.
pub fn is_job_of(name: &str, written: &str) -> bool {
    let short: String = written.chars().take(MAX_JOB_NAME_LENGTH).collect();
    name.strip_prefix(short.trim_end_matches(['-', '.']))
        .and_then(|rest| rest.strip_prefix('-'))
        .is_some_and(|digest| digest.len() == DIGEST_LENGTH && digest.chars().all(|c| c.is_ascii_hexdigit()))
}

fn draft_object(context: &RenderContext<'_>, manifest: &ManifestObject, path: String) -> ObjectDraft {
    let mut value = object_metadata::new_object(context, manifest.kind, &object_name(manifest), Value::Null, false);
    value.remove("spec");
    let written = manifest.value.get("metadata").and_then(Value::as_object);
    let map = |field: &str| -> Map<String, Value> {
        written.and_then(|metadata| metadata.get(field)).and_then(Value::as_object).cloned().unwrap_or_default()
    };
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            // Its own are stronger than the model's, and stator's are none of either.
            labels.extend(map("labels"));
        }
        let annotations = map("annotations");
        if !annotations.is_empty() {
            metadata.insert("annotations".to_owned(), Value::Object(annotations));
        }
    }
    for (field, own) in manifest.value.iter().filter(|(field, _)| !value.contains_key(*field)).collect::<Vec<_>>() {
        value.insert(field.clone(), own.clone());
    }
    if manifest.kind == kinds::RESOURCE_CLAIM_TEMPLATE {
        complete_requests(&mut value);
    }
    ObjectDraft {
        kind: manifest.kind,
        value,
        path,
        stage: ApplyStage::of_kind(manifest.kind.kind),
        // Data outlives its model, as that of a cache does.
        prune: manifest.kind != kinds::CLAIM,
    }
}

/// Writes out what the API server fills into the requests of a ResourceClaimTemplate, which it keeps as one value: what git
/// wants is then what is stored, and a spec that cannot be changed never seems to (`SetDefaults_ExactDeviceRequest`).
pub fn complete_requests(template: &mut Map<String, Value>) {
    let devices = template.get_mut("spec").and_then(|spec| spec.pointer_mut("/spec/devices/requests"));
    for request in devices.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(exactly) = request.get_mut("exactly") {
            complete_request(exactly);
        }
        request
            .get_mut("firstAvailable")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
            .for_each(complete_request);
    }
}

fn complete_request(request: &mut Value) {
    let Some(request) = request.as_object_mut() else { return };
    let mode = request.entry("allocationMode").or_insert_with(|| "ExactCount".into());
    if *mode == "ExactCount" {
        request.entry("count").or_insert_with(|| 1.into());
    }
    for toleration in request.get_mut("tolerations").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(toleration) = toleration.as_object_mut() {
            toleration.entry("operator").or_insert_with(|| "Equal".into());
        }
    }
}
