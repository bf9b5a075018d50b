//! What an earlier process, or another replica, began to say of commits and did not bring to an end.
//!
//! Neither the mirror nor the source's status need to know of such a commit: a mirror goes with its pod, and a status is
//! not written while the API server is away. The git host knows, so it is asked, from the newest commit down.

use super::{CommitStatuses, InitialStatus};
use crate::controller::metrics::MirrorOperation;
use crate::controller::mirror_handle::{GitError, MirrorHandle};
use crate::controller::status_wording::commit_label;
use stator_cluster::random::random_bits;
use stator_core::retry::Backoff;
use std::collections::BTreeSet;
use std::time::Duration;

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

impl CommitStatuses {
    /// Asks the git host for the commits before the newest one, which is in `git`, and for those `before` it that its line
    /// does not have; ends when every commit that was left without an end is about to have one.
    pub(in crate::controller) async fn recover_pending(
        &self,
        git: &MirrorHandle,
        newest: &str,
        before: &BTreeSet<String>,
    ) {
        if self.wait_for_initial().await != Some(InitialStatus::Unconcluded) {
            return;
        }
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, random_bits());
        loop {
            let error = match self.recall_commits(git, newest, before).await {
                Ok(()) => return,
                Err(RecoveryError::Git(error)) if error.may_pass().is_none() => {
                    tracing::warn!("commits before {} may stay pending: {error}", commit_label(newest));
                    return;
                }
                Err(RecoveryError::Git(error)) => error.to_string(),
                Err(RecoveryError::Forge(error)) => error,
            };
            tracing::debug!(error, "the statuses of older commits are requested again");
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }

    async fn recall_commits(
        &self,
        git: &MirrorHandle,
        newest: &str,
        before: &BTreeSet<String>,
    ) -> Result<(), RecoveryError> {
        // Nothing is said of the newest commit before this is known.
        self.recall_statuses(newest).await.map_err(RecoveryError::Forge)?;
        self.post_all();
        let commit = newest.to_owned();
        let line = git.with(MirrorOperation::Fetch, move |mirror| mirror.first_parent_history(&commit, MAX_COMMITS));
        let mut commits = line.await.map_err(RecoveryError::Git)?;
        // What was pushed over is in no line.
        for commit in before.iter().filter(|commit| !commits.contains(commit)) {
            self.recall_statuses(commit).await.map_err(RecoveryError::Forge)?;
        }
        commits.retain(|commit| commit != newest);
        let mut concluded = 0;
        for commit in &commits {
            concluded += usize::from(self.recall_statuses(commit).await.map_err(RecoveryError::Forge)?);
            self.post_all();
            if concluded == CONCLUDED_COMMITS {
                break;
            }
        }
        self.post_all();
        Ok(())
    }
}
