//! What starts a reconciler's rounds from outside: commits, requests, polls, the end.

use super::commit::PolledCommit;
use super::machine::ReconcileEvent;
use crate::controller::sources::manual_requests::ManualRequests;
use crate::controller::waiting::or_pending;
use std::future::pending;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How far polling is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PollProgress {
    /// The sync request that was known before the last poll that is over.
    pub(super) request: Option<String>,
    /// Whether no other poll follows.
    pub(super) has_ended: bool,
}

/// What a reconciler listens to.
pub(super) struct ReconcileTriggers {
    commits: watch::Receiver<Option<PolledCommit>>,
    requests: watch::Receiver<ManualRequests>,
    polls: watch::Receiver<PollProgress>,
    shutdown: Option<CancellationToken>,
    /// Whether the end of polling is still to be reported.
    tells_end: bool,
}

impl ReconcileTriggers {
    /// `polls` is to be sent after `commits` for what a poll found.
    pub(super) fn new(
        commits: watch::Receiver<Option<PolledCommit>>,
        requests: watch::Receiver<ManualRequests>,
        polls: watch::Receiver<PollProgress>,
        shutdown: CancellationToken,
    ) -> Self {
        Self { commits, requests, polls, shutdown: Some(shutdown), tells_end: false }
    }

    /// The next event; may be dropped while it waits. A commit comes before the end of the poll that found it.
    pub(super) async fn next_event(&mut self) -> ReconcileEvent {
        if std::mem::take(&mut self.tells_end) {
            return ReconcileEvent::PollingEnded;
        }
        tokio::select! {
            biased;
            () = or_pending(self.shutdown.as_ref().map(CancellationToken::cancelled)) => {
                self.shutdown = None;
                ReconcileEvent::Shutdown
            }
            Ok(requests) = next(&mut self.requests) => ReconcileEvent::RequestsChanged(requests),
            commit = next_commit(&mut self.commits) => ReconcileEvent::CommitFound(commit),
            Ok(progress) = next(&mut self.polls) => {
                self.tells_end = progress.has_ended;
                ReconcileEvent::PollFinished { request: progress.request }
            }
        }
    }
}

async fn next<T: Clone>(receiver: &mut watch::Receiver<T>) -> Result<T, watch::error::RecvError> {
    receiver.changed().await?;
    Ok(receiver.borrow_and_update().clone())
}

async fn next_commit(commits: &mut watch::Receiver<Option<PolledCommit>>) -> PolledCommit {
    loop {
        match next(commits).await {
            Ok(Some(commit)) => return commit,
            Ok(None) => {}
            Err(_) => return pending().await,
        }
    }
}
