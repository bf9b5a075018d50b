//! Watching live objects for drift, so that a steady state costs no read: only a change of what was planned by counts.

use sha2::{Digest as _, Sha256};
use stator_cluster::cluster::{Cluster, WatchEvent};
use stator_core::dynamo::kinds;
use stator_core::object::{Object, ObjectIdentity, ObjectRef};
use std::collections::{BTreeSet, HashMap};
use tokio::sync::mpsc;

/// A digest of what counts of an object.
type DriftDigest = [u8; 32];

/// Objects that were planned by, and a watch that tells when one of them is not as it was.
#[derive(Debug, Default)]
pub(in crate::controller) struct DriftDetector {
    feed: Option<mpsc::Receiver<WatchEvent>>,
    baseline: HashMap<ObjectIdentity, (DriftDigest, DriftDigest)>,
}

/// What was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller) enum DriftSignal {
    /// An object is not as it was planned by.
    Drift,
    /// Only its status is another one.
    Status,
    /// Events were lost: nobody knows.
    Lost,
}

impl DriftDetector {
    /// Opens the watch, unless it is open. To be called before the look that a plan is made of, so that nothing falls in
    /// between. False when there is no watch to be had.
    pub(in crate::controller) async fn open(&mut self, cluster: &impl Cluster, namespace: &str) -> bool {
        if let Some(feed) = &mut self.feed {
            // What came before the look is in what it sees.
            loop {
                match feed.try_recv() {
                    Ok(WatchEvent::Applied(_) | WatchEvent::Deleted(_)) => {}
                    Err(mpsc::error::TryRecvError::Empty) => return true,
                    Ok(WatchEvent::Resync) | Err(mpsc::error::TryRecvError::Disconnected) => break,
                }
            }
            self.feed = None;
        }
        if self.feed.is_none() {
            match cluster.watch(kinds::MANAGED, Some(namespace)).await {
                Ok(feed) => self.feed = Some(feed),
                Err(error) => tracing::warn!(%error, "drift is not seen, as live objects cannot be watched"),
            }
        }
        self.feed.is_some()
    }

    /// Whether there is a watch.
    pub(in crate::controller) fn is_open(&self) -> bool {
        self.feed.is_some()
    }

    /// What a plan was made of.
    pub(in crate::controller) fn set_baseline(&mut self, live: &[Object]) {
        self.baseline = live.iter().map(|object| (object.reference().identity(), digest_object(object))).collect();
    }

    /// What a plan was made of that left out what is as it was.
    pub(in crate::controller) fn extend_baseline(&mut self, live: &[Object]) {
        self.baseline.extend(live.iter().map(|object| (object.reference().identity(), digest_object(object))));
    }

    /// Forgets the watch: the namespace is another one.
    pub(in crate::controller) fn close(&mut self) {
        *self = Self::default();
    }

    /// Waits until something is not as it was. `ours` says whether an object that nobody planned by belongs to the
    /// source. May be dropped while it waits.
    pub(in crate::controller) async fn next_signal(&mut self, ours: impl Fn(&Object) -> bool) -> DriftSignal {
        let Some(feed) = &mut self.feed else { return std::future::pending().await };
        loop {
            match feed.recv().await {
                Some(WatchEvent::Applied(object)) => {
                    let identity = object.reference().identity();
                    let now = digest_object(&object);
                    match self.baseline.get(&identity) {
                        Some(then) if *then == now => {}
                        Some((spec, _)) => {
                            let sighting = if *spec == now.0 { DriftSignal::Status } else { DriftSignal::Drift };
                            self.baseline.insert(identity, now);
                            return sighting;
                        }
                        None if ours(&object) => return DriftSignal::Drift,
                        None => {}
                    }
                }
                Some(WatchEvent::Deleted(object)) => {
                    if self.baseline.remove(&object.reference().identity()).is_some() {
                        return DriftSignal::Drift;
                    }
                }
                Some(WatchEvent::Resync) | None => {
                    self.feed = None;
                    return DriftSignal::Lost;
                }
            }
        }
    }
}

impl DriftDetector {
    /// Waits until an object of ours is gone that nobody meant to delete, while a sync is under way: what it then waits for
    /// would never come. What the sync writes is taken in meanwhile. May be dropped while it waits.
    pub(in crate::controller) async fn wait_for_unexpected_deletion(
        &mut self,
        ours: impl Fn(&Object) -> bool,
        meant: &BTreeSet<ObjectIdentity>,
    ) -> ObjectRef {
        while let Some(feed) = &mut self.feed {
            match feed.recv().await {
                Some(WatchEvent::Applied(object)) => {
                    let identity = object.reference().identity();
                    if self.baseline.contains_key(&identity) || ours(&object) {
                        self.baseline.insert(identity, digest_object(&object));
                    }
                }
                Some(WatchEvent::Deleted(object)) => {
                    let identity = object.reference().identity();
                    if self.baseline.remove(&identity).is_some() && !meant.contains(&identity) {
                        return object.reference();
                    }
                }
                Some(WatchEvent::Resync) | None => self.feed = None,
            }
        }
        std::future::pending().await
    }
}

/// What counts for a plan, and the status. Versions and managers change with every write of a status, and say nothing.
fn digest_object(object: &Object) -> (DriftDigest, DriftDigest) {
    let value = object.value();
    let mut spec = Sha256::new();
    for field in ["uid", "labels", "annotations", "deletionTimestamp"] {
        let part = value.pointer(&format!("/metadata/{field}"));
        spec.update(part.map(ToString::to_string).unwrap_or_default());
        spec.update([0]);
    }
    spec.update(value.get("spec").map(ToString::to_string).unwrap_or_default());
    let status = Sha256::digest(value.get("status").map(ToString::to_string).unwrap_or_default());
    (spec.finalize().into(), status.into())
}
