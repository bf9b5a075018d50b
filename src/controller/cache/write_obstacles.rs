//! What keeps stator from writing: rights that the API server refused a write for, until they are granted, and definitions
//! that would drop fields of what is written.
//!
//! Kubernetes tells nobody that a right was granted. So whoever waits asks from time to time whether the account may do
//! by now what was refused: a review stores nothing and costs the server less than the write would.
//!
//! Nor does it say that fields are dropped: a conversion webhook that goes, or an older definition that is put back, is found
//! by looking at the definitions before something is written.

use stator_cluster::cluster::kube::{AccessRight, KubeCluster, PreflightProblem};
use stator_cluster::cluster::{AnyCluster, ClusterError};
use stator_cluster::random::random_bits;
use stator_core::retry::Backoff;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

/// The longest delay before the first review, and between reviews.
const FIRST_REVIEW_DELAY: Duration = Duration::from_secs(5);
const MAX_REVIEW_DELAY: Duration = Duration::from_secs(60);
/// How long a look counts that found nothing: sources that are synced at the same moment share one.
const LOOK_TTL: Duration = Duration::from_millis(500);

/// The rights that a namespace's writes lacked when they were last tried.
#[derive(Debug)]
pub(super) struct DeniedRights {
    state: Mutex<DeniedRightsState>,
}

#[derive(Debug)]
struct DeniedRightsState {
    rights: Vec<AccessRight>,
    /// Goes on until a write is carried out: a server that grants the right and still refuses must not be asked for ever at
    /// the pace of the first time.
    delays: Backoff,
}

impl Default for DeniedRights {
    fn default() -> Self {
        let delays = Backoff::new(FIRST_REVIEW_DELAY, MAX_REVIEW_DELAY, random_bits());
        Self { state: Mutex::new(DeniedRightsState { rights: Vec::new(), delays }) }
    }
}

impl DeniedRights {
    fn lock(&self) -> MutexGuard<'_, DeniedRightsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what came of a write that needed these rights.
    pub(super) fn note_write<T>(&self, needed: &[AccessRight], result: &Result<T, ClusterError>) {
        let mut state = self.lock();
        let before = state.rights.len();
        if result.is_ok() {
            state.rights.retain(|right| !needed.contains(right));
            if state.rights.len() < before {
                state.delays.reset();
            }
        } else if let Err(ClusterError::Forbidden { .. }) = result {
            let new: Vec<AccessRight> = needed.iter().filter(|right| !state.rights.contains(right)).copied().collect();
            state.rights.extend(new);
        }
    }

    /// What is denied, and when to ask whether it still is.
    fn next_review(&self) -> Option<(Vec<AccessRight>, Duration)> {
        let mut state = self.lock();
        (!state.rights.is_empty()).then(|| (state.rights.clone(), state.delays.next_delay()))
    }

    /// Waits until the account has every right that a write lacked; for ever where none did.
    pub(super) async fn wait_until_granted(&self, cluster: &KubeCluster, namespace: &str) {
        let Some(mut review) = self.next_review() else { return std::future::pending().await };
        loop {
            let (denied, delay) = review;
            tokio::time::sleep(delay).await;
            let mut is_granted = true;
            for right in &denied {
                // Who does not answer is asked again.
                is_granted &= cluster.has_right(right, namespace).await.unwrap_or_default();
            }
            if is_granted {
                self.lock().rights.retain(|right| !denied.contains(right));
            }
            // Another source of the namespace may have found out first.
            match self.next_review() {
                Some(next) if !is_granted => review = next,
                Some(_) | None => return,
            }
        }
    }
}

/// Looks at the definitions before something is written. A source at rest costs nothing.
#[derive(Debug)]
pub(super) struct WriteFitness {
    /// As stator itself sees it: those that it acts as need not be able to read definitions.
    cluster: AnyCluster,
    /// When nothing was found. Whoever looks holds the lock, and the others wait for what he finds.
    fit_at: AsyncMutex<Option<Instant>>,
}

impl WriteFitness {
    pub(super) fn new(cluster: AnyCluster) -> Self {
        Self { cluster, fit_at: AsyncMutex::default() }
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
