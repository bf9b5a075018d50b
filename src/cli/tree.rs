//! `stator tree`.

use super::args::{ClusterArgs, EnvironmentArgs, FrontendArgs, to_yaml};
use super::connect;
use super::error::{CliError, ExitStatus};
use super::output::Output;
use super::status::{EnvironmentView, view_environment};
use super::targets::TargetArgs;
use clap::{Args, ValueEnum};
use stator_model::present::TerminalOptions;
use stator_model::present::tree::{self, ObjectForest};

/// Show each model's objects, and the pods created from them
///
/// Covers every kind that the cluster serves, except Events and Secrets, and shows each object below its owners. Kinds
/// that you may not list are named at the end.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 shown; 2 the repository or the cluster cannot be read.")]
pub struct TreeArgs {
    #[command(flatten)]
    targets: TargetArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    frontends: FrontendArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: TreeFormat,
    /// Print only rows, without headings
    #[arg(long)]
    no_headers: bool,
}

/// The forms of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TreeFormat {
    /// A tree, with a table beside it
    #[value(alias = "table")]
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// KIND/NAMESPACE/NAME of each object
    Name,
}

pub async fn run(arguments: &TreeArgs, output: &Output) -> Result<ExitStatus, CliError> {
    connect::with_interrupt(&arguments.cluster, show(arguments, output)).await
}

async fn show(arguments: &TreeArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let EnvironmentView { cluster, namespace, status } = view_environment(
        &arguments.targets,
        &arguments.environment,
        &arguments.cluster,
        Some(arguments.frontends),
        output,
    )
    .await?;
    let live = tree::live_objects(&status.models, &status.live);
    let below = cluster.objects_below(&namespace, &live).await?;
    let forest = tree::build_forest(&status.models, &live, &below.objects, below.unlisted);
    output.write_result(&format_forest(&forest, arguments, output)?)?;
    Ok(ExitStatus::Success)
}

fn format_forest(forest: &ObjectForest, arguments: &TreeArgs, output: &Output) -> Result<String, CliError> {
    let look = TerminalOptions { rows_only: arguments.no_headers, ..output.stdout_style };
    Ok(match arguments.output {
        TreeFormat::Text => tree::forest_table(forest, jiff::Timestamp::now(), &look),
        TreeFormat::Json => stator_model::present::json(forest)?,
        TreeFormat::Yaml => to_yaml(forest)?,
        TreeFormat::Name => tree::forest_names(forest),
    })
}
