//! The first hour: what a wrong guess, a wrong folder or a missing file does. A tool that writes to clusters is loud when it
//! did not do what was meant.

use super::{MOCK, ROOT, fleet};
use crate::workbench::{Workbench, write_program};
use insta::assert_snapshot;
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Verbs that read a cluster and change nothing.
const READING: &[&[&str]] = &[
    &["status", "-e", "prod"],
    &["status", "-e", "prod", "-o", "wide"],
    &["get", "models", "-e", "prod"],
    &["plan", "-e", "prod"],
    &["plan", "-o", "diff", "-e", "prod"],
    &["sync", "-e", "prod", "--dry-run=client"],
    &["sync", "-e", "prod", "--dry-run=server"],
    &["check"],
    &["tree", "-e", "prod", "mock"],
    &["describe", "-e", "prod", "mock"],
    &["history", "-e", "prod", "mock"],
    &["history", "--events", "-e", "prod"],
    &["wait", "-e", "prod", "--for", "synced", "--timeout", "1s"],
    &["logs", "-e", "prod", "mock"],
    &["explain", "policy"],
    &["policy", "export"],
    &["import", "--from-cluster", "-n", "models"],
];

/// A command of somebody who named no cluster.
fn nowhere(bench: &Workbench, arguments: &[&str]) -> Command {
    let mut command = bench.command();
    command.args(arguments).env_remove("STATOR_CLUSTER");
    command
}

#[test]
fn no_cluster_is_chosen_by_accident() {
    let bench = fleet();
    let writing: &[&[&str]] = &[&["sync", "-e", "prod", "--yes"], &["lock", "-e", "prod"], &["suspend", "models"]];
    for arguments in READING.iter().chain(writing) {
        for (variable, value) in [("HOME", "/nonexistent"), ("KUBECONFIG", "/nonexistent/kc"), ("CI", "true")] {
            let output = bench.finish(nowhere(&bench, arguments).env(variable, value));
            // Whoever locks nothing needs no cluster.
            if arguments[0] != "lock" {
                assert_eq!(output.code, Some(2), "{arguments:?}: {output}");
                assert!(output.stderr.contains("--cluster embedded") || arguments[0] == "suspend", "{output}");
                assert!(output.stderr.contains("--kubeconfig"), "{output}");
            }
            assert!(!bench.path(".stator").exists(), "{arguments:?} made a cluster");
        }
    }
    let missing = bench.finish(nowhere(&bench, &["plan", "-e", "prod"]).env("KUBECONFIG", "/nonexistent/kc"));
    assert_snapshot!(missing, @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: no kubeconfig found: $KUBECONFIG is /nonexistent/kc, which does not exist
    hint: name one with --kubeconfig or $KUBECONFIG
    hint: or try stator without Kubernetes: `--cluster embedded` keeps objects as files
    ");
    bench.write("kubeconfig", "apiVersion: v1\nkind: Config\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n");
    let unnamed = bench.finish(nowhere(&bench, &["status", "-e", "prod"]).env("KUBECONFIG", "kubeconfig"));
    assert_snapshot!(unnamed, @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: the kubeconfig has no current context; it has a
    hint: choose one with --context, or `kubectl config use-context`
    hint: or try stator without Kubernetes: `--cluster embedded` keeps objects as files
    ");
    // What a variable says for all commands yields to what one of them says.
    let other = bench.run(["status", "-e", "prod", "--context", "b"]);
    assert!(other.stderr.contains("no kubeconfig found"), "{other}");
    bench
        .finish(bench.command().args(["plan", "-e", "prod", "--cluster", "embedded"]).env("STATOR_CONTEXT", "b"))
        .success();
}

/// Where the next step of `init` is carried out as it is printed.
#[test]
fn the_next_step_after_init_works_with_a_kubeconfig_and_without() {
    for kubeconfig in [None, Some("apiVersion: v1\nkind: Config\n")] {
        let bench = Workbench::empty();
        let home = bench.root().parent().unwrap().join("home/.kube");
        if let Some(text) = kubeconfig {
            fs_err::create_dir_all(&home).unwrap();
            fs_err::write(home.join("config"), text).unwrap();
        }
        let begun = bench.finish(&mut nowhere(&bench, &["init", "fleet"])).success();
        let next = begun.notes().lines().find_map(|line| line.strip_prefix("Next: ").map(str::to_owned)).unwrap();
        let stator = env!("CARGO_BIN_EXE_stator");
        let mut shell = Command::new("sh");
        let given = bench.command();
        shell.args(["-ec", &format!("stator() {{ \"{stator}\" \"$@\"; }}; {next} --yes")]).current_dir(bench.root());
        shell.env_clear().envs(given.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let done = bench.finish(shell.env_remove("STATOR_CLUSTER").stdin(Stdio::null())).success();
        assert!(done.result().contains("Healthy"), "{done}");
    }
}

#[test]
fn a_folder_of_nothing_is_no_success() {
    let bench = Workbench::empty();
    let verbs: &[&[&str]] = &[&["validate"], &["plan"], &["sync", "--yes"], &["fmt"], &["render"]];
    for verb in verbs {
        let refused = bench.run(*verb).exits(2);
        assert!(refused.notes().contains("error: no stator.yaml and no model.yaml in "), "{refused}");
        assert_eq!(refused.result(), "", "{refused}");
        bench.run([verb, &["--allow-empty"][..]].concat()).success();
    }
    // A repository may have no model yet, and a selection may be of none; both are said.
    bench.write("stator.yaml", ROOT);
    assert_snapshot!(bench.run(["validate"]).success(), @"
    exit 0
    ----- stdout -----
    All checks passed (0 models).
    ----- stderr -----
    note: no model.yaml in [TMP]/work
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    ");
    bench.write("models/mock/model.yaml", MOCK);
    assert_snapshot!(bench.run(["plan", "-e", "prod", "-l", "team=search"]).success(), @"
    exit 0
    ----- stdout -----
    fleet / prod against live

    No changes: 0 objects of 0 models are in the desired state.
    ----- stderr -----
    note: no model matches the selector `team=search`
    Using the embedded cluster in .stator/cluster.
    ");
}

/// Every file of a folder with its bytes and the time of its last change.
fn contents(folder: &Path) -> BTreeMap<String, (i64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs_err::read_dir(&next).unwrap().map(Result::unwrap) {
            let (path, data) = (entry.path(), entry.metadata().unwrap());
            let bytes = if data.is_dir() { Vec::new() } else { fs_err::read(&path).unwrap() };
            found.insert(path.display().to_string(), (data.mtime_nsec() + data.mtime(), bytes));
            if data.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

/// Takes the right to write away, or gives it back.
fn set_writable(folder: &Path, writable: bool) {
    for path in contents(folder).keys().map(Path::new).chain([folder]) {
        let data = fs_err::metadata(path).unwrap();
        let open = if data.is_dir() { 0o777 } else { 0o666 };
        let mode = if writable { open } else { open & !0o222 };
        fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// The command as a user without rights to what is read: root may write to everything.
fn as_nobody(command: &mut Command) -> &mut Command {
    let is_root = fs_err::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if is_root { command.uid(65534).gid(65534) } else { command }
}

/// Everybody may run the program, wherever it was built.
fn program_for_all(bench: &Workbench) -> std::path::PathBuf {
    let program = bench.root().parent().unwrap().join("stator");
    write_program(&program, &fs_err::read(env!("CARGO_BIN_EXE_stator")).unwrap());
    fs_err::set_permissions(program.parent().unwrap(), std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

#[test]
fn reading_writes_nothing() {
    let bench = fleet();
    let program = program_for_all(&bench);
    let home = bench.root().parent().unwrap().join("home");
    let read_all = |state: &str| {
        let before = contents(&bench.root());
        set_writable(&bench.root(), false);
        for arguments in READING {
            let given = bench.command();
            let mut command = Command::new(&program);
            command.args(*arguments).current_dir(bench.root()).env_clear();
            command.envs(given.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
            let output = bench.finish(as_nobody(&mut command));
            let may_end: &[i32] = match arguments[0] {
                "plan" | "status" | "get" | "check" | "explain" | "policy" => &[0],
                "sync" => &[0, 1],
                _ => &[0, 1, 2, 124],
            };
            assert!(output.code.is_some_and(|code| may_end.contains(&code)), "{state}: {arguments:?}: {output}");
            assert!(!output.stderr.contains("denied") && !output.stderr.contains("ead-only"), "{state}: {output}");
        }
        set_writable(&bench.root(), true);
        assert_eq!(contents(&bench.root()), before, "{state}");
        assert_eq!(contents(&home), BTreeMap::new(), "{state}");
    };
    read_all("never synced");
    bench.run(["sync", "-e", "prod", "--yes"]).success();
    read_all("synced");
    let graph = ".stator/cluster/models/dynamographdeployments/mock.yaml";
    bench.replace(graph, "replicas: 2", "replicas: 5");
    read_all("edited by hand");
    // The edit counts, though nobody wrote down that it was seen.
    let drifted = bench.run(["plan", "-o", "diff", "--exit-code", "-e", "prod"]).exits(1);
    assert!(drifted.stdout.contains("-      replicas: 5") || drifted.stdout.contains("replicas: 5"), "{drifted}");
}

/// After a commit of a comment, the newest change is not what ran before.
#[test]
fn a_rollback_goes_to_what_renders_differently() {
    let bench = fleet();
    bench.commit("one replica");
    bench.replace("models/mock/model.yaml", "replicas: 2", "replicas: 3");
    bench.commit("three replicas");
    bench.replace("models/mock/model.yaml", "  model: Qwen", "  # The smallest.\n  model: Qwen");
    bench.commit("a comment");
    assert_snapshot!(bench.run(["rollback", "mock", "--dry-run", "-e", "prod"]).success(), @"
    exit 0
    ----- stdout -----
    mock: 4a3743e -> 516bb2f
    Undoes:
      4a3743e a comment
      69ef9c3 three replicas

    fleet / prod at 516bb2f against 4a3743e

    mock  models/mock/model.yaml
      ~ update DynamoGraphDeployment models/mock   scale
          ~ spec.components[name=worker].replicas   3 → 2

    Plan: 0 to create, 1 to change, 0 to delete, 0 unchanged.

    --- a/models/mock/model.yaml
    +++ b/models/mock/model.yaml
    @@ -3,7 +3,6 @@
     metadata:
       name: mock
     spec:
    -  # The smallest.
       model: Qwen/Qwen3-0.6B
       engine: mocker
       runtime: 1.2.0
    @@ -11,4 +10,4 @@
         frontend:
           replicas: 1
         worker:
    -      replicas: 3
    +      replicas: 2
    ----- stderr -----
    Dry run: nothing was created. Without --dry-run, the branch is `rollback/mock-516bb2f`.
    ");
    // What was asked for by name and would change nothing is refused.
    assert_snapshot!(bench.run(["rollback", "mock", "--to", "HEAD~1"]).exits(1), @"
    exit 1
    ----- stdout -----
    ----- stderr -----
    error: nothing to roll back: `mock` renders the same objects as in 69ef9c3
    hint: choose another state with --to
    ");
    let unchanged = Workbench::with(&[("stator.yaml", ROOT), ("models/mock/model.yaml", MOCK)]);
    unchanged.commit("all");
    unchanged.replace("models/mock/model.yaml", "  model: Qwen", "  # The smallest.\n  model: Qwen");
    unchanged.commit("a comment");
    assert_snapshot!(unchanged.run(["rollback", "mock"]).exits(1), @"
    exit 1
    ----- stdout -----
    ----- stderr -----
    error: nothing to roll back: `mock` renders the same objects since c50a748 added it
    hint: to remove it, delete its folder in a separate commit
    ");
    assert_eq!(unchanged.files(".git/refs/heads").len(), 1, "a branch was made");
}

const OPERATOR: &[&str] = &["--wait", "--simulate-operator", "--simulate-speed", "1000"];

/// A result is one word, the same in every place.
fn words_of(bench: &Workbench, model: &str) -> (String, String) {
    let described = bench.run(["describe", "-e", "prod", model]).success().result();
    let last = described.lines().find_map(|line| line.strip_prefix("Last sync:")).unwrap_or_default();
    let history = bench.run(["history", "-e", "prod", model, "-o", "json"]).success().json();
    let told = history["history"][0]["result"].as_str().unwrap_or_default().to_owned();
    (last.split_whitespace().next().unwrap_or_default().to_owned(), told)
}

#[test]
fn results_are_true_and_said_in_one_word() {
    let bench = fleet();
    let same = |word: &str| (word.to_owned(), word.to_owned());
    let sync = |more: &[&str]| bench.run([&["sync", "-e", "prod", "--yes", "-q"], more].concat());
    assert!(sync(&[]).success().result().contains("mock   Synced"), "not synced");
    assert_eq!(words_of(&bench, "mock"), same("Synced"));
    bench.replace("models/mock/model.yaml", "replicas: 2", "replicas: 3");
    let healthy = sync(OPERATOR).success();
    assert!(healthy.result().contains("mock   Healthy"), "{healthy}");
    assert_eq!(words_of(&bench, "mock"), same("Healthy"));
    let unchanged = sync(&["-o", "json"]).success().json();
    assert_eq!((&unchanged["models"][0]["result"], &unchanged["writes"]), (&"Unchanged".into(), &0.into()));
    // What stays because --prune=false says so is not deleted.
    bench.write(
        "models/other/model.yaml",
        MOCK.replace("name: mock", "name: other").replace("replicas: 2", "replicas: 7"),
    );
    sync(OPERATOR).success();
    let inventory = bench.run(["describe", "-e", "prod", "other"]).success().result();
    assert!(inventory.contains("ON REMOVAL") && inventory.contains("deleted"), "{inventory}");
    bench.remove("models/other");
    let kept = sync(&["--prune=false", "-o", "json"]);
    assert_ne!(kept.json()["models"][1]["result"], "Deleted", "{kept}");
    assert_snapshot!(sync(OPERATOR).success().result(), @"
    MODEL  RESULT   APPLIED  PRUNED  MESSAGE
    other  Deleted  0        1       -
    1 of 1 model synced, 1 deleted, 2 writes.
    ");
}

/// Ctrl-C while health is waited for.
#[test]
fn an_interrupted_sync_is_cancelled_everywhere() {
    use std::io::{BufRead as _, Read as _};
    let bench = fleet();
    let mut command = bench.command();
    command.args(["sync", "-e", "prod", "--yes", "--wait", "-v"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("mock: DynamoGraphDeployment") {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "it never waits");
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let (mut result, mut rest) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut result).unwrap();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(result.contains("Cancelled"), "{result}");
    assert!(rest.contains("run the same command again"), "{rest}");
    assert_eq!(words_of(&bench, "mock"), ("Cancelled".to_owned(), "Cancelled".to_owned()));
}

/// An accident in git: twelve models with GPUs are gone.
fn accident() -> Workbench {
    let bench = Workbench::with(&[
        ("stator.yaml", &ROOT.replace("  environments:", "  prices: {gpuHour: {h200_sxm: 3.5}}\n  environments:")),
        ("models/stays/model.yaml", &MOCK.replace("name: mock", "name: stays")),
    ]);
    for number in 0..12 {
        let model = MOCK
            .replace("name: mock", &format!("name: llm-{number}"))
            .replace("engine: mocker", "engine: vllm\n  hardware: {gpu: h200_sxm}")
            .replace("      replicas: 2\n", "      replicas: 1\n      tensorParallel: 1\n");
        bench.write(&format!("models/llm-{number}/model.yaml"), model);
    }
    bench.run(["sync", "-e", "prod", "--yes", "-q"]).success();
    for number in 0..12 {
        bench.remove(&format!("models/llm-{number}"));
    }
    bench
}

#[test]
fn a_held_plan_says_what_happens_now_and_what_does_not() {
    let bench = accident();
    let plan = bench.run(["plan", "-e", "prod"]).success();
    assert_snapshot!(plan, @"
    exit 0
    ----- stdout -----
    fleet / prod against live

    llm-0  models/llm-0/model.yaml
      - delete DynamoGraphDeployment models/llm-0   held   GPUs 1 → 0 h200_sxm (-1)   -$3.50/h
          · model llm-0 is no longer in git

    llm-1  models/llm-1/model.yaml
      - delete DynamoGraphDeployment models/llm-1   held   GPUs 1 → 0 h200_sxm (-1)   -$3.50/h
          · model llm-1 is no longer in git

    llm-10  models/llm-10/model.yaml
      - delete DynamoGraphDeployment models/llm-10   held   GPUs 1 → 0 h200_sxm (-1)   -$3.50/h
          · model llm-10 is no longer in git

    llm-11  models/llm-11/model.yaml
      - delete DynamoGraphDeployment models/llm-11   held   GPUs 1 → 0 h200_sxm (-1)   -$3.50/h
          · model llm-11 is no longer in git

    llm-2  models/llm-2/model.yaml
      - delete DynamoGraphDeployment models/llm-2   held   GPUs 1 → 0 h200_sxm (-1)   -$3.50/h
          · model llm-2 is no longer in git

    llm-3  models/llm-3/model.yaml
      - delete DynamoGraphDeployment models/llm-3   held   GPUs 1 → 0 h200_sxm (-1)   -$3.50/h
          · model llm-3 is no longer in git

    llm-4  models/llm-4/model.yaml
      - delete DynamoGraphDeployment models/llm-4   held   GPUs 1 → 0 h200_sxm (-1)   -$3.50/h
          · model llm-4 is no longer in git

    llm-5  models/llm-5/model.yaml
      - delete DynamoGraphDeployment models/llm-5   held   GPUs 1 → 0 h200_sxm (-1)   -$3.50/h
          · model llm-5 is no longer in git

    llm-6  models/llm-6/model.yaml
      - delete DynamoGraphDeployment models/llm-6   held   GPUs 1 → 0 h200_sxm (-1)   -$3.50/h
          · model llm-6 is no longer in git

    llm-7  models/llm-7/model.yaml
      - delete DynamoGraphDeployment models/llm-7   held   GPUs 1 → 0 h200_sxm (-1)   -$3.50/h
          · model llm-7 is no longer in git

    llm-8  models/llm-8/model.yaml
      - delete DynamoGraphDeployment models/llm-8   held   GPUs 1 → 0 h200_sxm (-1)   -$3.50/h
          · model llm-8 is no longer in git

    llm-9  models/llm-9/model.yaml
      - delete DynamoGraphDeployment models/llm-9   held   GPUs 1 → 0 h200_sxm (-1)   -$3.50/h
          · model llm-9 is no longer in git

    held back[mass-delete]: 12 of 13 objects would be deleted; the limit without approval is 5
      = help: check what git lost; if all of it is to go: https://stator.dev/docs/how-to/prune-safely#many-deletions-at-once

    Plan: 0 to create, 0 to change, 0 to delete, 12 held, 1 unchanged.
    GPUs: 12 h200_sxm
    Cost: ≈ +$0/mo ($42.00/h → $42.00/h)
    If approved: 12 → 0 h200_sxm (-12), ≈ -$30,660/mo ($42.00/h → $0.00/h)
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    ");
    assert!(!plan.to_string().contains("--allow mass-delete"), "the override is offered: {plan}");
    let summary = bench.run(["plan", "-e", "prod", "-o", "json"]).success().json()["summary"].clone();
    assert_eq!((&summary["delete"], &summary["held"]), (&0.into(), &12.into()));
    let sync = bench.run(["sync", "-e", "prod", "--yes", "-q"]).exits(1);
    assert!(sync.result().contains("Held"), "{sync}");
    assert!(sync.result().contains("1 of 13 models synced, 12 held, 0 writes."), "{sync}");
    bench.run(["sync", "-e", "prod", "--yes", "-q", "--allow", "mass-delete"]).success();
}

#[test]
fn advice_is_true() {
    let bench = fleet();
    bench.replace(
        "models/mock/model.yaml",
        "      replicas: 2",
        "      replicas: null\n      gpuCount: 1\n      template: {}",
    );
    bench.replace("models/mock/model.yaml", "  serving:\n", "  runtimeVersion: 1\n  serving:\n");
    assert_snapshot!(bench.run(["validate", "-e", "prod"]).exits(1), @"
    exit 1
    ----- stdout -----
    error[schema/type]: `spec.runtimeVersion` is the number `1`; expected three numbers without leading zeros, such as `1.4.0`
     --> models/mock/model.yaml:9:19
      |
    9 |   runtimeVersion: 1
      |                   ^
      |
      = help: Write it like `1.4.0`.
      = rule: https://stator.dev/docs/rules#schema/type

    error[yaml/null]: null is not allowed; set a value or omit the field
      --> models/mock/model.yaml:14:17
       |
    14 |       replicas: null
       |                 ^^^^
       |
       = help: Set a value, or remove the line. To drop a default, name its field in `unset`.
       = rule: https://stator.dev/docs/rules#yaml/null

    error[schema/unknown-field]: unknown field `gpuCount` in `spec.serving.worker`
      --> models/mock/model.yaml:15:7
       |
    15 |       gpuCount: 1
       |       ^^^^^^^^
       |
       = help: Did you mean `gpus`?
       = rule: https://stator.dev/docs/rules#schema/unknown-field

    Found 3 errors (1 model checked).
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    ");
}

#[test]
fn the_comparison_is_fair() {
    let page = include_str!("../../../docs/comparison.md");
    let row = |name: &str| page.lines().find(|line| line.starts_with(&format!("| {name}"))).unwrap_or_default();
    assert!(row("Plan or diff").contains("`flux diff`"), "{}", row("Plan or diff"));
    assert!(row("User interface").contains("how-to/look-at-a-page.md"), "{}", row("User interface"));
}
