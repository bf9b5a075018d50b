//! A source's run: the reconciler, with the poller and what else goes on beside it.

use super::context::ReconcileContext;
use super::machine::ReconcileResult;
use super::poller::PollerOutput;
use super::runner::ReconcileRunner;
use super::shown_statuses::PostedStatuses;
use super::triggers::{PollProgress, ReconcileTriggers};
use crate::controller::report::commit_reporter::{CommitReporter, InitialStatus};
use futures_util::FutureExt as _;
use std::future::pending;
use std::time::Duration;
use tokio::sync::watch;

/// How long the last statuses are waited for at the end.
const STATUS_FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

impl ReconcileContext {
    /// Runs until it is asked to stop; with `once`, until the newest commit has its verdict.
    pub(in crate::controller) async fn run(&self, reporter: CommitReporter, once: bool) -> ReconcileResult {
        let (commits, newest) = watch::channel(None);
        let (polls, polled) = watch::channel(PollProgress::default());
        let previews = (!once).then(|| self.start_previews(&reporter, newest.clone()));
        let desired = reporter.desired_statuses();
        let posted = PostedStatuses::of_reporter(&reporter);
        let triggers = ReconcileTriggers::new(newest, self.requests.clone(), polled, self.shutdown.clone());
        let (result, reporter) = {
            let output = PollerOutput { commits: &commits, polls: &polls, desired: &desired };
            let polling = async {
                self.poll_repository(&output, once).await;
                polls.send_modify(|progress| progress.has_ended = true);
                pending::<()>().await;
            };
            let recovery = async {
                self.recover_pending_statuses(commits.subscribe(), &desired).await;
                pending::<()>().await;
            };
            tokio::select! {
                done = ReconcileRunner::new(self, reporter, once).run(triggers).boxed() => done,
                () = polling.boxed() => (ReconcileResult::Stopped, None),
                () = self.follow_posted_statuses(&posted) => (ReconcileResult::Stopped, None),
                () = recovery.boxed(), if !once => (ReconcileResult::Stopped, None),
            }
        };
        if let Some(previews) = previews {
            previews.wait_until_ended(STATUS_FLUSH_TIMEOUT).await;
        }
        // Where the host was never asked for the newest commit, there is nothing to look back from.
        let is_open = once && desired.initial_status() == Some(InitialStatus::Unconcluded);
        let recovery = self.recover_pending_statuses(commits.subscribe(), &desired);
        if is_open && tokio::time::timeout(STATUS_FLUSH_TIMEOUT, recovery).await.is_err() {
            let source = &self.source.key;
            tracing::warn!(%source, "not all statuses of older commits were requested in time; the next start \
                                     continues");
        }
        if let Some(reporter) = reporter {
            reporter.wait_until_posted(STATUS_FLUSH_TIMEOUT).await;
        }
        result
    }
}
