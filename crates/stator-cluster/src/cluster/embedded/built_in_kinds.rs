//! What an API server fills into Services, and refuses of them and of ResourceClaimTemplates, beside their schemas: after
//! `SetDefaults_Service`, the allocation of addresses, `ValidateService` and `ValidateResourceClaimTemplateUpdate`
//! (k8s.io/kubernetes `pkg/apis`, `pkg/registry/core/service`, 1.36).

use crate::cluster::InvalidField;
use serde_json::{Map, Value, json};
use stator_core::object::{FieldPath, PathSegment};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Fills in what a Service leaves out, its address included.
pub(super) fn fill_service(service: &mut Value) {
    let name = service.pointer("/metadata/name").cloned().unwrap_or_default();
    let namespace = service.pointer("/metadata/namespace").cloned().unwrap_or_default();
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else { return };
    set_missing(spec, "type", || json!("ClusterIP"));
    set_missing(spec, "sessionAffinity", || json!("None"));
    if spec.get("type").is_some_and(|kind| kind == "ExternalName") {
        return;
    }
    set_missing(spec, "internalTrafficPolicy", || json!("Cluster"));
    set_missing(spec, "clusterIP", || json!(address_of(&namespace.to_string(), &name.to_string())));
    let address = spec.get("clusterIP").cloned().unwrap_or_default();
    set_missing(spec, "clusterIPs", || json!([address]));
    set_missing(spec, "ipFamilies", || json!(["IPv4"]));
    set_missing(spec, "ipFamilyPolicy", || json!("SingleStack"));
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(port) = port.as_object_mut() else { continue };
        let number = port.get("port").cloned().unwrap_or_default();
        set_missing(port, "targetPort", || number);
    }
}

fn set_missing(map: &mut Map<String, Value>, field: &str, value: impl FnOnce() -> Value) {
    if !map.contains_key(field) {
        map.insert(field.to_owned(), value());
    }
}

/// An address of the range that clusters usually have, the same for the same name.
fn address_of(namespace: &str, name: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (namespace, name).hash(&mut hasher);
    let [high, low, ..] = hasher.finish().to_be_bytes();
    format!("10.96.{high}.{}", low.max(1))
}

/// What the API server refuses of a Service.
pub(super) fn validate_service(service: &Value) -> Vec<InvalidField> {
    let text = |field: &str| service.pointer(&format!("/spec/{field}")).and_then(Value::as_str);
    let name = service.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let mut faults = Vec::new();
    let is_label = super::layout::is_label(name) && !name.starts_with(|first: char| first.is_ascii_digit());
    if !is_label {
        let message = format!(
            "Invalid value: {name:?}: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with \
             an alphabetic character, and end with an alphanumeric character"
        );
        faults.push(InvalidField { path: FieldPath::from_fields(["metadata", "name"]), message });
    }
    let ports = service.pointer("/spec/ports").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let needs_none = text("type") == Some("ExternalName") || text("clusterIP") == Some("None");
    if ports.is_empty() && !needs_none {
        faults.push(InvalidField {
            path: FieldPath::from_fields(["spec", "ports"]),
            message: "Required value".to_owned(),
        });
    }
    let has_name = |port: &Value| port.get("name").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    for (index, _) in ports.iter().enumerate().filter(|(_, port)| ports.len() > 1 && !has_name(port)) {
        let field = |name: &str| PathSegment::Field(name.to_owned());
        let path = FieldPath(vec![field("spec"), field("ports"), PathSegment::Index(index), field("name")]);
        faults.push(InvalidField { path, message: "Required value".to_owned() });
    }
    faults
}

/// What the API server refuses of a change of a ResourceClaimTemplate.
pub(super) fn validate_claim_template(new: &Value, old: Option<&Value>) -> Vec<InvalidField> {
    let is_changed = old.is_some_and(|old| old.get("spec") != new.get("spec"));
    let message = "Invalid value: field is immutable".to_owned();
    let fault = InvalidField { path: FieldPath::from_fields(["spec"]), message };
    is_changed.then_some(fault).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: Value) -> Value {
        json!({"metadata": {"name": "chat", "namespace": "prod"}, "spec": spec})
    }

    #[test]
    fn a_service_is_filled_once() {
        let mut once = service(json!({"ports": [{"port": 80}]}));
        fill_service(&mut once);
        let mut twice = once.clone();
        fill_service(&mut twice);
        assert_eq!(once, twice);
        assert_eq!(once["spec"]["ports"], json!([{"port": 80, "targetPort": 80}]));
        assert!(once["spec"]["clusterIP"].as_str().unwrap().starts_with("10.96."), "{once}");
        let mut external = service(json!({"type": "ExternalName", "externalName": "example.com"}));
        fill_service(&mut external);
        assert_eq!(external["spec"].get("clusterIP"), None);
    }

    #[test]
    fn ports_are_there_and_several_have_names() {
        let judge = |spec: Value| validate_service(&service(spec)).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(judge(json!({})), ["spec.ports: Required value"]);
        assert!(judge(json!({"clusterIP": "None"})).is_empty());
        assert!(judge(json!({"ports": [{"port": 80}]})).is_empty());
        let two = json!({"ports": [{"port": 80, "name": "http"}, {"port": 81}]});
        assert_eq!(judge(two), ["spec.ports[1].name: Required value"]);
    }
}
