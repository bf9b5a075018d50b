//! The tests' node: what Kubernetes makes of a Deployment runs, is ready, comes again and ends.

use crate::node::{Node, NodeSettings};
use crate::testbed::{self, ControlPlane, eventually};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service, ServiceAccount};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::PathBuf;

async fn create<K>(plane: &ControlPlane, namespace: &str, object: Value)
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + DeserializeOwned,
{
    let object: K = serde_json::from_value(object).unwrap();
    Api::<K>::namespaced(plane.admin().await, namespace).create(&PostParams::default(), &object).await.unwrap();
}

/// A controller of a file of sources, which lies in a config map.
fn deployment(replicas: u32) -> Value {
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "http"}, "periodSeconds": 5});
    json!({
        "metadata": {"name": "stator"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "stator"}},
            "template": {
                "metadata": {"labels": {"app": "stator"}},
                "spec": {
                    "serviceAccountName": "stator",
                    "terminationGracePeriodSeconds": 30,
                    "containers": [{
                        "name": "stator",
                        "image": "registry.example.com:5000/stator:0.1.0",
                        "args": [
                            "controller", "--source-file=/etc/stator/sources.yaml", "--cluster=in-cluster",
                            "--listen=0.0.0.0:8080", "--data=/var/lib/stator/$(WHERE)",
                        ],
                        "env": [
                            {"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                            {"name": "STATOR_LOG_FORMAT", "value": "text"},
                        ],
                        "ports": [{"name": "http", "containerPort": 8080}],
                        "livenessProbe": probe("/livez"),
                        "readinessProbe": probe("/readyz"),
                        "volumeMounts": [
                            {"name": "sources", "mountPath": "/etc/stator"}, {"name": "data", "mountPath": "/var/lib/stator"},
                        ],
                    }],
                    "volumes": [
                        {"name": "sources", "configMap": {"name": "sources"}}, {"name": "data", "emptyDir": {}},
                    ],
                },
            },
        },
    })
}

/// Waits until the API server says so of the deployment.
async fn until(plane: &ControlPlane, namespace: &str, node: &Node, what: &str, so: impl Fn(&Deployment) -> bool) {
    let api: Api<Deployment> = Api::namespaced(plane.admin().await, namespace);
    eventually(what, async || {
        let deployment = api.get("stator").await.unwrap();
        so(&deployment).then_some(()).ok_or(move || format!("{:?}\n{}", deployment.status, node.logs()))
    })
    .await;
}

fn ready(deployment: &Deployment) -> i32 {
    deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployments_pods_run_come_again_and_end() {
    let Some(plane) = testbed::shared() else { return };
    let namespace = &plane.namespace("node-itself").await;
    let setting = NodeSettings {
        namespaces: vec![namespace.clone()],
        images: vec![("registry.example.com:5000/stator".to_owned(), PathBuf::from(env!("CARGO_BIN_EXE_stator")))],
        ..NodeSettings::default()
    };
    let Some(node) = Node::start(plane, setting) else { return };
    let sources = "apiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {name: nowhere}\nspec:\n  url: \
                   /no/such/repository\n  allowLocal: true\n  ref: {branch: main}\n  interval: 1h\n";
    create::<ServiceAccount>(plane, namespace, json!({"metadata": {"name": "stator"}})).await;
    create::<Service>(
        plane,
        namespace,
        json!({"metadata": {"name": "stator"}, "spec": {
            "selector": {"app": "stator"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}}),
    )
    .await;
    create::<Deployment>(plane, namespace, deployment(2)).await;
    // The pods wait for their config map, as on any node.
    until(plane, namespace, &node, "are there", |it| it.status.as_ref().is_some_and(|it| it.replicas == Some(2))).await;
    create::<ConfigMap>(plane, namespace, json!({"metadata": {"name": "sources"}, "data": {"sources.yaml": sources}}))
        .await;
    until(plane, namespace, &node, "two are ready", |it| ready(it) == 2).await;

    // A service finds them.
    let address = node.expose(namespace, "stator", "http");
    let answer = reqwest::get(format!("http://{address}/readyz")).await.unwrap();
    assert!(answer.status().is_success());

    // One that is killed comes again, and the pod stays.
    let pods = node.pods(namespace);
    let (first, before) = pods[0].clone();
    node.signal(namespace, &first, "-KILL");
    eventually("the killed one comes again", async || {
        let after = node.pods(namespace).into_iter().find(|(name, _)| *name == first);
        let is_there = after.is_some_and(|(_, after)| after.ready && after.restarts == 1 && after.id != before.id);
        is_there.then_some(()).ok_or(|| node.logs())
    })
    .await;
    until(plane, namespace, &node, "two are ready again", |it| ready(it) == 2).await;

    // Scaled down, they end as they were asked to, and nothing is left.
    let api: Api<Deployment> = Api::namespaced(plane.admin().await, namespace);
    let scale = Patch::Merge(json!({"spec": {"replicas": 0}}));
    api.patch("stator", &PatchParams::default(), &scale).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(plane.admin().await, namespace);
    eventually("no pod is left", async || {
        pods.list(&ListParams::default()).await.unwrap().items.is_empty().then_some(()).ok_or(|| node.logs())
    })
    .await;
    assert_eq!(node.pods(namespace).len(), 0);
    assert!(node.log(namespace, &first).contains("Shutting down"), "{}", node.log(namespace, &first));
    assert_eq!(node.strays(), Vec::<PathBuf>::new());
}
