//! Writes that the API server refused for want of a right, and finding out when it is granted.
//!
//! Kubernetes tells nobody that a right was granted. So whoever waits asks from time to time whether the account may do
//! by now what was refused: a review stores nothing and costs the server less than the write would.

use stator_cluster::cluster::ClusterError;
use stator_cluster::cluster::kube::{AccessRight, KubeCluster};
use stator_cluster::random::random_bits;
use stator_core::retry::Backoff;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest delay before the first review, and between reviews.
const FIRST_REVIEW_DELAY: Duration = Duration::from_secs(5);
const MAX_REVIEW_DELAY: Duration = Duration::from_secs(60);

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
