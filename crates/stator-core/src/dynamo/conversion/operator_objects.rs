//! What the operator makes for a graph: DynamoComponentDeployment and DynamoGraphDeploymentScalingAdapter.

use super::pod::insert_map;
use super::{
    BETA, ConversionError, ConvertedDocument, UnmappedCollector, component, graph, preserved_spec, split_metadata,
};
use crate::dynamo::release::Release;
use crate::dynamo::v1alpha1::AlphaServiceSpec;
use crate::object::FieldPath;
use serde::Deserialize;
use serde_json::{Value, json};

/// The kind of one component's object.
pub(in crate::dynamo) const COMPONENT: &str = "DynamoComponentDeployment";
const COMPONENT_SPEC: &str = "nvidia.com/dcd-spec";
const COMPONENT_STATUS: &str = "nvidia.com/dcd-status";

/// A scaling adapter: `serviceName` is called `componentName` now.
pub(super) fn convert_scaling_adapter(document: &Value) -> ConvertedDocument {
    let mut beta = document.clone();
    beta["apiVersion"] = BETA.into();
    if let Some(Value::Object(reference)) = beta.pointer_mut("/spec/dgdRef")
        && let Some(name) = reference.remove("serviceName")
    {
        reference.insert("componentName".to_owned(), name);
    }
    ConvertedDocument { document: beta, unmapped: Vec::new() }
}

/// A component's object: a service with its name and engine beside it.
pub(super) fn convert_component_deployment(
    document: &Value,
    release: Release,
) -> Result<ConvertedDocument, ConversionError> {
    let spec = document.get("spec").filter(|spec| !spec.is_null()).cloned().unwrap_or_else(|| json!({}));
    let mut service = AlphaServiceSpec::deserialize(&spec).map_err(|error| ConversionError::malformed(&error))?;
    let backend = service.rest.remove("backendFramework");
    let (mut metadata, mut annotations) = split_metadata(document);
    let hub = annotations.get(COMPONENT_SPEC).and_then(Value::as_str).and_then(preserved_spec::unwrap_spec);
    annotations.remove(COMPONENT_SPEC);
    annotations.remove(COMPONENT_STATUS);

    let mut aside = UnmappedCollector::default();
    let mut converted =
        component::to_v1beta1(&service, &spec, &FieldPath::from_fields(["spec"]), hub.as_ref(), release, &mut aside);
    let own = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
    let name = if service.service_name.is_empty() { own } else { &service.service_name };
    converted.fields.insert("name".to_owned(), name.into());
    if let Some(backend) = backend.filter(|backend| !backend.is_null()) {
        converted.fields.insert("backendFramework".to_owned(), backend);
    }
    if !converted.preserved.is_empty() {
        annotations.insert(COMPONENT_SPEC.to_owned(), preserved_spec::wrap_spec(converted.preserved).into());
    }
    let status = document.get("status").and_then(Value::as_object).map(|alpha| {
        let mut beta = alpha.clone();
        if let Some(selector) = beta.remove("podSelector") {
            let kept = json!({"podSelector": selector}).to_string();
            annotations.insert(COMPONENT_STATUS.to_owned(), kept.into());
        }
        if let Some(Value::Object(service)) = beta.remove("service") {
            let (fields, _) = graph::replica_status(service);
            beta.insert("component".to_owned(), Value::Object(fields));
        }
        beta
    });
    insert_map(&mut metadata, "annotations", &annotations);
    Ok(aside
        .finish(json!({"apiVersion": BETA, "kind": COMPONENT, "metadata": metadata, "spec": converted.fields}), status))
}
