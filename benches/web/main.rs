//! What pages cost with 10,000 models: from the start of the program to the first rows, the front page beside open streams,
//! and from a change to the row that shows it.
//!
//! `cargo bench --bench web` writes a repository, syncs it to an embedded cluster, starts `stator status --web-listen` as a
//! user does (`-- --models N`, `--streams N`, `--rounds N`; `--sync` measures `stator sync --web-listen`), and prints the
//! table that `docs/performance.md` shows. It fails where something takes longer than its budget.

mod pages;
mod repository;

use pages::{PagesProcess, Stream};
use repository::ModelFolder;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// From the start of the process to all rows.
const ROWS_BUDGET: Duration = Duration::from_secs(5);
/// To the first byte of the front page, for 99 of 100 requests.
const PAGE_BUDGET: Duration = Duration::from_millis(50);
/// From a change to the row that shows it.
const CHANGE_BUDGET: Duration = Duration::from_secs(2);
/// Requests of the front page in a row.
const REQUESTS: usize = 500;
/// How often something changes while the front page is asked for.
const CHANGE_INTERVAL: Duration = Duration::from_millis(700);

/// The table as it is printed, and what is over its budget.
#[derive(Default)]
struct ResultTable {
    over: Vec<String>,
}

impl ResultTable {
    fn row(&mut self, what: &str, result: &str, budget: &str, is_kept: bool) {
        print_line(&format!("| {what} | {result} | {budget} |"));
        if !is_kept {
            self.over.push(what.to_owned());
        }
    }
}

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        // `cargo test --benches` only asks whether the harness builds; the numbers are made by `cargo bench`.
        return Ok(());
    }
    let value = |flag: &str, default: usize| {
        let given = arguments.iter().position(|a| a == flag).and_then(|at| arguments.get(at + 1));
        given.map_or(Ok(default), |text| text.parse::<usize>())
    };
    let (models, streams, rounds) = (value("--models", 10_000)?, value("--streams", 200)?, value("--rounds", 10)?);
    let verb = if arguments.iter().any(|argument| argument == "--sync") { "sync" } else { "status" };
    let folder = ModelFolder::synced(models)?;
    print_line(&format!("{models} models, {} cores\n", std::thread::available_parallelism()?));
    print_line("| what | result | budget |");
    print_line("|-|-:|-:|");
    measure(&folder, verb, streams, rounds)
}

#[expect(clippy::print_stdout, reason = "a benchmark's result is what it prints")]
fn print_line(line: &str) {
    println!("{line}");
}

fn measure(folder: &ModelFolder, verb: &str, streams: usize, rounds: usize) -> Fallible<()> {
    let mut table = ResultTable::default();
    let pages = PagesProcess::start(folder.path(), verb)?;
    let mut sentence = None;
    let rows = loop {
        let page = pages.page()?;
        if page.contains("Models are being loaded.") {
            sentence.get_or_insert_with(|| pages.started.elapsed());
        }
        if pages.total()? == folder.models {
            break pages.started.elapsed();
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    table.row("start to all rows", &seconds(rows), "5 s", rows <= ROWS_BUDGET);
    let told = sentence.map_or("never".to_owned(), seconds);
    table.row("start to the sentence that models are loaded", &told, "before", sentence.is_some());

    let mut idle = page_times(&pages)?;
    let text = format!("p50 {}, p99 {}", milliseconds(at(&mut idle, 50)), milliseconds(at(&mut idle, 99)));
    table.row("first byte of `/`", &text, "p99 50 ms", at(&mut idle, 99) <= PAGE_BUDGET);

    let mut stream = pages.stream()?;
    let mut numbers = 0..folder.models;
    let mut next = || numbers.next().ok_or("there are too few models");
    let mut objects = Vec::new();
    for _ in 0..rounds {
        objects.push(shown(&pages, &mut stream, next()?, |model| folder.change_object(model))?);
    }
    change_row(&mut table, "one object changed, to its row", &mut objects);
    let mut files = Vec::new();
    for _ in 0..rounds {
        files.push(shown(&pages, &mut stream, next()?, |model| folder.change_file(model))?);
    }
    change_row(&mut table, "one `model.yaml` changed, to its row", &mut files);

    // Whoever has the pages open hears of each change while others read them.
    let ended = Arc::new(AtomicBool::new(false));
    let mut listeners = Vec::new();
    for _ in 0..streams {
        let (mut stream, ended) = (pages.stream()?, Arc::clone(&ended));
        listeners.push(std::thread::Builder::new().stack_size(64 << 10).spawn(move || {
            let mut heard = 0_u32;
            while !ended.load(Ordering::Relaxed) {
                heard += u32::from(stream.changed(Duration::from_millis(500)));
            }
            heard
        })?);
    }
    let mut busy = std::thread::scope(|scope| -> Fallible<Vec<Duration>> {
        let changing = scope.spawn(|| -> Fallible<()> {
            for model in (0..folder.models).rev() {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                folder.change_object(model)?;
                std::thread::sleep(CHANGE_INTERVAL);
            }
            Ok(())
        });
        let start = Instant::now();
        let mut times = Vec::new();
        let outcome = loop {
            match page_times(&pages) {
                Ok(more) => times.extend(more),
                Err(error) => break Err(error),
            }
            if start.elapsed() > Duration::from_secs(10) {
                break Ok(());
            }
        };
        ended.store(true, Ordering::Relaxed);
        changing.join().map_err(|_| "changing failed")??;
        outcome.map(|()| times)
    })?;
    let heard =
        listeners.into_iter().map(|one| one.join().map_err(|_| "a stream failed")).collect::<Result<Vec<_>, _>>()?;
    let text = format!("p50 {}, p99 {}", milliseconds(at(&mut busy, 50)), milliseconds(at(&mut busy, 99)));
    let what = format!("the same with {streams} open streams and changes");
    table.row(&what, &text, "p99 50 ms", at(&mut busy, 99) <= PAGE_BUDGET);
    let least = heard.iter().min().copied().unwrap_or_default();
    table.row("events that each of these heard", &format!("{least} and more"), "some", streams == 0 || least > 0);
    let bytes = pages.compressed_bytes()?;
    table.row("bytes of `/`, compressed", &format!("{:.1} KiB", bytes as f64 / 1024.0), "", true);
    table.row("memory at the end", &format!("{} MiB", pages.memory("VmRSS")?), "", true);
    table.row("most memory ever", &format!("{} MiB", pages.memory("VmHWM")?), "", true);
    if table.over.is_empty() { Ok(()) } else { Err(format!("over budget: {}", table.over.join("; ")).into()) }
}

/// How long it takes until a row is different that somebody reads at each event of a stream.
fn shown(
    pages: &PagesProcess,
    stream: &mut Stream,
    model: usize,
    change: impl FnOnce(usize) -> Fallible<()>,
) -> Fallible<Duration> {
    let before = pages.row(model)?;
    let start = Instant::now();
    change(model)?;
    while start.elapsed() < Duration::from_secs(60) {
        if stream.changed(Duration::from_secs(60)) && pages.row(model)? != before {
            let time = start.elapsed();
            // Changes that come one after the other would be shown together.
            std::thread::sleep(Duration::from_millis(1500));
            return Ok(time);
        }
    }
    Err(format!("model {model} was never shown as it is").into())
}

fn page_times(pages: &PagesProcess) -> Fallible<Vec<Duration>> {
    (0..REQUESTS).map(|_| pages.first_byte()).collect()
}

fn change_row(table: &mut ResultTable, what: &str, times: &mut [Duration]) {
    let (half, most) = (at(times, 50), at(times, 100));
    table.row(what, &format!("p50 {}, most {}", seconds(half), seconds(most)), "2 s", most <= CHANGE_BUDGET);
}

/// The least time that so many of a hundred keep to.
fn at(times: &mut [Duration], percent: usize) -> Duration {
    times.sort();
    times.get((times.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or(Duration::MAX)
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}
