//! From what a release gives out alone: a first model, a controller on a cluster, an upgrade and the way back.

use super::ground::{Ground, IMAGE};
use super::release::{archive_name, made};
use crate::git_server::{GitServer, OriginRepository};
use crate::node::Operator;
use crate::replicas::upgrade::other_program;
use crate::testbed;
use serde_json::json;
use std::path::Path;
use std::process::Command;

/// Where the image of another version is said to be.
const NEXT_IMAGE: &str = "registry.example.com/stator-next";

/// From the packages alone: the chart that was packed, with the image that it names by digest, whose program is that of the
/// archive. On the real API server it is a controller in five commands, which syncs a repository until all is healthy. An upgrade to
/// another version and the way back write nothing of the model.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_packaged_chart_installs_a_controller_that_syncs() {
    let Some(made) = tokio::task::spawn_blocking(made).await.unwrap() else { return };
    let next = tokio::task::block_in_place(other_program).to_owned();
    let images = vec![(IMAGE.to_owned(), made.program.clone()), (NEXT_IMAGE.to_owned(), next)];
    let Some(ground) = Ground::of_images(images).await else { return };
    let namespace = ground.namespace("packaged").await;
    let host = tempfile::tempdir().unwrap();
    let origin = OriginRepository::new(&host.path().join("models.git"));
    let root = "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {name: fleet}\nspec:\n  environments: {staging: {namespace: packaged-models}}\n";
    origin.commit("main", &[("stator.yaml", root), ("models/mock/model.yaml", crate::cli::MOCK)]);
    let (server, operator) = tokio::task::block_in_place(|| {
        (GitServer::start(host.path()), Operator::start(&ground.plane, &["packaged-models"]))
    });

    // 1. The controller.
    let chart = made.file("stator-VERSION.tgz");
    ground.release_of(&chart, &namespace, "stator", &["install"], &[]);
    let path = "jsonpath={.items[*].spec.template.spec.containers[*].image}";
    let image = ground.kubectl(&["get", "deployments", "-n", &namespace, "-o", path]);
    let digest = made.json("image/index.json")["manifests"][0]["digest"].as_str().unwrap().to_owned();
    assert_eq!(image, format!("{IMAGE}@{digest}"));
    // 2. A namespace, 3. a source, 4. the wait until it is synced, 5. what there is.
    ground.kubectl(&["create", "namespace", "packaged-models"]);
    let source = host.path().join("source.yaml");
    let spec = json!({
        "url": server.url("models.git"), "allowInsecure": true, "ref": {"branch": "main"}, "environment": "staging",
        "interval": "1s",
    });
    let metadata = json!({"name": "models", "namespace": "packaged-models"});
    let object =
        json!({"apiVersion": "stator.dev/v1alpha1", "kind": "ModelSource", "metadata": metadata, "spec": spec});
    fs_err::write(&source, object.to_string()).unwrap();
    ground.kubectl(&["apply", "-f", source.to_str().unwrap()]);
    let waited = ["wait", "modelsources/models", "-n", "packaged-models", "--for=condition=Ready", "--timeout=2m"];
    ground.kubectl(&waited);
    let health = "jsonpath={.items[*].metadata.name} {.items[*].status.health}";
    let models = ground.kubectl(&["get", "models.stator.dev", "-n", "packaged-models", "-o", health]);
    assert_eq!(models, "mock Healthy");

    let state = || {
        let path = "jsonpath={range .items[*]}{.kind} {.metadata.uid} {.metadata.generation} {.metadata.resourceVersion}{'\\n'}{end}";
        let kinds = "dynamographdeployments,models.stator.dev,persistentvolumeclaims";
        ground.kubectl(&["get", kinds, "-n", "packaged-models", "-o", path])
    };
    // The controller of now has looked at the repository and at the cluster.
    let handles = |request: &str| {
        let asked = format!("stator.dev/requestedAt={request}");
        ground.kubectl(&["annotate", "modelsource", "models", "-n", "packaged-models", "--overwrite", &asked]);
        let answered = format!("--for=jsonpath={{.status.lastHandledRequest}}={request}");
        ground.kubectl(&["wait", "modelsources/models", "-n", "packaged-models", &answered, "--timeout=2m"]);
        ground.kubectl(&waited);
    };
    let before = state();
    assert!(before.contains("DynamoGraphDeployment ") && before.contains("Model "), "{before}");
    let other = format!("image.repository={NEXT_IMAGE}");
    ground.release_of(&chart, &namespace, "stator", &["upgrade"], &["--set", &other]);
    handles("upgraded");
    assert_eq!(state(), before, "after the upgrade");
    ground.helm(&["rollback", "stator", "1", "-n", &namespace, "--wait", "--timeout", "5m"]).unwrap();
    handles("back");
    assert_eq!(state(), before, "after the way back");
    let image_now = ground.kubectl(&["get", "deployments", "-n", &namespace, "-o", path]);
    assert_eq!(image_now, image);
    ground.helm(&["uninstall", "stator", "-n", &namespace]).unwrap();
    tokio::task::block_in_place(|| drop((server, operator)));
}

/// The packages of distributions hold the program that the archive holds, where they are made.
#[test]
fn deb_and_rpm_unpack_to_the_program() {
    let Some(made) = made() else { return };
    let packages = [
        (made.file("stator_VERSION-1_amd64.deb"), "dpkg-deb --extract"),
        (
            made.file("stator-VERSION-1.x86_64.rpm"),
            "unpack() { cd \"$2\" && rpm2cpio \"$1\" | cpio --extract --quiet --make-directories; }; unpack",
        ),
    ];
    for (package, unpack) in packages {
        if std::env::var_os("STATOR_RELEASE_FILES").is_none() {
            assert!(!package.exists(), "what is made in minutes is not made here");
            continue;
        }
        let root = tempfile::tempdir().unwrap();
        let line = format!("{unpack} '{}' '{}'", package.display(), root.path().display());
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(fs_err::read(root.path().join("usr/bin/stator")).unwrap(), fs_err::read(&made.program).unwrap());
        assert!(root.path().join("usr/share/man/man1/stator-sync.1.gz").is_file());
    }
}

/// Whoever installs: not root, with nothing but a shell, tar and checksums, and with no network at all.
struct Newcomer<'a> {
    home: &'a Path,
}

impl Newcomer<'_> {
    /// Runs a line of the shell, and gives what it printed on both streams, and whether it did well.
    fn run(&self, line: &str) -> (String, bool) {
        let mut command = Command::new("unshare");
        command.args(["--net", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]);
        command.args(["sh", "-c", &format!("{{ {line}\n}} 2>&1")]).env_clear().current_dir(self.home);
        let path = format!("{}/.local/bin:/usr/bin:/bin", self.home.display());
        let output = command.env("HOME", self.home).env("PATH", path).env("LC_ALL", "C").output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (said.replace(self.home.to_str().unwrap(), "HOME"), output.status.success())
    }

    #[track_caller]
    fn succeeds(&self, line: &str) -> String {
        let (said, well) = self.run(line);
        assert!(well, "{line}\n{said}");
        said
    }
}

/// install.sh on a machine that has nothing of stator and no Rust: the program is installed for the user, and within its
/// first commands a model is healthy. Archives that are not those of the release are refused, and nothing is left of them.
#[test]
fn from_install_sh_to_a_healthy_model_without_a_network_and_without_root() {
    let Some(made) = made() else { return };
    if !Command::new("unshare").args(["--net", "true"]).status().is_ok_and(|status| status.success()) {
        return testbed::skipped("only root may run a program without a network and as somebody else");
    }
    let home = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(home.path(), Some(65534), Some(65534)).unwrap();
    let newcomer = Newcomer { home: home.path() };
    let copy = home.path().join("release");
    fs_err::create_dir(&copy).unwrap();
    let archive = format!("{}.tar.gz", archive_name());
    for name in ["install.sh", &archive] {
        fs_err::copy(made.file(name), copy.join(name)).unwrap();
    }

    let (said, well) = newcomer.run("sh release/install.sh");
    assert!(!well && said.contains("install.sh: "), "there is no network: {said}");
    let (said, well) = newcomer.run("sh release/install.sh nowhere/");
    assert!(!well && said.contains(&format!("install.sh: cannot read nowhere/{archive}")), "{said}");
    let mut bytes = fs_err::read(copy.join(&archive)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let changed = home.path().join("changed");
    fs_err::create_dir(&changed).unwrap();
    fs_err::write(changed.join(&archive), bytes).unwrap();
    let (said, well) = newcomer.run("sh release/install.sh changed");
    assert!(!well && said.contains("has the SHA-256 digest ") && said.contains(": nothing is installed"), "{said}");
    let (said, well) = newcomer.run("uname() { echo Plan9; }; . release/install.sh");
    assert!(
        !well && said.contains("install.sh: there is no release for Plan9 on Plan9: build it from the source"),
        "{said}"
    );
    assert!(!home.path().join(".local").exists());

    for url in ["release", &format!("file://{}", copy.display())] {
        insta::allow_duplicates!(
            insta::assert_snapshot!(newcomer.succeeds(&format!("sh release/install.sh {url}")), @"
        stator 0.1.0 is installed: HOME/.local/bin/stator
        Start with: stator init demo
        ")
        );
    }
    for file in
        [".local/bin/stator", ".local/share/man/man1/stator-sync.1", ".local/share/bash-completion/completions/stator"]
    {
        assert!(home.path().join(file).is_file(), "{file}");
    }
    newcomer.succeeds("stator init demo");
    let sync = "cd demo && stator sync --cluster embedded --simulate-operator --wait --yes -q";
    assert!(newcomer.succeeds(sync).contains("2 of 2 models synced, "));
    assert_eq!(newcomer.succeeds(sync).trim(), "2 of 2 models synced, 0 writes.");
    assert!(newcomer.succeeds("cd demo && stator status --cluster embedded -q").matches(" Healthy ").count() == 2);
}
