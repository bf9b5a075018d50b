//! What earlier versions of stator left behind, opened by this one: embedded clusters, saved plans, folders of a
//! controller, and what an API server keeps. Each version has a folder of it in `tests/data/formats/`, with a page that says
//! what is there. A folder is written once, by the version that it is of (`made`), and never again.

mod embedded;
mod followed;
mod made;
mod released;
mod stored;

use crate::git_server::GitServer;
use crate::workbench::Workbench;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::SystemTime;

/// What a version left behind.
struct VersionFixtures {
    /// Its folder.
    folder: &'static str,
    /// The newest commit of its repository.
    newest: &'static str,
    /// The one before.
    first: &'static str,
}

/// A time at which nothing recorded whose an object is.
const BEFORE: VersionFixtures = VersionFixtures {
    folder: "before-0.1",
    newest: "6ef0783a1b00bbd95a31fa59d399a9075cb48fab",
    first: "5b1eec693449728848eebf338de9b585636fbc8b",
};

/// The releases, the newest last.
const RELEASES: [VersionFixtures; 1] = [VersionFixtures {
    folder: "0.1.0",
    newest: "5063a119df759e79874408cd8a74cbe09e15b147",
    first: "5b1eec693449728848eebf338de9b585636fbc8b",
}];

/// What stands in the fixtures where a run has addresses and folders of its own.
const HOST: &str = "http://git.example.com";
const FORGE: &str = "http://forge.example.com";
/// The addresses of the git host of releases: what is synced keeps digests of it, so it is the same in every run. One for what a
/// controller keeps in folders, one for what it keeps in an API server: both are tested at once.
const RELEASED_HOSTS: [&str; 2] = ["127.45.0.1:8417", "127.45.0.2:8417"];
const FOLDER: &str = "/srv/stator";

impl VersionFixtures {
    /// A path of the fixtures.
    fn kept(&self, path: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/formats").join(self.folder).join(path)
    }
}

/// Every file below a folder, by its path from there, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = open.pop() {
        for entry in fs_err::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { found.push(path.strip_prefix(folder).unwrap().to_owned()) }
        }
    }
    found.sort();
    found
}

/// The folders below a folder that hold nothing, by their paths from there, sorted: git does not keep them.
fn empty_folders(folder: &Path) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = open.pop() {
        let inside: Vec<PathBuf> = fs_err::read_dir(&next).unwrap().map(|entry| entry.unwrap().path()).collect();
        if inside.is_empty() {
            found.push(next.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
        }
        open.extend(inside.into_iter().filter(|path| path.is_dir()));
    }
    found.sort();
    found
}

/// Copies a folder's files, each text with other words in the place of some.
fn copy(from: &Path, to: &Path, words: &[(&str, &str)]) {
    for path in files(from) {
        let target = to.join(&path);
        fs_err::create_dir_all(target.parent().unwrap()).unwrap();
        let bytes = fs_err::read(from.join(&path)).unwrap();
        fs_err::write(&target, with(bytes, words)).unwrap();
    }
}

fn with(bytes: Vec<u8>, words: &[(&str, &str)]) -> Vec<u8> {
    match String::from_utf8(bytes) {
        Ok(text) => words.iter().fold(text, |text, (old, new)| text.replace(old, new)).into_bytes(),
        Err(other) => other.into_bytes(),
    }
}

/// Each file's bytes, when it was written, and which file it is: another one in its place is told apart, even one with
/// the same bytes.
type Marks = BTreeMap<PathBuf, (Vec<u8>, SystemTime, u64)>;

/// The marks of a folder. Those of `.lock` are left out: every process writes its name there.
fn marks(folder: &Path) -> Marks {
    let mark = |path: PathBuf| {
        let (whole, metadata) = (folder.join(&path), fs_err::metadata(folder.join(&path)).unwrap());
        (path, (fs_err::read(whole).unwrap(), metadata.modified().unwrap(), metadata.ino()))
    };
    files(folder).into_iter().filter(|path| path != Path::new(".lock")).map(mark).collect()
}

/// Asserts that nobody wrote to a folder.
#[track_caller]
fn untouched(folder: &Path, before: &Marks) {
    let after = marks(folder);
    let moved: Vec<&PathBuf> =
        before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
    assert!(moved.is_empty(), "written: {moved:?}");
}

/// A place where the fixtures can be worked on: a checkout of the repository, and a git host that has it.
struct Place {
    version: &'static VersionFixtures,
    bench: Workbench,
    git: GitServer,
}

impl Place {
    fn of(version: &'static VersionFixtures) -> Self {
        Self::beside_host(version, GitServer::start)
    }

    /// The same with the git host where it was for a release.
    fn beside_host(version: &'static VersionFixtures, host: impl FnOnce(&Path) -> GitServer) -> Self {
        let bench = Workbench::empty();
        let folder = bench.root().parent().unwrap().to_owned();
        copy(&version.kept("repository.git"), &folder.join("team/models.git"), &[]);
        let bare = folder.join("team/models.git");
        let clone = git2::Repository::clone(bare.to_str().unwrap(), bench.root()).unwrap();
        let git = host(&folder);
        // A clone of what the controller follows.
        clone.remote_set_url("origin", &git.url("team/models.git")).unwrap();
        Self { version, bench, git }
    }

    /// A path beside the checkout.
    fn beside(&self, path: &str) -> PathBuf {
        self.bench.root().parent().unwrap().canonicalize().unwrap().join(path)
    }

    /// The embedded cluster, copied, as `--cluster` takes it.
    fn cluster(&self) -> String {
        copy(&self.version.kept("cluster"), &self.beside("cluster"), &[]);
        format!("embedded:{}", self.beside("cluster").display())
    }

    /// The git host's address without a repository.
    fn host(&self) -> String {
        self.git.url("").trim_end_matches('/').to_owned()
    }
}

/// A list without what moves with the clock: ages, and how wide their column is.
fn ageless(text: &str) -> String {
    static AGE: LazyLock<regex::Regex> = LazyLock::new(|| regex::Regex::new(r"\b\d+[smhd]\b").unwrap());
    static GAP: LazyLock<regex::Regex> = LazyLock::new(|| regex::Regex::new(r" {2,}").unwrap());
    let lines = text.lines().map(|line| {
        let indent = line.len() - line.trim_start().len();
        format!("{}{}\n", " ".repeat(indent), GAP.replace_all(line.trim(), "  "))
    });
    // What is held has uids in it, and the ports of this run.
    static PLAN: LazyLock<regex::Regex> = LazyLock::new(|| regex::Regex::new(r":[0-9a-f]{64}\b").unwrap());
    let aged = AGE.replace_all(&lines.collect::<String>(), "[AGE]").into_owned();
    PLAN.replace_all(&aged, ":[PLAN]").into_owned()
}

/// The repository's files are those of its newest commit, so that whoever reads the one knows the other.
#[test]
fn the_files_beside_are_those_of_the_newest_commit() {
    for version in [&BEFORE].into_iter().chain(&RELEASES) {
        let place = Place::of(version);
        let repository = git2::Repository::open(place.bench.root()).unwrap();
        let head = repository.head().unwrap().peel_to_commit().unwrap();
        assert_eq!(head.id().to_string(), version.newest);
        assert_eq!(head.parent_id(0).unwrap().to_string(), version.first);
        let listed = files(&version.kept("repository"));
        let tracked: Vec<PathBuf> =
            files(&place.bench.root()).into_iter().filter(|path| !path.starts_with(".git")).collect();
        assert_eq!(listed, tracked);
        for path in listed {
            let (one, other) = (version.kept("repository").join(&path), place.bench.root().join(&path));
            assert_eq!(fs_err::read(one).unwrap(), fs_err::read(other).unwrap(), "{}", path.display());
        }
    }
}
