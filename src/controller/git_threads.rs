//! The threads that git is talked to on: their own, so that hosts that hang take none from anybody else.
//!
//! libgit2 blocks, for minutes where a host takes a connection and never answers. Calls wait for their turn as tasks, and
//! have a thread only while they are at work: so many in all, and so many that talk to one host. Each source has one at a
//! time, see [`MirrorHandle`](super::mirror_handle::MirrorHandle).

use crate::fair_turns::FairTurns;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Calls at work at a time. Above that, hosts that hang would keep others waiting; a thread that waits for a host costs some
/// tens of kilobytes.
const MAX_CALLS: usize = 2048;
/// Calls at work at a time that talk to one host.
const MAX_CALLS_PER_HOST: usize = 32;
/// What libgit2 and a TLS handshake need, with a margin. It is reserved, and used as far as it is needed.
const STACK_BYTES: usize = 1 << 20;

/// A host, with its port.
pub(in crate::controller) type HostKey = (String, u16);

/// Runs calls that block. Clones are the same.
#[derive(Clone, Debug)]
pub(in crate::controller) struct GitThreads {
    turns: FairTurns<HostKey>,
}

/// Why a call came to no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller) enum GitThreadError {
    /// It panicked.
    Panicked,
    /// The system gives no further thread.
    NoThread,
}

impl Default for GitThreads {
    fn default() -> Self {
        Self::new(MAX_CALLS, MAX_CALLS_PER_HOST)
    }
}

impl GitThreads {
    /// At most so many calls at work, and so many that talk to one host.
    fn new(all: usize, per_host: usize) -> Self {
        Self { turns: FairTurns::new(all, per_host) }
    }

    /// Does something on a thread of its own, once one is free. `host` is who it talks to, if to anybody. Whoever stops
    /// waiting leaves it to end by itself.
    ///
    /// # Errors
    /// See [`GitThreadError`].
    pub(in crate::controller) async fn run<T: Send + 'static>(
        &self,
        host: Option<HostKey>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, GitThreadError> {
        let turn = match host {
            Some(host) => self.turns.wait(host, 1).await,
            None => self.turns.wait_for_all(1).await,
        };
        let (answer, answered) = oneshot::channel();
        let runtime = Handle::current();
        let thread = std::thread::Builder::new().name("git".to_owned()).stack_size(STACK_BYTES);
        let started = thread.spawn(move || {
            let _inside = runtime.enter();
            let done = work();
            drop(turn);
            // Nobody waits any more where this fails.
            let _ = answer.send(done);
        });
        if started.is_err() {
            return Err(GitThreadError::NoThread);
        }
        answered.await.map_err(|_| GitThreadError::Panicked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use std::sync::mpsc;

    fn host(name: &str) -> Option<HostKey> {
        Some((name.to_owned(), 443))
    }

    /// A call that goes on until it is let go.
    fn hangs(threads: &GitThreads, at: Option<HostKey>) -> (mpsc::Sender<()>, tokio::task::JoinHandle<()>) {
        let (go, wait) = mpsc::channel::<()>();
        let threads = threads.clone();
        let call = async move {
            let done = threads.run(at, move || wait.recv().is_err()).await;
            assert_eq!(done, Ok(true));
        };
        (go, tokio::spawn(call))
    }

    /// Row D7 of the review: a host that hangs occupies its own threads, and others have theirs.
    #[tokio::test]
    async fn a_host_that_hangs_fills_its_own_room_and_no_other() {
        let threads = GitThreads::new(8, 2);
        let hanging: Vec<_> = (0..5).map(|_| hangs(&threads, host("hangs"))).collect();
        while threads.turns.try_take(host("hangs").unwrap(), 1).is_some() {
            tokio::task::yield_now().await;
        }
        assert_eq!(threads.run(host("good"), || 1).await, Ok(1));
        assert_eq!(threads.run(None, || 2).await, Ok(2));
        // Of five that hang two have a thread; the others wait for them, and go on when these do.
        assert!(threads.turns.try_take(host("other").unwrap(), 2).is_some());
        assert_eq!(threads.run(host("hangs"), || 3).now_or_never(), None);
        for (go, call) in hanging {
            drop(go);
            call.await.unwrap();
        }
        assert_eq!(threads.run(host("hangs"), || 4).await, Ok(4));
    }

    #[tokio::test]
    async fn a_call_that_panics_gives_its_room_back() {
        let threads = GitThreads::new(1, 1);
        assert_eq!(threads.run(host("a"), || panic!("hostile")).await, Err::<(), _>(GitThreadError::Panicked));
        assert_eq!(threads.run(host("a"), || 1).await, Ok(1));
    }
}
