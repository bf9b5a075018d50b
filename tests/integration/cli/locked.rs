//! `stator lock`: a request's result goes into git, and the graph is rendered from there.

use crate::workbench::{Output, Workbench};
use insta::assert_snapshot;

const INTENT: &str = "\
apiVersion: stator.dev/v1alpha1
kind: Model
metadata:
  name: llama
spec:
  model: Qwen/Qwen3-8B
  engine: vllm
  runtime: 1.2.0
  hardware: {gpu: h200_sxm, totalGpus: 8}
  env: {LOG_LEVEL: info}
  sla: {ttft: 300ms, itl: 20ms}
";

const PROD: &str = "\
apiVersion: stator.dev/v1alpha1
kind: Repository
metadata:
  name: shop
spec:
  environments:
    prod:
      namespace: prod
    staging:
      namespace: staging
";

fn shop() -> Workbench {
    Workbench::with(&[("model.yaml", INTENT)])
}

fn sync(bench: &Workbench, more: &[&str]) -> Output {
    let fast = ["sync", "--yes", "--wait", "--simulate-operator", "--simulate-speed", "1000"];
    bench.run(fast.iter().chain(more))
}

#[test]
fn a_result_is_locked_and_rendered_from_the_lock_until_something_else_is_asked_for() {
    let bench = shop();
    assert_snapshot!(bench.run(["lock", "--check"]), @r#"
    exit 1
    ----- stdout -----
    llama: model.lock.yaml is missing
    ----- stderr -----
    "#);
    assert_snapshot!(bench.run(["lock"]), @"
    exit 1
    ----- stdout -----
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    llama is not locked: request llama-03022433 is not in the cluster; run `stator sync --wait` first
    ");
    sync(&bench, &[]).success();
    assert_snapshot!(bench.run(["lock"]), @"
    exit 0
    ----- stdout -----
    model.lock.yaml
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    llama is locked to the result of request llama-03022433.
    Commit it and run `stator sync`: the graph is rendered from it until `sla` changes.
    ");
    let lock = bench.read("model.lock.yaml");
    bench.run(["lock"]).success();
    assert_eq!(bench.read("model.lock.yaml"), lock, "a lock that holds is left alone");
    bench.run(["lock", "--check"]).success();
    bench.run(["fmt"]).success();
    assert_eq!(bench.read("model.lock.yaml"), lock, "a lock is written as `fmt` would have it");
    bench.run(["validate"]).success();
    assert_snapshot!(bench.run(["plan"]), @"
    exit 0
    ----- stdout -----
    default / default against live

    llama  model.yaml
      + create DynamoGraphDeployment default/llama   GPUs 0 → 1 h200_sxm (+1)
          · is not in the cluster yet
      - delete DynamoGraphDeploymentRequest default/llama-03022433
          · the model no longer has it

    Plan: 1 to create, 0 to change, 1 to delete, 0 unchanged.
    GPUs: 0 → 1 h200_sxm (+1)

    Next:
    stator sync -e default --cluster embedded
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    ");
    sync(&bench, &[]).success();
    bench.run(["plan", "--exit-code"]).success();
    assert!(bench.run(["render"]).success().stdout.contains("kind: DynamoGraphDeployment\n"));

    // What is no part of the target changes under the lock.
    bench.replace("model.yaml", "info", "debug");
    bench.run(["lock", "--check"]).success();
    // What is, asks again, and the graph serves on.
    bench.replace("model.yaml", "300ms", "200ms");
    assert_snapshot!(bench.run(["lock", "--check"]), @r#"
    exit 1
    ----- stdout -----
    llama: model.lock.yaml: the lock is for another target: `sla.ttft` was 300ms and is 200ms (model.yaml:10); the model renders a request again, and a running graph keeps serving
    ----- stderr -----
    "#);
    assert_snapshot!(bench.run(["plan"]), @"
    exit 0
    ----- stdout -----
    default / default against live

    llama  model.yaml
      + create DynamoGraphDeploymentRequest default/llama-b526c75b
          · is not in the cluster yet
          · profiling is simulated and uses no GPUs; the result is stored, not deployed

    warning[lock/stale]: the lock is for another target: `sla.ttft` was 300ms and is 200ms (model.yaml:10); the model renders a request again, and a running graph keeps serving
      --> model.lock.yaml:11:3
      = help: Sync, and run `stator lock` when the request has its result; or revert the change.
      = rule: https://stator.dev/docs/rules#lock/stale

    Plan: 1 to create, 0 to change, 0 to delete, 1 unchanged.
    GPUs: 1 h200_sxm

    Next:
    stator sync -e default --cluster embedded
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    ");
    sync(&bench, &[]).success();
    bench.run(["lock"]).success();
    assert_ne!(bench.read("model.lock.yaml"), lock);
    sync(&bench, &[]).success();
    let report = bench.run(["status", "-o", "json"]).success().json();
    assert_eq!(report["models"][0]["health"], "Healthy", "{report:#}");
    assert_eq!(report["models"][0]["objects"].as_array().map(Vec::len), Some(1), "{report:#}");
}

#[test]
fn a_failed_request_says_why_and_is_made_again_only_when_git_asks() {
    let bench = shop();
    bench.replace("model.yaml", "ttft: 300ms", "ttft: 300ms, optimize: latency");
    // The simulated profiler reaches anything but less than a millisecond, which an override can ask for.
    let mut intent = bench.read("model.yaml");
    intent
        .push_str("  overrides: [{target: {kind: DynamoGraphDeploymentRequest}, merge: {spec: {sla: {ttft: 0.5}}}}]\n");
    bench.write("model.yaml", intent);
    assert_snapshot!(sync(&bench, &[]).exits(1).result(), @"
    MODEL  RESULT  APPLIED  PRUNED  MESSAGE
    llama  Failed  1        0       DynamoGraphDeploymentRequest default/llama-79599d74: the request failed while profiling (SweepingDecodeFailed): profiling failed: no configuration meets ttft 0.5 ms; change the targets in `sla`, or increase `sla.attempt` by one to try again
    0 of 1 model synced, 5 writes.
    ");
    assert_snapshot!(bench.run(["lock"]), @"
    exit 1
    ----- stdout -----
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    llama is not locked: request llama-79599d74: the request failed while profiling (SweepingDecodeFailed): profiling failed: no configuration meets ttft 0.5 ms; change the targets in `sla`, or increase `sla.attempt` by one to try again
    ");
    assert!(sync(&bench, &[]).exits(1).stdout.contains("0 writes"), "nothing tries again by itself");
    bench.replace("model.yaml", "itl: 20ms", "itl: 20ms, attempt: 2");
    assert_snapshot!(bench.run(["plan"]), @"
    exit 0
    ----- stdout -----
    default / default against live

    llama  model.yaml
      + create DynamoGraphDeploymentRequest default/llama-1ae0b7bc
          · is not in the cluster yet
          · profiling is simulated and uses no GPUs; the result is stored, not deployed
      - delete DynamoGraphDeploymentRequest default/llama-79599d74
          · deleted once request llama-1ae0b7bc has succeeded

    Plan: 1 to create, 0 to change, 1 to delete, 0 unchanged.

    Next:
    stator sync -e default --cluster embedded
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    ");
}

#[test]
fn what_dynamo_deployed_by_itself_is_told_of_and_left_alone() {
    let bench = shop();
    bench.replace("model.yaml", "itl: 20ms", "itl: 20ms, autoApply: true");
    sync(&bench, &[]).success();
    let status = bench.run(["status", "-o", "json"]).success().json();
    let model = &status["models"][0];
    assert_eq!((&model["health"], &model["gpus"]), (&"Healthy".into(), &1.into()), "{status:#}");
    assert_eq!(model["objects"][1]["name"], "llama-d6420ff8-dgd", "{status:#}");
    assert_eq!(model["message"], "deployed as llama-d6420ff8-dgd");
    bench.run(["lock", "llama"]).success();
    assert_snapshot!(bench.run(["plan"]), @"
    exit 0
    ----- stdout -----
    default / default against live

    llama  model.yaml
      + create DynamoGraphDeployment default/llama   GPUs 0 → 1 h200_sxm (+1)
          · is not in the cluster yet
      - delete DynamoGraphDeploymentRequest default/llama-d6420ff8   GPUs 1 h200_sxm
          · the model no longer has it
          · the graph that it created, llama-d6420ff8-dgd, is not managed by stator and keeps serving: run `kubectl delete dynamographdeployment llama-d6420ff8-dgd -n default` when it is no longer used

    Plan: 1 to create, 0 to change, 1 to delete, 0 unchanged.
    GPUs: 1 → 2 h200_sxm (+1)

    Next:
    stator sync -e default --cluster embedded
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    ");
}

#[test]
fn environments_have_locks_of_their_own_and_bad_ones_are_told() {
    let bench = Workbench::with(&[("stator.yaml", PROD), ("models/llama/model.yaml", INTENT)]);
    sync(&bench, &["-e", "prod"]).success();
    assert_snapshot!(bench.run(["lock", "models/llama/model.yaml", "-e", "prod", "-q"]), @r#"
    exit 0
    ----- stdout -----
    models/llama/model.prod.lock.yaml
    ----- stderr -----
    "#);
    bench.run(["lock", "--check", "-e", "prod"]).success();
    bench.run(["lock", "--check", "-e", "staging"]).exits(1);
    bench.replace("models/llama/model.prod.lock.yaml", "nvidia.com/gpu: \"1\"", "nvidia.com/gpu: \"2\"");
    assert_snapshot!(bench.run(["lock", "--check", "-e", "prod"]), @"
    exit 1
    ----- stdout -----
    ----- stderr -----
    error[lock/damaged]: `spec.graph` is not what `stator lock` wrote: its digest differs
      --> models/llama/model.prod.lock.yaml:22:3
       |
    22 |   graph:
       |   ^^^^^
       |
       = help: Restore the file from git, or remove it and write it again with `stator lock`. To change the graph, use `overrides` in the intent.
       = rule: https://stator.dev/docs/rules#lock/damaged
    ");
    bench.run(["validate", "-e", "prod"]).exits(1);
    assert_snapshot!(bench.run(["lock", "nobody", "-e", "staging"]), @r#"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: `nobody` is neither a path nor a model of the environment
    hint: check the spelling; `stator status` lists the models of the environment
    "#);
    let schema = bench.run(["schema", "lock"]).success().json();
    assert_eq!(schema["title"], "ModelLock");
}
