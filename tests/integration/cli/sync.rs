//! Verbs that work on a cluster: plan, diff, sync, status, describe, events, history.

use super::{MOCK, crowd, fleet};
use insta::assert_snapshot;
use std::io::{BufRead as _, Read as _};

const SYNC: &[&str] = &["sync", "-e", "prod", "--yes"];

#[test]
fn a_model_is_planned_synced_and_told_about() {
    let bench = fleet();
    assert_snapshot!(bench.run(["plan", "-e", "prod"]), @"
    exit 0
    ----- stdout -----
    fleet / prod against live

    mock  models/mock/model.yaml
      + create DynamoGraphDeployment models/mock
          · is not in the cluster yet

    Plan: 1 to create, 0 to change, 0 to delete, 0 unchanged.

    Next:
    stator sync -e prod --cluster embedded
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    ");
    bench.run(["plan", "-e", "prod", "--exit-code"]).exits(1);
    assert_snapshot!(bench.run(SYNC), @"
    exit 0
    ----- stdout -----
    MODEL  RESULT  APPLIED  PRUNED  MESSAGE
    mock   Synced  1        0       -
    1 of 1 model synced, 5 writes.
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    fleet / prod against live

    mock  models/mock/model.yaml
      + create DynamoGraphDeployment models/mock
          · is not in the cluster yet

    Plan: 1 to create, 0 to change, 0 to delete, 0 unchanged.
    ");
    assert_snapshot!(bench.run(SYNC), @"
    exit 0
    ----- stdout -----
    1 of 1 model synced, 0 writes.
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    fleet / prod against live

    No changes: 1 object of 1 model is in the desired state.
    ");
    bench.run(["plan", "-e", "prod", "--exit-code"]).success();
    bench.run(["plan", "-o", "diff", "--exit-code", "-e", "prod"]).success();
    assert_eq!(bench.run(["status", "-e", "prod", "-o", "name"]).success().stdout, "model/models/mock\n");
    let report = bench.run(["get", "models", "-e", "prod", "-o", "json"]).success().json();
    assert_eq!(report["models"][0]["sync"], "Synced", "{report:#}");
    let history = bench.run(["history", "mock", "-e", "prod", "-o", "json"]).success().json();
    assert_eq!(history["history"][0]["result"], "Synced", "{history:#}");
    assert!(bench.run(["describe", "model/models/mock", "-e", "prod"]).success().stdout.contains("APPLIED OBJECT"));
    assert!(bench.run(["history", "--events", "-e", "prod"]).success().stdout.contains("Synced"));
    assert_snapshot!(bench.run(["describe", "mokc", "-e", "prod"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    error: `mokc` is neither a path nor a model of the environment
    hint: did you mean `mock`?
    ");
}

#[test]
fn nothing_is_written_without_a_yes() {
    let bench = fleet();
    let output = bench.run(["sync", "-e", "prod"]).exits(2);
    assert!(output.stderr.ends_with("hint: pass --yes to skip the confirmation\n"), "{output}");
    bench.run(["plan", "-e", "prod", "--exit-code"]).exits(1);
}

#[test]
fn a_dry_run_writes_nothing() {
    let bench = fleet();
    for place in ["client", "server"] {
        bench.run(["sync", "-e", "prod", &format!("--dry-run={place}")]).success();
        let objects: Vec<String> =
            bench.files(".stator/cluster").into_iter().filter(|file| file.ends_with(".yaml")).collect();
        assert_eq!(objects, Vec::<String>::new(), "{place}");
    }
}

#[test]
fn waiting_ends_in_health_with_the_simulated_operator() {
    let bench = fleet();
    let mut arguments = SYNC.to_vec();
    arguments.extend(["--wait", "--simulate-operator", "--simulate-speed", "100", "--timeout", "15m"]);
    assert_snapshot!(bench.run(arguments).success().result(), @"
    MODEL  RESULT   APPLIED  PRUNED  MESSAGE
    mock   Healthy  1        0       -
    1 of 1 model synced, 5 writes.
    ");
    let report = bench.run(["status", "mock", "-e", "prod", "-o", "json"]).success().json();
    assert_eq!(report["models"][0]["health"], "Healthy", "{report:#}");
}

#[test]
fn waiting_without_an_operator_ends_with_the_timeout() {
    let bench = fleet();
    let mut arguments = SYNC.to_vec();
    arguments.extend(["--wait", "--timeout", "300ms"]);
    bench.run(arguments).exits(124);
}

#[test]
fn a_saved_plan_is_carried_out_only_while_it_holds() {
    let bench = fleet();
    bench.write("plan.json", bench.run(["plan", "-e", "prod", "-o", "json"]).success().stdout);
    bench.write("models/other/model.yaml", MOCK.replace("name: mock", "name: other"));
    let mut arguments = SYNC.to_vec();
    arguments.extend(["--plan", "plan.json"]);
    assert_snapshot!(bench.run(&arguments), @"
    exit 1
    ----- stdout -----
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    error: the plan in plan.json is out of date:
      DynamoGraphDeployment models/other: new, create
    hint: plan again, review the new plan, and sync that one
    ");
    bench.remove("models/other");
    bench.run(&arguments).success();
    bench.write("plan.json", "{}");
    bench.run(&arguments).exits(2);
}

#[test]
fn drift_is_named_and_shown_as_a_diff() {
    let bench = fleet();
    bench.run(SYNC).success();
    bench.replace(".stator/cluster/models/dynamographdeployments/mock.yaml", "replicas: 2", "replicas: 5");
    assert_snapshot!(bench.run(["plan", "-o", "diff", "--exit-code", "-e", "prod"]).exits(1).result(), @r"
    --- live/models/DynamoGraphDeployment/mock.yaml
    +++ desired/models/DynamoGraphDeployment/mock.yaml
    @@ -33,5 +33,5 @@
               - dynamo.mocker
               image: nvcr.io/nvidia/ai-dynamo/dynamo-planner:1.2.0
               name: main
    -    replicas: 5
    +    replicas: 2
         type: decode
    ");
    let report = bench.run(["status", "-e", "prod", "-o", "json"]).success().json();
    assert_eq!(report["models"][0]["drift"][0]["have"], 5, "{report:#}");
    bench.run(["plan", "-e", "prod", "--fail-on", "scale"]).exits(1);
    bench.run(["plan", "-e", "prod", "--fail-on", "delete"]).success();
}

#[test]
fn a_mass_removal_is_held_back_until_it_is_allowed() {
    let bench = crowd(8);
    bench.run(["sync", "--yes"]).success();
    for index in 1..8 {
        bench.remove(&format!("models/mock-{index}"));
    }
    let held = bench.run(["sync", "--yes"]).exits(1);
    assert!(held.stderr.contains("held back[mass-delete]"), "{held}");
    let left =
        |bench: &crate::workbench::Workbench| bench.files(".stator/cluster/default/dynamographdeployments").len();
    assert_eq!(left(&bench), 8);
    bench.run(["sync", "--yes", "--allow", "mass-delete"]).success();
    assert_eq!(left(&bench), 1);
    bench.run(["plan", "--exit-code"]).success();
}

#[test]
fn a_removed_model_stays_with_prune_false() {
    let bench = crowd(2);
    bench.run(["sync", "--yes"]).success();
    bench.remove("models/mock-1");
    bench.run(["sync", "--yes", "--prune=false"]).success();
    assert_eq!(bench.files(".stator/cluster/default/dynamographdeployments").len(), 2);
    bench.run(["sync", "--yes"]).success();
    assert_eq!(bench.files(".stator/cluster/default/dynamographdeployments").len(), 1);
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_cleanly_with_130() {
    let bench = fleet();
    let mut command = bench.command();
    // No operator will ever make it healthy: the timeout is for a test that fails.
    let arguments = [SYNC, &["--wait", "--timeout", "15m"]].concat();
    let mut child = command
        .args(arguments)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let (mut said, mut output) = (String::new(), std::io::BufReader::new(child.stderr.take().unwrap()));
    while !said.contains("; mock: ") {
        assert_ne!(output.read_line(&mut said).unwrap(), 0, "it never waits for health: {said}");
    }
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    output.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    bench.run(["plan", "-e", "prod", "--exit-code"]).success();
}
