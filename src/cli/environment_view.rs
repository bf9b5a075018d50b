//! An environment, looked at once: what commands that only show begin with.

use super::args::{ClusterArgs, EnvironmentArgs, FrontendArgs};
use super::connect::ClusterAccess;
use super::error::CliError;
use super::output::Output;
use super::status::open_cluster;
use super::targets::TargetArgs;
use super::{connect, live_plan, repository};
use stator_cluster::cluster::AnyCluster;
use stator_cluster::sync::EnvironmentStatus;

/// An environment and its cluster.
#[derive(Debug)]
pub struct EnvironmentView {
    /// The cluster.
    pub cluster: AnyCluster,
    /// The environment's namespace.
    pub namespace: String,
    /// How the models that are targets stand.
    pub status: EnvironmentStatus,
}

/// Looks at the targets in an environment.
///
/// # Errors
/// When the repository or the cluster cannot be read, or a target is neither.
pub async fn view_environment(
    targets: &TargetArgs,
    environment: &EnvironmentArgs,
    cluster: &ClusterArgs,
    frontends: Option<FrontendArgs>,
    output: &Output,
) -> Result<EnvironmentView, CliError> {
    let mut opened = repository::open_targets(targets, output)?;
    opened.note_when_empty(output);
    let mut selection = opened.select(environment, output)?;
    let namespace = selection.environment.namespace.to_string();
    let cluster = open_cluster(&opened, &selection, cluster, ClusterAccess::Read, output).await?;
    let cluster = match frontends {
        Some(frontends) => frontends.apply(&cluster),
        None => cluster,
    };
    connect::preflight(&cluster, output).await?;
    connect::detect_platform(&cluster, &mut selection).await;
    let status = live_plan::read_statuses(&opened, selection, &cluster).await?;
    Ok(EnvironmentView { cluster, namespace, status })
}
