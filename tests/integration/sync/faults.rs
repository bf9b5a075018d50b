//! What goes wrong, in the cluster and in git: it is named, it stays where it is, and nothing is pruned over it.

use super::bench::{SHOP, Syncing as _, model, shop, small};
use crate::workbench::{Output, Workbench, in_vain};

/// A model whose image no node can pull.
fn broken(name: &str) -> String {
    model(name, "{worker: {replicas: 1}}", "").replace("runtime: 1.2.0", "image: example.com/broken:1.0.0")
}

const PLAY: &[&str] = &["--wait", "--simulate-operator", "--simulate-speed", "100000"];

#[test]
fn an_image_that_cannot_be_pulled_ends_the_wait() {
    let bench = shop(&["well"]);
    bench.write("models/ill/model.yaml", broken("ill"));
    let came = |output: &Output| ["waiting for frontend", "Healthy"].iter().all(|word| output.stdout.contains(word));
    let timed_out = in_vain(came, |timeout| bench.push(&[PLAY, &[timeout]].concat()));
    assert!(timed_out.stdout.contains("timed out after "), "{timed_out}");
    let row = |output: &Output, name: &str| {
        output.stdout.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{output}")).to_owned()
    };
    assert!(row(&timed_out, "ill").contains("waiting for frontend"), "{timed_out}");
    assert!(row(&timed_out, "well").contains("Healthy"), "{timed_out}");
    let stuck = bench.push(&[PLAY, &["--progress-deadline", "1s"]].concat()).exits(1);
    assert!(row(&stuck, "ill").contains("no progress for 1s"), "{stuck}");
    assert!(row(&stuck, "ill").contains("frontend"), "{stuck}");
    let status = bench.run(["status", "-o", "json"]).success().json();
    assert_eq!(status["models"][0]["health"], "Progressing", "{status:#}");
    // It is applied as git says: there is nothing left to do but to correct git.
    assert_eq!(bench.pending(&[]), Vec::<String>::new());
    bench.write("models/ill/model.yaml", small("ill"));
    bench.sync(&[]).success();
    bench.settled();
}

#[test]
fn a_damaged_object_is_named_and_nothing_is_lost() {
    let bench = shop(&["a", "b"]);
    bench.sync(&[]).success();
    let file = bench.live("dynamographdeployments", "a");
    let whole = bench.read(&file);
    bench.remove("models/b");
    for damage in [&b"spec: [unfinished"[..], b"", b"\xff\xfe\x00", b"kind: ConfigMap\n", &whole.as_bytes()[..400]] {
        bench.write(&file, damage);
        let before = bench.cluster();
        for verb in [&["sync", "--yes"][..], &["plan"], &["status"], &["sync", "--yes", "models/a"]] {
            let output = bench.run(verb).exits(2);
            assert!(output.stderr.contains("prod/dynamographdeployments/a.yaml"), "{verb:?} {output}");
            assert!(output.stderr.contains("fix the file, or delete it"), "{verb:?} {output}");
        }
        assert_eq!(bench.cluster(), before);
    }
    bench.write(&file, whole);
    bench.sync(&[]).success();
    bench.settled();
}

#[test]
fn a_damaged_record_is_named_and_deleted_and_made_again() {
    let bench = shop(&["a", "b", "c"]);
    bench.sync(&[]).success();
    let record = bench.live("models", "a");
    let whole = bench.read(&record);
    // Readable as an object, and no record: its inventory is text.
    let inventory = whole.find("  inventory:").unwrap();
    bench.write(&record, format!("{}  inventory: nothing\n", &whole[..inventory]));
    bench.remove("models/b");
    bench.remove("models/a");
    let before = bench.cluster();
    let output = bench.push(&[]).exits(2);
    assert!(
        output.stderr.contains("prod/models/a.yaml") && output.stderr.contains("delete it and sync again"),
        "{output}"
    );
    assert_eq!(bench.cluster(), before, "{output}");
    // As it says: without its record, what the model left is nobody's to delete.
    bench.remove(&record);
    bench.sync(&[]).exits(1);
    assert!(bench.has("dynamographdeployments", "a"), "{output}");
    assert!(!bench.has("dynamographdeployments", "b"), "{output}");
    // Back in git, its record is written anew, and from then on it can go again.
    bench.write("models/a/model.yaml", small("a"));
    bench.sync(&[]).success();
    bench.settled();
    bench.remove("models/a");
    bench.sync(&[]).success();
    assert!(!bench.has("dynamographdeployments", "a"));
    bench.settled();
}

#[test]
fn a_record_that_is_gone_is_made_again() {
    let bench = shop(&["a", "b"]);
    bench.sync(&[]).success();
    bench.remove(&bench.live("models", "a"));
    bench.sync(&[]).success();
    assert!(bench.has("models", "a"));
    bench.settled();
    // Without a record nobody knows that stator made it.
    bench.remove(&bench.live("models", "a"));
    bench.remove("models/a");
    let output = bench.sync(&["-v"]).exits(1);
    assert!(output.stderr.contains("no record shows that stator created it"), "{output}");
    assert!(output.stderr.contains("plan/leftover"), "{output}");
    assert!(bench.has("dynamographdeployments", "a"));
    let before = bench.cluster();
    bench.push(&[]).exits(1);
    assert_eq!(bench.cluster(), before, "said again, and nothing is written");
    let status = bench.run(["status", "-o", "json"]).success().json();
    assert_eq!(status["models"][0]["sync"], "Blocked", "{status:#}");
}

#[test]
fn a_broken_intent_stops_nobody_else_and_loses_nothing() {
    for fault in
        ["kind: [", "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: ill}\nspec: {engine: no}\n"]
    {
        let bench = shop(&["ill", "other", "gone"]);
        bench.sync(&[]).success();
        let ill = bench.read(&bench.live("dynamographdeployments", "ill"));
        bench.write("models/ill/model.yaml", fault);
        bench.replace("models/other/model.yaml", "replicas: 1", "replicas: 2");
        bench.write("models/new/model.yaml", small("new"));
        bench.remove("models/gone");
        let output = bench.sync(&[]).exits(1);
        assert!(output.stderr.contains("models/ill/model.yaml"), "{output}");
        assert_eq!(bench.read(&bench.live("dynamographdeployments", "ill")), ill, "{output}");
        assert!(bench.read(&bench.live("dynamographdeployments", "other")).contains("replicas: 2"), "{output}");
        assert!(bench.has("dynamographdeployments", "new"), "{output}");
        let status = bench.run(["status", "-o", "json"]).success().json();
        let of = |name: &str| status["models"].as_array().unwrap().iter().find(|model| model["name"] == name).cloned();
        assert_eq!(of("ill").unwrap()["sync"], "Blocked", "{status:#}");
        bench.write("models/ill/model.yaml", small("ill"));
        bench.sync(&[]).success();
        assert!(!bench.has("dynamographdeployments", "gone"));
        bench.settled();
    }
}

#[test]
fn nothing_to_read_never_means_nothing_wanted() {
    let bench = shop(&["a", "b"]);
    bench.sync(&[]).success();
    // A record says that its model's files have errors, and nothing else changes.
    let objects = |bench: &Workbench| {
        let mut files = bench.cluster();
        files.retain(|path, _| !format!("{path:?}").contains("/prod/models/"));
        files
    };
    let before = objects(&bench);
    let same = |bench: &Workbench, output: &crate::workbench::Output| {
        assert_eq!(objects(bench), before, "{output}");
    };
    let cluster = ["--cluster", "embedded:.stator/cluster"];
    // A path that is not there, or is no intent.
    for path in ["nowhere", "models/a/none.yaml", "stator.yaml"] {
        let output = bench.push(&[&[path], &cluster[..]].concat()).exits(2);
        same(&bench, &output);
    }
    // A file that cannot be read, in ways that hold for root as well.
    let intent = "models/a/model.yaml";
    bench.remove(intent);
    std::os::unix::fs::symlink("/dev/null", bench.path(intent)).unwrap();
    let output = bench.push(&["--allow", "mass-delete"]).exits(1);
    same(&bench, &output);
    assert!(output.stderr.contains("models/a/model.yaml"), "{output}");
    bench.remove(intent);
    // No model left at all, though everything is allowed.
    bench.remove("models");
    let output = bench.push(&["--allow", "mass-delete,delete,replace,adopt"]).exits(1);
    same(&bench, &output);
    assert!(output.stdout.contains("nothing was rendered, so nothing is pruned"), "{output}");
    // Nor by a part of it: that nothing is left at all is no less strange.
    bench.write("models/a/notes.txt", "nothing");
    let output = bench.push(&["models/a"]).exits(1);
    same(&bench, &output);
    bench.write("models/a/model.yaml", small("a"));
    bench.write("models/b/model.yaml", small("b"));
    // A root file with a fault in it: which models belong to the environment is not known.
    bench.write("stator.yaml", SHOP.replace("environments", "enviroments"));
    let output = bench.push(&[]);
    assert!(matches!(output.code, Some(1 | 2)), "{output}");
    same(&bench, &output);
    bench.write("stator.yaml", "kind: Repository\nmetadata: [\n");
    let output = bench.push(&[]);
    assert!(matches!(output.code, Some(1 | 2)), "{output}");
    same(&bench, &output);
    bench.write("stator.yaml", SHOP);
    bench.settled();
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_listed_stops_the_sync() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = shop(&["a", "b"]);
    bench.sync(&[]).success();
    let before = bench.cluster();
    let folder = bench.path("models/a");
    fs_err::set_permissions(&folder, std::fs::Permissions::from_mode(0o000)).unwrap();
    let mut sync = bench.command();
    if fs_err::read_dir(&folder).is_ok() {
        // Root may read everything, but not without its capabilities.
        let stator = std::mem::replace(&mut sync, std::process::Command::new("setpriv"));
        sync.arg("--bounding-set=-all").arg(stator.get_program()).current_dir(bench.root());
        sync.env_clear().envs(stator.get_envs().filter_map(|(name, value)| Some((name, value?))));
    }
    let output = bench.finish(sync.args(["sync", "--yes"]));
    fs_err::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = output.exits(2);
    assert!(output.stderr.contains("models/a"), "{output}");
    assert_eq!(bench.cluster(), before, "{output}");
    bench.settled();
}

/// A limit on the size of files stands in for a full disk: every write of more than a kilobyte fails half-way.
#[cfg(unix)]
#[test]
fn a_full_disk_is_said_and_loses_nothing() {
    let bench = shop(&["a"]);
    bench.sync(&[]).success();
    bench.replace("models/a/model.yaml", "replicas: 1", "replicas: 2");
    bench.write("models/b/model.yaml", small("b"));
    let before = bench.cluster();
    let mut full = std::process::Command::new("sh");
    full.arg("-c")
        .arg(format!("trap '' XFSZ; ulimit -f 1; exec {} sync --yes --timeout 15m", env!("CARGO_BIN_EXE_stator")));
    full.current_dir(bench.root()).env_clear().env("HOME", bench.root()).env("NO_COLOR", "1");
    full.env("STATOR_CLUSTER", "embedded");
    let output = bench.finish(&mut full).exits(1);
    assert!(output.stdout.contains("prod/dynamographdeployments/a.yaml"), "{output}");
    assert!(output.stdout.contains("nothing was changed"), "{output}");
    assert_eq!(
        bench.cluster().get(&bench.live("dynamographdeployments", "a")),
        before.get(&bench.live("dynamographdeployments", "a"))
    );
    assert!(!bench.has("dynamographdeployments", "b"), "{output}");
    bench.sync(&[]).success();
    bench.settled();
}
