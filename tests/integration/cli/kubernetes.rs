//! The whole program on a real API server: the ways in, and a sync.

use super::fleet;
use crate::testbed;
use crate::workbench::{Output, Workbench};
use serde_json::{Value, json};

/// Runs stator with this kubeconfig.
fn run(bench: &Workbench, kubeconfig: &Value, namespace: &str, args: &[&str]) -> Output {
    bench.write("kubeconfig", kubeconfig.to_string());
    let mut command = bench.command();
    command.args(args).args(["-e", "prod", "-n", namespace]).env("KUBECONFIG", bench.path("kubeconfig"));
    bench.finish(&mut command)
}

fn kubeconfig(plane: &testbed::ControlPlane) -> Value {
    serde_json::from_str(&fs_err::read_to_string(plane.kubeconfig()).unwrap()).unwrap()
}

/// The kubeconfig with another user in the place of its own, by the name of `me`.
fn with_user(mut config: Value, user: &Value) -> Value {
    let cluster = config["clusters"][0]["name"].clone();
    config["users"] = json!([{"name": "me", "user": user}]);
    config["contexts"] = json!([{"name": "me", "context": {"cluster": cluster, "user": "me"}}]);
    config["current-context"] = json!("me");
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_is_synced_to_a_cluster_and_told_about() {
    let Some(plane) = testbed::shared() else { return };
    let namespace = plane.namespace("program").await;
    let bench = fleet();
    let admin = kubeconfig(plane);
    let run = |args: &[&str]| run(&bench, &admin, &namespace, &[args, &["--context", "admin"]].concat());
    let first = run(&["sync", "--yes"]).success();
    assert!(first.stdout.contains("1 of 1 model synced"), "{first}");
    let second = run(&["sync", "--yes"]).success();
    assert!(second.stdout.contains("1 of 1 model synced, 0 writes."), "{second}");
    run(&["diff"]).success();
    run(&["sync", "--dry-run", "server"]).success();
    let status = run(&["get", "models", "-o", "json"]).success().json();
    assert_eq!(status["models"][0]["sync"], "Synced", "{status}");
    assert!(run(&["events"]).success().stdout.contains("Succeeded"));
    assert!(run(&["describe", "mock"]).success().stdout.contains("DynamoGraphDeployment"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_in_works_or_says_what_is_wrong_with_it() {
    let Some(plane) = testbed::shared() else { return };
    let namespace = plane.namespace("ways-in").await;
    let bench = fleet();
    let admin = kubeconfig(plane);
    let users = admin["users"].as_array().unwrap();
    let token = users.iter().find(|user| user["name"] == "admin").unwrap()["user"]["token"].as_str().unwrap();

    let plugin = format!(
        "#!/bin/sh\necho '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{{\"token\":\"{token}\"}}}}'\n"
    );
    bench.write("plugin", plugin);
    let exec = |path: &str| json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": [path], "interactiveMode": "Never"}});
    let own = bench.path("plugin");
    run(&bench, &with_user(admin.clone(), &exec(&own.to_string_lossy())), &namespace, &["plan"]).success();
    let broken = run(&bench, &with_user(admin.clone(), &exec("no-such-plugin")), &namespace, &["plan"]).exits(2);
    assert!(broken.stderr.contains("no connection can be made as context `me` says"), "{broken}");

    let expired = run(&bench, &with_user(admin.clone(), &json!({"token": "expired"})), &namespace, &["plan"]).exits(2);
    assert!(expired.stderr.contains("the API server does not know who is asking"), "{expired}");
    assert!(expired.stderr.contains("log in again"), "{expired}");

    let mut stranger = admin.clone();
    stranger["clusters"][0]["cluster"].as_object_mut().unwrap().remove("certificate-authority");
    let distrusted = run(&bench, &stranger, &namespace, &["plan", "--context", "admin"]).exits(2);
    assert!(distrusted.stderr.contains("certificate is not one that the kubeconfig trusts"), "{distrusted}");

    let account = format!("system:serviceaccount:{namespace}:nobody-in-particular");
    let denied = run(&bench, &admin, &namespace, &["plan", "--context", "admin", "--as", &account]).exits(2);
    assert!(denied.stderr.contains(&format!("User \"{account}\" cannot list resource")), "{denied}");
    assert!(denied.stderr.contains(&format!("grant that user a Role in {namespace} with the verb `list`")), "{denied}");
    for output in [&expired, &distrusted, &denied, &broken] {
        assert!(!output.stderr.contains(token), "a token is never said");
    }
}
