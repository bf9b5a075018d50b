//! What webhooks and people hint at, kept until somebody looks: bounded, coalesced, and never lost.
//!
//! A hint only triggers a poll. Many at once are one; more than are kept apart become "look at everything".

use crate::telemetry::traces::TraceContext;
use stator_git::forge::webhook::WebhookHint;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// Hints that are kept apart. A thousand pull requests at once are as well found by one list of all that are open.
const MAX_PENDING_HINTS: usize = 256;

/// Bytes of a ref's name that are kept.
const MAX_REF_NAME_BYTES: usize = 1024;

/// What is hinted at for one source.
#[derive(Debug, Default)]
pub struct SourceHints {
    /// Refs, by their whole names.
    pub refs: HintQueue<String>,
    /// Pull requests, by number.
    pub pulls: HintQueue<u64>,
    /// The trace of the last delivery that nobody has looked for yet.
    origin: Mutex<TraceContext>,
}

impl SourceHints {
    /// What comes next is of this trace.
    pub fn set_origin(&self, origin: TraceContext) {
        *self.origin.lock().unwrap_or_else(PoisonError::into_inner) = origin;
    }

    /// The trace of what is looked for now.
    pub fn take_origin(&self) -> TraceContext {
        std::mem::take(&mut *self.origin.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a hint in. Never waits.
    pub fn add(&self, hint: WebhookHint) {
        match hint {
            // No source can follow a ref of such a name; it may be one of many.
            WebhookHint::Ref { name } if name.len() > MAX_REF_NAME_BYTES => self.refs.add_everything(),
            WebhookHint::Ref { name } => self.refs.add(name),
            WebhookHint::PullRequest { number } => self.pulls.add(number),
        }
    }
}

/// A set of hints of one kind, and somebody who waits for them.
#[derive(Debug)]
pub struct HintQueue<T> {
    pending: Mutex<DrainedHints<T>>,
    wakeup: Notify,
}

/// What was hinted at since the last time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainedHints<T> {
    /// What exactly.
    pub items: BTreeSet<T>,
    /// More than is kept apart: anything may have changed.
    pub everything: bool,
}

impl<T> Default for DrainedHints<T> {
    fn default() -> Self {
        Self { items: BTreeSet::new(), everything: false }
    }
}

impl<T> Default for HintQueue<T> {
    fn default() -> Self {
        Self { pending: Mutex::default(), wakeup: Notify::new() }
    }
}

impl<T: Ord> HintQueue<T> {
    /// Takes one in. Never waits.
    pub fn add(&self, item: T) {
        let mut kept = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.everything {
            kept.items.insert(item);
            if kept.items.len() > MAX_PENDING_HINTS {
                *kept = DrainedHints { items: BTreeSet::new(), everything: true };
            }
        }
        drop(kept);
        self.wakeup.notify_one();
    }

    /// Asks to look at everything.
    pub fn add_everything(&self) {
        *self.pending.lock().unwrap_or_else(PoisonError::into_inner) =
            DrainedHints { items: BTreeSet::new(), everything: true };
        self.wakeup.notify_one();
    }

    /// Whether nothing came since the last time.
    pub fn is_empty(&self) -> bool {
        let kept = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        !kept.everything && kept.items.is_empty()
    }

    /// What came since the last time, without waiting.
    pub fn take(&self) -> DrainedHints<T> {
        std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What came since the last time; waits until something has. Dropped while it waits, it loses nothing.
    pub async fn next(&self) -> DrainedHints<T> {
        loop {
            let taken = self.take();
            if taken.everything || !taken.items.is_empty() {
                return taken;
            }
            self.wakeup.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Row S8 of the review: names of refs were kept as long as a host wrote them.
    #[test]
    fn a_name_that_no_ref_has_is_not_kept() {
        let hints = SourceHints::default();
        hints.add(WebhookHint::Ref { name: format!("refs/heads/{}", "x".repeat(3 << 20)) });
        assert_eq!(hints.refs.take(), DrainedHints { items: BTreeSet::new(), everything: true });
        hints.add(WebhookHint::Ref { name: "refs/heads/main".to_owned() });
        assert_eq!(hints.refs.take().items.len(), 1);
    }

    #[tokio::test]
    async fn many_hints_are_one_and_none_is_lost() {
        let hints = SourceHints::default();
        for number in [7, 3, 7, 7] {
            hints.add(WebhookHint::PullRequest { number });
        }
        hints.add(WebhookHint::Ref { name: "refs/heads/main".into() });
        assert_eq!(hints.pulls.next().await, DrainedHints { items: BTreeSet::from([3, 7]), everything: false });
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
            let queue = HintQueue::default();
            numbers.iter().for_each(|number| queue.add(*number));
            let kept = queue.pending.lock().unwrap().clone();
            prop_assert!(kept.items.len() <= MAX_PENDING_HINTS);
            prop_assert!(kept.everything || numbers.iter().all(|number| kept.items.contains(number)));
            prop_assert_eq!(kept.everything, numbers.iter().collect::<BTreeSet<_>>().len() > MAX_PENDING_HINTS);
        }
    }
}
