//! What an earlier process, or another replica, began to say of commits and did not bring to an end.
//!
//! Neither the mirror nor the source's status need to know of such a commit: a mirror goes with its pod, and a status is
//! not written while the API server is away. The git host knows, so it is asked, from the newest commit down.

use super::commit::PolledCommit;
use super::context::ReconcileContext;
use crate::controller::metrics::MirrorOperation;
use crate::controller::mirror_handle::GitError;
use crate::controller::report::commit_reporter::{DesiredStatuses, InitialStatus};
use stator_cluster::random::random_bits;
use stator_core::retry::Backoff;
use std::time::Duration;
use tokio::sync::watch;

/// Commits that are asked for at most: each is a request. A source that is looked at every minute rarely skips one.
const MAX_COMMITS: u16 = 20;
/// After so many that have ended, those before have as well.
const CONCLUDED_COMMITS: usize = 2;
/// Pauses between tries.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Why it is not known yet.
enum RecoveryError {
    Git(GitError),
    Forge(String),
}

impl ReconcileContext {
    /// Asks the git host once, and ends when every commit that was left without an end is about to have one.
    pub(super) async fn recover_pending_statuses(
        &self,
        mut commits: watch::Receiver<Option<PolledCommit>>,
        desired: &DesiredStatuses,
    ) {
        let start = desired.wait_for_initial().await;
        let newest = commits.wait_for(Option::is_some).await.ok().and_then(|commit| commit.clone());
        let (Some(InitialStatus::Unconcluded), Some(newest)) = (start, newest) else { return };
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, random_bits());
        loop {
            let error = match self.recall_commits(&newest, desired).await {
                Ok(()) => return,
                Err(RecoveryError::Git(error)) if error.may_pass().is_none() => {
                    let source = &self.source.key;
                    tracing::warn!(%source, "commits before {} may stay pending: {error}", newest.short());
                    return;
                }
                Err(RecoveryError::Git(error)) => error.to_string(),
                Err(RecoveryError::Forge(error)) => error,
            };
            tracing::debug!(source = %self.source.key, error, "the statuses of older commits are requested again");
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }

    async fn recall_commits(&self, newest: &PolledCommit, desired: &DesiredStatuses) -> Result<(), RecoveryError> {
        // Nothing is said of the newest commit before this is known.
        desired.recall_statuses(&newest.commit).await.map_err(RecoveryError::Forge)?;
        desired.post_all();
        let commit = newest.commit.clone();
        let line =
            self.git.with(MirrorOperation::Fetch, move |mirror| mirror.first_parent_history(&commit, MAX_COMMITS));
        let mut commits = line.await.map_err(RecoveryError::Git)?;
        // What was pushed over is in no line.
        let pushed_over: Vec<String> =
            self.commits_before(newest).into_iter().filter(|commit| !commits.contains(commit)).collect();
        let mut concluded = 0;
        commits.retain(|commit| *commit != newest.commit);
        for commit in &pushed_over {
            desired.recall_statuses(commit).await.map_err(RecoveryError::Forge)?;
        }
        for commit in &commits {
            concluded += usize::from(desired.recall_statuses(commit).await.map_err(RecoveryError::Forge)?);
            desired.post_all();
            if concluded == CONCLUDED_COMMITS {
                break;
            }
        }
        desired.post_all();
        Ok(())
    }
}
