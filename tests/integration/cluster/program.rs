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
    assert_snapshot!(made.result(), @r#"
    MODEL  RESULT  APPLIED  PRUNED  MESSAGE
    a      Synced  1        0       -
    1 of 1 model synced, 3 writes.
    "#);
    assert!(!bench.path(".stator/cluster").exists(), "nothing is written beside the repository");
    let again = run(&["sync", "--yes"]).success();
    assert!(again.stdout.ends_with("synced, 0 writes.\n"), "{again}");
    run(&["plan", "--exit-code"]).success();
    let status = run(&["status", "-o", "json"]).success().json();
    assert_eq!(status["models"][0]["sync"], "Synced", "{status:#}");
    assert_eq!(status["models"][0]["health"], "Progressing", "no operator is there: {status:#}");

    bench.replace("models/a/model.yaml", "replicas: 1", "replicas: 2");
    run(&["plan", "--exit-code"]).exits(1);
    run(&["sync", "--yes", "--dry-run", "server"]).success();
    run(&["plan", "--exit-code"]).exits(1);
    run(&["sync", "--yes"]).success();
    run(&["plan", "--exit-code"]).success();

    // Who may do nothing is told which right is missing, and how to give it.
    let args = ["plan", "--kubeconfig", kubeconfig.to_str().unwrap(), "--context", "nobody"];
    let refused = bench.run(args).exits(2);
    assert!(refused.stderr.contains("forbidden") && refused.stderr.contains("with the verb `list`"), "{refused}");
}
