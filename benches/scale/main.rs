//! How stator behaves with many models: ratios against a bare lower bound, writes, and peak memory.
//!
//! `cargo bench --bench scale` makes a repository of 10,000 intents (`-- --models N` for another number), runs each
//! phase in a process of its own, and prints the table that `docs/performance.md` shows. Every phase runs in the same
//! run on the same files, so the ratios hold on a noisy machine where seconds do not.

mod phases;

use rayon::prelude::*;
use serde_json::{Value, json};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The phases in their order: each finds what the ones before it left.
const PHASES: [&str; 8] =
    ["parse", "load", "render", "render-yaml", "first-sync", "plan-unchanged", "sync-unchanged", "plan-one-changed"];

/// A phase that only reads is run this often, and its fastest round counts.
const ROUNDS: usize = 3;

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
    let models: usize = value("--models").map_or(Ok(10_000), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    write_repository(folder.path(), models)?;
    print_line(&format!("{models} models, {} cores\n", std::thread::available_parallelism()?));
    print_line("| phase | time, parsing = 1 | peak memory | what it did |");
    print_line("|-|-:|-:|-|");
    let mut parsing = None;
    for phase in PHASES {
        if phase == "plan-one-changed" {
            let path = folder.path().join("group-00/model-00000/model.yaml");
            let text = fs_err::read_to_string(&path)?.replace("replicas: 1", "replicas: 2");
            fs_err::write(path, text)?;
        }
        let result = run_phase(phase, folder.path())?;
        let seconds = result["seconds"].as_f64().ok_or("a phase reports its seconds")?;
        let lower_bound = *parsing.get_or_insert(seconds);
        print_line(&format!(
            "| {phase} | {:.2} | {:.0} MiB | {} |",
            seconds / lower_bound,
            result["peakKib"].as_f64().unwrap_or_default() / 1024.0,
            result["did"].as_str().unwrap_or_default(),
        ));
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a benchmark's result is what it prints")]
fn print_line(line: &str) {
    println!("{line}");
}

/// Runs one phase in a fresh process, so that its peak memory is its own.
fn run_phase(phase: &str, folder: &Path) -> Fallible<Value> {
    let output =
        Command::new(std::env::current_exe()?).arg("--phase").arg(phase).arg("--folder").arg(folder).output()?;
    if !output.status.success() {
        return Err(format!("{phase}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn child(phase: &str, folder: &Path) -> Fallible<()> {
    let rounds = if phase.contains("sync") { 1 } else { ROUNDS };
    let mut best = f64::INFINITY;
    let mut did = String::new();
    for _ in 0..rounds {
        let start = Instant::now();
        did = phases::run(phase, folder)?;
        // The fastest round is the one that the machine disturbed least.
        best = best.min(start.elapsed().as_secs_f64());
    }
    print_line(&json!({"seconds": best, "peakKib": peak_kib()?, "did": did}).to_string());
    Ok(())
}

/// The most memory this process ever held, from Linux's `VmHWM`.
fn peak_kib() -> Fallible<u64> {
    let status = fs_err::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).ok_or("no VmHWM in /proc/self/status")?;
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
