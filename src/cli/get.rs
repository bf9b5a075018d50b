//! `stator get`.

use super::error::{CliError, Exit};
use super::output::Output;
use super::{sources, status};
use clap::{Args, Subcommand};

/// List what there is
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The models of an environment, as `stator status` lists them
    #[command(visible_alias = "model")]
    Models(status::Arguments),
    #[command(visible_alias = "source")]
    Sources(sources::list::Arguments),
}

pub async fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CliError> {
    match &arguments.what {
        What::Models(arguments) => status::run(arguments, output).await,
        What::Sources(arguments) => sources::list::run(arguments, output).await,
    }
}
