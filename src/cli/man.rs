//! `stator man`.

use super::error::{CliError, Exit};
use super::files;
use super::output::Output;
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Write the manual pages, one a verb, into a folder
#[derive(Debug, Args)]
#[command(after_help = "Example: stator man /usr/local/share/man/man1")]
pub struct Arguments {
    /// The folder; it is made when it is missing
    #[arg(value_hint = ValueHint::DirPath)]
    directory: PathBuf,
}

pub fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CliError> {
    let mut command = super::command();
    // Building gives sub-commands their full names and global options.
    command.build();
    let pages = pages(&command, "stator")?;
    for (name, page) in &pages {
        files::write(&arguments.directory.join(name), page)?;
    }
    output.note(&format!("{} manual pages written to {}", pages.len(), arguments.directory.display()));
    Ok(Exit::Success)
}

/// One page a command that does something by itself.
fn pages(command: &clap::Command, name: &str) -> Result<Vec<(String, Vec<u8>)>, CliError> {
    let mut page = Vec::new();
    let title = name.to_owned();
    clap_mangen::Man::new(command.clone().name(title).bin_name(name.replace('-', " "))).render(&mut page)?;
    let mut pages = vec![(format!("{name}.1"), page)];
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        pages.extend(pages_of(verb, name)?);
    }
    Ok(pages)
}

fn pages_of(verb: &clap::Command, parent: &str) -> Result<Vec<(String, Vec<u8>)>, CliError> {
    pages(verb, &format!("{parent}-{}", verb.get_name()))
}
