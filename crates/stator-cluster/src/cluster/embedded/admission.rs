//! What stands between a request and the storage beside the schema while the operator is simulated: its webhooks.
//!
//! Their rules and words are those of [`stator_core::dynamo::admission`], by which `validate` and `plan` judge too. What
//! depends on the cluster is let pass: this one stands for one that has what a graph needs.

use crate::cluster::ClusterError;
use serde_json::{Map, Value, json};
use stator_core::dynamo::admission::{self, Platform, UpdateAuthor};
use stator_core::dynamo::graph_components::components_mut;
use stator_core::dynamo::kinds::{ADAPTER, GRAPH, REQUEST};
use stator_core::object::{Object, ObjectRef};

/// The operator release that is simulated.
const RELEASE: &str = "1.2.0";
const ORIGIN_VERSION_ANNOTATION: &str = "nvidia.com/dynamo-operator-origin-version";
/// The webhook lets the operator itself and the planner change replicas under a scaling adapter.
pub(super) const OPERATOR_MANAGER: &str = "manager";

/// The operator's mutating webhook, on create.
pub(super) fn mutate(kind: &str, value: &mut Value) {
    if kind == GRAPH.kind {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
            if let Some(map) = annotations.as_object_mut() {
                map.entry(ORIGIN_VERSION_ANNOTATION).or_insert_with(|| json!(RELEASE));
            }
        }
        for component in components_mut(value) {
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
    // The webhooks pass over what is being deleted.
    if !operated || new.pointer("/metadata/deletionTimestamp").is_some() {
        return Ok(());
    }
    let Some(said) = denial(old, new, manager, &Platform::default()) else { return Ok(()) };
    let hook = if object.kind == GRAPH.kind {
        "vdynamographdeployment.kb.io"
    } else if object.kind == REQUEST.kind {
        "vdynamographdeploymentrequest.kb.io"
    } else if object.kind == ADAPTER.kind {
        "vdynamomodel.kb.io"
    } else {
        return Ok(());
    };
    let message = format!("admission webhook \"{hook}\" denied the request: {said}");
    Err(ClusterError::Denied { object: object.clone(), message })
}

/// What the webhooks say, when they deny.
fn denial(old: Option<&Value>, new: &Value, manager: &str, platform: &Platform) -> Option<String> {
    let new = Object::from_value(new.clone()).ok()?;
    let as_such = admission::denial_message(&admission::check_operator_webhooks(&new, platform));
    as_such.or_else(|| {
        let old = Object::from_value(old?.clone()).ok()?;
        let writer = if manager == OPERATOR_MANAGER { UpdateAuthor::Operator } else { UpdateAuthor::User };
        admission::denial_message(&admission::check_update(&old, &new, writer))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use stator_core::object::Object;

    fn lines(name: &str) -> Vec<Value> {
        let path = format!("{}/tests/data/dynamo/oracle/{name}.jsonl", concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let text = fs_err::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn verdict(old: Option<&Value>, new: &Value) -> Option<String> {
        let reference = Object::from_value(new.clone()).unwrap().reference();
        let error = validate(&reference, old, new, "stator", true).err()?;
        let ClusterError::Denied { message, .. } = error else { panic!("{error}") };
        Some(message)
    }

    /// The cluster that the verdicts come from: neither Grove, nor LeaderWorkerSet, nor the inference gateway.
    fn bare() -> Platform {
        Platform::from_api_groups([])
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
    fn creates_are_denied_in_the_same_words() {
        let mut denied = 0;
        for case in lines("creates") {
            let Some((_, want)) = case["denied"].as_str().and_then(|text| text.split_once("denied the request: "))
            else {
                continue;
            };
            assert_eq!(denial(None, &case["object"], "stator", &bare()).as_deref(), Some(want), "{}", case["name"]);
            denied += 1;
        }
        assert_eq!(denied, 37);
        for case in lines("creates").iter().filter(|case| case["admitted"] == true) {
            assert_eq!(denial(None, &case["object"], "stator", &bare()), None, "{}", case["name"]);
        }
    }

    #[test]
    fn manifests_are_denied_in_the_same_words() {
        let mut denied = 0;
        for mut case in lines("manifests").into_iter().filter(|case| case["v1beta1"].is_object()) {
            case["v1beta1"]["metadata"]["namespace"] = json!("default");
            // These verdicts come from the validators alone, which were not configured with an inference gateway.
            let platform = Platform { inference_gateway: Some(true), ..bare() };
            let found = denial(None, &case["v1beta1"], "stator", &platform);
            assert_eq!(found.as_deref(), case["denied"].as_str(), "{}", case["file"]);
            denied += usize::from(found.is_some());
        }
        assert_eq!(denied, 5);
    }

    #[test]
    fn what_depends_on_the_cluster_is_let_pass() {
        for case in lines("creates").iter().filter(|case| {
            case["denied"].as_str().is_some_and(|said| said.contains("InferencePool") || said.contains("Grove pathway"))
        }) {
            let name = case["name"].as_str().unwrap();
            // A picker without settings is refused everywhere, and so is GPU memory between pods of another engine.
            let everywhere = name.contains("without config") || name.contains("type epp") || name.contains("sglang");
            assert_eq!(verdict(None, &case["object"]).is_some(), everywhere, "{name}");
        }
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
        assert_eq!(validate(&reference, Some(&graph(1)), &graph(2), OPERATOR_MANAGER, true), Ok(()));
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
