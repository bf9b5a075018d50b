//! DynamoModel.

use super::{AdmissionCollector, rules};
use crate::dynamo::release::Behaviour;
use crate::dynamo::v1beta1::AdapterSpec;
use crate::object::{FieldPath, Object};
use serde::Deserialize;

/// Source: the DynamoModel webhook.
pub(super) fn check(object: &Object, faults: &mut AdmissionCollector<'_>) {
    let Ok(spec) = AdapterSpec::deserialize(object.spec()) else { return };
    for (field, value) in [("modelName", &spec.model_name), ("baseModelName", &spec.base_model_name)] {
        if value.is_empty() {
            faults.deny(
                rules::ADAPTER_NAMES,
                FieldPath::from_fields(["spec", field]),
                format!("`{field}` is missing"),
                format!("give `{field}`"),
                format!("spec.{field} is required"),
            );
        }
    }
    faults.next_operator_check();
    if spec.model_type.as_deref() != Some("lora") {
        return;
    }
    let files = faults.has(Behaviour::FileSources);
    let (sources, help, words) = if files {
        (
            "`s3://…`, `hf://…` or `file:///…`",
            "set `s3://…`, `hf://…`, or a `file:///…` path that every worker has",
            "must start with \"s3://\", \"hf://\", or \"file:///\"",
        )
    } else {
        (
            "`s3://…` or `hf://…`",
            "copy the adapter to a bucket or to Hugging Face, and give its `s3://…` or `hf://…`; Dynamo 1.3 and later also \
             take `file:///…`",
            "must start with 's3://' or 'hf://'",
        )
    };
    let path = FieldPath::from_fields(["spec", "source"]);
    let known =
        |uri: &str| uri.starts_with("s3://") || uri.starts_with("hf://") || (files && uri.starts_with("file:///"));
    match &spec.source {
        None => faults.deny(
            rules::ADAPTER_SOURCE,
            path,
            format!("found no source; Dynamo loads adapters from {sources}"),
            help,
            "spec.source is required when modelType is 'lora'",
        ),
        Some(source) if source.uri.is_empty() => faults.deny(
            rules::ADAPTER_SOURCE,
            path.field("uri"),
            format!("the source is empty; Dynamo loads adapters from {sources}"),
            help,
            "spec.source.uri must be specified when modelType is 'lora'",
        ),
        Some(source) if !known(&source.uri) => faults.deny(
            rules::ADAPTER_SOURCE,
            path.field("uri"),
            format!("found `{}`; Dynamo loads adapters from {sources}", source.uri),
            help,
            format!("source URI {words}, got: {}", source.uri),
        ),
        Some(_) => {}
    }
}
