//! What every rendered object carries: version, kind, name, namespace, stator's labels and the user's.

use super::RenderContext;
use crate::intent::model::Weights;
use serde_json::{Map, Value, json};
use stator_core::dynamo::kinds::{self, ObjectKind};

/// An object with a spec. Labels of the user never replace stator's own, by which prune and inventory find it.
pub(super) fn new_object(
    context: &RenderContext<'_>,
    kind: ObjectKind,
    name: &str,
    spec: Value,
    annotated: bool,
) -> Map<String, Value> {
    let model = &context.intent.model.metadata;
    let mut labels: Map<String, Value> =
        model.labels.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    for (key, value) in [
        (kinds::LABEL_MANAGED_BY, kinds::FIELD_MANAGER),
        (kinds::LABEL_MODEL, model.name.as_str()),
        (kinds::LABEL_REPOSITORY, context.target.repository.as_str()),
        (kinds::LABEL_ENVIRONMENT, context.target.environment.as_str()),
    ] {
        labels.insert(key.to_owned(), value.into());
    }
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), name.into());
    metadata.insert("namespace".to_owned(), context.target.namespace.as_str().into());
    metadata.insert("labels".to_owned(), Value::Object(labels));
    let mut annotations: Map<String, Value> = Map::new();
    if annotated {
        annotations.extend(model.annotations.iter().map(|(key, value)| (key.clone(), json!(value))));
    }
    if kind == kinds::GRAPH
        && let Some(sku) = undetectable_gpu(context)
    {
        annotations.insert(kinds::ANNOTATION_GPU.to_owned(), sku.into());
    }
    if kind == kinds::GRAPH
        && let Some(uris) = context.intent.model.spec.weights.as_ref().and_then(Weights::uris)
    {
        annotations.insert(kinds::ANNOTATION_WEIGHTS.to_owned(), uris.into());
    }
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    let mut value = Map::new();
    value.insert("apiVersion".to_owned(), kind.api_version().into());
    value.insert("kind".to_owned(), kind.kind.into());
    value.insert("metadata".to_owned(), Value::Object(metadata));
    value.insert("spec".to_owned(), spec);
    value
}

/// The GPU that the intent declares where no node label of the pods tells: its own selector stands in the label's place.
fn undetectable_gpu(context: &RenderContext<'_>) -> Option<&'static str> {
    let hardware = context.intent.model.spec.hardware.as_ref()?;
    hardware.node_selector.as_ref()?;
    Some(hardware.gpu?.name())
}

/// `base-suffix`, cut to `max` characters. Names that are cut are distinguished by a hash of the full name.
pub(super) fn bounded_name(base: &str, suffix: &str, max: usize) -> String {
    let whole = format!("{base}-{suffix}");
    if whole.len() <= max {
        return whole;
    }
    let hash = short_hash(whole.as_bytes());
    let keep: String = whole.chars().take(max.saturating_sub(hash.len() + 1)).collect();
    format!("{}-{hash}", keep.trim_end_matches(['-', '.']))
}

/// The first 8 hex digits of a SHA-256.
pub(super) fn short_hash(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    let mut hex = hex::encode(Sha256::digest(bytes));
    hex.truncate(8);
    hex
}
