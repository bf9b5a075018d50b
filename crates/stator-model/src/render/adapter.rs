//! Adapters (DynamoModel): one object each, applied once the graph is Ready.

use super::{ApplyStage, ObjectDraft, RenderContext, object_metadata};
use serde_json::Map;
use stator_core::dynamo::kinds;
use stator_core::dynamo::v1beta1::{AdapterSource, AdapterSpec, to_value};
use std::collections::BTreeMap;

/// The longest name of a DynamoModel: an RFC 1123 subdomain.
const MAX_ADAPTER_NAME_LENGTH: usize = 253;

pub(super) fn add_drafts(context: &mut RenderContext<'_>, drafts: &mut Vec<ObjectDraft>) {
    let intent = context.intent;
    let model = &intent.model.spec;
    if !model.adapters.is_empty() && model.serving.is_none() {
        context.error(
            crate::intent::rules::MODEL_ADAPTER_ENGINE,
            "spec.adapters",
            "adapters load into workers that stator renders, and this model has no `serving`",
            "promote the recommendation into `serving`, or remove `adapters`",
        );
        return;
    }
    let mut seen = BTreeMap::new();
    for (index, adapter) in model.adapters.iter().enumerate() {
        let path = format!("spec.adapters[{index}]");
        let name = match &adapter.object_name {
            Some(name) => name.to_string(),
            None => object_metadata::bounded_name(
                intent.model.metadata.name.as_str(),
                adapter.name.as_str(),
                MAX_ADAPTER_NAME_LENGTH,
            ),
        };
        if let Some(first) = seen.insert(name.clone(), index) {
            context.error(
                crate::intent::rules::MODEL_ADAPTER_NAME,
                &format!("{path}.name"),
                format!("adapter `{}` is defined twice, first as number {}", adapter.name, first + 1),
                "give each adapter its own name",
            );
            continue;
        }
        let spec = AdapterSpec {
            model_name: adapter.served_name.clone().unwrap_or_else(|| adapter.name.to_string()),
            // Workers carry the same in `modelRef.name`; Dynamo compares byte for byte.
            base_model_name: model.model.clone(),
            model_type: Some("lora".to_owned()),
            source: Some(AdapterSource { uri: adapter.source.to_string(), rest: Map::new() }),
            rest: Map::new(),
        };
        drafts.push(ObjectDraft {
            kind: kinds::ADAPTER,
            value: object_metadata::new_object(context, kinds::ADAPTER, &name, to_value(&spec), false),
            path,
            stage: ApplyStage::Adapter,
            prune: true,
        });
    }
}
