//! The posting half of commit statuses: what is wanted is compared with what the git host shows, and only the
//! difference is sent.
//!
//! One task a git host and repository. Whoever wants statuses hands in all that he wants, as often as he likes, and never
//! waits: what is shown already costs nothing, and what is overtaken before it was sent is never sent.

mod book;

use super::budget::Budget;
use book::{Book, Key, Next};
use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use stator_cluster::cluster::kube::Fence;
use stator_git::forge::{CommitStatus, Forge, ForgeError};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::Instrument as _;

/// Calls under way at a time. Hosts want few at once, and one that hangs must not stop the rest.
const AT_ONCE: usize = 4;

/// What has become of the statuses that were wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PosterState {
    /// Posted since the start.
    pub posted: u64,
    /// Wanted and not posted yet.
    pub open: usize,
    /// Refused for good since the start.
    pub given_up: u64,
    /// Why nothing is posted any more, and what to do about it. Only another token or another address helps, so a new
    /// poster has to be started then.
    pub stopped: Option<String>,
}

#[derive(Debug)]
struct Shared {
    book: Mutex<Book>,
    news: Notify,
    state: watch::Sender<PosterState>,
}

impl Shared {
    fn with<T>(&self, change: impl FnOnce(&mut Book) -> T) -> T {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut book);
        self.state.send_if_modified(|state| {
            let now = book.state();
            let differs = *state != now;
            *state = now;
            differs
        });
        result
    }
}

/// Hands statuses to the task that posts them. The task ends when this is dropped.
#[derive(Debug)]
pub struct Poster<F> {
    forge: Arc<F>,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

impl<F> Drop for Poster<F> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<F: Forge + 'static> Poster<F> {
    /// Starts the task. `seed` is where the jitter of retries comes from; `budget` is shared by all that write to the
    /// same host. Once `fence` is closed, nothing is posted any more: another replica does.
    pub fn start(forge: Arc<F>, budget: Arc<Budget>, fence: Option<Fence>, seed: u64) -> Self {
        let (state, _) = watch::channel(PosterState::default());
        let shared = Arc::new(Shared { book: Mutex::new(Book::new(seed)), news: Notify::new(), state });
        let task = tokio::spawn(run(Arc::clone(&forge), Arc::clone(&shared), budget, fence).in_current_span());
        Self { forge, shared, task }
    }

    /// These statuses should be shown. Those handed in before stay wanted, unless one here has the same commit and
    /// context. Never waits.
    pub fn want(&self, statuses: impl IntoIterator<Item = (String, CommitStatus)>) {
        let now = Instant::now();
        self.shared.with(|book| {
            for (commit, status) in statuses {
                book.want(commit, status, now);
            }
        });
        self.shared.news.notify_one();
    }

    /// What the host shows of a commit now, which is then not posted again. To be asked once after a start, for the
    /// commits whose statuses an earlier process may have posted; the answers are for
    /// [`Ledger::recall`](super::verdicts::Ledger::recall).
    ///
    /// # Errors
    /// What the host says. Nothing is lost by it but a post of what is shown already.
    pub async fn recall(&self, commit: &str, prefix: &str) -> Result<Vec<CommitStatus>, ForgeError> {
        let found = self.forge.statuses(commit, prefix).await?;
        self.shared.with(|book| {
            for status in &found {
                book.shown(commit.to_owned(), status.clone());
            }
        });
        Ok(found)
    }

    /// What the host shows of a commit under a context, as far as is remembered.
    pub fn shown(&self, commit: &str, context: &str) -> Option<CommitStatus> {
        self.shared.with(|book| book.shows(commit, context))
    }

    /// What has become of it all.
    pub fn state(&self) -> watch::Receiver<PosterState> {
        self.shared.state.subscribe()
    }

    /// Waits until all that is wanted is posted or refused for good, but not longer than `deadline`. True when it is.
    pub async fn settled(&self, deadline: Duration) -> bool {
        let mut state = self.state();
        let done = state.wait_for(|state| state.open == 0 || state.stopped.is_some());
        tokio::time::timeout(deadline, done).await.is_ok()
    }
}

async fn run<F: Forge>(forge: Arc<F>, shared: Arc<Shared>, budget: Arc<Budget>, fence: Option<Fence>) {
    let closed = async {
        match &fence {
            Some(fence) => fence.closed().await,
            None => std::future::pending().await,
        }
    };
    let mut closed = std::pin::pin!(closed);
    let mut flights = FuturesUnordered::new();
    loop {
        let next = if flights.len() < AT_ONCE { shared.with(|book| book.next(Instant::now())) } else { Next::Idle };
        let wake = match next {
            Next::Post(key, _) if fence.as_ref().is_some_and(|fence| !fence.holds()) => {
                shared.with(|book| {
                    book.put_back(&key);
                    book.stop("another replica took over what this one posted for");
                });
                return;
            }
            Next::Post(key, status) => match budget.take(Instant::now()) {
                Ok(()) => {
                    flights.push(post(Arc::clone(&forge), key, status));
                    continue;
                }
                Err(free) => {
                    shared.with(|book| book.put_back(&key));
                    Some(free)
                }
            },
            Next::Wait(until) => Some(until),
            Next::Idle => None,
        };
        let sleep = async {
            match wake {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some((key, status, result)) = flights.next(), if !flights.is_empty() => {
                let said = shared.with(|book| book.answered(&key, status, result, Instant::now()));
                if let Some(said) = said {
                    tracing::warn!(forge = %forge.describe(), commit = %key.0, context = %key.1, "{said}");
                }
            }
            () = shared.news.notified() => {}
            () = &mut closed => {
                shared.with(|book| book.stop("another replica took over what this one posted for"));
                return;
            }
            () = sleep => {}
        }
    }
}

async fn post<F: Forge>(forge: Arc<F>, key: Key, status: CommitStatus) -> (Key, CommitStatus, Result<(), ForgeError>) {
    let sent = AssertUnwindSafe(forge.set_status(&key.0, &status)).catch_unwind().await;
    // A client that panics takes one post down and not the task.
    let result = sent.unwrap_or_else(|_| {
        Err(ForgeError::Unreadable { host: forge.describe(), message: "its client panicked".to_owned() })
    });
    (key, status, result)
}

#[cfg(test)]
mod tests;
