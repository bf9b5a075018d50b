//! Logs of models on the pages of a cluster's sources: each reads what the API server lets them read.

use super::objects::Stage;
use super::pages::{Fleet, everything, read, rule, token};
use crate::cli::logs::{running, start_node, start_pod};
use crate::testbed;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;

#[test]
fn objects_and_logs_are_shown_to_those_who_may_list_and_read_them() {
    let Some(plane) = testbed::shared() else { return };
    let stage = Stage::on(plane);
    let fleet = Fleet::start(&stage, "logs");
    let Fleet { pages, blue, green, .. } = &fleet;
    let reader = || [everything(), vec![rule(&["list"], "", &["pods"])]].concat();
    let alice = token(&stage, blue, "alice", [reader(), vec![rule(&["get"], "", &["pods/log"])]].concat(), "stator");
    let carol = token(&stage, blue, "carol", reader(), "stator");
    let bob = token(&stage, blue, "bob", vec![rule(&["list"], "stator.dev", &["models"])], "stator");
    fleet.settled(&alice, 2);
    let node = format!("node-of-{blue}");
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), blue);
    let written = stage.runtime.block_on(async {
        let written = start_node(plane, &node).await;
        written.write("mock-worker-0/main", "serving");
        start_pod(&pods, &node, ("mock-worker-0", "worker"), json!([running("main", 0)])).await;
        let label = json!({"metadata": {"labels": {"nvidia.com/dynamo-graph-deployment-name": "mock-0"}}});
        pods.patch("mock-worker-0", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
        written
    });
    let path = format!("/api/v1/models/{blue}/mock-0");
    let tree = read(pages, &alice, &format!("{path}/tree"));
    assert!(tree.status == 200 && tree.body.contains("mock-worker-0"), "{tree:?}");
    assert_eq!(read(pages, &alice, &format!("{path}/logs?pod=mock-worker-0")).body, "serving\n");
    // Another model's pod is not read by this one's name.
    assert_eq!(read(pages, &alice, &format!("/api/v1/models/{blue}/mock-1/logs?pod=mock-worker-0")).status, 404);
    let refused = read(pages, &carol, &format!("{path}/logs?pod=mock-worker-0"));
    assert!(refused.status == 403 && refused.body.contains("get pods/log"), "{refused:?}");
    for path in [format!("{path}/tree"), format!("{path}/logs")] {
        assert_eq!(read(pages, &bob, &path).status, 403, "{path}");
    }
    for path in ["tree", "logs"] {
        let hidden = read(pages, &alice, &format!("/api/v1/models/{green}/mock-0/{path}"));
        let absent = read(pages, &alice, &format!("/api/v1/models/{green}/nothing/{path}"));
        assert_eq!((hidden.status, &hidden.body), (404, &absent.body), "{path}");
    }

    // Who loses the right follows no more.
    let login = format!("Bearer {alice}");
    let mut lines = pages.follow(&format!("{path}/logs?pod=mock-worker-0&follow=true"), &[("Authorization", &login)]);
    assert_eq!(lines.line("serving").as_deref(), Some("serving"));
    let account = DeleteParams::default();
    let accounts: Api<ServiceAccount> = Api::namespaced(stage.client.clone(), blue);
    stage.runtime.block_on(accounts.delete("alice", &account)).unwrap();
    written.wait_for_followers("mock-worker-0/main", 0);
}
