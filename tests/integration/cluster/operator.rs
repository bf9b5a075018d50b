//! The simulated operator on a live folder: the whole way from an apply to a status.

use super::scenario::{Folder, apply, graph, live, object, try_apply, with};
use crate::testbed::eventually;
use serde_json::{Value, json};
use stator_cluster::cluster::embedded::operator::{OperatorHandle, SimulatedOperator};
use stator_cluster::cluster::embedded::{EmbeddedCluster, ObjectPart};
use stator_cluster::cluster::{Cluster, ClusterError, DeleteOutcome, Preconditions};
use stator_core::dynamo::kinds;
use stator_core::object::{Object, ObjectRef};

fn operated() -> (Folder, OperatorHandle) {
    let folder = Folder::new();
    let handle = SimulatedOperator::start(folder.cluster.clone(), 200.0);
    (folder, handle)
}

/// Waits until an object is as it should be.
async fn until(
    cluster: &EmbeddedCluster,
    reference: &ObjectRef,
    what: &str,
    good: impl Fn(Option<&Object>) -> bool,
) -> Option<Object> {
    eventually(what, async || {
        let now = cluster.get(reference).await.unwrap();
        if good(now.as_ref()) { Ok(now) } else { Err(move || format!("{now:?}")) }
    })
    .await
}

async fn successful(cluster: &EmbeddedCluster, object: &Object) -> Object {
    let generation = object.generation().unwrap();
    let good = |now: Option<&Object>| {
        now.is_some_and(|now| now.status()["state"] == "successful" && now.status()["observedGeneration"] == generation)
    };
    until(cluster, &object.reference(), "successful", good).await.unwrap()
}

#[tokio::test]
async fn a_graph_comes_up_rolls_and_goes() {
    let (folder, _operator) = operated();
    let cluster = &folder.cluster;
    let first = apply(cluster, graph("llama", 2)).await.object;
    let up = successful(cluster, &first).await;
    assert_eq!(up.finalizers(), [kinds::OPERATOR_FINALIZER]);
    assert_eq!(up.annotations()["nvidia.com/dynamo-operator-origin-version"], "1.2.0");
    let hash = up.annotations()["nvidia.com/current-worker-hash"].to_owned();
    assert_eq!(up.status()["components"]["worker"]["readyReplicas"], 2);

    let changed = with(graph("llama", 2), |value| {
        value["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["args"][1] = json!("Qwen/Qwen3-8B");
    });
    let second = apply(cluster, changed.clone()).await.object;
    let rolled = successful(cluster, &second).await;
    assert_eq!(rolled.status()["rollingUpdate"]["phase"], "Completed");
    assert_ne!(rolled.annotations()["nvidia.com/current-worker-hash"], hash);
    let again = apply(cluster, changed).await;
    assert_eq!(again.outcome, stator_cluster::cluster::ApplyOutcome::Unchanged, "nothing of the operator's is drift");

    let gone = cluster.delete(&rolled.reference(), &Preconditions::default()).await.unwrap();
    assert!(matches!(gone, DeleteOutcome::Pending(_)));
    until(cluster, &rolled.reference(), "gone", |now| now.is_none()).await;
}

#[tokio::test]
async fn a_broken_image_never_becomes_ready_and_never_fails() {
    let (folder, _operator) = operated();
    let broken = with(graph("llama", 1), |value| {
        value["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["image"] =
            json!("example.com/broken:1.0.0");
    });
    let first = apply(&folder.cluster, broken).await.object;
    let ready =
        |now: Option<&Object>| now.is_some_and(|now| now.status()["components"]["frontend"]["readyReplicas"] == 1);
    until(&folder.cluster, &first.reference(), "half ready", ready).await;
    // One that came later is through, and it is not.
    let later = apply(&folder.cluster, graph("qwen", 1)).await.object;
    successful(&folder.cluster, &later).await;
    let stuck = live(&folder.cluster, &first).await.unwrap();
    assert_eq!(stuck.status()["state"], "pending");
    let fixed = apply(&folder.cluster, graph("llama", 1)).await.object;
    successful(&folder.cluster, &fixed).await;
}

#[tokio::test]
async fn a_scaling_adapter_scales_its_component_and_goes_with_the_graph() {
    let (folder, _operator) = operated();
    let cluster = &folder.cluster;
    let scaled = with(graph("llama", 1), |value| {
        let worker = value["spec"]["components"][1].as_object_mut().unwrap();
        worker.insert("scalingAdapter".into(), json!({}));
        worker.remove("replicas");
    });
    let first = apply(cluster, scaled.clone()).await.object;
    assert_eq!(first.spec()["components"][1]["replicas"], 1, "the webhook's default");
    let first = successful(cluster, &first).await;
    let adapter = ObjectRef {
        api_version: kinds::SCALING_ADAPTER.api_version(),
        kind: kinds::SCALING_ADAPTER.kind.into(),
        namespace: "prod".into(),
        name: "llama-worker".into(),
    };
    until(cluster, &adapter, "made", |now| now.is_some_and(|now| now.spec()["replicas"] == 1)).await;

    let by_hand = with(scaled.clone(), |value| value["spec"]["components"][1]["replicas"] = json!(4));
    let error = try_apply(cluster, by_hand, "stator").await.unwrap_err();
    assert!(
        matches!(&error, ClusterError::Denied { message, .. } if message.contains("scaling adapter is enabled")),
        "{error}"
    );

    let autoscaler = |value: &mut Value| value["spec"]["replicas"] = json!(3);
    cluster.update(&adapter, ObjectPart::Main, "autoscaler", autoscaler).await.unwrap();
    let three = |now: Option<&Object>| {
        now.is_some_and(|now| {
            now.status()["components"]["worker"]["readyReplicas"] == 3 && now.status()["state"] == "successful"
        })
    };
    until(cluster, &first.reference(), "three", three).await;
    assert_eq!(apply(cluster, scaled).await.outcome, stator_cluster::cluster::ApplyOutcome::Unchanged);

    cluster.delete(&first.reference(), &Preconditions::default()).await.unwrap();
    until(cluster, &adapter, "gone with its graph", |now| now.is_none()).await;
}

#[tokio::test]
async fn an_adapter_waits_for_its_base_model_and_is_loaded_into_every_replica() {
    let (folder, _operator) = operated();
    let cluster = &folder.cluster;
    let lora = apply(
        cluster,
        object(json!({
            "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoModel",
            "metadata": {"name": "sql", "namespace": "prod"},
            "spec": {"modelName": "sql", "baseModelName": "Qwen/Qwen3-0.6B", "modelType": "lora",
                     "source": {"uri": "s3://adapters/sql"}},
        })),
    )
    .await
    .object;
    let waits = |now: Option<&Object>| now.is_some_and(|now| now.status().to_string().contains("NoServicesFound"));
    until(cluster, &lora.reference(), "waiting", waits).await;
    let base = with(graph("llama", 2), |value| {
        value["spec"]["components"][1]["modelRef"] = json!({"name": "Qwen/Qwen3-0.6B"});
    });
    apply(cluster, base).await;
    let loaded = |now: Option<&Object>| {
        now.is_some_and(|now| now.status()["readyEndpoints"] == 2 && now.status()["totalEndpoints"] == 2)
    };
    let loaded = until(cluster, &lora.reference(), "loaded", loaded).await.unwrap();
    assert!(loaded.status().to_string().contains("AllEndpointsReady"));
}

#[tokio::test]
async fn a_request_deploys_its_graph_and_fails_when_that_is_deleted() {
    let (folder, _operator) = operated();
    let cluster = &folder.cluster;
    let request = apply(
        cluster,
        object(json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentRequest",
            "metadata": {"name": "llama", "namespace": "prod"},
            "spec": {"model": "Qwen/Qwen3-0.6B", "backend": "vllm"},
        })),
    )
    .await
    .object;
    let phase = |want: &'static str| move |now: Option<&Object>| now.is_some_and(|now| now.status()["phase"] == want);
    let deployed = until(cluster, &request.reference(), "deployed", phase("Deployed")).await.unwrap();
    assert_eq!(deployed.status()["deploymentInfo"], json!({"availableReplicas": 2, "replicas": 2}));
    let graph = ObjectRef { name: "llama-dgd".into(), ..graph("llama-dgd", 1).reference() };
    assert_eq!(cluster.get(&graph).await.unwrap().unwrap().labels()["dgdr.nvidia.com/name"], "llama");
    cluster.delete(&graph, &Preconditions::default()).await.unwrap();
    let failed = until(cluster, &request.reference(), "failed", phase("Failed")).await.unwrap();
    assert!(failed.status().to_string().contains("DeploymentDeleted"));
}

#[tokio::test]
async fn an_operator_that_was_away_goes_on_where_it_was() {
    let folder = Folder::new();
    // One that is through before it can be stopped shows nothing: then it is tried with another graph.
    'tries: for number in 0..10 {
        let first = apply(&folder.cluster, graph(&format!("llama-{number}"), 1)).await.object;
        let mut version = first.resource_version().map(str::to_owned);
        for _ in 0..3 {
            let handle = SimulatedOperator::start(folder.cluster.clone(), 20.0);
            let moved = |now: Option<&Object>| now.is_some_and(|now| now.resource_version() != version.as_deref());
            let half = until(&folder.cluster, &first.reference(), "a step further", moved).await.unwrap();
            drop(handle);
            if half.status()["state"] == "successful" {
                continue 'tries;
            }
            version = half.resource_version().map(str::to_owned);
        }
        let _operator = SimulatedOperator::start(folder.cluster.clone(), 200.0);
        successful(&folder.cluster, &first).await;
        return;
    }
    panic!("no operator could be stopped half way");
}
