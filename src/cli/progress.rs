//! What a sync says while it runs: a bar on a terminal, a line now and then elsewhere; both on standard error.

use super::output::Output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use stator_cluster::sync::{SyncProgress as Event, WaitingReason};
use stator_core::mask;
use stator_core::outcome::SyncOutcome;
use stator_model::plan::Plan;
use stator_model::present::{escape, pluralize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The least time between two lines where there is no terminal: a log is read by people.
pub const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Shows the progress of one sync.
#[derive(Debug)]
pub struct ProgressReporter {
    bar: Option<ProgressBar>,
    output: Output,
    models: usize,
    seen: Mutex<SeenProgress>,
}

/// What happened so far.
#[derive(Debug)]
struct SeenProgress {
    applied: usize,
    deleted: usize,
    done: usize,
    /// What each model waits for.
    waiting: BTreeMap<String, String>,
    /// The last line, and when it was said; at the beginning none was, and none is due yet.
    said: (Instant, String),
}

impl ProgressReporter {
    /// Nothing is shown with `--quiet`.
    pub fn new(plan: &Plan, output: &Output) -> Self {
        let terminal = std::io::stderr().is_terminal() && !output.is_quiet();
        let models: BTreeSet<&str> = plan
            .changes
            .iter()
            .map(|change| change.model.as_str())
            .chain(plan.retired.iter().map(String::as_str))
            .collect();
        let bar = terminal.then(|| {
            let bar = ProgressBar::with_draw_target(Some(models.len() as u64), ProgressDrawTarget::stderr());
            if let Ok(style) =
                ProgressStyle::with_template("{spinner} {bar:12} {pos}/{len} models  {elapsed}  {wide_msg}")
            {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self {
            bar,
            output: *output,
            models: models.len(),
            seen: Mutex::new(SeenProgress {
                applied: 0,
                deleted: 0,
                done: 0,
                waiting: BTreeMap::new(),
                said: (Instant::now(), String::new()),
            }),
        }
    }

    fn seen(&self) -> MutexGuard<'_, SeenProgress> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says how far the sync is, where something changed and the start and the last line are long enough ago. Nothing on a terminal, where
    /// the bar says it, and nothing with `--verbose`, where every step has been said.
    pub fn print_due(&self) {
        if self.bar.is_some() || self.output.stderr_style.verbose {
            return;
        }
        let mut seen = self.seen();
        let line = seen.line(self.models);
        let (at, last) = &seen.said;
        if at.elapsed() >= LINE_INTERVAL && *last != line {
            self.output.note(&line);
            seen.said = (Instant::now(), line);
        }
    }

    /// Shows one event.
    pub fn report_event(&self, event: Event) {
        match event {
            Event::Applied { model: _, object } => {
                self.seen().applied += 1;
                self.print_step(&format!("applied {object}"));
            }
            Event::Deleted { model: _, object } => {
                self.seen().deleted += 1;
                self.print_step(&format!("deleted {object}"));
            }
            Event::Retrying { model, message } => {
                self.seen().waiting.insert(model.clone(), format!("retrying: {message}"));
                self.print_step(&format!("{model}: retrying: {message}"));
            }
            Event::Waiting { model, reason } => {
                let short = shorten_reason(&model, &reason);
                if let Some(bar) = &self.bar {
                    bar.set_message(mask::redact_tokens(&escape::line(&format!("{model}: {short}"))).into_owned());
                } else if self.output.stderr_style.verbose {
                    self.output.note(&format!("{model}: {reason}"));
                }
                self.seen().waiting.insert(model, short);
            }
            Event::Finished(outcome) => {
                let mut seen = self.seen();
                seen.done += 1;
                seen.waiting.remove(&outcome.name);
                drop(seen);
                if let Some(bar) = &self.bar {
                    bar.inc(1);
                }
                // The table names those that an interruption left.
                if !outcome.result.is_success() && outcome.result != SyncOutcome::Cancelled {
                    self.print_line(&format!("{}: {}: {}", outcome.name, outcome.result, outcome.message));
                }
            }
        }
    }

    /// Says a step as it happens, where somebody watches or asks for all of them.
    fn print_step(&self, line: &str) {
        if self.bar.is_some() || self.output.stderr_style.verbose {
            self.print_line(line);
        }
    }

    /// Says a line above the bar.
    pub fn print_line(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.output.note(line)),
            None => self.output.note(line),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl SeenProgress {
    /// How far the sync is, in one line; empty where nothing happened yet.
    fn line(&self, models: usize) -> String {
        let counts = [(self.applied, "applied"), (self.deleted, "deleted")];
        let mut parts: Vec<String> = counts
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, done)| format!("{} {done}", pluralize(number, "object", "objects")))
            .collect();
        if let Some((model, reason)) = self.waiting.first_key_value() {
            let more = match self.waiting.len() - 1 {
                0 => String::new(),
                more => format!(" (and {})", pluralize(more, "more model", "more models")),
            };
            parts.push(format!("{} of {} done", self.done, pluralize(models, "model", "models")));
            parts.push(format!("{model}: {reason}{more}"));
        }
        parts.join("; ")
    }
}

/// What is waited for without the object that it is about, where the model's name says as much: a bar has one line.
fn shorten_reason(model: &str, reason: &WaitingReason) -> String {
    match &reason.object {
        Some(object) if object.name == model => reason.details.clone(),
        Some(_) | None => reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stator_core::object::ObjectRef;

    #[test]
    fn the_bar_leaves_room_for_what_is_waited_for() {
        let reason = |kind: &str, name: &str, details: &str| {
            let object = ObjectRef {
                api_version: "nvidia.com/v1beta1".to_owned(),
                kind: kind.to_owned(),
                namespace: "prod".to_owned(),
                name: name.to_owned(),
            };
            WaitingReason { object: Some(object), details: details.to_owned() }
        };
        let graph = reason("DynamoGraphDeployment", "llama", "waiting for worker: none");
        assert_eq!(shorten_reason("llama", &graph), "waiting for worker: none");
        let adapter = reason("DynamoModel", "llama-sql", "no endpoints");
        assert_eq!(shorten_reason("llama", &adapter), "DynamoModel prod/llama-sql: no endpoints");
        let other = WaitingReason { object: None, details: "trying again".to_owned() };
        assert_eq!(shorten_reason("llama", &other), "trying again");
    }
}
