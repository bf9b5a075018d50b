//! What deploy/release makes: of the tests' own program, and without what needs tools that take minutes to build. Or, where
//! `STATOR_RELEASE_FILES` names its folder, of what is given out: `.ci/nightly` makes that.

use super::at;
use super::ground::IMAGE;
use crate::testbed;
use crate::workbench::write_program;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The target that the tests' program is said to be for; what it is for does not matter to the scripts.
const TARGET: &str = "x86_64-unknown-linux-musl";

/// A release, made once for all tests.
pub struct MadeRelease {
    files: PathBuf,
    /// What is removed with it.
    _folder: tempfile::TempDir,
    /// The program that is in it.
    pub program: PathBuf,
}

impl MadeRelease {
    pub fn file(&self, name: &str) -> PathBuf {
        self.files.join(name.replace("VERSION", env!("CARGO_PKG_VERSION")))
    }

    pub fn read(&self, name: &str) -> String {
        fs_err::read_to_string(self.file(name)).unwrap()
    }

    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    /// A blob of the image.
    fn blob(&self, descriptor: &Value) -> PathBuf {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        self.file(&format!("image/blobs/sha256/{digest}"))
    }

    fn blob_json(&self, descriptor: &Value) -> Value {
        serde_json::from_slice(&fs_err::read(self.blob(descriptor)).unwrap()).unwrap()
    }

    /// The unpacked archive of the program.
    pub fn unpacked(&self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        unpack(&self.file(&format!("{}.tar.gz", archive_name())), folder.path());
        folder
    }
}

/// What the archive is called, without its ending.
pub fn archive_name() -> String {
    format!("stator-{}-{TARGET}", env!("CARGO_PKG_VERSION"))
}

fn unpack(archive: &Path, folder: &Path) {
    let status = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder).status().unwrap();
    assert!(status.success(), "{}", archive.display());
}

/// The SHA-256 of bytes.
pub fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Runs a script of a release.
fn script(name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new("bash");
    command.args(["-c", "umask \"$1\" && shift && exec \"$@\"", "sh"]);
    let umask = variables.iter().find(|(name, _)| *name == "UMASK").map_or("022", |(_, value)| value);
    command.arg(umask).arg(at("deploy/release").join(name)).args(arguments).env_clear().envs(variables.iter().copied());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("HOME", std::env::temp_dir());
    // Not the commit's time, which is no other in the next run.
    command.env("SOURCE_DATE_EPOCH", "1700000000").env("STATOR_RELEASE_REVISION", "0123abcd");
    if let Some(helm) = testbed::helm() {
        command.env("STATOR_RELEASE_HELM", helm);
    }
    command.output().unwrap()
}

/// `None`: skip the test, it has been said.
fn missing() -> Option<&'static str> {
    let tools = ["tar", "gzip", "jq", "readelf", "strip", "sha256sum", "git", "bash"];
    tools.into_iter().find(|tool| !testbed::is_there(tool, "--version"))
}

fn make(folder: &Path, program: &Path, variables: &[(&str, &str)]) {
    let out = folder.join("files");
    let binary = format!("{TARGET}={}", program.display());
    let fixed = ["--any", "--without", "sbom,packages", "--image", IMAGE, "--binary", &binary, "--out"];
    let arguments: Vec<&str> = fixed.into_iter().chain([out.to_str().unwrap()]).collect();
    let output = script("run", &arguments, variables);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The release of the tests. `None`: skip the test, it has been said loudly.
pub fn made() -> Option<&'static MadeRelease> {
    static MADE: OnceLock<MadeRelease> = OnceLock::new();
    if let Some(tool) = missing() {
        testbed::skipped(&format!("there is no {tool}, which a release is made with"));
        return None;
    }
    testbed::helm()?;
    let start = || {
        let folder = tempfile::tempdir().unwrap();
        fs_err::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let program = folder.path().join("stator");
        if let Some(files) = std::env::var_os("STATOR_RELEASE_FILES").map(PathBuf::from) {
            unpack(&files.join(format!("{}.tar.gz", archive_name())), folder.path());
            return MadeRelease { files, program: folder.path().join(archive_name()).join("stator"), _folder: folder };
        }
        let mut strip = Command::new("strip");
        strip.arg("-o").arg(&program).arg(env!("CARGO_BIN_EXE_stator"));
        assert!(strip.status().unwrap().success());
        make(folder.path(), &program, &[]);
        MadeRelease { files: folder.path().join("files"), program, _folder: folder }
    };
    Some(MADE.get_or_init(start))
}

#[test]
fn the_archive_holds_the_program_and_what_belongs_to_it() {
    let Some(made) = made() else { return };
    let output =
        Command::new("tar").arg("-tzf").arg(made.file(&format!("{}.tar.gz", archive_name()))).output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    // The list of crates is only in what is given out.
    let page = |line: &&str| line.contains("/man/stator-") || line.ends_with(".cdx.json");
    let (pages, others): (Vec<&str>, Vec<&str>) = listed.lines().partition(page);
    assert!(pages.len() > 20, "{pages:?}");
    insta::assert_snapshot!(others.join("\n").replace(&archive_name(), "NAME"), @"
    NAME/
    NAME/LICENSE
    NAME/NOTICE
    NAME/completions/
    NAME/completions/_stator
    NAME/completions/_stator.ps1
    NAME/completions/stator.bash
    NAME/completions/stator.elv
    NAME/completions/stator.fish
    NAME/crds/
    NAME/crds/stator.dev_fleetpolicies.yaml
    NAME/crds/stator.dev_models.yaml
    NAME/crds/stator.dev_modelsources.yaml
    NAME/crds/stator.dev_syncjournals.yaml
    NAME/man/
    NAME/man/stator.1
    NAME/stator
    ");
    let folder = made.unpacked();
    let folder = folder.path().join(archive_name());
    let said = Command::new(folder.join("stator")).arg("--version").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), concat!("stator ", env!("CARGO_PKG_VERSION")));
    let read = |file: &str| fs_err::read_to_string(folder.join(file)).unwrap();
    assert!(read("man/stator-sync.1").contains("simulate"), "the page does not know `stator sync`");
    for file in ["completions/stator.bash", "completions/_stator", "completions/stator.fish"] {
        assert!(read(file).contains("_STATOR_COMPLETE="), "{file} does not ask stator");
    }
}

/// Somebody else, elsewhere and later, gets the same bytes of every file.
#[test]
fn two_runs_give_the_same_bytes() {
    let Some(made) = made() else { return };
    if std::env::var_os("STATOR_RELEASE_FILES").is_some() {
        // Whoever made it made it twice: that takes half an hour.
        return;
    }
    let again = tempfile::tempdir().unwrap();
    let program = again.path().join("copy");
    write_program(&program, &fs_err::read(&made.program).unwrap());
    make(
        again.path(),
        &program,
        &[("UMASK", "077"), ("TZ", "Asia/Tokyo"), ("LANG", "de_DE.UTF-8"), ("STATOR_TIMEOUT", "1m")],
    );
    for name in ["SHA256SUMS", "stator-VERSION.intoto.json", "image/index.json"] {
        let other = again.path().join("files").join(name.replace("VERSION", env!("CARGO_PKG_VERSION")));
        assert_eq!(made.read(name), fs_err::read_to_string(other).unwrap(), "{name}");
    }
}

#[test]
fn every_file_has_its_checksum_and_the_provenance_names_it() {
    let Some(made) = made() else { return };
    let sums: BTreeMap<String, String> = made
        .read("SHA256SUMS")
        .lines()
        .map(|line| line.split_once("  ").unwrap())
        .map(|(sum, name)| (name.to_owned(), sum.to_owned()))
        .collect();
    let mut files = BTreeSet::new();
    for entry in fs_err::read_dir(made.file("")).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() || name == "SHA256SUMS" || name.ends_with(".intoto.json") {
            continue;
        }
        assert_eq!(sums.get(&name), Some(&digest(&fs_err::read(entry.path()).unwrap())), "{name}");
        files.insert(name);
    }
    assert_eq!(files, sums.keys().cloned().collect());
    let statement = made.json("stator-VERSION.intoto.json");
    let subjects: BTreeMap<String, String> = statement["subject"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["name"].as_str().unwrap().to_owned(), one["digest"]["sha256"].as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(subjects, sums);
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(statement["predicateType"], "https://slsa.dev/provenance/v1");
    let made_of = &statement["predicate"]["buildDefinition"]["resolvedDependencies"];
    let revision = made_of[0]["digest"]["gitCommit"].as_str().unwrap();
    assert!(revision == "0123abcd" || std::env::var_os("STATOR_RELEASE_FILES").is_some(), "{revision}");
    assert_eq!(made_of[1]["digest"]["sha256"], digest(&fs_err::read(at("Cargo.lock")).unwrap()));
}

/// What nobody should be given is refused before anything is written.
#[test]
fn a_program_that_is_not_fit_is_refused() {
    let Some(made) = made() else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("files");
    let refusal = |arguments: &[&str]| {
        let all: Vec<&str> = arguments.iter().copied().chain(["--out", out.to_str().unwrap()]).collect();
        let output = script("run", &all, &[]);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(!out.exists(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap().replace(made.program.to_str().unwrap(), "PROGRAM")
    };
    let program = made.program.to_str().unwrap();
    let small = folder.path().join("small");
    fs_err::copy("/bin/true", &small).unwrap();
    let other = folder.path().join("other");
    write_program(&other, b"#!/bin/sh\necho stator 9.9.9\n");
    let said = [
        refusal(&["--binary", "stator"]),
        refusal(&["--any", "--binary", &format!("riscv64-unknown-none={program}")]),
        refusal(&["--binary", &format!("{TARGET}={}", small.display())]),
        refusal(&["--binary", &format!("{TARGET}={}", other.display())]),
        refusal(&["--any", "--binary", &format!("{TARGET}={}", other.display())])
            .replace(other.to_str().unwrap(), "OTHER"),
        refusal(&["--everything"]),
    ];
    if std::env::var_os("STATOR_RELEASE_FILES").is_none() {
        let large = refusal(&["--binary", &format!("{TARGET}={program}")]);
        assert!(large.starts_with("deploy/release: the program for x86_64-unknown-linux-musl has "), "{large}");
    }
    insta::assert_snapshot!(said.join(""), @"
    deploy/release: --binary is TARGET=FILE of a program, not stator
    deploy/release: no release for riscv64-unknown-none: a target is x86_64 or aarch64, with -unknown-linux-musl or -apple-darwin
    deploy/release: the program for x86_64-unknown-linux-musl is not static: build it with deploy/release/build
    deploy/release: the program for x86_64-unknown-linux-musl is not a program for Linux
    deploy/release: OTHER is stator 9.9.9, and this is 0.1.0
    deploy/release: there is no option --everything: see the head of deploy/release/run
    ");
}

/// Each blob is what its name says, and the configuration is that of the Dockerfile.
#[test]
fn the_image_is_whole_and_configured_as_the_dockerfile_says() {
    let Some(made) = made() else { return };
    for blob in fs_err::read_dir(made.file("image/blobs/sha256")).unwrap().flatten() {
        assert_eq!(blob.file_name().to_str().unwrap(), digest(&fs_err::read(blob.path()).unwrap()));
    }
    assert_eq!(made.json("image/oci-layout")["imageLayoutVersion"], "1.0.0");
    let top = made.json("image/index.json");
    let index = made.blob_json(&top["manifests"][0]);
    assert_eq!(top["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], env!("CARGO_PKG_VERSION"));
    assert_eq!(index["manifests"][0]["platform"], json!({"architecture": "amd64", "os": "linux"}));
    let manifest = made.blob_json(&index["manifests"][0]);
    let config = made.blob_json(&manifest["config"]);
    for (layer, id) in
        manifest["layers"].as_array().unwrap().iter().zip(config["rootfs"]["diff_ids"].as_array().unwrap())
    {
        assert_eq!(fs_err::metadata(made.blob(layer)).unwrap().len(), layer["size"].as_u64().unwrap());
        let tar = Command::new("gzip").arg("-dc").arg(made.blob(layer)).output().unwrap().stdout;
        assert_eq!(format!("sha256:{}", digest(&tar)), id.as_str().unwrap());
    }
    assert_eq!(manifest["layers"].as_array().unwrap().len(), 2);

    let dockerfile = fs_err::read_to_string(at("deploy/Dockerfile")).unwrap();
    let last = dockerfile.rsplit("\nFROM ").next().unwrap();
    let line = |word: &str| last.lines().find_map(|line| line.strip_prefix(word)).unwrap().trim().to_owned();
    let config = &config["config"];
    assert_eq!(config["User"], line("USER "));
    assert_eq!(config["WorkingDir"], line("WORKDIR "));
    assert_eq!(config["Entrypoint"].to_string(), line("ENTRYPOINT "));
    let variables = config["Env"].as_array().unwrap();
    assert!(line("ENV ").split(' ').all(|one| variables.contains(&one.into())), "{config}");
    let ports: Vec<String> = line("EXPOSE ").split(' ').map(|port| format!("{port}/tcp")).collect();
    assert_eq!(config["ExposedPorts"].as_object().unwrap().keys().cloned().collect::<Vec<_>>(), ports);
    let labels = config["Labels"].as_object().unwrap();
    for name in last.split([' ', '\n']).filter(|word| word.starts_with("org.opencontainers.")) {
        let (name, value) = name.split_once('=').unwrap();
        let label = labels[name].as_str().unwrap();
        assert!(
            value.contains('$') || value.trim_matches('"').split(' ').all(|word| label.contains(word)),
            "{name}: {label}"
        );
    }
}

/// Its layers, laid over each other, are a system in which the program runs as the account that it names, and which that
/// account cannot change.
#[test]
fn the_program_of_the_image_runs_as_its_account() {
    let Some(made) = made() else { return };
    let index = made.blob_json(&made.json("image/index.json")["manifests"][0]);
    let manifest = made.blob_json(&index["manifests"][0]);
    let config = made.blob_json(&manifest["config"]);
    let root = tempfile::tempdir().unwrap();
    for layer in manifest["layers"].as_array().unwrap() {
        unpack(&made.blob(layer), root.path());
    }
    // For whoever is not the owner of the folder.
    fs_err::set_permissions(root.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for file in ["etc/ssl/certs/ca-certificates.crt", "etc/passwd", "licenses/stator/LICENSE", "licenses/stator/NOTICE"]
    {
        assert!(fs_err::metadata(root.path().join(file)).unwrap().len() > 0, "{file}");
    }
    assert!(!root.path().join("bin").exists(), "there is no shell");
    let models = root.path().join("models");
    let copied = Command::new("cp").arg("-r").arg(at("examples/repo-layout")).arg(&models).status().unwrap();
    assert!(copied.success() && Command::new("chmod").args(["-R", "a+rX"]).arg(&models).status().unwrap().success());
    let user = config["config"]["User"].as_str().unwrap();
    let entrypoint = config["config"]["Entrypoint"][0].as_str().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new("chroot");
        command.arg(format!("--userspec={user}")).arg(root.path()).arg(entrypoint).args(arguments).env_clear();
        let environment = config["config"]["Env"].as_array().unwrap();
        command.env("LC_ALL", "C").envs(environment.iter().filter_map(|one| one.as_str().unwrap().split_once('=')));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).current_dir("/").output().unwrap()
    };
    let said = run(&["validate", "/models"]);
    let error = String::from_utf8_lossy(&said.stderr).into_owned();
    if error.starts_with("chroot: ") {
        return testbed::skipped(&format!("only root may run the image's program as its account: {error}"));
    }
    assert!(said.status.success(), "{error}");
    assert!((String::from_utf8_lossy(&said.stdout).into_owned() + &error).contains("All checks passed (13 models)."));
    let said = run(&["man", "/usr/local/share/man"]);
    assert!(!said.status.success(), "it could write into its system");
}

/// krew unpacks the files that a manifest names into a folder and links `kubectl-stator` to its `bin`.
#[test]
fn the_program_is_a_plugin_of_kubectl_as_the_manifest_says() {
    let Some(made) = made() else { return };
    let Some(kubectl) = testbed::kubectl() else { return };
    let manifest: Value = serde_saphyr::from_str(&made.read("stator.krew.yaml")).unwrap();
    assert_eq!(manifest["spec"]["version"], concat!("v", env!("CARGO_PKG_VERSION")));
    let platforms = manifest["spec"]["platforms"].as_array().unwrap();
    let is_here = |platform: &&Value| platform["selector"]["matchLabels"] == json!({"os": "linux", "arch": "amd64"});
    let platform = platforms.iter().find(is_here).unwrap();
    let archive = platform["uri"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    assert_eq!(platform["sha256"], digest(&fs_err::read(made.file(&archive)).unwrap()));
    let unpacked = made.unpacked();
    let store = tempfile::tempdir().unwrap();
    for file in platform["files"].as_array().unwrap() {
        let from = unpacked.path().join(file["from"].as_str().unwrap());
        fs_err::copy(&from, store.path().join(from.file_name().unwrap())).unwrap();
    }
    let path = tempfile::tempdir().unwrap();
    let program = store.path().join(platform["bin"].as_str().unwrap());
    std::os::unix::fs::symlink(program, path.path().join("kubectl-stator")).unwrap();
    let both = format!("{}:{}", path.path().display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(kubectl);
    command.args(["stator", "validate"]).arg(at("examples/repo-layout")).env("PATH", both);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("All checks passed"), "{said}");
}
