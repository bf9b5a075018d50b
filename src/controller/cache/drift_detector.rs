//! Watching live objects for drift, so that a steady state costs no read: only a change of what was planned by counts.

use rayon::prelude::*;
use sha2::{Digest as _, Sha256};
use stator_cluster::cluster::{Cluster, NoEvent, WatchEvent, WatchReceiver};
use stator_core::dynamo::kinds;
use stator_core::object::{Object, ObjectIdentity, ObjectRef, ObjectText};
use std::collections::{BTreeSet, HashMap};

/// What is remembered of an object: enough to tell what changed, and not the object, which is in the informer cache.
#[derive(Clone, Debug)]
struct BaselineObject {
    uid: Box<str>,
    /// SHA-256 of what a plan is made of. Versions and managers change with every write of a status, and say nothing.
    spec_digest: [u8; 32],
    /// SHA-256 of its uid and its `spec` alone: what operators write beside it does not touch these.
    core_digest: [u8; 32],
    /// SHA-256 of its status.
    status_digest: [u8; 32],
    /// It was on its way out when it was planned by: that it goes is no news.
    was_terminating: bool,
}

/// Objects that were planned by, and a watch that tells when one of them is not as it was.
#[derive(Debug, Default)]
pub(in crate::controller) struct DriftDetector {
    feed: Option<WatchReceiver>,
    baseline: HashMap<ObjectIdentity, BaselineObject>,
    /// What changed while a sync was under way that did not write it, so that its plan does not know of it.
    changed_during_sync: BTreeSet<ObjectIdentity>,
}

/// The objects that a sync writes, which are no news when they change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::controller) struct PlannedWrites {
    /// Those that it applies or creates.
    pub(in crate::controller) applied: BTreeSet<ObjectIdentity>,
    /// Those that it deletes, also to create them again.
    pub(in crate::controller) deleted: BTreeSet<ObjectIdentity>,
}

/// Why a sync that is under way is better begun anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller) enum SyncInterruption {
    /// An object of ours is gone that nobody meant to delete: what the sync then waits for would never come.
    Deleted(ObjectRef),
    /// Somebody changed an object that the sync does not write, and it may wait for long.
    Changed(ObjectRef),
}

/// What was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller) enum DriftSignal {
    /// This object is not as it was planned by.
    Drift(ObjectIdentity),
    /// Only its status is another one.
    Status,
    /// Events were lost: nobody knows.
    Lost,
}

/// What of an object is another than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObservedChange {
    /// Its `spec`, or it is another object.
    Core,
    /// What a plan is made of.
    Spec,
    /// Its status alone.
    Status,
}

impl DriftDetector {
    /// Forgets the events so far, since a look begins that sees all of it. To be called before anything of the look
    /// is read, also before it is found out which objects are to be read: what changes after that would be in neither.
    pub(in crate::controller) fn begin_look(&mut self) {
        self.changed_during_sync.clear();
        let Some(feed) = &mut self.feed else { return };
        loop {
            match feed.try_recv() {
                Ok(WatchEvent::Applied(_) | WatchEvent::Deleted(_)) => {}
                Err(NoEvent::Waiting) => return,
                Ok(WatchEvent::Resync) | Err(NoEvent::Ended) => break,
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
    pub(in crate::controller) fn set_baseline(&mut self, live: &[ObjectText]) {
        self.baseline.clear();
        self.extend_baseline(live);
    }

    /// What a plan was made of that left out what is as it was.
    pub(in crate::controller) fn extend_baseline(&mut self, live: &[ObjectText]) {
        let planned: Vec<(ObjectIdentity, BaselineObject)> = live
            .par_iter()
            .map(|object| (object.reference().identity(), BaselineObject::of(&object.parse())))
            .collect();
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
        if let Some(changed) = self.changed_during_sync.pop_first() {
            return DriftSignal::Drift(changed);
        }
        loop {
            match feed.recv().await {
                Some(WatchEvent::Applied(object)) => {
                    let identity = object.reference().identity();
                    match self.baseline.get_mut(&identity) {
                        Some(known) => {
                            if let Some(change) = known.observe(&object) {
                                return match change {
                                    ObservedChange::Core | ObservedChange::Spec => DriftSignal::Drift(identity),
                                    ObservedChange::Status => DriftSignal::Status,
                                };
                            }
                        }
                        None if ours(&object) => return DriftSignal::Drift(identity),
                        None => {}
                    }
                }
                Some(WatchEvent::Deleted(object)) => {
                    let identity = object.reference().identity();
                    if self.baseline.remove(&identity).is_some() {
                        return DriftSignal::Drift(identity);
                    }
                }
                Some(WatchEvent::Resync) | None => {
                    self.feed = None;
                    return DriftSignal::Lost;
                }
            }
        }
    }

    /// Waits until a sync that is under way is better begun anew. Deletions that are planned, and those that were under way
    /// when the sync was planned, are foreseen. `interrupts` says of which objects a change of `spec` is a reason. Whatever
    /// else changes and is not written by the sync is the next signal once it is over. May be dropped while it waits.
    pub(in crate::controller) async fn wait_for_interruption(
        &mut self,
        ours: impl Fn(&Object) -> bool,
        planned: &PlannedWrites,
        interrupts: impl Fn(&ObjectIdentity) -> bool,
    ) -> SyncInterruption {
        while let Some(feed) = &mut self.feed {
            match feed.recv().await {
                Some(WatchEvent::Applied(object)) => {
                    let identity = object.reference().identity();
                    let is_planned = planned.applied.contains(&identity) || planned.deleted.contains(&identity);
                    let is_news = if let Some(known) = self.baseline.get_mut(&identity) {
                        let change = known.observe(&object);
                        if change == Some(ObservedChange::Core) && !is_planned && interrupts(&identity) {
                            return SyncInterruption::Changed(object.reference());
                        }
                        matches!(change, Some(ObservedChange::Core | ObservedChange::Spec))
                    } else if ours(&object) {
                        self.baseline.insert(
                            identity.clone(),
                            BaselineObject { was_terminating: false, ..BaselineObject::of(&object) },
                        );
                        true
                    } else {
                        false
                    };
                    if is_news && !is_planned {
                        self.changed_during_sync.insert(identity);
                    }
                }
                Some(WatchEvent::Deleted(object)) => {
                    let identity = object.reference().identity();
                    let is_unforeseen = |known: BaselineObject| {
                        // Another of that name came and went since.
                        let is_other = object.uid().unwrap_or_default() != &*known.uid;
                        (is_other || !known.was_terminating) && !planned.deleted.contains(&identity)
                    };
                    // One that came meanwhile may go before anything was heard of it.
                    let is_ours = || !planned.deleted.contains(&identity) && ours(&object);
                    if self.baseline.remove(&identity).map_or_else(is_ours, is_unforeseen) {
                        return SyncInterruption::Deleted(object.reference());
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
        let own = value.get("spec").map(ToString::to_string).unwrap_or_default();
        spec.update(&own);
        let core = Sha256::new().chain_update(object.uid().unwrap_or_default()).chain_update([0]).chain_update(&own);
        let status = Sha256::digest(value.get("status").map(ToString::to_string).unwrap_or_default());
        Self {
            uid: object.uid().unwrap_or_default().into(),
            spec_digest: spec.finalize().into(),
            core_digest: core.finalize().into(),
            status_digest: status.into(),
            was_terminating: object.is_deleting(),
        }
    }

    /// Takes the object in as it is now, and says what of it is another than before.
    fn observe(&mut self, object: &Object) -> Option<ObservedChange> {
        let before = std::mem::replace(self, Self { was_terminating: self.was_terminating, ..Self::of(object) });
        if before.core_digest != self.core_digest {
            Some(ObservedChange::Core)
        } else if before.spec_digest != self.spec_digest {
            Some(ObservedChange::Spec)
        } else if before.status_digest != self.status_digest {
            Some(ObservedChange::Status)
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
    use stator_cluster::cluster::{WatchSender, watch_queue};

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

    fn texts(objects: &[Object]) -> Vec<ObjectText> {
        objects.iter().map(ObjectText::from).collect()
    }

    fn detector(live: &[Object]) -> (DriftDetector, WatchSender) {
        let (events, feed) = watch_queue();
        let mut detector = DriftDetector { feed: Some(feed), ..DriftDetector::default() };
        detector.set_baseline(&texts(live));
        (detector, events)
    }

    /// The object whose deletion ends a sync, once all events are taken in.
    fn unexpected(live: &[Object], planned: &[&str], events: Vec<WatchEvent>) -> Option<SyncInterruption> {
        let (mut detector, feed) = detector(live);
        events.into_iter().for_each(|event| feed.send(event));
        let deleted = planned.iter().map(|name| object(name, false).reference().identity()).collect();
        let planned = PlannedWrites { deleted, ..PlannedWrites::default() };
        let mut wait = std::pin::pin!(detector.wait_for_interruption(|_| true, &planned, |_| false));
        futures_util::FutureExt::now_or_never(wait.as_mut())
    }

    fn deletion(name: &str) -> Option<SyncInterruption> {
        Some(SyncInterruption::Deleted(object(name, false).reference()))
    }

    /// Row E6 of the review: objects that were on their way out before the sync began ended it, each.
    #[test]
    fn an_object_that_was_terminating_when_it_was_planned_by_ends_no_sync() {
        let gone = |name: &str| WatchEvent::Deleted(object(name, true));
        let live = [object("leaving", true), object("staying", false), object("pruned", false)];
        assert_eq!(unexpected(&live, &[], vec![gone("leaving")]), None);
        assert_eq!(unexpected(&live, &["pruned"], vec![gone("pruned")]), None);
        assert_eq!(unexpected(&live, &[], vec![gone("leaving"), gone("staying")]), deletion("staying"));
    }

    /// One that somebody deletes meanwhile passes through a state in which it is terminating, too.
    #[test]
    fn an_object_that_somebody_deletes_during_a_sync_ends_it() {
        let live = [object("a", false), object("b", true)];
        let events = vec![WatchEvent::Applied(object("a", true)), WatchEvent::Deleted(object("a", true))];
        assert_eq!(unexpected(&live, &[], events), deletion("a"));
        // The one that was on its way out is gone, and so is another of its name, whose coming was not heard of.
        let other = object("b", false).map(|mut value| {
            value["metadata"]["uid"] = json!("another");
            value
        });
        let other = other.unwrap();
        let events = vec![
            WatchEvent::Deleted(object("b", true)),
            WatchEvent::Applied(other.clone()),
            WatchEvent::Deleted(other),
        ];
        assert_eq!(unexpected(&live, &[], events), deletion("b"));
    }

    fn edited(name: &str) -> Object {
        let edit = |mut value: serde_json::Value| {
            value["spec"] = json!({"components": [{"name": "worker", "replicas": 7}]});
            value
        };
        object(name, false).map(edit).unwrap()
    }

    fn drift(name: &str) -> DriftSignal {
        DriftSignal::Drift(object(name, false).reference().identity())
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
            names.iter().for_each(|name| feed.send(WatchEvent::Applied(edited(name))));
            let wait = detector.wait_for_interruption(|_| true, &planned, |_| false);
            assert_eq!(futures_util::FutureExt::now_or_never(wait), None);
        };
        during_sync(&mut detector, ["written", "edited"]);
        assert_eq!(signal(&mut detector), Some(drift("edited")));
        assert_eq!(signal(&mut detector), None);
        // The same as before, and what another look sees.
        during_sync(&mut detector, ["written", "edited"]);
        assert_eq!(signal(&mut detector), None);
        during_sync(&mut detector, ["written", "steady"]);
        detector.begin_look();
        detector.set_baseline(&texts(&[edited("edited"), edited("written"), edited("steady")]));
        assert_eq!(signal(&mut detector), None);
    }

    /// Row E3 of the review: a sync that waits for the health of one model kept the drift of all others waiting.
    #[test]
    fn a_change_of_what_a_sync_does_not_write_ends_it_where_that_is_wanted() {
        let live = [object("written", false), object("known", false), object("other", false)];
        let (mut detector, feed) = detector(&live);
        let planned = PlannedWrites { applied: [live[0].reference().identity()].into(), ..PlannedWrites::default() };
        for name in ["written", "known", "other"] {
            feed.send(WatchEvent::Applied(edited(name)));
        }
        let wait = detector.wait_for_interruption(|_| true, &planned, |identity| identity.name != "known");
        let changed = SyncInterruption::Changed(live[2].reference());
        assert_eq!(futures_util::FutureExt::now_or_never(wait), Some(changed));
        assert_eq!(signal(&mut detector), Some(drift("known")));
        // What an operator writes beside the spec ends none.
        let annotate = |mut value: serde_json::Value| {
            value["metadata"]["annotations"] = json!({"nvidia.com/current-worker-hash": "1"});
            value
        };
        feed.send(WatchEvent::Applied(edited("other").map(annotate).unwrap()));
        let wait = detector.wait_for_interruption(|_| true, &planned, |_| true);
        assert_eq!(futures_util::FutureExt::now_or_never(wait), None);
    }

    /// Which objects are read is found out before the watch is asked for: what changed in between was in neither.
    #[tokio::test]
    async fn what_changes_after_a_look_began_is_not_forgotten_when_the_watch_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let cluster = EmbeddedCluster::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let (mut detector, feed) = detector(&[object("a", false), object("b", false)]);
        feed.send(WatchEvent::Applied(edited("a")));
        detector.begin_look();
        feed.send(WatchEvent::Applied(edited("b")));
        assert!(detector.open(&cluster, "models").await);
        detector.extend_baseline(&texts(&[edited("a")]));
        assert_eq!(signal(&mut detector), Some(drift("b")));
        assert_eq!(signal(&mut detector), None);
    }
}
