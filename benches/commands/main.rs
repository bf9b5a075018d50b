//! What the commands cost that people type all day, on the example repository.
//!
//! `cargo bench --profile dist --bench commands` runs the built program as a user starts it, and prints the table that
//! `docs/performance.md` shows: processor time, of all cores together. It fails where a command takes more than
//! [`GOAL_MILLISECONDS`].

#[path = "../shared/processor_time.rs"]
mod processor_time;

use processor_time::processor_seconds_of_children;
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What a command may take.
const GOAL_MILLISECONDS: f64 = 150.0;
/// Runs of a command in a row: the kernel counts hundredths of a second.
const RUNS: u32 = 20;
/// The environment of the example that is looked at, on the embedded cluster.
const WHERE: [&str; 4] = ["-e", "staging", "--cluster", "embedded"];

fn main() -> Fallible<()> {
    if !std::env::args().any(|argument| argument == "--bench") {
        // `cargo test --benches` only asks whether the harness builds; the numbers are made by `cargo bench`.
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/repo-layout"), folder.path())?;
    run(
        folder.path(),
        &[&["sync", "--yes", "--wait", "--simulate-operator", "--simulate-speed", "1000"], &WHERE[..]].concat(),
    )?;
    let commands: [(&str, Vec<&str>); 6] = [
        ("validate", vec!["validate"]),
        ("plan", [&["plan"], &WHERE[..]].concat()),
        ("status", [&["status"], &WHERE[..]].concat()),
        ("describe mock", [&["describe", "mock"], &WHERE[..]].concat()),
        ("tree mock", [&["tree", "mock"], &WHERE[..]].concat()),
        ("explain serving", vec!["explain", "serving"]),
    ];
    print_line("| command | processor time |");
    print_line("|-|-:|");
    let mut slow = Vec::new();
    for (name, arguments) in commands {
        // The first run reads the program from the disk.
        run(folder.path(), &arguments)?;
        let before = processor_seconds_of_children()?;
        for _ in 0..RUNS {
            run(folder.path(), &arguments)?;
        }
        let milliseconds = (processor_seconds_of_children()? - before) * 1000.0 / f64::from(RUNS);
        print_line(&format!("| `stator {name}` | {milliseconds:.0} ms |"));
        if milliseconds > GOAL_MILLISECONDS {
            slow.push(name);
        }
    }
    if slow.is_empty() {
        Ok(())
    } else {
        Err(format!("slower than {GOAL_MILLISECONDS} ms: {}", slow.join(", ")).into())
    }
}

#[expect(clippy::print_stdout, reason = "a benchmark's result is what it prints")]
fn print_line(line: &str) {
    println!("{line}");
}

fn run(folder: &Path, arguments: &[&str]) -> Fallible<()> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stator"));
    command.args(arguments).current_dir(folder).env("NO_COLOR", "1").stdin(Stdio::null());
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("stator {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)).into())
}

fn copy(from: &Path, to: &Path) -> Fallible<()> {
    fs_err::create_dir_all(to)?;
    for entry in fs_err::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs_err::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
