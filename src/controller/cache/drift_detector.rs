//! Watching live objects for drift, so that a steady state costs no read: only a change of what was planned by counts.

use sha2::{Digest as _, Sha256};
use stator_cluster::cluster::{Cluster, WatchEvent};
use stator_core::dynamo::kinds;
use stator_core::object::{Object, ObjectIdentity, ObjectRef};
use std::collections::{BTreeSet, HashMap};
use tokio::sync::mpsc;

/// What is remembered of an object: enough to tell what changed, and not the object, which is in the informer cache.
#[derive(Clone, Copy, Debug)]
struct BaselineObject {
    /// SHA-256 of what a plan is made of. Versions and managers change with every write of a status, and say nothing.
    spec_digest: [u8; 32],
    /// SHA-256 of its status.
    status_digest: [u8; 32],
    /// It was on its way out when it was planned by: that it goes is no news.
    was_terminating: bool,
}

/// Objects that were planned by, and a watch that tells when one of them is not as it was.
#[derive(Debug, Default)]
pub(in crate::controller) struct DriftDetector {
    feed: Option<mpsc::Receiver<WatchEvent>>,
    baseline: HashMap<ObjectIdentity, BaselineObject>,
    /// Whether something that a sync did not write changed while it was under way, so that its plan does not know of it.
    changed_during_sync: bool,
}

/// The objects that a sync writes, which are no news when they change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::controller) struct PlannedWrites {
    /// Those that it applies or creates.
    pub(in crate::controller) applied: BTreeSet<ObjectIdentity>,
    /// Those that it deletes, also to create them again.
    pub(in crate::controller) deleted: BTreeSet<ObjectIdentity>,
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
    /// Forgets what it was told so far, since a look begins that sees all of it. To be called before anything of the look
    /// is read, also before it is found out which objects are to be read: what changes after that would be in neither.
    pub(in crate::controller) fn begin_look(&mut self) {
        self.changed_during_sync = false;
        let Some(feed) = &mut self.feed else { return };
        loop {
            match feed.try_recv() {
                Ok(WatchEvent::Applied(_) | WatchEvent::Deleted(_)) => {}
                Err(mpsc::error::TryRecvError::Empty) => return,
                Ok(WatchEvent::Resync) | Err(mpsc::error::TryRecvError::Disconnected) => break,
            }
        }
        self.feed = None;
    }

    /// Opens the watch, unless it is open. To be called before live objects are read, so that nothing falls in between.
    /// False when there is no watch to be had.
    pub(in crate::controller) async fn open(&mut self, cluster: &impl Cluster, namespace: &str) -> bool {
        if self.feed.is_none() {
            match cluster.watch(kinds::MANAGED, Some(namespace)).await {
                Ok(feed) => self.feed = Some(feed),
                Err(error) => tracing::warn!(%error, "drift is not detected, because live objects cannot be watched"),
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
        self.baseline.clear();
        self.extend_baseline(live);
    }

    /// What a plan was made of that left out what is as it was.
    pub(in crate::controller) fn extend_baseline(&mut self, live: &[Object]) {
        let planned = live.iter().map(|object| (object.reference().identity(), BaselineObject::of(object)));
        self.baseline.extend(planned);
    }

    /// Forgets the watch: the namespace is another one.
    pub(in crate::controller) fn close(&mut self) {
        *self = Self::default();
    }

    /// Waits until something is not as it was. `ours` says whether an object that nobody planned by belongs to the
    /// source. May be dropped while it waits.
    pub(in crate::controller) async fn next_signal(&mut self, ours: impl Fn(&Object) -> bool) -> DriftSignal {
        let Some(feed) = &mut self.feed else { return std::future::pending().await };
        if std::mem::take(&mut self.changed_during_sync) {
            return DriftSignal::Drift;
        }
        loop {
            match feed.recv().await {
                Some(WatchEvent::Applied(object)) => {
                    let identity = object.reference().identity();
                    match self.baseline.get_mut(&identity) {
                        Some(known) => {
                            if let Some(signal) = known.observe(&object) {
                                return signal;
                            }
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
    /// would never come. Deletions that are planned, and those that were under way when the sync was planned, are foreseen.
    /// Whatever else changes and is not written by the sync is the next signal once it is over. May be dropped while it
    /// waits.
    pub(in crate::controller) async fn wait_for_unexpected_deletion(
        &mut self,
        ours: impl Fn(&Object) -> bool,
        planned: &PlannedWrites,
    ) -> ObjectRef {
        while let Some(feed) = &mut self.feed {
            match feed.recv().await {
                Some(WatchEvent::Applied(object)) => {
                    let identity = object.reference().identity();
                    let is_planned = planned.applied.contains(&identity) || planned.deleted.contains(&identity);
                    let is_news = if let Some(known) = self.baseline.get_mut(&identity) {
                        known.observe(&object) == Some(DriftSignal::Drift)
                    } else if ours(&object) {
                        self.baseline
                            .insert(identity, BaselineObject { was_terminating: false, ..BaselineObject::of(&object) });
                        true
                    } else {
                        false
                    };
                    self.changed_during_sync |= is_news && !is_planned;
                }
                Some(WatchEvent::Deleted(object)) => {
                    let identity = object.reference().identity();
                    let is_unforeseen =
                        |known: BaselineObject| !known.was_terminating && !planned.deleted.contains(&identity);
                    if self.baseline.remove(&identity).is_some_and(is_unforeseen) {
                        return object.reference();
                    }
                }
                Some(WatchEvent::Resync) | None => self.feed = None,
            }
        }
        std::future::pending().await
    }
}

impl BaselineObject {
    fn of(object: &Object) -> Self {
        let value = object.value();
        let mut spec = Sha256::new();
        for field in ["uid", "labels", "annotations", "deletionTimestamp"] {
            let part = value.pointer(&format!("/metadata/{field}"));
            spec.update(part.map(ToString::to_string).unwrap_or_default());
            spec.update([0]);
        }
        spec.update(value.get("spec").map(ToString::to_string).unwrap_or_default());
        let status = Sha256::digest(value.get("status").map(ToString::to_string).unwrap_or_default());
        Self {
            spec_digest: spec.finalize().into(),
            status_digest: status.into(),
            was_terminating: object.is_deleting(),
        }
    }

    /// Takes the object in as it is now, and says what of it is another than before.
    fn observe(&mut self, object: &Object) -> Option<DriftSignal> {
        let before = std::mem::replace(self, Self { was_terminating: self.was_terminating, ..Self::of(object) });
        if before.spec_digest != self.spec_digest {
            Some(DriftSignal::Drift)
        } else if before.status_digest != self.status_digest {
            Some(DriftSignal::Status)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use stator_cluster::cluster::embedded::{EmbeddedCluster, EmbeddedOptions};

    fn object(name: &str, is_terminating: bool) -> Object {
        let mut value = json!({
            "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment",
            "metadata": {"name": name, "namespace": "models", "uid": name},
        });
        if is_terminating {
            value["metadata"]["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
            value["metadata"]["finalizers"] = json!(["nvidia.com/finalizer"]);
        }
        Object::from_value(value).unwrap()
    }

    fn detector(live: &[Object]) -> (DriftDetector, mpsc::Sender<WatchEvent>) {
        let (events, feed) = mpsc::channel(16);
        let mut detector = DriftDetector { feed: Some(feed), ..DriftDetector::default() };
        detector.set_baseline(live);
        (detector, events)
    }

    /// The object whose deletion ends a sync, once all events are taken in.
    fn unexpected(live: &[Object], planned: &[&str], events: Vec<WatchEvent>) -> Option<String> {
        let (mut detector, feed) = detector(live);
        events.into_iter().for_each(|event| feed.try_send(event).unwrap());
        let deleted = planned.iter().map(|name| object(name, false).reference().identity()).collect();
        let planned = PlannedWrites { deleted, ..PlannedWrites::default() };
        let mut wait = std::pin::pin!(detector.wait_for_unexpected_deletion(|_| true, &planned));
        futures_util::FutureExt::now_or_never(wait.as_mut()).map(|object| object.name)
    }

    /// Row E6 of the review: objects that were on their way out before the sync began ended it, each.
    #[test]
    fn an_object_that_was_terminating_when_it_was_planned_by_ends_no_sync() {
        let gone = |name: &str| WatchEvent::Deleted(object(name, true));
        let live = [object("leaving", true), object("staying", false), object("pruned", false)];
        assert_eq!(unexpected(&live, &[], vec![gone("leaving")]), None);
        assert_eq!(unexpected(&live, &["pruned"], vec![gone("pruned")]), None);
        assert_eq!(unexpected(&live, &[], vec![gone("leaving"), gone("staying")]), Some("staying".to_owned()));
    }

    /// One that somebody deletes meanwhile passes through a state in which it is terminating, too.
    #[test]
    fn an_object_that_somebody_deletes_during_a_sync_ends_it() {
        let live = [object("a", false), object("b", true)];
        let events = vec![WatchEvent::Applied(object("a", true)), WatchEvent::Deleted(object("a", true))];
        assert_eq!(unexpected(&live, &[], events), Some("a".to_owned()));
        // The one that was on its way out is gone, and there is another of its name.
        let events = vec![
            WatchEvent::Deleted(object("b", true)),
            WatchEvent::Applied(object("b", false)),
            WatchEvent::Deleted(object("b", false)),
        ];
        assert_eq!(unexpected(&live, &[], events), Some("b".to_owned()));
    }

    fn edited(name: &str) -> Object {
        let edit = |mut value: serde_json::Value| {
            value["spec"] = json!({"components": [{"name": "worker", "replicas": 7}]});
            value
        };
        object(name, false).map(edit).unwrap()
    }

    fn signal(detector: &mut DriftDetector) -> Option<DriftSignal> {
        futures_util::FutureExt::now_or_never(detector.next_signal(|_| true))
    }

    /// A sync that wrote nothing, or other objects, took an edit by hand for its own, and nobody looked at it again.
    #[test]
    fn what_changes_during_a_sync_and_is_not_written_by_it_is_drift_after_it() {
        let live = [object("edited", false), object("written", false), object("steady", false)];
        let (mut detector, feed) = detector(&live);
        let applied = [live[1].reference().identity()].into();
        let planned = PlannedWrites { applied, ..PlannedWrites::default() };
        let during_sync = |detector: &mut DriftDetector, names: [&str; 2]| {
            names.iter().for_each(|name| feed.try_send(WatchEvent::Applied(edited(name))).unwrap());
            let wait = detector.wait_for_unexpected_deletion(|_| true, &planned);
            assert_eq!(futures_util::FutureExt::now_or_never(wait), None);
        };
        during_sync(&mut detector, ["written", "edited"]);
        assert_eq!(signal(&mut detector), Some(DriftSignal::Drift));
        assert_eq!(signal(&mut detector), None);
        // The same as before, and what another look sees.
        during_sync(&mut detector, ["written", "edited"]);
        assert_eq!(signal(&mut detector), None);
        during_sync(&mut detector, ["written", "steady"]);
        detector.begin_look();
        detector.set_baseline(&[edited("edited"), edited("written"), edited("steady")]);
        assert_eq!(signal(&mut detector), None);
    }

    /// Which objects are read is found out before the watch is asked for: what changed in between was in neither.
    #[tokio::test]
    async fn what_changes_after_a_look_began_is_not_forgotten_when_the_watch_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let cluster = EmbeddedCluster::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let (mut detector, feed) = detector(&[object("a", false), object("b", false)]);
        feed.try_send(WatchEvent::Applied(edited("a"))).unwrap();
        detector.begin_look();
        feed.try_send(WatchEvent::Applied(edited("b"))).unwrap();
        assert!(detector.open(&cluster, "models").await);
        detector.extend_baseline(&[edited("a")]);
        assert_eq!(signal(&mut detector), Some(DriftSignal::Drift));
        assert_eq!(signal(&mut detector), None);
    }
}
