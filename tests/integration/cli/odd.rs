//! What a user meets who types, sets and keeps things in odd ways.

use super::{MOCK, fleet};
use crate::workbench::{Output, Workbench, in_vain};
use insta::assert_snapshot;

#[test]
fn a_variable_set_to_nothing_is_not_set() {
    let bench = Workbench::with(&[("models/mock/model.yaml", MOCK)]);
    for (verb, name) in [
        ("plan", "STATOR_ENVIRONMENT"),
        ("validate", "STATOR_CLUSTER"),
        ("plan", "STATOR_TIMEOUT"),
        ("plan", "STATOR_FROM"),
        ("plan", "STATOR_DRY_RUN"),
        ("validate", "STATOR_VERBOSE"),
    ] {
        bench.finish(bench.command().arg(verb).env(name, "")).success();
    }
    // A value that is wrong is still refused.
    bench.finish(bench.command().arg("plan").env("STATOR_TIMEOUT", "soon")).exits(2);
}

#[test]
fn a_dry_run_asks_nothing_so_yes_changes_nothing() {
    let bench = Workbench::with(&[("models/mock/model.yaml", MOCK)]);
    bench.run(["sync", "--yes", "--dry-run=client"]).success();
    bench.run(["sync", "--yes", "--dry-run=server"]).success();
    bench.run(["plan", "--exit-code"]).exits(1);
}

/// Row U13 of the new user's list: a variable in a profile overrides no guard. One that would have kept a command from
/// something, such as a dry run, is not ignored either.
#[test]
fn a_variable_of_a_flag_is_refused() {
    let bench = Workbench::with(&[("models/mock/model.yaml", MOCK)]);
    let variables = [("STATOR_YES", "true"), ("STATOR_ALLOW", "delete,mass-delete"), ("STATOR_DRY_RUN", "client")];
    assert_snapshot!(bench.finish(bench.command().args(["sync", "--yes"]).envs(variables)), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: stator does not read STATOR_ALLOW, STATOR_DRY_RUN, STATOR_YES
    hint: pass --allow, --dry-run, --yes on the command line, and unset the variable
    ");
    bench.run(["plan", "--exit-code"]).exits(1);
    // One that had another name means what its flag means now.
    let renamed = bench.finish(bench.command().arg("validate").env("STATOR_FORMAT", "sarif")).exits(2);
    assert!(renamed.notes().contains("pass --output"), "{renamed}");
    // One of the ten that this command has no use for, other commands and other programs' variables are not concerned.
    bench.finish(bench.command().args(["check", "-q"]).env("STATOR_DYNAMO", "1.4")).success();
    bench.finish(bench.command().arg("plan").envs([("STATOR_YES", "true"), ("STATOR_VERSION", "0.1.0")])).success();
}

/// What was renamed works for a release, and says so.
#[test]
fn old_names_work_and_say_their_new_ones() {
    let bench = Workbench::with(&[("models/mock/model.yaml", MOCK)]);
    let old = |arguments: &[&str]| bench.run(arguments);
    let new = |arguments: &[&str]| bench.run(arguments).stdout;
    let diff = old(&["diff"]).exits(1);
    assert_eq!(diff.stdout, new(&["plan", "-o", "diff"]));
    assert_snapshot!(diff.notes(), @"
    warning: `stator diff` is now `stator plan -o diff --exit-code`; the old name works until 0.2
    Using the embedded cluster in .stator/cluster.
    ");
    for off in ["--exit-code=false", "--exit-code=no"] {
        assert_eq!(old(&["-q", "diff", off]).success().stdout, diff.stdout);
    }
    let dry = old(&["sync", "-q", "--dry-run", "client"]).success();
    assert_eq!(dry.stdout, new(&["sync", "-q", "--dry-run"]));
    assert!(dry.notes().contains("`--dry-run client` is now `--dry-run=client`"), "{dry}");
    bench.run(["sync", "--yes", "-q"]).success();
    let events = old(&["--color", "never", "events", "mock"]).success();
    assert_eq!(events.stdout, new(&["history", "--events", "mock"]));
    assert_snapshot!(events.notes(), @"
    warning: `stator events` is now `stator history --events`; the old name works until 0.2
    Using the embedded cluster in .stator/cluster.
    ");
    let found = old(&["validate", "--format=json"]).success();
    assert_eq!(found.stdout, new(&["validate", "-o", "json"]));
    let told = "warning: `--format` is now `--output`; the old name works until 0.2";
    assert_eq!(found.notes().lines().next(), Some(told));
    assert_snapshot!(old(&["rollback", "mock", "--source", "nowhere.yaml"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    warning: `--source` is now `--source-file`; the old name works until 0.2
    error: [TMP]/work is not in a git repository
    hint: revisions need git: run this in a clone
    ");
}

#[test]
fn live_objects_stay_out_of_git() {
    let bench = Workbench::with(&[("models/mock/model.yaml", MOCK)]);
    bench.run(["sync", "--yes"]).success();
    assert_eq!(bench.read(".stator/.gitignore"), "*\n");
}

#[test]
fn a_model_with_errors_is_not_counted_as_synced() {
    let bench = Workbench::with(&[("models/mock/model.yaml", MOCK)]);
    bench.write("models/other/model.yaml", MOCK.replace("name: mock", "name: other"));
    bench.run(["sync", "--yes", "-q"]).success();
    bench.replace("models/other/model.yaml", "engine: mocker", "engine: vlm");
    assert_snapshot!(bench.run(["sync", "--yes", "-q"]), @"
    exit 1
    ----- stdout -----
    1 of 2 models synced, 1 write.
    ----- stderr -----
    1 error in intents, so their models were not changed; run `stator validate`
    ");
}

#[test]
fn a_branch_is_compared_with_where_it_left_trunk() {
    let bench = fleet();
    bench.commit("base");
    bench.switch("trunk");
    bench.switch("topic");
    bench.replace("models/mock/model.yaml", "replicas: 2", "replicas: 3");
    bench.commit("topic");
    bench.switch("trunk");
    bench.write("models/late/model.yaml", MOCK.replace("name: mock", "name: late"));
    bench.commit("trunk goes on");
    bench.switch("topic");
    let both = bench.run(["plan", "-e", "prod", "--from", "trunk", "-o", "json"]).json();
    assert_eq!(both["summary"]["delete"], 1, "trunk's own work seen from the branch");
    for from in ["trunk...", "trunk...HEAD"] {
        let own = bench.run(["plan", "-e", "prod", "--from", from, "-o", "json"]).json();
        assert_eq!((&own["summary"]["delete"], &own["summary"]["update"]), (&0.into(), &1.into()), "{from}");
    }
    assert_snapshot!(bench.run(["plan", "-e", "prod", "--from", "nowhere..."]).notes(), @"
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    error: `nowhere...` is not a revision of the git repository at [TMP]/work: revspec 'nowhere' not found
    hint: pass a branch, a tag, a commit or HEAD~1; a branch that exists only on the remote is origin/<branch>, and a shallow clone lacks old commits (git fetch --unshallow)
    ");
}

#[test]
fn a_model_that_was_broken_before_is_not_called_new() {
    let bench = fleet();
    bench.replace("models/mock/model.yaml", "engine: mocker", "engine: [");
    bench.commit("broken");
    bench.write("models/mock/model.yaml", MOCK);
    assert_snapshot!(bench.run(["plan", "-e", "prod", "--from", "HEAD"]).result(), @r#"
    fleet / prod at ec3b444-dirty against ec3b444

    mock  models/mock/model.yaml
      + create DynamoGraphDeployment models/mock
          · the model had errors before, so the change is unknown: everything is shown

    Plan: 1 to create, 0 to change, 0 to delete, 0 unchanged.
    "#);
}

/// What was synced before it was committed is in the commit afterwards: a status that stays `-dirty` would send people to look
/// for a change that there is none of (U12).
#[test]
fn a_record_of_uncommitted_files_becomes_that_of_their_commit() {
    let bench = fleet();
    bench.commit("one of them");
    bench.replace("models/mock/model.yaml", "replicas: 1", "replicas: 2");
    let sync = || bench.run(["sync", "-e", "prod", "--cluster", "embedded", "--yes"]).success().result();
    let revision = || {
        let status = bench.run(["status", "mock", "-e", "prod", "--cluster", "embedded", "-o", "json"]).json();
        status["models"][0]["revision"].as_str().unwrap().to_owned()
    };
    sync();
    assert!(revision().ends_with("-dirty"), "{}", revision());
    let commit = bench.commit("two of them");
    assert_snapshot!(sync(), @"1 of 1 model synced, 1 write.");
    assert_eq!(revision(), commit);
    assert_snapshot!(sync(), @"1 of 1 model synced, 0 writes.");
}

#[test]
fn a_gpu_named_without_its_socket_is_understood() {
    let bench = Workbench::empty();
    let model = MOCK.replace("engine: mocker", "engine: vllm\n  hardware: {gpu: h200}");
    bench.write("models/mock/model.yaml", model);
    let findings = bench.run(["validate", "--output", "json"]).exits(1).json();
    assert_eq!(findings["findings"][0]["help"], "Did you mean `h200_sxm`?");
}

#[test]
fn a_watched_status_can_have_the_operator_played() {
    let bench = Workbench::with(&[("models/mock/model.yaml", MOCK)]);
    bench.run(["sync", "--yes"]).success();
    for verb in [vec!["status"], vec!["get", "models"]] {
        let watch = ["--watch", "--simulate-operator", "--simulate-speed", "1000"];
        let is_healthy = |output: &Output| output.stdout.contains("Healthy");
        let seen = in_vain(is_healthy, |timeout| bench.run([&verb[..], &watch, &[timeout]].concat()));
        assert!(is_healthy(&seen), "{seen}");
    }
}

/// Row U1 of the review: the command below a plan left out path, cluster, namespace and pruning.
#[test]
fn the_command_below_a_plan_carries_out_that_plan() {
    let bench = Workbench::with(&[("team models/models/mock/model.yaml", MOCK)]);
    let options = ["team models", "--cluster", "embedded:live", "-n", "prod", "--prune=false"];
    let planned = bench.run(["plan"].into_iter().chain(options)).success();
    let line = planned.stdout.lines().find(|line| line.starts_with("stator sync")).unwrap();
    assert_eq!(line, "stator sync 'team models' -e default -n prod --cluster embedded:live --prune=false");
    let words = shlex::split(line).unwrap();
    bench.run(words.iter().skip(1).map(String::as_str).chain(["--yes", "--yes"])).success();
    let after = bench.run(["plan", "--exit-code"].into_iter().chain(options)).success();
    assert!(!after.stdout.contains("Next:"), "{after}");
}

/// A warning is worth reading and fails nothing, unless that is asked for; an error fails in either case.
#[test]
fn warnings_fail_a_validation_only_where_it_is_strict() {
    let bench = Workbench::with(&[("models/mock/model.yaml", MOCK), ("models/mock/model-prod.yaml", "spec: {}\n")]);
    let lenient = bench.run(["validate"]).success();
    assert!(lenient.stdout.contains("warning["), "{lenient}");
    bench.run(["validate", "--strict"]).exits(1);
    bench.replace("models/mock/model.yaml", "engine: mocker", "engine: vlm");
    bench.run(["validate"]).exits(1);
}

/// A token goes to no host in the clear, and a source for another spelling of the clone's address is that clone's.
#[test]
fn a_new_source_is_what_its_clone_and_its_options_say() {
    let bench = Workbench::with(&[("models/mock/model.yaml", MOCK)]);
    bench.commit("first");
    let git = git2::Repository::open(bench.root()).unwrap();
    git.remote("origin", "ssh://git@git.example.com/team/fleet.git").unwrap();
    let create = |more: &[&str], token: Option<&str>| {
        let mut command = bench.command();
        command.args(["create", "source", "--dry-run", "-q"]).args(more);
        bench.finish(command.envs(token.map(|token| ("STATOR_FORGE_TOKEN", token))))
    };
    let plain = ["--url", "http://git.example.com/team/fleet.git", "--forge", "gitea"];
    assert_snapshot!(create(&plain, Some("canary")), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: the token of the git host would be sent without encryption
    hint: pass an https:// address, or unset STATOR_FORGE_TOKEN
    ");
    let forge = ["--url", "https://127.0.0.1/a/b.git", "--forge", "gitea", "--forge-url", "http://forge.example.com"];
    assert!(create(&forge, Some("canary")).exits(2).notes().contains("without encryption"));
    let other = ["--url", "https://git.example.com/team/fleet", "--forge", "gitea", "-o", "yaml"];
    let hosts =
        [&other[..], &["--forge-url", "https://forge.example.com", "--webhook-url", "https://hooks.example.com"]]
            .concat();
    assert_snapshot!(create(&hosts, Some("canary")).success().stdout, @r#"
    apiVersion: v1
    kind: Secret
    metadata:
      labels:
        stator.dev/credential: git.example.com
        stator.dev/source: fleet
      name: fleet-git
      namespace: default
    stringData:
      password: "***"
      username: "***"
    type: Opaque
    ---
    apiVersion: v1
    kind: Secret
    metadata:
      labels:
        stator.dev/credential: forge.example.com
        stator.dev/source: fleet
      name: fleet-forge
      namespace: default
    stringData:
      token: "***"
    type: Opaque
    ---
    apiVersion: v1
    kind: Secret
    metadata:
      labels:
        stator.dev/credential: "true"
        stator.dev/source: fleet
      name: fleet-webhook
      namespace: default
    stringData:
      token: "***"
    type: Opaque
    ---
    apiVersion: stator.dev/v1alpha1
    kind: ModelSource
    metadata:
      name: fleet
      namespace: default
    spec:
      environment: default
      forge:
        secretRef:
          name: fleet-forge
        type: gitea
        url: https://forge.example.com/
      ref:
        branch: master
      secretRef:
        name: fleet-git
      url: https://git.example.com/team/fleet
      webhook:
        secretRef:
          name: fleet-webhook
    "#);
    create(&["--url", "https://git.example.com/a/b.git", "--webhook-url", "https://x/?a=b", "--forge", "gitea"], None)
        .exits(2);
}
