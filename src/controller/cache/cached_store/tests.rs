//! A cluster that writes, a watch that lags behind it, and answers that come early or late.

use super::{CachedObjectStore, StoreChange};
use proptest::prelude::*;
use serde_json::json;
use stator_core::object::Object;
use std::collections::BTreeMap;

fn object(name: &str, uid: u64, version: u64) -> Object {
    Object::from_value(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {
            "name": name, "namespace": "prod", "uid": format!("uid-{uid}"), "resourceVersion": version.to_string(),
            "labels": {"team": if uid.is_multiple_of(2) { "a" } else { "b" }},
        },
        "spec": {"written": version},
    }))
    .unwrap()
}

fn version(object: &Object) -> u64 {
    object.resource_version().unwrap().parse().unwrap()
}

/// What happened in the cluster, in the order of versions.
#[derive(Clone, Debug)]
enum Event {
    Applied(Object),
    Deleted(Object),
}

/// A cluster of one kind.
#[derive(Debug, Default)]
struct Cluster {
    version: u64,
    uids: u64,
    objects: BTreeMap<String, Object>,
    events: Vec<(u64, Event)>,
}

impl Cluster {
    fn write(&mut self, name: &str) -> Object {
        self.version += 1;
        let uid = match self.objects.get(name) {
            Some(object) => object.uid().unwrap()[4..].parse().unwrap(),
            None => {
                self.uids += 1;
                self.uids
            }
        };
        let written = object(name, uid, self.version);
        self.objects.insert(name.to_owned(), written.clone());
        self.events.push((self.version, Event::Applied(written.clone())));
        written
    }

    fn delete(&mut self, name: &str) -> Option<Object> {
        let gone = self.objects.remove(name)?;
        self.version += 1;
        self.events.push((self.version, Event::Deleted(gone.clone())));
        Some(gone)
    }
}

/// A store of it, with its watch.
#[derive(Debug, Default)]
struct Keeper {
    shelf: CachedObjectStore,
    /// How many events the watch has delivered.
    delivered: usize,
    /// A list under way: what is still to be shown, and its version.
    list: Option<(Vec<Object>, u64)>,
}

impl Keeper {
    /// The watch delivers the next event; none while a list is under way.
    fn hear(&mut self, cluster: &Cluster) -> bool {
        if self.list.is_some() {
            return false;
        }
        let Some((at, event)) = cluster.events.get(self.delivered) else { return false };
        self.delivered += 1;
        match event {
            Event::Applied(object) => self.shelf.apply_watched(object, *at),
            Event::Deleted(object) => self.shelf.apply_deleted(object, *at),
        };
        true
    }

    fn list(&mut self, cluster: &Cluster) {
        self.shelf.begin_list(cluster.version);
        self.list = Some((cluster.objects.values().cloned().collect(), cluster.version));
    }

    /// The next of the list, or its end.
    fn page(&mut self, cluster: &Cluster) -> bool {
        let Some((left, at)) = &mut self.list else { return false };
        match left.pop() {
            Some(object) => {
                let version = version(&object);
                self.shelf.apply_listed(&object, version);
            }
            None => {
                self.shelf.finish_list();
                self.delivered = cluster.events.iter().filter(|(version, _)| version <= at).count();
                self.list = None;
            }
        }
        true
    }

    fn holds(&self) -> BTreeMap<String, Object> {
        let all = self.shelf.select(&BTreeMap::new());
        all.iter().filter_map(|kept| kept.parse_object()).map(|object| (object.name().to_owned(), object)).collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Somebody else writes or deletes.
    Other(bool, u8),
    /// We do, and the answer is here at once.
    Own(bool, u8),
    /// We do, and the answer is here only after the watch delivered so many events.
    Late(bool, u8, u8),
    /// The watch delivers so many events.
    Hear(u8),
    /// Events were lost.
    List,
    /// So much of a list comes.
    Page(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = 0..4_u8;
    let one = prop_oneof![
        3 => (any::<bool>(), name.clone()).prop_map(|(write, name)| Step::Other(write, name)),
        3 => (any::<bool>(), name.clone()).prop_map(|(write, name)| Step::Own(write, name)),
        2 => (any::<bool>(), name, 0..6_u8).prop_map(|(write, name, after)| Step::Late(write, name, after)),
        4 => (1..4_u8).prop_map(Step::Hear),
        1 => Just(Step::List),
        2 => (1..4_u8).prop_map(Step::Page),
    ];
    prop::collection::vec(one, 0..60)
}

/// The answer to a write of our own.
fn answer(shelf: &mut CachedObjectStore, written: Option<&Object>, deleted: Option<&Object>) {
    if let Some(object) = written {
        shelf.apply_response(object, version(object));
    }
    if let Some(object) = deleted {
        shelf.mark_gone(object.name(), object.uid().unwrap());
    }
}

proptest! {
    #[test]
    fn a_shelf_never_goes_back_and_ends_where_the_cluster_is(steps in steps()) {
        let (mut cluster, mut keeper) = (Cluster::default(), Keeper::default());
        keeper.list(&cluster);
        while keeper.page(&cluster) {}
        // The newest version of each object that was read; what we wrote counts as read.
        let mut read: BTreeMap<String, u64> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Other(true, name) => {
                    cluster.write(&name.to_string());
                }
                Step::Other(false, name) => {
                    cluster.delete(&name.to_string());
                }
                Step::Own(write, name) | Step::Late(write, name, _) => {
                    let name = name.to_string();
                    let written = write.then(|| cluster.write(&name));
                    let deleted = if write { None } else { cluster.delete(&name) };
                    if let Step::Late(_, _, after) = step {
                        for _ in 0..after {
                            let _ = keeper.page(&cluster) || keeper.hear(&cluster);
                        }
                    }
                    answer(&mut keeper.shelf, written.as_ref(), deleted.as_ref());
                    if let Some(object) = &written {
                        let held = keeper.shelf.get(&name).map(|kept| kept.version);
                        prop_assert!(held.is_some_and(|held| held >= version(object)), "our write is read: {held:?}");
                    }
                    if let Some(object) = &deleted {
                        let held = keeper.shelf.get(&name);
                        prop_assert!(held.is_none_or(|kept| *kept.uid != *object.uid().unwrap()), "our delete is read");
                    }
                }
                Step::Hear(count) => (0..count).for_each(|_| { keeper.hear(&cluster); }),
                Step::List if keeper.list.is_none() => keeper.list(&cluster),
                Step::List => {}
                Step::Page(count) => (0..count).for_each(|_| { keeper.page(&cluster); }),
            }
            for (name, object) in keeper.holds() {
                let before = read.insert(name.clone(), version(&object)).unwrap_or_default();
                prop_assert!(version(&object) >= before, "{name} went back from {before} to {}", version(&object));
            }
        }
        while keeper.page(&cluster) || keeper.hear(&cluster) {}
        prop_assert_eq!(keeper.holds(), cluster.objects);
        prop_assert!(keeper.shelf.filling.is_none());
    }
}

#[test]
fn what_is_listed_by_label_is_what_has_the_label() {
    let mut shelf = CachedObjectStore::default();
    for number in 1..5 {
        assert_eq!(shelf.apply_watched(&object(&format!("m-{number}"), number, number), number), StoreChange::Changed);
    }
    let team = |name: &str| -> Vec<String> {
        let labels = BTreeMap::from([("team".to_owned(), name.to_owned())]);
        shelf.select(&labels).iter().map(|kept| kept.parse_object().unwrap().name().to_owned()).collect()
    };
    assert_eq!(team("a"), ["m-2", "m-4"]);
    assert_eq!(team("b"), ["m-1", "m-3"]);
    assert_eq!(team("c"), [""; 0]);
}

#[test]
fn a_store_that_was_restored_counts_from_where_it_is() {
    let mut shelf = CachedObjectStore::default();
    shelf.apply_watched(&object("kept", 1, 50), 50);
    shelf.apply_watched(&object("lost", 2, 60), 60);
    // The backup is of version 40; what it holds is older than what was seen, and true.
    shelf.begin_list(40);
    assert_eq!(shelf.apply_listed(&object("kept", 1, 30), 30), StoreChange::Changed);
    assert!(
        matches!(shelf.finish_list(), StoreChange::Gone(gone) if gone.iter().all(|object| object.name() == "lost"))
    );
    assert_eq!(shelf.get("kept").unwrap().version, 30);
    assert_eq!(shelf.apply_watched(&object("new", 3, 41), 41), StoreChange::Changed);
}
