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

    Usage: stator plan --output <FORMAT> [PATH|MODEL]...

    For more information, try '--help'.
    ");
    assert_snapshot!(bench.run(["sync", "--timeout", "5"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: invalid value '5' for '--timeout <DURATION>': `5` is not a valid duration; use 90s, 5m or 1h30m

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
    error: unknown environment `stagin`; known: `prod`, `staging`; did you mean `staging`?
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
    error: unknown environment `nowhere`; known: `prod`, `staging`
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
    error: `nowhere` is neither a path nor a model of the environment
    hint: check the spelling; `stator status` lists the models of the environment
    ");
    bench.run(["plan", "nowhere"]).exits(2);
    bench.run(["sync", "--yes", "nowhere"]).exits(2);
}

/// A kubeconfig of two contexts; nothing listens at the port of either.
const KUBECONFIG: &str = "\
apiVersion: v1
kind: Config
current-context: gpu-east
clusters:
  - {name: east, cluster: {server: 'http://127.0.0.1:1'}}
  - {name: west, cluster: {server: 'http://127.0.0.1:1/west'}}
users:
  - {name: me, user: {token: t0p-s3cret}}
contexts:
  - {name: gpu-east, context: {cluster: east, user: me}}
  - {name: gpu-west, context: {cluster: west, user: me}}
";

/// Remembers that a person let the repository use this context, and no other.
fn trust(bench: &Workbench, context: Option<&str>) {
    let repository = bench.root().canonicalize().unwrap();
    let answers = context.map(|context| serde_json::json!({"repository": repository, "context": context}));
    let file = bench.root().parent().unwrap().join("home/.local/state/stator/trusted-contexts.json");
    fs_err::create_dir_all(file.parent().unwrap()).unwrap();
    fs_err::write(file, serde_json::json!({"trusted": answers.as_slice()}).to_string()).unwrap();
}

/// S17: a clone names the context whose plugin would be run.
#[test]
fn a_clone_chooses_no_context_unasked() {
    let bench = fleet();
    let plugin =
        "exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: [ran], interactiveMode: Never}";
    let users = format!("  - {{name: me, user: {{token: t0p-s3cret}}}}\n  - {{name: admin, user: {{{plugin}}}}}\n");
    let config = KUBECONFIG.replace("  - {name: me, user: {token: t0p-s3cret}}\n", &users);
    bench.write("kubeconfig", config.replace("{cluster: west, user: me}", "{cluster: west, user: admin}"));
    bench.replace("stator.yaml", "      namespace: models\n", "      namespace: models\n      context: gpu-west\n");
    let run = |args: &[&str]| {
        bench.finish(bench.command().args(args).env_remove("STATOR_CLUSTER").env("KUBECONFIG", "kubeconfig")).exits(2)
    };
    assert_snapshot!(run(&["plan", "-e", "prod"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: the repository asks for the context `gpu-west` of the kubeconfig, which you have not allowed; the current context is `gpu-east`
    hint: pass --context gpu-west to use it, or --context with another one
    hint: on a terminal stator asks, and remembers the answer for this repository
    ");
    let file = ["sync", "-e", "prod", "--yes", "--no-input", "--kubeconfig", "kubeconfig"];
    assert!(run(&file).notes().starts_with("error: the repository asks for the context"));
    // An answer for another context, or of another repository, is none.
    trust(&bench, Some("gpu-east"));
    run(&["plan", "-e", "prod"]);
    assert!(!bench.path("ran").exists(), "the plugin was run");
    // Whoever names the context, or the one that is used anyway, is not asked.
    assert!(run(&["plan", "-e", "prod", "--context", "gpu-east"]).notes().starts_with("Using the"));
    bench.replace("kubeconfig", "current-context: gpu-east", "current-context: gpu-west");
    run(&["plan", "-e", "prod"]);
    assert!(bench.path("ran").exists(), "the user's own context was not used");
}

#[test]
fn a_kubernetes_cluster_that_is_not_reached_is_said_with_what_to_do() {
    let bench = fleet();
    bench.write("kubeconfig", KUBECONFIG);
    let run = |args: &[&str]| {
        bench.finish(bench.command().args(args).env_remove("STATOR_CLUSTER").env("KUBECONFIG", "nowhere:kubeconfig"))
    };
    assert_snapshot!(run(&["plan", "-e", "prod"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    Using the Kubernetes cluster of context `gpu-east` (http://127.0.0.1:1), the current context of the kubeconfig.
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    error: the policies of the fleet cannot be read from the cluster, so nothing is planned (a partial view would look like removals): http://127.0.0.1:1 cannot be reached: tcp connect error: Connection refused (os error 111)
    hint: check that the cluster is running and can be reached: VPN, proxy, the kubeconfig's server
    ");
    assert_snapshot!(run(&["plan", "-e", "prod", "--context", "gpu-west", "--as", "ci"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    Using the Kubernetes cluster of context `gpu-west` (http://127.0.0.1:1/west) as ci.
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    error: the policies of the fleet cannot be read from the cluster, so nothing is planned (a partial view would look like removals): http://127.0.0.1:1/west cannot be reached: tcp connect error: Connection refused (os error 111)
    hint: check that the cluster is running and can be reached: VPN, proxy, the kubeconfig's server
    ");
    assert_snapshot!(run(&["status", "-e", "prod", "--context", "gpu-north"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: the kubeconfig has no context `gpu-north`; it has gpu-east, gpu-west
    hint: choose one of these with --context
    ");
    assert_snapshot!(bench.run(["status", "-e", "prod", "--context", "gpu-north"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: no kubeconfig found: ~/.kube/config does not exist and $KUBECONFIG is not set
    hint: name one with --kubeconfig or $KUBECONFIG
    hint: or try stator without Kubernetes: `--cluster embedded` keeps objects as files
    ");
    assert_snapshot!(bench.run(["status", "-e", "prod", "--kubeconfig", "k"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: k: No such file or directory (os error 2)
    hint: `kubectl config view` reads the same file
    ");
    assert_snapshot!(run(&["sync", "-e", "prod", "--yes", "--simulate-operator"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    Using the Kubernetes cluster of context `gpu-east` (http://127.0.0.1:1), the current context of the kubeconfig.
    error: --simulate-operator works only on the embedded cluster, and this is a Kubernetes cluster
    hint: omit it, because Dynamo's own operator runs there; or pass `--cluster embedded`
    ");
    assert_snapshot!(run(&["sync", "-e", "prod", "--yes", "--cluster", "embedded", "--as", "ci"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: --as works only on Kubernetes clusters, but this is the embedded cluster
    hint: omit it, or select a cluster with --context
    ");
    assert_snapshot!(run(&["plan", "-e", "prod", "--cluster", "kind"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: `kind` is not a valid cluster
    hint: use `embedded`, or `embedded:DIR` for another folder; select a Kubernetes cluster with --context
    ");
    bench.replace("stator.yaml", "      namespace: models\n", "      namespace: models\n      context: gpu-west\n");
    for verb in [&["plan"][..], &["sync", "--yes"], &["status"], &["get", "models"], &["history", "--events"]] {
        // S17: whoever wrote the clone's files chooses nobody's login, and runs nobody's plugin.
        let refused = run(&[verb, &["-e", "prod"]].concat()).exits(2);
        assert!(!refused.notes().contains("Using the"), "{refused}");
        assert!(refused.notes().starts_with("error: the repository asks for the context `gpu-west`"), "{refused}");
        trust(&bench, Some("gpu-west"));
        let output = run(&[verb, &["-e", "prod"]].concat()).exits(2);
        trust(&bench, None);
        let first = output.notes().lines().next().unwrap_or_default().to_owned();
        assert_eq!(
            first,
            "Using the Kubernetes cluster of context `gpu-west` (http://127.0.0.1:1/west), set by the environment."
        );
        assert!(!output.notes().contains("s3cret"), "{output}");
    }
    bench.run(["plan", "-e", "prod", "--cluster", "embedded"]).success();
}

#[test]
fn a_kubeconfig_that_cannot_be_used_is_an_error_and_never_passed_over() {
    let bench = fleet();
    bench.write("broken", "contexts: {");
    let run = |args: &[&str], kubeconfig: &str| {
        bench.finish(bench.command().args(args).env_remove("STATOR_CLUSTER").env("KUBECONFIG", kubeconfig))
    };
    let output = run(&["plan", "-e", "prod"], "broken").exits(2);
    assert!(output.notes().starts_with("error: broken: "), "{output}");
    bench.write(
        "plugin",
        KUBECONFIG.replace(
            "token: t0p-s3cret",
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./no-such-plugin, interactiveMode: Never}",
        ),
    );
    let output = run(&["plan", "-e", "prod"], "plugin").exits(2);
    assert!(output.notes().contains("cannot connect with the settings of context `gpu-east`"), "{output}");
}

#[test]
fn the_cluster_is_said_in_one_line() {
    let bench = fleet();
    assert_snapshot!(bench.run(["plan", "-o", "diff", "-e", "prod", "--quiet"]).success().notes(), @"");
    assert_snapshot!(bench.run(["status", "-e", "prod", "--cluster", "embedded:elsewhere"]).success().notes(), @"Using the embedded cluster in elsewhere.");
}

#[test]
fn variables_stand_in_for_flags() {
    let bench = fleet();
    let mut command = bench.command();
    let output = bench.finish(command.args(["render", "-o", "json"]).env("STATOR_ENVIRONMENT", "prod"));
    assert_eq!(output.success().json()["kind"], "List");
}

#[test]
fn completions_and_manual_pages_know_every_verb() {
    let bench = Workbench::empty();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(bench.run(["completions", shell]).success().stdout.contains("_STATOR_COMPLETE"), "{shell}");
    }
    bench.run(["man", "pages"]).success();
    assert_snapshot!(bench.files("pages").join("\n"), @"
    pages/stator-check.1
    pages/stator-completions.1
    pages/stator-controller.1
    pages/stator-create-source.1
    pages/stator-create.1
    pages/stator-describe.1
    pages/stator-explain.1
    pages/stator-fmt.1
    pages/stator-get-models.1
    pages/stator-get-sources.1
    pages/stator-get.1
    pages/stator-history.1
    pages/stator-import.1
    pages/stator-init.1
    pages/stator-lock.1
    pages/stator-logs.1
    pages/stator-lsp.1
    pages/stator-man.1
    pages/stator-open.1
    pages/stator-plan.1
    pages/stator-policy-export.1
    pages/stator-policy.1
    pages/stator-render.1
    pages/stator-resume.1
    pages/stator-rollback.1
    pages/stator-schema.1
    pages/stator-server.1
    pages/stator-status.1
    pages/stator-support-bundle.1
    pages/stator-support.1
    pages/stator-suspend.1
    pages/stator-sync.1
    pages/stator-tree.1
    pages/stator-validate.1
    pages/stator-version.1
    pages/stator-wait.1
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
    FIELD:  spec.serving.worker.sharedMemory <string or number>

      Size of /dev/shm; `"0"` for none. Defaults to the operator's 8Gi.

    RULES:
      a quantity such as `500Gi`, `2` or `500m`
    ----- stderr -----
    "#);
    assert_snapshot!(bench.run(["explain", "serving.wroker"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: there is no field `wroker` in `model.spec.serving`: did you mean `worker`?
    hint: `stator explain` without arguments lists the top-level fields
    ");
}

#[test]
fn a_field_is_explained_with_everything_below_it() {
    let bench = Workbench::empty();
    assert_snapshot!(bench.run(["explain", "adapters", "--recursive"]), @"
    exit 0
    ----- stdout -----
    KIND:   Model
    FIELD:  spec.adapters <[]object>

      LoRA adapters; each becomes a DynamoModel, applied once the graph is Ready.

    FIELDS:
      name <string>, required
      source <string>, required
      servedName <string>
      objectName <string>
      maxRank <integer>
    ----- stderr -----
    ");
    // Names below names, as far as they go, with those of a map's values.
    let all = bench.run(["explain", "repository", "--recursive"]).success().stdout;
    assert!(all.contains("\n    environments <map[string]object>\n      namespace <string>, required\n"), "{all}");
    bench.run(["explain", "policy", "--recursive", "--policies", "nowhere"]).exits(2);
    let json = bench.run(["explain", "model", "--recursive", "-o", "json"]).success().json();
    let names = |fields: &serde_json::Value| {
        let fields = fields.as_array().unwrap();
        fields.iter().map(|field| field["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&json["tree"]), names(&json["fields"]));
    let spec = json["tree"].as_array().unwrap().iter().find(|field| field["name"] == "spec").unwrap();
    assert!(names(&spec["fields"]).contains(&"serving".to_owned()), "{spec}");
    for document in ["model", "defaults", "repository"] {
        bench.run(["explain", document, "--recursive"]).success();
    }
    // What has no fields is explained as ever.
    let plain = bench.run(["explain", "serving.worker.sharedMemory"]).success().stdout;
    assert_eq!(bench.run(["explain", "serving.worker.sharedMemory", "--recursive"]).success().stdout, plain);
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
