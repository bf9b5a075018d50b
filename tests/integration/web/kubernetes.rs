//! Pages of an environment of a real API server.

use super::scene::Pages;
use crate::cli::fleet;
use crate::testbed::{self, ControlPlane};
use crate::workbench::Workbench;
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::json;
use std::process::Command;

/// A command about the environment `prod` in a namespace of a real API server.
pub fn on_cluster(bench: &Workbench, plane: &ControlPlane, namespace: &str, verb: &[&str]) -> Command {
    let mut command = bench.command();
    command.args(verb).args(["-e", "prod", "-n", namespace, "--context", "admin"]);
    command.env_remove("STATOR_CLUSTER").env("KUBECONFIG", plane.kubeconfig());
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn what_controllers_say_of_a_model_is_on_its_page() {
    let Some(plane) = testbed::shared() else { return };
    let namespace = plane.namespace("pages").await;
    let bench = fleet();
    let command = |verb: &[&str]| on_cluster(&bench, plane, &namespace, verb);
    bench.finish(&mut command(&["sync", "--yes"])).success();
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "mock.1", "namespace": namespace},
        "involvedObject": {"kind": "Pod", "name": "mock-worker-0", "namespace": namespace}, "type": "Warning",
        "reason": "BackOff", "message": "Back-off pulling <image>", "count": 7, "lastTimestamp": "2026-11-21T03:05:00Z",
    });
    let events: kube::Api<k8s_openapi::api::core::v1::Event> = kube::Api::namespaced(plane.admin().await, &namespace);
    events.create(&kube::api::PostParams::default(), &serde_json::from_value(event).unwrap()).await.unwrap();
    let pages = Pages::open(&mut command(&["status", "--web"]));
    let path = format!("/api/v1/models/{namespace}/mock/events");
    let events = pages.shows(&path, "the event", |answer| answer.body.contains("BackOff")).json();
    assert_eq!(events["items"][0]["count"], 7, "{events}");
    let page = pages.get(&format!("/models/{namespace}/mock")).body;
    assert!(page.contains("Pod mock-worker-0") && !page.contains("<image>"), "{page}");
    assert!(page.contains(&format!("kubectl get models.stator.dev mock -n {namespace} -o yaml")), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_says_what_it_would_refuse() {
    let Some(plane) = testbed::shared() else { return };
    let namespace = plane.namespace("dry-run").await;
    let bench = fleet();
    let everything = |text: &str| vec![text.to_owned()];
    let reading = PolicyRule {
        verbs: ["get", "list", "watch"].map(str::to_owned).to_vec(),
        api_groups: Some(everything("*")),
        resources: Some(everything("*")),
        ..PolicyRule::default()
    };
    let kubeconfig = plane.account(&namespace, "reader", vec![reading]).await;
    let mut command = bench.command();
    command.args(["status", "-e", "prod", "-n", &namespace, "--context", "reader", "--web"]);
    command.env_remove("STATOR_CLUSTER").env("KUBECONFIG", kubeconfig);
    let pages = Pages::open(&mut command);
    pages.shows("/api/v1/models", "the model", |answer| answer.json()["metadata"]["total"] == 1);
    let model = bench.read("models/mock/model.yaml");
    let plan = |check: &str| pages.post(&format!("/api/v1/plan?dryRun={check}"), "application/yaml", &model).json();
    assert!(plan("client").get("refused").is_none());
    let refused = plan("server")["refused"].clone();
    assert_eq!(refused[0]["object"], format!("DynamoGraphDeployment {namespace}/mock"), "{refused}");
    assert!(refused[0]["message"].as_str().unwrap().contains("cannot patch"), "{refused}");
}
