//! What the schema fills in, and what it refuses.

use crate::cluster::place::{Place, on_every_cluster_and_make};
use crate::cluster::scenario::{apply, live, try_apply, with};
use serde_json::json;
use stator_cluster::cluster::{ApplyOutcome, ClusterError};

on_every_cluster_and_make! {
    what_the_schema_fills_in_is_no_change,
    what_the_schema_refuses_is_named_field_by_field,
    a_claim_may_grow_and_change_nothing_else,
}

async fn what_the_schema_fills_in_is_no_change(place: &impl Place) {
    let request = place.object(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentRequest",
        "metadata": {"name": "llama"},
        "spec": {"model": "Qwen/Qwen3-0.6B", "image": "nvcr.io/nvidia/ai-dynamo/dynamo-planner:1.2.0"},
    }));
    let first = apply(place.cluster(), request.clone()).await.object;
    assert_eq!((&first.spec()["backend"], &first.spec()["autoApply"]), (&json!("auto"), &json!(true)));
    assert_eq!(apply(place.cluster(), request).await.outcome, ApplyOutcome::Unchanged);
}

async fn what_the_schema_refuses_is_named_field_by_field(place: &impl Place) {
    let cluster = place.cluster();
    let misspelt = with(place.graph("llama", 1), |value| value["spec"]["components"][1]["replica"] = json!(2));
    let error = try_apply(cluster, misspelt, "stator").await.unwrap_err();
    assert!(matches!(error, ClusterError::Invalid { .. }), "{error:?}");
    insta::allow_duplicates! {
        insta::assert_snapshot!(place.said(error), @"DynamoGraphDeployment prod/llama is invalid: spec.components[name=worker].replica: field not declared in schema");
    }
    let wrong = with(place.graph("llama", -1), |value| value["spec"]["backendFramework"] = json!("tgi"));
    let error = try_apply(cluster, wrong, "stator").await.unwrap_err().to_string();
    assert!(error.contains("backendFramework") && error.contains("\"tgi\""), "{error}");
    assert!(error.contains("greater than or equal to 0"), "{error}");
    let rule = with(place.graph("llama", 1), |value| value["spec"]["components"][1]["name"] = json!("FRONTEND"));
    let error = try_apply(cluster, rule, "stator").await.unwrap_err().to_string();
    assert!(error.contains("component names must be unique case-insensitively"), "{error}");
    assert_eq!(live(cluster, &place.graph("llama", 1)).await, None);
}

async fn a_claim_may_grow_and_change_nothing_else(place: &impl Place) {
    let cluster = place.cluster();
    let claim = |size: &str, mode: &str| {
        place.object(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "weights"},
            "spec": {"accessModes": [mode], "resources": {"requests": {"storage": size}}},
        }))
    };
    let first = apply(cluster, claim("10Gi", "ReadWriteMany")).await.object;
    // An API server stores a new claim once more at its second apply, though nothing of it is another; from then on not.
    let settled = apply(cluster, claim("10Gi", "ReadWriteMany")).await.object;
    assert_eq!((settled.spec(), settled.uid()), (first.spec(), first.uid()));
    assert_eq!(apply(cluster, claim("10Gi", "ReadWriteMany")).await.outcome, ApplyOutcome::Unchanged);
    let error = try_apply(cluster, claim("10Gi", "ReadWriteOnce"), "stator").await.unwrap_err();
    assert!(matches!(error, ClusterError::Invalid { .. }), "{error:?}");
    assert!(error.to_string().contains("immutable after creation"), "{error}");
    assert_eq!(live(cluster, &settled).await, Some(settled));
}
