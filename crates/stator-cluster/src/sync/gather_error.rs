//! Why a cluster could not be looked at.

use crate::cluster::ClusterError;

/// Why a cluster could not be looked at.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "{what} cannot be read from the cluster, so nothing is planned (a partial view would look like removals): {cause}"
)]
pub struct GatherError {
    /// What was asked for.
    pub what: String,
    /// The cluster's answer.
    #[source]
    pub cause: ClusterError,
}
