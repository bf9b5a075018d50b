//! Bad usage, help, version, completions and manual pages.

use super::fleet;
use crate::workbench::Workbench;
use insta::assert_snapshot;

#[test]
fn the_version_is_the_crates() {
    let output = Workbench::empty().run(["--version"]).success();
    assert_eq!(output.stdout, format!("stator {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn bad_usage_is_2_and_says_what_was_meant() {
    let bench = Workbench::empty();
    assert_snapshot!(bench.run(["snyc"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: unrecognized subcommand 'snyc'

      tip: a similar subcommand exists: 'sync'

    Usage: stator [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    assert_snapshot!(bench.run(["plan", "--outptu", "json"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: unexpected argument '--outptu' found

      tip: a similar argument exists: '--output'

    Usage: stator plan --output <FORMAT> [PATH]

    For more information, try '--help'.
    ");
    assert_snapshot!(bench.run(["sync", "--timeout", "5"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: invalid value '5' for '--timeout <DURATION>': `5` is no duration; write 90s, 5m or 1h30m

    For more information, try '--help'.
    ");
    bench.run::<&str>([]).exits(2);
}

#[test]
fn an_unknown_environment_is_2_and_names_the_known_ones() {
    let bench = fleet();
    assert_snapshot!(bench.run(["render", "-e", "stagin"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: unknown environment `stagin`; there are `prod`, `staging`; did you mean `staging`?
    hint: environments are named in the root stator.yaml, under `spec.environments`
    ");
    assert_snapshot!(bench.run(["plan"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: the repository has several environments: `prod`, `staging`; choose one with --environment
    hint: or set STATOR_ENVIRONMENT
    ");
    assert_snapshot!(bench.run(["validate", "-e", "nowhere"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: unknown environment `nowhere`; there are `prod`, `staging`
    hint: environments are named in the root stator.yaml, under `spec.environments`
    ");
}

#[test]
fn a_path_that_is_not_there_is_no_empty_repository() {
    let bench = Workbench::empty();
    assert_snapshot!(bench.run(["validate", "nowhere"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: nowhere does not exist
    hint: check the spelling, or start a repository with `stator init`
    ");
    bench.run(["plan", "nowhere"]).exits(2);
    bench.run(["sync", "--yes", "nowhere"]).exits(2);
}

#[test]
fn a_kubernetes_cluster_is_refused_in_words() {
    let bench = fleet();
    assert_snapshot!(bench.run(["plan", "-e", "prod", "--context", "gpu-west"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: a Kubernetes cluster was asked for with --context or --kubeconfig
    hint: this release works on the embedded cluster only; pass `--cluster embedded`, or apply the output of `stator render` with kubectl
    ");
    bench.run(["status", "-e", "prod", "--kubeconfig", "k"]).exits(2);
    assert_snapshot!(bench.run(["plan", "-e", "prod", "--cluster", "kind"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: `kind` is no cluster
    hint: write `embedded`, or `embedded:DIR` for a folder of your own
    ");
    bench.replace("stator.yaml", "      namespace: models\n", "      namespace: models\n      context: gpu-west\n");
    assert_snapshot!(bench.run(["plan", "-e", "prod"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: the environment asks for the Kubernetes context `gpu-west`
    hint: this release works on the embedded cluster only; pass `--cluster embedded`, or apply the output of `stator render` with kubectl
    ");
    bench.run(["plan", "-e", "prod", "--cluster", "embedded"]).success();
}

#[test]
fn the_cluster_is_said_in_one_line() {
    let bench = fleet();
    assert_snapshot!(bench.run(["diff", "-e", "prod", "--exit-code=false", "--quiet"]).success().notes(), @"");
    assert_snapshot!(bench.run(["status", "-e", "prod", "--cluster", "embedded:elsewhere"]).success().notes(), @"Using the embedded cluster in elsewhere.");
    bench.write("config", "");
    let mut command = bench.command();
    let output = bench.finish(command.args(["status", "-e", "prod"]).env("KUBECONFIG", "config")).success();
    assert_snapshot!(output.notes(), @"Using the embedded cluster in .stator/cluster: config is passed over, as this release does not work on Kubernetes.");
}

#[test]
fn variables_stand_in_for_flags() {
    let bench = fleet();
    let mut command = bench.command();
    let output = bench.finish(command.args(["render"]).env("STATOR_ENVIRONMENT", "prod").env("STATOR_OUTPUT", "json"));
    assert_eq!(output.success().json()["kind"], "List");
}

#[test]
fn completions_and_manual_pages_know_every_verb() {
    let bench = Workbench::empty();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(bench.run(["completions", shell]).success().stdout.contains("validate"), "{shell}");
    }
    bench.run(["man", "pages"]).success();
    assert_snapshot!(bench.files("pages").join("\n"), @"
    pages/stator-completions.1
    pages/stator-describe.1
    pages/stator-diff.1
    pages/stator-events.1
    pages/stator-explain.1
    pages/stator-fmt.1
    pages/stator-get-models.1
    pages/stator-get.1
    pages/stator-history.1
    pages/stator-init.1
    pages/stator-man.1
    pages/stator-plan.1
    pages/stator-render.1
    pages/stator-schema.1
    pages/stator-status.1
    pages/stator-sync.1
    pages/stator-validate.1
    pages/stator.1
    ");
}

#[test]
fn schemas_are_json() {
    let bench = Workbench::empty();
    for document in ["intent", "overlay", "repository", "defaults", "source", "plan"] {
        assert!(bench.run(["schema", document]).success().json()["properties"].is_object(), "{document}");
    }
}

#[test]
fn a_field_is_explained() {
    let bench = Workbench::empty();
    assert_snapshot!(bench.run(["explain", "serving.worker.sharedMemory"]), @r#"
    exit 0
    ----- stdout -----
    KIND:   Model
    FIELD:  spec.serving.worker.sharedMemory <string>

      Size of /dev/shm; `"0"` for none. Defaults to the operator's 8Gi.

    RULES:
      a quantity such as `500Gi`, `2` or `500m`
    ----- stderr -----
    "#);
    assert_snapshot!(bench.run(["explain", "serving.wroker"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: there is no field `wroker` in `model.spec.serving`: did you mean `worker`? It has `frontend`, `worker`, `prefill`, `decode`
    hint: `stator explain` alone lists the fields at the top
    ");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    use std::io::Read as _;
    let bench = Workbench::empty();
    let mut command = bench.command();
    let mut child = command.args(["schema", "intent"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut first = [0; 1];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert!(child.wait().unwrap().success());
}
