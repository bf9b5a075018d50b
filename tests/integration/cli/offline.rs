//! Verbs that need no cluster: init, validate, fmt, render, plan --from.

use super::{MOCK, ROOT, fleet};
use crate::workbench::Workbench;
use insta::assert_snapshot;

#[test]
fn a_new_repository_validates_and_is_never_overwritten() {
    let bench = Workbench::empty();
    assert_snapshot!(bench.run(["init"]), @"
    exit 0
    ----- stdout -----
    .gitignore
    .schemas/defaults.json
    .schemas/intent.json
    .schemas/lock.json
    .schemas/overlay.json
    .schemas/repository.json
    .vscode/settings.json
    models/mock/model.yaml
    models/qwen3-8b/model.staging.yaml
    models/qwen3-8b/model.yaml
    stator.yaml
    ----- stderr -----
    Next: stator validate && stator sync -e staging --cluster embedded --simulate-operator --wait
    ");
    assert_snapshot!(bench.run(["validate"]), @"
    exit 0
    ----- stdout -----
    All checks passed (2 models).
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    ");
    bench.run(["fmt", "--check"]).success();
    assert_snapshot!(bench.run(["init"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: ./.gitignore exists already
    hint: choose another folder: `stator init DIR`
    ");
}

#[test]
fn every_fault_of_every_file_is_shown_at_once() {
    let bench = fleet();
    bench.replace("models/mock/model.yaml", "engine: mocker", "engine: vlm");
    bench.write(
        "models/other/model.yaml",
        MOCK.replace("name: mock", "name: other").replace("replicas: 2", "replicas: two"),
    );
    assert_snapshot!(bench.run(["validate"]), @"
    exit 1
    ----- stdout -----
    error[schema/unknown-word]: `spec.engine` is `vlm`; expected one of `vllm`, `sglang`, `trtllm`, `mocker`, `custom`, `auto`
     --> models/mock/model.yaml:7:11
      |
    7 |   engine: vlm
      |           ^^^
      |
      = help: Did you mean `vllm`?
      = rule: https://stator.dev/docs/rules#schema/unknown-word

    error[schema/type]: `spec.serving.worker.replicas` is the string `two`; expected a whole number from 0 to 10000
      --> models/other/model.yaml:13:17
       |
    13 |       replicas: two
       |                 ^^^
       |
       = help: Write a whole number from 0 to 10000.
       = rule: https://stator.dev/docs/rules#schema/type

    Found 2 errors (2 models checked).
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    ");
    assert_snapshot!(bench.run(["validate", "--output", "concise", "models/other"]), @"
    exit 1
    ----- stdout -----
    models/other/model.yaml:13:17: error[schema/type] `spec.serving.worker.replicas` is the string `two`; expected a whole number from 0 to 10000 (Write a whole number from 0 to 10000.)
    Found 1 error (1 model checked).
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    ");
    let json = bench.run(["validate", "--output", "json"]).exits(1).json();
    assert_eq!((json["files"].as_u64(), json["models"].as_u64()), (Some(3), Some(2)), "{json}");
    assert_eq!(json["findings"].as_array().map(Vec::len), Some(2), "{json}");
    for format in ["sarif", "gitlab"] {
        bench.run(["validate", "--output", format]).exits(1).json();
    }
    for format in ["junit", "github"] {
        assert!(bench.run(["validate", "--output", format]).exits(1).stdout.contains("models/other/model.yaml"));
    }
}

#[test]
fn a_faulty_model_does_not_stop_the_others() {
    let bench = fleet();
    bench.write("models/other/model.yaml", "kind: [");
    let output = bench.run(["render", "-e", "prod"]).exits(1);
    assert!(output.stdout.contains("name: mock"), "{output}");
    assert!(output.stderr.contains("models/other/model.yaml"), "{output}");
}

#[test]
fn an_empty_repository_is_said_to_be_empty() {
    let bench = Workbench::empty();
    assert_snapshot!(bench.run(["validate"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: no stator.yaml and no model.yaml in [TMP]/work
    hint: check the path; `stator init` creates a small repository to start from
    hint: if the folder is empty on purpose, pass --allow-empty
    ");
    assert_snapshot!(bench.run(["render"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: no stator.yaml and no model.yaml in [TMP]/work
    hint: check the path; `stator init` creates a small repository to start from
    hint: if the folder is empty on purpose, pass --allow-empty
    ");
}

#[cfg(unix)]
#[test]
fn an_unreadable_file_is_a_finding_and_not_a_removal() {
    use std::os::unix::fs::symlink;
    let bench = fleet();
    bench.run(["sync", "-e", "prod", "--yes"]).success();
    // A link that leads nowhere is unreadable for every user, root included.
    bench.remove("models/mock/model.yaml");
    symlink("nowhere", bench.path("models/mock/model.yaml")).unwrap();
    bench.run(["validate"]).exits(1);
    let plan = bench.run(["plan", "-e", "prod", "-o", "json"]).exits(1).json();
    assert_eq!(plan["summary"]["delete"], 0, "{plan:#}");
}

#[test]
fn formatting_is_checked_then_done() {
    let bench = fleet();
    bench.run(["fmt"]).success();
    let neat = bench.read("models/mock/model.yaml");
    bench.replace("models/mock/model.yaml", "  engine: mocker\n", "  engine:   mocker # cpu\n");
    assert_snapshot!(bench.run(["fmt", "--check"]), @"
    exit 1
    ----- stdout -----
    models/mock/model.yaml
    ----- stderr -----
    1 file would change, 1 is formatted already
    ");
    bench.run(["fmt"]).success();
    assert_eq!(bench.read("models/mock/model.yaml"), neat.replace("engine: mocker", "engine: mocker # cpu"));
    bench.run(["fmt", "--check"]).success();
    bench.write("models/mock/model.yaml", "a: [\n");
    bench.run(["fmt"]).exits(2);
    assert_eq!(bench.read("models/mock/model.yaml"), "a: [\n");
}

#[test]
fn rendered_objects_go_to_one_file_each() {
    let bench = fleet();
    bench.run(["render", "-e", "prod", "--out", "out"]).success();
    assert_snapshot!(bench.files("out").join("\n"), @"out/mock/dynamographdeployment-mock.yaml");
    let list = bench.run(["render", "-e", "prod", "-n", "elsewhere", "-o", "json"]).success().json();
    assert_eq!(list["items"][0]["metadata"]["namespace"], "elsewhere");
}

#[test]
fn a_pull_request_is_planned_without_a_cluster() {
    let bench = fleet();
    bench.commit("one");
    bench.replace("models/mock/model.yaml", "replicas: 2", "replicas: 3");
    assert_snapshot!(bench.run(["plan", "-e", "prod", "--from", "HEAD"]), @"
    exit 0
    ----- stdout -----
    fleet / prod at acdf8c5-dirty against acdf8c5

    mock  models/mock/model.yaml
      ~ update DynamoGraphDeployment models/mock   scale
          ~ spec.components[name=worker].replicas   2 → 3

    Plan: 0 to create, 1 to change, 0 to delete, 0 unchanged.
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    ");
    bench.commit("two");
    bench.run(["plan", "-e", "prod", "--from", "HEAD~1", "--to", "HEAD", "--exit-code"]).exits(1);
    bench.run(["plan", "-e", "prod", "--from", "HEAD", "--exit-code"]).success();
    bench.run(["plan", "-e", "prod", "--from", "nowhere"]).exits(2);
    assert!(!bench.path(".stator").exists(), "no cluster was touched");
}

/// Row U7 of the new user's list: annotations were for files that the checkout does not have.
#[test]
fn formats_of_ci_name_files_as_the_checkout_has_them() {
    let bench = Workbench::with(&[
        ("serving/stator.yaml", ROOT),
        ("serving/models/mock/model.yaml", &MOCK.replace("engine: mocker", "engine: mokcer")),
    ]);
    let said = |format: &str| bench.run(["validate", "serving", "--output", format]).exits(1).stdout;
    for format in ["github", "gitlab", "sarif", "junit"] {
        assert!(!said(format).contains("serving/models"), "{format} outside git: {}", said(format));
    }
    bench.commit("The models");
    for format in ["github", "gitlab", "sarif", "junit"] {
        assert!(said(format).contains("serving/models/mock/model.yaml"), "{format}: {}", said(format));
    }
    for format in ["text", "concise", "json"] {
        let said = said(format);
        assert!(said.contains("models/mock/model.yaml") && !said.contains("serving/models"), "{format}: {said}");
    }
}

#[test]
fn a_model_with_errors_is_not_said_to_be_unchanged() {
    let bench = fleet();
    bench.replace("models/mock/model.yaml", "engine: mocker", "engine: mokcer");
    assert_snapshot!(bench.run(["plan", "-e", "prod"]), @"
    exit 1
    ----- stdout -----
    fleet / prod against live

    error[schema/unknown-word]: `spec.engine` is `mokcer`; expected one of `vllm`, `sglang`, `trtllm`, `mocker`, `custom`, `auto`
      --> models/mock/model.yaml:7:11
      = help: Did you mean `mocker`?
      = rule: https://stator.dev/docs/rules#schema/unknown-word

    No plan: the selected models have errors.
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    ");
    // It is in one environment alone, and asked for by name.
    bench.replace("models/mock/model.yaml", "engine: mokcer", "engine: mocker");
    bench.replace(
        "stator.yaml",
        "namespace: models-staging",
        "namespace: models-staging\n      exclude: [models/mock]",
    );
    assert_snapshot!(bench.run(["validate", "mock"]), @"
    exit 0
    ----- stdout -----
    All checks passed (1 model).
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    ");
}
