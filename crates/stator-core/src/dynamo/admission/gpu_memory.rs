//! The GPU memory service and failover.

use super::grove::words_of;
use super::{AdmissionCollector, PlatformRequirement, component_path, names, rules};
use crate::dynamo::gpus;
use crate::dynamo::registry::annotation;
use crate::dynamo::release::Behaviour;
use crate::dynamo::v1beta1::{ComponentSpec, GraphSpec};
use crate::object::Object;
use serde_json::Value;

const INTER_POD: &str = "InterPod";
const INTRA_POD: &str = "IntraPod";

/// `IntraPod` (the CRD's default) or `InterPod`.
fn memory_mode(block: &Value) -> &str {
    block.get("mode").and_then(Value::as_str).unwrap_or(INTRA_POD)
}

/// The mode as the operator's messages have it: `intraPod`.
fn operator_spelling(mode: &str) -> String {
    if mode == INTER_POD { "interPod".to_owned() } else { "intraPod".to_owned() }
}

/// Failover inside a pod needs discovery per container. Source: `validateFailoverRequiresDiscoveryMode`.
pub(super) fn check_failover_discovery(object: &Object, spec: &GraphSpec, faults: &mut AdmissionCollector<'_>) {
    if object.annotations().get(annotation::DISCOVERY_MODE) == Some(&"container") {
        return;
    }
    let inside = |component: &&ComponentSpec| {
        component.experimental("failover").is_some_and(|one| memory_mode(one) == INTRA_POD)
    };
    if let Some(component) = spec.components.iter().find(inside) {
        faults.deny(
            rules::FAILOVER,
            component_path(&component.name).field("experimental").field("failover"),
            format!("failover inside the pods of `{}` needs discovery per container", component.name),
            format!("annotate the model with `{}: container`", annotation::DISCOVERY_MODE),
            format!(
                "failover requires per-container K8s discovery; set annotation \"{}\" to \"container\" on the \
                 DynamoGraphDeployment",
                annotation::DISCOVERY_MODE
            ),
        );
    }
}

/// GPU memory that lives in pods of its own needs Grove, and vLLM. Source: the DGD webhook's `validateService`.
pub(super) fn check_inter_pod(
    object: &Object,
    spec: &GraphSpec,
    component: &ComponentSpec,
    faults: &mut AdmissionCollector<'_>,
) {
    if !component.shares_gpus_between_pods() {
        return;
    }
    let name = &component.name;
    let path = component_path(name).field("experimental").field("gpuMemoryService").field("mode");
    let subject = format!("spec.services[{name}]: gpuMemoryService.mode=\"interPod\"");
    if names::opts_out_of_grove(object) {
        faults.deny(
            rules::NEEDS_GROVE,
            path.clone(),
            format!("GPU memory between pods of `{name}` needs Grove, but an annotation of the model disables it"),
            format!("remove the annotation `{}`, or use mode IntraPod", annotation::ENABLE_GROVE),
            format!(
                "{subject} requires the Grove pathway; remove or unset the \"{}\" annotation (currently \"false\")",
                annotation::ENABLE_GROVE
            ),
        );
    } else {
        faults.deny_unless_met(
            PlatformRequirement::Grove,
            path.clone(),
            format!("GPU memory between pods of `{name}` needs an operator that runs on Grove"),
            "use mode IntraPod, or enable Grove and set `grove: true` under the environment's `platform` in \
             stator.yaml",
            format!(
                "{subject} requires the Grove pathway, but Grove is disabled at the operator level \
                 (global.grove.enabled=false)"
            ),
        );
    }
    faults.next_operator_check();
    if spec.backend_framework.as_deref() != Some("vllm") {
        let detected = spec.backend_framework.as_deref().filter(|word| !word.is_empty()).unwrap_or("<unset>");
        faults.deny(
            rules::MEMORY_SERVICE,
            path,
            format!("GPU memory between pods of `{name}` works with vLLM only; the graph's engine is {detected}"),
            "use `engine: vllm`, or mode IntraPod",
            format!(
                "spec.services[{name}]: the inter-pod GMS layout (gpuMemoryService.mode=\"interPod\") is currently \
                 supported only for vLLM (detected: {detected}); set spec.backendFramework=\"vllm\""
            ),
        );
    }
    faults.next_operator_check();
}

/// Source: the operator's `SharedSpecValidator`: `validateGPUMemoryService` and `validateFailover`.
pub(super) fn check(spec: &GraphSpec, component: &ComponentSpec, faults: &mut AdmissionCollector<'_>) {
    check_clients(spec, component, faults);
    check_checkpoint(spec, component, faults);
    let name = &component.name;
    let path = component_path(name).field("experimental");
    let gpus = component.pod_template.as_ref().map_or(0, gpus::pod_gpus);
    let service = component.experimental("gpuMemoryService");
    if service.is_some() {
        let help = "remove it, or give the component a worker's type and GPUs";
        let subject = format!("spec.services[{name}].gpuMemoryService: GPU memory service");
        if !component.is_worker() {
            faults.deny(
                rules::MEMORY_SERVICE,
                path.field("gpuMemoryService"),
                format!("a GPU memory service needs a worker, and `{name}` is not one"),
                help,
                format!(
                    "{subject} is only supported for worker components (componentType must be worker, prefill, or decode)"
                ),
            );
        } else if gpus == 0 {
            faults.deny(
                rules::MEMORY_SERVICE,
                path.field("gpuMemoryService"),
                format!("a GPU memory service needs at least one GPU, but `{name}` has none"),
                help,
                format!("{subject} requires resources.limits.gpu >= 1"),
            );
        }
        faults.next_operator_check();
    }
    let Some(failover) = component.experimental("failover").map(memory_mode) else { return };
    let path = path.field("failover");
    let help = "give `experimental.gpuMemoryService` the same mode";
    let service = service.map(memory_mode);
    if service != Some(failover) {
        let words = match (failover, service) {
            (INTER_POD, None) => format!(
                "spec.services[{name}].failover: interPod failover requires gpuMemoryService.enabled=true and \
                 gpuMemoryService.mode=\"interPod\""
            ),
            (INTER_POD, Some(found)) => format!(
                "spec.services[{name}].failover: interPod failover requires gpuMemoryService.mode=\"interPod\" (got \"{}\")",
                operator_spelling(found)
            ),
            (_, None) => format!(
                "spec.services[{name}].failover: intraPod failover requires gpuMemoryService.enabled to be true"
            ),
            (_, Some(found)) => format!(
                "spec.services[{name}].failover: failover.mode \"intraPod\" must match gpuMemoryService.mode \"{}\"",
                operator_spelling(found)
            ),
        };
        faults.deny(
            rules::FAILOVER,
            path.clone(),
            format!("failover of mode {failover} needs a GPU memory service of the same mode on `{name}`"),
            help,
            words,
        );
    }
    if failover != INTER_POD {
        return;
    }
    if gpus == 0 {
        faults.deny(
            rules::FAILOVER,
            path.clone(),
            format!("failover between pods needs at least one GPU, but `{name}` has none"),
            "give the component GPUs",
            format!("spec.services[{name}]: GMS failover requires at least 1 GPU in resources.limits.gpu"),
        );
    }
    if let Some(kind @ ("epp" | "frontend" | "planner")) = component.component_type.as_deref() {
        faults.deny(
            rules::FAILOVER,
            path,
            format!("`{name}` is of type {kind}, which has no failover"),
            "remove `failover`",
            format!("spec.services[{name}]: GMS failover is not supported for componentType \"{kind}\""),
        );
    }
}

/// Extra clients of the service are containers of the pod.
pub(super) fn check_clients(spec: &GraphSpec, component: &ComponentSpec, faults: &mut AdmissionCollector<'_>) {
    let clients = component.experimental("gpuMemoryService").and_then(|service| service.get("extraClientContainers"));
    let containers: Vec<&str> =
        component.containers().filter_map(|container| container.get("name")?.as_str()).collect();
    for (index, client) in clients.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let Some(client) = client.as_str().filter(|client| !containers.contains(client)) else { continue };
        let block = "experimental.gpuMemoryService.extraClientContainers";
        faults.deny_since(
            Behaviour::MemoryClientsChecked,
            rules::MEMORY_SERVICE,
            component_path(&component.name).field("experimental").field("gpuMemoryService").field("extraClientContainers"),
            format!("`{client}` is not a container of `{}`", component.name),
            "name a container under `template.spec.containers`",
            format!(
                "{}.{block}[{index}]: Invalid value: {client:?}: does not name a container in podTemplate.spec.containers",
                words_of(spec, component)
            ),
        );
    }
}

/// A checkpoint that is on needs an operator that makes them, and a worker without failover or memory between pods.
pub(super) fn check_checkpoint(spec: &GraphSpec, component: &ComponentSpec, faults: &mut AdmissionCollector<'_>) {
    let Some(checkpoint) = component.experimental("checkpoint").filter(|_| faults.has(Behaviour::CheckpointGated))
    else {
        return;
    };
    let path = component_path(&component.name).field("experimental").field("checkpoint");
    match checkpoint.get("enabled") {
        Some(Value::Bool(true)) => {}
        Some(_) => return,
        None => {
            faults.warn(
                rules::CHECKPOINT_SWITCH,
                path.field("enabled"),
                format!("the checkpoint of `{}` does not say `enabled`, and Dynamo switches it off", component.name),
                "write `enabled: true`, or `enabled: false`",
            );
            return;
        }
    }
    let words = format!("{}.experimental.checkpoint: Forbidden", words_of(spec, component));
    faults.deny_unless_met(
        PlatformRequirement::Checkpoints,
        path.field("enabled"),
        format!("the checkpoint of `{}` needs an operator whose chart has checkpoints enabled", component.name),
        "enable them in the operator's chart and set `checkpoints: true` under the environment's `platform` in stator.yaml; \
         or write `enabled: false`",
        format!("{words}: checkpoint functionality is disabled in the operator configuration"),
    );
    if component.experimental("failover").is_some() {
        faults.deny(
            rules::FAILOVER,
            path,
            format!("`{}` has a checkpoint and failover, which cannot be combined yet", component.name),
            "remove one of the two",
            format!("{words}: Snapshot with active/passive failover is temporarily unsupported"),
        );
    } else if component.shares_gpus_between_pods() {
        faults.deny(
            rules::MEMORY_SERVICE,
            path,
            format!("`{}` has a checkpoint and GPU memory between pods, which cannot be combined", component.name),
            "remove one of the two, or use mode IntraPod",
            format!("{words}: is not supported with gpuMemoryService.mode=\"InterPod\""),
        );
    }
}
