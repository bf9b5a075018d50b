//! Turns that many want: so many at a time in all, and fewer of each of them, so that nobody who asks for much, or holds what
//! it has for long, keeps the others out.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Turns in all and of each. Clones are the same.
#[derive(Clone, Debug)]
pub struct FairTurns<K> {
    all: Arc<Semaphore>,
    of_each: usize,
    each: Arc<Mutex<HashMap<K, Arc<Semaphore>>>>,
}

/// A turn, which is over when this is dropped.
#[derive(Debug)]
pub struct Turn {
    _own: Option<OwnedSemaphorePermit>,
    _of_all: OwnedSemaphorePermit,
}

impl<K: Eq + Hash> FairTurns<K> {
    /// At most so many at a time, and so many of each.
    pub fn new(all: usize, of_each: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(all)), of_each, each: Arc::default() }
    }

    /// Waits for a turn that takes so much: first among what the same one asks for, then among all, in the order in which
    /// they come there. What is more than one may have never comes.
    pub async fn wait(&self, of: K, much: u32) -> Turn {
        let own = acquired(self.own(of), much).await;
        Turn { _own: Some(own), ..self.wait_for_all(much).await }
    }

    /// Waits for a turn of what is nobody's, and of which there may be as much as of all.
    pub async fn wait_for_all(&self, much: u32) -> Turn {
        Turn { _own: None, _of_all: acquired(Arc::clone(&self.all), much).await }
    }

    /// A turn that takes so much, where there is one at once.
    pub fn try_take(&self, of: K, much: u32) -> Option<Turn> {
        let own = self.own(of).try_acquire_many_owned(much).ok()?;
        let of_all = Arc::clone(&self.all).try_acquire_many_owned(much).ok()?;
        Some(Turn { _own: Some(own), _of_all: of_all })
    }

    fn own(&self, of: K) -> Arc<Semaphore> {
        let mut each = self.each.lock().unwrap_or_else(PoisonError::into_inner);
        // Who has no turn and waits for none need not be known.
        each.retain(|_, turns| Arc::strong_count(turns) > 1);
        Arc::clone(each.entry(of).or_insert_with(|| Arc::new(Semaphore::new(self.of_each))))
    }
}

async fn acquired(turns: Arc<Semaphore>, much: u32) -> OwnedSemaphorePermit {
    match turns.acquire_many_owned(much).await {
        Ok(turn) => turn,
        // Nobody closes it.
        Err(_) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn who_holds_all_its_turns_keeps_nobody_else_out() {
        let turns = FairTurns::new(8, 2);
        let held = [turns.wait("greedy", 1).await, turns.wait("greedy", 1).await];
        let third = turns.wait("greedy", 1);
        tokio::pin!(third);
        assert!(third.as_mut().now_or_never().is_none() && turns.try_take("greedy", 1).is_none());
        assert!(turns.wait("modest", 2).now_or_never().is_some());
        drop(held);
        assert!(third.now_or_never().is_some());
        assert!(turns.try_take("somebody", 1).is_some());
        assert!(turns.each.lock().unwrap().len() <= 1, "who has no turn is forgotten");
    }

    #[tokio::test]
    async fn many_share_what_there_is_in_the_order_in_which_they_come() {
        let turns = FairTurns::new(2, 2);
        let held = (turns.wait(0, 1).await, turns.wait(1, 1).await);
        let (second, third) = (turns.wait(2, 1), turns.wait(3, 1));
        tokio::pin!(second, third);
        assert!(second.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        drop(held.0);
        assert!(third.as_mut().now_or_never().is_none(), "the second came first");
        assert!(second.now_or_never().is_some());
    }
}
