//! How a version's fixtures are written, by the version itself. No run of the tests does that: `STATOR_FORMATS=FOLDER cargo
//! test --test integration formats::made::folders -- --ignored` writes into an empty folder, and once that is beside what is
//! written by hand, `formats::made::objects` writes the rest.

use super::stored::{Api, KINDS, NAMESPACES, SECRETS};
use super::{FOLDER, FORGE, RELEASED_HOSTS, RELEASES, VersionFixtures, copy, empty_folders, files, with};
use crate::controller::process::Process;
use crate::forge_fake::{CANARY, FakeForgeHost, ForgeFlavor};
use crate::git_server::GitServer;
use crate::testbed::{ControlPlane, Programs, until};
use crate::workbench::Workbench;
use aws_lc_rs::hmac;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that is written: this one.
const WRITTEN: &VersionFixtures = &RELEASES[RELEASES.len() - 1];

/// Where the fixtures go.
fn target(path: &str) -> PathBuf {
    let folder = std::env::var_os("STATOR_FORMATS").expect("STATOR_FORMATS names the folder to write to");
    Path::new(&folder).join(path)
}

fn git(folder: &Path, arguments: &[&str]) {
    let mut git = Command::new("git");
    git.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", folder).env("GIT_CONFIG_NOSYSTEM", "1");
    assert!(git.arg("-C").arg(folder).args(arguments).status().unwrap().success(), "{arguments:?}");
}

/// A bare repository with the newest commit of a workbench, in one pack.
fn push(bench: &Workbench, bare: &Path) {
    if !bare.exists() {
        fs_err::create_dir_all(bare).unwrap();
        git(bare, &["init", "--quiet", "--bare", "--template=", "--initial-branch=main"]);
    }
    git(&bench.root(), &["push", "--quiet", bare.to_str().unwrap(), "HEAD:refs/heads/main"]);
    git(bare, &["repack", "--quiet", "-a", "-d"]);
}

/// The file of sources.
const SOURCES: &str = "\
# One repository twice: from a git host for one environment, and from this machine for another.
apiVersion: stator.dev/v1alpha1
kind: ModelSource
metadata:
  name: hosted
spec:
  url: http://127.45.0.1:8417/team/models.git
  allowInsecure: true
  ref:
    branch: main
  environment: prod
---
apiVersion: stator.dev/v1alpha1
kind: ModelSource
metadata:
  name: local
spec:
  url: /srv/stator/team/models.git
  allowLocal: true
  ref:
    branch: main
  environment: staging
  prune: false
";

#[test]
#[ignore = "writes fixtures, and does so once for each version"]
fn folders() {
    let bench = Workbench::empty();
    let beside = |path: &str| bench.root().parent().unwrap().canonicalize().unwrap().join(path);
    let cluster = format!("embedded:{}", beside("cluster").display());
    let sync = |environment: &str, more: &[&str]| {
        let fast = ["--wait", "--yes", "--simulate-operator", "--simulate-speed", "1000", "--cluster", &cluster];
        bench.run(["sync", "-e", environment].iter().chain(&fast).chain(more)).success()
    };
    let controller = || {
        let mut command = bench.command();
        command.current_dir(beside("")).args([
            "controller",
            "--source-file",
            "sources.yaml",
            "--data",
            "data",
            "--once",
        ]);
        command.args(["--cluster", "embedded:followed", "--simulate-operator", "--simulate-speed", "1000"]);
        bench.finish(&mut command).success()
    };
    copy(&WRITTEN.kept("repository"), &bench.root(), &[]);
    // It is there from the second version on: each writes its own.
    if bench.path("models/search/model.prod.lock.yaml").exists() {
        bench.remove("models/search/model.prod.lock.yaml");
    }
    copy(&WRITTEN.kept("removed"), &bench.root(), &[]);
    let first = bench.commit("Serve five models");
    push(&bench, &beside("team/models.git"));
    let _host = GitServer::at(RELEASED_HOSTS[0], &beside(""));
    let here = beside("").to_str().unwrap().trim_end_matches('/').to_owned();
    fs_err::write(beside("sources.yaml"), SOURCES.replace(FOLDER, &here)).unwrap();
    sync("prod", &[]);
    sync("staging", &[]);
    controller();

    bench.run(["lock", "search", "-e", "prod", "--cluster", &cluster]).success();
    bench.remove("models/notes");
    let newest = bench.commit("Lock search, and remove notes");
    push(&bench, &beside("team/models.git"));
    sync("prod", &[]);
    // The record of what git no longer has stays, with its history.
    sync("staging", &["--prune=false"]);
    // The simulated operator ends with the sync, and may be in the middle of something.
    until("all models of prod are healthy", || {
        sync("prod", &[]);
        let status = bench.run(["status", "-e", "prod", "-o", "json", "--cluster", &cluster]).success().json();
        status["models"].as_array().unwrap().iter().all(|model| model["health"] == "Healthy")
    });
    controller();
    copy(&bench.root().join("models/search"), &target("repository/models/search"), &[]);
    copy(&beside("team/models.git"), &target("repository.git"), &[]);
    copy(&beside("cluster"), &target("cluster"), &[]);

    let back = [(here.as_str(), FOLDER)];
    copy(&beside("data"), &target("controller/data"), &back);
    copy(&beside("followed"), &target("controller/followed"), &back);
    fs_err::create_dir_all(target("controller/sources")).unwrap();
    fs_err::write(target("controller/sources/sources.yaml"), SOURCES).unwrap();
    fs_err::write(target("controller/empty-folders"), empty_folders(&beside("data")).join("\n") + "\n").unwrap();

    interrupted(&bench, &beside("interrupted"));
    copy(&WRITTEN.kept("change"), &bench.root(), &[]);
    let plan = bench.run(["plan", "-e", "prod", "-o", "json", "--cluster", &cluster]).success();
    fs_err::write(target("plan.json"), plan.stdout).unwrap();
    println!("NEWEST {newest}, FIRST {first}, {} files", files(&target("")).len());
}

/// An embedded cluster as a sync left it that was killed between its first graph and the records: the journal is there.
fn interrupted(bench: &Workbench, folder: &Path) {
    let cluster = format!("embedded:{}", folder.display());
    let holds = |kind: &str| {
        let kind = folder.join("models").join(kind);
        kind.is_dir() && fs_err::read_dir(&kind).unwrap().flatten().any(|file| file.path().extension().is_some())
    };
    let is_left = || holds("syncjournals") && holds("dynamographdeployments");
    until("a sync is killed in the middle", || {
        let _ = fs_err::remove_dir_all(folder);
        let mut sync = bench.command();
        sync.args(["sync", "-e", "prod", "--yes", "--cluster", &cluster]);
        let mut sync = sync.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
        while !is_left() && sync.try_wait().unwrap().is_none() {
            std::hint::spin_loop();
        }
        let _ = sync.kill();
        sync.wait().unwrap();
        is_left()
    });
    copy(folder, &target("interrupted"), &[]);
}

/// Tells of a push, as the git host would.
fn deliver(server: &Process) {
    let body = r#"{"ref":"refs/heads/main"}"#;
    let key = hmac::Key::new(hmac::HMAC_SHA256, CANARY.as_bytes());
    let signature = hex::encode(hmac::sign(&key, body.as_bytes()));
    let head = format!(
        "POST /webhooks/gitea/formats/models HTTP/1.1\r\nContent-Type: application/json\r\nX-Gitea-Event: push\r\nX-Gitea-Delivery: 1\r\nX-Gitea-Signature: {signature}"
    );
    until("the server takes it", || server.asks(&head, body.as_bytes()).0 == 202);
}

/// What the simulated operator said of each object of the embedded cluster.
fn statuses() -> Vec<Value> {
    let folder = WRITTEN.kept("cluster/models");
    let read = |path: PathBuf| {
        let text = fs_err::read_to_string(folder.join(path)).unwrap();
        serde_saphyr::from_str::<Value>(&text).unwrap()
    };
    files(&folder).into_iter().filter(|path| !path.starts_with("models")).map(read).collect()
}

#[test]
#[ignore = "writes fixtures, and does so once for each version"]
fn objects() {
    let plane = ControlPlane::start(&Programs::find().unwrap()).unwrap();
    let api = Api::on(&plane);
    NAMESPACES.iter().for_each(|name| api.namespace(name));
    let bench = Workbench::empty();
    let folder = bench.root().parent().unwrap().to_owned();
    copy(&WRITTEN.kept("repository.git"), &folder.join("team/models.git"), &[]);
    let host = GitServer::at(RELEASED_HOSTS[1], &folder);
    let forge = api.runtime.block_on(FakeForgeHost::start(ForgeFlavor::Gitea));
    forge.state().commits.push(WRITTEN.newest.to_owned());
    for (name, value) in SECRETS {
        api.make(
            "formats",
            "Secret",
            json!({
                "metadata": {"name": name, "labels": {"stator.dev/credential": "true"}}, "stringData": {"token": value},
            }),
        );
    }
    let declare = |namespace: &str, name: &str, more: Value| {
        let mut spec = json!({
            "url": host.url("team/models.git"), "allowInsecure": true, "ref": {"branch": "main"}, "interval": "1s",
            "targetNamespace": namespace,
        });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        api.make(namespace, "ModelSource", json!({"metadata": {"name": name}, "spec": spec}));
    };
    let asked = json!({"type": "gitea", "url": forge.api(), "secretRef": {"name": "forge"}});
    declare(
        "formats",
        "models",
        json!({"environment": "prod", "forge": asked, "webhook": {"secretRef": {"name": "hook"}}}),
    );
    declare("formats", "broken", json!({"environment": "prod", "path": "nowhere"}));
    declare("formats-held", "tight", json!({"environment": "staging", "guards": {"maxGpus": 1}}));
    let closed = json!([{"kind": "allow", "schedule": "0 0 29 2 *", "duration": "1m"}]);
    declare("formats-held", "waiting", json!({"environment": "prod", "windows": closed}));

    let run = |verb: &str, more: &[&str]| {
        let mut command = bench.command();
        command.current_dir(&folder).arg(verb).arg("--kubeconfig").arg(plane.kubeconfig());
        command.args(["--context", "admin", "--listen", "127.0.0.1:0", "--watch-namespace", "formats"]);
        command.args(["--watch-namespace", "formats-held"]).args(more);
        Process::start(if verb == "server" { "server" } else { "controller" }, &mut command)
    };
    let alone = ["--lease-namespace", "formats", "--identity", "one", "--data", "data", "--webhooks=false"];
    let alone = [&alone[..], &["--allow-insecure", "--allow-local-addresses"]].concat();
    let controller = run("controller", &alone);
    let server = run("server", &[]);
    let said = statuses();
    let reason = |namespace: &str, name: &str| {
        let source = api.get(namespace, "ModelSource", name);
        let all = source["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = all.into_iter().find(|one| one["type"] == "Ready").unwrap_or_default();
        (ready["reason"].as_str().unwrap_or_default().to_owned(), source)
    };
    until("the models are healthy", || {
        for object in &said {
            let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
            api.set_status("formats", kind, name, &object["status"]);
        }
        reason("formats", "models").0 == "ReconciliationSucceeded"
    });
    api.annotate("formats", "models", "stator.dev/requestedAt", "2026-01-01T00:00:00Z");
    until("it is answered", || {
        let status = &reason("formats", "models").1["status"];
        let posted = status["statuses"].as_array().is_some_and(|all| all.iter().all(|one| one["state"] == "success"));
        status["lastHandledRequest"] != Value::Null && status["phase"] == "Idle" && posted
    });
    deliver(&server);
    until("it is handed on", || {
        reason("formats", "models").1["metadata"]["annotations"]["stator.dev/hints"].is_string()
    });
    until("the others say how they are", || {
        ["broken", "tight", "waiting"].iter().zip(["formats", "formats-held", "formats-held"]).all(
            |(name, namespace)| {
                let (reason, source) = reason(namespace, name);
                !["", "Progressing"].contains(&reason.as_str()) && source["status"]["phase"] != "Reading"
            },
        )
    });
    // What is under way comes to its end.
    std::thread::sleep(std::time::Duration::from_secs(3));
    let root = forge.root();
    let words = [(root.as_str(), FORGE)];
    for (kind, ..) in KINDS {
        let all = NAMESPACES.map(|namespace| api.list(namespace, kind)).concat();
        let text = serde_json::to_string_pretty(&all).unwrap() + "\n";
        fs_err::create_dir_all(target("objects")).unwrap();
        let file = target(&format!("objects/{}.json", kind.to_lowercase()));
        fs_err::write(file, with(text.into_bytes(), &words)).unwrap();
    }
    drop((controller, server));
    forge.assert_no_faults();
}
