//! `stator policy`.

use super::args::{ClusterArgs, PolicyArgs, to_yaml};
use super::connect;
use super::error::{CliError, ExitStatus};
use super::output::Output;
use clap::{Args, Subcommand};
use stator_model::fleet_policy::export::admission_policies;

/// Export the policies of a fleet
#[derive(Debug, Args)]
pub struct PolicyCommandArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    Export(ExportArgs),
}

/// Print admission policies that enforce the rules for pods and for what they name on the API server, also for clients
/// other than stator
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 printed; 2 the policies cannot be read.\n\nExample:\n  stator policy export --policies policies.yaml | kubectl apply -f -"
)]
struct ExportArgs {
    #[command(flatten)]
    policies: PolicyArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub async fn run(arguments: &PolicyCommandArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let PolicyCommand::Export(arguments) = &arguments.command;
    let policies = connect::read_policies(&arguments.policies, &arguments.cluster, output).await?;
    let all = policies.all();
    if let Some(reason) = all.unreadable().next() {
        return Err(CliError::input(format!("the policies of the fleet cannot be read: {reason}")));
    }
    let objects = all.documents().flat_map(admission_policies);
    let documents: Vec<String> = objects.map(|object| to_yaml(&object)).collect::<Result<_, _>>()?;
    output.write_result(&documents.join("---\n"))?;
    Ok(ExitStatus::Success)
}
