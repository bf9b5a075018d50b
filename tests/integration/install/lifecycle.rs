//! A release through its life on the API server: installed into a restricted namespace, upgraded, removed, installed again.

use super::chart;
use super::ground::Ground;
use kube::api::{DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};

/// A source that is suspended: it is there, and nothing is done for it.
fn source() -> Value {
    json!({
        "apiVersion": "stator.dev/v1alpha1", "kind": "ModelSource", "metadata": {"name": "kept"},
        "spec": {"url": "https://git.example.com/team/models.git", "ref": {"branch": "main"}, "suspend": true},
    })
}

/// And the record of a model.
fn record() -> Value {
    json!({
        "apiVersion": "stator.dev/v1alpha1", "kind": "Model", "metadata": {"name": "kept"},
        "spec": {"model": "Qwen/Qwen3-0.6B"},
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_comes_changes_and_goes_and_takes_no_model_along() {
    let Some(ground) = Ground::new().await else { return };
    let ground = &ground;
    let namespace = ground.namespace("lifecycle").await;
    let made = ground.helm(&[
        "install",
        "fleet",
        chart().to_str().unwrap(),
        "-n",
        &namespace,
        "--set",
        "controller.replicas=0",
    ]);
    assert!(made.is_err(), "no replicas at all are refused");
    ground.release(&namespace, "fleet", &["install"], &[]);
    let before = ground.of_release(&namespace, "fleet").await;
    insta::assert_snapshot!(before.join("\n"), @"
    ClusterRole /lifecycle-fleet-stator-controller
    ClusterRole /stator-fleet-policy-reader
    ClusterRoleBinding /lifecycle-fleet-stator-controller
    ClusterRoleBinding /stator-fleet-policy-reader
    CustomResourceDefinition /fleetpolicies.stator.dev
    CustomResourceDefinition /models.stator.dev
    CustomResourceDefinition /modelsources.stator.dev
    CustomResourceDefinition /syncjournals.stator.dev
    Deployment lifecycle/fleet-stator-controller
    NetworkPolicy lifecycle/fleet-stator-controller
    Role lifecycle/fleet-stator-controller-leases
    RoleBinding lifecycle/fleet-stator-controller-leases
    Service lifecycle/fleet-stator-controller
    ServiceAccount lifecycle/fleet-stator-controller
    ValidatingAdmissionPolicy /lifecycle-fleet-stator-source-rights
    ValidatingAdmissionPolicyBinding /lifecycle-fleet-stator-source-rights
    ");

    // What is synced is not the chart's.
    let kinds = [("ModelSource", source()), ("Model", record())];
    for (kind, object) in &kinds {
        let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        ground.api(kind, &namespace).await.create(&PostParams::default(), &object).await.unwrap();
    }

    // Somebody changed a definition; an upgrade brings it up to date, and the objects of it stay.
    ground.kubectl(&["label", "crd", "models.stator.dev", "app.kubernetes.io/version=0.0.1", "--overwrite"]);
    ground.release(
        &namespace,
        "fleet",
        &["upgrade"],
        &["--set", "server.enabled=true", "--set", "controller.replicas=2", "--force-conflicts"],
    );
    let after = ground.of_release(&namespace, "fleet").await;
    let added: Vec<&str> = after.iter().filter(|name| !before.contains(name)).map(String::as_str).collect();
    insta::assert_snapshot!(added.join("\n"), @r"
    ClusterRole /lifecycle-fleet-stator-server
    ClusterRoleBinding /lifecycle-fleet-stator-server
    Deployment lifecycle/fleet-stator-server
    NetworkPolicy lifecycle/fleet-stator-server
    PodDisruptionBudget lifecycle/fleet-stator-controller
    PodDisruptionBudget lifecycle/fleet-stator-server
    Service lifecycle/fleet-stator-server
    ServiceAccount lifecycle/fleet-stator-server
    ");
    assert!(before.iter().all(|name| after.contains(name)), "{after:?}");
    let version = ground.kubectl(&[
        "get",
        "crd",
        "models.stator.dev",
        "-o",
        r"jsonpath={.metadata.labels.app\.kubernetes\.io/version}",
    ]);
    assert_eq!(version, env!("CARGO_PKG_VERSION"));

    // Removed, and nothing of it is left but the definitions; what they define is untouched.
    ground.helm(&["uninstall", "fleet", "-n", &namespace, "--wait"]).unwrap();
    insta::assert_snapshot!(ground.of_release(&namespace, "fleet").await.join("\n"), @r"
    ClusterRole /stator-fleet-policy-reader
    ClusterRoleBinding /stator-fleet-policy-reader
    CustomResourceDefinition /fleetpolicies.stator.dev
    CustomResourceDefinition /models.stator.dev
    CustomResourceDefinition /modelsources.stator.dev
    CustomResourceDefinition /syncjournals.stator.dev
    ");
    for (kind, _) in &kinds {
        let left = ground.api(kind, &namespace).await.list(&ListParams::default()).await.unwrap();
        assert_eq!(left.items.len(), 1, "{kind}");
        assert_eq!(left.items[0].metadata.deletion_timestamp, None);
    }
    // The next one takes the definitions over.
    ground.release(&namespace, "fleet", &["install"], &["--take-ownership"]);
    ground.helm(&["uninstall", "fleet", "-n", &namespace]).unwrap();
}
