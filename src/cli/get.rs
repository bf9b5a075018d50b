//! `stator get`.

use super::error::{CliError, ExitStatus};
use super::output::Output;
use super::{sources, status};
use clap::{Args, Subcommand};

/// List models or sources
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub struct GetArgs {
    #[command(subcommand)]
    what: GetCommand,
}

#[derive(Debug, Subcommand)]
enum GetCommand {
    /// List the models of an environment, like `stator status`
    #[command(visible_alias = "model")]
    Models(status::StatusArgs),
    #[command(visible_alias = "source")]
    Sources(sources::list::GetSourcesArgs),
}

pub async fn run(arguments: &GetArgs, output: &Output) -> Result<ExitStatus, CliError> {
    match &arguments.what {
        GetCommand::Models(arguments) => status::run(arguments, output).await,
        GetCommand::Sources(arguments) => sources::list::run(arguments, output).await,
    }
}
