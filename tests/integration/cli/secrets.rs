//! A secret that somebody wrote out all the same: it goes to the cluster, and nowhere else.

use super::{MOCK, fleet};
use crate::canaries::{assert_no_canary, canaries, secret_lines, write_canaries, write_refused_canaries};
use crate::workbench::Workbench;
use insta::assert_snapshot;
use std::collections::BTreeSet;

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
        &["validate", "--output", "json"],
        &["validate", "--output", "sarif"],
        &["plan", "-e", "prod"],
        &["plan", "-e", "prod", "-o", "json"],
        &["plan", "-e", "prod", "-o", "markdown"],
        &["plan", "-e", "prod", "-o", "html"],
        &["plan", "-o", "diff", "--exit-code", "-e", "prod"],
        &["status", "-e", "prod"],
        &["status", "-e", "prod", "-o", "json"],
        &["describe", "mock", "-e", "prod"],
        &["history", "mock", "-e", "prod", "-o", "json"],
        &["history", "--events", "-e", "prod"],
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
    assert_snapshot!(bench.run(["plan", "-o", "diff", "--exit-code", "-e", "prod"]).stdout, @r#"
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
    drift: DynamoGraphDeployment models/mock spec.components[name=worker].podTemplate.spec.containers[name=main].args: git has ["--model-path","Qwen/Qwen3-0.6B","--api-key","***"], the cluster has ["--model-path","Qwen/Qwen3-0.6B","--api-key","***"]
    drift: DynamoGraphDeployment models/mock spec.components[name=worker].podTemplate.spec.containers[name=main].env[name=API_TOKEN].value: git has "***", the cluster has "***"
    "#);
}

/// A fleet whose model has every canary wherever a model has text.
fn full_of_canaries() -> Workbench {
    let bench = fleet();
    write_canaries(&bench, "models/mock", MOCK, 0);
    bench
}

fn no_canary_is_shown(bench: &Workbench, runs: &[&[&str]]) {
    for args in runs {
        let run = bench.run(*args);
        assert!(run.code.is_some_and(|code| code < 2), "{args:?} {run}");
        assert_no_canary(&run.stdout, &format!("the result of {args:?}"));
        assert_no_canary(&run.stderr, &format!("the notes of {args:?}"));
    }
}

const VIEWS: &[&[&str]] = &[
    &["validate"],
    &["validate", "--output", "json"],
    &["validate", "--output", "sarif"],
    &["validate", "--output", "github"],
    &["plan", "-e", "prod"],
    &["plan", "-e", "prod", "-vvv"],
    &["plan", "-e", "prod", "-o", "json"],
    &["plan", "-e", "prod", "-o", "yaml"],
    &["plan", "-e", "prod", "-o", "markdown"],
    &["plan", "-e", "prod", "-o", "html"],
    &["plan", "-o", "diff", "--exit-code", "-e", "prod"],
    &["render", "-e", "prod"],
    &["render", "-e", "prod", "-o", "json"],
    &["render", "-e", "prod", "--show-origins"],
];

/// The patch of an upgrade shows the lines around what it changes.
#[test]
fn the_patch_of_an_upgrade_shows_no_secret_beside_what_it_changes() {
    let bench = fleet();
    for (number, canary) in canaries().iter().enumerate() {
        let canary = serde_json::to_string(canary).unwrap();
        let model = MOCK.replace("name: mock", &format!("name: m{number}")).replace(
            "runtime: 1.2.0",
            &format!("image: host/runtime:mine\n  env: {{NOTE: {canary}, DB_PASSWORD: hunter2hunter2}}"),
        );
        bench.write(&format!("models/m{number}/model.yaml"), model);
    }
    for format in ["text", "json", "yaml"] {
        let run = bench.run(["check", "-e", "prod", "--dynamo", "1.5", "-o", format]);
        assert!(run.stdout.contains("+  runtimeVersion: "), "{run}");
        assert_no_canary(&run.stdout, format);
        assert!(!run.stdout.contains("hunter2"), "{format}");
    }
}

const VIEWS_OF_THE_LIVE: &[&[&str]] = &[
    &["status", "-e", "prod"],
    &["status", "-e", "prod", "-o", "json"],
    &["describe", "mock", "-e", "prod"],
    &["describe", "mock", "-e", "prod", "-o", "json"],
    &["get", "models", "-e", "prod", "-o", "yaml"],
    &["tree", "-e", "prod"],
    &["tree", "-e", "prod", "-o", "json"],
    &["history", "mock", "-e", "prod"],
    &["history", "mock", "-e", "prod", "-o", "json"],
    &["history", "--events", "-e", "prod"],
    &["history", "--events", "-e", "prod", "-o", "json"],
];

#[test]
fn a_token_of_any_known_form_reaches_the_cluster_and_no_report() {
    let bench = full_of_canaries();
    no_canary_is_shown(&bench, VIEWS);
    no_canary_is_shown(&bench, &[&["sync", "-e", "prod", "--yes", "-vv"]]);
    let live = bench.read(&live(&bench));
    for line in canaries().iter().flat_map(|canary| secret_lines(canary)) {
        assert!(live.contains(line), "the cluster gets {line}");
    }
    no_canary_is_shown(&bench, VIEWS_OF_THE_LIVE);
    // Every value changes.
    write_canaries(&bench, "models/mock", MOCK, 1);
    no_canary_is_shown(&bench, VIEWS);
    no_canary_is_shown(&bench, VIEWS_OF_THE_LIVE);
    no_canary_is_shown(&bench, &[&["sync", "-e", "prod", "--yes", "-o", "json"]]);
    no_canary_is_shown(&bench, VIEWS_OF_THE_LIVE);
}

#[test]
fn a_message_that_quotes_a_token_is_told_without_it() {
    let bench = fleet();
    write_refused_canaries(&bench, "models/refused", MOCK);
    let found = bench.run(["validate", "--output", "json"]).exits(1).json();
    let refused: BTreeSet<&str> = found["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["severity"] == "error")
        .map(|one| one["file"].as_str().unwrap())
        .collect();
    assert_eq!(refused.len(), canaries().len(), "{found}");
    no_canary_is_shown(&bench, VIEWS);
}

#[test]
fn render_shows_secrets_where_that_is_asked_for_and_counts_them_elsewhere() {
    let bench = full_of_canaries();
    let shown = bench.run(["render", "-e", "prod", "--show-secrets", "-o", "json"]).success();
    for line in canaries().iter().flat_map(|canary| secret_lines(canary)) {
        assert!(shown.stdout.contains(line), "{line}");
    }
    assert!(!shown.stderr.contains("hidden"), "{shown}");
    let hidden = bench.run(["render", "-e", "prod"]).success();
    assert!(hidden.stderr.contains(" values hidden; --show-secrets shows them"), "{hidden}");
    // What another tool applies is complete.
    bench.run(["render", "-e", "prod", "--out", "manifests"]).success();
    let files: String = bench.files("manifests").iter().map(|path| bench.read(path)).collect();
    assert!(canaries().iter().flat_map(|canary| secret_lines(canary)).all(|line| files.contains(line)));

    let plain = fleet().run(["render", "-e", "prod"]).success();
    assert!(!plain.stderr.contains("hidden"), "{plain}");
}

#[test]
fn validate_reports_each_token_once_and_at_its_place() {
    let bench = fleet();
    let token = ["gh", "p_9aQ2mZxW7LkP0vRtY4bNc6HdJs8UfE1gTiKo"].concat();
    let other = ["nv", "api-9aQ2mZxW7LkP0vRtY4bNc6HdJs8UfE1gTiKo"].concat();
    let env = format!("    worker:\n      env: {{API_TOKEN: {token}, NOTE: \"{other}\"}}\n");
    bench.write("models/mock/model.yaml", MOCK.replace("    worker:\n", &env));
    let shown = bench.run(["validate"]).success().stdout;
    assert!(!shown.contains(&token) && !shown.contains(&other), "{shown}");
    let report = bench.run(["validate", "--output", "json"]).success().json();
    let found: Vec<String> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{}:{} {} {}", one["line"], one["column"], one["severity"], one["message"]))
        .collect();
    assert_eq!(
        found,
        [
            r#"13:24 "warning" "a GitHub token is in plain text in git""#,
            r#"13:73 "warning" "an NVIDIA API key is in plain text in git""#
        ]
    );
}
