//! Keeps what the source's state says of commit statuses up with the git host.

use super::context::ReconcileContext;
use crate::controller::report::commit_reporter::{CommitReporter, DesiredStatuses};
use crate::controller::report::status_poster::PosterState;
use crate::controller::sources::registry::{ShownStatus, StatusPostingState};
use tokio::sync::watch;

/// What is posted, to be watched.
pub(super) struct PostedStatuses {
    desired: DesiredStatuses,
    /// None where nothing is posted.
    state: Option<watch::Receiver<PosterState>>,
}

impl PostedStatuses {
    pub(super) fn of_reporter(reporter: &CommitReporter) -> Self {
        Self { desired: reporter.desired_statuses(), state: reporter.host().map(|host| host.poster.state()) }
    }
}

impl ReconcileContext {
    /// Takes over what the poster says, for as long as it is polled.
    pub(super) async fn follow_posted_statuses(&self, posted: &PostedStatuses) {
        let Some(mut poster) = posted.state.clone() else { return std::future::pending().await };
        loop {
            let now = poster.borrow_and_update().clone();
            let newest = self.state.borrow().seen.as_ref().map(|seen| seen.commit.clone());
            let shown = newest.and_then(|commit| {
                let status = posted.desired.posted_status(&commit)?;
                Some(ShownStatus { revision: commit, status })
            });
            self.update_state(|state| {
                let shown = shown.or(state.statuses.shown.take());
                state.statuses = StatusPostingState {
                    shown,
                    pending: now.pending,
                    given_up: now.given_up,
                    problem: now.stopped.or(now.refusal),
                };
            });
            if poster.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}
