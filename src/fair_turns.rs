//! Turns that many want: so many at a time in all, and fewer of each of them, so that nobody who asks for much, or holds what
//! it has for long, keeps the others out. Half of all is for those who have no turn yet: however few hold all that they may
//! have, whoever comes anew is not behind them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Turns in all and of each. Clones are the same.
#[derive(Clone, Debug)]
pub struct FairTurns<K> {
    all: Arc<Semaphore>,
    /// What of it those may take, too, who have a turn.
    further: Arc<Semaphore>,
    of_each: usize,
    each: Arc<Mutex<HashMap<K, Arc<OwnTurns>>>>,
}

/// The turns of one of them.
#[derive(Debug)]
struct OwnTurns {
    all: Arc<Semaphore>,
    /// The one that is no further turn.
    first: Arc<Semaphore>,
}

/// A turn, which is over when this is dropped.
#[derive(Debug)]
pub struct Turn {
    _own: Option<OwnTurn>,
    _of_all: OwnedSemaphorePermit,
}

#[derive(Debug)]
struct OwnTurn {
    _turn: OwnedSemaphorePermit,
    _first: Option<OwnedSemaphorePermit>,
    _further: Option<OwnedSemaphorePermit>,
    /// For as long as there is one, whose it is must be known.
    _whose: Arc<OwnTurns>,
}

impl<K: Eq + Hash> FairTurns<K> {
    /// At most so many at a time, and so many of each.
    pub fn new(all: usize, of_each: usize) -> Self {
        let further = Arc::new(Semaphore::new(all.div_ceil(2)));
        Self { all: Arc::new(Semaphore::new(all)), further, of_each, each: Arc::default() }
    }

    /// Waits for a turn that takes so much: first among what the same one asks for, then among all, in the order in which
    /// they come there. What is more than one may have never comes.
    pub async fn wait(&self, of: K, much: u32) -> Turn {
        let own = self.own(of);
        let turn = acquired(&own.all, much).await;
        let (first, further) = tokio::select! {
            biased;
            // Of the half that is for all, where something is left of it.
            first = acquired(&own.first, 1) => (Some(first), taken(&self.further, much)),
            further = acquired(&self.further, much) => (None, Some(further)),
        };
        let own = OwnTurn { _turn: turn, _first: first, _further: further, _whose: own };
        Turn { _own: Some(own), ..self.wait_for_all(much).await }
    }

    /// Waits for a turn of what is nobody's, and of which there may be as much as of all.
    pub async fn wait_for_all(&self, much: u32) -> Turn {
        Turn { _own: None, _of_all: acquired(&self.all, much).await }
    }

    /// A turn that takes so much, where there is one at once.
    pub fn try_take(&self, of: K, much: u32) -> Option<Turn> {
        let own = self.own(of);
        let turn = taken(&own.all, much)?;
        let (first, further) = (taken(&own.first, 1), taken(&self.further, much));
        if first.is_none() && further.is_none() {
            return None;
        }
        let of_all = taken(&self.all, much)?;
        let own = OwnTurn { _turn: turn, _first: first, _further: further, _whose: own };
        Some(Turn { _own: Some(own), _of_all: of_all })
    }

    fn own(&self, of: K) -> Arc<OwnTurns> {
        let mut each = self.each.lock().unwrap_or_else(PoisonError::into_inner);
        // Who has no turn and waits for none need not be known.
        each.retain(|_, turns| Arc::strong_count(turns) > 1);
        let turns = |most: usize| Arc::new(Semaphore::new(most));
        let none = || Arc::new(OwnTurns { all: turns(self.of_each), first: turns(1) });
        Arc::clone(each.entry(of).or_insert_with(none))
    }
}

fn taken(turns: &Arc<Semaphore>, much: u32) -> Option<OwnedSemaphorePermit> {
    Arc::clone(turns).try_acquire_many_owned(much).ok()
}

async fn acquired(turns: &Arc<Semaphore>, much: u32) -> OwnedSemaphorePermit {
    match Arc::clone(turns).acquire_many_owned(much).await {
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

    /// Hosts that never answer held all turns of all, where there were enough of them.
    #[tokio::test]
    async fn whoever_has_none_is_not_behind_those_who_hold_all_that_they_may_have() {
        let turns = FairTurns::new(16, 4);
        let mut held = Vec::new();
        for hanging in 0..9 {
            held.push((0..4).map_while(|_| turns.try_take(hanging, 1)).collect::<Vec<_>>());
        }
        let counts: Vec<usize> = held.iter().map(Vec::len).collect();
        assert_eq!(counts, [4, 4, 1, 1, 1, 1, 1, 1, 1], "half of all is gone with two, and each has one of the rest");
        let good = turns.try_take(100, 1);
        assert!(good.is_some() && turns.try_take(100, 1).is_none());
        let second = turns.wait(100, 1);
        tokio::pin!(second);
        assert!(second.as_mut().now_or_never().is_none());
        drop(good);
        assert!(second.now_or_never().is_some(), "one after the other it has as many as it wants");
    }
}
