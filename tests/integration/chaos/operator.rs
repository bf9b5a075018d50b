//! The part of Dynamo's operator that this needs: a graph is ready a moment after it changed.

use crate::testbed::ControlPlane;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// It is at work until it is dropped.
pub struct Operator {
    ending: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Operator {
    /// On the graphs of these namespaces.
    pub fn start(plane: &ControlPlane, namespaces: &[&str]) -> Self {
        let ending = Arc::new(AtomicBool::new(false));
        let (told, kubeconfig) = (Arc::clone(&ending), plane.kubeconfig());
        let namespaces: Vec<String> = namespaces.iter().map(|name| (*name).to_owned()).collect();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let client = crate::testbed::client(&kubeconfig, "admin").await.unwrap();
                while !told.load(Ordering::Relaxed) {
                    for namespace in &namespaces {
                        // What fails while the API server is away is done the next time.
                        let work = pass(&client, namespace);
                        let _ = tokio::time::timeout(Duration::from_secs(5), work).await;
                    }
                    tokio::time::sleep(Duration::from_millis(250)).await;
                }
            });
        });
        Self { ending, thread: Some(thread) }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The graphs of a namespace.
pub fn graphs(client: &kube::Client, namespace: &str) -> Api<DynamicObject> {
    let kind = ApiResource {
        group: "nvidia.com".into(),
        version: "v1beta1".into(),
        api_version: "nvidia.com/v1beta1".into(),
        kind: "DynamoGraphDeployment".into(),
        plural: "dynamographdeployments".into(),
    };
    Api::namespaced_with(client.clone(), namespace, &kind)
}

async fn pass(client: &kube::Client, namespace: &str) -> Result<(), kube::Error> {
    let graphs = graphs(client, namespace);
    for graph in graphs.list(&ListParams::default()).await? {
        let (name, generation) = (graph.metadata.name.unwrap(), graph.metadata.generation);
        if graph.data["status"]["observedGeneration"].as_i64() == generation {
            continue;
        }
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "all_resources_are_ready", "message": "all are ready",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let status = json!({"state": "successful", "observedGeneration": generation, "conditions": [ready]});
        let patch = Patch::Merge(json!({"status": status}));
        graphs.patch_status(&name, &PatchParams::default(), &patch).await?;
    }
    Ok(())
}
