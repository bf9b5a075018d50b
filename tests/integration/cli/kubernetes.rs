//! The whole program on a real API server: the ways in, and a sync.

use super::fleet;
use crate::cluster::{place, scenario};
use crate::testbed;
use crate::workbench::{Output, Workbench};
use serde_json::{Value, json};
use stator_cluster::cluster::{ApplyRequest, Cluster as _};

/// Runs stator with this kubeconfig.
fn run(bench: &Workbench, kubeconfig: &Value, namespace: &str, args: &[&str]) -> Output {
    bench.write("kubeconfig", kubeconfig.to_string());
    let mut command = bench.command();
    command
        .args(args)
        .args(["-e", "prod", "-n", namespace])
        .env_remove("STATOR_CLUSTER")
        .env("KUBECONFIG", bench.path("kubeconfig"));
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
    run(&["sync", "--dry-run=server"]).success();
    let status = run(&["get", "models", "-o", "json"]).success().json();
    assert_eq!(status["models"][0]["sync"], "Synced", "{status}");
    let waited = run(&["wait", "--for", "synced", "-o", "json"]).success().json();
    assert_eq!((&waited["met"], &waited["models"][0]["outcome"]), (&json!(true), &json!("Met")), "{waited}");
    // No operator works on this API server, so nothing becomes healthy.
    run(&["wait", "mock", "--timeout", "2s"]).exits(124);
    run(&["wait", "never-there", "--for", "deleted"]).success();
    assert!(run(&["events"]).success().stdout.contains("Synced"));
    assert!(run(&["describe", "mock"]).success().stdout.contains("DynamoGraphDeployment"));
}

/// An adapter that its operator calls loaded is healthy by that word, and by its frontend's where that is asked.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_of_a_model_asks_its_frontend_where_that_is_wanted() {
    let Some(plane) = testbed::shared() else { return };
    let namespace = plane.namespace("described").await;
    let bench = fleet();
    bench.write(
        "models/base/model.yaml",
        "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: base}\nspec:\n  model: Qwen/Qwen3-0.6B\n  engine: vllm\n  \
         runtime: 1.2.0\n  hardware: {gpu: l40s, gpusPerNode: 4}\n  serving: {worker: {replicas: 1}}\n  \
         adapters: [{name: sql, source: s3://adapters/sql}]\n",
    );
    let admin = kubeconfig(plane);
    let run = |args: &[&str]| run(&bench, &admin, &namespace, &[args, &["--context", "admin"]].concat());
    run(&["sync", "base", "--yes"]).success();
    let cluster = place::admin(plane).await;
    let report = async |kind: &str, version: &str, name: &str, status: Value| {
        let object = json!({"apiVersion": version, "kind": kind, "status": status,
                            "metadata": {"name": name, "namespace": namespace}});
        let only = scenario::object(object);
        cluster.apply(&ApplyRequest { status: true, ..ApplyRequest::new(only, "manager") }).await.unwrap();
    };
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "AllReady", "message": "", "observedGeneration": 1,
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let component = json!({"componentKind": "Deployment", "componentNames": ["base"], "replicas": 1, "readyReplicas": 1,
                           "availableReplicas": 1, "updatedReplicas": 1});
    let graph = json!({"state": "successful", "observedGeneration": 1, "conditions": [condition("Ready")],
                       "components": {"frontend": component, "worker": component}});
    report("DynamoGraphDeployment", "nvidia.com/v1beta1", "base", graph).await;
    run(&["sync", "base", "--yes"]).success();
    let adapter = json!({"readyEndpoints": 1, "totalEndpoints": 1,
                         "conditions": [condition("ServicesFound"), condition("EndpointsReady")]});
    report("DynamoModel", "nvidia.com/v1alpha1", "base-sql", adapter).await;

    let health_of_adapter = |args: &[&str]| {
        let model = run(&[&["describe", "base", "-o", "json"], args].concat()).success().json()["model"].clone();
        let adapter = model["objects"].as_array().unwrap().iter().find(|one| one["kind"] == "DynamoModel");
        let adapter = adapter.unwrap_or_else(|| panic!("no adapter in {model:#}"));
        format!("{}: {}", adapter["health"].as_str().unwrap(), adapter["message"].as_str().unwrap())
    };
    let told = [health_of_adapter(&[]), health_of_adapter(&["--ask-frontends"])].join("\n").replace(&namespace, "prod");
    insta::assert_snapshot!(told, @"
    Healthy: loaded on 1 of 1 endpoints
    Healthy: loaded on 1 of 1 endpoints; unknown whether it is served: there is no Service prod/base-frontend
    ");
}

/// What a platform team asks before anything is written: whether the cluster has what is needed, and who may do what.
#[tokio::test(flavor = "multi_thread")]
async fn a_check_says_what_a_cluster_lacks_and_writes_nothing() {
    let Some(plane) = testbed::shared() else { return };
    let namespace = plane.namespace("checked").await;
    let bench = fleet();
    bench.write("kubeconfig", kubeconfig(plane).to_string());
    let run = |args: &[&str]| {
        let mut command = bench.command();
        command
            .args(["check", "--context", "admin", "-q"])
            .args(args)
            .env_remove("STATOR_CLUSTER")
            .env("KUBECONFIG", bench.path("kubeconfig"));
        bench.finish(&mut command)
    };
    let checks = |output: &Output| -> Vec<String> {
        let report = output.json();
        let checks = report["checks"].as_array().unwrap().clone();
        let line = |check: &Value| {
            format!(
                "{} {}: {}",
                check["check"].as_str().unwrap(),
                check["result"].as_str().unwrap(),
                check["message"].as_str().unwrap()
            )
        };
        // The version is the API server's, and sources are those of other tests.
        let own = checks.iter().filter(|check| check["check"] != "cluster" && check["check"] != "sources");
        own.map(|check| line(check).replace(&namespace, "prod")).collect()
    };
    let all = run(&["-n", &namespace, "--pre", "-o", "json"]).success();
    insta::assert_snapshot!(checks(&all).join("\n"), @"
    dynamo Passed: the definitions are those of release 1.2
    stator Passed: the definitions of records and journals are installed
    namespace Passed: prod exists
    rights Passed: every right that a sync needs in prod
    neighbours Passed: gateway routes and device claims are served
    ");
    let next = "the cluster is ready for stator: 0 failed, 0 warnings.\n\nNext: install stator's definitions: `kubectl apply --server-side -f crds/`, or the chart\n";
    assert!(run(&["-n", &namespace, "--pre"]).success().stdout.ends_with(next));
    // Somebody without any right, where there is no such namespace either.
    let nobody = run(&["-n", "not-there", "--as", "nobody", "--pre", "-o", "json"]).exits(1);
    insta::assert_snapshot!(checks(&nobody).join("\n"), @"
    dynamo Passed: v1beta1 is served; the release is unknown, because the definitions cannot be read
    stator Passed: the definitions of records and journals are installed
    namespace Passed: not-there cannot be read; no sync needs that
    rights Warning: no right to get, list, watch, create, patch, delete persistentvolumeclaims in not-there, which only some models need
    rights Warning: no right to get, list, watch, create, patch, delete configmaps in not-there, which only some models need
    rights Warning: no right to get, list, watch, create, patch, delete resourceclaimtemplates.resource.k8s.io in not-there, which only some models need
    rights Warning: no right to get, list, watch, create, patch, delete computedomains.resource.nvidia.com in not-there, which only some models need
    rights Warning: no right to get, list, watch, create, patch, delete jobs.batch in not-there, which only some models need
    rights Failed: no right to get, list, watch, create, patch, delete dynamographdeployments.nvidia.com in not-there
    rights Failed: no right to get, list, watch, create, patch, delete dynamographdeploymentrequests.nvidia.com in not-there
    rights Failed: no right to get, list, watch, create, patch, delete dynamomodels.nvidia.com in not-there
    rights Warning: no right to get, list, watch, create, patch, delete services in not-there, which only some models need
    rights Warning: no right to get, list, watch, create, patch, delete httproutes.gateway.networking.k8s.io in not-there, which only some models need
    rights Failed: no right to get, list, watch, create, patch, delete models.stator.dev in not-there
    rights Failed: no right to get, list, watch, create, patch, delete syncjournals.stator.dev in not-there
    rights Failed: no right to patch models.stator.dev/status in not-there
    rights Warning: no right to list pods in not-there; without it, stator cannot say why a pod does not start
    rights Warning: no right to get services/proxy in not-there; without it, `--ask-frontends` does not work
    neighbours Passed: gateway routes and device claims are served
    ");
    assert_eq!(run(&["-n", "not-there", "--pre", "-o", "json"]).exits(1).json()["passed"], false);
    let mut embedded = bench.command();
    let embedded = bench.finish(embedded.args(["check", "--cluster", "embedded", "-q"])).success();
    insta::assert_snapshot!(embedded.stdout, @"
    CHECK    RESULT  MESSAGE
    cluster  Passed  the embedded cluster has every definition and requires no rights
    the cluster is ready for stator: 0 failed, 0 warnings.

    Next: `stator sync --wait`
    ");
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
    assert!(broken.stderr.contains("cannot connect with the settings of context `me`"), "{broken}");

    let expired = run(&bench, &with_user(admin.clone(), &json!({"token": "expired"})), &namespace, &["plan"]).exits(2);
    assert!(expired.stderr.contains("the API server does not accept the credentials"), "{expired}");
    assert!(expired.stderr.contains("log in again"), "{expired}");

    let mut stranger = admin.clone();
    stranger["clusters"][0]["cluster"].as_object_mut().unwrap().remove("certificate-authority");
    let distrusted = run(&bench, &stranger, &namespace, &["plan", "--context", "admin"]).exits(2);
    assert!(distrusted.stderr.contains("certificate is not trusted by the kubeconfig"), "{distrusted}");

    let account = format!("system:serviceaccount:{namespace}:nobody-in-particular");
    let denied = run(&bench, &admin, &namespace, &["plan", "--context", "admin", "--as", &account]).exits(2);
    assert!(denied.stderr.contains(&format!("User \"{account}\" cannot list resource")), "{denied}");
    assert!(denied.stderr.contains(&format!("grant that user a Role in {namespace} with the verb `list`")), "{denied}");
    for output in [&expired, &distrusted, &denied, &broken] {
        assert!(!output.stderr.contains(token), "a token is never said");
    }
}

/// What somebody applied with kubectl before stator came: a graph, the claim of its weights, and an adapter.
fn applied_by_hand(namespace: &str) -> [Value; 3] {
    let graph = json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "chat", "namespace": namespace, "labels": {"team": "search"}},
        "spec": {"components": [
            {"name": "Frontend", "type": "frontend", "replicas": 2, "podTemplate": {"spec": {"containers": [
                {"name": "main", "image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0"}]}}},
            {"name": "VllmWorker", "type": "worker", "replicas": 5, "scalingAdapter": {},
             "modelRef": {"name": "meta-llama/Llama-3.1-8B-Instruct"}, "podTemplate": {"spec": {
                "volumes": [{"name": "weights", "persistentVolumeClaim": {"claimName": "weights"}}],
                "containers": [{"name": "main", "image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0",
                    "command": ["sh", "-c"],
                    "args": ["cd /workspace && exec python3 -m dynamo.vllm --model meta-llama/Llama-3.1-8B-Instruct --enable-lora"],
                    "envFrom": [{"secretRef": {"name": "hf-token-secret"}}],
                    "resources": {"limits": {"nvidia.com/gpu": "1"}},
                    "volumeMounts": [{"name": "weights", "mountPath": "/models"}]}]}}},
        ]},
    });
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "weights", "namespace": namespace},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "10Gi"}}},
    });
    let adapter = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoModel", "metadata": {"name": "sql", "namespace": namespace},
        "spec": {"modelName": "sql", "baseModelName": "meta-llama/Llama-3.1-8B-Instruct", "modelType": "lora",
                 "source": {"uri": "s3://adapters/sql"}},
    });
    [graph, claim, adapter]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_is_imported_and_adopted_without_a_change_of_the_workload() {
    let Some(plane) = testbed::shared() else { return };
    let namespace = plane.namespace("adoption").await;
    let client = plane.admin().await;
    let api = |object: &Value| {
        let object: kube::core::DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let types = object.types.clone().unwrap();
        let kind = kube::core::GroupVersionKind::try_from(&types).unwrap();
        let resource = kube::core::ApiResource::from_gvk(&kind);
        (kube::Api::<kube::core::DynamicObject>::namespaced_with(client.clone(), &namespace, &resource), object)
    };
    let mut before = Vec::new();
    for object in applied_by_hand(&namespace) {
        let (api, object) = api(&object);
        let name = object.metadata.name.clone().unwrap();
        let params = kube::api::PatchParams::apply("kubectl");
        let made = api.patch(&name, &params, &kube::api::Patch::Apply(&object)).await.unwrap();
        if made.types.as_ref().unwrap().kind == "DynamoGraphDeployment" {
            // As its operator leaves it: adapters follow a graph that is Ready.
            let status = json!({"status": {
                "observedGeneration": made.metadata.generation, "state": "successful",
                "conditions": [{"type": "Ready", "status": "True", "reason": "all_resources_are_ready", "message": "",
                                "lastTransitionTime": "2026-05-01T00:00:00Z"}],
            }});
            let operator = kube::api::PatchParams { field_manager: Some("manager".to_owned()), ..Default::default() };
            api.patch_status(&name, &operator, &kube::api::Patch::Merge(&status)).await.unwrap();
        }
        before.push((api, name, made));
    }
    let bench = Workbench::empty();
    bench.write("kubeconfig", kubeconfig(plane).to_string());
    let run = |args: &[&str]| {
        let mut command = bench.command();
        command
            .args(args)
            .args(["--context", "admin"])
            .env_remove("STATOR_CLUSTER")
            .env("KUBECONFIG", bench.path("kubeconfig"));
        bench.finish(&mut command)
    };

    let imported = run(&["import", "--from-cluster", "-n", &namespace, "--out", "models"]).success();
    assert!(imported.stderr.contains("1 model imported, 1 of them rendering back"), "{imported}");
    insta::assert_snapshot!(bench.read("models/chat/model.yaml"), @r#"
    # Imported by stator from cluster, document 1.
    apiVersion: stator.dev/v1alpha1
    kind: Model
    metadata:
      name: chat
      labels:
        team: search
    spec:
      model: meta-llama/Llama-3.1-8B-Instruct
      engine: vllm
      backendFramework: detected
      runtime: "1.2.0"
      serving:
        frontend: {name: Frontend, replicas: 2}
        worker:
          name: VllmWorker
          shell: sh
          flags: {enable-lora: true}
          args: [cd /workspace && exec python3 -m dynamo.vllm <--model> <--enable-lora>]
          scaling: external
      adapters: [{name: sql, source: s3://adapters/sql, objectName: sql}]
      cache: {claim: weights, size: 10Gi, mountPath: /models, volume: weights, hfHome: false}
      secrets: {huggingFace: hf-token-secret}
      # Copied from the manifest: stator has no field for this.
      overrides:
        - target: {kind: DynamoGraphDeployment}
          remove: ["spec.components[name=VllmWorker].podTemplate.spec.containers[name=main].env"]
        - {target: {kind: DynamoModel, name: sql}, remove: [metadata.labels.team]}
    "#);

    let plan = run(&["plan", "models", "-o", "json"]).json();
    for change in plan["changes"].as_array().unwrap() {
        assert_eq!(change["disruption"], "none", "{change}");
    }
    run(&["sync", "models", "--yes", "--allow", "adopt"]).success();
    let after = run(&["plan", "models", "-o", "json"]).json();
    for change in after["changes"].as_array().unwrap() {
        assert_eq!((&change["action"], &change["fields"]), (&json!("keep"), &json!([])), "{change}");
    }
    for (api, name, made) in before {
        let live = api.get(&name).await.unwrap();
        assert_eq!(live.metadata.uid, made.metadata.uid, "{name} is the same object");
        assert_eq!(live.metadata.generation, made.metadata.generation, "{name}: its spec did not change");
        assert_eq!(live.data["spec"], made.data["spec"], "{name}");
    }
}
