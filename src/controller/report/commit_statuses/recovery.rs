//! What an earlier process, or another replica, began to report of commits and did not bring to an end.
//!
//! Neither the mirror nor the source's status need to know of such a commit: a mirror goes with its pod, and a status is
//! not written while the API server is away. The git host knows, so it is asked, from the newest commit down.

use super::{CommitStatuses, InitialStatus};
use crate::controller::status_wording::commit_label;
use futures_util::future::BoxFuture;
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

/// Why the line of a commit is not known.
pub(in crate::controller) struct HistoryError {
    /// What happened.
    pub(in crate::controller) message: String,
    /// Whether another try may go well.
    pub(in crate::controller) may_pass: bool,
}

impl CommitStatuses {
    /// Asks the git host for the commits before the newest one: the first of its line, which `history` reads, and those
    /// `before` it that are not in that line. Ends when every commit that was left without an end is about to have one.
    pub(in crate::controller) async fn recover_pending(
        &self,
        newest: &str,
        before: &BTreeSet<String>,
        history: impl Fn(u16) -> BoxFuture<'static, Result<Vec<String>, HistoryError>>,
    ) {
        if self.wait_for_initial().await != Some(InitialStatus::Unconcluded) {
            return;
        }
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, random_bits());
        loop {
            let error = match self.recall_commits(newest, before, &history).await {
                Ok(()) => return,
                Err(HistoryError { message, may_pass: false }) => {
                    tracing::warn!("commits before {} may stay pending: {message}", commit_label(newest));
                    return;
                }
                Err(HistoryError { message, may_pass: true }) => message,
            };
            tracing::debug!(error, "the statuses of older commits are requested again");
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }

    async fn recall_commits(
        &self,
        newest: &str,
        before: &BTreeSet<String>,
        history: &impl Fn(u16) -> BoxFuture<'static, Result<Vec<String>, HistoryError>>,
    ) -> Result<(), HistoryError> {
        let of_host = |message: String| HistoryError { message, may_pass: true };
        // Nothing is reported of the newest commit before this is known.
        self.recall_statuses(newest).await.map_err(of_host)?;
        self.post_all();
        let mut commits = history(MAX_COMMITS).await?;
        // What was pushed over is in no line.
        for commit in before.iter().filter(|commit| !commits.contains(commit)) {
            self.recall_statuses(commit).await.map_err(of_host)?;
        }
        commits.retain(|commit| commit != newest);
        let mut concluded = 0;
        for commit in &commits {
            concluded += usize::from(self.recall_statuses(commit).await.map_err(of_host)?);
            self.post_all();
            if concluded == CONCLUDED_COMMITS {
                break;
            }
        }
        self.post_all();
        Ok(())
    }
}
