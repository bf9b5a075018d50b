//! DynamoGraphDeployment at v1alpha1: the rules about fields that v1beta1 has no place for, and, once it is converted, all
//! the others.
//!
//! Source: the DGD webhook of release 1.2 (`validatePVCs`) and its `SharedSpecValidator`.

use super::{AdmissionCollector, Platform, graph, rules};
use crate::dynamo::conversion;
use crate::dynamo::release::Behaviour;
use crate::object::{FieldPath, Object, PathSegment};
use serde_json::Value;
use std::collections::BTreeMap;

/// The version that these rules are about.
pub(super) const API_VERSION: &str = "nvidia.com/v1alpha1";

pub(super) fn check(object: &Object, platform: &Platform, faults: &mut AdmissionCollector<'_>) {
    let services: BTreeMap<&str, &Value> = object
        .spec()
        .get("services")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, service)| (name.as_str(), service))
        .collect();
    if services.is_empty() {
        faults.deny(
            rules::NO_COMPONENTS,
            FieldPath::from_fields(["spec", "services"]),
            "the graph has no services",
            "add at least one",
            "spec.services must have at least one service",
        );
        return;
    }
    faults.next_operator_check();
    check_volumes(object, faults);
    for (name, service) in services {
        faults.next_operator_check();
        self::check_service(name, service, faults);
    }
    faults.next_operator_check();
    let before = faults.findings.len();
    // What cannot be converted has faults of form.
    if let Ok(beta) = conversion::convert(object.value(), platform.release())
        && let Ok(beta) = Object::from_value(beta.document)
    {
        graph::check(&beta, platform, faults);
    }
    for fault in faults.findings.iter_mut().skip(before) {
        fault.path = source_path(&fault.path);
    }
}

/// Where a field of the converted graph stands in the source: components are services there, and what is in them has other
/// names, so the service is named as a whole.
fn source_path(path: &FieldPath) -> FieldPath {
    match path.0.as_slice() {
        [PathSegment::Field(_), PathSegment::Field(components), PathSegment::Key(keys), ..]
            if components == "components" =>
        {
            let name = keys.get("name").map(ToString::to_string).unwrap_or_default();
            FieldPath::from_fields(["spec".to_owned(), "services".to_owned(), name])
        }
        _ => path.clone(),
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn is_enabled(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool).unwrap_or_default()
}

/// A list's item, as [`PathSegment::Index`] names it.
fn index_segment(path: &FieldPath, index: usize) -> FieldPath {
    path.join(PathSegment::Index(index))
}

fn check_volumes(object: &Object, faults: &mut AdmissionCollector<'_>) {
    let path = FieldPath::from_fields(["spec", "pvcs"]);
    let list = object.spec().get("pvcs").and_then(Value::as_array);
    for (index, volume) in list.into_iter().flatten().enumerate() {
        let own = index_segment(&path, index);
        if text(volume, "name").is_empty() {
            faults.deny(
                rules::ALPHA,
                own.field("name"),
                "the volume has no name",
                "give the claim's name",
                format!("spec.pvcs[{index}].name is required"),
            );
        }
        if !is_enabled(volume, "create") {
            continue;
        }
        for field in ["storageClass", "size", "volumeAccessMode"] {
            if volume.get(field).is_none_or(|value| value.is_null() || value == "" || value == "0") {
                faults.deny(
                    rules::ALPHA,
                    own.field(field),
                    format!("a volume that is to be created needs `{field}`"),
                    format!("give `{field}`, or set `create: false` and create the claim yourself"),
                    format!("spec.pvcs[{index}].{field} is required when create is true"),
                );
            }
        }
    }
}

fn check_service(name: &str, service: &Value, faults: &mut AdmissionCollector<'_>) {
    let path = FieldPath::from_fields(["spec", "services", name]);
    let subject = format!("spec.services[{name}]");
    if let Some(ingress) = service.get("ingress").filter(|ingress| is_enabled(ingress, "enabled"))
        && text(ingress, "host").is_empty()
    {
        faults.deny(
            rules::ALPHA,
            path.field("ingress").field("host"),
            format!("the ingress of `{name}` has no host"),
            "give `host`, or create your own Ingress",
            format!("{subject}.ingress.host is required when ingress is enabled"),
        );
    }
    faults.next_operator_check();
    let mounts = service.get("volumeMounts").and_then(Value::as_array);
    for (index, mount) in mounts.into_iter().flatten().enumerate() {
        if !is_enabled(mount, "useAsCompilationCache") && text(mount, "mountPoint").is_empty() {
            faults.deny(
                rules::ALPHA,
                index_segment(&path.field("volumeMounts"), index).field("mountPoint"),
                format!("a volume of `{name}` is mounted nowhere"),
                "give `mountPoint`, or `useAsCompilationCache: true`",
                format!("{subject}.volumeMounts[{index}].mountPoint is required when useAsCompilationCache is false"),
            );
        }
    }
    faults.next_operator_check();
    if let Some(memory) =
        service.get("sharedMemory").filter(|memory| memory.is_object() && !is_enabled(memory, "disabled"))
        && memory.get("size").is_none_or(|size| size.is_null() || size == "0" || size == "")
    {
        faults.deny(
            rules::ALPHA,
            path.field("sharedMemory").field("size"),
            format!("the shared memory of `{name}` has no size"),
            "give `size`, or `disabled: true`",
            format!("{subject}.sharedMemory.size is required when disabled is false"),
        );
    }
    faults.next_operator_check();
    let sidecar = "sidecar-frontend";
    let containers = service.pointer("/extraPodSpec/containers").and_then(Value::as_array);
    let taken = containers.into_iter().flatten().any(|container| text(container, "name") == sidecar);
    if service.get("frontendSidecar").is_some_and(Value::is_object) && taken {
        faults.deny(
            rules::ALPHA,
            path.field("extraPodSpec").field("containers"),
            format!("`{name}` has a container `{sidecar}` already, which is the name of the frontend sidecar"),
            "rename the container",
            format!(
                "{subject}: cannot inject frontend sidecar: a container named \"{sidecar}\" already exists in \
                 extraPodSpec.containers"
            ),
        );
    }
    faults.next_operator_check();
    let failover = service.get("failover").filter(|failover| is_enabled(failover, "enabled"));
    let shadows = failover.and_then(|failover| failover.get("numShadows")).and_then(Value::as_i64);
    if let Some(shadows) = shadows.filter(|shadows| *shadows != 1 && faults.has(Behaviour::PointedDenials))
        && failover.is_some_and(|failover| text(failover, "mode") != "interPod")
    {
        faults.deny(
            rules::FAILOVER,
            path.field("failover").field("numShadows"),
            format!("failover inside the pods of `{name}` has one shadow, not {shadows}"),
            "leave `numShadows` out, or use `mode: interPod`",
            format!("{subject}.failover.numShadows: Invalid value: {shadows}: is invalid for mode=\"intraPod\""),
        );
    }
    faults.next_operator_check();
    let executor = crate::dynamo::registry::annotation::VLLM_EXECUTOR;
    if let Some(value) = service.get("annotations").and_then(|all| all.get(executor)).and_then(Value::as_str)
        && !["mp", "ray"].iter().any(|word| value.eq_ignore_ascii_case(word))
    {
        faults.deny(
            rules::ANNOTATION,
            path.field("annotations").field(executor),
            format!("`{executor}` is `{value}`; allowed: `mp` and `ray`"),
            "write `mp` or `ray`, or remove the annotation",
            format!("{subject}.annotations[{executor}] has invalid value {value:?}: must be \"mp\" or \"ray\""),
        );
    }
}
