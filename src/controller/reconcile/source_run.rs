//! A source's run: the reconciler, with the poller and what else goes on beside it.

use super::commit::PolledCommit;
use super::context::ReconcileContext;
use super::machine::ReconcileResult;
use super::poller::PollerOutput;
use super::runner::ReconcileRunner;
use super::triggers::{PollProgress, ReconcileTriggers};
use crate::controller::metrics::MirrorOperation;
use crate::controller::mirror_handle::GitError;
use crate::controller::report::commit_statuses::{HistoryError, InitialStatus};
use crate::controller::sources::registry::{ShownStatus, StatusPostingState};
use futures_util::FutureExt as _;
use stator_git::source::mirror::Mirror;
use std::future::pending;
use std::time::Duration;
use tokio::sync::watch;

/// How long the last statuses are waited for at the end.
const STATUS_FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

impl ReconcileContext {
    /// Runs until it is asked to stop; with `once`, until the newest commit has its verdict.
    pub(in crate::controller) async fn run(&self, once: bool) -> ReconcileResult {
        let (commits, newest) = watch::channel(None);
        let (polls, polled) = watch::channel(PollProgress::default());
        let previews = (!once).then(|| self.start_previews(newest.clone()));
        let triggers = ReconcileTriggers::new(newest, self.requests.clone(), polled, self.shutdown.clone());
        let result = {
            let output = PollerOutput { commits: &commits, polls: &polls };
            let polling = async {
                self.poll_repository(&output, once).await;
                polls.send_modify(|progress| progress.has_ended = true);
                pending::<()>().await;
            };
            let recovery = async {
                self.recover_pending_statuses(commits.subscribe()).await;
                pending::<()>().await;
            };
            tokio::select! {
                result = ReconcileRunner::new(self, once).run(triggers).boxed() => result,
                () = polling.boxed() => ReconcileResult::Stopped,
                () = self.follow_posted_statuses() => ReconcileResult::Stopped,
                () = recovery.boxed(), if !once => ReconcileResult::Stopped,
            }
        };
        if let Some(previews) = previews {
            previews.wait_until_ended(STATUS_FLUSH_TIMEOUT).await;
        }
        // Where the host was never asked for the newest commit, there is nothing to look back from.
        let is_open = once && self.board.statuses.initial_status() == Some(InitialStatus::Unconcluded);
        let recovery = self.recover_pending_statuses(commits.subscribe());
        if is_open && tokio::time::timeout(STATUS_FLUSH_TIMEOUT, recovery).await.is_err() {
            let source = &self.source.key;
            tracing::warn!(%source, "not all statuses of older commits were requested in time; the next start \
                                     continues");
        }
        self.board.statuses.wait_until_posted(STATUS_FLUSH_TIMEOUT).await;
        result
    }

    /// Brings to an end what an earlier process began to say of commits, once there is a newest one to look back from.
    async fn recover_pending_statuses(&self, mut commits: watch::Receiver<Option<PolledCommit>>) {
        let newest = commits.wait_for(Option::is_some).await.ok().and_then(|commit| commit.clone());
        let Some(newest) = newest else { return };
        let (git, commit) = (self.repository.git.clone(), newest.commit.clone());
        let history = move |most| {
            let (git, commit) = (git.clone(), commit.clone());
            let line = move |mirror: &mut Mirror| mirror.first_parent_history(&commit, most);
            let of_git =
                |error: GitError| HistoryError { may_pass: error.may_pass().is_some(), message: error.to_string() };
            async move { git.with(MirrorOperation::Fetch, line).await.map_err(of_git) }.boxed()
        };
        self.board.statuses.recover_pending(&newest.commit, &self.board.commits_before(&newest), history).await;
    }

    /// Takes over what the poster says, for as long as it is polled.
    async fn follow_posted_statuses(&self) {
        let Some(mut poster) = self.board.statuses.host().map(|host| host.poster.state()) else {
            return pending().await;
        };
        loop {
            let now = poster.borrow_and_update().clone();
            let newest = self.board.state.borrow().seen.as_ref().map(|seen| seen.commit.clone());
            let shown = newest.and_then(|commit| {
                let status = self.board.statuses.posted_status(&commit)?;
                Some(ShownStatus { revision: commit, status })
            });
            self.board.update_state(|state| {
                let shown = shown.or(state.statuses.shown.take());
                state.statuses = StatusPostingState {
                    shown,
                    pending: now.pending,
                    given_up: now.given_up,
                    problem: now.stopped.or(now.refusal),
                };
            });
            if poster.changed().await.is_err() {
                return pending().await;
            }
        }
    }
}
