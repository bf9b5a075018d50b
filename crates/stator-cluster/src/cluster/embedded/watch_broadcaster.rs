//! Who watches what, and telling them.

use crate::cluster::WatchEvent;
use stator_core::object::{Object, ObjectRef};
use std::collections::BTreeSet;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// The watchers of one cluster.
#[derive(Default)]
pub(super) struct WatchBroadcaster {
    watchers: Vec<WatchSubscriber>,
}

struct WatchSubscriber {
    kinds: BTreeSet<&'static str>,
    namespace: Option<String>,
    queue: mpsc::Sender<WatchEvent>,
}

impl WatchSubscriber {
    fn wants(&self, object: &ObjectRef) -> bool {
        self.kinds.contains(object.kind.as_str()) && self.namespace.as_ref().is_none_or(|own| *own == object.namespace)
    }
}

impl WatchBroadcaster {
    /// Adds a watcher whose queue holds so many events, and one more place for the word that some were lost.
    pub(super) fn subscribe(
        &mut self,
        kinds: BTreeSet<&'static str>,
        namespace: Option<String>,
        capacity: usize,
    ) -> mpsc::Receiver<WatchEvent> {
        let (queue, receiver) = mpsc::channel(capacity.max(1) + 1);
        self.watchers.push(WatchSubscriber { kinds, namespace, queue });
        receiver
    }

    /// True when nobody watches, so that no event has to be prepared.
    pub(super) fn is_empty(&self) -> bool {
        self.watchers.is_empty()
    }

    /// The kinds and namespaces that somebody still watches.
    pub(super) fn scopes(&mut self) -> BTreeSet<(&'static str, Option<String>)> {
        self.watchers.retain(|watcher| !watcher.queue.is_closed());
        self.watchers
            .iter()
            .flat_map(|watcher| watcher.kinds.iter().map(|kind| (*kind, watcher.namespace.clone())))
            .collect()
    }

    /// Tells every watcher that an object was created or changed.
    pub(super) fn broadcast_applied(&mut self, object: &Object) {
        if self.is_empty() {
            return;
        }
        self.broadcast(&object.reference(), || WatchEvent::Applied(object.clone()));
    }

    /// Tells every watcher that an object is gone.
    pub(super) fn broadcast_deleted(&mut self, object: &Object) {
        if self.is_empty() {
            return;
        }
        self.broadcast(&object.reference(), || WatchEvent::Deleted(object.clone()));
    }

    fn broadcast(&mut self, object: &ObjectRef, event: impl Fn() -> WatchEvent) {
        self.watchers.retain(|watcher| {
            if !watcher.wants(object) {
                return !watcher.queue.is_closed();
            }
            // The last place is kept for `Resync`, after which the stream ends.
            if watcher.queue.capacity() <= 1 {
                let _ = watcher.queue.try_send(WatchEvent::Resync);
                return false;
            }
            match watcher.queue.try_send(event()) {
                Ok(()) => true,
                Err(TrySendError::Full(_) | TrySendError::Closed(_)) => false,
            }
        });
    }
}
