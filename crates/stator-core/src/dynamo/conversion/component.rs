//! One v1alpha1 service becomes one v1beta1 component.

use super::Aside;
use super::envelope;
use super::pod::{self, insert_map};
use super::restore;
use super::rules::{ALWAYS_MAIN, LOST_MOUNT, OVERRULED, SAME_IN_SERVICES};
use crate::dynamo::registry::{MAIN_CONTAINER, SIDECAR_FRONTEND};
use crate::dynamo::v1alpha1::{Service, SharedMemory, Switch};
use crate::object::{FieldPath, Quantity, Segment};
use serde_json::{Map, Value, json};

/// A component, and what the operator keeps of the service beside it.
pub(super) struct Component {
    pub(super) fields: Map<String, Value>,
    /// Sparse, in v1alpha1's form; empty when there is nothing to keep.
    pub(super) saved: Map<String, Value>,
}

/// Converts a service. `hub` is what was kept of its component, where it was written as one. `source` is the same as it was written, and `path` where it stands; its name is the caller's to
/// set.
pub(super) fn to_beta(
    service: &Service,
    source: &Value,
    path: &FieldPath,
    hub: Option<&Map<String, Value>>,
    aside: &mut Aside,
) -> Component {
    let mut fields = Map::new();
    for name in SAME_IN_SERVICES {
        if let Some(value) = service.rest.get(*name).filter(|value| !value.is_null()) {
            fields.insert((*name).to_owned(), value.clone());
        }
    }
    let kind = if promotes(service) { &service.sub_component_type } else { &service.component_type };
    if !kind.is_empty() {
        fields.insert("type".to_owned(), kind.clone().into());
    }
    if let Some(size) = service.shared_memory.as_ref().and_then(size) {
        fields.insert("sharedMemorySize".to_owned(), size);
    }
    if let Some(mount) = service.volume_mounts.iter().find(|mount| mount.use_as_compilation_cache) {
        let mut cache = Map::from_iter([("pvcName".to_owned(), mount.name.clone().into())]);
        if !mount.mount_point.is_empty() {
            cache.insert("mountPath".to_owned(), mount.mount_point.clone().into());
        }
        insert_map(&mut fields, "compilationCache", &cache);
    }
    if is_on(service.scaling_adapter.as_ref()) {
        fields.insert("scalingAdapter".to_owned(), json!({}));
    }
    insert_map(&mut fields, "experimental", &experimental(service));
    if let Some(template) = pod::template(service) {
        if service.frontend_sidecar.is_some() {
            fields.insert("frontendSidecar".to_owned(), SIDECAR_FRONTEND.into());
        }
        fields.insert("podTemplate".to_owned(), Value::Object(template));
    }
    if let Some(kept) = hub {
        restore::complete(&mut fields, kept, service);
    }
    set_aside(service, source, path, aside);
    Component { fields, saved: envelope::service(service, hub.is_some()) }
}

/// Whether the part of a worker becomes a type of its own.
pub(super) fn promotes(service: &Service) -> bool {
    service.component_type == "worker" && matches!(service.sub_component_type.as_str(), "prefill" | "decode")
}

pub(super) fn is_on(switch: Option<&Switch>) -> bool {
    switch.is_some_and(|switch| switch.enabled)
}

/// `sharedMemorySize`: `"0"` for none; absent for the default.
fn size(memory: &SharedMemory) -> Option<Value> {
    if memory.disabled {
        return Some("0".into());
    }
    memory.size.clone().filter(|size| !is_zero(size))
}

/// True for no quantity, and for one of nothing.
pub(super) fn is_zero(size: &Value) -> bool {
    match size {
        Value::Null => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => Quantity::parse(text.trim()) == Quantity::parse("0"),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

fn experimental(service: &Service) -> Map<String, Value> {
    let mut experimental = Map::new();
    let switches = [
        ("gpuMemoryService", &service.gpu_memory_service),
        ("failover", &service.failover),
        ("checkpoint", &service.checkpoint),
    ];
    for (name, switch) in switches {
        let Some(switch) = switch.as_ref().filter(|switch| switch.enabled) else { continue };
        let mut settings = switch.settings.clone();
        settings.retain(|_, value| !value.is_null());
        if let Some(mode) = settings.get_mut("mode") {
            let beta = match mode.as_str() {
                Some("intraPod") => Some("IntraPod"),
                Some("interPod") => Some("InterPod"),
                Some(_) | None => None,
            };
            if let Some(beta) = beta {
                *mode = beta.into();
            }
        }
        experimental.insert(name.to_owned(), Value::Object(settings));
    }
    experimental
}

/// Names what has no place in a component.
fn set_aside(service: &Service, source: &Value, path: &FieldPath, aside: &mut Aside) {
    let mut put = |field: &str, value: Option<Value>| {
        if let Some(value) = value {
            aside.push(&format!("spec.services.*.{field}"), path.field(field), value);
        }
    };
    let map = |map: &Map<String, Value>| (!map.is_empty()).then(|| Value::Object(map.clone()));
    put("annotations", map(&service.annotations));
    put("autoscaling", service.autoscaling.clone());
    put("dynamoNamespace", service.dynamo_namespace.clone().map(Value::from));
    put("ingress", service.ingress.clone());
    put("labels", map(&service.labels));
    let word = &service.sub_component_type;
    put("subComponentType", (!word.is_empty() && !promotes(service)).then(|| word.clone().into()));
    for (name, value) in &service.rest {
        if !SAME_IN_SERVICES.contains(&name.as_str()) && !value.is_null() {
            put(name, Some(value.clone()));
        }
    }
    let extra = service.extra_pod_spec.as_ref();
    let name = extra.and_then(|extra| extra.main_container.as_ref()?.get("name"));
    if let Some(name) = name.filter(|name| name.as_str() != Some(MAIN_CONTAINER) && !super::merge::is_empty(name)) {
        let path = path.field("extraPodSpec").field("mainContainer").field("name");
        aside.note(path, name.clone(), ALWAYS_MAIN);
    }
    let lost = pod::overruled(service);
    for field in &lost {
        let value = source.get(*field).cloned().unwrap_or_default();
        aside.note(path.field(*field), value, if *field == "volumeMounts" { LOST_MOUNT } else { OVERRULED });
    }
    if lost.contains(&"volumeMounts") {
        return;
    }
    let caches = service.volume_mounts.iter().enumerate().filter(|(_, mount)| mount.use_as_compilation_cache);
    for (index, _) in caches.skip(1) {
        let path = path.field("volumeMounts").join(Segment::Index(index)).field("useAsCompilationCache");
        aside.push("spec.services.*.volumeMounts[].useAsCompilationCache", path, true.into());
    }
}
