//! How stator behaves with many models: ratios against a bare lower bound, writes, and peak memory.
//!
//! `cargo bench --bench scale` makes a repository of 10,000 intents (`-- --models N` for another number), runs each
//! phase in a process of its own (`-- --only preview-one-changed` runs just that, beside the yardstick), and prints the table that `docs/performance.md`
//! shows. `-- --waits` prints that of syncs that wait for health. Times are ratios: parsing the files and nothing else is 1. Every phase runs in the same run on the same files, so they hold where seconds do not.

mod phases;
mod preview;
#[path = "../shared/processor_time.rs"]
mod processor_time;
mod waits;

use processor_time::processor_seconds_of_children;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The binary's own, so that the phases that run in this program are as fast as they are in that one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The phases in their order: each finds what the ones before it left.
const PHASES: [&str; 11] = [
    "parse",
    "load",
    "render",
    "render-yaml",
    "preview-first",
    "preview-one-changed",
    "first-sync",
    "plan-unchanged",
    "plan-one-folder",
    "sync-unchanged",
    "plan-one-changed",
];

/// The most that a plan of one folder in a hundred may take of that of everything.
const FOLDER_SHARE: f64 = 0.1;

/// A phase is run this often, and its fastest round counts.
const ROUNDS: usize = 3;

/// What one round of a phase took and did.
#[derive(Serialize, Deserialize)]
struct PhaseMeasurement {
    /// By the clock.
    seconds: f64,
    /// Of all cores together, which other work on the machine disturbs less. Filled in by whoever waited for it.
    #[serde(default)]
    processor_seconds: f64,
    peak_kib: u64,
    did: String,
}

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |flag: &str| arguments.iter().position(|a| a == flag).and_then(|at| arguments.get(at + 1)).cloned();
    if let (Some(phase), Some(folder)) = (value("--phase"), value("--folder")) {
        return child(&phase, Path::new(&folder));
    }
    if !arguments.iter().any(|argument| argument == "--bench") {
        // `cargo test --benches` only asks whether the harness builds; the numbers are made by `cargo bench`.
        return Ok(());
    }
    if arguments.iter().any(|argument| argument == "--waits") {
        return waits::run();
    }
    let models: usize = value("--models").map_or(Ok(10_000), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    write_repository(folder.path(), models)?;
    print_line(&format!("{models} models, {} cores\n", std::thread::available_parallelism()?));
    print_line("| phase | time | processor time | peak memory | what it did |");
    print_line("|-|-:|-:|-:|-|");
    let (mut parsing, mut plan_of_all) = (None, None);
    let only = value("--only");
    let asked_for = |phase: &str| phase == "parse" || only.as_ref().is_none_or(|only| phase == only);
    for phase in PHASES.into_iter().filter(|phase| asked_for(phase)) {
        if phase == "plan-one-changed" {
            let path = folder.path().join("group-00/model-00000/model.yaml");
            let text = fs_err::read_to_string(&path)?.replace("replicas: 1", "replicas: 2");
            fs_err::write(path, text)?;
        }
        let PhaseMeasurement { seconds, processor_seconds, peak_kib, did } = run_phase(phase, folder.path())?;
        let (time, processor) = *parsing.get_or_insert((seconds, processor_seconds));
        print_line(&format!(
            "| {phase} | {:.2} | {:.2} | {} MiB | {did} |",
            seconds / time,
            processor_seconds / processor,
            peak_kib / 1024,
        ));
        match phase {
            "plan-unchanged" => plan_of_all = Some(processor_seconds),
            "plan-one-folder" if plan_of_all.is_some_and(|all| processor_seconds > all * FOLDER_SHARE) => {
                return Err(format!("the plan of one folder takes more than {FOLDER_SHARE} of that of all").into());
            }
            _ => {}
        }
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a benchmark's result is what it prints")]
fn print_line(line: &str) {
    println!("{line}");
}

/// Runs one phase in fresh processes, so that its peak memory is its own.
fn run_phase(phase: &str, folder: &Path) -> Fallible<PhaseMeasurement> {
    // A first sync is only first once.
    let rounds = if phase == "first-sync" { 1 } else { ROUNDS };
    let mut best: Option<PhaseMeasurement> = None;
    for _ in 0..rounds {
        let before = processor_seconds_of_children()?;
        let mut measured = if phase.contains("sync") || phase.starts_with("plan-") {
            let start = Instant::now();
            let phases::CommandOutcome { did, peak_kib } = phases::command(phase, folder)?;
            PhaseMeasurement { seconds: start.elapsed().as_secs_f64(), processor_seconds: 0.0, peak_kib, did }
        } else {
            in_child(phase, folder)?
        };
        measured.processor_seconds = processor_seconds_of_children()? - before;
        // The fastest round is the one that the machine disturbed least, by either clock.
        best = Some(match best {
            None => measured,
            Some(best) => PhaseMeasurement {
                seconds: best.seconds.min(measured.seconds),
                processor_seconds: best.processor_seconds.min(measured.processor_seconds),
                peak_kib: best.peak_kib.max(measured.peak_kib),
                did: measured.did,
            },
        });
    }
    best.ok_or_else(|| "no round ran".into())
}

/// Runs a phase that calls the rooms in a copy of this program.
fn in_child(phase: &str, folder: &Path) -> Fallible<PhaseMeasurement> {
    let output =
        Command::new(std::env::current_exe()?).arg("--phase").arg(phase).arg("--folder").arg(folder).output()?;
    if !output.status.success() {
        return Err(format!("{phase}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn child(phase: &str, folder: &Path) -> Fallible<()> {
    let start = Instant::now();
    let (seconds, did) = match phase.strip_prefix("preview-") {
        Some(which) => preview::run(which, folder)?,
        None => {
            let did = phases::run(phase, folder)?;
            (start.elapsed().as_secs_f64(), did)
        }
    };
    let measured = PhaseMeasurement { seconds, processor_seconds: 0.0, peak_kib: peak_kib(std::process::id())?, did };
    print_line(&serde_json::to_string(&measured)?);
    Ok(())
}

/// The most memory a process ever held, from Linux's `VmHWM`.
fn peak_kib(process: u32) -> Fallible<u64> {
    let status = fs_err::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.split_whitespace().nth(1).ok_or("no number after VmHWM")?.parse()?)
}

/// Intents as teams write them: three shapes in turn, a hundred in a folder.
fn write_repository(folder: &Path, models: usize) -> Fallible<()> {
    let root = "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata:\n  name: scale\nspec:\n  environments:\n    \
                prod:\n      namespace: prod\n  defaults:\n    runtime: 1.2.0\n";
    fs_err::write(folder.join("stator.yaml"), root)?;
    (0..models).into_par_iter().try_for_each(|number| -> Result<(), std::io::Error> {
        let directory: PathBuf = folder.join(format!("group-{:02}/model-{number:05}", number / 100));
        fs_err::create_dir_all(&directory)?;
        fs_err::write(directory.join("model.yaml"), intent(number))
    })?;
    Ok(())
}

fn intent(number: usize) -> String {
    let serving = match number % 3 {
        0 => "  engine: mocker\n  serving:\n    worker:\n      replicas: 1\n",
        1 => {
            "  engine: vllm\n  hardware:\n    gpu: h200_sxm\n    gpusPerNode: 8\n  serving:\n    frontend:\n      \
             router: kv\n    prefill:\n      replicas: 2\n      tensorParallel: 2\n      maxSequences: 64\n    \
             decode:\n      replicas: 3\n      tensorParallel: 4\n      maxLength: 32768\n"
        }
        _ => {
            "  engine: sglang\n  hardware:\n    gpu: h100_sxm\n    gpusPerNode: 8\n  serving:\n    worker:\n      \
             replicas: 2\n      gpus: 16\n      tensorParallel: 16\n      args:\n        - --trust-remote-code\n"
        }
    };
    format!(
        "# Model {number} of the scale run.\napiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata:\n  name: \
         model-{number:05}\n  labels:\n    team: team-{}\nspec:\n  model: example/model-{number:05}\n{serving}  \
         secrets:\n    huggingFace: hf-token-secret\n  env:\n    LOG_LEVEL: info\n",
        number % 17,
    )
}
