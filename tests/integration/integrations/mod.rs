//! What is in `integrations/`: the steps that users' CI runs, on the example repository, with the variables that GitHub, Gitea
//! and GitLab set.

mod action;
mod comments;
mod gitlab;
mod hooks;
mod vscode;

use crate::workbench::Workbench;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A path of the repository.
fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A checkout with the example repository in a folder, or at its root where that is empty.
fn checkout(folder: &str) -> Workbench {
    let bench = Workbench::empty();
    let mut folders = vec![PathBuf::new()];
    while let Some(inner) = folders.pop() {
        for entry in fs_err::read_dir(at("examples/repo-layout").join(&inner)).unwrap().flatten() {
            let path = inner.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                // What somebody tried out is not part of it.
                if entry.file_name() != ".stator" {
                    folders.push(path);
                }
                continue;
            }
            bench.write(Path::new(folder).join(path).to_str().unwrap(), fs_err::read(entry.path()).unwrap());
        }
    }
    bench
}

/// A shell command with stator on its `PATH`, and nothing of the caller's environment.
fn shell(bench: &Workbench, program: &str, script: &str) -> Command {
    let mut command = Command::new(program);
    let stator = Path::new(env!("CARGO_BIN_EXE_stator")).parent().unwrap();
    command.args(["-e", "-c", script]).current_dir(bench.root()).env_clear();
    command.env("PATH", format!("{}:{}", stator.display(), std::env::var("PATH").unwrap_or_default()));
    command.env("HOME", bench.root().with_file_name("home")).env("LC_ALL", "C.UTF-8");
    command
}

/// Both streams of a run and its exit code, in the words of a snapshot.
fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    format!("{}\n? {}", text.trim_end(), output.status.code().unwrap_or(-1))
}
