//! `stator diff`.

use super::args::{ChangeArgs, ClusterArgs, EnvironmentArgs, PathArg};
use super::error::{CliError, Exit};
use super::output::Output;
use super::{connect, plan, repository};
use clap::{ArgAction, Args};
use stator_model::present::{diff, findings};

/// Show what a sync would change as a unified diff
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 no difference, 1 there is one or an intent has errors, 2 no diff.")]
pub struct Arguments {
    #[command(flatten)]
    path: PathArg,
    #[command(flatten)]
    environment: EnvironmentArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    changes: ChangeArgs,
    /// Whether to exit with 1 when there is a difference
    #[arg(long, env = "STATOR_EXIT_CODE", value_name = "BOOL", default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    exit_code: bool,
}

pub async fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CliError> {
    let opened = repository::open(&arguments.path.path, output)?;
    let plan = connect::within(
        &arguments.cluster,
        plan::against_live(opened, &arguments.environment, &arguments.cluster, &arguments.changes, output),
    )
    .await?;
    output.result(&diff::unified(&plan, &output.look))?;
    output.block(&findings::brief(&plan.findings, &output.notes));
    let faulty = plan.findings.iter().any(stator_core::finding::Finding::is_error);
    let differs = arguments.exit_code && plan::has_changes(&plan);
    Ok(if faulty || differs { Exit::No } else { Exit::Success })
}
