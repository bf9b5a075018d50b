//! A first sync that waits until the simulated operator has made all models healthy, by number of models.

use super::phases::stator;
use super::processor_time::processor_seconds_of_children;
use super::{Fallible, print_line, write_repository};
use std::time::Instant;

/// So many models, each in a repository and a cluster of its own.
const MODELS: [usize; 4] = [250, 1_000, 4_000, 10_000];
/// What they may take of processor time, in seconds, and of memory, in MiB.
const BUDGETS: [(usize, f64, u64); 2] = [(1_000, 10.0, 200), (10_000, 100.0, 1_000)];
/// The most that a model of the longest table may take, compared with one of a thousand.
const GROWTH: f64 = 1.5;

/// Prints the table, and fails where a budget is exceeded or the growth is not linear.
pub(crate) fn run() -> Fallible<()> {
    print_line("| models | time | processor time | for each model | peak memory |");
    print_line("|-:|-:|-:|-:|-:|");
    let (mut faults, mut of_a_thousand) = (Vec::new(), f64::INFINITY);
    for models in MODELS {
        let folder = tempfile::tempdir()?;
        write_repository(folder.path(), models)?;
        let (start, before) = (Instant::now(), processor_seconds_of_children()?);
        let arguments = ["sync", "--yes", "--wait", "--simulate-operator", "--simulate-speed", "1000", "-o", "json"];
        let (output, peak_kib) = stator(folder.path(), folder.path(), &arguments)?;
        let (seconds, processor) = (start.elapsed().as_secs_f64(), processor_seconds_of_children()? - before);
        // A sync that waits fails unless all models are healthy.
        let synced = output["models"].as_array().map_or(0, Vec::len);
        if synced != models {
            return Err(format!("{synced} of {models} models were synced").into());
        }
        let (each, peak) = (processor * 1000.0 / models as f64, peak_kib / 1024);
        print_line(&format!("| {models} | {seconds:.1} s | {processor:.1} s | {each:.1} ms | {peak} MiB |"));
        if models == 1_000 {
            of_a_thousand = each;
        }
        if each > of_a_thousand * GROWTH {
            faults.push(format!("each of {models} models takes more than {GROWTH} times as long as each of 1000"));
        }
        let exceeded = BUDGETS.iter().filter(|(of, ..)| *of == models);
        faults.extend(exceeded.filter(|(_, time, memory)| processor > *time || peak > *memory).map(
            |(_, time, memory)| format!("{models} models take more than {time} processor-seconds or {memory} MiB"),
        ));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ").into()) }
}
