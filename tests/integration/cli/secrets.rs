//! A secret that somebody wrote out all the same: it goes to the cluster, and nowhere else.

use super::{MOCK, fleet};
use crate::workbench::Workbench;
use insta::assert_snapshot;

const FIRST: &str = "first-s3cr3t";
const SECOND: &str = "second-s3cr3t";
const BY_HAND: &str = "by-hand-s3cr3t";

fn leaky() -> Workbench {
    let bench = fleet();
    let env = format!("    worker:\n      env: {{API_TOKEN: {FIRST}}}\n      args: [--api-key, {FIRST}]\n");
    bench.write("models/mock/model.yaml", MOCK.replace("    worker:\n", &env));
    bench
}

/// Every form of everything that shows a model, and not one of the values in it.
fn nothing_is_shown(bench: &Workbench) {
    let runs: &[&[&str]] = &[
        &["validate"],
        &["validate", "--format", "json"],
        &["validate", "--format", "sarif"],
        &["plan", "-e", "prod"],
        &["plan", "-e", "prod", "-o", "json"],
        &["plan", "-e", "prod", "-o", "markdown"],
        &["plan", "-e", "prod", "-o", "html"],
        &["diff", "-e", "prod"],
        &["status", "-e", "prod"],
        &["status", "-e", "prod", "-o", "json"],
        &["describe", "mock", "-e", "prod"],
        &["history", "mock", "-e", "prod", "-o", "json"],
        &["events", "-e", "prod"],
    ];
    for args in runs {
        let run = bench.run(*args);
        assert!(run.code.is_some_and(|code| code < 2), "{args:?} {run}");
        for secret in [FIRST, SECOND, BY_HAND] {
            assert!(!run.stdout.contains(secret) && !run.stderr.contains(secret), "{args:?} {run}");
        }
    }
}

fn live(bench: &Workbench) -> String {
    let files = bench.files(".stator/cluster");
    files.into_iter().find(|path| path.contains("dynamographdeployments") && path.ends_with("mock.yaml")).unwrap()
}

#[test]
fn a_secret_in_git_reaches_the_cluster_and_no_report() {
    let bench = leaky();
    let synced = bench.run(["sync", "-e", "prod", "--yes"]).success();
    assert!(!synced.stderr.contains(FIRST) && !synced.stdout.contains(FIRST), "{synced}");
    assert_eq!(bench.read(&live(&bench)).matches(FIRST).count(), 2);
    nothing_is_shown(&bench);

    bench.replace("models/mock/model.yaml", FIRST, SECOND);
    nothing_is_shown(&bench);
    assert_snapshot!(bench.run(["diff", "-e", "prod"]).stdout, @r#"
    --- live/models/DynamoGraphDeployment/mock.yaml
    +++ desired/models/DynamoGraphDeployment/mock.yaml
    @@ -28,14 +28,14 @@
               - --model-path
               - Qwen/Qwen3-0.6B
               - --api-key
    -          - "*** (before)"
    +          - "*** (after)"
               command:
               - python3
               - -m
               - dynamo.mocker
               env:
               - name: API_TOKEN
    -            value: "*** (before)"
    +            value: "*** (after)"
               image: nvcr.io/nvidia/ai-dynamo/dynamo-planner:1.2.0
               name: main
         replicas: 2
    "#);

    bench.run(["sync", "-e", "prod", "--yes"]).success();
    bench.replace(&live(&bench), SECOND, BY_HAND);
    nothing_is_shown(&bench);
    let status = bench.run(["status", "-e", "prod"]).success().stdout;
    let drift: Vec<&str> = status.lines().filter(|line| line.starts_with("drift")).collect();
    assert_snapshot!(drift.join("\n"), @r#"
    drift: DynamoGraphDeployment models/mock spec.components[name=worker].podTemplate.spec.containers[name=main].args: git has ["--model-path","Qwen/Qwen3-0.6B","--api-key","***"], the cluster has ["--model-path","Qwen/Qwen3-0.6B","--api-key","***"] (owned by stator)
    drift: DynamoGraphDeployment models/mock spec.components[name=worker].podTemplate.spec.containers[name=main].env[name=API_TOKEN].value: git has "***", the cluster has "***" (owned by stator)
    "#);
}
