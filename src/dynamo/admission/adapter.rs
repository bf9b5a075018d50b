//! DynamoModel.

use super::{Faults, rules};
use crate::dynamo::v1beta1::AdapterSpec;
use crate::object::{FieldPath, Object};
use serde::Deserialize;

pub(super) fn check(object: &Object, faults: &mut Faults) {
    let Ok(spec) = AdapterSpec::deserialize(object.spec()) else { return };
    for (field, value) in [("modelName", &spec.model_name), ("baseModelName", &spec.base_model_name)] {
        if value.is_empty() {
            let path = FieldPath::of(["spec", field]);
            faults.refused(rules::ADAPTER_NAMES, path, format!("`{field}` is missing"), format!("give `{field}`"));
        }
    }
    if spec.model_type.as_deref() != Some("lora") {
        return;
    }
    let uri = spec.source.as_ref().map(|source| source.uri.as_str()).unwrap_or_default();
    if !uri.starts_with("s3://") && !uri.starts_with("hf://") {
        let found = if uri.is_empty() { "no source".to_owned() } else { format!("`{uri}`") };
        faults.refused(
            rules::ADAPTER_SOURCE,
            FieldPath::of(["spec", "source", "uri"]),
            format!("found {found}; Dynamo loads adapters from `s3://…` or `hf://…`"),
            "copy the adapter to a bucket or to Hugging Face",
        );
    }
}
