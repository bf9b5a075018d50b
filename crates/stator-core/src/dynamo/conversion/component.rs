//! One v1alpha1 service becomes one v1beta1 component.

use super::UnmappedCollector;
use super::field_mappings::{ALWAYS_MAIN, LOST_MOUNT, OVERRIDDEN_BY_MAIN, SAME_IN_SERVICES};
use super::pod::{self, insert_map};
use super::preserved_spec;
use super::restore;
use crate::dynamo::registry::{MAIN_CONTAINER, SIDECAR_FRONTEND};
use crate::dynamo::release::{Behaviour, Release};
use crate::dynamo::v1alpha1::{AlphaServiceSpec, SharedMemory, has_own_component_type, is_on, is_zero};
use crate::object::{FieldPath, PathSegment};
use serde_json::{Map, Value, json};

/// A component, and what the operator keeps of the service beside it.
pub(super) struct ConvertedComponent {
    pub(super) fields: Map<String, Value>,
    /// Sparse, in v1alpha1's form; empty when there is nothing to keep.
    pub(super) preserved: Map<String, Value>,
}

/// Converts a service. `hub` is what was kept of its component, where it was written as one. `source` is the same as it was written, and `path` where it stands; its name is the caller's to
/// set.
pub(super) fn to_v1beta1(
    service: &AlphaServiceSpec,
    source: &Value,
    path: &FieldPath,
    hub: Option<&Map<String, Value>>,
    release: Release,
    aside: &mut UnmappedCollector,
) -> ConvertedComponent {
    let mut fields = Map::new();
    for name in SAME_IN_SERVICES {
        if let Some(value) = service.rest.get(*name).filter(|value| !value.is_null()) {
            fields.insert((*name).to_owned(), value.clone());
        }
    }
    let kind = if has_own_component_type(service) { &service.sub_component_type } else { &service.component_type };
    if !kind.is_empty() {
        fields.insert("type".to_owned(), kind.clone().into());
    }
    if let Some(size) = service.shared_memory.as_ref().and_then(shared_memory_size) {
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
    insert_map(&mut fields, "experimental", &experimental(service, release));
    if let Some(template) = pod::pod_template(service, release) {
        if service.frontend_sidecar.is_some() {
            fields.insert("frontendSidecar".to_owned(), SIDECAR_FRONTEND.into());
        }
        fields.insert("podTemplate".to_owned(), Value::Object(template));
    }
    if let Some(kept) = hub {
        restore::restore_component(&mut fields, kept, service);
    }
    record_unmapped(service, source, path, release, aside);
    ConvertedComponent { fields, preserved: preserved_spec::preserved_service_fields(service, hub.is_some()) }
}

/// `sharedMemorySize`: `"0"` for none; absent for the default.
fn shared_memory_size(memory: &SharedMemory) -> Option<Value> {
    if memory.disabled {
        return Some("0".into());
    }
    memory.size.clone().filter(|size| !is_zero(size))
}

fn experimental(service: &AlphaServiceSpec, release: Release) -> Map<String, Value> {
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
        if name == "checkpoint" && release.has(Behaviour::CheckpointSwitched) {
            settings.insert("enabled".to_owned(), true.into());
        }
        experimental.insert(name.to_owned(), Value::Object(settings));
    }
    experimental
}

/// Names what has no place in a component.
fn record_unmapped(
    service: &AlphaServiceSpec,
    source: &Value,
    path: &FieldPath,
    release: Release,
    aside: &mut UnmappedCollector,
) {
    let mut put = |field: &str, value: Option<Value>| {
        if let Some(value) = value {
            aside.record(&format!("spec.services.*.{field}"), path.field(field), value);
        }
    };
    let map = |map: &Map<String, Value>| (!map.is_empty()).then(|| Value::Object(map.clone()));
    put("annotations", map(&service.annotations));
    put("autoscaling", service.autoscaling.clone());
    put("dynamoNamespace", service.dynamo_namespace.clone().map(Value::from));
    put("ingress", service.ingress.clone());
    put("labels", map(&service.labels));
    let word = &service.sub_component_type;
    put("subComponentType", (!word.is_empty() && !has_own_component_type(service)).then(|| word.clone().into()));
    for (name, value) in &service.rest {
        if !SAME_IN_SERVICES.contains(&name.as_str()) && !value.is_null() {
            put(name, Some(value.clone()));
        }
    }
    let extra = service.extra_pod_spec.as_ref();
    let name = extra.and_then(|extra| extra.main_container.as_ref()?.get("name"));
    if let Some(name) =
        name.filter(|name| name.as_str() != Some(MAIN_CONTAINER) && !super::container_merge::is_empty(name))
    {
        let path = path.field("extraPodSpec").field("mainContainer").field("name");
        aside.record_with_reason(path, name.clone(), ALWAYS_MAIN);
    }
    let lost = pod::overridden_fields(service, release);
    for field in &lost {
        let value = source.get(*field).cloned().unwrap_or_default();
        aside.record_with_reason(
            path.field(*field),
            value,
            if *field == "volumeMounts" { LOST_MOUNT } else { OVERRIDDEN_BY_MAIN },
        );
    }
    if lost.contains(&"volumeMounts") {
        return;
    }
    let caches = service.volume_mounts.iter().enumerate().filter(|(_, mount)| mount.use_as_compilation_cache);
    for (index, _) in caches.skip(1) {
        let path = path.field("volumeMounts").join(PathSegment::Index(index)).field("useAsCompilationCache");
        aside.record("spec.services.*.volumeMounts[].useAsCompilationCache", path, true.into());
    }
}
