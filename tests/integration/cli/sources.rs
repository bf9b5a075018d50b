//! Sources of a real API server, as a person shows, asks, suspends and resumes them. Where a controller would answer, the
//! test does.

use crate::testbed::{self, ControlPlane};
use crate::workbench::{Output, Workbench, in_vain};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

const SEEN: &str = "3f2c1ab4d5e6f708192a3b4c5d6e7f8091a2b3c4";
const BEFORE: &str = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567";

/// A namespace with sources, and stator run as its admin.
struct Scene {
    plane: &'static ControlPlane,
    namespace: String,
    bench: Workbench,
}

impl Scene {
    async fn new(namespace: &str) -> Option<Self> {
        let plane = testbed::shared()?;
        let namespace = plane.namespace(namespace).await;
        let bench = Workbench::empty();
        bench.write("kubeconfig", fs_err::read_to_string(plane.kubeconfig()).unwrap());
        Some(Self { plane, namespace, bench })
    }

    async fn sources(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("stator.dev", "v1alpha1", "ModelSource");
        let resource = ApiResource::from_gvk_with_plural(&kind, "modelsources");
        Api::namespaced_with(self.plane.admin().await, &self.namespace, &resource)
    }

    /// Makes a source, with fields over its spec.
    async fn make(&self, name: &str, over: Value) {
        self.make_with(name, over, json!({})).await;
    }

    async fn make_with(&self, name: &str, over: Value, metadata: Value) {
        let mut source = json!({
            "apiVersion": "stator.dev/v1alpha1", "kind": "ModelSource", "metadata": metadata,
            "spec": {"url": "https://git.example.com/team/models.git", "ref": {"branch": "main"}},
        });
        source["metadata"]["name"] = json!(name);
        source["spec"].as_object_mut().unwrap().extend(over.as_object().unwrap().clone());
        let source: DynamicObject = serde_json::from_value(source).unwrap();
        self.sources().await.create(&PostParams::default(), &source).await.unwrap();
    }

    async fn get(&self, name: &str) -> Value {
        serde_json::to_value(self.sources().await.get(name).await.unwrap()).unwrap()
    }

    /// What a controller says of a source.
    async fn say(&self, name: &str, status: Value) {
        say(&self.sources().await, name, status).await;
    }

    /// Runs stator while a controller answers the next request with a status. Gives what stator said, and the annotations
    /// that the controller found.
    async fn asked(&self, status: Value, args: &[&str]) -> (Output, Value) {
        let sources = self.sources().await;
        let before = sources.get("models").await.unwrap().metadata.annotations.unwrap_or_default();
        let before = before.get("stator.dev/requestedAt").cloned();
        let controller = tokio::spawn(answer(sources, before, status));
        let output = tokio::task::block_in_place(|| self.run(args));
        (output, controller.await.unwrap())
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = self.bench.command();
        command.args(args).args(["-n", &self.namespace, "--context", "admin"]);
        command.env_remove("STATOR_CLUSTER").env("KUBECONFIG", self.bench.path("kubeconfig"));
        command
    }

    /// Runs stator in the namespace. What is said first is which cluster it is: it has a port that changes.
    fn run(&self, args: &[&str]) -> Output {
        let mut output = self.bench.finish(&mut self.command(args));
        let lines = output.stderr.lines().filter(|line| !line.starts_with("Using the Kubernetes cluster of context"));
        output.stderr = lines.map(|line| format!("{line}\n")).collect();
        output
    }
}

/// Writes a status, at the generation that the source has.
async fn say(sources: &Api<DynamicObject>, name: &str, mut status: Value) {
    status["observedGeneration"] = json!(sources.get(name).await.unwrap().metadata.generation);
    let object = json!({"apiVersion": "stator.dev/v1alpha1", "kind": "ModelSource", "status": status});
    let params = PatchParams::apply("stator-controller").force();
    sources.patch_status(name, &params, &Patch::Apply(&object)).await.unwrap();
}

/// Plays the controller for one request, that is another one than before.
async fn answer(sources: Api<DynamicObject>, before: Option<String>, mut status: Value) -> Value {
    loop {
        let annotations = sources.get("models").await.unwrap().metadata.annotations.unwrap_or_default();
        let at = annotations.get("stator.dev/requestedAt").cloned();
        if at.is_some() && at != before {
            status["lastHandledRequest"] = json!(at);
            say(&sources, "models", status).await;
            return json!(annotations);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn conditions(ready: &str, reason: &str, message: &str, stalled: bool) -> Value {
    let one = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-11-21T10:00:00Z"});
    json!([one("Ready", ready), one("Reconciling", "False"), one("Stalled", if stalled { "True" } else { "False" })])
}

fn well() -> Value {
    json!({
        "conditions": conditions("True", "ReconciliationSucceeded", "3f2c1ab: 4 models healthy, 1 changed", false),
        "revision": {"seen": SEEN, "attempted": SEEN, "applied": SEEN}, "commit": "3f2c1ab", "environment": "prod",
        "models": {"ready": "4/4", "total": 4, "healthy": 4, "notHealthy": 0, "drifted": 0},
        "plan": {"revision": SEEN, "create": 1, "gpus": {"before": 8, "after": 16, "peak": 16}},
    })
}

fn held() -> Value {
    json!({
        "conditions": conditions("False", "Held", "3f2c1ab: held back (mass-delete): 7 of 9 objects would be deleted", true),
        "revision": {"seen": SEEN, "attempted": SEEN, "applied": BEFORE}, "commit": "0a1b2c3",
        "held": {"revision": SEEN, "plan": "d".repeat(64), "command": "stator sync --source models --allow mass-delete,replace", "guards": [
            {"guard": "mass-delete", "message": "7 of 9 objects would be deleted; the limit without approval is 5"},
            {"guard": "replace", "message": "Dynamo forbids the change in place"},
        ]},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn sources_are_listed_in_every_form() {
    let Some(scene) = Scene::new("cli-sources-list").await else { return };
    insta::assert_snapshot!(scene.run(&["get", "sources"]), @"
    exit 0
    ----- stdout -----
    No sources in namespace cli-sources-list.
    ----- stderr -----
    ");
    scene.make("models", json!({})).await;
    scene.make("tools", json!({"ref": {"semver": "1.x"}, "suspend": true})).await;
    scene.say("models", well()).await;
    let table = scene.run(&["get", "sources", "-o", "wide"]).success().stdout;
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().filter(|word| !word.ends_with('s') || word.len() > 4).collect())
        .collect();
    insta::assert_snapshot!(rows.iter().map(|row| row.join(" ")).collect::<Vec<_>>().join("\n"), @"
    NAME REF REVISION MODELS READY AGE ENVIRONMENT GPUS NEWEST SUSPENDED URL MESSAGE
    models main 3f2c1ab 4/4 True prod 16 3f2c1ab no https://git.example.com/team/models.git 3f2c1ab: 4 models healthy, 1 changed
    tools 1.x - - Unknown - - - https://git.example.com/team/models.git no controller observed it yet
    ");
    assert!(scene.run(&["get", "source", "models"]).success().stdout.contains("4 models healthy"));
    insta::assert_snapshot!(scene.run(&["get", "sources", "-o", "name"]).success().stdout, @"
    modelsource/cli-sources-list/models
    modelsource/cli-sources-list/tools
    ");
    let json = scene.run(&["get", "sources", "modelsource/cli-sources-list/models", "-o", "json"]).success().json();
    let row = &json["sources"][0];
    assert_eq!(
        (&row["ready"], &row["reason"], &row["current"]),
        (&json!("True"), &json!("ReconciliationSucceeded"), &json!(true))
    );
    assert_eq!((&row["ref"]["branch"], &row["status"]["plan"]["gpus"]["after"]), (&json!("main"), &json!(16)));
    let yaml: Value =
        serde_saphyr::from_str(&scene.run(&["get", "sources", "models", "-o", "yaml"]).success().stdout).unwrap();
    assert_eq!(yaml, json);
    let everywhere = scene.bench.finish(
        scene
            .bench
            .command()
            .args(["get", "sources", "-A", "--context", "admin"])
            .env_remove("STATOR_CLUSTER")
            .env("KUBECONFIG", scene.bench.path("kubeconfig")),
    );
    assert!(everywhere.clone().success().stdout.contains("cli-sources-list"), "{everywhere}");
    insta::assert_snapshot!(scene.run(&["get", "sources", "modls"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: there is no source `modls` in namespace cli-sources-list
    hint: did you mean `models`?
    ");
    // A status of an older spec says nothing of this one.
    let sources = scene.sources().await;
    sources
        .patch("models", &PatchParams::default(), &Patch::Merge(&json!({"spec": {"interval": "5m"}})))
        .await
        .unwrap();
    let row = &scene.run(&["get", "sources", "models", "-o", "json"]).success().json()["sources"][0];
    insta::assert_snapshot!(format!("{} {} {}", row["ready"], row["current"], row["message"]), @r#""Unknown" false "changed; no controller has observed it yet""#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_watched_is_shown_again_when_it_changes() {
    let Some(scene) = Scene::new("cli-sources-watch").await else { return };
    scene.make("models", json!({})).await;
    let mut child = scene.command(&["get", "sources", "--watch", "-q"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("no controller has observed it yet")));
    scene.say("models", well()).await;
    assert!(lines.any(|line| line.contains("4 models healthy, 1 changed")));
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sync_is_asked_for_and_waited_for() {
    let Some(scene) = Scene::new("cli-sources-ask").await else { return };
    scene.make("models", json!({})).await;
    insta::assert_snapshot!(scene.run(&["sync", "--source", "models"]), @"
    exit 0
    ----- stdout -----
    cli-sources-ask/models: sync requested.
    ----- stderr -----
    ");
    let first = scene.get("models").await["metadata"]["annotations"]["stator.dev/requestedAt"].clone();
    assert!(first.is_string());
    // Nobody answers: it ends in time, and says how far it came.
    let is_told = |output: &Output| output.stdout.contains("no controller has observed it yet");
    let late = in_vain(is_told, |timeout| scene.run(&["sync", "--source", "models", "--wait", timeout]));
    insta::assert_snapshot!(late.result(), @"
    cli-sources-ask/models: sync requested.
    cli-sources-ask/models: timed out: no controller has observed it yet
    ");

    let (done, asked) = scene.asked(well(), &["sync", "--source", "models", "--wait"]).await;
    insta::assert_snapshot!(done, @"
    exit 0
    ----- stdout -----
    cli-sources-ask/models: sync requested.
    cli-sources-ask/models: ready: 3f2c1ab: 4 models healthy, 1 changed
    ----- stderr -----
    ");
    assert_ne!(asked["stator.dev/requestedAt"], first);
    assert_eq!(asked.get("stator.dev/allow"), None, "{asked}");
    let (json, _) = scene.asked(well(), &["sync", "--source", "models", "--wait", "-o", "json"]).await;
    let json = json.success().json();
    assert_eq!((&json["answered"], &json["ready"]), (&json!(true), &json!("True")));
    assert_eq!(json["status"]["lastHandledRequest"], json["requestedAt"]);

    // A first try that failed ends the wait, though another will follow.
    let mut retried = well();
    retried["conditions"] = conditions("False", "GitOperationFailed", "git.example.com does not answer", false);
    retried["conditions"][1] = json!({"type": "Reconciling", "status": "True", "reason": "ProgressingWithRetry",
        "message": "", "lastTransitionTime": "2026-11-21T10:00:00Z"});
    let (failed, _) = scene.asked(retried, &["sync", "--source", "models", "--wait"]).await;
    insta::assert_snapshot!(failed, @"
    exit 1
    ----- stdout -----
    cli-sources-ask/models: sync requested.
    cli-sources-ask/models: not ready (GitOperationFailed): git.example.com does not answer
    ----- stderr -----
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_back_is_shown_and_let_go_for_one_commit() {
    let Some(scene) = Scene::new("cli-sources-held").await else { return };
    scene.make("models", json!({})).await;
    insta::assert_snapshot!(scene.run(&["sync", "--source", "models", "--allow", "mass-delete", "--yes"]), @"
    exit 1
    ----- stdout -----
    ----- stderr -----
    error: cli-sources-held/models has no held changes, so there is nothing to approve
    hint: an approval is for a plan that is held: wait until `stator get sources` shows one
    ");
    insta::assert_snapshot!(scene.run(&["sync", "--source", "models", "--outside-windows", "--yes"]).exits(1).notes(), @"
    error: no commit of cli-sources-held/models has been seen yet
    hint: pass the commit with --revision COMMIT
    ");
    let (refused, _) = scene.asked(held(), &["sync", "--source", "models", "--wait"]).await;
    insta::assert_snapshot!(refused, @"
    exit 1
    ----- stdout -----
    cli-sources-held/models: sync requested.
    cli-sources-held/models: not ready (Held): 3f2c1ab: held back (mass-delete): 7 of 9 objects would be deleted
    ----- stderr -----
    held back[mass-delete] at 3f2c1ab: 7 of 9 objects would be deleted; the limit without approval is 5
    held back[replace] at 3f2c1ab: Dynamo forbids the change in place
    to approve: stator sync --source models --allow mass-delete,replace
    ");
    // There is nobody to ask, so nothing is let go.
    let unasked = scene.run(&["sync", "--source", "models", "--allow", "mass-delete"]).exits(2);
    insta::assert_snapshot!(unasked.notes(), @"
    held back[mass-delete] at 3f2c1ab: 7 of 9 objects would be deleted; the limit without approval is 5
    held back[replace] at 3f2c1ab: Dynamo forbids the change in place
    this approves only part of the plan: replace still holds it
    error: cannot ask for confirmation: standard input is not a terminal
    hint: pass --yes to skip the confirmation
    ");
    assert_eq!(scene.get("models").await["metadata"]["annotations"].get("stator.dev/allow"), None);

    let (done, asked) =
        scene.asked(well(), &["sync", "--source", "models", "--allow", "replace,mass-delete", "--yes", "--wait"]).await;
    insta::assert_snapshot!(done, @"
    exit 0
    ----- stdout -----
    cli-sources-held/models: sync requested.
    cli-sources-held/models: approved replace,mass-delete at 3f2c1ab.
    cli-sources-held/models: ready: 3f2c1ab: 4 models healthy, 1 changed
    ----- stderr -----
    held back[mass-delete] at 3f2c1ab: 7 of 9 objects would be deleted; the limit without approval is 5
    held back[replace] at 3f2c1ab: Dynamo forbids the change in place
    ");
    assert_eq!(asked["stator.dev/allow"], format!("replace,mass-delete@{SEEN}:{}", "d".repeat(64)));
    assert!(asked["stator.dev/allowed-by"].as_str().is_some_and(|by| !by.is_empty()), "{asked}");
    let (done, asked) = scene.asked(well(), &["sync", "--source", "models", "--outside-windows", "--yes"]).await;
    insta::assert_snapshot!(done, @"
    exit 0
    ----- stdout -----
    cli-sources-held/models: sync requested.
    cli-sources-held/models: 3f2c1ab may be synced outside the windows.
    ----- stderr -----
    ");
    assert_eq!(asked["stator.dev/outside-windows"], SEEN);
    // S13: what is approved is what the status shows to be held, and no other commit in advance.
    let args = ["sync", "--source", "models", "--allow", "max-gpus", "--revision", "0A1B2C3", "--yes"];
    scene.say("models", held()).await;
    insta::assert_snapshot!(scene.run(&args).exits(1).notes(), @"
    error: the held commit of cli-sources-held/models is 3f2c1ab
    hint: review that commit, and approve it instead of 0a1b2c3
    ");
    let args = ["sync", "--source", "models", "--outside-windows", "--revision", "0A1B2C3", "--yes"];
    insta::assert_snapshot!(scene.run(&args).exits(2).notes(), @"
    error: 0a1b2c3 is not the newest commit of cli-sources-held/models
    hint: pass all digits of the commit: the request is for exactly one
    ");
    for wrong in [vec!["--allow", "replace", "--revision", "main"], vec!["--revision", "0a1b2c3"]] {
        let args: Vec<&str> = ["sync", "--source", "models", "--yes"].into_iter().chain(wrong).collect();
        insta::allow_duplicates! { assert!(scene.run(&args).exits(2).stderr.contains("commit")) }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sources_are_suspended_and_resumed() {
    let Some(scene) = Scene::new("cli-sources-suspend").await else { return };
    scene.make("models", json!({})).await;
    scene.make_with("kept", json!({}), json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}})).await;
    insta::assert_snapshot!(scene.run(&["suspend", "models"]), @"
    exit 0
    ----- stdout -----
    Suspended cli-sources-suspend/models.
    ----- stderr -----
    ");
    let object = scene.get("models").await;
    assert_eq!((&object["spec"]["suspend"], &object["metadata"]["generation"]), (&json!(true), &json!(2)));
    let managers = object["metadata"]["managedFields"].as_array().unwrap();
    assert!(managers.iter().any(|entry| entry["manager"] == "stator-cli"), "{managers:?}");
    // What would wait for a sync that never comes is refused; what only asks is told.
    insta::assert_snapshot!(scene.run(&["sync", "--source", "models", "--wait"]), @"
    exit 1
    ----- stdout -----
    ----- stderr -----
    error: cli-sources-suspend/models is suspended and would not be synced
    hint: resume it with `stator resume models -n cli-sources-suspend`
    ");
    insta::assert_snapshot!(scene.run(&["sync", "--source", "models"]).success().notes(), @"cli-sources-suspend/models is suspended: it is polled, but not synced until `stator resume models -n cli-sources-suspend`");
    insta::assert_snapshot!(scene.run(&["suspend", "--all"]), @"
    exit 0
    ----- stdout -----
    Suspended cli-sources-suspend/kept.
    cli-sources-suspend/models is already suspended; nothing was changed.
    ----- stderr -----
    cli-sources-suspend/kept is managed by Flux, which may revert `spec.suspend`: change it there too
    ");
    insta::assert_snapshot!(scene.run(&["suspend", "models"]), @"
    exit 0
    ----- stdout -----
    cli-sources-suspend/models is already suspended; nothing was changed.
    ----- stderr -----
    ");
    assert_eq!(scene.get("models").await["metadata"]["generation"], 2, "nothing was written");
    // One name that is wrong, and nothing is changed.
    scene.run(&["resume", "models", "nobody"]).exits(2);
    assert_eq!(scene.get("models").await["spec"]["suspend"], true);
    insta::assert_snapshot!(scene.run(&["resume", "models", "modelsource/cli-sources-suspend/kept"]), @"
    exit 0
    ----- stdout -----
    Resumed cli-sources-suspend/models.
    Resumed cli-sources-suspend/kept.
    ----- stderr -----
    cli-sources-suspend/kept is managed by Flux, which may revert `spec.suspend`: change it there too
    ");
    insta::assert_snapshot!(scene.run(&["resume", "--all"]), @"
    exit 0
    ----- stdout -----
    cli-sources-suspend/kept is not suspended; nothing was changed.
    cli-sources-suspend/models is not suspended; nothing was changed.
    ----- stderr -----
    ");
    insta::assert_snapshot!(scene.run(&["suspend"]).exits(2).notes(), @"
    error: the following required arguments were not provided:
      <NAME>...

    Usage: stator suspend --namespace <NAME> --context <NAME> <NAME>...

    For more information, try '--help'.
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_not_is_told_which_right_is_missing() {
    let Some(scene) = Scene::new("cli-sources-rights").await else { return };
    scene.make("models", json!({})).await;
    for args in [vec!["get", "sources"], vec!["suspend", "models"], vec!["sync", "--source", "models"]] {
        let denied = scene.run(&[args, vec!["--as", "eve"]].concat()).exits(2);
        insta::allow_duplicates! { insta::assert_snapshot!(denied.notes(), @r#"
        error: modelsources.stator.dev is forbidden: User "eve" cannot list resource "modelsources" in API group "stator.dev" in the namespace "cli-sources-rights"
        hint: grant that user a Role in cli-sources-rights with the verb `list` on `modelsources.stator.dev`
        "#) }
    }
}

#[test]
fn what_makes_no_sense_for_a_source_is_bad_usage() {
    let bench = Workbench::empty();
    let output = bench.run(["sync", "fleet", "--source", "models"]).exits(2);
    assert!(
        output.stderr.contains("error: the argument '--source <NAME>' cannot be used with '[PATH|MODEL]...'"),
        "{output}"
    );
    for other in [
        vec!["-e", "prod"],
        vec!["-l", "team=search"],
        vec!["--prune=false"],
        vec!["--dry-run=client"],
        vec!["--plan", "p.json"],
        vec!["--watch"],
        vec!["--simulate-operator"],
        vec!["--progress-deadline", "1m"],
    ] {
        let output = bench.run(["sync", "--source", "models"].into_iter().chain(other)).exits(2);
        assert!(output.stderr.contains("cannot be used with"), "{output}");
    }
    let output = bench.run(["sync", "--outside-windows"]).exits(2);
    let told = "error: the argument '--outside-windows' needs '--source <NAME>'";
    assert!(output.stderr.contains(told), "{output}");
    // What is set for all commands of a shell is no mistake of this one.
    let mut command = bench.command();
    command.args(["sync", "--source", "models"]).env("STATOR_ENVIRONMENT", "prod").env("STATOR_DYNAMO", "1.4");
    let output = bench.finish(&mut command).exits(2);
    assert!(output.stderr.contains("sources are objects of a Kubernetes cluster"), "{output}");
    // The embedded cluster has none, and is not made by asking.
    insta::assert_snapshot!(bench.run(["get", "sources"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: sources are objects of a Kubernetes cluster, and this is the embedded cluster
    hint: select a cluster with --context or --kubeconfig; on the embedded one, `stator controller --source-file FILE` runs the sources of a file
    ");
    bench.run(["sync", "--source", "models", "--cluster", "embedded"]).exits(2);
    bench.run(["resume", "models", "--cluster", "embedded:here"]).exits(2);
    assert_eq!(bench.files("."), Vec::<String>::new());
}
