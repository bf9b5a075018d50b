//! `stator diff`.

use super::error::{CliError, ExitStatus};
use super::output::Output;
use super::plan::{self, PlanTargetArgs};
use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};
use stator_model::present::{diff, findings};

/// Show what a sync would change as a unified diff
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 no differences; 1 differences, or an intent has errors; 2 the diff failed.")]
pub struct DiffArgs {
    #[command(flatten)]
    target: PlanTargetArgs,
    /// Whether to exit with 1 when there is a difference
    #[arg(long, env = "STATOR_EXIT_CODE", value_name = "BOOL", default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    exit_code: bool,
}

pub async fn run(arguments: &DiffArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let plan = arguments.target.plan(arguments.target.open(output)?, output).await?;
    output.write_result(&diff::unified(&plan, &output.stdout_style))?;
    output.write_stderr(&findings::brief(&plan.findings, &output.stderr_style));
    let faulty = plan.findings.iter().any(stator_core::finding::Finding::is_error);
    let differs = arguments.exit_code && plan::has_changes(&plan);
    Ok(if faulty || differs { ExitStatus::Negative } else { ExitStatus::Success })
}
