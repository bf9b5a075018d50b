//! The built program on a real cluster, as a user runs it: a kubeconfig, a context, and the same verbs.

use crate::sync::bench::{SHOP, small};
use crate::testbed;
use crate::workbench::{Output, Workbench};
use insta::assert_snapshot;

#[test]
fn the_same_repository_is_synced_to_the_cluster_of_a_context() {
    let Some(plane) = testbed::shared() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let namespace = runtime.block_on(plane.namespace("program-cluster"));
    let kubeconfig = plane.kubeconfig();
    let settings = SHOP.replace("namespace: prod", &format!("namespace: {namespace}"));
    let bench = Workbench::with(&[("stator.yaml", &settings), ("models/a/model.yaml", &small("a"))]);
    let run = |args: &[&str]| -> Output {
        bench.run([args, &["--kubeconfig", kubeconfig.to_str().unwrap(), "--context", "admin"]].concat())
    };

    let made = run(&["sync", "--yes"]).success();
    assert_snapshot!(made.result(), @"
    MODEL  RESULT  APPLIED  PRUNED  MESSAGE
    a      Synced  1        0       -
    1 of 1 model synced, 5 writes.
    ");
    assert!(!bench.path(".stator/cluster").exists(), "nothing is written beside the repository");
    let again = run(&["sync", "--yes"]).success();
    assert!(again.stdout.ends_with("synced, 0 writes.\n"), "{again}");
    run(&["plan", "--exit-code"]).success();
    let status = run(&["status", "-o", "json"]).success().json();
    assert_eq!(status["models"][0]["sync"], "Synced", "{status:#}");
    assert_eq!(status["models"][0]["health"], "Unknown", "no operator is there: {status:#}");

    bench.replace("models/a/model.yaml", "replicas: 1", "replicas: 2");
    run(&["plan", "--exit-code"]).exits(1);
    run(&["sync", "--yes", "--dry-run=server"]).success();
    run(&["plan", "--exit-code"]).exits(1);
    run(&["sync", "--yes"]).success();
    run(&["plan", "--exit-code"]).success();

    // Who may do nothing is told which right is missing, and how to give it.
    let args = ["plan", "--kubeconfig", kubeconfig.to_str().unwrap(), "--context", "nobody"];
    let refused = bench.run(args).exits(2);
    assert!(refused.stderr.contains("forbidden") && refused.stderr.contains("with the verb `list`"), "{refused}");
}

/// A model with an endpoint picker, which needs an API that only some clusters serve.
const PICKED: &str = "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: picked}\nspec:\n  model: Qwen/Qwen3-0.6B\n  engine: mocker\n  runtime: 1.2.0\n  serving:\n    worker: {replicas: 1}\n  components:\n    picker:\n      type: epp\n      image: nvcr.io/nvidia/ai-dynamo/frontend:1.2.0\n      config:\n        plugins: [{type: queue-scorer}]\n        schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer}]}]\n";

#[test]
fn what_a_cluster_cannot_serve_is_known_before_anything_is_sent() {
    let Some(plane) = testbed::shared() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let namespace = runtime.block_on(plane.namespace("picked"));
    let kubeconfig = plane.kubeconfig();
    let settings = SHOP.replace("namespace: prod", &format!("namespace: {namespace}")).replace("shop", "picked");
    let bench = Workbench::with(&[("stator.yaml", &settings), ("models/picked/model.yaml", PICKED)]);
    let real = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--context", "admin"];

    // A folder is no cluster to run on: what the model would need is said, and nothing more.
    let embedded = bench.run(["plan"]).success();
    assert!(embedded.stdout.contains("warning[dynamo/needs-inference-gateway]: depends on the cluster"), "{embedded}");

    let refused = bench.run([&["plan"][..], &real].concat()).exits(1);
    let said: Vec<&str> = refused.stdout.lines().skip_while(|line| !line.starts_with("error")).collect();
    assert_snapshot!(said.join("\n"), @"
    error[dynamo/needs-inference-gateway]: the endpoint picker `picker` needs the Gateway API Inference Extension (inference.networking.k8s.io)
      --> models/picked/model.yaml:12:13
      = help: install it; for checks without a cluster, set `inferenceGateway: true` under the environment's `platform` in stator.yaml
      = rule: https://stator.dev/docs/rules#dynamo/needs-inference-gateway

    No plan: the selected models have errors.
    ");
    let sync = bench.run([&["sync", "--yes"][..], &real].concat()).exits(1);
    assert_eq!(sync.stdout, "0 of 1 model synced, 0 writes.\n", "{sync}");
    bench.run([&["status"][..], &real].concat()).success();

    // Who knows better says so.
    bench.write("stator.yaml", settings.replace("namespace:", "platform: {inferenceGateway: true}, namespace:"));
    let plan = bench.run([&["plan"][..], &real].concat()).success();
    assert!(!plan.stdout.contains("needs-inference-gateway"), "{plan}");
}
