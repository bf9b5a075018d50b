//! DynamoGraphDeployment: rules about one component's pod.

use super::{AdmissionCollector, ImageTagFault, Platform, component_path, name_segment, rules};
use crate::dynamo::registry::{MAIN_CONTAINER, env};
use crate::dynamo::v1beta1::{ComponentSpec, GraphSpec};
use crate::object::FieldPath;
use serde_json::Value;

pub(super) fn check(
    spec: &GraphSpec,
    component: &ComponentSpec,
    platform: &Platform,
    faults: &mut AdmissionCollector<'_>,
) {
    let path = component_path(&component.name);
    if component.replicas.is_some_and(|replicas| replicas < 0) {
        faults.deny_by_schema(
            rules::NEGATIVE_REPLICAS,
            path.field("replicas"),
            "replicas are negative",
            "give 0 or more",
        );
    }
    if component.shared_memory_size.as_ref().and_then(Value::as_str).is_some_and(|size| size.starts_with('-')) {
        faults.warn(
            rules::SHARED_MEMORY,
            path.field("sharedMemorySize"),
            "the size of shared memory is negative",
            "give a size such as `16Gi`, or `\"0\"` for none",
        );
    }
    if component.multinode.is_some() && platform.grove == Some(false) && platform.leader_worker_set == Some(false) {
        faults.warn(
            rules::NEEDS_MULTINODE,
            path.field("multinode"),
            format!(
                "`{}` spans nodes, and this cluster has neither Grove nor LeaderWorkerSet to run it",
                component.name
            ),
            "install one of them, or fit the component on one node",
        );
    }
    check_image(component, faults);
    check_main_container(spec, component, faults);
    if let Some(sidecar) = &component.frontend_sidecar {
        let exists = component
            .containers()
            .any(|container| container.get("name").and_then(Value::as_str) == Some(sidecar.as_str()));
        if !exists || sidecar == MAIN_CONTAINER {
            faults.warn(
                rules::SIDECAR,
                path.field("frontendSidecar"),
                format!("`{sidecar}` is not the name of a second container of the pod"),
                "name a container under `template.spec.containers` other than `main`",
            );
        }
    }
}

fn main_container_path(component: &ComponentSpec) -> FieldPath {
    component_path(&component.name)
        .field("podTemplate")
        .field("spec")
        .field("containers")
        .join(name_segment(MAIN_CONTAINER))
}

fn check_image(component: &ComponentSpec, faults: &mut AdmissionCollector<'_>) {
    let path = main_container_path(component).field("image");
    let image = component.main_container().and_then(|main| main.get("image")).and_then(Value::as_str);
    let Some(image) = image.filter(|image| !image.is_empty()) else {
        faults.warn(
            rules::IMAGE_MISSING,
            path,
            format!("`{}` has no image; Dynamo accepts it, but no pod can start", component.name),
            "give `runtime` or `image`",
        );
        return;
    };
    if component.rest.contains_key("runtimeVersionOverride") {
        return;
    }
    let tag = image_tag(image);
    if !tag.is_some_and(is_version) {
        let (fault, found) = match tag {
            Some("latest") => (ImageTagFault::Latest, "tag `latest` is not a version".to_owned()),
            Some(tag) => (ImageTagFault::NotVersion, format!("tag `{tag}` is not a version")),
            None => (ImageTagFault::Missing, "there is no tag".to_owned()),
        };
        faults.warn_of_image_tag(
            fault,
            path,
            format!("`{image}`: {found}; Dynamo 1.4 and later read the runtime's version from it and refuse others"),
            "use a tag such as `1.2.0`",
        );
    }
}

/// A semantic version as the operator's parser takes it: one to three numbers, a `v` before, a suffix after.
pub(super) fn is_version(text: &str) -> bool {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (core, suffix) = match text.find(['-', '+']) {
        Some(end) => (&text[..end], Some(&text[end + 1..])),
        None => (text, None),
    };
    let numbers: Vec<&str> = core.split('.').collect();
    numbers.len() <= 3
        && numbers.iter().all(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
        && suffix.is_none_or(|suffix| !suffix.is_empty())
}

/// The tag of an image reference, none with a digest alone or no tag.
fn image_tag(image: &str) -> Option<&str> {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    // A colon before the last slash belongs to the registry's port.
    let last = name.rsplit_once('/').map_or(name, |(_, last)| last);
    last.split_once(':').map(|(_, tag)| tag).filter(|tag| !tag.is_empty())
}

fn check_main_container(spec: &GraphSpec, component: &ComponentSpec, faults: &mut AdmissionCollector<'_>) {
    let Some(main) = component.main_container() else { return };
    let path = main_container_path(component);
    let names = |field: &str| -> Vec<&str> {
        main.get(field)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|item| item.get("name").and_then(Value::as_str))
            .collect()
    };
    for name in names("env").into_iter().filter(|name| env::is_injected(name)) {
        faults.warn(
            rules::INJECTED_ENV,
            path.field("env").join(name_segment(name)),
            format!("the operator sets `{name}` itself"),
            format!("remove `{name}`"),
        );
    }
    let has_ports = main.get("ports").and_then(Value::as_array).is_some_and(|ports| !ports.is_empty());
    if component.is_worker() && has_ports && !names("ports").contains(&"system") {
        faults.warn(
            rules::SYSTEM_PORT,
            path.field("ports"),
            "the list replaces the operator's own, and probes need a port named `system`",
            "add `{name: system, containerPort: 9090}`, or omit `ports`",
        );
    }
    if let (Some(framework), Some(found)) = (spec.backend_framework.as_deref(), engine_module(main))
        && framework != found
    {
        faults.warn(
            rules::BACKEND,
            path.field("command"),
            format!("the graph's framework is {framework} and `{}` runs dynamo.{found}", component.name),
            "one graph runs one engine: split the model in two, or change the command",
        );
    }
}

/// The engine that a container's command line runs as `-m dynamo.<engine>`.
fn engine_module(main: &serde_json::Map<String, Value>) -> Option<&str> {
    let words: Vec<&str> = ["command", "args"]
        .into_iter()
        .filter_map(|field| main.get(field).and_then(Value::as_array))
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let program = words.iter().position(|word| *word == "-m").and_then(|position| words.get(position + 1))?;
    program.strip_prefix("dynamo.").filter(|engine| ["vllm", "sglang", "trtllm"].contains(engine))
}
