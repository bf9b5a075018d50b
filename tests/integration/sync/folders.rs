//! Folders without a `stator.yaml` above them are all called `default`: none may prune what another one synced.

use super::bench::{Syncing as _, small};
use crate::workbench::{Output, Workbench};

/// A folder of models without settings, and one cluster for all of its parts.
fn heap(names: &[&str]) -> Workbench {
    let bench = Workbench::empty();
    for name in names {
        bench.write(&format!("models/{name}/model.yaml"), small(name));
    }
    bench
}

fn push(bench: &Workbench, folder: &str) -> Output {
    bench.push(&[folder, "--cluster", "embedded:.stator/cluster"])
}

fn graphs(bench: &Workbench) -> Vec<String> {
    let objects = bench.objects().into_iter();
    objects.filter_map(|name| name.strip_prefix("default/dynamographdeployments/").map(str::to_owned)).collect()
}

#[test]
fn a_part_of_a_folder_never_prunes_the_rest() {
    let bench = heap(&["a", "b", "c"]);
    push(&bench, "models").success();
    bench.replace("models/a/model.yaml", "replicas: 1", "replicas: 2");
    let part = push(&bench, "models/a").success();
    assert_eq!(graphs(&bench), ["a", "b", "c"], "{part}");
    assert!(bench.read(".stator/cluster/default/dynamographdeployments/a.yaml").contains("replicas: 2"), "{part}");
    let plan = bench.plan(&["models/a", "--cluster", "embedded:.stator/cluster"]);
    let others: Vec<_> = plan["changes"].as_array().unwrap().iter().filter(|one| one["model"] != "a").collect();
    assert_eq!(others.len(), 2, "{plan:#}");
    for other in others {
        assert_eq!(other["action"], "keep");
        let reason = other["reasons"][0].as_str().unwrap();
        let folder = bench.path("models").canonicalize().unwrap();
        assert_eq!(
            reason,
            format!(
                "was synced from another folder, {}, and neither has a name: kept; to make them one repository, \
                 add a stator.yaml with `metadata.name: default` to the folder that holds all models",
                folder.display()
            )
        );
    }
    bench.settled_with(&["models/a", "--cluster", "embedded:.stator/cluster"]);
}

#[test]
fn folders_of_one_name_are_told_apart() {
    let bench = Workbench::with(&[("x/models/a/model.yaml", &small("a")), ("y/models/b/model.yaml", &small("b"))]);
    push(&bench, "x/models").success();
    push(&bench, "y/models").success();
    assert_eq!(graphs(&bench), ["a", "b"]);
    // An empty folder, and a folder whose model went, keep to their own as well.
    bench.write("z/readme.txt", "nothing");
    bench.push(&["z", "--allow-empty", "--cluster", "embedded:.stator/cluster"]).success();
    bench.remove("y/models/b");
    bench.write("y/models/c/model.yaml", small("c").replace("replicas: 1", "replicas: 2"));
    push(&bench, "y/models").success();
    assert_eq!(graphs(&bench), ["a", "c"], "its own removed model goes, the other folder's stays");
}

/// Outside git a folder is its path: under another one it may be a copy, so that somebody has to say that it is not.
#[test]
fn a_renamed_folder_goes_on_where_it_was_once_that_is_allowed() {
    let bench = heap(&["a", "b"]);
    push(&bench, "models").success();
    fs_err::rename(bench.path("models"), bench.path("fleet")).unwrap();
    bench.replace("fleet/a/model.yaml", "replicas: 1", "replicas: 2");
    let refused = push(&bench, "fleet").exits(1);
    assert!(refused.stdout.contains("belongs to folder"), "{refused}");
    assert!(bench.read(".stator/cluster/default/dynamographdeployments/a.yaml").contains("replicas: 1"));
    bench.push(&["fleet", "--cluster", "embedded:.stator/cluster", "--allow", "move"]).success();
    assert!(bench.read(".stator/cluster/default/dynamographdeployments/a.yaml").contains("replicas: 2"));
    bench.settled_with(&["fleet", "--cluster", "embedded:.stator/cluster"]);
    // From that sync on they are the new folder's.
    bench.remove("fleet/b");
    push(&bench, "fleet").success();
    assert_eq!(graphs(&bench), ["a"]);
}

#[test]
fn a_name_makes_parts_one_repository() {
    let bench = heap(&["a", "b"]);
    push(&bench, "models/a").success();
    push(&bench, "models/b").success();
    assert_eq!(graphs(&bench), ["a", "b"]);
    let named = "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {name: default}\n";
    bench.write("models/stator.yaml", named);
    push(&bench, "models").success();
    bench.remove("models/b");
    push(&bench, "models").success();
    assert_eq!(graphs(&bench), ["a"], "a named repository prunes what bears its name");
}
