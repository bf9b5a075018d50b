//! The command line: one file a verb. Each parses, calls the rooms, and prints.

mod args;
mod error;
mod output;

mod completions;
mod connect;
mod controller;
mod diff;
mod explain;
mod files;
mod fmt;
mod get;
mod import;
mod init;
mod live;
mod lock;
mod man;
mod past;
mod plan;
mod progress;
mod render;
mod repository;
mod revisions;
mod rollback;
mod saved_plan;
mod schema;
mod server;
mod signals;
mod sources;
mod status;
mod sync;
mod validate;

pub use error::{CliError, ErrorKind, Exit};

use crate::telemetry::traces::Traces;
use crate::telemetry::{self, Format, LogSettings};
use args::Common;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use output::Output;
use std::ffi::OsString;
use std::time::Duration;

/// GitOps for NVIDIA Dynamo: models declared in git become synced, healthy Dynamo objects.
#[derive(Debug, Parser)]
#[command(
    name = "stator",
    version,
    max_term_width = 100,
    propagate_version = false,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Init(init::Arguments),
    Validate(validate::Arguments),
    Fmt(fmt::Arguments),
    Render(render::Arguments),
    Plan(plan::Arguments),
    Diff(diff::Arguments),
    Sync(sync::Arguments),
    Suspend(sources::suspend::SuspendArguments),
    Resume(sources::suspend::ResumeArguments),
    Rollback(rollback::Arguments),
    Lock(lock::Arguments),
    Status(status::Arguments),
    Get(get::Arguments),
    Describe(past::DescribeArguments),
    Events(past::EventsArguments),
    History(past::HistoryArguments),
    Import(import::Arguments),
    Controller(controller::Arguments),
    Server(server::Arguments),
    Schema(schema::Arguments),
    Explain(explain::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

/// The whole command line, as help, completions and manual pages show it.
pub fn command() -> clap::Command {
    Cli::command()
}

/// A variable that is set to nothing counts as not set, as pipelines set variables that they have no value for.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| match arg.get_env().and_then(std::env::var_os) {
            Some(value) if value.is_empty() => arg.env(clap::builder::Resettable::Reset),
            Some(_) | None => arg,
        })
        .mut_subcommands(without_empty_variables)
}

/// Parses the arguments and carries them out.
pub async fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let mut command = without_empty_variables(command());
    let cli = match command
        .try_get_matches_from_mut(arguments)
        .and_then(|matches| sources::ask::conflicts(&mut command, &matches).map(|()| matches))
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches))
    {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are results; a reader of either that went away is no failure.
            let _ = error.print();
            return if error.exit_code() == 0 { Exit::Success } else { Exit::Error };
        }
    };
    let output = Output::new(&cli.common);
    tracing_to_stderr(&cli.common, &output, &cli.verb);
    let traces = traces(&cli.verb, &output);
    let done = carry_out(cli.verb, &output).await;
    if let Some(traces) = traces {
        traces.ended(FAREWELL).await;
    }
    match done {
        Ok(exit) => exit,
        Err(error) => {
            if error.kind() != ErrorKind::BrokenPipe {
                output.error(&error);
            }
            error.exit()
        }
    }
}

async fn carry_out(verb: Verb, output: &Output) -> Result<Exit, CliError> {
    match verb {
        Verb::Init(arguments) => init::run(&arguments, output),
        Verb::Validate(arguments) => validate::run(&arguments, output),
        Verb::Fmt(arguments) => fmt::run(&arguments, output),
        Verb::Render(arguments) => render::run(&arguments, output),
        Verb::Plan(arguments) => plan::run(&arguments, output).await,
        Verb::Diff(arguments) => diff::run(&arguments, output).await,
        Verb::Sync(arguments) => sync::run(&arguments, output).await,
        Verb::Suspend(arguments) => sources::suspend::suspend(&arguments, output).await,
        Verb::Resume(arguments) => sources::suspend::resume(&arguments, output).await,
        Verb::Rollback(arguments) => rollback::run(&arguments, output).await,
        Verb::Lock(arguments) => lock::run(&arguments, output).await,
        Verb::Status(arguments) => status::run(&arguments, output).await,
        Verb::Get(arguments) => get::run(&arguments, output).await,
        Verb::Describe(arguments) => past::describe(&arguments, output).await,
        Verb::Events(arguments) => past::events(&arguments, output).await,
        Verb::History(arguments) => past::history(&arguments, output).await,
        Verb::Import(arguments) => import::run(&arguments, output).await,
        Verb::Controller(arguments) => controller::run(&arguments, output).await,
        Verb::Server(arguments) => server::run(&arguments, output).await,
        Verb::Schema(arguments) => schema::run(&arguments, output),
        Verb::Explain(arguments) => explain::run(&arguments, output),
        Verb::Completions(arguments) => completions::run(&arguments, output),
        Verb::Man(arguments) => man::run(&arguments, output),
    }
}

/// Logs go to standard error: warnings by default, more with each `-v`. `STATOR_LOG` takes filters
/// (`stator_cluster::sync=debug`), `STATOR_LOG_FORMAT=json` makes each line JSON.
fn tracing_to_stderr(common: &Common, output: &Output, verb: &Verb) {
    // What runs for days says what it does.
    let runs = if let Verb::Controller(controller::Arguments { log_format, .. })
    | Verb::Server(server::Arguments { log_format, .. }) = verb
    {
        Some(*log_format)
    } else {
        None
    };
    let level = match (common.quiet, common.verbose) {
        (true, _) => "error",
        (false, 0) if runs.is_some() => "info",
        (false, 0) => "warn",
        (false, 1) => "info",
        (false, 2) => "debug",
        (false, _) => "trace",
    };
    // The client of the Kubernetes API logs what comes back as an error anyway.
    let usual = if common.verbose < 3 { format!("{level},kube_client=off") } else { level.to_owned() };
    let json = runs == Some(controller::LogFormat::Json)
        || std::env::var("STATOR_LOG_FORMAT").is_ok_and(|format| format == "json");
    let format = if json { Format::Json } else { Format::Text };
    let asked = std::env::var("STATOR_LOG").ok().filter(|filter| !filter.trim().is_empty());
    let filter = asked.as_deref().unwrap_or(&usual);
    let settings = LogSettings { format, color: output.notes.color, time: runs.is_some(), filter };
    let stderr = || -> Box<dyn std::io::Write> { Box::new(std::io::stderr()) };
    if let Err(error) = telemetry::log_to(stderr, settings) {
        output.warn(&format!("STATOR_LOG is not understood ({error}); it is left aside"));
        let _ = telemetry::log_to(stderr, LogSettings { filter: &usual, ..settings });
    }
}

/// How long spans that wait are sent at the end.
const FAREWELL: Duration = Duration::from_secs(5);

/// Traces of what runs for days, where the environment says where to. What is wrong with that is told, and no reason not to
/// run.
fn traces(verb: &Verb, output: &Output) -> Option<Traces> {
    if !matches!(verb, Verb::Controller(_) | Verb::Server(_)) {
        return None;
    }
    Traces::start().unwrap_or_else(|problem| {
        output.warn(&format!("no traces are sent: {problem}"));
        None
    })
}

#[cfg(test)]
mod tests;
