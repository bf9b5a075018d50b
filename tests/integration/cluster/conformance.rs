//! Scenarios that hold on every make of cluster.

use super::scenario::{Folder, apply, graph, live, try_apply, with};
use serde_json::json;
use stator::cluster::{ApplyOutcome, ApplyRequest, Cluster, ClusterError, Deleted, Preconditions};
use std::collections::BTreeMap;

#[tokio::test]
async fn a_created_object_gets_what_only_the_cluster_gives() {
    create(&Folder::new().cluster).await;
}

async fn create(cluster: &impl Cluster) {
    let applied = apply(cluster, graph("llama", 1)).await;
    assert_eq!(applied.outcome, ApplyOutcome::Created);
    assert_eq!(applied.object.generation(), Some(1));
    assert!(applied.object.uid().is_some_and(|uid| uid.len() == 36));
    assert!(applied.object.text("/metadata/creationTimestamp").is_some_and(|time| time.ends_with('Z')));
    assert!(applied.object.resource_version().is_some());
    assert_eq!(live(cluster, &applied.object).await, Some(applied.object));
}

#[tokio::test]
async fn only_a_change_of_the_spec_raises_the_generation() {
    generations(&Folder::new().cluster).await;
}

async fn generations(cluster: &impl Cluster) {
    let first = apply(cluster, graph("llama", 1)).await.object;
    let labelled = with(graph("llama", 1), |value| value["metadata"]["labels"]["team"] = json!("ads"));
    let second = apply(cluster, labelled).await;
    assert_eq!((second.outcome, second.object.generation()), (ApplyOutcome::Updated, Some(1)));
    let third = apply(cluster, with(graph("llama", 3), |v| v["metadata"]["labels"]["team"] = json!("ads"))).await;
    assert_eq!((third.outcome, third.object.generation()), (ApplyOutcome::Updated, Some(2)));
    assert_eq!(third.object.uid(), first.uid());
    let versions: Vec<u64> = [&first, &second.object, &third.object]
        .map(|object| object.resource_version().unwrap().parse().unwrap())
        .to_vec();
    assert!(versions.is_sorted() && versions[0] < versions[1] && versions[1] < versions[2], "{versions:?}");
}

#[tokio::test]
async fn a_second_apply_of_the_same_writes_nothing() {
    noop(&Folder::new().cluster).await;
}

async fn noop(cluster: &impl Cluster) {
    let first = apply(cluster, graph("llama", 1)).await.object;
    let second = apply(cluster, graph("llama", 1)).await;
    assert_eq!(second.outcome, ApplyOutcome::Unchanged);
    assert_eq!(second.object, first);
}

#[tokio::test]
async fn a_dry_run_tells_the_outcome_and_writes_nothing() {
    dry_run(&Folder::new().cluster).await;
}

async fn dry_run(cluster: &impl Cluster) {
    let request = ApplyRequest { dry_run: true, ..ApplyRequest::new(graph("llama", 1), "stator") };
    assert_eq!(cluster.apply(&request).await.unwrap().outcome, ApplyOutcome::Created);
    assert_eq!(live(cluster, &graph("llama", 1)).await, None);
}

#[tokio::test]
async fn an_apply_with_a_uid_never_creates_and_never_hits_a_namesake() {
    uid_preconditions(&Folder::new().cluster).await;
}

async fn uid_preconditions(cluster: &impl Cluster) {
    let meant = |uid: &str| {
        let uid = uid.to_owned();
        with(graph("llama", 2), move |value| value["metadata"]["uid"] = json!(uid))
    };
    let gone = "11111111-1111-4111-8111-111111111111";
    let error = try_apply(cluster, meant(gone), "stator").await.unwrap_err();
    assert!(matches!(error, ClusterError::Precondition { .. }), "{error}");
    let first = apply(cluster, graph("llama", 1)).await.object;
    let error = try_apply(cluster, meant(gone), "stator").await.unwrap_err();
    assert!(matches!(error, ClusterError::Precondition { .. }), "{error}");
    let hit = try_apply(cluster, meant(first.uid().unwrap()), "stator").await.unwrap();
    assert_eq!(hit.object.generation(), Some(2));
    let stale = with(graph("llama", 3), |v| v["metadata"]["resourceVersion"] = json!(first.resource_version()));
    let error = try_apply(cluster, stale, "stator").await.unwrap_err();
    assert!(matches!(error, ClusterError::Precondition { .. }), "{error}");
}

#[tokio::test]
async fn a_recreated_object_survives_a_stale_delete() {
    stale_delete(&Folder::new().cluster).await;
}

async fn stale_delete(cluster: &impl Cluster) {
    let first = apply(cluster, graph("llama", 1)).await.object;
    let reference = first.reference();
    let only = |object: &stator::object::Object| Preconditions {
        uid: object.uid().map(str::to_owned),
        resource_version: None,
    };
    assert_eq!(cluster.delete(&reference, &only(&first)).await.unwrap(), Deleted::Gone);
    assert_eq!(cluster.delete(&reference, &only(&first)).await.unwrap(), Deleted::Absent);
    let second = apply(cluster, graph("llama", 1)).await.object;
    assert_ne!(second.uid(), first.uid());
    let error = cluster.delete(&reference, &only(&first)).await.unwrap_err();
    assert!(matches!(error, ClusterError::Precondition { .. }), "{error}");
    let old = Preconditions { uid: None, resource_version: first.resource_version().map(str::to_owned) };
    assert!(matches!(cluster.delete(&reference, &old).await, Err(ClusterError::Precondition { .. })));
    assert_eq!(live(cluster, &second).await, Some(second));
}

#[tokio::test]
async fn an_object_with_a_finalizer_waits_for_it() {
    finalizers(&Folder::new().cluster).await;
}

async fn finalizers(cluster: &impl Cluster) {
    let held = with(graph("llama", 1), |value| value["metadata"]["finalizers"] = json!(["example.com/hold"]));
    let first = apply(cluster, held).await.object;
    let Deleted::Pending(pending) = cluster.delete(&first.reference(), &Preconditions::default()).await.unwrap() else {
        panic!("it did not wait");
    };
    assert!(pending.is_deleting());
    assert_eq!(pending.generation(), Some(2), "a delete that waits raises the generation");
    assert_eq!(pending.value()["metadata"]["deletionGracePeriodSeconds"], json!(0));
    let again = cluster.delete(&first.reference(), &Preconditions::default()).await.unwrap();
    assert_eq!(again, Deleted::Pending(pending), "a second delete changes nothing");
    let another =
        with(graph("llama", 1), |v| v["metadata"]["finalizers"] = json!(["example.com/hold", "example.com/more"]));
    let error = try_apply(cluster, another, "stator").await.unwrap_err();
    assert!(error.to_string().contains("no new finalizers can be added if the object is being deleted"), "{error}");
    apply(cluster, graph("llama", 1)).await;
    assert_eq!(live(cluster, &first).await, None, "the last finalizer took it along");
}

#[tokio::test]
async fn a_list_is_sorted_and_keeps_to_kind_namespace_and_labels() {
    list(&Folder::new().cluster).await;
}

async fn list(cluster: &impl Cluster) {
    for name in ["b", "c", "a"] {
        apply(cluster, graph(name, 1)).await;
    }
    let elsewhere = with(graph("d", 1), |value| {
        value["metadata"]["namespace"] = json!("dev");
        value["metadata"]["labels"]["team"] = json!("ads");
    });
    apply(cluster, elsewhere).await;
    let names = async |namespace: Option<&str>, labels: &[(&str, &str)]| {
        let labels: BTreeMap<String, String> = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let found = cluster.list(&stator::dynamo::kinds::GRAPH, namespace, &labels).await.unwrap();
        found.iter().map(|object| format!("{}/{}", object.namespace(), object.name())).collect::<Vec<_>>()
    };
    assert_eq!(names(None, &[]).await, ["dev/d", "prod/a", "prod/b", "prod/c"]);
    assert_eq!(names(Some("prod"), &[]).await, ["prod/a", "prod/b", "prod/c"]);
    assert_eq!(names(None, &[("team", "ads")]).await, ["dev/d"]);
    assert!(names(Some("nowhere"), &[]).await.is_empty());
    assert!(cluster.list(&stator::dynamo::kinds::CLAIM, None, &BTreeMap::new()).await.unwrap().is_empty());
}

fn worker_field(object: &stator::object::Object, field: &str) -> serde_json::Value {
    object.spec()["components"].as_array().unwrap().iter().find(|own| own["name"] == "worker").unwrap()[field].clone()
}

/// Another manager's claim to the worker's replicas, and nothing else.
fn only_replicas(name: &str, replicas: i64) -> stator::object::Object {
    super::scenario::object(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": name, "namespace": "prod"},
        "spec": {"components": [{"name": "worker", "replicas": replicas}]},
    }))
}

#[tokio::test]
async fn another_managers_field_is_a_conflict_that_names_both() {
    conflict(&Folder::new().cluster).await;
}

async fn conflict(cluster: &impl Cluster) {
    let first = apply(cluster, graph("llama", 1)).await.object;
    let error = try_apply(cluster, only_replicas("llama", 5), "kubectl-edit").await.unwrap_err();
    assert!(matches!(error, ClusterError::Conflict { .. }));
    insta::assert_snapshot!(error, @"DynamoGraphDeployment prod/llama: spec.components[name=worker].replicas is owned by stator");
    assert_eq!(live(cluster, &first).await, Some(first), "nothing was written");

    let request = ApplyRequest { force: true, ..ApplyRequest::new(only_replicas("llama", 5), "kubectl-edit") };
    assert_eq!(worker_field(&cluster.apply(&request).await.unwrap().object, "replicas"), 5);
    let error = try_apply(cluster, graph("llama", 1), "stator").await.unwrap_err();
    insta::assert_snapshot!(error, @"DynamoGraphDeployment prod/llama: spec.components[name=worker].replicas is owned by kubectl-edit");
}

#[tokio::test]
async fn a_field_that_is_left_out_goes_unless_somebody_else_wants_it() {
    omission(&Folder::new().cluster).await;
}

async fn omission(cluster: &impl Cluster) {
    let labelled =
        |labels: serde_json::Value| with(graph("llama", 1), move |value| value["metadata"]["labels"] = labels);
    apply(cluster, labelled(json!({"team": "search", "tier": "gold"}))).await;
    let shared = super::scenario::object(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "llama", "namespace": "prod", "labels": {"tier": "gold"}},
    }));
    try_apply(cluster, shared, "billing").await.unwrap();
    let after = apply(cluster, labelled(json!({}))).await.object;
    assert_eq!(after.labels(), BTreeMap::from([("tier", "gold")]));
}

#[tokio::test]
async fn the_same_value_is_shared_and_so_an_object_is_adopted() {
    adoption(&Folder::new().cluster).await;
}

async fn adoption(cluster: &impl Cluster) {
    let theirs = try_apply(cluster, graph("llama", 1), "helm").await.unwrap().object;
    let ours = try_apply(cluster, graph("llama", 1), "stator").await.unwrap();
    assert_eq!((ours.outcome, ours.object.generation()), (ApplyOutcome::Updated, Some(1)), "only the owners changed");
    assert_eq!(ours.object.uid(), theirs.uid());
    let mut managers: Vec<&str> = ours.object.value()["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["manager"].as_str().unwrap())
        .collect();
    managers.sort_unstable();
    assert_eq!(managers, ["helm", "stator"]);
}

#[tokio::test]
async fn what_the_schema_fills_in_is_no_drift() {
    defaulting(&Folder::new().cluster).await;
}

async fn defaulting(cluster: &impl Cluster) {
    let request = super::scenario::object(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentRequest",
        "metadata": {"name": "llama", "namespace": "prod"},
        "spec": {"model": "Qwen/Qwen3-0.6B", "image": "nvcr.io/nvidia/ai-dynamo/dynamo-planner:1.2.0"},
    }));
    let first = apply(cluster, request.clone()).await.object;
    assert_eq!((&first.spec()["backend"], &first.spec()["autoApply"]), (&json!("auto"), &json!(true)));
    assert_eq!(apply(cluster, request).await.outcome, ApplyOutcome::Unchanged);
}

#[tokio::test]
async fn what_the_schema_refuses_is_named_field_by_field() {
    refusals(&Folder::new().cluster).await;
}

async fn refusals(cluster: &impl Cluster) {
    let misspelt = with(graph("llama", 1), |value| value["spec"]["components"][1]["replica"] = json!(2));
    let error = try_apply(cluster, misspelt, "stator").await.unwrap_err();
    assert!(matches!(error, ClusterError::Invalid { .. }));
    insta::assert_snapshot!(error, @"DynamoGraphDeployment prod/llama is invalid: spec.components[name=worker].replica: field not declared in schema");
    let wrong = with(graph("llama", -1), |value| value["spec"]["backendFramework"] = json!("tgi"));
    let error = try_apply(cluster, wrong, "stator").await.unwrap_err().to_string();
    assert!(error.contains("backendFramework") && error.contains("\"tgi\""), "{error}");
    assert!(error.contains("greater than or equal to 0"), "{error}");
    let rule = with(graph("llama", 1), |value| value["spec"]["components"][1]["name"] = json!("FRONTEND"));
    let error = try_apply(cluster, rule, "stator").await.unwrap_err().to_string();
    assert!(error.contains("component names must be unique case-insensitively"), "{error}");
    assert_eq!(live(cluster, &graph("llama", 1)).await, None);
}

#[tokio::test]
async fn status_and_spec_are_written_apart() {
    status(&Folder::new().cluster).await;
}

async fn status(cluster: &impl Cluster) {
    let first = apply(cluster, with(graph("llama", 1), |v| v["status"] = json!({"state": "failed"}))).await.object;
    assert_ne!(first.status()["state"], "failed", "a create has no say about the status");
    let both = super::scenario::object(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "llama", "namespace": "prod"}, "status": {"state": "pending"},
    }));
    let request = ApplyRequest { status: true, ..ApplyRequest::new(both, "manager") };
    let written = cluster.apply(&request).await.unwrap().object;
    assert_eq!((written.status()["state"].as_str(), written.generation()), (Some("pending"), Some(1)));
    assert_eq!(written.spec(), first.spec());
    assert_eq!(apply(cluster, graph("llama", 1)).await.outcome, ApplyOutcome::Unchanged);
}
