//! `stator completions`.

use super::error::{CliError, ExitStatus};
use super::output::Output;
use clap::Args;
use clap_complete::Shell;

/// Print the completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "Example: stator completions bash > /etc/bash_completion.d/stator")]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub fn run(arguments: &CompletionsArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::command(), "stator", &mut text);
    output.write_result(&String::from_utf8_lossy(&text))?;
    Ok(ExitStatus::Success)
}
