//! What an earlier process, or another replica, began to say of commits and did not bring to an end.
//!
//! Neither the mirror nor the source's status need to know of such a commit: a mirror goes with its pod, and a status is
//! not written while the API server is away. The git host knows, so it is asked, from the newest commit down.

use super::{Head, Unit};
use crate::controller::backoff::Backoff;
use crate::controller::metrics::Operation;
use crate::controller::mirror_handle::GitError;
use crate::controller::report::commit_reporter::{DesiredStatuses, InitialStatus};
use std::time::Duration;
use tokio::sync::watch;

/// Commits that are asked for at most: each is a request. A source that is looked at every minute rarely skips one.
const FAR: u16 = 20;
/// After so many that have ended, those before have as well.
const ENOUGH: usize = 2;
/// Pauses between tries.
const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(600);

/// Why it is not known yet.
enum Trouble {
    Git(GitError),
    Forge(String),
}

impl Unit {
    /// Looks back once, and ends when every commit that was left without an end is about to have one.
    pub(super) async fn look_back(&self, mut heads: watch::Receiver<Option<Head>>, wanted: &DesiredStatuses) {
        let start = wanted.wait_for_initial().await;
        let head = heads.wait_for(Option::is_some).await.ok().and_then(|head| head.clone());
        let (Some(InitialStatus::Unconcluded), Some(head)) = (start, head) else { return };
        let mut backoff = Backoff::new(FIRST, LONGEST);
        loop {
            let said = match self.looked_back(&head, wanted).await {
                Ok(()) => return,
                Err(Trouble::Git(error)) if error.may_pass().is_none() => {
                    let source = &self.source.key;
                    tracing::warn!(%source, "commits before {} may stay pending: {error}", head.short());
                    return;
                }
                Err(Trouble::Git(error)) => error.to_string(),
                Err(Trouble::Forge(error)) => error,
            };
            tracing::debug!(source = %self.source.key, error = said, "older commits are asked for again");
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }

    async fn looked_back(&self, head: &Head, wanted: &DesiredStatuses) -> Result<(), Trouble> {
        let newest = head.commit.clone();
        let line = self.git.with(Operation::Fetch, move |mirror| mirror.first_parent_history(&newest, FAR));
        let mut commits = line.await.map_err(Trouble::Git)?;
        // What was pushed over is in no line.
        let aside: Vec<String> = self.before(head).into_iter().filter(|commit| !commits.contains(commit)).collect();
        let mut ended = 0;
        commits.retain(|commit| *commit != head.commit);
        for commit in std::iter::once(&head.commit).chain(&aside) {
            wanted.recall_statuses(commit).await.map_err(Trouble::Forge)?;
        }
        for commit in &commits {
            ended += usize::from(wanted.recall_statuses(commit).await.map_err(Trouble::Forge)?);
            wanted.post_all();
            if ended == ENOUGH {
                break;
            }
        }
        wanted.post_all();
        Ok(())
    }
}
