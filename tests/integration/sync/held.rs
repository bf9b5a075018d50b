//! What a sync does not do by itself, and how it is told to.

use super::bench::{SHOP, Syncing as _, model, shop, small};
use crate::workbench::{Output, Workbench, in_vain};
use insta::assert_snapshot;
use serde_json::json;
use stator_cluster::cluster::embedded::{EmbeddedCluster, EmbeddedOptions, ObjectPart};
use stator_core::object::ObjectRef;

#[test]
fn a_mass_removal_waits_for_a_release() {
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let bench = shop(&names);
    bench.sync(&[]).success();
    let before = bench.cluster();
    for name in &names[1..] {
        bench.remove(&format!("models/{name}"));
    }
    let held = bench.sync(&[]).exits(1);
    assert_eq!(bench.cluster(), before, "{held}");
    assert_snapshot!(held.notes().lines().last().unwrap(), @"held back[mass-delete]: 6 of 7 objects would be deleted; the limit without approval is 5; check what git lost; if all of it is to go: https://stator.dev/docs/how-to/prune-safely#many-deletions-at-once");
    // What is not a deletion goes on.
    bench.replace("models/a/model.yaml", "replicas: 1", "replicas: 2");
    bench.sync(&[]).exits(1);
    assert!(bench.read(&bench.live("dynamographdeployments", "a")).contains("replicas: 2"));
    assert!(bench.has("dynamographdeployments", "g"));
    bench.sync(&["--allow", "mass-delete"]).success();
    assert_eq!(bench.objects(), ["prod/dynamographdeployments/a", "prod/models/a"]);
    bench.settled();
}

#[test]
fn what_dynamo_forbids_in_place_is_made_again_only_when_allowed() {
    for (first, then) in [
        ("{worker: {replicas: 1}}", "{prefill: {replicas: 1}, decode: {replicas: 1}}"),
        ("{prefill: {replicas: 1}, decode: {replicas: 1}}", "{worker: {replicas: 1}}"),
    ] {
        let bench = shop(&["other"]);
        bench.write("models/a/model.yaml", model("a", first, ""));
        bench.sync(&[]).success();
        let uid = || bench.uid("dynamographdeployments", "a");
        let old = uid();
        bench.write("models/a/model.yaml", model("a", then, ""));
        bench.replace("models/other/model.yaml", "replicas: 1", "replicas: 2");
        assert_eq!(
            bench.pending(&[]),
            ["replace DynamoGraphDeployment prod/a", "update DynamoGraphDeployment prod/other"]
        );
        let held = bench.sync(&[]).exits(1);
        assert_eq!(uid(), old, "{held}");
        assert!(held.stderr.contains("held back[replace]") && held.stderr.contains("--allow replace"), "{held}");
        assert!(bench.read(&bench.live("dynamographdeployments", "other")).contains("replicas: 2"), "{held}");
        let done = bench.sync(&["--allow", "replace", "-v"]).success();
        assert_ne!(uid(), old, "{done}");
        let at = |what: &str| done.stderr.find(what).unwrap_or_else(|| panic!("{what}: {done}"));
        assert!(at("deleted DynamoGraphDeployment prod/a") < at("applied DynamoGraphDeployment prod/a"), "{done}");
        bench.settled();
    }
}

/// An edit of a live graph by somebody else, who owns the field from then on.
fn edit(bench: &Workbench, name: &str, manager: &str, change: fn(&mut serde_json::Value)) {
    edit_kind(bench, ("nvidia.com/v1beta1", "DynamoGraphDeployment"), name, manager, change);
}

fn edit_kind(
    bench: &Workbench,
    (api_version, kind): (&str, &str),
    name: &str,
    manager: &str,
    change: impl FnOnce(&mut serde_json::Value) + Send + 'static,
) {
    let object =
        ObjectRef { api_version: api_version.into(), kind: kind.into(), namespace: "prod".into(), name: name.into() };
    let cluster = EmbeddedCluster::open(&bench.path(".stator/cluster"), EmbeddedOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(cluster.update(&object, ObjectPart::Main, manager, change)).unwrap().unwrap();
}

fn component<'a>(graph: &'a mut serde_json::Value, kind: &str) -> &'a mut serde_json::Value {
    let components = graph["spec"]["components"].as_array_mut().unwrap();
    components.iter_mut().find(|one| one["type"] == kind || one["name"] == kind).unwrap()
}

#[test]
fn a_conflict_blocks_its_model_until_the_manager_is_named() {
    let bench = shop(&["a", "b"]);
    bench.sync(&[]).success();
    edit(&bench, "a", "kubectl-edit", |graph| component(graph, "worker")["replicas"] = json!(4));
    bench.replace("models/a/model.yaml", "replicas: 1", "replicas: 2");
    bench.replace("models/b/model.yaml", "replicas: 1", "replicas: 2");
    let blocked = bench.sync(&[]).exits(1);
    assert_snapshot!(blocked.result(), @r"
    MODEL  RESULT   APPLIED  PRUNED  MESSAGE
    a      Blocked  0        0       DynamoGraphDeployment prod/a: spec.components[name=worker].replicas: owned by kubectl-edit; write its value into the intent, or name kubectl-edit in `spec.takeOver` to take it back
    b      Healthy  1        0       -
    1 of 2 models synced, 4 writes.
    ");
    assert!(bench.read(&bench.live("dynamographdeployments", "a")).contains("replicas: 4"), "{blocked}");
    assert!(bench.read(&bench.live("dynamographdeployments", "b")).contains("replicas: 2"), "{blocked}");
    bench.write("models/a/model.yaml", model("a", "{worker: {replicas: 2}}", "  takeOver: [kubectl-edit]\n"));
    bench.sync(&[]).success();
    assert!(bench.read(&bench.live("dynamographdeployments", "a")).contains("replicas: 2"));
    bench.settled();
}

#[test]
fn replicas_that_others_scale_are_neither_shown_nor_touched() {
    let bench = shop(&[]);
    bench.write("models/ext/model.yaml", model("ext", "{worker: {replicas: 2, scaling: external}}", ""));
    bench.write(
        "models/planned/model.yaml",
        model(
            "planned",
            "{prefill: {replicas: 1, scaling: {min: 1, max: 4}}, decode: {replicas: 1, scaling: {min: 1, max: 4}}}",
            "  components: {planner: {type: planner}}\n",
        ),
    );
    bench.sync(&[]).success();
    bench.settled();
    // Whoever scales writes the scaling adapter, and Dynamo's operator carries the number over into the graph.
    for (graph, name, count) in [("ext", "worker", 5), ("planned", "prefill", 3), ("planned", "decode", 4)] {
        let adapter = format!("{graph}-{name}");
        let file = bench.live("dynamographdeploymentscalingadapters", &adapter);
        let version = bench.read(&file).lines().find_map(|line| line.strip_prefix("apiVersion: ").map(str::to_owned));
        let kind = (version.as_deref().unwrap(), "DynamoGraphDeploymentScalingAdapter");
        edit_kind(&bench, kind, &adapter, "keda", move |adapter| adapter["spec"]["replicas"] = json!(count));
        edit_kind(&bench, ("nvidia.com/v1beta1", "DynamoGraphDeployment"), graph, "manager", move |graph| {
            component(graph, name)["replicas"] = json!(count);
        });
    }
    // Everything else goes on being git's: another field of the same components changes beside them.
    for more in [false, true] {
        if more {
            bench.replace("models/ext/model.yaml", "runtime: 1.2.0", "runtime: 1.2.0\n  env: {LEVEL: debug}");
            bench.sync(&[]).success();
        }
        bench.settled();
        let status = bench.run(["status", "-o", "json"]).success().json();
        for model in status["models"].as_array().unwrap() {
            assert_eq!(model["drift"], json!([]), "{model:#}");
        }
        assert!(bench.read(&bench.live("dynamographdeployments", "ext")).contains("replicas: 5"));
        let planned = bench.read(&bench.live("dynamographdeployments", "planned"));
        assert!(planned.contains("replicas: 3") && planned.contains("replicas: 4"), "{planned}");
    }
}

#[test]
fn a_saved_plan_is_carried_out_as_it_was_or_not_at_all() {
    let bench = shop(&["a", "b"]);
    bench.sync(&[]).success();
    bench.replace("models/a/model.yaml", "replicas: 1", "replicas: 2");
    let saved = bench.run(["plan", "-o", "json"]).success().stdout;
    bench.write("plan.json", &saved);
    // The cluster moves, then git: either way it is another plan.
    bench.replace(&bench.live("dynamographdeployments", "b"), "replicas: 1", "replicas: 9");
    // An edit gets its resource version when somebody who may write first sees it.
    bench.push(&["--plan", "plan.json"]).exits(1);
    let before = bench.cluster();
    let refused = bench.push(&["--plan", "plan.json"]).exits(1);
    assert_snapshot!(refused.notes(), @"
    Using the embedded cluster in .stator/cluster.
    error: the plan in plan.json is out of date:
      DynamoGraphDeployment prod/b: was keep, is update
    hint: plan again, review the new plan, and sync that one
    ");
    assert_eq!(bench.cluster(), before);
    bench.replace(&bench.live("dynamographdeployments", "b"), "replicas: 9", "replicas: 1");
    bench.replace("models/a/model.yaml", "replicas: 2", "replicas: 3");
    let refused = bench.push(&["--plan", "plan.json"]).exits(1);
    assert!(refused.stderr.contains("prod/a: other fields change"), "{refused}");
    bench.replace("models/a/model.yaml", "replicas: 3", "replicas: 2");
    bench.sync(&["--plan", "plan.json"]).success();
    bench.settled();
    let done = bench.push(&["--plan", "plan.json"]).exits(1);
    assert!(done.stderr.contains("prod/a: was update, is keep"), "{done}");
}

/// A name is what people call a repository, and not what it is: with another one nothing changes but labels, and what was
/// removed goes.
#[test]
fn another_name_is_the_same_repository() {
    let bench = shop(&["a", "b"]);
    bench.sync(&[]).success();
    let uid = bench.uid("dynamographdeployments", "a");
    bench.write("stator.yaml", SHOP.replace("shop", "mall"));
    bench.remove("models/b");
    let plan = bench.plan(&[]);
    assert_eq!(plan["changes"][0]["reasons"], json!(["adds ownership labels; no restart"]));
    assert_eq!(plan["changes"][0]["disruption"], "none", "{plan:#}");
    bench.sync(&[]).success();
    assert_eq!(bench.uid("dynamographdeployments", "a"), uid);
    assert!(!bench.has("dynamographdeployments", "b"));
    bench.settled();
}

#[test]
fn what_is_held_back_is_no_drift() {
    let bench = shop(&["a"]);
    bench.sync(&[]).success();
    bench.write("models/a/model.yaml", model("a", "{prefill: {replicas: 1}, decode: {replicas: 1}}", ""));
    bench.sync(&[]).exits(1);
    let plan = bench.plan(&[]);
    assert_eq!(plan["changes"][0]["reasons"][0], "changed in git", "{plan:#}");
    let status = bench.run(["status", "-o", "json"]).success().json();
    assert_eq!(status["models"][0]["drift"], json!([]), "{status:#}");
    assert_eq!(status["models"][0]["sync"], "OutOfSync", "{status:#}");
    // The same for a conflict: git has changed, and the cluster is as it was.
    let bench = shop(&["a"]);
    bench.sync(&[]).success();
    edit(&bench, "a", "kubectl-edit", |graph| component(graph, "worker")["replicas"] = json!(4));
    bench.replace("models/a/model.yaml", "runtime: 1.2.0", "runtime: 1.2.0\n  env: {LEVEL: debug}");
    bench.sync(&[]).exits(1);
    let status = bench.run(["status", "-o", "json"]).success().json();
    assert_eq!(
        (&status["models"][0]["sync"], &status["models"][0]["drift"]),
        (&json!("Blocked"), &json!([])),
        "{status:#}"
    );
}

#[test]
fn a_replacement_that_waits_for_a_release_holds_nobody_else_back() {
    let bench = shop(&["a", "b"]);
    bench.sync(&[]).success();
    // Without an operator its finalizer keeps what was deleted; back in git, it is made again once it is gone.
    bench.remove("models/a");
    bench.push(&[]).success();
    bench.write("models/a/model.yaml", small("a"));
    bench.write("models/b/model.yaml", model("b", "{prefill: {replicas: 1}, decode: {replicas: 1}}", ""));
    let held = bench.sync(&[]).exits(1);
    let row = |name: &str| held.stdout.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(row("a ").contains("Healthy"), "{held}");
    assert!(row("b ").contains("--allow replace"), "{held}");
    // A sync that waits for an object to go says so, and what it is that holds it.
    let going = "DynamoGraphDeployment prod/b is still being deleted (waiting for finalizer nvidia.com/finalizer)";
    let says = |output: &Output| output.stdout.contains(&format!("; {going}"));
    let stuck = in_vain(says, |timeout| bench.push(&["--allow", "replace", "-v", timeout]));
    assert!(stuck.stderr.contains(&format!("b: {going}")), "{stuck}");
    assert!(stuck.stdout.contains("timed out after ") && says(&stuck), "{stuck}");
    bench.sync(&[]).success();
    bench.settled();
}

#[test]
fn an_environment_that_moves_says_what_it_leaves_behind() {
    let bench = shop(&["a", "b"]);
    bench.sync(&[]).success();
    bench.replace("stator.yaml", "namespace: prod", "namespace: live");
    let moved = bench.sync(&[]).success();
    assert!(bench.has("dynamographdeployments", "a"), "{moved}");
    let left = "which has another namespace now: if no other source has it, run `kubectl delete dynamographdeployments.nvidia.com a -n prod`";
    let planned = bench.run(["plan"]).success();
    assert!(planned.stdout.contains(left), "{planned}");
    assert!(planned.stdout.contains("Left behind: 2 objects; no sync changes or deletes them."), "{planned}");
    let plan = bench.plan(&[]);
    assert_eq!(plan["summary"]["leftBehind"], 2, "{plan:#}");
    bench.settled();
}
