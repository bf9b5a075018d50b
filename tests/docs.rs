//! Every console block of the README and of `docs/` is run, and prints what the page says.
//!
//! A line that starts with `$ ` is run by `sh`, lines that start with `> ` continue it. The lines below it are what it
//! prints on both streams; `...` stands for any lines and `[..]` for any text in a line. A last line `? 1` is its exit
//! code, 0 when left out. The blocks of one page run one after the other in one fresh folder with a copy of `examples/`.
//!
//! A block marked `console kubernetes` runs with a kubeconfig whose current context is the tests' own API server, with the
//! namespaces of the example repository; it is skipped where there is no API server, see `tests/support/testbed`.
//!
//! `STATOR_BLESS=1 cargo test --test docs` writes what was printed where a page says something else.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a runner for tests: what fails, fails the test"
)]

#[path = "support/testbed/mod.rs"]
mod testbed;

use snapbox::IntoData as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One command of a page.
#[derive(Debug, PartialEq)]
struct Step {
    command: String,
    expected: String,
    code: i32,
    /// Whether it wants a Kubernetes cluster.
    kubernetes: bool,
    /// The lines of the page that hold what it prints, its exit code included.
    output: std::ops::Range<usize>,
}

/// The commands of a page's console blocks, in order.
fn steps(page: &str) -> Vec<Step> {
    let lines: Vec<&str> = page.lines().collect();
    let mut steps: Vec<Step> = Vec::new();
    let (mut inside, mut kubernetes) = (false, false);
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with("```") {
            kubernetes = *line == "```console kubernetes";
            inside = !inside && (*line == "```console" || kubernetes);
            continue;
        }
        if !inside {
            continue;
        }
        if let Some(command) = line.strip_prefix("$ ") {
            let output = at + 1..at + 1;
            steps.push(Step { command: command.to_owned(), expected: String::new(), code: 0, kubernetes, output });
            continue;
        }
        let step = steps.last_mut().unwrap_or_else(|| panic!("line {}: output before a command", at + 1));
        if step.output.is_empty()
            && let Some(more) = line.strip_prefix("> ")
        {
            step.command.push('\n');
            step.command.push_str(more);
            step.output = at + 1..at + 1;
            continue;
        }
        step.output.end = at + 1;
        match line.strip_prefix("? ").and_then(|code| code.parse().ok()) {
            Some(code) => step.code = code,
            None => {
                step.expected.push_str(line);
                step.expected.push('\n');
            }
        }
    }
    steps
}

/// A fresh folder that commands run in, and nothing of the caller's environment.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        copy(&root.join("examples"), &folder.path().join("examples"));
        copy(&root.join("schemas"), &folder.path().join("schemas"));
        fs::write(folder.path().join(".cwd"), folder.path().to_str().unwrap()).unwrap();
        Self { folder }
    }

    /// What a command prints and its exit code. A `cd` lasts.
    fn run(&self, command: &str, kubeconfig: Option<&Path>) -> (String, i32) {
        let binary = Path::new(env!("CARGO_BIN_EXE_stator"));
        let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
        let state = self.folder.path().join(".cwd");
        let command = command.replace("cargo run --release -- ", "stator ");
        let script = format!("exec 2>&1\n{command}\ncode=$?\npwd > \"$STATE\"\nexit $code");
        let output = Command::new("sh")
            .args(["-c", &script])
            .current_dir(fs::read_to_string(&state).unwrap().trim())
            .env_clear()
            .env("PATH", path)
            .env("STATE", &state)
            .env("HOME", self.folder.path())
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC")
            .env("KUBECONFIG", kubeconfig.unwrap_or(Path::new("")))
            // A command that never ends is a failure and must not hang the suite; nobody reads along, so the operator
            // may hurry.
            .env("STATOR_TIMEOUT", "2m")
            .env("STATOR_SIMULATE_SPEED", "20")
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout)
            .replace(self.folder.path().canonicalize().unwrap().to_str().unwrap(), "/home/you")
            .replace(self.folder.path().to_str().unwrap(), "/home/you");
        (printed, output.status.code().unwrap_or(-1))
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        // What somebody tried out in the examples is not part of them.
        if entry.file_name() == ".stator" {
            continue;
        }
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// A kubeconfig of the tests' API server, with the namespaces of the example repository.
fn kubeconfig() -> Option<PathBuf> {
    static NAMESPACES: std::sync::Once = std::sync::Once::new();
    let plane = testbed::shared()?;
    NAMESPACES.call_once(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for name in ["models-staging", "models"] {
            runtime.block_on(plane.namespace(name));
        }
    });
    Some(plane.kubeconfig())
}

/// The command that `.ci/run` tests with.
const TESTS: &str = "cargo test --locked";

/// Runs a page. Gives what went wrong, and the page with what was really printed.
fn check(page: &str) -> (Vec<String>, String) {
    let place = Place::new();
    let mut wrong = Vec::new();
    let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
    let mut replaced = Vec::new();
    for step in steps(page) {
        // The tests are this very run: it is enough that the page names the command that `.ci/run` runs.
        if step.command.starts_with("cargo test") {
            if step.command != TESTS || !step.expected.is_empty() {
                wrong
                    .push(format!("$ {}\nthe tests are run as `{TESTS}`, and their output is not shown", step.command));
            }
            continue;
        }
        let kubeconfig = match step.kubernetes.then(kubeconfig) {
            // Said loudly by the testbed, and an error in CI.
            Some(None) => continue,
            Some(Some(path)) => Some(path),
            None => None,
        };
        let (printed, code) = place.run(&step.command, kubeconfig.as_deref());
        let same = snapbox::Assert::new().action(snapbox::assert::Action::Verify).try_eq(
            None,
            printed.clone().into_data(),
            step.expected.as_str().into_data(),
        );
        if let Err(difference) = same {
            wrong.push(format!("$ {}\n{difference}", step.command));
        } else if code != step.code {
            wrong.push(format!("$ {}\nended with {code}, the page says {}", step.command, step.code));
        } else {
            continue;
        }
        let mut output: Vec<String> = printed.lines().map(str::to_owned).collect();
        output.extend((code != 0).then(|| format!("? {code}")));
        replaced.push((step.output, output));
    }
    for (range, output) in replaced.into_iter().rev() {
        lines.splice(range, output);
    }
    (wrong, lines.join("\n") + "\n")
}

#[test]
fn every_console_block_prints_what_it_says() {
    let update = std::env::var("STATOR_BLESS").is_ok_and(|value| value == "1");
    let mut wrong = Vec::new();
    let mut run = 0;
    for path in pages() {
        let page = fs::read_to_string(&path).unwrap();
        run += steps(&page).len();
        let (faults, written) = check(&page);
        if update && !faults.is_empty() {
            fs::write(&path, written).unwrap();
        }
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        wrong.extend(faults.into_iter().map(|fault| format!("{name}: {fault}")));
    }
    assert!(run >= 10, "only {run} commands were found");
    assert!(wrong.is_empty() || update, "{}", wrong.join("\n\n"));
}

#[test]
fn the_readme_names_the_commands_of_a_fresh_machine() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let commands: Vec<String> = steps(&readme).into_iter().map(|step| step.command).collect();
    assert!(commands.iter().any(|command| command == TESTS), "{commands:?}");
    assert!(commands.iter().any(|command| command.starts_with("cargo run --release -- sync ")), "{commands:?}");
    let ci = fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(ci.lines().any(|line| line == format!("step {TESTS}")), "{ci}");
}

#[test]
fn a_page_that_says_something_else_is_found() {
    let page = |command: &str, output: &str| format!("```console\n$ {command}\n{output}```\n");
    let faults = |page: String| check(&page).0.len();
    assert_eq!(faults(page("echo a; echo b", "a\nb\n")), 0);
    assert_eq!(faults(page("echo a; echo b", "...\nb\n")), 0);
    assert_eq!(faults(page("echo one two", "one [..]\n")), 0);
    assert_eq!(faults(page("echo a >&2; exit 3", "a\n? 3\n")), 0);
    assert_eq!(faults(page("echo a", "b\n")), 1);
    assert_eq!(faults(page("exit 3", "")), 1);
    assert_eq!(faults(page("cargo test --release", "")), 1);
    assert_eq!(faults(page("cargo test --locked", "")), 0);
    assert_eq!(check(&page("echo a", "b\n")).1, page("echo a", "a\n"));
    // A `cd` lasts to the next command, and blocks in other languages are left alone.
    assert_eq!(faults(page("cd examples", "$ ls\nmanifests\nrepo-layout\n")), 0);
    assert_eq!(steps("```sh\n$ false\n```\n"), Vec::new());
}
