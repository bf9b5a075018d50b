//! DynamoGraphDeployment.

use super::field_mappings::{self, SAME_IN_GRAPHS};
use super::pod::{insert_list, insert_map};
use super::{BETA, ConversionError, ConvertedDocument, UnmappedCollector, UnmappedField, component, preserved_spec};
use crate::dynamo::release::Release;
use crate::dynamo::v1alpha1::AlphaGraphSpec;
use crate::object::{FieldPath, PathSegment};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Converts a v1alpha1 graph.
pub(super) fn to_v1beta1(document: &Value, release: Release) -> Result<ConvertedDocument, ConversionError> {
    let alpha = parse_spec(document.get("spec").unwrap_or(&Value::Null))?;
    let mut aside = UnmappedCollector::default();
    let mut annotations = annotations_of(document);
    let hub = annotations.get(preserved_spec::GRAPH_SPEC).and_then(Value::as_str).and_then(preserved_spec::unwrap_spec);
    for name in [preserved_spec::GRAPH_SPEC, preserved_spec::GRAPH_STATUS] {
        annotations.remove(name);
    }

    let mut spec = Map::new();
    let mut saved = Map::new();
    for name in SAME_IN_GRAPHS {
        if let Some(value) = alpha.rest.get(*name).filter(|value| !value.is_null()) {
            spec.insert((*name).to_owned(), value.clone());
        }
    }
    insert_list(&mut spec, "env", alpha.envs.clone());
    if let Some(constraint) = &alpha.topology_constraint {
        spec.insert("topologyConstraint".to_owned(), Value::Object(convert_topology(constraint)));
    }
    let mut components = Vec::new();
    let mut saved_services = Map::new();
    for name in ordered_service_names(&alpha, hub.as_ref()) {
        let path = FieldPath::from_fields(["spec", "services"]).field(name);
        let Some(service) = alpha.services.get(name).and_then(Option::as_ref) else {
            saved_services.insert(name.to_owned(), Value::Null);
            aside.record_with_reason(path, Value::Null, field_mappings::NULL_SERVICE);
            continue;
        };
        let written = document.get("spec").and_then(|spec| spec.get("services")?.get(name)).unwrap_or(&Value::Null);
        let mut converted = component::to_v1beta1(
            service,
            written,
            &path,
            preserved_component(hub.as_ref(), name),
            release,
            &mut aside,
        );
        converted.fields.insert("name".to_owned(), name.into());
        // The operator takes the service's key as its name, whatever this field says.
        if !service.service_name.is_empty() && service.service_name != name {
            converted.preserved.insert("serviceName".to_owned(), service.service_name.clone().into());
            aside.record("spec.services.*.serviceName", path.field("serviceName"), service.service_name.clone().into());
        }
        insert_map(&mut saved_services, name, &converted.preserved);
        components.push(Value::Object(converted.fields));
    }
    insert_list(&mut spec, "components", components);
    insert_list(&mut saved, "pvcs", alpha.pvcs.iter().map(preserved_claim).collect());
    insert_map(&mut saved, "services", &saved_services);
    record_unmapped(&alpha, &mut aside);

    if !saved.is_empty() {
        annotations.insert(preserved_spec::GRAPH_SPEC.to_owned(), preserved_spec::wrap_spec(saved).into());
    }
    let mut beta = json!({"apiVersion": BETA, "kind": crate::dynamo::kinds::GRAPH.kind});
    let mut metadata = document.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    let (status, saved_status) = convert_status(document.get("status"));
    if !saved_status.is_empty() {
        annotations.insert(preserved_spec::GRAPH_STATUS.to_owned(), Value::Object(saved_status).to_string().into());
    }
    metadata.remove("annotations");
    insert_map(&mut metadata, "annotations", &annotations);
    beta["metadata"] = Value::Object(metadata);
    beta["spec"] = Value::Object(spec);
    if let Some(status) = status {
        beta["status"] = Value::Object(status);
    }
    aside.0.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(ConvertedDocument { document: beta, unmapped: aside.0 })
}

/// What the annotations of a v1beta1 graph keep, as the conversion from v1alpha1 would have named it.
pub(super) fn preserved_fields(document: &Value, release: Release) -> Vec<UnmappedField> {
    let annotation =
        document.get("metadata").and_then(|metadata| metadata.get("annotations")?.get(preserved_spec::GRAPH_SPEC));
    let spec = annotation.and_then(Value::as_str).and_then(preserved_spec::unwrap_spec);
    spec.map(|spec| unmapped_fields(&Value::Object(spec), release)).unwrap_or_default()
}

/// What a v1alpha1 spec says that v1beta1 has no field for; `spec` may be the sparse one of an annotation.
fn unmapped_fields(spec: &Value, release: Release) -> Vec<UnmappedField> {
    let document = json!({"spec": spec});
    to_v1beta1(&document, release).map(|converted| converted.unmapped).unwrap_or_default()
}

fn parse_spec(spec: &Value) -> Result<AlphaGraphSpec, ConversionError> {
    if spec.is_null() {
        return Ok(AlphaGraphSpec::default());
    }
    AlphaGraphSpec::deserialize(spec).map_err(|error| ConversionError::malformed(&error))
}

fn annotations_of(document: &Value) -> Map<String, Value> {
    let annotations = document.get("metadata").and_then(|metadata| metadata.get("annotations"));
    annotations.and_then(Value::as_object).cloned().unwrap_or_default()
}

/// What was kept of one component; an empty map for a graph that was written as v1beta1 and kept nothing of this one.
fn preserved_component<'a>(hub: Option<&'a Map<String, Value>>, name: &str) -> Option<&'a Map<String, Value>> {
    static NOTHING: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    let components = hub?.get("components").and_then(Value::as_array).into_iter().flatten();
    let mut named = components.filter_map(Value::as_object);
    let found = named.find(|component| component.get("name").and_then(Value::as_str) == Some(name));
    Some(found.unwrap_or(&NOTHING))
}

/// The services in the order of the components: sorted, unless the object was written as v1beta1 in another order.
fn ordered_service_names<'a>(alpha: &'a AlphaGraphSpec, hub: Option<&Map<String, Value>>) -> Vec<&'a str> {
    let mut names: Vec<&str> = alpha.services.keys().map(String::as_str).collect();
    let written = hub.and_then(|hub| hub.get("components")).and_then(Value::as_array);
    let written: Vec<&str> =
        written.into_iter().flatten().filter_map(|component| component.get("name").and_then(Value::as_str)).collect();
    if !written.is_sorted() {
        let places: BTreeMap<&str, usize> = written.iter().enumerate().map(|(place, name)| (*name, place)).collect();
        names.sort_by_key(|name| places.get(name).copied().unwrap_or(usize::MAX));
    }
    names
}

/// `topologyProfile` is called `clusterTopologyName` now.
fn convert_topology(constraint: &Map<String, Value>) -> Map<String, Value> {
    let renamed =
        |name: &str| if name == "topologyProfile" { "clusterTopologyName".to_owned() } else { name.to_owned() };
    constraint
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (renamed(name), value.clone()))
        .collect()
}

/// A claim as the operator keeps it: a size that is not given is a size of 0.
fn preserved_claim(claim: &Value) -> Value {
    let mut claim = claim.clone();
    if let Value::Object(fields) = &mut claim {
        fields.retain(|_, value| !value.is_null());
        fields.entry("size").or_insert_with(|| "0".into());
    }
    claim
}

fn record_unmapped(alpha: &AlphaGraphSpec, aside: &mut UnmappedCollector) {
    for (index, claim) in alpha.pvcs.iter().enumerate() {
        let path = FieldPath::from_fields(["spec", "pvcs"]).join(PathSegment::Index(index));
        aside.record("spec.pvcs[]", path, claim.clone());
    }
    for (name, value) in &alpha.rest {
        if !SAME_IN_GRAPHS.contains(&name.as_str()) && !value.is_null() {
            aside.record(&format!("spec.{name}"), FieldPath::from_fields(["spec"]).field(name), value.clone());
        }
    }
}

/// `services` are `components` now. What is kept of the names of a service's children goes into an annotation.
fn convert_status(status: Option<&Value>) -> (Option<Map<String, Value>>, Map<String, Value>) {
    let Some(Value::Object(alpha)) = status else { return (None, Map::new()) };
    let mut beta = alpha.clone();
    beta.retain(|_, value| !value.is_null());
    let mut saved = Map::new();
    if let Some(Value::Object(services)) = beta.remove("services") {
        let mut components = Map::new();
        for (name, service) in services {
            let Value::Object(fields) = service else { continue };
            let (fields, kept) = replica_status(fields);
            insert_map(&mut saved, &name, &kept);
            components.insert(name, Value::Object(fields));
        }
        insert_map(&mut beta, "components", &components);
    }
    if let Some(Value::Object(rolling)) = beta.get_mut("rollingUpdate")
        && let Some(updated) = rolling.remove("updatedServices")
    {
        rolling.insert("updatedComponents".to_owned(), updated);
    }
    let saved = if saved.is_empty() { saved } else { Map::from_iter([("services".to_owned(), Value::Object(saved))]) };
    (Some(beta), saved)
}

/// The status of one service, and what has to be kept of the names of its children: v1beta1 has all of them in one list.
pub(super) fn replica_status(mut service: Map<String, Value>) -> (Map<String, Value>, Map<String, Value>) {
    let mut kept = Map::new();
    let single = service.remove("componentName");
    let names = service.get("componentNames").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(single) = single.filter(|single| single.as_str().is_some_and(|text| !text.is_empty())) {
        if names.last() != Some(&single) {
            kept.insert("componentName".to_owned(), single.clone());
            insert_list(&mut kept, "componentNames", names.clone());
        }
        if names.is_empty() {
            service.insert("componentNames".to_owned(), json!([single]));
        }
    }
    (service, kept)
}
