//! What a shell is given of the command line: `stator man` and `stator completions`.

use super::error::{CliError, ExitStatus};
use super::files;
use super::output::Output;
use clap::{Args, ValueHint};
use clap_complete::Shell;
use std::path::PathBuf;

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
#[derive(Debug, Args)]
#[command(after_help = "Example: stator completions bash > /etc/bash_completion.d/stator")]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub fn run_completions(arguments: &CompletionsArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::command(), "stator", &mut text);
    output.write_result(&String::from_utf8_lossy(&text))?;
    Ok(ExitStatus::Success)
}
