//! DynamoGraphDeployment: rules about one component's pod.

use super::grove::words_of;
use super::{AdmissionCollector, Platform, component_path, image, name_segment, rules};
use crate::dynamo::registry::{MAIN_CONTAINER, annotation, env};
use crate::dynamo::release::Behaviour;
use crate::dynamo::v1beta1::{ComponentSpec, GraphSpec};
use crate::object::{FieldPath, Quantity};
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
    let words = words_of(spec, component);
    check_shared_memory(component, &words, faults);
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
    if let Some(image) = check_image(component, &words, faults) {
        let given = component.rest.contains_key("runtimeVersionOverride");
        let words = format!(
            "{words}.runtimeVersionOverride: Required value: is required when the specified main container image has no \
             parseable semantic-version tag"
        );
        image::check_version(image, given, main_container_path(component).field("image"), words, faults);
    }
    check_main_container(spec, component, faults);
    check_power_limit(component, &words, faults);
    check_elastic_experts(spec, component, &words, faults);
    if let Some(sidecar) = &component.frontend_sidecar {
        let exists = component
            .containers()
            .any(|container| container.get("name").and_then(Value::as_str) == Some(sidecar.as_str()));
        let path = path.field("frontendSidecar");
        let message = format!("`{sidecar}` is not the name of a second container of the pod");
        let help = "name a container under `template.spec.containers` other than `main`";
        if !exists {
            let words =
                format!("{words}.frontendSidecar: Invalid value: {sidecar:?}: must name a container of the pod");
            faults.deny_since(Behaviour::SidecarChecked, rules::SIDECAR, path, message, help, words);
        } else if sidecar == MAIN_CONTAINER {
            faults.warn(rules::SIDECAR, path, message, help);
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

/// The size of `/dev/shm` is not negative.
pub(super) fn check_shared_memory(component: &ComponentSpec, words: &str, faults: &mut AdmissionCollector<'_>) {
    if !component.shared_memory_size.as_ref().is_some_and(is_negative) {
        return;
    }
    faults.deny_since(
        Behaviour::SharedMemoryChecked,
        rules::SHARED_MEMORY,
        component_path(&component.name).field("sharedMemorySize"),
        "the size of shared memory is negative",
        "give a size such as `16Gi`, or `\"0\"` for none",
        format!("{words}.sharedMemorySize: Invalid value: must be non-negative"),
    );
}

/// The image of the main container, which there must be.
pub(super) fn check_image<'a>(
    component: &'a ComponentSpec,
    words: &str,
    faults: &mut AdmissionCollector<'_>,
) -> Option<&'a str> {
    let image = component.main_container().and_then(|main| main.get("image")).and_then(Value::as_str);
    let image = image.filter(|image| !image.is_empty());
    if image.is_none() {
        let name = &component.name;
        let message = if faults.has(Behaviour::ImageRequired) {
            format!("`{name}` has no image")
        } else {
            format!("`{name}` has no image; Dynamo accepts it, but no pod can start")
        };
        faults.deny_since(
            Behaviour::ImageRequired,
            rules::IMAGE_MISSING,
            main_container_path(component).field("image"),
            message,
            "give `runtime` or `image`",
            format!("{words}.podTemplate.spec.containers[0].image: Required value: is required"),
        );
    }
    image
}

/// Whether a quantity, as a text or a number, is below zero.
fn is_negative(size: &Value) -> bool {
    match size {
        Value::String(text) => Quantity::parse(text).is_some_and(|size| size < Quantity::default()),
        Value::Number(number) => number.as_f64().is_some_and(|number| number < 0.0),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

/// Source: the DGD webhook's `validatePowerLimit`.
fn check_power_limit(component: &ComponentSpec, words: &str, faults: &mut AdmissionCollector<'_>) {
    let name = annotation::GPU_POWER_LIMIT;
    let template = component.pod_template.as_ref();
    let annotations = template.and_then(|template| template.pointer("/metadata/annotations"));
    let Some(value) = annotations.and_then(|all| all.get(name)).and_then(Value::as_str) else { return };
    let path = component_path(&component.name).field("podTemplate");
    let at = path.field("metadata").field("annotations").field(name);
    let words = format!("{words}.podTemplate.metadata.annotations[{name}]");
    let mut deny = |path: FieldPath, message: String, help: &str, reason: &str| {
        let words = format!("{words}: Invalid value: {value:?}: {reason}");
        faults.deny_since(Behaviour::PowerLimitChecked, rules::ANNOTATION, path, message, help, words);
    };
    match value.parse::<i64>() {
        Err(_) => deny(
            at.clone(),
            format!("`{name}` is `{value}`, which is not a whole number of watts"),
            "write watts, such as `\"300\"`",
            "must be a decimal integer",
        ),
        Ok(watts) if watts <= 0 => deny(
            at.clone(),
            format!("`{name}` is `{value}`; a limit must be above zero"),
            "write watts, such as `\"300\"`",
            "must be greater than zero",
        ),
        Ok(_) => {}
    }
    let claims = component.containers().any(|container| {
        container
            .get("resources")
            .and_then(|resources| resources.get("claims"))
            .and_then(Value::as_array)
            .is_some_and(|claims| !claims.is_empty())
    });
    if claims || component.experimental("gpuMemoryService").is_some() {
        deny(
            at,
            format!("`{name}` cannot be combined with GPUs by resource claim, or with the GPU memory service"),
            "remove one of the two",
            "power-aware planning does not support DRA-backed device allocation",
        );
    }
}

/// Whether vLLM's arguments switch elastic expert parallelism on Ray on.
pub fn starts_elastic_experts(args: &[&str]) -> bool {
    let on_ray = ["--data-parallel-backend", "-dpb"].iter().any(|flag| {
        let joined = format!("{flag}=ray");
        args.windows(2).any(|pair| pair == [*flag, "ray"]) || args.contains(&joined.as_str())
    });
    on_ray && args.contains(&"--enable-elastic-ep")
}

/// Source: the DGD webhook's `validateElasticEPRequiresCommand`: the operator starts Ray around the command.
fn check_elastic_experts(
    spec: &GraphSpec,
    component: &ComponentSpec,
    words: &str,
    faults: &mut AdmissionCollector<'_>,
) {
    let Some(main) = component.main_container().filter(|_| spec.backend_framework.as_deref() == Some("vllm")) else {
        return;
    };
    let words_of = |field: &str| -> Vec<&str> {
        main.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
    };
    if !starts_elastic_experts(&words_of("args")) || !words_of("command").is_empty() {
        return;
    }
    faults.deny_since(
        Behaviour::ElasticExpertsChecked,
        rules::ELASTIC_EXPERTS,
        main_container_path(component).field("command"),
        format!("elastic expert parallelism on Ray needs a `command`, and `{}` has none", component.name),
        "give `command: [python3, -m, dynamo.vllm]`",
        format!(
            "{words}.podTemplate.spec.containers[0].command: Required value: elastic expert parallelism \
             (--enable-elastic-ep with --data-parallel-backend ray) requires an explicit container command"
        ),
    );
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
    for name in names("env").into_iter().filter(|name| env::is_injected_at(name, faults.platform.release())) {
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
