//! A watch tells what happens from now on.

use crate::cluster::place::{Place, on_every_cluster_and_make};
use crate::cluster::scenario::{apply, with};
use crate::testbed::PATIENCE;
use serde_json::json;
use stator_cluster::cluster::{Cluster, Preconditions, WatchEvent};
use stator_core::dynamo::kinds;

on_every_cluster_and_make! {
    a_watch_tells_what_happens_from_now_on,
}

async fn a_watch_tells_what_happens_from_now_on(place: &impl Place) {
    let cluster = place.cluster();
    let before = apply(cluster, place.graph("before", 1)).await.object;
    let mut events = cluster.watch(&[kinds::GRAPH, kinds::CLAIM], Some(place.home())).await.unwrap();
    let elsewhere = with(place.graph("elsewhere", 1), |value| value["metadata"]["namespace"] = json!(place.away()));
    apply(cluster, elsewhere).await;
    let mut next = async || tokio::time::timeout(PATIENCE, events.recv()).await.expect("an event in time").unwrap();
    let made = apply(cluster, place.graph("llama", 1)).await.object;
    assert_eq!(next().await, WatchEvent::Applied(made.clone()));
    let changed = apply(cluster, place.graph("llama", 2)).await.object;
    assert_eq!(next().await, WatchEvent::Applied(changed));
    cluster.delete(&made.reference(), &Preconditions::default()).await.unwrap();
    let WatchEvent::Deleted(gone) = next().await else { panic!("nobody told that it went") };
    assert_eq!(gone.uid(), made.uid());
    let held = with(place.graph("before", 1), |value| value["metadata"]["finalizers"] = json!(["example.com/hold"]));
    let held = apply(cluster, held).await.object;
    assert_eq!(held.uid(), before.uid());
    assert_eq!(next().await, WatchEvent::Applied(held));
}
