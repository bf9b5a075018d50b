//! The posting half of commit statuses: what is wanted is compared with what the git host shows, and only the
//! difference is sent.
//!
//! One task a git host and repository. Whoever wants statuses hands in all that he wants, as often as he likes, and never
//! waits: what is shown already costs nothing, and what is overtaken before it was sent is never sent.

mod queue;

use super::write_budget::ForgeWriteBudget;
use crate::controller::waiting::{or_pending, send_if_new, sleep_until_some};
use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use queue::{NextPost, PostKey, PostQueue};
use stator_cluster::cluster::Fence;
use stator_git::forge::{CommitStatus, ForgeApi, ForgeError};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::Instrument as _;

/// Calls under way at a time. Hosts want few at once, and one that hangs must not stop the rest.
const MAX_CONCURRENT_POSTS: usize = 4;

/// What has become of the statuses that were wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PosterState {
    /// Posted since the start.
    pub posted: u64,
    /// Wanted and not posted yet.
    pub pending: usize,
    /// Those of `pending` that the host refused: they are tried again after minutes.
    pub refused: usize,
    /// Refused for good since the start.
    pub given_up: u64,
    /// Why nothing is posted any more: another replica posts.
    pub stopped: Option<String>,
    /// Why something is not posted yet that the host refused, and what to do about it.
    pub refusal: Option<String>,
}

#[derive(Debug)]
struct SharedPostQueue {
    queue: Mutex<PostQueue>,
    wakeup: Notify,
    state: watch::Sender<PosterState>,
}

impl SharedPostQueue {
    fn update<T>(&self, change: impl FnOnce(&mut PostQueue) -> T) -> T {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut queue);
        send_if_new(&self.state, queue.state());
        result
    }
}

/// Hands statuses to the task that posts them. The task ends when this is dropped.
#[derive(Debug)]
pub struct StatusPoster<F> {
    forge: Arc<F>,
    shared: Arc<SharedPostQueue>,
    task: tokio::task::JoinHandle<()>,
}

impl<F> Drop for StatusPoster<F> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<F: ForgeApi + 'static> StatusPoster<F> {
    /// Starts the task. `seed` is where the jitter of retries comes from; `budget` is what the
    /// source's namespace may write to the host. Once `fence` is closed, nothing is posted any more: another replica does.
    pub fn start(forge: Arc<F>, budget: ForgeWriteBudget, fence: Option<Fence>, seed: u64) -> Self {
        let (state, _) = watch::channel(PosterState::default());
        let shared =
            Arc::new(SharedPostQueue { queue: Mutex::new(PostQueue::new(seed)), wakeup: Notify::new(), state });
        let task = tokio::spawn(run_poster(Arc::clone(&forge), Arc::clone(&shared), budget, fence).in_current_span());
        Self { forge, shared, task }
    }

    /// These statuses should be shown. Those handed in before stay wanted, unless one here has the same commit and
    /// context. Never waits.
    pub fn request_statuses(&self, statuses: impl IntoIterator<Item = (String, CommitStatus)>) {
        let now = Instant::now();
        self.shared.update(|queue| {
            for (commit, status) in statuses {
                queue.request_status(commit, status, now);
            }
        });
        self.shared.wakeup.notify_one();
    }

    /// What the host shows of a commit now, which is then not posted again. To be asked once after a start, for the
    /// commits whose statuses an earlier process may have posted; the answers are for
    /// [`CommitLedger::restore_statuses`](super::ledger::CommitLedger::restore_statuses).
    ///
    /// # Errors
    /// What the host answers. Nothing is lost by it but a post of what is shown already.
    pub async fn load_posted_statuses(&self, commit: &str, prefix: &str) -> Result<Vec<CommitStatus>, ForgeError> {
        let found = self.forge.list_statuses(commit, prefix).await?;
        self.shared.update(|queue| {
            for status in &found {
                queue.record_posted(commit.to_owned(), status.clone());
            }
        });
        Ok(found)
    }

    /// What the host shows of a commit under a context, as far as is remembered.
    pub fn posted_status(&self, commit: &str, context: &str) -> Option<CommitStatus> {
        self.shared.update(|queue| queue.posted_status(commit, context))
    }

    /// What has become of it all.
    pub fn state(&self) -> watch::Receiver<PosterState> {
        self.shared.state.subscribe()
    }

    /// Waits until all that is wanted is posted or refused, but not longer than `deadline`. True when it is.
    pub async fn wait_until_posted(&self, deadline: Duration) -> bool {
        let mut state = self.state();
        let done = state.wait_for(|state| state.pending == state.refused || state.stopped.is_some());
        tokio::time::timeout(deadline, done).await.is_ok()
    }
}

async fn run_poster<F: ForgeApi>(
    forge: Arc<F>,
    shared: Arc<SharedPostQueue>,
    budget: ForgeWriteBudget,
    fence: Option<Fence>,
) {
    let mut closed = std::pin::pin!(or_pending(fence.as_ref().map(Fence::wait_closed)));
    let mut flights = FuturesUnordered::new();
    loop {
        let next = if flights.len() < MAX_CONCURRENT_POSTS {
            shared.update(|queue| queue.next_post(Instant::now()))
        } else {
            NextPost::Idle
        };
        let wake = match next {
            NextPost::Post(key, _) if fence.as_ref().is_some_and(|fence| !fence.is_valid()) => {
                shared.update(|queue| {
                    queue.return_post(&key);
                    queue.stop("another replica took over this source");
                });
                return;
            }
            NextPost::Post(key, status) => match budget.try_take(Instant::now()) {
                Ok(()) => {
                    flights.push(post_status(Arc::clone(&forge), key, status));
                    continue;
                }
                Err(free) => {
                    shared.update(|queue| queue.return_post(&key));
                    Some(free)
                }
            },
            NextPost::Wait(until) => Some(until),
            NextPost::Idle => None,
        };
        tokio::select! {
            Some((key, status, result)) = flights.next(), if !flights.is_empty() => {
                let message = shared.update(|queue| queue.handle_response(&key, status, result, Instant::now()));
                if let Some(message) = message {
                    tracing::warn!(forge = %forge.describe(), commit = %key.0, context = %key.1, "{message}");
                }
            }
            () = shared.wakeup.notified() => {}
            () = &mut closed => {
                shared.update(|queue| queue.stop("another replica took over this source"));
                return;
            }
            () = sleep_until_some(wake) => {}
        }
    }
}

async fn post_status<F: ForgeApi>(
    forge: Arc<F>,
    key: PostKey,
    status: CommitStatus,
) -> (PostKey, CommitStatus, Result<(), ForgeError>) {
    let sent = AssertUnwindSafe(forge.set_status(&key.0, &status)).catch_unwind().await;
    // A client that panics takes one post down and not the task.
    let result = sent.unwrap_or_else(|_| {
        Err(ForgeError::Unreadable { host: forge.describe(), message: "its client panicked".to_owned() })
    });
    (key, status, result)
}

#[cfg(test)]
mod tests;
