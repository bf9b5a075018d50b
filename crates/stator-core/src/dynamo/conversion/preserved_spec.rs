//! The annotations in which the operator keeps what the other version has no field for.
//!
//! Source: `preservedSpecEnvelope` and `saveSharedAlphaOnlySpec` of the operator.

use super::container_merge::{is_empty, serialize_variables};
use super::pod::{self, insert_list, insert_map, is_name_only, native_resources};
use crate::dynamo::registry::SIDECAR_FRONTEND;
use crate::dynamo::v1alpha1::{
    AlphaResources, AlphaServiceSpec, ExtraPodSpec, ResourceItem, has_own_component_type, is_on, is_zero,
};
use serde_json::{Map, Value, json};

/// What is kept of a graph's spec.
pub(super) const GRAPH_SPEC: &str = "nvidia.com/dgd-spec";
/// What is kept of a graph's status.
pub(super) const GRAPH_STATUS: &str = "nvidia.com/dgd-status";

/// The annotation's text for a spec of the other version.
pub(super) fn wrap_spec(spec: Map<String, Value>) -> String {
    json!({"version": 1, "spec": spec}).to_string()
}

/// The spec of the other version in an annotation; older operators wrote it without the version around it.
pub(super) fn unwrap_spec(text: &str) -> Option<Map<String, Value>> {
    let Value::Object(mut fields) = serde_json::from_str(text).ok()? else { return None };
    match fields.remove("spec") {
        Some(Value::Object(spec)) => Some(spec),
        Some(_) => None,
        None => Some(fields),
    }
}

/// What the operator keeps of a service: what v1beta1 cannot say, and which of two places of v1alpha1 said it.
pub(super) fn preserved_service_fields(service: &AlphaServiceSpec, hub_origin: bool) -> Map<String, Value> {
    let mut saved = Map::new();
    if !service.sub_component_type.is_empty() && !has_own_component_type(service) {
        saved.insert("subComponentType".to_owned(), service.sub_component_type.clone().into());
    }
    let optional = [
        ("autoscaling", service.autoscaling.clone()),
        ("dynamoNamespace", service.dynamo_namespace.clone().map(Value::from)),
        ("envFromSecret", service.env_from_secret.clone().map(Value::from)),
        ("ingress", service.ingress.clone()),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            saved.insert(name.to_owned(), value);
        }
    }
    insert_map(&mut saved, "annotations", &service.annotations);
    insert_map(&mut saved, "labels", &service.labels);
    if let Some(resources) = service.resources.as_ref().filter(|resources| !round_trips(resources)) {
        saved.insert("resources".to_owned(), resources_value(resources));
    }
    if service.volume_mounts.iter().filter(|mount| mount.use_as_compilation_cache).count() > 1 {
        saved.insert("volumeMounts".to_owned(), json!(service.volume_mounts));
    }
    if let Some(memory) = &service.shared_memory {
        let zero = memory.size.as_ref().is_none_or(is_zero);
        if memory.disabled != zero {
            let size = memory.size.clone().unwrap_or_else(|| "0".into());
            let disabled = memory.disabled.then(|| ("disabled".to_owned(), true.into()));
            let fields = Map::from_iter([("size".to_owned(), size)].into_iter().chain(disabled));
            saved.insert("sharedMemory".to_owned(), Value::Object(fields));
        }
    }
    if let Some(metadata) = &service.extra_pod_metadata
        && metadata.annotations.is_empty()
        && metadata.labels.is_empty()
    {
        saved.insert("extraPodMetadata".to_owned(), json!({}));
    }
    if let Some(extra) = service.extra_pod_spec.as_ref().filter(|extra| needs_preserving(extra, service)) {
        saved.insert("extraPodSpec".to_owned(), extra_value(extra));
    }
    let switches = [
        ("checkpoint", &service.checkpoint),
        ("failover", &service.failover),
        ("gpuMemoryService", &service.gpu_memory_service),
        ("scalingAdapter", &service.scaling_adapter),
    ];
    for (name, switch) in switches {
        if let Some(switch) = switch.as_ref().filter(|_| !is_on(switch.as_ref())) {
            let mut fields = switch.settings.clone();
            // The two that must say so say so; of the other two, off is the empty word.
            if matches!(name, "failover" | "gpuMemoryService") {
                fields.insert("enabled".to_owned(), false.into());
            }
            saved.insert(name.to_owned(), Value::Object(fields));
        }
    }
    if let Some(sidecar) = &service.frontend_sidecar {
        let mut fields = Map::from_iter([("image".to_owned(), sidecar.image.clone().into())]);
        insert_list(&mut fields, "args", sidecar.args.clone());
        insert_list(&mut fields, "envs", sidecar.envs.clone());
        if let Some(secret) = &sidecar.env_from_secret {
            fields.insert("envFromSecret".to_owned(), secret.clone().into());
        }
        saved.insert("frontendSidecar".to_owned(), Value::Object(fields));
    }
    if !hub_origin || !saved.is_empty() || main_container_overlaps_service(service) {
        preserve_origins(service, &mut saved);
    }
    saved
}

/// For each thing that v1alpha1 can say in two places, what each of the two said.
fn preserve_origins(service: &AlphaServiceSpec, saved: &mut Map<String, Value>) {
    let Some(main) = service.extra_pod_spec.as_ref().and_then(|extra| extra.main_container.as_ref()) else { return };
    let said = |field: &str| main.get(field).filter(|value| !is_empty(value)).cloned();
    let mut touched = said("name").is_some();
    let mut kept = Map::new();
    let pairs = [
        ("envs", "env", (!service.envs.is_empty()).then(|| serialize_variables(&service.envs))),
        ("envFromSecret", "envFrom", service.env_from_secret.clone().map(Value::from)),
        ("resources", "resources", service.resources.as_ref().map(resources_value)),
        ("volumeMounts", "volumeMounts", (!service.volume_mounts.is_empty()).then(|| json!(service.volume_mounts))),
        ("livenessProbe", "livenessProbe", service.liveness_probe.clone()),
        ("readinessProbe", "readinessProbe", service.readiness_probe.clone()),
    ];
    for (flat, nested, value) in pairs {
        let nested_value = said(nested);
        if value.is_none() && nested_value.is_none() {
            continue;
        }
        touched = true;
        if let Some(value) = value {
            saved.insert(flat.to_owned(), value);
        }
        if let Some(value) = nested_value {
            let value = match value.as_array() {
                Some(variables) if nested == "env" => serialize_variables(variables),
                Some(_) | None => value,
            };
            kept.insert(nested.to_owned(), value);
        }
    }
    if touched {
        kept.insert("name".to_owned(), said("name").unwrap_or_else(|| "".into()));
        kept.entry("resources").or_insert_with(|| json!({}));
        let extra = saved.entry("extraPodSpec").or_insert_with(|| json!({}));
        if let Value::Object(extra) = extra {
            let place = extra.entry("mainContainer").or_insert_with(|| json!({}));
            if let Value::Object(place) = place {
                place.extend(kept);
            }
        }
    }
}

fn main_container_overlaps_service(service: &AlphaServiceSpec) -> bool {
    let main = service.extra_pod_spec.as_ref().and_then(|extra| extra.main_container.as_ref());
    let fields = ["name", "env", "resources", "volumeMounts", "livenessProbe", "readinessProbe"];
    main.is_some_and(|main| fields.iter().any(|field| main.get(*field).is_some_and(|value| !is_empty(value))))
}

/// Whether v1beta1's resources read back as these.
fn round_trips(resources: &AlphaResources) -> bool {
    let item = |item: &ResourceItem| {
        let said = [&item.cpu, &item.memory, &item.gpu];
        let said = said.into_iter().chain(item.custom.values()).filter(|amount| !amount.is_empty()).count();
        // A type of GPU comes back as a custom resource, an empty item as none at all.
        item.gpu_type.is_empty() && said > 0
    };
    let items = [&resources.requests, &resources.limits];
    let count =
        |fields: &Map<String, Value>, name: &str| fields.get(name).and_then(Value::as_object).map_or(0, Map::len);
    let native = native_resources(resources);
    let quantities = count(&native, "requests") + count(&native, "limits");
    let amounts: usize = items
        .into_iter()
        .flatten()
        .map(|item| {
            [&item.cpu, &item.memory, &item.gpu].iter().filter(|amount| !amount.is_empty()).count() + item.custom.len()
        })
        .sum();
    let said_something = amounts > 0 || !resources.claims.is_empty();
    said_something && quantities == amounts && items.into_iter().flatten().all(item)
}

fn needs_preserving(extra: &ExtraPodSpec, service: &AlphaServiceSpec) -> bool {
    let only_a_name = extra.pod.values().all(is_empty)
        && extra.main_container.as_ref().is_some_and(|main| main.contains_key("name") && is_name_only(main));
    let containers = extra.pod.get("containers").and_then(Value::as_array);
    let conflict = service.frontend_sidecar.is_some()
        && containers.is_some_and(|containers| {
            containers.iter().any(|container| container.get("name").and_then(Value::as_str) == Some(SIDECAR_FRONTEND))
        });
    pod::is_empty_pod(extra) || only_a_name || conflict
}

fn extra_value(extra: &ExtraPodSpec) -> Value {
    let mut fields = extra.pod.clone();
    if let Some(main) = &extra.main_container {
        let mut main = main.clone();
        main.entry("name").or_insert_with(|| "".into());
        main.entry("resources").or_insert_with(|| json!({}));
        fields.insert("mainContainer".to_owned(), Value::Object(main));
    }
    Value::Object(fields)
}

fn resources_value(resources: &AlphaResources) -> Value {
    let mut fields = Map::new();
    for (name, item) in [("requests", &resources.requests), ("limits", &resources.limits)] {
        let Some(item) = item else { continue };
        let mut words = Map::new();
        let texts = [("cpu", &item.cpu), ("memory", &item.memory), ("gpu", &item.gpu), ("gpuType", &item.gpu_type)];
        for (word, text) in texts {
            if !text.is_empty() {
                words.insert(word.to_owned(), text.clone().into());
            }
        }
        if !item.custom.is_empty() {
            words.insert("custom".to_owned(), json!(item.custom));
        }
        fields.insert(name.to_owned(), Value::Object(words));
    }
    insert_list(&mut fields, "claims", resources.claims.clone());
    Value::Object(fields)
}
