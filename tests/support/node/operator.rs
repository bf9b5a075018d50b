//! What Dynamo's operator and a provisioner of volumes would say, where none runs: that everything is Ready as soon as it
//! is there.

use crate::testbed::{self, ControlPlane};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(200);

/// At work until it is dropped, on a thread of its own.
#[derive(Debug)]
pub struct Operator {
    ending: CancellationToken,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Operator {
    /// Starts on the objects of these namespaces.
    pub fn start(plane: &ControlPlane, namespaces: &[&str]) -> Self {
        let ending = CancellationToken::new();
        let (kubeconfig, ended) = (plane.kubeconfig(), ending.clone());
        let namespaces: Vec<String> = namespaces.iter().map(|name| (*name).to_owned()).collect();
        let work = async move {
            let client = testbed::client(&kubeconfig, "admin").await.unwrap();
            let kinds = [
                ("nvidia.com", "v1beta1", "DynamoGraphDeployment"),
                ("nvidia.com", "v1beta1", "DynamoGraphDeploymentRequest"),
                ("nvidia.com", "v1alpha1", "DynamoModel"),
                ("", "v1", "PersistentVolumeClaim"),
                ("batch", "v1", "Job"),
            ];
            let all = |namespace: &String| {
                kinds.map(|(group, version, kind)| {
                    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
                    (kind, Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource))
                })
            };
            let apis: Vec<(&str, Api<DynamicObject>)> = namespaces.iter().flat_map(all).collect();
            while tokio::time::timeout(LOOK, ended.cancelled()).await.is_err() {
                for (kind, api) in &apis {
                    look(kind, api).await;
                }
            }
        };
        let thread = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
        });
        Self { ending, thread: Some(thread) }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.ending.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn look(kind: &str, api: &Api<DynamicObject>) {
    // A server that is away comes back, and an object may go meanwhile.
    let Ok(list) = api.list(&ListParams::default()).await else { return };
    for object in list.items {
        let wanted = ready(kind, object.metadata.generation);
        let there = |(key, value): (&String, &Value)| object.data["status"].get(key) == Some(value);
        if wanted.as_object().is_some_and(|wanted| wanted.iter().all(there)) {
            continue;
        }
        let name = object.metadata.name.clone().unwrap_or_default();
        let status = Patch::Merge(json!({"status": wanted}));
        let _ = api.patch_status(&name, &PatchParams::default(), &status).await;
    }
}

fn ready(kind: &str, generation: Option<i64>) -> Value {
    let condition = |name: &str| {
        json!({
            "type": name, "status": "True", "reason": "all_resources_are_ready", "observedGeneration": generation,
            "message": "All resources are ready", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    match kind {
        "DynamoGraphDeployment" => {
            json!({"state": "successful", "observedGeneration": generation, "conditions": [condition("Ready")]})
        }
        "DynamoGraphDeploymentRequest" => {
            json!({"phase": "Deployed", "observedGeneration": generation, "conditions": [condition("Succeeded")]})
        }
        "DynamoModel" => json!({"readyEndpoints": 1, "totalEndpoints": 1, "conditions": [condition("EndpointsReady")]}),
        "Job" => {
            let time = "2026-01-01T00:00:00Z";
            let condition = |name: &str| {
                json!({"type": name, "status": "True", "reason": "CompletionsReached", "message": "",
                    "lastProbeTime": time, "lastTransitionTime": time})
            };
            json!({"startTime": time, "completionTime": time, "succeeded": 1,
                "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]})
        }
        _ => json!({"phase": "Bound"}),
    }
}
