//! `stator wait`: a pipeline waits for what somebody else does.

use super::{MOCK, fleet};
use crate::workbench::{Output, Workbench, in_vain};
use insta::assert_snapshot;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, Stdio};

const SYNC: &[&str] = &["sync", "-e", "prod", "--yes", "-q"];
const OPERATOR: &[&str] = &["--wait", "--simulate-operator", "--simulate-speed", "1000"];

fn wait(bench: &Workbench, more: &[&str]) -> Output {
    bench.run([&["wait", "-e", "prod", "-q"], more].concat())
}

/// A wait that goes on. The timeout is for a test that fails.
fn started(bench: &Workbench, more: &[&str]) -> (Child, BufReader<ChildStderr>) {
    let mut command = bench.command();
    command.args(["wait", "-e", "prod", "--timeout", "10m"]).args(more);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while ![" of 1 model ", " of 2 models "].iter().any(|count| line.contains(count)) {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "it never waits");
    }
    (child, said)
}

/// The exit code and the result of a wait that ends.
fn ended((mut child, mut said): (Child, BufReader<ChildStderr>)) -> (Option<i32>, String) {
    let (mut result, mut rest) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut result).unwrap();
    said.read_to_string(&mut rest).unwrap();
    (child.wait().unwrap().code(), result)
}

#[test]
fn a_wait_ends_when_somebody_else_has_synced_and_the_operator_is_done() {
    let bench = fleet();
    let synced = started(&bench, &["--for", "synced"]);
    let healthy = started(&bench, &["mock"]);
    bench.run([SYNC, OPERATOR].concat()).success();
    let (code, result) = ended(synced);
    assert_eq!(code, Some(0), "{result}");
    assert!(result.ends_with("1 of 1 model synced.\n"), "{result}");
    assert_eq!(ended(healthy).0, Some(0));
    assert_snapshot!(wait(&bench, &["mock"]), @"
    exit 0
    ----- stdout -----
    MODEL  RESULT  SYNC    HEALTH   MESSAGE
    mock   Met     Synced  Healthy  all components are ready
    1 of 1 model healthy.
    ----- stderr -----
    ");
    assert_snapshot!(wait(&bench, &["mock", "--for", "synced", "-o", "json"]), @r#"
    exit 0
    ----- stdout -----
    {
      "condition": "synced",
      "met": true,
      "models": [
        {
          "name": "mock",
          "namespace": "models",
          "outcome": "Met",
          "sync": "Synced",
          "health": "Healthy",
          "message": "all components are ready"
        }
      ]
    }
    ----- stderr -----
    "#);
    assert_snapshot!(wait(&bench, &["mock", "-o", "yaml"]).success().result(), @"
    condition: healthy
    met: true
    models:
    - name: mock
      namespace: models
      outcome: Met
      sync: Synced
      health: Healthy
      message: all components are ready
    ");
}

#[test]
fn a_wait_for_a_removed_model_ends_when_its_objects_are_gone() {
    let bench = fleet();
    bench.write("models/other/model.yaml", MOCK.replace("name: mock", "name: other"));
    bench.run(SYNC).success();
    let deleted = started(&bench, &["other", "--for", "deleted"]);
    bench.remove("models/other/model.yaml");
    bench.run(SYNC).success();
    let (code, result) = ended(deleted);
    assert_eq!(code, Some(0), "{result}");
    assert_snapshot!(wait(&bench, &["other", "--for", "deleted"]), @"
    exit 0
    ----- stdout -----
    MODEL  RESULT  SYNC     HEALTH   MESSAGE
    other  Met     Unknown  Unknown  it is in neither git nor a record
    1 of 1 model deleted.
    ----- stderr -----
    ");
    // What git still has and the cluster too is not deleted, however long the first look takes.
    wait(&bench, &["mock", "--for", "deleted", "--timeout", "300ms"]).exits(124);
}

/// Volumes hold weights that took hours to download, and outlive their models.
#[test]
fn a_volume_that_is_kept_is_not_waited_for() {
    let bench = fleet();
    bench.write("models/other/model.yaml", MOCK.replace("name: mock", "name: other"));
    let cached = MOCK.to_owned() + "  cache: {claim: weights, size: 1Gi}\n";
    bench.write("models/mock/model.yaml", cached);
    bench.run(SYNC).success();
    bench.remove("models/mock/model.yaml");
    bench.run([SYNC, &["--allow", "delete,mass-delete"]].concat()).success();
    let left = bench.files(".stator/cluster").into_iter().filter(|file| file.ends_with("/weights.yaml")).count();
    assert_eq!(left, 1);
    wait(&bench, &["mock", "--for", "deleted"]).success();
    // Asked about all models, it is met too; the other one still runs.
    let is_met = |output: &Output| output.stdout.contains("\"Met\"");
    let all = in_vain(is_met, |timeout| wait(&bench, &["--for", "deleted", timeout, "-o", "json"])).json();
    let outcomes: Vec<_> =
        all["models"].as_array().unwrap().iter().map(|model| (&model["name"], &model["outcome"])).collect();
    assert_eq!(format!("{outcomes:?}"), r#"[(String("mock"), String("Met")), (String("other"), String("Waiting"))]"#);
}

#[test]
fn a_wait_that_cannot_end_well_says_why() {
    let bench = fleet();
    // Nobody syncs: the last look is told.
    let has_looked = |output: &Output| output.stdout.contains("does not exist yet");
    assert_snapshot!(in_vain(has_looked, |timeout| wait(&bench, &[timeout])), @"
    exit 124
    ----- stdout -----
    MODEL  RESULT   SYNC       HEALTH       MESSAGE
    mock   Waiting  OutOfSync  Progressing  does not exist yet
    0 of 1 model healthy.
    ----- stderr -----
    ");
    assert_snapshot!(wait(&bench, &["mokc"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: `mokc` is neither a path nor a model of the environment
    hint: did you mean `mock`?
    ");
    assert_snapshot!(wait(&bench, &["-l", "team=search"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: there is no model to wait for
    hint: check the targets and --selector; `stator status` lists the models of the environment
    ");
    bench.run(SYNC).success();
    // A model with errors is not synced by waiting, and others are waited for all the same.
    bench.write("models/other/model.yaml", MOCK.replace("name: mock", "name: other"));
    bench.replace("models/mock/model.yaml", "engine: mocker", "engine: vlm");
    let both = started(&bench, &["--for", "synced"]);
    bench.run([SYNC, &["other"]].concat()).success();
    let (code, result) = ended(both);
    assert_eq!(code, Some(1));
    assert_snapshot!(result, @"
    MODEL  RESULT  SYNC     HEALTH   MESSAGE
    mock   Failed  Blocked  Unknown  has errors: see `stator validate`
    other  Met     Synced   Unknown  the operator has not observed it yet
    1 of 2 models synced.
    ");
}

#[test]
fn a_wait_writes_nothing_and_stops_on_ctrl_c() {
    let bench = fleet();
    let (mut child, said) = started(&bench, &[]);
    let objects =
        |bench: &Workbench| bench.files(".stator/cluster").into_iter().filter(|file| file.ends_with(".yaml")).count();
    assert!(std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(said);
    assert_eq!(objects(&bench), 0);
}
