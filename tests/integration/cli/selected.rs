//! A selection costs what is selected, and tells what a look at everything tells of it.

use super::{MOCK, ROOT};
use crate::workbench::Workbench;
use serde_json::Value;
use std::path::Path;

fn copy(from: &Path, to: &Path) {
    fs_err::create_dir_all(to).unwrap();
    for entry in fs_err::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs_err::copy(entry.path(), target).unwrap();
        }
    }
}

/// The changes of a plan, by model.
fn changes(bench: &Workbench, targets: &[&str]) -> Vec<Value> {
    let plan = bench.run([&["plan", "-e", "staging", "-q", "-o", "json"], targets].concat()).json();
    plan["changes"].as_array().unwrap().clone()
}

/// Each model's plan by itself is its part of the plan of all.
fn hold_plans_together(bench: &Workbench) {
    let all = changes(bench, &[]);
    let mut names: Vec<&str> = all.iter().map(|change| change["model"].as_str().unwrap()).collect();
    names.dedup();
    assert!(names.len() > 5, "{names:?}");
    for name in names {
        let own: Vec<&Value> = all.iter().filter(|change| change["model"] == name).collect();
        let alone = changes(bench, &[name]);
        assert_eq!(alone.iter().collect::<Vec<_>>(), own, "{name}");
    }
}

#[test]
fn the_plan_of_a_part_is_that_part_of_the_plan() {
    let bench = Workbench::empty();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/repo-layout"), &bench.root());
    hold_plans_together(&bench);
    bench
        .run(["sync", "-e", "staging", "--yes", "-q", "--wait", "--simulate-operator", "--simulate-speed", "1000"])
        .success();
    hold_plans_together(&bench);
    // One model changes, one goes, and one comes under another name.
    bench.replace("playground/mock/model.yaml", "replicas: 2", "replicas: 3");
    hold_plans_together(&bench);
    bench.remove("code/starcoder2-7b");
    hold_plans_together(&bench);
}

/// Two models that mean one volume, by the text of the one and the name of the other.
#[test]
fn what_two_models_share_is_seen_from_each() {
    let bench = Workbench::with(&[("stator.yaml", ROOT)]);
    for number in 0..6 {
        bench.write(&format!("m{number}/model.yaml"), MOCK.replace("name: mock", &format!("name: m{number}")));
    }
    let cached = |name: &str| {
        MOCK.replace("name: mock", &format!("name: {name}"))
            + "  cache: {claim: shared, size: 10Gi, storageClass: fast, prune: true}\n"
    };
    bench.write("a/model.yaml", cached("a"));
    bench.write("b/model.yaml", cached("b"));
    bench.run(["sync", "-e", "prod", "--yes", "-q"]).success();
    bench.write("a/model.yaml", MOCK.replace("name: mock", "name: a"));
    let plan = bench.run(["plan", "-e", "prod", "a"]).success();
    let all = bench.run(["plan", "-e", "prod"]).success();
    assert!(!plan.stdout.contains("- delete"), "{plan}");
    assert!(!all.stdout.contains("- delete"), "{all}");
}

/// A model that git lost is known by its record alone, which says in which folder it was.
#[test]
fn a_folder_tells_of_the_models_that_it_lost() {
    let bench = Workbench::with(&[("stator.yaml", ROOT)]);
    for (folder, name) in [("a", "one"), ("a", "two"), ("b", "three"), ("b", "four"), ("b", "five"), ("b", "six")] {
        bench.write(&format!("{folder}/{name}/model.yaml"), MOCK.replace("name: mock", &format!("name: {name}")));
    }
    bench.run(["sync", "-e", "prod", "--yes", "-q"]).success();
    bench.run(["plan", "-e", "prod", "--exit-code", "a"]).success();
    bench.remove("a/two");
    let plan = bench.run(["plan", "-e", "prod", "--exit-code", "a"]).exits(1);
    assert!(plan.stdout.contains("- delete DynamoGraphDeployment models/two"), "{plan}");
    bench.run(["plan", "-e", "prod", "--exit-code", "b"]).success();
    assert!(bench.run(["status", "-e", "prod", "a"]).success().stdout.contains("two"));
    // One whose file has errors keeps what it has, which only its record names.
    bench.replace("a/one/model.yaml", "engine: mocker", "engine: null");
    let broken = bench.run(["status", "-e", "prod", "a/one", "-o", "json"]).success().json();
    assert_eq!(broken["models"][0]["objects"].as_array().map(Vec::len), Some(1), "{broken:#}");
}

/// What of another model cannot be read is in the way of a look at everything, and of no other.
#[test]
fn one_model_is_told_about_by_its_own_objects() {
    let bench = Workbench::with(&[("stator.yaml", ROOT), ("models/mock/model.yaml", MOCK)]);
    for number in 0..6 {
        bench.write(&format!("m{number}/model.yaml"), MOCK.replace("name: mock", &format!("name: m{number}")));
    }
    bench.run(["sync", "-e", "prod", "--yes", "-q"]).success();
    bench.write(".stator/cluster/models/dynamographdeployments/m3.yaml", "no object");
    bench.write(".stator/cluster/models/models/m4.yaml", "no record");
    let verbs: &[&[&str]] = &[
        &["status"],
        &["describe"],
        &["history"],
        &["history", "--events"],
        &["tree"],
        &["plan"],
        &["plan", "-o", "diff"],
        &["get", "models"],
    ];
    for verb in verbs {
        bench.run([verb, &["-e", "prod", "-q", "mock"][..]].concat()).success();
    }
    bench.run(["status", "-e", "prod", "-q", "models"]).success();
    bench.run(["status", "-e", "prod", "-q"]).exits(2);
    bench.run(["plan", "-e", "prod", "-q", "m3"]).exits(2);
}
