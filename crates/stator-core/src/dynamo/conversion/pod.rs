//! The pod template of a v1beta1 component, put together from the flat fields of a v1alpha1 service.

use super::container_merge;
use crate::dynamo::registry::{MAIN_CONTAINER, SIDECAR_FRONTEND};
use crate::dynamo::release::{Behaviour, Release};
use crate::dynamo::v1alpha1::{AlphaResources, AlphaServiceSpec, ExtraPodSpec, FrontendSidecar, ResourceItem};
use crate::object::Quantity;
use serde_json::{Map, Value, json};

/// The resource that `gpu` counts when no type is given.
const GPU: &str = "nvidia.com/gpu";

/// The pod template, when the service says anything about its pods.
pub(super) fn pod_template(service: &AlphaServiceSpec, release: Release) -> Option<Map<String, Value>> {
    if !needs_pod_template(service) {
        return None;
    }
    let extra = service.extra_pod_spec.clone().unwrap_or_default();
    let mut spec = without_nulls(extra.pod);
    let others = match spec.remove("containers") {
        Some(Value::Array(containers)) => containers,
        Some(_) | None => Vec::new(),
    };
    let mut containers = vec![Value::Object(main_container(service, release))];
    containers.extend(others.into_iter().filter(|container| container_name(container) != Some(MAIN_CONTAINER)));
    if let Some(sidecar) = &service.frontend_sidecar
        && !containers.iter().any(|container| container_name(container) == Some(SIDECAR_FRONTEND))
    {
        containers.push(Value::Object(sidecar_container(sidecar)));
    }
    spec.insert("containers".to_owned(), Value::Array(containers));

    let mut template = Map::new();
    if let Some(metadata) = &service.extra_pod_metadata {
        let mut fields = Map::new();
        insert_map(&mut fields, "annotations", &metadata.annotations);
        insert_map(&mut fields, "labels", &metadata.labels);
        insert_map(&mut template, "metadata", &fields);
    }
    template.insert("spec".to_owned(), Value::Object(spec));
    Some(template)
}

/// The fields of the service of which the main container says otherwise.
pub(super) fn overridden_fields(service: &AlphaServiceSpec, release: Release) -> Vec<&'static str> {
    let (own, merged) = (dedicated_main_fields(service), main_container(service, release));
    let fields = [
        ("envs", "env"),
        ("envFromSecret", "envFrom"),
        ("resources", "resources"),
        ("livenessProbe", "livenessProbe"),
        ("readinessProbe", "readinessProbe"),
        ("volumeMounts", "volumeMounts"),
    ];
    let lost = |name: &str| {
        own.get(name).is_some_and(|own| merged.get(name).is_none_or(|merged| !contains_value(merged, own)))
    };
    fields.into_iter().filter(|(_, native)| lost(native)).map(|(flat, _)| flat).collect()
}

/// Whether one value says everything that the other does.
fn contains_value(value: &Value, part: &Value) -> bool {
    match (value, part) {
        (Value::Object(fields), Value::Object(part)) => {
            part.iter().all(|(name, part)| fields.get(name).is_some_and(|value| contains_value(value, part)))
        }
        (Value::Array(items), Value::Array(part)) => part.iter().all(|part| items.contains(part)),
        (value, part) => value == part,
    }
}

/// Whether the service has a pod template at v1beta1. A compilation cache alone makes none.
fn needs_pod_template(service: &AlphaServiceSpec) -> bool {
    service.resources.is_some()
        || !service.envs.is_empty()
        || service.env_from_secret.is_some()
        || service.volume_mounts.iter().any(|mount| !mount.use_as_compilation_cache)
        || service.liveness_probe.is_some()
        || service.readiness_probe.is_some()
        || service.extra_pod_spec.as_ref().is_some_and(|extra| !is_empty_pod(extra))
        || service.extra_pod_metadata.is_some()
        || service.frontend_sidecar.is_some()
}

/// True when nothing is said about the pod.
pub(super) fn is_empty_pod(extra: &ExtraPodSpec) -> bool {
    extra.pod.values().all(container_merge::is_empty) && extra.main_container.as_ref().is_none_or(is_name_only)
}

/// True for a container that has no more than a name.
pub(super) fn is_name_only(container: &Map<String, Value>) -> bool {
    container.iter().all(|(field, value)| field == "name" || container_merge::is_empty(value))
}

/// The container `main`: the dedicated fields, and `extraPodSpec.mainContainer` laid over them. Variables add up, and from
/// release 1.3 on mounts; of every other list the main container's replaces the dedicated one.
fn main_container(service: &AlphaServiceSpec, release: Release) -> Map<String, Value> {
    let mut main = dedicated_main_fields(service);
    let extra = service.extra_pod_spec.as_ref().and_then(|extra| extra.main_container.as_ref());
    if let Some(extra) = extra {
        let list = |container: &Map<String, Value>, field: &str| match container.get(field) {
            Some(Value::Array(items)) => items.clone(),
            Some(_) | None => Vec::new(),
        };
        let variables = container_merge::merge_variables(&list(&main, "env"), &list(extra, "env"));
        let mounts = container_merge::merge_mounts(&list(&main, "volumeMounts"), &list(extra, "volumeMounts"));
        container_merge::merge_over(&mut main, &without_nulls(extra.clone()));
        if release.has(Behaviour::MountListsMerged) {
            insert_list(&mut main, "volumeMounts", mounts);
        }
        insert_list(&mut main, "env", variables);
    }
    main.insert("name".to_owned(), MAIN_CONTAINER.into());
    main
}

/// What the service's own fields say of the main container.
fn dedicated_main_fields(service: &AlphaServiceSpec) -> Map<String, Value> {
    let mut main = Map::from_iter([("name".to_owned(), MAIN_CONTAINER.into())]);
    if let Some(resources) = &service.resources {
        insert_map(&mut main, "resources", &native_resources(resources));
    }
    insert_list(&mut main, "env", service.envs.clone());
    insert_list(&mut main, "envFrom", env_from_secret(service.env_from_secret.as_deref()));
    for (field, probe) in [("livenessProbe", &service.liveness_probe), ("readinessProbe", &service.readiness_probe)] {
        if let Some(probe) = probe {
            main.insert(field.to_owned(), probe.clone());
        }
    }
    let mounts = service.volume_mounts.iter();
    let mounts = mounts.map(|mount| json!({"name": mount.name, "mountPath": mount.mount_point}));
    insert_list(&mut main, "volumeMounts", mounts.collect());
    main
}

/// The frontend beside a worker.
fn sidecar_container(sidecar: &FrontendSidecar) -> Map<String, Value> {
    let mut container = Map::from_iter([("name".to_owned(), SIDECAR_FRONTEND.into())]);
    if !sidecar.image.is_empty() {
        container.insert("image".to_owned(), sidecar.image.clone().into());
    }
    insert_list(&mut container, "args", sidecar.args.clone());
    insert_list(&mut container, "env", sidecar.envs.clone());
    insert_list(&mut container, "envFrom", env_from_secret(sidecar.env_from_secret.as_deref()));
    container
}

fn env_from_secret(name: Option<&str>) -> Vec<Value> {
    name.filter(|name| !name.is_empty()).map(|name| json!({"secretRef": {"name": name}})).into_iter().collect()
}

/// Requests, limits and claims in Kubernetes' own words. What is no quantity is dropped, as the operator drops it.
pub(super) fn native_resources(resources: &AlphaResources) -> Map<String, Value> {
    let mut native = Map::new();
    insert_list(&mut native, "claims", resources.claims.clone());
    for (field, item) in [("requests", &resources.requests), ("limits", &resources.limits)] {
        if let Some(item) = item {
            insert_map(&mut native, field, &quantities(item).map(|(name, amount)| (name.to_owned(), amount)).collect());
        }
    }
    native
}

fn quantities(item: &ResourceItem) -> impl Iterator<Item = (&str, Value)> {
    let gpu = if item.gpu_type.is_empty() { GPU } else { &item.gpu_type };
    [("cpu", &item.cpu), ("memory", &item.memory), (gpu, &item.gpu)]
        .into_iter()
        .chain(item.custom.iter().map(|(name, amount)| (name.as_str(), amount)))
        .filter(|(_, amount)| Quantity::parse(amount).is_some())
        .map(|(name, amount)| (name, Value::from(amount.as_str())))
}

fn container_name(container: &Value) -> Option<&str> {
    container.get("name").and_then(Value::as_str)
}

fn without_nulls(mut fields: Map<String, Value>) -> Map<String, Value> {
    fields.retain(|_, value| !value.is_null());
    fields
}

/// Inserts a list that has something in it.
pub(super) fn insert_list(fields: &mut Map<String, Value>, name: &str, items: Vec<Value>) {
    if !items.is_empty() {
        fields.insert(name.to_owned(), Value::Array(items));
    }
}

/// Inserts a map that has something in it.
pub(super) fn insert_map(fields: &mut Map<String, Value>, name: &str, map: &Map<String, Value>) {
    if !map.is_empty() {
        fields.insert(name.to_owned(), Value::Object(map.clone()));
    }
}
