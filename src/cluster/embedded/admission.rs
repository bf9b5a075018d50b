//! What stands between a request and the storage beside the schema: the API server's own rule for claims, and, while
//! the operator is simulated, its webhooks.
//!
//! The webhooks' rules and messages are those of release 1.2 without Grove and without the inference gateway, which
//! `tests/data/dynamo/oracle/` was made with. They speak of services, since admission judges at v1alpha1. Left out,
//! because they need what this cluster has no notion of: cluster topologies, the GPU memory service, failover, EPP.

use crate::cluster::ClusterError;
use crate::dynamo::kinds::{ADAPTER, CLAIM, GRAPH, REQUEST};
use crate::object::ObjectRef;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The operator release that is simulated.
const RELEASE: &str = "1.2.0";
const ORIGIN: &str = "nvidia.com/dynamo-operator-origin-version";
/// The webhook lets the operator itself and the planner change replicas under a scaling adapter.
pub(super) const OPERATOR: &str = "manager";

/// The operator's mutating webhook, on create.
pub(super) fn mutate(kind: &str, value: &mut Value) {
    if kind == GRAPH.kind {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
            if let Some(map) = annotations.as_object_mut() {
                map.entry(ORIGIN).or_insert_with(|| json!(RELEASE));
            }
        }
        let components = value.pointer_mut("/spec/components").and_then(Value::as_array_mut);
        for component in components.into_iter().flatten().filter_map(Value::as_object_mut) {
            component.entry("replicas").or_insert_with(|| json!(1));
        }
    } else if kind == REQUEST.kind
        && let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.entry("image").or_insert_with(|| json!(format!("nvcr.io/nvidia/ai-dynamo/dynamo-planner:{RELEASE}")));
    }
}

/// Validating admission of a create or an update of the main resource.
pub(super) fn validate(
    object: &ObjectRef,
    old: Option<&Value>,
    new: &Value,
    manager: &str,
    operated: bool,
) -> Result<(), ClusterError> {
    if object.kind == CLAIM.kind {
        return old.map_or(Ok(()), |old| claim(object, old, new));
    }
    // The webhooks pass over what is being deleted.
    if !operated || new.pointer("/metadata/deletionTimestamp").is_some() {
        return Ok(());
    }
    let (hook, faults) = if object.kind == GRAPH.kind {
        ("vdynamographdeployment.kb.io", graph(old, new, manager))
    } else if object.kind == REQUEST.kind {
        ("vdynamographdeploymentrequest.kb.io", request(old, new))
    } else if object.kind == ADAPTER.kind {
        ("vdynamomodel.kb.io", model(old, new))
    } else {
        return Ok(());
    };
    if faults.is_empty() {
        return Ok(());
    }
    let message = format!("admission webhook \"{hook}\" denied the request: {}", faults.join("\n"));
    Err(ClusterError::Denied { object: object.clone(), message })
}

/// A claim's spec is frozen but for the size it asks for, which may grow.
fn claim(object: &ObjectRef, old: &Value, new: &Value) -> Result<(), ClusterError> {
    let rest = |value: &Value| {
        let mut spec = value.get("spec").cloned().unwrap_or_default();
        if let Some(requests) = spec.pointer_mut("/resources/requests").and_then(Value::as_object_mut) {
            requests.remove("storage");
        }
        spec
    };
    let size = |value: &Value| {
        let text = value.pointer("/spec/resources/requests/storage")?.as_str()?;
        amount(text)
    };
    let invalid = |path: &[&str], message: &str| {
        let path = crate::object::FieldPath::of(path.iter().copied());
        let cause = crate::cluster::InvalidField { path, message: message.to_owned() };
        Err(ClusterError::Invalid { object: object.clone(), causes: vec![cause] })
    };
    if rest(old) != rest(new) {
        let message = "Forbidden: spec is immutable after creation except resources.requests and \
                       volumeAttributesClassName for bound claims";
        return invalid(&["spec"], message);
    }
    if let (Some(old), Some(new)) = (size(old), size(new))
        && new < old
    {
        let path = ["spec", "resources", "requests", "storage"];
        return invalid(&path, "Forbidden: field can not be less than status.capacity");
    }
    Ok(())
}

/// A quantity as a number, near enough to tell which of two is less.
fn amount(text: &str) -> Option<f64> {
    const SUFFIXES: &[(&str, f64)] = &[
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("m", 0.001),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
    ];
    let found = SUFFIXES.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor)));
    let (number, factor) = found.unwrap_or((text, 1.0));
    number.parse::<f64>().ok().map(|number| number * factor)
}

type Components<'a> = BTreeMap<&'a str, &'a Value>;

fn components(value: &Value) -> Components<'_> {
    let list = value.pointer("/spec/components").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|own| Some((own.get("name")?.as_str()?, own))).collect()
}

fn graph(old: Option<&Value>, new: &Value, manager: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let now = components(new);
    if now.is_empty() {
        faults.push("spec.services must have at least one service".to_owned());
    }
    restart_order(new, &now, &mut faults);
    annotations(new, &mut faults);
    let Some(old) = old else { return faults };
    let was = components(old);
    let framework = |value: &Value| value.pointer("/spec/backendFramework").cloned();
    if framework(old) != framework(new) {
        faults.push("spec.backendFramework is immutable and cannot be changed after creation".to_owned());
    }
    let (before, after): (BTreeSet<&str>, BTreeSet<&str>) =
        (was.keys().copied().collect(), now.keys().copied().collect());
    if before != after {
        let list = |verb: &str, names: Vec<&str>| {
            (!names.is_empty()).then(|| format!("services {verb}: [{}]", names.join(" ")))
        };
        let parts = [
            list("added", after.difference(&before).copied().collect()),
            list("removed", before.difference(&after).copied().collect()),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let what = "service topology is immutable and cannot be modified after creation";
        faults.push(format!("{what}: {}", parts.join(", ")));
    }
    if old.pointer("/spec/topologyConstraint") != new.pointer("/spec/topologyConstraint") {
        faults.push(
            "spec.topologyConstraint is immutable and cannot be added, removed, or changed after creation; delete and \
             recreate the DynamoGraphDeployment to change topology constraints"
                .to_owned(),
        );
    }
    for (name, now) in &now {
        let Some(was) = was.get(name) else { continue };
        if was.get("multinode").is_some() != now.get("multinode").is_some() {
            faults.push(format!(
                "spec.services[{name}] cannot change node topology (between single-node and multi-node) after creation"
            ));
        }
        let replicas = |own: &Value| own.get("replicas").and_then(Value::as_i64).unwrap_or(1);
        // The adapter that counts is the one that is on before and after.
        let scaled = now.get("scalingAdapter").is_some();
        if scaled && replicas(was) != replicas(now) && manager != OPERATOR {
            faults.push(format!(
                "spec.services[{name}].replicas cannot be modified directly when scaling adapter is enabled; scale or \
                 update the related DynamoGraphDeploymentScalingAdapter instead"
            ));
        }
    }
    let phase = old.pointer("/status/rollingUpdate/phase").and_then(Value::as_str);
    let restart = |value: &Value| value.pointer("/spec/restart/id").cloned();
    if let Some(phase @ ("Pending" | "InProgress")) = phase
        && restart(old) != restart(new)
    {
        faults.push(format!("spec.restart.id cannot be changed while a rolling update is {phase}"));
    }
    faults
}

fn restart_order(new: &Value, components: &Components<'_>, faults: &mut Vec<String>) {
    let Some(strategy) = new.pointer("/spec/restart/strategy") else { return };
    let order: Vec<&str> =
        strategy.get("order").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    if order.is_empty() {
        return;
    }
    if strategy.get("type").and_then(Value::as_str) == Some("Parallel") {
        faults.push("spec.restart.strategy.order cannot be specified when strategy is parallel".to_owned());
        return;
    }
    let unique: BTreeSet<&str> = order.iter().copied().collect();
    if unique.len() != order.len() {
        faults.push("spec.restart.strategy.order must be unique".to_owned());
    }
    if unique.len() != components.len() {
        faults.push(
            "spec.restart.strategy.order must have the same number of unique services as the deployment".to_owned(),
        );
    }
    for name in order.iter().filter(|name| !components.contains_key(*name)) {
        faults.push(format!("spec.restart.strategy.order contains unknown service: {name}"));
    }
}

fn annotations(new: &Value, faults: &mut Vec<String>) {
    let value = |name: &str| new.pointer("/metadata/annotations").and_then(|all| all.get(name)).and_then(Value::as_str);
    let choices = [
        ("nvidia.com/vllm-distributed-executor-backend", ["mp", "ray"]),
        ("nvidia.com/dynamo-kube-discovery-mode", ["pod", "container"]),
    ];
    if let Some(version) = value(ORIGIN).filter(|version| !is_version(version)) {
        faults.push(format!("annotation {ORIGIN} has invalid value {version:?}: must be valid semver"));
    }
    for (name, [one, other]) in choices {
        if let Some(found) = value(name).filter(|found| *found != one && *found != other) {
            faults.push(format!("annotation {name} has invalid value {found:?}: must be {one:?} or {other:?}"));
        }
    }
}

/// Three numbers, and whatever may follow them.
fn is_version(text: &str) -> bool {
    let core = text.split(['-', '+']).next().unwrap_or_default();
    let parts: Vec<&str> = core.split('.').collect();
    parts.len() == 3 && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

fn request(old: Option<&Value>, new: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let text = |pointer: &str| new.pointer(pointer).and_then(Value::as_str);
    if text("/spec/searchStrategy") == Some("thorough") && matches!(text("/spec/backend"), None | Some("auto")) {
        faults.push(
            "spec.searchStrategy \"thorough\" is incompatible with spec.backend \"auto\": set spec.backend to a \
             specific backend (sglang, trtllm, or vllm)"
                .to_owned(),
        );
    }
    let phase = old.and_then(|old| old.pointer("/status/phase")).and_then(Value::as_str);
    if let (Some(old), Some(phase @ ("Profiling" | "Deploying" | "Deployed"))) = (old, phase)
        && old.get("spec") != new.get("spec")
    {
        faults.push(format!(
            "spec updates are forbidden while the resource is in phase \"{phase}\"; delete and recreate the resource"
        ));
    }
    faults
}

fn model(old: Option<&Value>, new: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let text = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    if text(new, "/spec/modelType").as_deref() == Some("lora") {
        match (new.pointer("/spec/source"), text(new, "/spec/source/uri").unwrap_or_default()) {
            (None, _) => faults.push("spec.source is required when modelType is 'lora'".to_owned()),
            (Some(_), uri) if uri.is_empty() => {
                faults.push("spec.source.uri must be specified when modelType is 'lora'".to_owned());
            }
            (Some(_), uri) if !uri.starts_with("s3://") && !uri.starts_with("hf://") => {
                faults.push(format!("source URI must start with 's3://' or 'hf://', got: {uri}"));
            }
            (Some(_), _) => {}
        }
    }
    if let Some(old) = old {
        for field in ["modelType", "baseModelName"] {
            let pointer = format!("/spec/{field}");
            if text(old, &pointer) != text(new, &pointer) {
                faults.push(format!("spec.{field} is immutable and cannot be changed after creation"));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;

    fn lines(name: &str) -> Vec<Value> {
        let path = format!("{}/tests/data/dynamo/oracle/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
        let text = fs_err::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn verdict(old: Option<&Value>, new: &Value) -> Option<String> {
        let reference = Object::from_value(new.clone()).unwrap().reference();
        let error = validate(&reference, old, new, "stator", true).err()?;
        let ClusterError::Denied { message, .. } = error else { panic!("{error}") };
        Some(message)
    }

    #[test]
    fn updates_are_judged_as_the_operators_admission_judges_them() {
        let mut judged = 0;
        for case in lines("updates") {
            let found = verdict(Some(&case["old"]), &case["new"]);
            let want = case["denied"].as_str();
            let prefix = "admission webhook \"vdynamographdeployment.kb.io\" denied the request: ";
            let found = found.as_deref().map(|text| text.trim_start_matches(prefix));
            assert_eq!(found, want, "{}", case["name"]);
            judged += 1;
        }
        assert_eq!(judged, 168);
    }

    #[test]
    fn creates_are_denied_in_the_same_words_but_for_what_is_left_out() {
        let left_out = ["EPP", "failover", "topology", "gpuMemoryService", "GMS", "gpu memory"];
        let mut denied = 0;
        for case in lines("creates") {
            let Some(want) = case["denied"].as_str().filter(|text| text.starts_with("admission webhook")) else {
                continue;
            };
            if left_out.iter().any(|word| want.contains(word)) {
                continue;
            }
            assert_eq!(verdict(None, &case["object"]).as_deref(), Some(want), "{}", case["name"]);
            denied += 1;
        }
        assert!(denied > 20, "{denied}");
        for case in lines("creates").iter().filter(|case| case["admitted"] == true) {
            let named = ["apiVersion", "kind"].iter().all(|field| case["object"][field].is_string());
            if named && case["object"]["metadata"]["namespace"].is_string() {
                assert_eq!(verdict(None, &case["object"]), None, "{}", case["name"]);
            }
        }
    }

    fn claim_of(size: &str, class: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "cache", "namespace": "prod"},
            "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}},
        })
    }

    #[test]
    fn a_claim_may_grow_and_nothing_else() {
        let judge = |new: Value| {
            let old = claim_of("500Gi", "fast");
            let reference = Object::from_value(new.clone()).unwrap().reference();
            validate(&reference, Some(&old), &new, "stator", false).map_err(|error| error.to_string())
        };
        assert_eq!(judge(claim_of("1Ti", "fast")), Ok(()));
        assert!(judge(claim_of("100Gi", "fast")).unwrap_err().contains("can not be less"));
        assert!(judge(claim_of("500Gi", "slow")).unwrap_err().contains("immutable after creation"));
    }

    #[test]
    fn replicas_under_a_scaling_adapter_belong_to_it() {
        let graph = |replicas: i64| {
            json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
                "metadata": {"name": "g", "namespace": "prod"},
                "spec": {"components": [{"name": "worker", "replicas": replicas, "scalingAdapter": {}}]}})
        };
        let denied = verdict(Some(&graph(1)), &graph(2)).unwrap();
        assert!(denied.contains("replicas cannot be modified directly when scaling adapter is enabled"), "{denied}");
        let reference = Object::from_value(graph(2)).unwrap().reference();
        assert_eq!(validate(&reference, Some(&graph(1)), &graph(2), OPERATOR, true), Ok(()));
    }

    #[test]
    fn a_request_is_frozen_while_it_works() {
        let request = |phase: &str, isl: i64| {
            json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentRequest",
                "metadata": {"name": "r", "namespace": "prod"},
                "spec": {"model": "m", "backend": "vllm", "workload": {"isl": isl}}, "status": {"phase": phase}})
        };
        for phase in ["Profiling", "Deploying", "Deployed"] {
            assert!(verdict(Some(&request(phase, 1)), &request(phase, 2)).unwrap().contains(phase));
        }
        for phase in ["Pending", "Ready", "Failed"] {
            assert_eq!(verdict(Some(&request(phase, 1)), &request(phase, 2)), None, "{phase}");
        }
    }
}
