//! Programs that Go builds from modules of the repository, once for each state of a module.

use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A module of `tests/testbed`.
#[derive(Clone, Copy, Debug)]
pub struct GoModule {
    /// Its folder.
    pub name: &'static str,
    /// What is built: a folder of it (`.`, `./name`), or the package of a tool that its `go.mod` names.
    pub package: &'static str,
    /// What it is, for messages: `Kubernetes' API server`.
    pub what: &'static str,
    /// Build tags. With one of them it is C too.
    pub tags: &'static str,
}

impl GoModule {
    /// Where it lies.
    pub fn folder(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testbed").join(self.name)
    }

    /// What the program is called.
    fn program(&self) -> &'static str {
        match self.package {
            "." => self.name,
            package => package.rsplit('/').next().unwrap_or(package),
        }
    }

    /// The program, built into the target folder unless it is there. Test processes that come meanwhile wait. An error
    /// says what is missing.
    pub fn build(&self) -> Result<PathBuf, String> {
        let mut digest = Sha256::new();
        let own = self.package.starts_with('.').then(|| format!("{}/main.go", self.package));
        for file in own.as_deref().into_iter().chain(["go.mod", "go.sum"]) {
            digest.update(fs_err::read(self.folder().join(file)).map_err(text)?);
        }
        digest.update(self.tags);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("testbed");
        fs_err::create_dir_all(&folder).map_err(text)?;
        let prefix = format!("{}-", self.program());
        let binary = folder.join(format!("{prefix}{}", &hex::encode(digest.finalize())[..16]));
        if binary.is_file() {
            return Ok(binary);
        }
        if !is_there("go", "version") {
            return Err(format!("there is no Go to build {} with (tests/testbed/{})", self.what, self.name));
        }
        let lock = fs_err::File::create(folder.join("lock")).map_err(text)?;
        lock.file().lock().map_err(text)?;
        if binary.is_file() {
            return Ok(binary);
        }
        super::say(&format!("building {} for the tests, once; this takes minutes", self.what));
        for old in fs_err::read_dir(&folder).map_err(text)?.flatten() {
            if old.file_name().to_string_lossy().starts_with(&prefix) {
                fs_err::remove_file(old.path()).map_err(text)?;
            }
        }
        let partial = folder.join(format!("{}.partial", self.program()));
        let mut go = Command::new("go");
        go.args(["build", "-trimpath", "-buildvcs=false", "-tags", self.tags, "-ldflags", "-s -w", "-o"]);
        go.arg(&partial).arg(self.package).env("CGO_ENABLED", if self.tags.is_empty() { "0" } else { "1" });
        self.run(&mut go)?;
        fs_err::rename(&partial, &binary).map_err(text)?;
        Ok(binary)
    }

    /// The folder of a module that this one is made of, in Go's cache; fetched where somebody emptied that.
    pub fn dependency(&self, path: &str) -> Result<PathBuf, String> {
        let answer = self.run(Command::new("go").args(["mod", "download", "-json", path]))?;
        let answer: serde_json::Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
        let folder = answer["Dir"].as_str().ok_or_else(|| format!("go mod download of {path}: {answer}"))?;
        Ok(PathBuf::from(folder))
    }

    fn run(&self, command: &mut Command) -> Result<String, String> {
        let output = command.current_dir(self.folder()).stdin(Stdio::null()).output().map_err(text)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{command:?} failed:\n{}", super::tail(&said, 40)))
    }
}

/// Whether a program can be run.
pub fn is_there(program: &str, version: &str) -> bool {
    Command::new(program).arg(version).stdin(Stdio::null()).output().is_ok_and(|output| output.status.success())
}

fn text(error: std::io::Error) -> String {
    error.to_string()
}
