//! `stator rollback` without a git host: a branch in this clone, and nothing else touched.

use super::MOCK;
use crate::workbench::{Output, Workbench};
use insta::assert_snapshot;

const OVERLAY: &str = "\
apiVersion: stator.dev/v1alpha1
kind: Model
metadata:
  name: mock
spec:
  env: {LOG_LEVEL: debug}
";

/// A model with a history: two replicas, then four, then six with an overlay.
fn history() -> (Workbench, [String; 3]) {
    let bench = Workbench::with(&[("models/mock/model.yaml", MOCK), ("README.md", "one")]);
    let first = bench.commit("Serve mock");
    bench.replace("models/mock/model.yaml", "replicas: 2", "replicas: 4");
    let second = bench.commit("More of it");
    bench.replace("models/mock/model.yaml", "replicas: 4", "replicas: 6");
    bench.write("models/mock/model.default.yaml", OVERLAY);
    bench.commit("Even more\n\nFor the launch.");
    bench.write("README.md", "two");
    let third = bench.commit("Say more");
    let git = git2::Repository::open(bench.root()).unwrap();
    let mut config = git.config().unwrap();
    config.set_str("user.name", "Ada").unwrap();
    config.set_str("user.email", "ada@example.com").unwrap();
    (bench, [first, second, third])
}

/// What was said, with the new commit's id left out: it holds the time.
fn said(output: &Output) -> String {
    regex::Regex::new(r"commit [0-9a-f]{7}\n").unwrap().replace(&output.to_string(), "commit [NEW]\n").into_owned()
}

/// The branch that is checked out: what git calls the first one is up to whoever runs the tests.
fn trunk(bench: &Workbench) -> String {
    git2::Repository::open(bench.root()).unwrap().head().unwrap().shorthand().unwrap().to_owned()
}

/// The work tree and the index, as git sees them.
fn status(bench: &Workbench) -> Vec<String> {
    let git = git2::Repository::open(bench.root()).unwrap();
    let mut options = git2::StatusOptions::new();
    options.include_untracked(true);
    let statuses = git.statuses(Some(&mut options)).unwrap();
    statuses.iter().map(|one| format!("{} {:?}", one.path().unwrap(), one.status())).collect()
}

#[test]
fn a_model_goes_back_to_what_it_was_before_its_newest_change() {
    let (bench, [_, second, head]) = history();
    let branch = format!("rollback/mock-{}", &second[..7]);
    let trunk = trunk(&bench);
    assert_snapshot!(said(&bench.run(["rollback", "mock"])), @r#"
    exit 0
    ----- stdout -----
    mock: d2cc87d -> ecbc32a
    Undoes:
      f954c72 Even more

    default / default at ecbc32a against d2cc87d

    mock  models/mock/model.yaml
      ~ update DynamoGraphDeployment default/mock   managed-roll
          - spec.components[name=worker].podTemplate.spec.containers[name=main].env   [{"name":"LOG_LEVEL","value":"debug"}]
          ~ spec.components[name=worker].replicas                      6 → 4

    Plan: 0 to create, 1 to change, 0 to delete, 0 unchanged.

    Branch rollback/mock-ecbc32a, commit [NEW]
    ----- stderr -----
    Next: git merge rollback/mock-ecbc32a
    "#);
    assert_eq!(status(&bench), Vec::<String>::new(), "the work tree or the index changed");

    let git = git2::Repository::open(bench.root()).unwrap();
    assert_eq!(git.head().unwrap().shorthand().unwrap(), trunk);
    let made = git.find_branch(&branch, git2::BranchType::Local).unwrap().into_reference().peel_to_commit().unwrap();
    assert_eq!(made.parent_id(0).unwrap().to_string(), head);
    let before = git.find_commit(git2::Oid::from_str(&second).unwrap()).unwrap().tree().unwrap();
    let tree = made.tree().unwrap();
    let of = |tree: &git2::Tree<'_>, path: &str| tree.get_path(path.as_ref()).map(|entry| entry.id()).ok();
    assert_eq!(of(&tree, "models"), of(&before, "models"));
    // Whatever else was committed since stays.
    assert_ne!(of(&tree, "README.md"), of(&before, "README.md"));
    assert_eq!(made.author().name().unwrap(), "Ada");
    assert_snapshot!(made.message().unwrap(), @"
    Roll back mock to ecbc32a

    Restores models/mock/model.yaml with its overlays and locks to commit ecbc32a of 2023-11-14: More of it

    This undoes, newest first:
    - f954c72 Even more

    Created by `stator rollback`.
    ");

    // Once more, there is nothing left to make.
    let again = bench.run(["rollback", "mock", "--no-pull-request"]).success();
    assert!(again.stderr.contains(&format!("The branch `{branch}` already contains this rollback.")), "{again}");
}

#[test]
fn a_dry_run_shows_the_difference_and_makes_nothing() {
    let (bench, [first, ..]) = history();
    assert_snapshot!(said(&bench.run(["rollback", "models/mock/model.yaml", "--to", &first, "--dry-run"])), @r#"
    exit 0
    ----- stdout -----
    mock: d2cc87d -> 2e22dd2
    Undoes:
      f954c72 Even more
      ecbc32a More of it

    default / default at 2e22dd2 against d2cc87d

    mock  model.yaml
      ~ update DynamoGraphDeployment default/mock   managed-roll
          - spec.components[name=worker].podTemplate.spec.containers[name=main].env   [{"name":"LOG_LEVEL","value":"debug"}]
          ~ spec.components[name=worker].replicas                      6 → 2

    Plan: 0 to create, 1 to change, 0 to delete, 0 unchanged.

    --- a/models/mock/model.default.yaml
    +++ /dev/null
    @@ -1,6 +0,0 @@
    -apiVersion: stator.dev/v1alpha1
    -kind: Model
    -metadata:
    -  name: mock
    -spec:
    -  env: {LOG_LEVEL: debug}
    --- a/models/mock/model.yaml
    +++ b/models/mock/model.yaml
    @@ -10,4 +10,4 @@
         frontend:
           replicas: 1
         worker:
    -      replicas: 6
    +      replicas: 2
    ----- stderr -----
    Dry run: nothing was created. Without --dry-run, the branch is `rollback/mock-2e22dd2`.
    "#);
    let git = git2::Repository::open(bench.root()).unwrap();
    assert_eq!(git.branches(None).unwrap().count(), 1);
}

#[test]
fn what_is_not_committed_is_said_and_left_alone() {
    let (bench, _) = history();
    bench.replace("models/mock/model.yaml", "replicas: 6", "replicas: 7");
    bench.remove("models/mock/model.default.yaml");
    bench.write("models/mock/model.lock.yaml", "x");
    let before = status(&bench);
    let made = bench.run(["rollback", "mock"]).success();
    assert_eq!(status(&bench), before);
    assert_snapshot!(made.notes(), @"
    models/mock/model.default.yaml has uncommitted changes; they are kept, and the rollback uses only commits
    models/mock/model.lock.yaml has uncommitted changes; they are kept, and the rollback uses only commits
    models/mock/model.yaml has uncommitted changes; they are kept, and the rollback uses only commits
    Next: git merge rollback/mock-ecbc32a
    ");
}

#[test]
fn a_removed_model_comes_back_from_a_commit_that_has_it() {
    let (bench, [first, ..]) = history();
    bench.remove("models");
    bench.commit("Take it away");
    assert_snapshot!(bench.run(["rollback", "mock"]).notes(), @"
    error: there is no model `mock` in the checked-out commit
    hint: for a removed model, pass a commit that has it with --to
    ");
    bench.run(["rollback", "mock", "--to", &first, "--branch", "back"]).success();
    bench.switch("back");
    assert_eq!(bench.read("models/mock/model.yaml"), MOCK);
}

#[test]
fn what_cannot_be_rolled_back_is_refused_with_a_way_on() {
    let (bench, [first, _, head]) = history();
    let trunk = trunk(&bench);
    let refused = |args: &[&str]| bench.run([&["rollback"], args].concat()).to_string();
    let all = [
        refused(&["mok"]),
        refused(&["mock", "--to", "nowhere"]),
        refused(&["mock", "--to", &head]),
        refused(&["mock", "--branch", "a..b"]),
        refused(&["mock", "--branch=--force"]),
        refused(&["mock", "--branch", &trunk])
            .replace(&format!("`{trunk}`"), "`TRUNK`")
            .replace(&format!("-D {trunk}"), "-D TRUNK"),
        refused(&["."]),
    ];
    assert_snapshot!(all.join("\n"), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: there is no model `mok` in the checked-out commit
    hint: did you mean `mock`?

    exit 2
    ----- stdout -----
    ----- stderr -----
    error: `nowhere` is not a revision of the git repository at [TMP]/work: revspec 'nowhere' not found
    hint: pass a branch, a tag, a commit or HEAD~1; a branch that exists only on the remote is origin/<branch>, and a shallow clone lacks old commits (git fetch --unshallow)

    exit 1
    ----- stdout -----
    ----- stderr -----
    error: nothing to roll back: `mock` renders the same objects as in d2cc87d
    hint: choose another state with --to

    exit 2
    ----- stdout -----
    ----- stderr -----
    error: `a..b` is not a valid branch name
    hint: choose another with --branch

    exit 2
    ----- stdout -----
    ----- stderr -----
    error: `--force` is not a valid branch name
    hint: choose another with --branch

    exit 2
    ----- stdout -----
    ----- stderr -----
    error: the branch `TRUNK` exists already, and is not this rollback
    hint: choose another with --branch, or remove it: git branch -D TRUNK

    exit 2
    ----- stdout -----
    ----- stderr -----
    error: only one model can be rolled back at a time
    hint: pass its name, or its model.yaml
    ");
    bench.remove("models/mock/model.default.yaml");
    bench.write("models/mock/model.yaml", "kind: [");
    bench.commit("Break it");
    bench.write("models/mock/model.yaml", MOCK);
    bench.commit("Mend it");
    // A state that nothing could be made of is passed over, and refused where it is asked for.
    let mended = bench.run(["rollback", "mock", "--dry-run"]).success();
    assert!(mended.stdout.contains("Break it") && mended.stdout.contains("Mend it"), "{mended}");
    let broken = bench.run(["rollback", "mock", "--to", "HEAD~1"]).exits(1);
    assert!(broken.stderr.contains("so nothing is rolled back"), "{broken}");
    let git = git2::Repository::open(bench.root()).unwrap();
    assert_eq!(git.branches(None).unwrap().count(), 1, "a branch was made all the same");
    git.set_head_detached(git2::Oid::from_str(&first).unwrap()).unwrap();
    let detached = bench.run(["rollback", "mock"]).exits(2);
    assert!(detached.stderr.contains("no branch is checked out"), "{detached}");
}

#[test]
fn a_model_that_was_never_changed_has_nowhere_to_go() {
    let bench = Workbench::with(&[("model.yaml", MOCK)]);
    assert_snapshot!(bench.run(["rollback", "mock"]).notes(), @"
    error: [TMP]/work is not in a git repository
    hint: revisions need git: run this in a clone
    ");
    bench.commit("Serve mock");
    assert_snapshot!(bench.run(["rollback", "mock"]), @"
    exit 1
    ----- stdout -----
    ----- stderr -----
    error: nothing to roll back: `mock` renders the same objects since c43ad78 added it
    hint: to remove it, delete its folder in a separate commit
    ");
    bench.replace("model.yaml", "replicas: 2", "replicas: 4");
    bench.commit("More of it");
    // Nobody is configured to commit as.
    let nobody = bench.run(["rollback", "mock"]).exits(2);
    assert!(nobody.stderr.contains("git does not know your name and email address"), "{nobody}");
}

#[test]
fn a_host_that_nobody_knows_is_asked_for_and_the_token_is_not_said() {
    let (bench, _) = history();
    let token = "canary-51c3b0a77d";
    let git = git2::Repository::open(bench.root()).unwrap();
    let mut all = Vec::new();
    for url in ["https://git.invalid/team/models.git", "https://ada:canary-51c3b0a77d@github.com/team/models.git"] {
        let _ = git.remote_delete("origin");
        git.remote("origin", url).unwrap();
        all.push(bench.finish(bench.command().args(["rollback", "mock"]).env("STATOR_FORGE_TOKEN", token)));
    }
    let unreachable = ["rollback", "mock", "--forge", "gitea"];
    git.remote_set_url("origin", "http://127.0.0.1:9/team/models.git").unwrap();
    all.push(bench.finish(bench.command().args(unreachable).env("STATOR_FORGE_TOKEN", token)).exits(2));
    for output in &all {
        assert!(!output.stdout.contains(token) && !output.stderr.contains(token), "{output}");
    }
    let notes: Vec<String> = all.iter().map(Output::notes).collect();
    let rest = regex::Regex::new(r"cannot be reached: [^\n]*").unwrap();
    assert_snapshot!(rest.replace(&notes.join("\n"), "cannot be reached: [...]"), @"
    error: unknown type of git host at git.invalid
    hint: set it with --forge: github, gitlab, gitea, bitbucket or azure

    error: the address of the remote `origin`: credentials do not belong in the address; put them into the secret that `secretRef` names
    hint: pass a file with a ModelSource with --source-file: it has its own address

    error: 127.0.0.1:9 cannot be reached: [...]
    hint: the branch `rollback/mock-ecbc32a` exists locally; run the command again, or push it with git
    ");
    // What went wrong at the host leaves the branch, and the next attempt goes on from there.
    assert_eq!(git.branches(None).unwrap().count(), 2);
}

/// Row U16 of the review: what a model mounts goes back with it, and counts as its change.
#[test]
fn a_file_that_pods_mount_goes_back_with_its_model() {
    let mounting = format!("{MOCK}  files:\n    engine: {{from: engine/a.yaml, mountPath: /e/a.yaml}}\n");
    let bench =
        Workbench::with(&[("models/mock/model.yaml", mounting.as_str()), ("models/mock/engine/a.yaml", "a: 1\n")]);
    let first = bench.commit("Serve mock");
    bench.write("models/mock/engine/a.yaml", "a: 2\n");
    bench.commit("Tune the engine");
    let git = git2::Repository::open(bench.root()).unwrap();
    let mut config = git.config().unwrap();
    config.set_str("user.name", "Ada").unwrap();
    config.set_str("user.email", "ada@example.com").unwrap();
    assert_snapshot!(said(&bench.run(["rollback", "mock", "--dry-run"])), @r#"
    exit 0
    ----- stdout -----
    mock: 1b1004f -> 9e7fd5f
    Undoes:
      1b1004f Tune the engine

    default / default at 9e7fd5f against 1b1004f

    mock  models/mock/model.yaml
      + create ConfigMap default/mock-engine-49719eba0f
          · holds the new content of file `engine` (engine/a.yaml)
      ~ update DynamoGraphDeployment default/mock   managed-roll
          ~ spec.components[name=worker].podTemplate.spec.volumes[name=file-engine].configMap   {"name":"mock-engine-f64203327f"} → {"name":"mock-engine-49719eba0f"}
          · worker mounts the new content of file `engine` (engine/a.yaml)
      - delete ConfigMap default/mock-engine-f64203327f
          · ConfigMap default/mock-engine-49719eba0f holds the file's new content; deleted once no pod mounts the old one

    Plan: 1 to create, 1 to change, 1 to delete, 0 unchanged.

    --- a/models/mock/engine/a.yaml
    +++ b/models/mock/engine/a.yaml
    @@ -1 +1 @@
    -a: 2
    +a: 1
    ----- stderr -----
    Dry run: nothing was created. Without --dry-run, the branch is `rollback/mock-9e7fd5f`.
    "#);
    bench.run(["rollback", "mock", "--no-pull-request"]).success();
    let branch = format!("rollback/mock-{}", &first[..7]);
    let made = git.find_branch(&branch, git2::BranchType::Local).unwrap().into_reference().peel_to_commit().unwrap();
    let before = git.find_commit(git2::Oid::from_str(&first).unwrap()).unwrap();
    assert_eq!(made.tree_id(), before.tree_id());
    assert!(made.message().unwrap().contains("with its overlays, locks and mounted files"));
    // What is not committed of it is said, and nothing else is.
    bench.write("models/mock/engine/a.yaml", "a: 3\n");
    let again = bench.run(["rollback", "mock", "--dry-run"]).success();
    assert!(again.stderr.contains("models/mock/engine/a.yaml has uncommitted changes"), "{again}");
}
