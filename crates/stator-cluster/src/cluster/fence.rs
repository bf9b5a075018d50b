//! Until when this process may write: what a lease gives, asked before every write.
//!
//! A process that was frozen and goes on does not know that it was: what it was about to send, it sends. So whatever
//! holds a lease has a time after which it counts as lost here, well before anybody else may take it, and each write asks
//! for it at the last moment: before it is made, and each time that it goes on, which is so when its connection is there.
//! The connections to an API server ask as well, each time before they send (`kube/connection_gate.rs`).
//!
//! Two clocks must agree. The monotonic one goes on while a process is stopped (`SIGSTOP`, a full node), but not on every
//! system while a machine sleeps; then the wall clock has moved on when it wakes. A wall clock that is put forward by
//! some seconds closes a fence too early, which costs a start anew and harms nothing; one that is put back changes
//! nothing, as the monotonic one is still asked. What no clock of a machine can tell is that the machine itself was halted
//! and goes on with both clocks where they were: then the first answer of the API server does, and until it comes two
//! replicas may write. They write what their commits say, with preconditions where they delete, and whoever has the newest
//! commit puts right what the other wrote.

use super::ClusterError;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A moment on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// Goes on evenly, whatever is done to the wall clock.
    pub monotonic: Instant,
    /// Goes on while the machine sleeps.
    pub wall: SystemTime,
}

impl ClockReading {
    /// This one.
    pub fn now() -> Self {
        Self { monotonic: Instant::now(), wall: SystemTime::now() }
    }

    /// Whether neither clock has come to `until` after this.
    fn is_before(&self, until: &FenceDeadline) -> bool {
        self.monotonic < until.monotonic && self.wall < until.wall
    }
}

#[derive(Clone, Copy, Debug)]
struct FenceDeadline {
    monotonic: Instant,
    wall: SystemTime,
}

impl FenceDeadline {
    fn after(from: ClockReading, lasts: Duration) -> Self {
        // A wall clock at the end of time is none that anybody waits for.
        Self { monotonic: from.monotonic + lasts, wall: from.wall.checked_add(lasts).unwrap_or(from.wall) }
    }
}

/// Whether writes may be sent. Clones are one and the same.
///
/// One that was found closed once stays closed: a tenure that ended is not taken up again, the next one has a fence of its
/// own. So whatever was begun under this one never goes on under another.
#[derive(Clone, Debug)]
pub struct Fence {
    shared: Arc<FenceState>,
}

#[derive(Debug)]
struct FenceState {
    deadline: Mutex<FenceDeadline>,
    closed: CancellationToken,
    /// Writes that were not sent, or broken off.
    refused_writes: AtomicU64,
}

impl Fence {
    /// Open for this long after a moment: that before the request for it was sent.
    pub fn open(from: ClockReading, lasts: Duration) -> Self {
        let until = Mutex::new(FenceDeadline::after(from, lasts));
        Self {
            shared: Arc::new(FenceState {
                deadline: until,
                closed: CancellationToken::new(),
                refused_writes: AtomicU64::new(0),
            }),
        }
    }

    /// Open for this long after a later moment, if it is open still.
    pub fn extend(&self, from: ClockReading, lasts: Duration) {
        let mut until = self.deadline();
        if !self.shared.closed.is_cancelled() {
            *until = FenceDeadline::after(from, lasts);
        }
    }

    /// Closed from now on.
    pub fn close(&self) {
        self.shared.closed.cancel();
    }

    /// Whether a write may be sent now. Costs a lock that nobody holds for long, and two looks at the clock.
    pub fn is_valid(&self) -> bool {
        self.is_valid_at(ClockReading::now())
    }

    fn is_valid_at(&self, now: ClockReading) -> bool {
        if self.shared.closed.is_cancelled() {
            return false;
        }
        // Under the lock, so that nobody extends what is found closed here.
        let until = self.deadline();
        let holds = now.is_before(&until);
        if !holds {
            self.close();
        }
        holds
    }

    /// Waits until it was closed, or found closed by somebody who asked. It does not ask by itself.
    pub async fn wait_closed(&self) {
        self.shared.closed.cancelled().await;
    }

    /// How many writes were not sent, since this was last asked.
    pub fn take_refused_writes(&self) -> u64 {
        self.shared.refused_writes.swap(0, Ordering::Relaxed)
    }

    /// Whether both are one and the same.
    pub fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// That it holds, as an error where it does not.
    ///
    /// # Errors
    /// [`ClusterError::Fenced`].
    pub fn check(&self) -> Result<(), ClusterError> {
        if self.is_valid() {
            return Ok(());
        }
        self.shared.refused_writes.fetch_add(1, Ordering::Relaxed);
        Err(ClusterError::Fenced)
    }

    /// Does something that ends in a write, as long as this holds: asked whenever it goes on, and so too when it has
    /// waited for a connection and takes it. What is under way when it is found closed is broken off.
    ///
    /// # Errors
    /// [`ClusterError::Fenced`], or what the work itself comes to.
    pub async fn guard<T>(&self, work: impl Future<Output = Result<T, ClusterError>>) -> Result<T, ClusterError> {
        let mut work = pin!(work);
        std::future::poll_fn(|context| match self.check() {
            Ok(()) => work.as_mut().poll(context),
            Err(closed) => Poll::Ready(Err(closed)),
        })
        .await
    }

    fn deadline(&self) -> std::sync::MutexGuard<'_, FenceDeadline> {
        self.shared.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Duration = Duration::from_secs(10);

    fn later(moment: ClockReading, steady: u64, wall: u64) -> ClockReading {
        ClockReading {
            monotonic: moment.monotonic + Duration::from_secs(steady),
            wall: moment.wall + Duration::from_secs(wall),
        }
    }

    #[test]
    fn a_fence_holds_as_long_as_both_clocks_say_so_and_never_again() {
        let now = ClockReading::now();
        let fence = Fence::open(now, TEN);
        assert!(fence.is_valid_at(later(now, 9, 9)));
        fence.extend(later(now, 5, 5), TEN);
        assert!(fence.is_valid_at(later(now, 14, 14)));
        assert!(!fence.is_valid_at(later(now, 15, 15)));
        fence.extend(later(now, 15, 15), TEN);
        assert!(!fence.is_valid_at(later(now, 16, 16)), "what was found closed stays closed");
    }

    #[test]
    fn a_machine_that_slept_and_a_process_that_was_stopped_are_told_both() {
        let now = ClockReading::now();
        let slept = Fence::open(now, TEN);
        assert!(!slept.is_valid_at(later(now, 1, 3600)), "the monotonic clock stood still");
        let stopped = Fence::open(now, TEN);
        let put_back = ClockReading { wall: now.wall - Duration::from_secs(3600), ..later(now, 60, 0) };
        assert!(!stopped.is_valid_at(put_back), "the wall clock was put back");
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_waited_past_the_end_is_not_gone_on_with() {
        let fence = Fence::open(ClockReading::now(), TEN);
        let mut sent = false;
        let work = async {
            // As for a connection.
            tokio::time::sleep(TEN).await;
            sent = true;
            Ok(())
        };
        assert_eq!(fence.guard(work).await, Err(ClusterError::Fenced));
        assert!(!sent);
        assert_eq!(fence.guard(async { Ok(7) }).await, Err(ClusterError::Fenced));
        fence.wait_closed().await;
        assert_eq!((fence.take_refused_writes(), fence.take_refused_writes()), (2, 0));
    }

    #[tokio::test]
    async fn a_clone_is_the_same_fence() {
        let fence = Fence::open(ClockReading::now(), TEN);
        let clone = fence.clone();
        assert_eq!(clone.guard(async { Ok(7) }).await, Ok(7));
        fence.close();
        assert!(!clone.is_valid());
    }
}
