//! Who watches what, and telling them.

use crate::cluster::{WatchReceiver, WatchSender, watch_queue};
use stator_core::object::{ObjectRef, ObjectText};
use std::collections::BTreeSet;

/// The watchers of one cluster.
#[derive(Default)]
pub(super) struct WatchBroadcaster {
    watchers: Vec<WatchSubscriber>,
}

struct WatchSubscriber {
    kinds: BTreeSet<&'static str>,
    namespace: Option<String>,
    queue: WatchSender,
}

impl WatchSubscriber {
    fn wants(&self, object: &ObjectRef) -> bool {
        self.kinds.contains(object.kind.as_str()) && self.namespace.as_ref().is_none_or(|own| *own == object.namespace)
    }
}

impl WatchBroadcaster {
    /// Adds a watcher.
    pub(super) fn subscribe(&mut self, kinds: BTreeSet<&'static str>, namespace: Option<String>) -> WatchReceiver {
        let (queue, receiver) = watch_queue();
        self.watchers.push(WatchSubscriber { kinds, namespace, queue });
        receiver
    }

    /// Whether nobody watches any more.
    pub(super) fn is_empty(&mut self) -> bool {
        self.watchers.retain(|watcher| !watcher.queue.is_closed());
        self.watchers.is_empty()
    }

    /// The kinds and namespaces that are watched.
    pub(super) fn scopes(&self) -> BTreeSet<(&'static str, Option<String>)> {
        self.watchers
            .iter()
            .flat_map(|watcher| watcher.kinds.iter().map(|kind| (*kind, watcher.namespace.clone())))
            .collect()
    }

    /// Tells every watcher that an object was created or changed.
    pub(super) fn broadcast_applied(&mut self, object: &ObjectText) {
        self.broadcast(object, WatchSender::send_applied);
    }

    /// Tells every watcher that an object is gone.
    pub(super) fn broadcast_deleted(&mut self, object: &ObjectText) {
        self.broadcast(object, WatchSender::send_deleted);
    }

    fn broadcast(&mut self, object: &ObjectText, send: fn(&WatchSender, ObjectText)) {
        self.watchers.retain(|watcher| {
            if watcher.wants(object.reference()) {
                send(&watcher.queue, object.clone());
            }
            !watcher.queue.is_closed()
        });
    }
}
