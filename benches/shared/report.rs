//! What a bench found: a table for readers, and a file that `docs/performance.md` is made of.
#![allow(dead_code, reason = "shared by benches, of which none uses all")]

use super::Fallible;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The rows of a bench, printed as they come.
pub(crate) struct Report {
    bench: &'static str,
    parameters: Value,
    rows: Vec<Value>,
    is_headed: bool,
}

#[expect(clippy::print_stdout, reason = "a benchmark's result is what it prints")]
pub(crate) fn print_line(line: &str) {
    println!("{line}");
}

impl Report {
    pub(crate) fn new(bench: &'static str, parameters: Value) -> Self {
        Self { bench, parameters, rows: Vec::new(), is_headed: false }
    }

    /// One row: what was measured, the number with its unit, the words for a reader, and what it should be.
    pub(crate) fn row(&mut self, what: &str, (value, unit): (f64, &str), text: &str, goal: &str) {
        if !self.is_headed {
            self.is_headed = true;
            print_line(&format!("{}: {}\n", self.bench, self.parameters));
            print_line("| what | result | goal |\n|-|-:|-|");
        }
        print_line(&format!("| {what} | {text} | {goal} |"));
        self.rows.push(json!({"what": what, "value": rounded(value), "unit": unit, "text": text, "goal": goal}));
    }

    /// A row of one time.
    pub(crate) fn time(&mut self, what: &str, time: Duration, goal: &str) {
        self.row(what, (time.as_secs_f64(), "s"), &format!("{:.2} s", time.as_secs_f64()), goal);
    }

    /// A row of a ratio, said in percent or in times.
    pub(crate) fn ratio(&mut self, what: &str, value: f64, unit: RatioUnit, goal: &str) {
        match unit {
            RatioUnit::Percent => self.row(what, (100.0 * value, "%"), &format!("{:.0} %", 100.0 * value), goal),
            RatioUnit::Times => self.row(what, (value, "times"), &format!("{value:.2} times"), goal),
        }
    }

    /// A row of many times: half of them, and 95 of 100, took at most so long. The number is the latter.
    pub(crate) fn percentiles(&mut self, what: &str, times: &mut [Duration], goal: &str) {
        times.sort();
        let at = |percent: usize| times.get((times.len() * percent).div_ceil(100).saturating_sub(1));
        let seconds = |percent| at(percent).map(Duration::as_secs_f64).unwrap_or_default();
        let text = format!("p50 {:.2} s, p95 {:.2} s", seconds(50), seconds(95));
        self.row(what, (seconds(95), "s"), &text, goal);
    }

    /// A row of something counted, with what it is made of.
    pub(crate) fn count(&mut self, what: &str, count: u64, unit: &str, text: &str) {
        self.row(what, (count as f64, unit), text, "");
    }

    /// The number of a row.
    pub(crate) fn value(&self, what: &str) -> Option<f64> {
        self.rows.iter().find(|row| row["what"] == what)?["value"].as_f64()
    }

    /// Writes the file, where one was asked for.
    pub(crate) fn write(&self, file: Option<&String>) -> Fallible<()> {
        let Some(file) = file else { return Ok(()) };
        let document = json!({
            "bench": self.bench, "machine": machine()?, "date": jiff::Timestamp::now().strftime("%F").to_string(),
            "commit": commit()?, "command": command(self.bench), "parameters": self.parameters, "rows": self.rows,
        });
        // `cargo bench` runs in the package's folder, which a relative path is meant from.
        Ok(fs_err::write(Path::new(file), format!("{document:#}\n"))?)
    }
}

/// How a ratio is said.
#[derive(Clone, Copy)]
pub(crate) enum RatioUnit {
    Percent,
    Times,
}

/// Four digits, as more would only differ from run to run.
fn rounded(value: f64) -> f64 {
    if value.fract() == 0.0 { value } else { (value * 10_000.0).round() / 10_000.0 }
}

/// What somebody calls to see the same.
fn command(bench: &str) -> String {
    let mut given = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--bench" => {}
            // Where it was written to is no part of it.
            "--json" => drop(arguments.next()),
            // Where somebody keeps a program or a folder says nothing to others.
            path if path.starts_with('/') => given.push("PATH".to_owned()),
            _ => given.push(argument),
        }
    }
    let separator = if given.is_empty() { "" } else { " -- " };
    format!("cargo bench --bench {bench}{separator}{}", given.join(" "))
}

fn machine() -> Fallible<Value> {
    let field = |file: &str, name: &str| -> Fallible<String> {
        let text = fs_err::read_to_string(file)?;
        let line = text.lines().find(|line| line.starts_with(name));
        Ok(line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned()).unwrap_or_default())
    };
    let kib = field("/proc/meminfo", "MemTotal")?.trim_end_matches(" kB").parse::<u64>().unwrap_or_default();
    Ok(json!({
        "cpu": field("/proc/cpuinfo", "model name")?,
        "cores": std::thread::available_parallelism()?.get(),
        "memoryGiB": kib.div_ceil(1024 * 1024),
        // Without what a distribution adds to it.
        "kernel": fs_err::read_to_string("/proc/sys/kernel/osrelease")?.split('-').next().unwrap_or_default().trim(),
    }))
}

/// The commit that is checked out, with `-dirty` where files differ from it.
fn commit() -> Fallible<String> {
    let output =
        Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]).output()?;
    if !output.status.success() {
        return Err("`git describe` names no commit: run the bench in a clone of the repository".into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// The flags of a bench.
pub(crate) struct Flags(Vec<String>);

impl Flags {
    /// `None` where the program is not run by `cargo bench`: `cargo test --benches` only asks whether it builds.
    pub(crate) fn of_bench() -> Option<Self> {
        let all: Vec<String> = std::env::args().collect();
        all.iter().any(|argument| argument == "--bench").then_some(Self(all))
    }

    pub(crate) fn is_given(&self, flag: &str) -> bool {
        self.0.iter().any(|argument| argument == flag)
    }

    pub(crate) fn text(&self, flag: &str) -> Option<&String> {
        self.0.iter().position(|argument| argument == flag).and_then(|at| self.0.get(at + 1))
    }

    pub(crate) fn number(&self, flag: &str, default: usize) -> Fallible<usize> {
        let Some(text) = self.text(flag) else { return Ok(default) };
        text.parse().map_err(|_| format!("`{flag} {text}`: write a whole number").into())
    }
}
