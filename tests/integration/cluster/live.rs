//! Reads from memory against the cluster itself, whatever happens in between.

use super::place::{Namespaces, Place, Remembered};
use super::scenario::graph;
use crate::testbed::{PATIENCE, eventually};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use stator_cluster::cluster::{
    ApplyOutcome, ApplyRequest, Cluster, ClusterError, DeleteOutcome, Preconditions, WatchEvent,
};
use stator_core::dynamo::kinds;
use stator_core::object::{Object, ObjectRef};
use std::collections::BTreeMap;

/// Who does what to which object.
#[derive(Clone, Copy, Debug)]
enum Step {
    Apply { own: bool, name: u8, replicas: i64 },
    Status { name: u8, text: u8 },
    Delete { own: bool, name: u8 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = 0..5_u8;
    let one = prop_oneof![
        4 => (any::<bool>(), name.clone(), 1..9_i64).prop_map(|(own, name, replicas)| Step::Apply { own, name, replicas }),
        2 => (name.clone(), 0..9_u8).prop_map(|(name, text)| Step::Status { name, text }),
        2 => (any::<bool>(), name).prop_map(|(own, name)| Step::Delete { own, name }),
    ];
    prop::collection::vec(one, 1..40)
}

fn of(place: &impl Place, name: u8, replicas: i64) -> Object {
    let mut value = graph(&format!("m-{name}"), replicas).value().clone();
    value["metadata"]["labels"]["team"] = json!(if name.is_multiple_of(2) { "a" } else { "b" });
    place.object(value)
}

async fn all(cluster: &impl Cluster, namespace: &str, labels: &BTreeMap<String, String>) -> Vec<Object> {
    cluster.list(&kinds::GRAPH, Some(namespace), labels).await.unwrap()
}

/// Does one thing. What is refused is refused: two hands are at work.
async fn take(memory: &Remembered, real: &impl Cluster, step: Step) {
    match step {
        Step::Apply { own, name, replicas } => {
            let object = of(memory, name, replicas);
            let request =
                ApplyRequest { force: true, ..ApplyRequest::new(object.clone(), if own { "us" } else { "them" }) };
            if own {
                let applied = memory.cluster().apply(&request).await.unwrap();
                let read = memory.cluster().get(&object.reference()).await.unwrap();
                assert_eq!(read.as_ref(), Some(&applied.object), "what we wrote is what we read");
            } else {
                real.apply(&request).await.unwrap();
            }
        }
        Step::Status { name, text } => {
            let mut value = of(memory, name, 1).into_value();
            value["spec"] = serde_json::Value::Null;
            value.as_object_mut().unwrap().remove("spec");
            value["status"] = json!({"state": format!("state-{text}")});
            let request = ApplyRequest {
                status: true,
                force: true,
                ..ApplyRequest::new(Object::from_value(value).unwrap(), "operator")
            };
            let _ = real.apply(&request).await;
        }
        Step::Delete { own, name } => {
            let reference = of(memory, name, 1).reference();
            if !own {
                real.delete(&reference, &Preconditions::default()).await.unwrap();
                return;
            }
            let Some(known) = memory.cluster().get(&reference).await.unwrap() else { return };
            let meant = Preconditions {
                uid: known.uid().map(str::to_owned),
                resource_version: known.resource_version().map(str::to_owned),
            };
            match memory.cluster().delete(&reference, &meant).await {
                Ok(DeleteOutcome::Gone | DeleteOutcome::Absent) => {
                    let read = memory.cluster().get(&reference).await.unwrap();
                    assert!(read.is_none_or(|read| read.uid() != known.uid()), "what we deleted is gone for us");
                }
                // Memory was behind: the cluster has another version, and nothing was deleted.
                Err(ClusterError::Precondition { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_the_cluster_once_the_watch_has_told_everything() {
    let Some(memory) = Remembered::of("random").await else { return };
    let real = super::place::admin(crate::testbed::shared().unwrap()).await;
    let mut runner = TestRunner::new(Config::default());
    let mut watch = memory.cluster().watch(&[kinds::GRAPH], Some(memory.home())).await.unwrap();
    let mut mirror: BTreeMap<String, Object> = BTreeMap::new();
    for _ in 0..Config::default().cases / 32 {
        for step in steps().new_tree(&mut runner).unwrap().current() {
            take(&memory, &real, step).await;
        }
        for name in 0..5 {
            memory.heard(&of(&memory, name, 1).reference()).await;
        }
        for team in ["a", "b", "c"] {
            let labels = BTreeMap::from([("team".to_owned(), team.to_owned())]);
            let (there, here) =
                (all(&real, memory.home(), &labels).await, all(memory.cluster(), memory.home(), &labels).await);
            assert_eq!(here, there);
        }
        let everything = all(&real, memory.home(), &BTreeMap::new()).await;
        assert_eq!(all(memory.cluster(), memory.home(), &BTreeMap::new()).await, everything);
        // What memory knows is told a moment later.
        while mirror.values().ne(&everything) {
            let event = tokio::time::timeout(PATIENCE, watch.recv()).await;
            match event.expect("whoever watches sees the same").unwrap() {
                WatchEvent::Applied(object) => mirror.insert(object.name().to_owned(), object),
                WatchEvent::Deleted(object) => mirror.remove(object.name()),
                WatchEvent::Resync => panic!("no event is lost here"),
            };
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_deleted_by_memory_alone() {
    let Some(memory) = Remembered::of("stale").await else { return };
    let Some(place) = Namespaces::of("unused").await else { return };
    let graph = of(&memory, 0, 1);
    let reference: ObjectRef = graph.reference();
    let made = memory.cluster().apply(&ApplyRequest::new(graph, "us")).await.unwrap().object;
    // Somebody writes, and the delete is decided by what memory had before.
    place.edit(&reference, "them", |value| value["metadata"]["annotations"] = json!({"note": "mine"})).await;
    let meant = Preconditions {
        uid: made.uid().map(str::to_owned),
        resource_version: made.resource_version().map(str::to_owned),
    };
    let refused = memory.cluster().delete(&reference, &meant).await.unwrap_err();
    assert!(matches!(refused, ClusterError::Precondition { .. }), "{refused}");
    let read = memory.cluster().get(&reference).await.unwrap().unwrap();
    assert_eq!(read.annotations().get("note"), Some(&"mine"), "what was refused is looked at in the cluster");
}

/// A namespace may hold thousands of ConfigMaps of others. None of them is kept, and each is found all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_config_maps_only_those_with_our_label_are_kept() {
    let Some(memory) = Remembered::of("labelled").await else { return };
    let real = super::place::admin(crate::testbed::shared().unwrap()).await;
    let config_map = |name: &str, labels: serde_json::Value| {
        let metadata = json!({"name": name, "labels": labels});
        memory.object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}))
    };
    let own = || json!({kinds::LABEL_MANAGED_BY: kinds::FIELD_MANAGER});
    let (ours, theirs) = (config_map("ours", own()), config_map("theirs", json!({})));
    for object in [&ours, &theirs] {
        real.apply(&ApplyRequest::new(object.clone(), "stator")).await.unwrap();
    }
    let kept = |name: &str| memory.cluster().get_cached(memory.home(), &kinds::CONFIG_MAP, name).is_some();
    let labels = BTreeMap::from([(kinds::LABEL_MANAGED_BY.to_owned(), kinds::FIELD_MANAGER.to_owned())]);
    assert!(!kept("ours"), "nobody has asked for ConfigMaps");
    let list = memory.cluster().list(&kinds::CONFIG_MAP, Some(memory.home()), &labels).await.unwrap();
    assert_eq!(list.iter().map(Object::name).collect::<Vec<_>>(), ["ours"]);
    for object in [&ours, &theirs] {
        assert!(memory.cluster().get(&object.reference()).await.unwrap().is_some());
    }
    assert_eq!((kept("ours"), kept("theirs")), (true, false));
    let everything = memory.cluster().list(&kinds::CONFIG_MAP, Some(memory.home()), &BTreeMap::new()).await.unwrap();
    assert!(everything.iter().any(|object| object.name() == "theirs"), "a list of all is the cluster's");

    // Without the label it is kept no longer, and is there.
    real.apply(&ApplyRequest::new(config_map("ours", json!({})), "stator")).await.unwrap();
    eventually("the watch tells of it as of one that is gone", async || !kept("ours")).await;
    assert!(memory.cluster().get(&ours.reference()).await.unwrap().is_some());
    // A change of it afterwards is told apart from none.
    let again = ApplyRequest::new(config_map("ours", own()), "stator");
    assert_eq!(memory.cluster().apply(&again).await.unwrap().outcome, ApplyOutcome::Updated);
    memory.heard(&ours.reference()).await;
    assert!(kept("ours"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_held_is_read_from_the_cluster() {
    let Some(memory) = Remembered::of("others").await else { return };
    let Some(other) = Namespaces::of("elsewhere").await else { return };
    let graph = other.graph("there", 1);
    other.cluster().apply(&ApplyRequest::new(graph.clone(), "them")).await.unwrap();
    assert!(memory.cluster().get(&graph.reference()).await.unwrap().is_some());
    assert_eq!(all(memory.cluster(), other.home(), &BTreeMap::new()).await.len(), 1);
    let everywhere = memory.cluster().list(&kinds::GRAPH, None, &BTreeMap::new()).await.unwrap();
    assert!(everywhere.iter().any(|object| object.reference() == graph.reference()));
}
