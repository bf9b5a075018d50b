//! What a v1alpha1 object keeps of the v1beta1 one that was written: v1alpha1 has no order of containers, no settings of a
//! mount, no name of a sidecar, so the operator keeps them in the annotation and puts them back.
//!
//! What the object says itself always wins.
//!
//! Source: `restoreSharedHubOnlyFields` of the operator.

use super::container_merge::{is_empty, merge_over};
use super::pod::is_name_only;
use crate::dynamo::registry::{MAIN_CONTAINER, SIDECAR_FRONTEND};
use crate::dynamo::v1alpha1::AlphaServiceSpec;
use serde_json::{Map, Value, json};

/// Completes a component with what was kept of it.
pub(super) fn restore_component(
    component: &mut Map<String, Value>,
    kept: &Map<String, Value>,
    service: &AlphaServiceSpec,
) {
    if let Some(Value::Object(kept)) = kept.get("podTemplate") {
        let mut template = match component.remove("podTemplate") {
            Some(Value::Object(template)) => template,
            Some(_) | None => Map::new(),
        };
        restore_pod_template(&mut template, kept, component.get("compilationCache"), service);
        if !template.is_empty() || kept.is_empty() {
            component.insert("podTemplate".to_owned(), Value::Object(template));
        }
    }
    if let Some(Value::String(name)) = kept.get("frontendSidecar")
        && !component.contains_key("frontendSidecar")
    {
        // A sidecar that was kept by its container and is there no more was taken away since.
        let held = |template: Option<&Value>| {
            let containers = template.and_then(|template| template.pointer("/spec/containers")?.as_array());
            containers.into_iter().flatten().any(|container| container_name(container) == Some(name))
        };
        if !held(kept.get("podTemplate")) || held(component.get("podTemplate")) {
            component.insert("frontendSidecar".to_owned(), name.clone().into());
        }
    }
    if let Some(Value::Object(experimental)) = kept.get("experimental")
        && !component.contains_key("experimental")
        && !["gpuMemoryService", "failover", "checkpoint"].iter().any(|name| experimental.contains_key(*name))
    {
        component.insert("experimental".to_owned(), Value::Object(experimental.clone()));
    }
}

fn restore_pod_template(
    template: &mut Map<String, Value>,
    kept: &Map<String, Value>,
    cache: Option<&Value>,
    service: &AlphaServiceSpec,
) {
    let kept_containers = containers_of(kept);
    let mut containers = containers_of(template);
    let kept_main = kept_containers.iter().find(|container| container_name(container) == Some(MAIN_CONTAINER));
    let own_mounts = service.extra_pod_spec.as_ref().and_then(|extra| extra.main_container.as_ref());
    let own_mounts = own_mounts.map(mounts_of).unwrap_or_default();
    let kept_mounts = kept_main.and_then(Value::as_object).map(mounts_of).unwrap_or_default();

    if let Some(main) = containers.iter_mut().find(|container| container_name(container) == Some(MAIN_CONTAINER))
        && let Value::Object(main) = main
    {
        let mut mounts = mounts_of(main);
        // The mount of a compilation cache is made by the conversion, unless it was written.
        let cache = cache.map(|cache| (cache.get("pvcName"), cache.get("mountPath")));
        let is_cache = |mount: &Value| cache == Some((mount.get("name"), mount.get("mountPath")));
        mounts.retain(|mount| {
            !is_cache(mount) || kept_mounts.iter().chain(&own_mounts).any(|other| is_same_mount_path(other, mount))
        });
        for mount in &mut mounts {
            let flat = service.volume_mounts.iter().any(|flat| {
                mount.get("name") == Some(&json!(flat.name)) && mount.get("mountPath") == Some(&json!(flat.mount_point))
            });
            if flat
                && !own_mounts.iter().any(|own| is_same_mount_path(own, mount))
                && let Some(kept) = kept_mounts.iter().find(|kept| is_same_mount_path(kept, mount))
            {
                *mount = kept.clone();
            }
        }
        if mounts.len() == kept_mounts.len()
            && mounts.iter().all(|mount| kept_mounts.iter().any(|kept| is_same_mount_path(kept, mount)))
        {
            mounts.sort_by_key(|mount| kept_mounts.iter().position(|kept| is_same_mount_path(kept, mount)));
        }
        main.remove("volumeMounts");
        super::pod::insert_list(main, "volumeMounts", mounts);
    }
    // A main container that only the conversion made goes again.
    if kept_main.is_none() {
        let made = |container: &Value| {
            container_name(container) == Some(MAIN_CONTAINER) && container.as_object().is_some_and(is_name_only)
        };
        containers.retain(|container| !made(container));
    }
    for kept in &kept_containers {
        let known = containers.iter_mut().find(|container| container_name(container) == container_name(kept));
        let gone = container_name(kept) == Some(SIDECAR_FRONTEND) && service.frontend_sidecar.is_none();
        match (known, kept) {
            (Some(Value::Object(known)), Value::Object(kept)) => {
                if service.frontend_sidecar.is_some() && known.get("name") == Some(&json!(SIDECAR_FRONTEND)) {
                    let mut rest = kept.clone();
                    rest.retain(|name, _| !matches!(name.as_str(), "name" | "image" | "args" | "env" | "envFrom"));
                    merge_over(known, &rest);
                }
            }
            (None, Value::Object(fields)) if !gone && !is_name_only(fields) => containers.push(kept.clone()),
            (Some(_) | None, _) => {}
        }
    }
    let all_kept = containers
        .iter()
        .all(|container| kept_containers.iter().any(|kept| container_name(kept) == container_name(container)));
    if kept_containers.len() > 1 && kept_containers.len() == containers.len() && all_kept {
        containers.sort_by_key(|container| {
            kept_containers.iter().position(|kept| container_name(kept) == container_name(container))
        });
    }
    let spec = template.entry("spec").or_insert_with(|| json!({}));
    if let Value::Object(spec) = spec {
        spec.remove("containers");
        super::pod::insert_list(spec, "containers", containers);
    }
    if let Some(Value::Object(kept)) = kept.get("metadata") {
        let mut metadata = kept.clone();
        metadata.retain(|name, value| !matches!(name.as_str(), "labels" | "annotations") && !is_empty(value));
        if let Some(Value::Object(own)) = template.get("metadata") {
            metadata.extend(own.clone());
        }
        super::pod::insert_map(template, "metadata", &metadata);
    }
    template.retain(|_, value| !is_empty(value));
}

fn containers_of(template: &Map<String, Value>) -> Vec<Value> {
    let containers = template.get("spec").and_then(|spec| spec.get("containers")?.as_array());
    containers.cloned().unwrap_or_default()
}

fn mounts_of(container: &Map<String, Value>) -> Vec<Value> {
    container.get("volumeMounts").and_then(Value::as_array).cloned().unwrap_or_default()
}

fn is_same_mount_path(a: &Value, b: &Value) -> bool {
    a.get("name") == b.get("name") && a.get("mountPath") == b.get("mountPath")
}

fn container_name(value: &Value) -> Option<&str> {
    value.get("name").and_then(Value::as_str)
}
