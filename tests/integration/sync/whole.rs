//! The binary from files to healthy objects and back: sync, drift, prune, adapters, scaling, requests.

use super::bench::{Syncing as _, model, shop};
use crate::workbench::Workbench;
use insta::assert_snapshot;
use std::path::Path;

/// The example repository, copied to where it may be changed.
fn example() -> Workbench {
    let bench = Workbench::empty();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/repo-layout");
    let mut todo = vec![from.clone()];
    while let Some(next) = todo.pop() {
        for entry in fs_err::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with(".stator") {
                    todo.push(path);
                }
            } else {
                let name = path.strip_prefix(&from).unwrap().to_str().unwrap();
                bench.write(name, fs_err::read(&path).unwrap());
            }
        }
    }
    bench
}

#[test]
fn the_example_becomes_healthy_in_both_environments() {
    let bench = example();
    for environment in ["staging", "prod"] {
        let report = bench.sync(&["-e", environment, "-o", "json"]).success().json();
        let models = report["models"].as_array().unwrap();
        assert!(models.len() >= 10, "{report:#}");
        for model in models {
            assert_eq!(model["result"], "Healthy", "{model:#}");
        }
    }
    // One cluster holds both, and neither sees the other's as its own.
    for environment in ["staging", "prod"] {
        bench.settled_with(&["-e", environment]);
        let status = bench.run(["status", "-e", environment, "-o", "json"]).success().json();
        for model in status["models"].as_array().unwrap() {
            assert_eq!((&model["sync"], &model["health"]), (&"Synced".into(), &"Healthy".into()), "{model:#}");
            assert_eq!(model["drift"].as_array().map(Vec::len), Some(0), "{model:#}");
        }
    }
}

#[test]
fn an_edit_to_a_live_file_is_named_and_healed() {
    let bench = shop(&["a", "b"]);
    bench.sync(&[]).success();
    bench.replace(&bench.live("dynamographdeployments", "a"), "replicas: 1", "replicas: 7");
    let status = bench.run(["status", "-o", "json"]).success().json();
    assert_eq!(status["models"][0]["sync"], "OutOfSync", "{status:#}");
    assert_eq!(status["models"][1]["sync"], "Synced", "{status:#}");
    assert_snapshot!(serde_json::to_string(&status["models"][0]["drift"]).unwrap(), @r#"[{"have":7,"object":"DynamoGraphDeployment prod/a","owner":"","path":"spec.components[name=frontend].replicas","want":1},{"have":7,"object":"DynamoGraphDeployment prod/a","owner":"","path":"spec.components[name=worker].replicas","want":1}]"#);
    let plan = bench.plan(&[]);
    assert_snapshot!(serde_json::to_string(&plan["changes"][0]["fields"]).unwrap(), @r#"[{"new":1,"old":7,"owner":"stator","path":"spec.components[name=frontend].replicas"},{"new":1,"old":7,"owner":"stator","path":"spec.components[name=worker].replicas"}]"#);
    assert_snapshot!(serde_json::to_string(&plan["changes"][0]["reasons"]).unwrap(), @r#"["drifted: changed in the cluster, not in git"]"#);
    assert_eq!(bench.pending(&[]), ["update DynamoGraphDeployment prod/a"]);
    bench.sync(&[]).success();
    assert!(!bench.read(&bench.live("dynamographdeployments", "a")).contains("replicas: 7"));
    bench.settled();
    // A file that somebody deleted is drift as well, and comes back.
    bench.remove(&bench.live("dynamographdeployments", "b"));
    let status = bench.run(["status", "-o", "json"]).success().json();
    assert_eq!(status["models"][1]["drift"][0]["want"], "present", "{status:#}");
    bench.sync(&[]).success();
    bench.settled();
}

#[test]
fn a_removed_model_goes_and_its_weights_stay() {
    let bench = shop(&["stays"]);
    bench.write(
        "models/goes/model.yaml",
        model("goes", "{worker: {replicas: 1}}", "  cache: {claim: weights, size: 10Gi}\n"),
    );
    bench.sync(&[]).success();
    assert!(bench.has("persistentvolumeclaims", "weights"));
    let status = bench.run(["status", "-o", "json"]).success().json();
    let messages: Vec<&str> =
        status["models"].as_array().unwrap().iter().map(|model| model["message"].as_str().unwrap()).collect();
    assert!(messages.iter().all(|message| *message == "all components are ready"), "the graph speaks: {status:#}");
    bench.settled();
    bench.remove("models/goes");
    assert_eq!(bench.pending(&[]), ["delete DynamoGraphDeployment prod/goes"]);
    bench.sync(&[]).success();
    assert_eq!(bench.objects().iter().filter(|name| name.contains("goes")).count(), 0, "{:?}", bench.objects());
    assert!(bench.has("persistentvolumeclaims", "weights"));
    bench.settled();
    // And they serve it again when it comes back.
    bench.write(
        "models/goes/model.yaml",
        model("goes", "{worker: {replicas: 1}}", "  cache: {claim: weights, size: 10Gi}\n"),
    );
    let weights = bench.uid("persistentvolumeclaims", "weights");
    bench.sync(&[]).success();
    assert_eq!(bench.uid("persistentvolumeclaims", "weights"), weights);
    bench.settled();
}

#[test]
fn pruning_can_be_left_out_and_made_up_for() {
    let bench = shop(&["a", "b"]);
    bench.sync(&[]).success();
    bench.remove("models/b");
    let kept = bench.sync(&["--prune=false"]).success();
    assert!(bench.has("dynamographdeployments", "b"), "{kept}");
    assert!(kept.stderr.contains("1 is not changed, --verbose shows why"), "{kept}");
    bench.settled_with(&["--prune=false"]);
    bench.sync(&[]).success();
    assert!(!bench.has("dynamographdeployments", "b"));
    bench.settled();
}

#[test]
fn a_folder_or_a_file_is_synced_alone() {
    let bench = shop(&["one", "one-more", "two"]);
    bench.sync(&[]).success();
    for name in ["one", "one-more", "two"] {
        bench.replace(&format!("models/{name}/model.yaml"), "replicas: 1", "replicas: 2");
    }
    bench.remove("models/two");
    let before = bench.cluster();
    bench.sync(&["models/one"]).success();
    let after = bench.cluster();
    let touched: Vec<&str> = after
        .iter()
        .filter(|(file, content)| before.get(*file) != Some(content))
        .map(|(file, _)| file.as_str())
        .collect();
    assert_eq!(after.len(), before.len());
    assert!(touched.iter().all(|file| file.ends_with("/one.yaml")), "{touched:?}");
    assert!(!touched.is_empty());
    bench.settled_with(&["models/one"]);
    bench.sync(&["models/one-more/model.yaml"]).success();
    assert!(bench.has("dynamographdeployments", "two"));
    assert_eq!(bench.pending(&[]), ["delete DynamoGraphDeployment prod/two"]);
    // A folder whose only model went knows what was there.
    bench.write("models/two/notes.txt", "gone");
    bench.sync(&["models/two"]).success();
    assert!(!bench.has("dynamographdeployments", "two"));
    bench.settled();
}

#[test]
fn adapters_follow_a_ready_graph() {
    let bench = shop(&[]);
    let more = "  hardware: {gpu: l40s, gpusPerNode: 4}\n  adapters: [{name: sql, source: s3://adapters/sql}]\n";
    let text = model("base", "{worker: {replicas: 1}}", more).replace("engine: mocker", "engine: vllm");
    bench.write("models/base/model.yaml", &text);
    let early = bench.push(&[]).success();
    assert_snapshot!(early.result(), @"
    MODEL  RESULT    APPLIED  PRUNED  MESSAGE
    base   Deferred  1        0       DynamoModel base-sql is waiting for its graph to be Ready (DynamoGraphDeployment prod/base: the operator has not observed it yet); run `stator sync --wait`
    1 of 1 model synced, 5 writes.
    ");
    assert!(!bench.has("dynamomodels", "base-sql"), "{early}");
    assert_eq!(bench.pending(&[]), ["create DynamoModel prod/base-sql"]);
    let late = bench.sync(&[]).success();
    assert!(bench.has("dynamomodels", "base-sql"), "{late}");
    bench.settled();
    // In one go: the graph is Ready before its adapter is sent.
    let bench = shop(&[]);
    bench.write("models/base/model.yaml", &text);
    let output = bench.sync(&["-v"]).success();
    let at = |what: &str| output.stderr.find(what).unwrap_or_else(|| panic!("{what}: {output}"));
    assert!(at("applied DynamoGraphDeployment") < at("applied DynamoModel"), "{output}");
    assert!(output.stdout.contains("Healthy"), "{output}");
    bench.settled();
    // An adapter that git no longer has is unloaded; the graph stays.
    bench.replace("models/base/model.yaml", "  adapters: [{name: sql, source: s3://adapters/sql}]\n", "");
    bench.sync(&[]).success();
    assert!(!bench.has("dynamomodels", "base-sql"));
    bench.settled();
}

#[test]
fn a_request_ends_ready_and_a_changed_target_makes_another() {
    let target = |ttft: u32| {
        format!(
            "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {{name: wish}}\nspec:\n  model: Qwen/Qwen3-32B\n  \
             engine: vllm\n  runtime: 1.2.0\n  hardware: {{gpu: h200_sxm, gpusPerNode: 8, totalGpus: 8}}\n  sla: {{ttft: \
             {ttft}ms, itl: 20ms, workload: {{isl: 4000, osl: 1000}}, search: rapid, autoApply: false}}\n"
        )
    };
    let requests = |bench: &Workbench| -> Vec<String> {
        let objects = bench.objects().into_iter();
        objects.filter(|name| name.starts_with("prod/dynamographdeploymentrequests/")).collect()
    };
    let bench = shop(&[]);
    bench.write("models/wish/model.yaml", target(300));
    bench.sync(&[]).success();
    let status = bench.run(["status", "-o", "json"]).success().json();
    assert_eq!(status["models"][0]["health"], "Healthy", "{status:#}");
    assert!(status["models"][0]["message"].as_str().unwrap().contains("recommendation is available"), "{status:#}");
    let first = requests(&bench);
    assert_eq!(first.len(), 1);
    bench.settled();

    // Without an operator the new one does not succeed, and the old one stays.
    bench.write("models/wish/model.yaml", target(200));
    let made = bench.push(&[]).success();
    let both = requests(&bench);
    assert_eq!(both.len(), 2, "{made}");
    assert!(both.contains(&first[0]));
    assert_eq!(
        bench.pending(&[]),
        [first[0].replace("prod/dynamographdeploymentrequests/", "delete DynamoGraphDeploymentRequest prod/")]
    );
    // In the sync in which it does, the old one goes.
    bench.sync(&[]).success();
    let left = requests(&bench);
    assert_eq!(left.len(), 1);
    assert_ne!(left, first);
    bench.settled();
}
