//! Who owns which field, and what that means for others.

use crate::cluster::place::{Place, on_every_cluster_and_make};
use crate::cluster::scenario::{apply, live, try_apply, with};
use serde_json::{Value, json};
use stator_cluster::cluster::{ApplyOutcome, ApplyRequest, Cluster, ClusterError};
use stator_core::object::Object;
use std::collections::BTreeMap;

on_every_cluster_and_make! {
    another_managers_field_is_a_conflict_that_names_both,
    an_edit_takes_the_field_from_whoever_applied_it,
    a_field_that_is_left_out_goes_unless_somebody_else_wants_it,
    the_same_value_is_shared_and_so_an_object_is_adopted,
}

fn worker_field(object: &Object, field: &str) -> Value {
    object.spec()["components"].as_array().unwrap().iter().find(|own| own["name"] == "worker").unwrap()[field].clone()
}

/// Another manager's claim to the worker's replicas, and nothing else.
fn only_replicas(place: &impl Place, replicas: i64) -> Object {
    place.object(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "llama"},
        "spec": {"components": [{"name": "worker", "replicas": replicas}]},
    }))
}

fn managers(object: &Object) -> Vec<&str> {
    let entries = object.value()["metadata"]["managedFields"].as_array().unwrap();
    let mut managers: Vec<&str> = entries.iter().map(|entry| entry["manager"].as_str().unwrap()).collect();
    managers.sort_unstable();
    managers
}

async fn another_managers_field_is_a_conflict_that_names_both(place: &impl Place) {
    let cluster = place.cluster();
    let first = apply(cluster, place.graph("llama", 1)).await.object;
    let error = try_apply(cluster, only_replicas(place, 5), "kubectl-edit").await.unwrap_err();
    assert!(matches!(error, ClusterError::Conflict { .. }));
    insta::allow_duplicates! {
        insta::assert_snapshot!(place.said(error), @"DynamoGraphDeployment prod/llama: spec.components[name=worker].replicas is owned by stator");
    }
    assert_eq!(live(cluster, &first).await, Some(first), "nothing was written");

    let request = ApplyRequest { force: true, ..ApplyRequest::new(only_replicas(place, 5), "kubectl-edit") };
    assert_eq!(worker_field(&cluster.apply(&request).await.unwrap().object, "replicas"), 5);
    let error = try_apply(cluster, place.graph("llama", 1), "stator").await.unwrap_err();
    insta::allow_duplicates! {
        insta::assert_snapshot!(place.said(error), @"DynamoGraphDeployment prod/llama: spec.components[name=worker].replicas is owned by kubectl-edit");
    }
}

async fn an_edit_takes_the_field_from_whoever_applied_it(place: &impl Place) {
    let cluster = place.cluster();
    let first = apply(cluster, place.graph("llama", 1)).await.object;
    place.edit(&first.reference(), "keda", |value| value["spec"]["components"][1]["replicas"] = json!(8)).await;
    let error = try_apply(cluster, place.graph("llama", 1), "stator").await.unwrap_err();
    insta::allow_duplicates! {
        insta::assert_snapshot!(place.said(error), @"DynamoGraphDeployment prod/llama: spec.components[name=worker].replicas is owned by keda");
    }
    // Who gives the field up leaves it as it is.
    let without = with(place.graph("llama", 1), |value| {
        value["spec"]["components"][1].as_object_mut().unwrap().remove("replicas");
    });
    let given_up = apply(cluster, without).await;
    assert_eq!(worker_field(&given_up.object, "replicas"), 8);
    // And who wants the same is an owner beside them.
    let agreed = apply(cluster, place.graph("llama", 8)).await;
    assert_eq!(agreed.object.generation(), given_up.object.generation());
    assert_eq!(apply(cluster, place.graph("llama", 8)).await.outcome, ApplyOutcome::Unchanged);
}

async fn a_field_that_is_left_out_goes_unless_somebody_else_wants_it(place: &impl Place) {
    let cluster = place.cluster();
    let labelled = |labels: Value| with(place.graph("llama", 1), move |value| value["metadata"]["labels"] = labels);
    apply(cluster, labelled(json!({"team": "search", "tier": "gold"}))).await;
    let shared = place.object(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "llama", "labels": {"tier": "gold"}},
    }));
    try_apply(cluster, shared, "billing").await.unwrap();
    let after = apply(cluster, labelled(json!({}))).await.object;
    assert_eq!(after.labels(), BTreeMap::from([("tier", "gold")]));
}

async fn the_same_value_is_shared_and_so_an_object_is_adopted(place: &impl Place) {
    let cluster = place.cluster();
    let theirs = try_apply(cluster, place.graph("llama", 1), "helm").await.unwrap().object;
    let ours = try_apply(cluster, place.graph("llama", 1), "stator").await.unwrap();
    assert_eq!((ours.outcome, ours.object.generation()), (ApplyOutcome::Updated, Some(1)), "only the owners changed");
    assert_eq!(ours.object.uid(), theirs.uid());
    assert_eq!(managers(&ours.object), ["helm", "stator"]);
}
