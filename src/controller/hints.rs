//! What webhooks and people hint at, kept until somebody looks: bounded, coalesced, and never lost.
//!
//! A hint is only ever a reason to look. Many at once are one; more than are kept apart become "look at everything".

use crate::telemetry::traces::Origin;
use stator_git::forge::webhook::Hint;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// Hints that are kept apart. A thousand pull requests at once are as well found by one list of all that are open.
const MOST: usize = 256;

/// What is hinted at for one source.
#[derive(Debug, Default)]
pub struct Hints {
    /// Refs, by their whole names.
    pub refs: Queue<String>,
    /// Pull requests, by number.
    pub pulls: Queue<u64>,
    /// The trace of the last delivery that nobody has looked for yet.
    origin: Mutex<Origin>,
}

impl Hints {
    /// What comes next is of this trace.
    pub fn traced(&self, origin: Origin) {
        *self.origin.lock().unwrap_or_else(PoisonError::into_inner) = origin;
    }

    /// The trace of what is looked for now.
    pub fn origin(&self) -> Origin {
        std::mem::take(&mut *self.origin.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a hint in. Never waits.
    pub fn add(&self, hint: Hint) {
        match hint {
            Hint::Ref { name } => self.refs.add(name),
            Hint::PullRequest { number } => self.pulls.add(number),
        }
    }
}

/// A set of hints of one kind, and somebody who waits for them.
#[derive(Debug)]
pub struct Queue<T> {
    kept: Mutex<Taken<T>>,
    news: Notify,
}

/// What was hinted at since the last time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken<T> {
    /// What exactly.
    pub items: BTreeSet<T>,
    /// More than is kept apart: anything may have changed.
    pub everything: bool,
}

impl<T> Default for Taken<T> {
    fn default() -> Self {
        Self { items: BTreeSet::new(), everything: false }
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { kept: Mutex::default(), news: Notify::new() }
    }
}

impl<T: Ord> Queue<T> {
    /// Takes one in. Never waits.
    pub fn add(&self, item: T) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.everything {
            kept.items.insert(item);
            if kept.items.len() > MOST {
                *kept = Taken { items: BTreeSet::new(), everything: true };
            }
        }
        drop(kept);
        self.news.notify_one();
    }

    /// Asks to look at everything.
    pub fn add_everything(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Taken { items: BTreeSet::new(), everything: true };
        self.news.notify_one();
    }

    /// Whether nothing came since the last time.
    pub fn is_empty(&self) -> bool {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        !kept.everything && kept.items.is_empty()
    }

    /// What came since the last time, without waiting.
    pub fn take(&self) -> Taken<T> {
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What came since the last time; waits until something has. Dropped while it waits, it loses nothing.
    pub async fn next(&self) -> Taken<T> {
        loop {
            let taken = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
            if taken.everything || !taken.items.is_empty() {
                return taken;
            }
            self.news.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[tokio::test]
    async fn many_hints_are_one_and_none_is_lost() {
        let hints = Hints::default();
        for number in [7, 3, 7, 7] {
            hints.add(Hint::PullRequest { number });
        }
        hints.add(Hint::Ref { name: "refs/heads/main".into() });
        assert_eq!(hints.pulls.next().await, Taken { items: BTreeSet::from([3, 7]), everything: false });
        assert_eq!(hints.refs.next().await.items.len(), 1);
        let nothing = tokio::time::timeout(std::time::Duration::from_millis(1), hints.pulls.next()).await;
        assert!(nothing.is_err(), "{nothing:?}");
        hints.pulls.add(9);
        assert_eq!(hints.pulls.next().await.items, BTreeSet::from([9]));
    }

    proptest! {
        /// Whatever comes, each number is among what is taken, or everything is.
        #[test]
        fn the_queue_is_bounded_and_covers_what_came(numbers in proptest::collection::vec(0_u64..2000, 1..1500)) {
            let queue = Queue::default();
            numbers.iter().for_each(|number| queue.add(*number));
            let kept = queue.kept.lock().unwrap().clone();
            prop_assert!(kept.items.len() <= MOST);
            prop_assert!(kept.everything || numbers.iter().all(|number| kept.items.contains(number)));
            prop_assert_eq!(kept.everything, numbers.iter().collect::<BTreeSet<_>>().len() > MOST);
        }
    }
}
