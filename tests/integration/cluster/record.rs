//! The record as the clients of a real API server see it, and pods, which only a real cluster has.

use super::place::{Namespaces, Place as _};
use super::whole::words::Shop;
use ::kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use stator_core::dynamo::health::pods::pod_problems;
use stator_core::dynamo::kinds::GRAPH;

/// What `kubectl get models.stator.dev` prints: the server's own table. Columns of `-o wide` are in brackets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_records_reads_well() {
    let Some(place) = Namespaces::of("a_list_of_records_reads_well").await else { return };
    let shop = Shop::new(&place, &[("llama", 1), ("qwen", 1)]);
    shop.synced(&[]).await;
    let request = ::http::Request::get(format!("/apis/stator.dev/v1alpha1/namespaces/{}/models", place.home()))
        .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .unwrap();
    let table: Value = place.plane.admin().await.request(request).await.unwrap();
    let columns = table["columnDefinitions"].as_array().unwrap();
    let head: Vec<String> = columns
        .iter()
        .map(|column| {
            let name = column["name"].as_str().unwrap();
            if column["priority"] == 0 { name.to_owned() } else { format!("[{name}]") }
        })
        .collect();
    let mut lines = vec![head.join(" | ")];
    for row in table["rows"].as_array().unwrap() {
        let cells = row["cells"].as_array().unwrap().iter().zip(columns);
        // The one cell that moves with the clock.
        let cells =
            cells.map(|(cell, column)| if column["name"] == "Age" { "AGE".to_owned() } else { cell.to_string() });
        lines.push(cells.collect::<Vec<_>>().join(" | "));
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    Name | Sync | Health | GPUs | Revision | Age | [SKU] | [Serves] | [Engine] | [Source] | [Last] | [Message]
    "llama" | "Synced" | "Unknown" | 0 | "" | AGE | null | "Qwen/Qwen3-0.6B" | "mocker" | "models/llama/model.yaml" | "Synced" | "the operator has not observed it yet"
    "qwen" | "Synced" | "Unknown" | 0 | "" | AGE | null | "Qwen/Qwen3-0.6B" | "mocker" | "models/qwen/model.yaml" | "Synced" | "the operator has not observed it yet"
    "#);
    shop.settled().await;
}

/// Pods are found by the operator's label, and say what keeps them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_say_why_a_graph_waits() {
    let Some(place) = Namespaces::of("pods_say_why_a_graph_waits").await else { return };
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
    let pods: Api<DynamicObject> = Api::namespaced_with(place.plane.admin().await, place.home(), &kind);
    for (name, graph) in [("llama-worker-a", "llama"), ("qwen-worker-a", "qwen")] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {
                "nvidia.com/dynamo-graph-deployment-name": graph, "nvidia.com/dynamo-component": "worker"}},
            "spec": {"containers": [{"name": "main", "image": "vllm:9"}]},
        });
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let waiting =
            json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"vllm:9\""}});
        let status = json!({"status": {"containerStatuses": [{
            "name": "main", "image": "vllm:9", "imageID": "", "ready": false, "restartCount": 0, "state": waiting}]}});
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    }
    let llama = GRAPH.reference(place.home(), "llama");
    let found = stator_cluster::sync::list_pods(place.cluster(), std::slice::from_ref(&llama)).await;
    let names: Vec<&str> = found.iter().map(|pod| pod.name()).collect();
    assert_eq!(names, ["llama-worker-a"]);
    insta::assert_snapshot!(
        pod_problems(&llama, &found).join("\n"),
        @r#"worker: ImagePullBackOff in container main (pod llama-worker-a): Back-off pulling image "vllm:9""#
    );
}
