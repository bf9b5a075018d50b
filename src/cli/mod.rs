//! The command line: one file a verb. Each parses, calls the modules, and prints.

mod args;
mod error;
mod hub;
mod oidc;
mod open;
mod output;

mod check;
mod connect;
mod controller;
mod explain;
mod files;
mod fmt;
mod get;
mod guesses;
mod history;
mod import;
mod init;
mod label_selector;
mod list_output;
mod live_plan;
mod lock;
mod logs;
mod lsp;
mod plan;
mod policy;
mod progress;
mod render;
mod repository;
mod repository_observer;
mod revisions;
mod rollback;
mod saved_plan;
mod schema;
mod selected_part;
mod server;
mod shell_files;
mod signals;
mod sources;
mod status;
mod support;
mod sync;
mod targets;
mod tree;
mod trusted_contexts;
mod upgrade_check;
mod validate;
mod version;
mod wait;
mod web;

pub use error::{CliError, CliErrorKind, ExitStatus};
pub use explain::RULE_GROUPS;

use crate::telemetry::traces::TracePipeline;
use crate::telemetry::{self, LogEncoding, LogSettings};
use args::GlobalArgs;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use output::Output;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::pin::Pin;
use std::time::Duration;

/// GitOps for NVIDIA Dynamo: sync models from git to a cluster, as Dynamo objects
#[derive(Debug, Parser)]
#[command(
    name = "stator",
    version,
    max_term_width = 100,
    propagate_version = false,
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Cli {
    #[command(flatten)]
    common: GlobalArgs,
    #[command(subcommand)]
    verb: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    Init(init::InitArgs),
    Validate(validate::ValidateArgs),
    Fmt(fmt::FmtArgs),
    Render(render::RenderArgs),
    Plan(plan::PlanArgs),
    Sync(sync::SyncArgs),
    Suspend(sources::suspend::SuspendArgs),
    Resume(sources::suspend::ResumeArgs),
    Rollback(rollback::RollbackArgs),
    Lock(lock::LockArgs),
    Check(check::CheckArgs),
    Status(status::StatusArgs),
    Tree(tree::TreeArgs),
    Logs(logs::LogsArgs),
    Open(open::OpenArgs),
    Support(support::SupportArgs),
    Wait(wait::WaitArgs),
    Get(get::GetArgs),
    Create(sources::create::CreateArgs),
    Describe(history::DescribeArgs),
    History(history::HistoryArgs),
    Import(import::ImportArgs),
    Controller(Box<controller::ControllerArgs>),
    Server(server::ServerArgs),
    Schema(schema::SchemaArgs),
    Explain(explain::ExplainArgs),
    Lsp(lsp::LspArgs),
    Policy(policy::PolicyCommandArgs),
    Completions(shell_files::CompletionsArgs),
    Man(shell_files::ManArgs),
    Version(version::VersionArgs),
}

/// The commands in the help, by what one does with them.
const COMMAND_GROUPS: [(&str, &[&str]); 5] = [
    ("Write", &["init", "validate", "fmt", "render", "explain", "import"]),
    ("Ship", &["plan", "sync", "wait", "rollback", "lock"]),
    ("Look", &["status", "describe", "logs", "tree", "history"]),
    ("Sources", &["get", "create", "suspend", "resume", "controller", "server"]),
    ("More", &["check", "open", "support", "version", "help"]),
];

/// The whole command line, as help, completions and manual pages show it.
pub fn command() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    let header = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let mut groups = String::new();
    for (group, names) in COMMAND_GROUPS {
        groups.push_str(&format!("{header}{group}:{header:#}\n"));
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about).cloned().unwrap_or_default();
            groups.push_str(&format!("  {literal}{name:<11}{literal:#} {about}\n"));
        }
    }
    let shown: Vec<&str> = COMMAND_GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
    let others = command.get_subcommands().map(clap::Command::get_name).filter(|name| !shown.contains(name));
    let others = others.collect::<Vec<_>>().join(", ");
    Cli::command().help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}  For scripts and editors: {others}\n\n\
         {header}Options:{header:#}\n{{options}}\n\nstator help COMMAND shows the help of a command.\n"
    ))
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

/// What is said on the command line goes over a variable that says something else: of two options that exclude each other,
/// the one that a variable sets counts as not set.
fn yielding_to_flags(command: clap::Command, arguments: &[OsString]) -> clap::Command {
    fn without_variables(command: clap::Command) -> clap::Command {
        command.mut_args(|arg| arg.env(clap::builder::Resettable::Reset)).mut_subcommands(without_variables)
    }
    fn yielding(command: clap::Command, matches: &clap::ArgMatches) -> clap::Command {
        let is_written = |arg: &clap::Arg| {
            let source = matches
                .try_contains_id(arg.get_id().as_str())
                .ok()
                .and_then(|_| matches.value_source(arg.get_id().as_str()));
            source == Some(clap::parser::ValueSource::CommandLine)
        };
        let written: Vec<&clap::Arg> = command.get_arguments().filter(|arg| is_written(arg)).collect();
        let excluded = |arg: &clap::Arg| {
            let conflicts = |one: &clap::Arg, other: &clap::Arg| {
                command.get_arg_conflicts_with(one).iter().any(|it| it.get_id() == other.get_id())
            };
            written.iter().any(|flag| conflicts(flag, arg) || conflicts(arg, flag))
        };
        let yield_to: BTreeSet<clap::Id> =
            command.get_arguments().filter(|arg| excluded(arg)).map(|arg| arg.get_id().clone()).collect();
        let command = command.mut_args(|arg| match yield_to.contains(arg.get_id()) {
            true => arg.env(clap::builder::Resettable::Reset),
            false => arg,
        });
        match matches.subcommand() {
            Some((name, below)) => command.mut_subcommand(name, |command| yielding(command, below)),
            None => command,
        }
    }
    let parsed = without_variables(command.clone()).ignore_errors(true).try_get_matches_from(arguments);
    match parsed {
        Ok(matches) => yielding(command, &matches),
        // Help, or what the second reading says better.
        Err(_) => command,
    }
}

/// The variable that stands for a long flag.
fn variable_of(long: &str) -> String {
    format!("STATOR_{}", long.to_uppercase().replace('-', "_"))
}

/// Refuses variables of flags that only the command line gives: to ignore `STATOR_DRY_RUN` would do what nobody wanted, and
/// to follow `STATOR_ALLOW` would approve every command of a profile.
fn refuse_variables(root: &clap::Command, matches: &clap::ArgMatches) -> Result<(), CliError> {
    let (mut command, mut matches) = (root, matches);
    while let Some((name, below)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else { break };
        (command, matches) = (found, below);
    }
    fn is_read(command: &clap::Command, variable: &str) -> bool {
        command.get_arguments().any(|argument| argument.get_env().is_some_and(|name| name == variable))
            || command.get_subcommands().any(|command| is_read(command, variable))
    }
    let arguments = root.get_arguments().chain(command.get_arguments());
    let flags = arguments.filter_map(clap::Arg::get_long).filter(|long| !matches!(*long, "help" | "version"));
    let renamed = guesses::RENAMED_FLAGS.iter().filter(|(verb, ..)| *verb == command.get_name());
    let flags = flags.map(|long| (long, long)).chain(renamed.map(|(_, old, new)| (*old, *new)));
    let set: BTreeMap<String, String> = flags
        .map(|(old, long)| (variable_of(old), format!("--{long}")))
        .filter(|(variable, _)| std::env::var_os(variable).is_some_and(|value| !value.is_empty()))
        .filter(|(variable, _)| !is_read(root, variable))
        .collect();
    if set.is_empty() {
        return Ok(());
    }
    let variables = set.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let flags = set.values().map(String::as_str).collect::<Vec<_>>().join(", ");
    Err(CliError::usage(format!("stator does not read {variables}"))
        .with_hint(format!("pass {flags} on the command line, and unset the variable")))
}

/// Parses the arguments and carries them out. Neither generic nor open in its type, as whoever calls it would else compile
/// everything that it calls once more.
pub fn run(arguments: Vec<OsString>) -> Pin<Box<dyn Future<Output = ExitStatus>>> {
    Box::pin(run_arguments(arguments))
}

async fn run_arguments(arguments: Vec<OsString>) -> ExitStatus {
    signals::listen();
    if let Some(completed) = shell_files::complete(&arguments) {
        return if completed.is_ok() { ExitStatus::Success } else { ExitStatus::Error };
    }
    let (arguments, renamed) = guesses::translate_renamed(arguments);
    let written = arguments.clone();
    let mut command = yielding_to_flags(without_empty_variables(command()), &written);
    let refused = guesses::refuse_single_dash(&written, &command).map_or(Ok(()), Err);
    let (cli, matched) = match refused
        .and_then(|()| command.try_get_matches_from_mut(arguments))
        .and_then(|matches| sources::remote_sync::check_conflicts(&mut command, &matches).map(|()| matches))
        .and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)))
    {
        Ok(both) => both,
        Err(error) => {
            // Help and version are results; a reader of either that went away is no failure.
            let error = guesses::lead_on(error, &written);
            let _ = error.print();
            return if error.exit_code() == 0 { ExitStatus::Success } else { ExitStatus::Error };
        }
    };
    let output = Output::new(&cli.common);
    if let Err(error) = refuse_variables(&self::command(), &matched) {
        output.report_error(&error);
        return error.exit_status();
    }
    for line in renamed {
        output.warn(&line);
    }
    init_logging(&cli.common, &output, &cli.verb);
    let traces = start_traces(&cli.verb, &output);
    let done = run_command(cli.verb, &output).await;
    if let Some(traces) = traces {
        traces.shutdown(TRACE_FLUSH_TIMEOUT).await;
    }
    match done {
        Ok(exit) => exit,
        Err(error) => {
            if error.kind() != CliErrorKind::BrokenPipe {
                output.report_error(&error);
            }
            error.exit_status()
        }
    }
}

async fn run_command(verb: CliCommand, output: &Output) -> Result<ExitStatus, CliError> {
    match verb {
        CliCommand::Init(arguments) => init::run(&arguments, output),
        CliCommand::Validate(arguments) => validate::run(&arguments, output),
        CliCommand::Fmt(arguments) => fmt::run(&arguments, output),
        CliCommand::Render(arguments) => render::run(&arguments, output),
        CliCommand::Plan(arguments) => plan::run(&arguments, output).await,
        CliCommand::Sync(arguments) => sync::run(&arguments, output).await,
        CliCommand::Suspend(arguments) => sources::suspend::suspend(&arguments, output).await,
        CliCommand::Resume(arguments) => sources::suspend::resume(&arguments, output).await,
        CliCommand::Rollback(arguments) => rollback::run(&arguments, output).await,
        CliCommand::Lock(arguments) => lock::run(&arguments, output).await,
        CliCommand::Check(arguments) => check::run(&arguments, output).await,
        CliCommand::Status(arguments) => status::run(&arguments, output).await,
        CliCommand::Tree(arguments) => tree::run(&arguments, output).await,
        CliCommand::Logs(arguments) => logs::run(&arguments, output).await,
        CliCommand::Open(arguments) => open::run(&arguments, output).await,
        CliCommand::Support(arguments) => support::run(&arguments, output).await,
        CliCommand::Wait(arguments) => wait::run(&arguments, output).await,
        CliCommand::Get(arguments) => get::run(&arguments, output).await,
        CliCommand::Create(arguments) => sources::create::run(&arguments, output).await,
        CliCommand::Describe(arguments) => history::describe(&arguments, output).await,
        CliCommand::History(arguments) => history::history(&arguments, output).await,
        CliCommand::Import(arguments) => import::run(&arguments, output).await,
        CliCommand::Controller(arguments) => controller::run(&arguments, output).await,
        CliCommand::Server(arguments) => server::run(&arguments, output).await,
        CliCommand::Schema(arguments) => schema::run(&arguments, output),
        CliCommand::Explain(arguments) => explain::run(&arguments, output).await,
        CliCommand::Lsp(arguments) => lsp::run(&arguments, output),
        CliCommand::Policy(arguments) => policy::run(&arguments, output).await,
        CliCommand::Completions(arguments) => shell_files::run_completions(&arguments, output),
        CliCommand::Man(arguments) => shell_files::run_man(&arguments, output),
        CliCommand::Version(arguments) => version::run(&arguments, output),
    }
}

/// Logs go to standard error: warnings by default, more with each `-v`. `STATOR_LOG` takes filters
/// (`stator_cluster::sync=debug`), `STATOR_LOG_FORMAT=json` makes each line JSON.
fn init_logging(common: &GlobalArgs, output: &Output, verb: &CliCommand) {
    // What runs for days says what it does.
    let runs = if let CliCommand::Controller(arguments) = verb {
        Some(arguments.log_format)
    } else if let CliCommand::Server(arguments) = verb {
        Some(arguments.log_format)
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
    // Row U14 of the new user's list: libraries log below a warning only with the third `-v`. The client of the Kubernetes API
    // logs what comes back as an error anyway.
    let libraries = if common.quiet { "error" } else { "warn" };
    let usual = match common.verbose {
        ..3 => format!("{libraries},stator={level},kube_client=off"),
        3.. => level.to_owned(),
    };
    let json = runs == Some(controller::LogFormat::Json)
        || std::env::var("STATOR_LOG_FORMAT").is_ok_and(|format| format == "json");
    let format = if json { LogEncoding::Json } else { LogEncoding::Text };
    let asked = std::env::var("STATOR_LOG").ok().filter(|filter| !filter.trim().is_empty());
    let filter = asked.as_deref().unwrap_or(&usual);
    let settings = LogSettings { format, color: output.stderr_style.color, time: runs.is_some(), filter };
    let stderr = || -> Box<dyn std::io::Write> { Box::new(std::io::stderr()) };
    if let Err(error) = telemetry::init_log(stderr, settings) {
        output.warn(&format!("STATOR_LOG is invalid ({error}) and is ignored"));
        let _ = telemetry::init_log(stderr, LogSettings { filter: &usual, ..settings });
    }
}

/// How long spans that wait are sent at the end.
const TRACE_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Traces of what runs for days, where the environment says where to. A problem with them is reported, but no reason not to
/// run.
fn start_traces(verb: &CliCommand, output: &Output) -> Option<TracePipeline> {
    if !matches!(verb, CliCommand::Controller(_) | CliCommand::Server(_)) {
        return None;
    }
    TracePipeline::start().unwrap_or_else(|problem| {
        output.warn(&format!("traces are off: {problem}"));
        None
    })
}

#[cfg(test)]
mod tests;
