//! What must not look like a removal: something else in the place of a model's file, and a root file that is gone.

use super::bench::{Syncing as _, shop, small};
use crate::workbench::Workbench;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Everything but the records, which say when their model's files have errors.
fn objects(bench: &Workbench) -> BTreeMap<String, (u64, SystemTime)> {
    let mut files = bench.cluster();
    files.retain(|path, _| !path.contains("/prod/models/"));
    files
}

/// Syncs, and finds that `b` stays and that this is said as an error which names a place.
fn stays(bench: &Workbench, place: &str) {
    let before = bench.cluster();
    let output = bench.push(&[]).exits(1);
    assert!(output.stderr.contains("model b is not pruned") && output.stderr.contains(place), "{output}");
    assert_eq!(bench.cluster(), before, "{output}");
    let status = bench.run(["status", "-o", "json"]).success().json();
    let b = status["models"].as_array().unwrap().iter().find(|model| model["name"] == "b").cloned().unwrap();
    assert_eq!(b["sync"], "Blocked", "{status:#}");
}

/// Row B3 of the review: the command line said nothing, and the model went.
#[test]
fn a_link_or_a_nearly_right_name_in_place_of_a_model_removes_nothing() {
    let bench = shop(&["a", "b"]);
    bench.sync(&[]).success();
    let (file, folder) = (bench.path("models/b/model.yaml"), bench.path("models/b"));
    for name in ["model.yml", "Model.yaml"] {
        let near = bench.path(&format!("models/b/{name}"));
        fs_err::rename(&file, &near).unwrap();
        stays(&bench, &format!("models/b/{name}"));
        fs_err::rename(&near, &file).unwrap();
    }
    // Moved as well, it still says whose it is.
    fs_err::create_dir_all(bench.path("fleet/b")).unwrap();
    fs_err::rename(&file, bench.path("fleet/b/model.yml")).unwrap();
    stays(&bench, "fleet/b/model.yml");
    fs_err::rename(bench.path("fleet/b/model.yml"), &file).unwrap();
    fs_err::rename(&folder, bench.path("elsewhere")).unwrap();
    fs_err::remove_file(bench.path("elsewhere/model.yaml")).unwrap();
    std::os::unix::fs::symlink("../elsewhere", &folder).unwrap();
    stays(&bench, "models/b");
    fs_err::remove_file(&folder).unwrap();
    bench.write("models/b/model.yaml", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n");
    let output = bench.push(&[]).exits(1);
    assert!(output.stderr.contains("Git LFS pointer"), "{output}");
    assert!(bench.has("dynamographdeployments", "b"), "{output}");
    // Really removed, it goes.
    bench.remove("models/b");
    bench.sync(&[]).success();
    assert!(!bench.has("dynamographdeployments", "b"));
    bench.settled();
}

/// Row E5 of the review: without its root file the fleet was synced once more as `default/default`, without guards.
#[test]
fn a_root_file_that_is_gone_stops_everything() {
    let bench = shop(&["a", "b"]);
    bench.sync(&[]).success();
    let (root, before) = (bench.read("stator.yaml"), objects(&bench));
    bench.remove("stator.yaml");
    bench.write("models/new/model.yaml", small("new"));
    let output = bench.push(&[]).exits(1);
    assert!(output.stderr.contains("plan/lost-settings"), "{output}");
    assert!(
        output.stderr.contains("repository `shop`, environment `prod`, has synced a, b from the same files"),
        "{output}"
    );
    assert_eq!(objects(&bench), before, "{output}");
    fs_err::write(bench.path("stator.yml"), &root).unwrap();
    let output = bench.push(&[]);
    assert_ne!(output.code, Some(0), "{output}");
    assert!(output.stderr.contains("stator.yml"), "{output}");
    assert_eq!(objects(&bench), before, "{output}");
    bench.remove("stator.yml");
    bench.write("stator.yaml", &root);
    bench.sync(&[]).success();
    bench.settled();
}

/// Row C8 of the review: a mistake in a name or a pattern left models out without a word.
#[test]
fn an_environment_without_models_is_said() {
    let bench = shop(&["a"]);
    bench.replace("stator.yaml", "prod: {namespace: prod}", "prod: {namespace: prod, include: ['modles/**']}");
    for command in [&["validate"][..], &["plan"], &["sync", "--yes"]] {
        let output = bench.run(command);
        assert!(output.stderr.contains("environment prod has no models here"), "{output}");
        let said = format!("{}{}", output.stdout, output.stderr);
        assert!(said.contains("did you mean `models`?"), "{output}");
    }
    // A path with nothing in it.
    bench.write("empty/readme.txt", "nothing");
    for command in [&["validate", "empty"][..], &["plan", "empty"], &["sync", "--yes", "empty"]] {
        let output = bench.run(command);
        assert!(output.stderr.contains("no model.yaml in") && output.stderr.contains("/empty\n"), "{output}");
    }
    // Beside others, an environment need not have models in the folder that is asked for.
    let others = "prod: {namespace: prod, include: [models/a]}\n    lab: {namespace: lab, include: [models/b]}";
    bench.replace("stator.yaml", "prod: {namespace: prod, include: ['modles/**']}", others);
    bench.write("models/b/model.yaml", small("b"));
    for folder in ["models/a", "models/b"] {
        let output = bench.run(["validate", folder]);
        assert!(!output.stderr.contains("has no models here"), "{output}");
    }
    let output = bench.run(["validate", "-e", "lab", "models/a"]);
    assert!(output.stderr.contains("environment lab has no models here"), "{output}");
    bench.remove("models/a");
    bench.write("models/a/Model.yaml", small("a"));
    let output = bench.run(["validate"]);
    assert!(output.stdout.contains("did you mean `model.yaml`?"), "{output}");
}
