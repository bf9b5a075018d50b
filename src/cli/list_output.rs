//! Lists that are shown once, or again whenever they change.

use super::error::{CliError, CliErrorKind};
use super::output::Output;
use clap::{Args, ValueEnum};
use stator_cluster::cluster::{WatchEvent, WatchReceiver};
use stator_model::present::TerminalOptions;
use std::time::Duration;

/// How long changes are gathered before a list is shown again.
const WATCH_DEBOUNCE: Duration = Duration::from_millis(200);

/// How a list is shown.
#[derive(Clone, Copy, Debug, Args)]
pub struct ListOutputArgs {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: ListFormat,
    /// Keep watching, and print the list again when it changes
    #[arg(short, long)]
    pub watch: bool,
    /// Print only rows, without headings
    #[arg(long)]
    pub no_headers: bool,
}

impl ListOutputArgs {
    /// How the list looks on standard output.
    pub fn style(&self, output: &Output) -> TerminalOptions {
        TerminalOptions { rows_only: self.no_headers, ..output.stdout_style }
    }
}

/// The forms of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// A table
    #[value(alias = "table")]
    Text,
    /// A table with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// KIND/NAMESPACE/NAME
    Name,
}

/// What is on the screen of a list, and what may change it.
pub struct ListPrinter<'a> {
    output: &'a Output,
    format: ListFormat,
    shown: String,
    /// `None` where the list is shown once.
    changes: Option<WatchReceiver>,
}

impl<'a> ListPrinter<'a> {
    /// Nothing is shown yet. Open the watch before the first look, so that nothing falls between the two.
    pub fn new(format: ListFormat, changes: Option<WatchReceiver>, output: &'a Output) -> Self {
        Self { output, format, shown: String::new(), changes }
    }

    /// Shows the list, unless that is what is shown already.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn print(&mut self, text: String) -> Result<(), CliError> {
        if text == self.shown {
            return Ok(());
        }
        if !self.shown.is_empty() && self.format != ListFormat::Json {
            let is_terminal = self.output.stdout_style.width.is_some();
            self.output.write_result(if is_terminal { "\u{1b}[H\u{1b}[2J" } else { "\n" })?;
        }
        self.output.write_result(&text)?;
        self.shown = text;
        Ok(())
    }

    /// Waits until something changed. False at once where the list is shown only once.
    ///
    /// # Errors
    /// When the cluster ended the watch.
    pub async fn wait_for_change(&mut self) -> Result<bool, CliError> {
        let Some(changes) = &mut self.changes else { return Ok(false) };
        match changes.recv().await {
            Some(WatchEvent::Applied(_) | WatchEvent::Deleted(_) | WatchEvent::Resync) => {}
            None => {
                return Err(CliError::new(CliErrorKind::Cluster, "the cluster closed the watch")
                    .with_hint("run the command again"));
            }
        }
        tokio::time::sleep(WATCH_DEBOUNCE).await;
        while changes.try_recv().is_ok() {}
        Ok(true)
    }
}
