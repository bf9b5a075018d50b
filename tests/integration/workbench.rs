//! A hermetic place to run stator in: a temporary folder, a cleared environment, and output that is the same each time.

use crate::testbed::PATIENCE;
use russh::keys::ssh_key::{HashAlg, LineEnding, PrivateKey};
use std::ffi::OsStr;
use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// The program that is tested: the built one, or that of `STATOR_TEST_PROGRAM`, built by another profile (`.ci/nightly`).
pub fn program() -> PathBuf {
    std::env::var_os("STATOR_TEST_PROGRAM").map_or_else(|| env!("CARGO_BIN_EXE_stator").into(), PathBuf::from)
}

/// Writes a program that may be started at once, by everybody. Another process writes it: what this one has open for writing is
/// inherited by each process that another test starts meanwhile, and the system starts no program that anybody may write to.
pub fn write_program(path: &Path, content: &[u8]) {
    let mut writer = Command::new("sh")
        .args(["-c", "cat > \"$1\" && chmod 755 \"$1\"", "sh"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    writer.stdin.take().unwrap().write_all(content).unwrap();
    assert!(writer.wait().unwrap().success(), "{}", path.display());
}

/// A temporary repository (in the folder `work`) and the built binary.
pub struct Workbench {
    folder: tempfile::TempDir,
}

impl Workbench {
    /// An empty folder: a repository of one environment, `default`.
    pub fn empty() -> Self {
        let folder = tempfile::Builder::new().prefix("stator-test-").tempdir().expect("a temporary folder");
        fs_err::create_dir_all(folder.path().join("work")).expect("a folder");
        fs_err::create_dir_all(folder.path().join("home")).expect("a folder");
        Self { folder }
    }

    /// A repository with these files.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let bench = Self::empty();
        for (path, text) in files {
            bench.write(path, text);
        }
        bench
    }

    /// The repository's root.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// A path in the repository.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    /// Writes a file, making its folders.
    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs_err::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs_err::write(&path, text).expect("a file");
    }

    /// Reads a file.
    pub fn read(&self, path: &str) -> String {
        fs_err::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Changes a file: every `old` becomes `new`, and there must be one.
    pub fn replace(&self, path: &str, old: &str, new: &str) {
        let text = self.read(path);
        assert!(text.contains(old), "{path} does not contain {old:?}:\n{text}");
        self.write(path, text.replace(old, new));
    }

    /// Removes a file or a folder.
    pub fn remove(&self, path: &str) {
        let path = self.path(path);
        if path.is_dir() { fs_err::remove_dir_all(path) } else { fs_err::remove_file(path) }
            .expect("something to remove");
    }

    /// Every file below a folder, sorted, by its path from the root; the lock and counter files are left out.
    pub fn files(&self, folder: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut todo = vec![self.path(folder)];
        while let Some(next) = todo.pop() {
            let Ok(entries) = fs_err::read_dir(&next) else { continue };
            for entry in entries.flatten() {
                let path = entry.path();
                if path.is_dir() {
                    todo.push(path);
                } else if let Ok(path) = path.strip_prefix(self.root()) {
                    found.push(path.to_string_lossy().into_owned());
                }
            }
        }
        found.sort();
        found
    }

    /// Commits everything, and gives the commit.
    pub fn commit(&self, message: &str) -> String {
        let repository =
            git2::Repository::open(self.root()).or_else(|_| git2::Repository::init(self.root())).expect("git");
        let mut index = repository.index().expect("an index");
        index
            .add_all(["*"], git2::IndexAddOption::DEFAULT, Some(&mut |path, _| i32::from(path.starts_with(".stator"))))
            .expect("add");
        index.update_all(["*"], None).expect("removed files");
        index.write().expect("the index");
        let tree = repository.find_tree(index.write_tree().expect("a tree")).expect("the tree");
        // A fixed time makes commits, and with them their ids, the same in every run.
        let who = git2::Signature::new("test", "test@example.com", &git2::Time::new(1_700_000_000, 0)).expect("a name");
        let parent = repository.head().ok().and_then(|head| head.peel_to_commit().ok());
        let parents: Vec<&git2::Commit<'_>> = parent.iter().collect();
        repository.commit(Some("HEAD"), &who, &who, message, &tree, &parents).expect("a commit").to_string()
    }

    /// Has the newest commit signed as `ssh-keygen` would, and tells the new one's id.
    pub fn sign(&self, key: &PrivateKey) -> String {
        let repository = git2::Repository::open(self.root()).expect("git");
        let mut head = repository.head().expect("a branch");
        let commit = head.peel_to_commit().expect("a commit");
        let (tree, parents) = (commit.tree().expect("its tree"), commit.parents().collect::<Vec<_>>());
        let parents: Vec<&git2::Commit<'_>> = parents.iter().collect();
        let message = commit.message().expect("a message");
        let text = repository
            .commit_create_buffer(&commit.author(), &commit.committer(), message, &tree, &parents)
            .expect("a commit");
        let signature = key.sign("git", HashAlg::Sha512, &text).and_then(|signed| signed.to_pem(LineEnding::LF));
        let text = std::str::from_utf8(&text).expect("text");
        let id = repository.commit_signed(text, &signature.expect("a signature"), None).expect("a signed commit");
        head.set_target(id, "signed").expect("the branch");
        id.to_string()
    }

    /// Goes over to a branch, making it at the current commit where it is missing.
    pub fn switch(&self, branch: &str) {
        let repository = git2::Repository::open(self.root()).expect("git");
        let here = repository.head().and_then(|head| head.peel_to_commit()).expect("a commit");
        if repository.find_branch(branch, git2::BranchType::Local).is_err() {
            repository.branch(branch, &here, false).expect("a branch");
        }
        let name = format!("refs/heads/{branch}");
        let there = repository.revparse_single(&name).expect("the branch");
        repository.checkout_tree(&there, Some(git2::build::CheckoutBuilder::new().force())).expect("a checkout");
        repository.set_head(&name).expect("the branch");
    }

    /// Has the branch and the files as they were at a commit.
    pub fn reset(&self, commit: &str) {
        let repository = git2::Repository::open(self.root()).expect("git");
        let there = repository.revparse_single(commit).expect("the commit");
        repository.reset(&there, git2::ResetType::Hard, None).expect("a reset");
    }

    /// Sets a branch to a commit, without going there.
    pub fn branch(&self, name: &str, commit: &str) {
        let repository = git2::Repository::open(self.root()).expect("git");
        let there = repository.find_commit(git2::Oid::from_str(commit).expect("an id")).expect("the commit");
        repository.branch(name, &there, true).expect("a branch");
    }

    /// The command, hermetic, in the repository's root.
    pub fn command(&self) -> Command {
        let mut command = Command::new(program());
        command
            .current_dir(self.root())
            .env_clear()
            .env("HOME", self.folder.path().join("home"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TMPDIR", self.folder.path())
            // No cluster is chosen by accident.
            .env("STATOR_CLUSTER", "embedded")
            .env("NO_COLOR", "1")
            .env("COLUMNS", "100")
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null());
        command
    }

    /// Runs stator to its end.
    #[must_use = "either take a snapshot of the output, or assert how the run ended"]
    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Output {
        self.finish(self.command().args(args))
    }

    /// Runs a command that [`Self::command`] gave, and reads what it said.
    #[must_use = "either take a snapshot of the output, or assert how the run ended"]
    pub fn finish(&self, command: &mut Command) -> Output {
        let output = command.output().expect("the binary runs");
        Output {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
            root: self.folder.path().canonicalize().expect("the folder"),
        }
    }
}

/// What a run said, and how it ended. `Display` shows both streams, with everything that changes from run to run masked.
#[derive(Clone, Debug)]
pub struct Output {
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Standard output, as it is.
    pub stdout: String,
    /// Standard error, as it is.
    pub stderr: String,
    root: PathBuf,
}

/// Runs what its timeout ends, until it came as far as it can. A slow machine may not have come there by then: it has twice the
/// time at each further try.
pub fn in_vain(came: impl Fn(&Output) -> bool, run: impl Fn(&str) -> Output) -> Output {
    let mut seconds = 1;
    loop {
        let output = run(&format!("--timeout={seconds}s")).exits(124);
        seconds *= 2;
        if seconds > PATIENCE.as_secs() || came(&output) {
            return output;
        }
    }
}

impl Output {
    /// Asserts the exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Asserts success.
    #[track_caller]
    pub fn success(self) -> Self {
        self.exits(0)
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }

    /// Standard output, masked: for snapshots of results alone.
    pub fn result(&self) -> String {
        mask(&self.stdout, &self.root)
    }

    /// Standard error, masked, without what is said only of syncs that take long, as any does on a busy machine.
    pub fn notes(&self) -> String {
        static PROGRESS: LazyLock<regex::Regex> = LazyLock::new(|| {
            regex::Regex::new(r"(?m)^\d+ (objects? (applied|deleted)|of \d+ models? done).*\n").expect("a pattern")
        });
        PROGRESS.replace_all(&mask(&self.stderr, &self.root), "").into_owned()
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.code.map_or("signal".to_owned(), |code| code.to_string());
        write!(f, "exit {code}\n----- stdout -----\n{}----- stderr -----\n{}", self.result(), self.notes())
    }
}

/// Replaces what changes from run to run: the folder, uids, times, digests, commits.
pub fn mask(text: &str, root: &Path) -> String {
    static PATTERNS: LazyLock<Vec<(regex::Regex, &str)>> = LazyLock::new(|| {
        [
            (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "[UID]"),
            (r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z", "[TIME]"),
            (r"\b[0-9a-f]{64}\b", "[DIGEST]"),
        ]
        .into_iter()
        .map(|(pattern, name)| (regex::Regex::new(pattern).expect("a pattern"), name))
        .collect()
    });
    let mut text = text.replace(&root.to_string_lossy().into_owned(), "[TMP]");
    for (pattern, name) in PATTERNS.iter() {
        text = pattern.replace_all(&text, *name).into_owned();
    }
    text
}
