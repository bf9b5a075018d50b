//! What is particular to a folder of files: people and crashes.

use super::scenario::{Folder, apply, graph, live};
use crate::testbed::PATIENCE;
use stator_cluster::cluster::{ApplyOutcome, Cluster, ClusterError, NoEvent, Preconditions, WatchEvent, WatchReceiver};
use stator_core::dynamo::kinds;
use std::collections::BTreeMap;

#[tokio::test]
async fn a_no_op_leaves_the_file_alone() {
    let folder = Folder::new();
    let first = apply(&folder.cluster, graph("llama", 1)).await.object;
    let path = folder.path(&first.reference());
    let before = fs_err::metadata(&path).unwrap().modified().unwrap();
    folder.pass(60);
    assert_eq!(apply(&folder.cluster, graph("llama", 1)).await.outcome, ApplyOutcome::Unchanged);
    assert_eq!(apply(&folder.reopen(), graph("llama", 1)).await.outcome, ApplyOutcome::Unchanged);
    assert_eq!(fs_err::metadata(&path).unwrap().modified().unwrap(), before);
}

#[tokio::test]
async fn the_next_process_finds_the_same_objects_and_goes_on_counting() {
    let folder = Folder::new();
    let first = apply(&folder.cluster, graph("llama", 1)).await.object;
    let next = folder.reopen();
    assert_eq!(live(&next, &first).await, Some(first.clone()));
    let second = apply(&next, graph("qwen", 1)).await.object;
    let number = |object: &stator_core::object::Object| object.resource_version().unwrap().parse::<u64>().unwrap();
    assert_eq!(number(&second), number(&first) + 1);
    fs_err::remove_file(folder.dir.path().join(".revision")).unwrap();
    let third = apply(&folder.reopen(), graph("phi", 1)).await.object;
    assert_eq!(number(&third), number(&second) + 1, "the objects themselves know where the count stood");
}

#[tokio::test]
async fn a_hand_edit_counts_as_a_change_and_an_apply_heals_it() {
    let folder = Folder::new();
    let first = apply(&folder.cluster, graph("llama", 7)).await.object;
    folder.edit(&first.reference(), "replicas: 7", "replicas: 9");
    let edited = live(&folder.cluster, &first).await.unwrap();
    assert_eq!(edited.value()["spec"]["components"][1]["replicas"], 9);
    assert_eq!(edited.generation(), Some(2));
    assert_ne!(edited.resource_version(), first.resource_version());
    assert_eq!(edited.value()["metadata"]["managedFields"], first.value()["metadata"]["managedFields"]);
    assert_eq!(live(&folder.reopen(), &first).await.unwrap(), edited, "it counts once");
    let healed = apply(&folder.cluster, graph("llama", 7)).await;
    assert_eq!((healed.outcome, healed.object.generation()), (ApplyOutcome::Updated, Some(3)));
    assert_eq!(healed.object.spec(), first.spec());
}

#[tokio::test]
async fn a_hand_edit_of_a_label_leaves_the_generation() {
    let folder = Folder::new();
    let first = apply(&folder.cluster, graph("llama", 1)).await.object;
    folder.edit(&first.reference(), "team: search", "team: ads");
    let edited = live(&folder.cluster, &first).await.unwrap();
    assert_eq!(edited.generation(), Some(1));
    assert_ne!(edited.resource_version(), first.resource_version());
}

#[tokio::test]
async fn a_damaged_file_is_named_and_never_taken_for_a_missing_object() {
    let folder = Folder::new();
    let objects =
        [apply(&folder.cluster, graph("a", 1)).await.object, apply(&folder.cluster, graph("b", 1)).await.object];
    apply(&folder.cluster, graph("c", 1)).await;
    let damages = [
        ("kind: DynamoGraphDeployment", "kind: [", "not readable as YAML"),
        ("kind: DynamoGraphDeployment", "kind: Model", "`kind` is `Model`"),
        ("name: a", "name: z", "`metadata.name` is `z`, but the file's path requires `a`"),
        ("uid:", "uuid:", "`metadata.uid` is missing"),
        ("manager: stator", "manger: stator", "`metadata.managedFields`"),
        ("generation: 1", "generation: many", "`metadata.generation` must be a whole number above 0"),
    ];
    for (from, to, message) in damages {
        let path = folder.path(&objects[0].reference());
        let whole = fs_err::read(&path).unwrap();
        folder.edit(&objects[0].reference(), from, to);
        let error = folder.cluster.get(&objects[0].reference()).await.unwrap_err();
        assert!(matches!(&error, ClusterError::Damaged { path: named, .. } if named.ends_with("a.yaml")), "{error}");
        assert!(error.to_string().contains(message), "{error}");
        assert!(error.to_string().contains("fix the file, or delete it"), "{error}");
        let error = folder.cluster.list(&kinds::GRAPH, None, &BTreeMap::new()).await.unwrap_err();
        assert!(error.to_string().contains("a.yaml"), "{error}");
        assert!(live(&folder.cluster, &objects[1]).await.is_some(), "the others are as they were");
        fs_err::write(&path, whole).unwrap();
        assert_eq!(live(&folder.cluster, &objects[0]).await.as_ref(), Some(&objects[0]), "mended");
    }
}

#[tokio::test]
async fn a_list_names_every_damaged_file() {
    let folder = Folder::new();
    for name in ["a", "b", "c"] {
        apply(&folder.cluster, graph(name, 1)).await;
    }
    for name in ["a", "c"] {
        fs_err::write(folder.path(&graph(name, 1).reference()), "\u{0}\u{1}{{{").unwrap();
    }
    let error = folder.cluster.list(&kinds::GRAPH, None, &BTreeMap::new()).await.unwrap_err().to_string();
    assert!(error.contains("a.yaml") && error.contains("c.yaml") && !error.contains("b.yaml"), "{error}");
}

#[tokio::test]
async fn a_stray_file_is_no_object() {
    let folder = Folder::new();
    let first = apply(&folder.cluster, graph("a", 1)).await.object;
    fs_err::write(folder.path(&first.reference()).with_file_name("notes.txt"), "remember the milk").unwrap();
    assert_eq!(folder.cluster.list(&kinds::GRAPH, None, &BTreeMap::new()).await.unwrap().len(), 1);
}

async fn next(events: &mut WatchReceiver) -> WatchEvent {
    tokio::time::timeout(PATIENCE, events.recv()).await.expect("an event in time").expect("a live stream")
}

#[tokio::test]
async fn a_watcher_hears_of_writes_hand_edits_and_hand_deletes() {
    let folder = Folder::new();
    apply(&folder.cluster, graph("old", 1)).await;
    let mut events = folder.cluster.watch(&[kinds::GRAPH], Some("prod")).await.unwrap();
    let first = apply(&folder.cluster, graph("llama", 7)).await.object;
    assert_eq!(next(&mut events).await, WatchEvent::Applied(first.clone()));
    folder.edit(&first.reference(), "replicas: 7", "replicas: 8");
    let WatchEvent::Applied(edited) = next(&mut events).await else { panic!("no edit") };
    assert_eq!(edited.value()["spec"]["components"][1]["replicas"], 8);
    let other = apply(&folder.reopen(), graph("other", 1)).await.object;
    assert_eq!(next(&mut events).await, WatchEvent::Applied(other));
    fs_err::remove_file(folder.path(&first.reference())).unwrap();
    assert_eq!(next(&mut events).await, WatchEvent::Deleted(edited));
}

#[tokio::test]
async fn a_watcher_that_is_behind_hears_the_last_state_of_each_object() {
    let folder = Folder::new();
    let mut events = folder.cluster.watch(&[kinds::GRAPH], None).await.unwrap();
    let first = apply(&folder.cluster, graph("a", 1)).await.object;
    let mut last = BTreeMap::new();
    for number in 0..30 {
        let name = ["a", "b", "c"][number % 3];
        last.insert(name, apply(&folder.cluster, graph(name, number as i64 + 2)).await.object);
    }
    folder.cluster.delete(&first.reference(), &Preconditions::default()).await.unwrap();
    let again = apply(&folder.cluster, graph("a", 1)).await.object;
    let WatchEvent::Deleted(gone) = next(&mut events).await else { panic!("nobody told that it went") };
    assert_eq!(gone.uid(), first.uid());
    assert_eq!(next(&mut events).await, WatchEvent::Applied(again));
    for name in ["b", "c"] {
        assert_eq!(next(&mut events).await, WatchEvent::Applied(last[name].clone()));
    }
    assert_eq!(events.try_recv(), Err(NoEvent::Waiting));
}

/// A disk that is full after so many more writes.
struct Full(std::sync::atomic::AtomicI64);

impl stator_cluster::cluster::embedded::FileWriter for Full {
    fn replace(&self, path: &std::path::Path, bytes: &[u8]) -> std::io::Result<()> {
        if self.0.fetch_sub(1, std::sync::atomic::Ordering::SeqCst) > 0 {
            return stator_cluster::cluster::embedded::AtomicFileWriter.replace(path, bytes);
        }
        // As far as a real one comes: half a temporary file.
        let half = path.with_file_name(".stator-write-half");
        fs_err::write(half, &bytes[..bytes.len() / 2])?;
        Err(std::io::Error::from(std::io::ErrorKind::StorageFull))
    }

    fn remove(&self, path: &std::path::Path) -> std::io::Result<()> {
        stator_cluster::cluster::embedded::AtomicFileWriter.remove(path)
    }
}

#[tokio::test]
async fn a_full_disk_is_said_and_loses_nothing() {
    let folder = Folder::new();
    let disk = std::sync::Arc::new(Full(1.into()));
    let options = stator_cluster::cluster::embedded::EmbeddedOptions { files: disk, ..Default::default() };
    let cluster = stator_cluster::cluster::embedded::EmbeddedCluster::open(folder.dir.path(), options).unwrap();
    let first = apply(&cluster, graph("llama", 1)).await.object;
    let error = super::scenario::try_apply(&cluster, graph("llama", 2), "stator").await.unwrap_err();
    let ClusterError::Storage { message } = error else { panic!("{error}") };
    assert!(message.contains("llama.yaml") && message.contains("no storage space"), "{message}");
    assert_eq!(live(&cluster, &first).await, Some(first.clone()));
    let next = folder.reopen();
    assert_eq!(live(&next, &first).await, Some(first.clone()));
    assert_eq!(next.list(&kinds::GRAPH, None, &BTreeMap::new()).await.unwrap(), [first]);
}

#[tokio::test]
async fn a_folder_that_cannot_be_read_is_an_error_and_not_an_empty_list() {
    let folder = Folder::new();
    apply(&folder.cluster, graph("llama", 1)).await;
    fs_err::write(folder.dir.path().join("prod").join(kinds::CLAIM.plural), "not a folder").unwrap();
    let error = folder.cluster.list(&kinds::CLAIM, None, &BTreeMap::new()).await.unwrap_err();
    assert!(matches!(&error, ClusterError::Storage { message } if message.contains(kinds::CLAIM.plural)), "{error}");
}
