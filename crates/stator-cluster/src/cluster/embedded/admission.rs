//! What stands between a request and the storage beside the schema while the operator is simulated: its webhooks.
//!
//! Their rules and words are those of [`stator_core::dynamo::admission`], by which `validate` and `plan` judge too. What
//! depends on the cluster is let pass: this one stands for one that has what a graph needs.

use crate::cluster::ClusterError;
use serde_json::Value;
use stator_core::dynamo::admission::{self, Platform, UpdateAuthor};
use stator_core::dynamo::kinds::{ADAPTER, GRAPH, REQUEST};
use stator_core::dynamo::release::Release;
use stator_core::object::{Object, ObjectRef};

/// The webhook lets the operator itself and the planner change replicas under a scaling adapter.
pub(super) const OPERATOR_MANAGER: &str = "manager";

/// The operator's mutating webhook.
pub(super) fn mutate(kind: &str, release: Release, is_create: bool, value: &mut Value) {
    if is_create {
        let platform = Platform { dynamo: Some(release), ..Platform::default() };
        admission::fill_on_create(kind, value, &platform, &format!("{}.0", release.nearest_known()));
    } else if kind == GRAPH.kind {
        admission::fill_on_write(value, release);
    }
}

/// Validating admission of a create or an update of the main resource.
pub(super) fn validate(
    object: &ObjectRef,
    old: Option<&Value>,
    new: &Value,
    manager: &str,
    operated: Option<Release>,
) -> Result<(), ClusterError> {
    // The webhooks pass over what is being deleted.
    let Some(release) = operated.filter(|_| new.pointer("/metadata/deletionTimestamp").is_none()) else {
        return Ok(());
    };
    let platform = Platform { dynamo: Some(release), ..Platform::default() };
    let Some(said) = denial(old, new, manager, &platform) else { return Ok(()) };
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
    let mut refusals = admission::check_operator_webhooks(&new, platform);
    if let Some(old) = old {
        // What has no version to be read is refused once it changes.
        refusals.retain(|refusal| refusal.image_tag.is_none() || changes_image(old, new.value()));
    }
    let as_such = admission::denial_message(&refusals);
    as_such.or_else(|| {
        let old = Object::from_value(old?.clone()).ok()?;
        let writer = if manager == OPERATOR_MANAGER { UpdateAuthor::Operator } else { UpdateAuthor::User };
        admission::denial_message(&admission::check_update(&old, &new, writer, platform.release()))
    })
}

/// Whether an image, or the version that is given of it, differs anywhere in a spec.
fn changes_image(old: &Value, new: &Value) -> bool {
    fn images(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(name, below)| match (name.as_str(), below) {
                ("image" | "runtimeVersionOverride", Value::String(text)) => found.push(text.clone()),
                (_, below) => images(below, found),
            }),
            Value::Array(items) => items.iter().for_each(|item| images(item, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let (mut before, mut after) = (Vec::new(), Vec::new());
    images(&old["spec"], &mut before);
    images(&new["spec"], &mut after);
    before != after
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use stator_core::object::Object;

    fn lines(name: &str) -> Vec<Value> {
        let path = format!("{}/tests/data/dynamo/oracle/{name}.jsonl", concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let text = fs_err::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn verdict(old: Option<&Value>, new: &Value) -> Option<String> {
        let reference = Object::from_value(new.clone()).unwrap().reference();
        let error = validate(&reference, old, new, "stator", Some(Release::V1_2)).err()?;
        let ClusterError::Denied { message, .. } = error else { panic!("{error}") };
        Some(message)
    }

    /// The cluster that the verdicts come from: neither Grove, nor LeaderWorkerSet, nor the inference gateway.
    fn bare() -> Platform {
        Platform { dynamo: Some(Release::V1_2), ..Platform::from_api_groups([]) }
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
        assert_eq!(validate(&reference, Some(&graph(1)), &graph(2), OPERATOR_MANAGER, Some(Release::V1_2)), Ok(()));
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
