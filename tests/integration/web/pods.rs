//! What is below a model, and what its containers write: of a real API server, which asks a node of the test.

use super::kubernetes::on_cluster;
use super::scene::Pages;
use crate::cli::fleet;
use crate::cli::logs::{running, start_node, start_pod};
use crate::testbed;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_followed_down_to_what_its_containers_write() {
    let Some(plane) = testbed::shared() else { return };
    let namespace = plane.namespace("pods").await;
    let bench = fleet();
    let command = |verb: &[&str]| on_cluster(&bench, plane, &namespace, verb);
    bench.finish(&mut command(&["sync", "--yes"])).success();
    let link = "Grafana=https://grafana.example.com/d/dynamo?var-namespace={namespace}&var-model={name}";
    let pages = Pages::open(&mut command(&["status", "--web", "--web-link", link]));
    let page = format!("/models/{namespace}/mock");
    let shown = pages.shows(&page, "its endpoint", |answer| answer.body.contains("Service mock-frontend")).body;
    assert!(shown.contains(&format!("http://mock-frontend.{namespace}.svc:8000/v1")), "{shown}");
    let grafana = format!("href=\"https://grafana.example.com/d/dynamo?var-namespace={namespace}&amp;var-model=mock\"");
    assert!(shown.contains(&grafana.replace("&amp;", "&#38;")) || shown.contains(&grafana), "{shown}");
    let none = pages.get(&format!("{page}/logs"));
    assert!(none.status == 200 && none.body.contains("The model has no pods."), "{none:?}");

    let node = format!("node-of-{namespace}");
    let written = start_node(plane, &node).await;
    let pods: Api<Pod> = Api::namespaced(plane.admin().await, &namespace);
    written.write("mock-worker-0/main", "loading <weights>");
    written.write("mock-worker-0/main", "token=ghp_0123456789abcdefghijABCDEFGHIJ012345");
    written.write("mock-worker-0/metrics", "scraped");
    written.write("previous/mock-worker-0/main", "out of memory");
    start_pod(&pods, &node, ("mock-worker-0", "worker"), json!([running("metrics", 0), running("main", 1)])).await;
    let waiting = json!({"name": "main", "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}});
    start_pod(&pods, &node, ("mock-worker-1", "worker"), json!([waiting])).await;

    // The pods have no owner here: a label says whose they are.
    let tree = pages.get(&format!("/api/v1{page}/tree")).json();
    let graph = &tree["models"][0]["objects"][0];
    let below: Vec<&str> =
        graph["children"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(
        (graph["kind"].as_str(), below),
        (Some("DynamoGraphDeployment"), vec!["mock-worker-0", "mock-worker-1"])
    );
    let shown = pages.get(&format!("{page}/tree")).body;
    assert!(shown.contains("ImagePullBackOff") && shown.contains(&format!("{page}/logs?pod=mock-worker-0")), "{shown}");

    let shown = pages.get(&format!("{page}/logs?pod=mock-worker-0")).body;
    assert!(shown.contains("loading &#60;weights&#62;") && !shown.contains("ghp_0123"), "{shown}");
    assert!(shown.contains("container=metrics") && shown.contains("previous=true"), "{shown}");
    let log = |query: &str| pages.get(&format!("/api/v1{page}/logs?{query}"));
    assert_eq!(log("pod=mock-worker-0&lines=1&container=metrics").body, "scraped\n");
    assert_eq!(log("pod=mock-worker-0&previous=true&timestamps=true").body, "2026-11-24T03:00:00.5Z out of memory\n");
    assert!(pages.get(&format!("{page}/logs?pod=mock-worker-1")).body.contains("has not started: ImagePullBackOff"));
    // Only pods of the model are read, and what is wrong is told.
    for (query, status) in [("pod=other", 404), ("container=nothing", 404), ("lines=0", 400), ("pods=a", 400)] {
        assert_eq!(log(query).status, status, "{query}");
    }

    let mut lines = pages.follow(&format!("/api/v1{page}/logs?pod=mock-worker-0&lines=1&follow=true"), &[]);
    written.wait_for_followers("mock-worker-0/main", 1);
    written.write("mock-worker-0/main", "serving");
    assert_eq!(lines.line("serving").as_deref(), Some("serving"));
    drop(lines);
    // Nobody reads on for who went away.
    written.write("mock-worker-0/main", "still serving");
    written.write("mock-worker-0/main", "and still");
    written.wait_for_followers("mock-worker-0/main", 0);
    pods.delete("mock-worker-0", &DeleteParams::default().grace_period(0)).await.unwrap();
}

#[test]
fn an_embedded_cluster_has_no_pods() {
    let bench = super::bench();
    let pages = Pages::open(&mut super::sync(&bench));
    super::settled(&pages);
    let tree = pages.get("/api/v1/models/models/alpha/tree").json();
    assert_eq!(tree["models"][0]["objects"][0]["kind"], "DynamoGraphDeployment", "{tree}");
    let log = pages.get("/models/models/alpha/logs");
    assert!(log.status == 409 && log.body.contains("The embedded cluster runs no pods"), "{log:?}");
}
