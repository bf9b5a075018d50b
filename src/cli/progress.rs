//! What a sync says while it runs: a bar on a terminal, lines elsewhere; both on standard error.

use super::output::Output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use stator_cluster::sync::{SyncProgress as Event, WaitingReason};
use stator_model::plan::Plan;
use stator_model::present::escape;
use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::time::Duration;

/// Shows the progress of one sync.
#[derive(Debug)]
pub struct ProgressReporter {
    bar: Option<ProgressBar>,
    output: Output,
}

impl ProgressReporter {
    /// Nothing is shown with `--quiet`.
    pub fn new(plan: &Plan, output: &Output) -> Self {
        let terminal = std::io::stderr().is_terminal() && !output.is_quiet();
        let models: BTreeSet<&str> = plan.changes.iter().map(|change| change.model.as_str()).collect();
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
        Self { bar, output: *output }
    }

    /// Shows one event.
    pub fn report_event(&self, event: Event) {
        match event {
            Event::Applied { model: _, object } => self.print_line(&format!("applied {object}")),
            Event::Deleted { model: _, object } => self.print_line(&format!("deleted {object}")),
            Event::Retrying { model, message } => self.print_line(&format!("{model}: retrying: {message}")),
            Event::Waiting { model, reason } => match &self.bar {
                Some(bar) => bar.set_message(escape::line(&format!("{model}: {}", shorten_reason(&model, &reason)))),
                None => self.print_line(&format!("{model}: {reason}")),
            },
            Event::Finished(outcome) => {
                if let Some(bar) = &self.bar {
                    bar.inc(1);
                }
                if !outcome.result.is_success() {
                    self.print_line(&format!("{}: {}: {}", outcome.name, outcome.result, outcome.message));
                }
            }
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
