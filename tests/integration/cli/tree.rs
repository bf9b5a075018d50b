//! `stator tree`: a model's objects, and what controllers made of them.

use super::fleet;
use crate::testbed;
use crate::workbench::{Output, Workbench};
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

/// The simulated operator owns scaling adapters by their graph, as Dynamo's does.
#[test]
fn objects_are_shown_below_their_model() {
    let bench = fleet();
    bench.run(["sync", "--yes", "-e", "prod"]).success();
    let shown = bench.run(["tree", "-e", "prod"]).success();
    assert!(shown.stdout.starts_with("OBJECT"), "{shown}");
    assert!(shown.stdout.contains("└── DynamoGraphDeployment/mock"), "{shown}");
    let name = bench.run(["tree", "mock", "-e", "prod", "-o", "name"]).success();
    insta::assert_snapshot!(name.stdout, @"dynamographdeployment/models/mock");
    let json = bench.run(["tree", "mock", "-e", "prod", "-o", "json"]).success().json();
    assert_eq!(json["models"][0]["objects"][0]["kind"], "DynamoGraphDeployment", "{json}");
    assert_eq!(bench.run(["tree", "-e", "prod", "-o", "yaml"]).success().stdout.lines().next(), Some("models:"));
    // A file that nobody can read hides nothing but its kind.
    bench.write(".stator/cluster/models/dynamographdeploymentscalingadapters/x.yaml", "{");
    let part = bench.run(["tree", "-e", "prod"]).success();
    assert!(part.stdout.contains("└── DynamoGraphDeployment/mock"), "{part}");
    assert!(
        part.stdout.contains("objects may be missing: dynamographdeploymentscalingadapters.nvidia.com (")
            && part.stdout.contains("x.yaml: line 1"),
        "{part}"
    );
    let unknown = bench.run(["tree", "mok", "-e", "prod"]).exits(2);
    assert!(unknown.stderr.contains("did you mean `mock`"), "{unknown}");
}

async fn create(plane: &testbed::ControlPlane, namespace: &str, object: &Value) -> String {
    let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let kind = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
    let api =
        kube::Api::<DynamicObject>::namespaced_with(plane.admin().await, namespace, &ApiResource::from_gvk(&kind));
    api.create(&PostParams::default(), &object).await.unwrap().metadata.uid.unwrap()
}

/// Whatever kind a controller makes, it is found by its owner; who may not list a kind is told so, and sees the rest.
#[tokio::test(flavor = "multi_thread")]
async fn what_controllers_made_is_found_by_its_owners_whatever_its_kind() {
    let Some(plane) = testbed::shared() else { return };
    let namespace = plane.namespace("tree").await;
    let bench = fleet();
    bench.write("kubeconfig", fs_err::read_to_string(plane.kubeconfig()).unwrap());
    let run = |bench: &Workbench, args: &[&str]| -> Output {
        let mut command = bench.command();
        command.args(args).args(["-e", "prod", "-n", &namespace, "--context", "admin"]);
        command.env_remove("STATOR_CLUSTER").env("KUBECONFIG", bench.path("kubeconfig"));
        bench.finish(&mut command)
    };
    run(&bench, &["sync", "--yes"]).success();
    let found = run(&bench, &["tree", "-o", "json"]).success().json();
    assert_eq!(found["models"][0]["objects"][0]["children"], json!([]), "{found}");
    let graphs = GroupVersionKind::gvk("nvidia.com", "v1beta1", "DynamoGraphDeployment");
    let api =
        kube::Api::<DynamicObject>::namespaced_with(plane.admin().await, &namespace, &ApiResource::from_gvk(&graphs));
    let graph = api.get("mock").await.unwrap().metadata.uid.unwrap();
    let owned = |api_version: &str,
                 kind: &str,
                 name: &str,
                 (owner_kind, owner_name, owner): (&str, &str, &str),
                 rest: Value| {
        let mut object = rest;
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(kind);
        object["metadata"] = json!({"name": name, "namespace": namespace, "ownerReferences": [
            {"apiVersion": "v1", "kind": owner_kind, "name": owner_name, "uid": owner}]});
        object
    };
    let pods = json!({"metadata": {"labels": {"app": "mock"}}, "spec": {"containers": [{"name": "main", "image": "example/mock"}]}});
    // The control plane has a real Deployment controller, and no scheduler.
    let deployment = owned(
        "apps/v1",
        "Deployment",
        "mock-worker",
        ("DynamoGraphDeployment", "mock", &graph),
        json!({"spec": {"replicas": 1, "selector": {"matchLabels": {"app": "mock"}}, "template": pods}}),
    );
    create(plane, &namespace, &deployment).await;
    let lease = owned(
        "coordination.k8s.io/v1",
        "Lease",
        "mock-leader",
        ("DynamoGraphDeployment", "mock", &graph),
        json!({"spec": {}}),
    );
    create(plane, &namespace, &lease).await;
    let stranger =
        owned("v1", "ConfigMap", "of-another", ("DynamoGraphDeployment", "other", "0a0a"), json!({"data": {}}));
    create(plane, &namespace, &stranger).await;

    let kinds = || -> Vec<String> {
        let names = run(&bench, &["tree", "-o", "name"]).success().stdout;
        names.lines().filter_map(|line| Some(line.split_once('/')?.0.to_owned())).collect()
    };
    testbed::until("the pod is there", || {
        let kinds = kinds();
        kinds.contains(&"pod".to_owned()).then_some(()).ok_or(move || format!("{kinds:?}"))
    });
    assert_eq!(kinds(), ["dynamographdeployment", "deployment", "replicaset", "pod", "lease"]);
    let table = run(&bench, &["tree"]).success();
    for row in [
        "\n└── DynamoGraphDeployment/mock ",
        "\n    ├── Deployment/mock-worker ",
        "\n    │   └── ReplicaSet/mock-worker-",
        "\n    │       └── Pod/mock-worker-",
        "\n    └── Lease/mock-leader ",
    ] {
        assert!(table.stdout.contains(row), "{row} in {table}");
    }
    assert!(!table.stdout.contains("of-another") && !table.stdout.contains("not looked at"), "{table}");

    // Who may read the models and the deployments, and nothing else.
    let rule = |group: &str, resources: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": ["get", "list", "watch"]});
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "reader", "namespace": namespace},
        "rules": [rule("nvidia.com", &["*"]), rule("stator.dev", &["*"]), rule("apps", &["deployments"])],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "reader", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}],
    });
    create(plane, &namespace, &role).await;
    create(plane, &namespace, &binding).await;
    let part = run(&bench, &["tree", "--as", "reader"]).success();
    assert!(part.stdout.contains("    └── Deployment/mock-worker"), "{part}");
    assert!(part.stdout.contains("could not be listed, so objects may be missing: "), "{part}");
    assert!(part.stdout.contains("replicasets.apps") && !part.stdout.contains(" deployments.apps"), "{part}");
    let told = run(&bench, &["tree", "--as", "reader", "-o", "json"]).success().json();
    let unlisted = told["unlisted"].as_array().unwrap();
    let of_leases = unlisted.iter().find(|one| one["resource"] == "leases.coordination.k8s.io").unwrap();
    assert!(of_leases["message"].as_str().unwrap().contains("cannot list resource"), "{told}");
}
