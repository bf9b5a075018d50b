//! Processes that end in the middle, and two that run at once.
#![cfg(unix)]

use super::bench::{SHOP, Syncing as _, model, shop, small};
use crate::testbed::until;
use crate::workbench::Workbench;
use stator_cluster::cluster::Cluster as _;
use stator_cluster::cluster::embedded::{EmbeddedCluster, EmbeddedOptions};
use stator_core::dynamo::kinds;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime};

const PLAY: &[&str] = &["--wait", "--simulate-operator", "--simulate-speed", "100000", "--timeout", "15m"];

fn start(bench: &Workbench, more: &[&str]) -> Child {
    let mut command = bench.command();
    command.args(["sync", "--yes"]).args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Two models at work, and then one that changed, one that must be made again, one that went, and two new ones.
fn before() -> Workbench {
    let bench = shop(&["changed", "gone", "kept"]);
    // Where it comes from is part of what is written, and the folder is another one in every run.
    let repository = git2::Repository::init(bench.root()).unwrap();
    repository.remote("origin", "https://git.example.com/team/shop.git").unwrap();
    bench.write("models/again/model.yaml", model("again", "{worker: {replicas: 1}}", ""));
    bench.sync(&[]).success();
    bench.replace("models/changed/model.yaml", "replicas: 1", "replicas: 2");
    bench.write("models/again/model.yaml", model("again", "{prefill: {replicas: 1}, decode: {replicas: 1}}", ""));
    bench.remove("models/gone");
    bench.write("models/new/model.yaml", small("new"));
    let weights = "  hardware: {gpu: l40s, gpusPerNode: 4}\n  cache: {claim: weights, size: 1Gi}\n  adapters: [{name: sql, \
                   source: s3://adapters/sql}]\n";
    let loaded = model("loaded", "{worker: {replicas: 1}}", weights).replace("engine: mocker", "engine: vllm");
    bench.write("models/loaded/model.yaml", loaded);
    bench
}

/// What is there, without what differs from run to run by itself.
fn state(bench: &Workbench) -> Vec<(String, String)> {
    let mut state = Vec::new();
    for name in bench.objects() {
        let text = bench.read(&format!(".stator/cluster/{name}.yaml"));
        let object: serde_json::Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let spec = object["spec"].to_string();
        // The entries of a record without uid and generation, which a second try may raise.
        let entries = object["status"]["inventory"].as_array().cloned().unwrap_or_default();
        let entries: Vec<String> =
            entries.iter().map(|entry| format!("{}/{} {}", entry["kind"], entry["name"], entry["digest"])).collect();
        state.push((name, format!("{spec} {entries:?}")));
    }
    state
}

/// The files of the cluster and when each was written, as far as they are there while a process is at work.
fn versions(bench: &Workbench) -> BTreeSet<(String, SystemTime)> {
    let changed = |file: &String| fs_err::metadata(bench.path(file)).and_then(|found| found.modified());
    let files = bench.files(".stator/cluster").into_iter();
    files.filter_map(|file| changed(&file).ok().map(|time| (file, time))).collect()
}

#[test]
fn killed_at_any_moment_the_next_sync_ends_where_an_undisturbed_one_does() {
    let undisturbed = before();
    let at_first = versions(&undisturbed);
    undisturbed.sync(&["--allow", "replace"]).success();
    let files = versions(&undisturbed).difference(&at_first).count();
    assert!(files > 10, "a sync writes only {files} files");
    let expected = state(&undisturbed);
    undisturbed.settled();

    // After how many files a sync is killed, from a fixed seed: none, or up to nearly all that it writes.
    let mut seed = 0x5eed_u64;
    let (mut killed, mut series) = (0, 0);
    // One that is through before it can be killed shows nothing: there are more series until some were killed.
    while series < 3 || killed < 3 {
        assert!(series < 30, "only {killed} were killed before they were through");
        series += 1;
        let bench = before();
        let untouched = |name: &str| bench.uid("dynamographdeployments", name);
        let uids = [untouched("changed"), untouched("kept")];
        for round in 0..5 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let written = usize::try_from(seed >> 33).unwrap() % (files - 2);
            let at_first = versions(&bench);
            let mut child = start(&bench, &[PLAY, &["--allow", "replace"]].concat());
            while child.try_wait().unwrap().is_none() && versions(&bench).difference(&at_first).count() < written {
                std::thread::sleep(Duration::from_millis(1));
            }
            child.kill().unwrap();
            killed += usize::from(child.wait().unwrap().code().is_none());
            // Every object is whole, whatever was being written, and what only changes is never deleted.
            assert!(!state(&bench).is_empty());
            assert_eq!([untouched("changed"), untouched("kept")], uids, "series {series}, round {round}");
        }
        bench.sync(&["--allow", "replace"]).success();
        assert_eq!(state(&bench), expected, "series {series}");
        assert_eq!([untouched("changed"), untouched("kept")], uids, "series {series}");
        bench.settled();
    }
}

#[test]
fn ctrl_c_ends_with_130_and_the_next_sync_goes_on() {
    let bench = before();
    let child = start(&bench, &["--wait", "--timeout", "15m", "--allow", "replace"]);
    // No operator is at work, so that health is waited for until somebody interrupts.
    until("something is applied", || bench.has("dynamographdeployments", "new"));
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("Stopping: work in progress is finished first"), "{said}");
    bench.sync(&["--allow", "replace"]).success();
    bench.settled();
}

#[test]
fn two_at_once_end_as_one() {
    let undisturbed = before();
    undisturbed.sync(&["--allow", "replace"]).success();
    let bench = before();
    let both: Vec<Child> = (0..2).map(|_| start(&bench, &[PLAY, &["--allow", "replace"]].concat())).collect();
    for child in both {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // The one that comes second to an object may have to say so; neither breaks.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
    }
    bench.sync(&["--allow", "replace"]).success();
    assert_eq!(state(&bench), state(&undisturbed));
    bench.settled();
}

/// Thirty models that all change when this number does.
fn thirty(bench: &Workbench, replicas: u64) {
    let defaults =
        format!("  defaults: {{engine: mocker, runtime: 1.2.0, serving: {{worker: {{replicas: {replicas}}}}}}}\n");
    bench.write("stator.yaml", SHOP.to_owned() + &defaults);
}

#[tokio::test]
async fn a_kill_at_any_moment_leaves_every_object_whole() {
    let bench = Workbench::empty();
    for number in 0..30 {
        let name = format!("m{number}");
        let intent = format!(
            "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {{name: {name}}}\nspec: {{model: Qwen/Qwen3-0.6B}}\n"
        );
        bench.write(&format!("models/{name}/model.yaml"), intent);
    }
    let folder = bench.path(".stator/cluster");
    // The counter is written before the object that it is for, and a file under its name is whole.
    let objects = || versions(&bench).into_iter().filter(|(file, _)| file.ends_with(".yaml")).collect::<BTreeSet<_>>();
    let mut highest = 0;
    for round in 0..8_u64 {
        thirty(&bench, round + 1);
        let before = objects();
        let mut child = start(&bench, &[]);
        // Kill only a writer that writes: wait for its first object of this round. Any moment from then on is as good.
        while child.try_wait().unwrap().is_none() && objects().is_subset(&before) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(3 + round * 7));
        child.kill().unwrap();
        child.wait().unwrap();

        let cluster = EmbeddedCluster::open(&folder, EmbeddedOptions::default()).unwrap();
        let mut newest = 0;
        for kind in [kinds::JOURNAL, kinds::GRAPH, kinds::RECORD] {
            let objects = cluster.list(&kind, None, &BTreeMap::new()).await.unwrap();
            let versions = objects.iter().map(|object| object.resource_version().unwrap().parse::<u64>().unwrap());
            newest = versions.fold(newest, u64::max);
        }
        assert!(newest > highest, "nothing went back, and something was written: {newest} after {highest}");
        highest = newest;
        let left: Vec<_> = walk(&folder).into_iter().filter(|path| path.contains("stator-write")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
    bench.sync(&[]).success();
    bench.settled();
}

/// Every file below a folder.
fn walk(folder: &Path) -> Vec<String> {
    let entries = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path.to_string_lossy().into_owned()] })
        .collect()
}
