//! Whether the cluster keeps what is written to it: a conversion webhook that goes, or an older definition that is put back,
//! makes it drop fields, and nothing in its answers says so.

use stator_cluster::cluster::kube::PreflightProblem;
use stator_cluster::cluster::{AnyCluster, ClusterError};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long a look counts that found nothing: sources that are synced at the same moment share one.
const LOOK_TTL: Duration = Duration::from_millis(500);

/// Looks at the definitions before something is written. A source at rest costs nothing.
#[derive(Debug)]
pub(super) struct WriteFitness {
    /// As stator itself sees it: those that it acts as need not be able to read definitions.
    cluster: AnyCluster,
    /// When nothing was found. Whoever looks holds the lock, and the others wait for what he finds.
    fit_at: Mutex<Option<Instant>>,
}

impl WriteFitness {
    pub(super) fn new(cluster: AnyCluster) -> Self {
        Self { cluster, fit_at: Mutex::default() }
    }

    /// What speaks against writing; nothing where nothing does, as far as stator may see.
    ///
    /// # Errors
    /// When the cluster cannot be asked.
    pub(super) async fn obstacle(&self) -> Result<Option<PreflightProblem>, ClusterError> {
        let Some(cluster) = self.cluster.as_kubernetes() else { return Ok(None) };
        let mut fit_at = self.fit_at.lock().await;
        if fit_at.is_some_and(|at| at.elapsed() < LOOK_TTL) {
            return Ok(None);
        }
        let report = cluster.preflight().await?;
        let obstacle = report.problems.into_iter().find(|one| one.blocks);
        *fit_at = obstacle.is_none().then(Instant::now);
        Ok(obstacle)
    }
}
