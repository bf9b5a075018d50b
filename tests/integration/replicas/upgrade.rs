//! An upgrade of stator and the way back, beside models that run: replicas of two versions at once, and the command line on an
//! embedded cluster. The other version is the program in `STATOR_TEST_OTHER_PROGRAM`, such as that of the last release; without
//! one, it is this program under another version number, so that nothing which names its version is rewritten by the other.

use super::scene::{Replica, Scene};
use crate::testbed::eventually;
use crate::workbench::{Workbench, program, write_program};
use kube::api::ListParams;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A number as long as this version's own.
const OTHER_NUMBER: &str = "0.1.9";

fn version_of(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The program of another version.
pub fn other_program() -> &'static Path {
    static OTHER: OnceLock<(PathBuf, Option<tempfile::TempDir>)> = OnceLock::new();
    let find = || {
        if let Some(given) = std::env::var_os("STATOR_TEST_OTHER_PROGRAM") {
            return (given.into(), None);
        }
        let number = env!("CARGO_PKG_VERSION");
        assert_eq!(number.len(), OTHER_NUMBER.len(), "the number is put in the place of the other one");
        let mut bytes = fs_err::read(program()).unwrap();
        let found: Vec<usize> = memchr_all(&bytes, number.as_bytes());
        for at in found {
            bytes[at..at + number.len()].copy_from_slice(OTHER_NUMBER.as_bytes());
        }
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("stator");
        write_program(&copy, &bytes);
        assert_eq!(version_of(&copy), format!("stator {OTHER_NUMBER}"));
        (copy, Some(folder))
    };
    &OTHER.get_or_init(find).0
}

/// Where a text stands in bytes.
fn memchr_all(bytes: &[u8], text: &[u8]) -> Vec<usize> {
    let first = text[0];
    let starts = bytes.iter().enumerate().filter(|(_, byte)| **byte == first).map(|(at, _)| at);
    starts.filter(|at| bytes[*at..].starts_with(text)).collect()
}

impl Scene {
    /// Names and resource versions of the records and journals. The status of a source is written by whoever takes it over.
    async fn records(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for (version, kind, plural) in
            [("stator.dev/v1alpha1", "Model", "models"), ("stator.dev/v1alpha1", "SyncJournal", "syncjournals")]
        {
            for object in self.api(version, kind, plural).list(&ListParams::default()).await.unwrap() {
                let name = format!("{kind} {}", object.metadata.name.unwrap());
                all.insert(name, object.metadata.resource_version.unwrap());
            }
        }
        all
    }

    /// Puts one replica in the place of another, as a rolling update does: the new one first.
    async fn replaces(&self, old: &mut Replica, name: &str, program: &Path) -> Replica {
        let new = self.start_program(program, name, 1).await;
        old.signal("-TERM");
        assert!(old.ended().await, "{} ends well", old.name);
        new
    }

    /// Waits until one of these holds the shard, and has looked at the repository some times since.
    async fn works(&self, replicas: [&Replica; 2]) {
        self.leader(&replicas).await;
        self.server.asked();
        let mut seen = 0;
        eventually("the repository is looked at", async || {
            seen += self.server.asked().len();
            (seen >= 5).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_update_and_the_way_back_write_nothing_and_restart_nothing() {
    let Some(scene) = Scene::set("replicas-upgrade").await else { return };
    let (this, other) = (program(), super::scene::aside(other_program));
    scene.push(3, 1);
    scene.source("models", json!({})).await;
    let mut one = scene.start_program(&this, "one", 1).await;
    let mut two = scene.start_program(&this, "two", 1).await;
    eventually("the first commit is synced", async || scene.are(3, 1).await).await;
    let state = async || (scene.quiet().await, scene.records().await);

    // There: while both versions run, and when only the other one does, nothing is written.
    let before = state().await;
    let mut three = scene.replaces(&mut one, "three", other).await;
    scene.works([&two, &three]).await;
    assert_eq!(state().await, before, "one replica of each version");
    let mut four = scene.replaces(&mut two, "four", other).await;
    scene.works([&three, &four]).await;
    assert_eq!(state().await, before, "the other version alone");
    scene.push(3, 2);
    eventually("it syncs", async || scene.are(3, 2).await).await;

    // And back, with what the other version wrote.
    let before = state().await;
    assert!(before.0.values().all(|(generation, ..)| *generation == 2), "each graph was changed once: {before:?}");
    let five = scene.replaces(&mut three, "five", &this).await;
    scene.works([&four, &five]).await;
    assert_eq!(state().await, before, "one replica of each version, on the way back");
    let six = scene.replaces(&mut four, "six", &this).await;
    scene.works([&five, &six]).await;
    assert_eq!(state().await, before, "this version again");
    scene.push(3, 3);
    eventually("it syncs what the other version wrote", async || scene.are(3, 3).await).await;
    let (graphs, _) = state().await;
    assert!(graphs.values().all(|(generation, ..)| *generation == 3), "{graphs:?}");
}

/// The command line of both versions, in turns.
#[test]
fn two_versions_share_an_embedded_cluster() {
    let bench = Workbench::empty();
    bench
        .write("stator.yaml", "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {name: fleet}\nspec: {}\n");
    bench.write("models/mock/model.yaml", crate::cli::MOCK);
    let said = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new(program);
        let ours = bench.command();
        command.current_dir(bench.root()).env_clear().args(arguments);
        command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        bench.finish(&mut command).success()
    };
    let sync = ["sync", "--yes", "--wait", "--simulate-operator", "--simulate-speed", "1000"];
    let (this, other) = (program(), other_program());
    said(&this, &sync);
    for next in [other, &this, other] {
        assert!(said(next, &["plan", "--exit-code"]).stdout.contains("No changes"), "{}", version_of(next));
        let synced = said(next, &sync);
        assert!(synced.stdout.contains(", 0 writes."), "{}: {synced}", version_of(next));
    }
    // What one plans, the other carries out.
    bench.write("models/mock/model.yaml", crate::cli::MOCK.replace("replicas: 2", "replicas: 3"));
    let plan = said(other, &["plan", "-o", "json"]);
    bench.write("plan.json", &plan.stdout);
    let synced = said(&this, &["sync", "--yes", "--plan", "plan.json"]);
    assert!(synced.stdout.contains("1 of 1 model synced"), "{synced}");
}
