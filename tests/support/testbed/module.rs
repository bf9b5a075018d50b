//! Programs that Go builds from modules of the repository, once for each state of a module.

use std::io::{BufRead as _, BufReader};
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

    /// The program, built unless the cache has it: see `tests/testbed/build`, which `.ci/run` calls too. Test processes
    /// that come meanwhile wait. An error says what is missing.
    pub fn build(&self) -> Result<PathBuf, String> {
        let script = self.folder().with_file_name("build");
        let mut build = Command::new(script);
        build.args([self.name, self.package, self.tags]).stdin(Stdio::null());
        let mut child = build.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(text)?;
        // Somebody waits for minutes: each line is passed on as it comes. The other stream has one line, at the end.
        let mut notes = String::new();
        for line in child.stderr.take().into_iter().flat_map(|notes| BufReader::new(notes).lines()) {
            let line = line.map_err(text)?;
            super::say(&line);
            notes.push_str(&line);
            notes.push('\n');
        }
        let output = child.wait_with_output().map_err(text)?;
        if output.status.success() {
            return Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim_end()));
        }
        Err(format!("there is no {}: {build:?} failed:\n{}", self.what, super::tail(&notes, 40)))
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
