//! What a shell is given of the command line: `stator man` and `stator completions`.

use super::args::{ClusterArgs, GlobalArgs};
use super::error::{CliError, ExitStatus};
use super::explain::explainable_words;
use super::files;
use super::output::Output;
use super::repository::{self, OpenedRepository};
use super::sources::SourceClient;
use clap::{Args, ValueHint};
use clap_complete::env::{CompleteEnv, Shells};
use clap_complete::{ArgValueCompleter, CompletionCandidate, PathCompleter, Shell, engine::ValueCompleter as _};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::runtime::Handle;

/// Write the manual pages, one per command, into a folder
#[derive(Debug, Args)]
#[command(after_help = "Example: stator man /usr/local/share/man/man1")]
pub struct ManArgs {
    /// The folder; created if missing
    #[arg(value_hint = ValueHint::DirPath)]
    directory: PathBuf,
}

pub fn run_man(arguments: &ManArgs, output: &Output) -> Result<ExitStatus, CliError> {
    // A page of `help` would repeat the pages of all others.
    let mut command = super::command().disable_help_subcommand(true);
    // Building gives sub-commands their full names and global options.
    command.build();
    let pages = render_pages(&command, "stator")?;
    for (name, page) in &pages {
        files::write_atomically(&arguments.directory.join(name), page)?;
    }
    output.note(&format!("{} manual pages written to {}", pages.len(), arguments.directory.display()));
    Ok(ExitStatus::Success)
}

/// One page a command that does something by itself.
fn render_pages(command: &clap::Command, name: &str) -> Result<Vec<(String, Vec<u8>)>, CliError> {
    let mut page = Vec::new();
    let title = name.to_owned();
    clap_mangen::Man::new(command.clone().name(title).bin_name(name.replace('-', " "))).render(&mut page)?;
    let mut pages = vec![(format!("{name}.1"), page)];
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        pages.extend(render_verb_pages(verb, name)?);
    }
    Ok(pages)
}

fn render_verb_pages(verb: &clap::Command, parent: &str) -> Result<Vec<(String, Vec<u8>)>, CliError> {
    render_pages(verb, &format!("{parent}-{}", verb.get_name()))
}

/// Print the completion script for a shell
///
/// The script asks stator itself, so that it completes models, environments, contexts, sources and fields, too.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  stator completions bash > /etc/bash_completion.d/stator\n  stator completions zsh > /usr/local/share/zsh/site-functions/_stator\n  stator completions fish > ~/.config/fish/completions/stator.fish"
)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// What a shell sets that asks for completions.
const COMPLETION_VARIABLE: &str = "_STATOR_COMPLETE";
/// How long a cluster may take to name its sources.
const SOURCES_TIMEOUT: Duration = Duration::from_secs(2);

pub fn run_completions(arguments: &CompletionsArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let shell = shells.completer(&arguments.shell.to_string());
    let shell = shell.ok_or_else(|| CliError::usage(format!("there are no completions for {}", arguments.shell)))?;
    shell.write_registration(COMPLETION_VARIABLE, "stator", "stator", "stator", &mut script)?;
    output.write_result(&String::from_utf8_lossy(&script))?;
    Ok(ExitStatus::Success)
}

/// Answers a shell that asks for completions; `None` where none does.
pub fn complete(arguments: &[OsString]) -> Option<Result<(), clap::Error>> {
    std::env::var_os(COMPLETION_VARIABLE)?;
    let completion = CompleteEnv::with_factory(|| with_completers(super::command())).var(COMPLETION_VARIABLE);
    Some(completion.try_complete(arguments, std::env::current_dir().ok().as_deref()).map(|_| ()))
}

/// The command line, with what completes the values of its arguments.
fn with_completers(command: clap::Command) -> clap::Command {
    let complete = |argument: clap::Arg| match argument.get_id().as_str() {
        "targets" | "model" => argument.add(ArgValueCompleter::new(|word: &OsStr| {
            let paths = PathCompleter::any().complete(word).into_iter().filter(is_plain);
            candidates(word, model_names()).into_iter().chain(paths).collect::<Vec<_>>()
        })),
        "environment" => argument.add(ArgValueCompleter::new(|word: &OsStr| candidates(word, environment_names()))),
        "context" | "contexts" => {
            argument.add(ArgValueCompleter::new(|word: &OsStr| candidates(word, context_names())))
        }
        "source" | "sources" => argument.add(ArgValueCompleter::new(|word: &OsStr| candidates(word, source_names()))),
        "field" => argument
            .add(ArgValueCompleter::new(|word: &OsStr| candidates(word, explainable_words(&word.to_string_lossy())))),
        _ => argument,
    };
    command.mut_args(complete).mut_subcommands(with_completers)
}

fn candidates(word: &OsStr, names: Vec<String>) -> Vec<CompletionCandidate> {
    let fits = |name: &String| name.as_bytes().starts_with(word.as_encoded_bytes());
    names.into_iter().filter(fits).map(CompletionCandidate::new).collect()
}

/// Whether a candidate needs no quotes: a shell puts it on the line as it is, and a repository may name its files as it likes.
fn is_plain(candidate: &CompletionCandidate) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._/@:+-".contains(byte);
    candidate.get_value().as_encoded_bytes().iter().all(is_plain)
}

/// What is typed already behind an option.
fn typed(option: &str) -> Option<String> {
    let words: Vec<String> = std::env::args_os().filter_map(|word| word.into_string().ok()).collect();
    let behind = |(at, word): (usize, &String)| match word.strip_prefix(option)? {
        "" => words.get(at + 1).cloned(),
        rest => rest.strip_prefix('=').map(str::to_owned),
    };
    words.iter().enumerate().find_map(behind)
}

/// The repository of the current folder, read without a word.
fn opened_here() -> Option<OpenedRepository> {
    repository::open(Path::new("."), &Output::new(&GlobalArgs::quiet())).ok()
}

fn environment_names() -> Vec<String> {
    opened_here().map(|opened| opened.workspace.environment_names()).unwrap_or_default()
}

fn model_names() -> Vec<String> {
    let Some(opened) = opened_here() else { return Vec::new() };
    let names = opened.workspace.environment_names();
    let resolved = names.iter().filter_map(|name| opened.workspace.resolve_environment(Some(name)).ok());
    let models: BTreeSet<String> =
        resolved.flat_map(|one| one.intents.iter().map(|intent| intent.name.to_string()).collect::<Vec<_>>()).collect();
    models.into_iter().collect()
}

fn context_names() -> Vec<String> {
    let read = kube::config::Kubeconfig::read();
    read.map(|config| config.contexts.into_iter().map(|context| context.name).collect()).unwrap_or_default()
}

/// The sources of the namespace and cluster that are typed, where the cluster tells in time.
fn source_names() -> Vec<String> {
    let ask = async {
        let output = Output::new(&GlobalArgs::quiet());
        let kubeconfig = typed("--kubeconfig").map(PathBuf::from);
        let or_set = |option, variable| typed(option).or_else(|| std::env::var(variable).ok());
        let cluster = or_set("--cluster", "STATOR_CLUSTER");
        let context = or_set("--context", "STATOR_CONTEXT");
        let place = ClusterArgs { cluster, context, kubeconfig, ..ClusterArgs::default() };
        let namespace = typed("--namespace").or_else(|| typed("-n"));
        let client = SourceClient::open(&place, namespace.as_deref(), &output).await.ok()?;
        let sources = client.list(false).await.ok()?;
        Some(sources.iter().map(|source| source.name().to_owned()).collect())
    };
    let ask = async { tokio::time::timeout(SOURCES_TIMEOUT, ask).await.ok().flatten() };
    tokio::task::block_in_place(|| Handle::current().block_on(ask)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completers_are_attached() {
        fn count(command: &clap::Command) -> usize {
            let own = command.get_arguments().filter(|argument| argument.get::<ArgValueCompleter>().is_some()).count();
            own + command.get_subcommands().map(count).sum::<usize>()
        }
        assert!(count(&with_completers(crate::cli::command())) > 40);
    }
}
