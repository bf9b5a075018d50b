//! Watches over connections that end.

use super::{Reply, Server, live, status};
use crate::cluster::kube::{ConnectOptions, KubeCluster};
use crate::cluster::{Cluster as _, WatchEvent};
use serde_json::{Value, json};
use stator_core::dynamo::kinds::{ADAPTER, GRAPH};
use tokio::sync::mpsc::Receiver;

const THEN: &str = "2026-11-21T03:00:00Z";

fn newest(resource_version: &str) -> Reply {
    Reply::json(
        200,
        &json!({"kind": "PartialObjectMetadataList", "metadata": {"resourceVersion": resource_version}, "items": []}),
    )
}

fn event(kind: &str, object: &Value) -> Value {
    json!({"type": kind, "object": object})
}

fn bookmark(resource_version: &str) -> Value {
    event("BOOKMARK", &json!({"kind": "DynamoGraphDeployment", "metadata": {"resourceVersion": resource_version}}))
}

fn gone() -> Value {
    event("ERROR", &json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}))
}

async fn watch(cluster: &KubeCluster) -> Receiver<WatchEvent> {
    cluster.watch(&[GRAPH], Some("prod")).await.unwrap()
}

/// Everything that is heard until the stream ends.
async fn heard(mut events: Receiver<WatchEvent>) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(event) = events.recv().await {
        all.push(match event {
            WatchEvent::Applied(object) => format!("applied {} {}", object.name(), object.resource_version().unwrap()),
            WatchEvent::Deleted(object) => format!("deleted {}", object.name()),
            WatchEvent::Resync => "resync".to_owned(),
        });
    }
    all
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_where_its_connection_ended_until_events_are_lost() {
    let server = Server::new([
        newest("10"),
        Reply::events(&[event("ADDED", &live("a", "11", THEN)), event("MODIFIED", &live("a", "12", THEN))]),
        Reply::events(&[bookmark("40")]),
        status(429, "TooManyRequests", "busy", Value::Null).header("Retry-After", "2"),
        Reply::events(&[event("DELETED", &live("a", "41", THEN))]),
        Reply::events(&[gone()]),
    ]);
    let events = watch(&server.cluster()).await;
    assert_eq!(heard(events).await, ["applied a 11", "applied a 12", "deleted a", "resync"]);
    let from =
        |line: &String| line.split("resourceVersion=").nth(1).map(|rest| rest.split('&').next().unwrap().to_owned());
    let places: Vec<String> = server.asked().iter().filter_map(from).collect();
    assert_eq!(places, ["10", "12", "40", "40", "41"]);
}

#[tokio::test(start_paused = true)]
async fn a_version_too_old_to_go_on_from_ends_the_watch_with_a_resync() {
    let expired = status(410, "Expired", "too old resource version: 10 (900)", Value::Null);
    let server = Server::new([newest("10"), Reply::events(&[]), expired]);
    let events = watch(&server.cluster()).await;
    assert_eq!(heard(events).await, ["resync"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_away_ends_the_watch_so_that_a_list_says_why() {
    let mut answers = vec![newest("10"), Reply::events(&[])];
    answers.extend((0..20).map(|_| status(503, "ServiceUnavailable", "starting", Value::Null)));
    let server = Server::new(answers);
    let events = watch(&server.cluster()).await;
    assert_eq!(heard(events).await, ["resync"]);
    assert!(server.asked().len() < 12, "{:?}", server.asked());
}

#[tokio::test(start_paused = true)]
async fn whoever_falls_behind_is_told_to_list_again() {
    let flood: Vec<Value> = (0..9).map(|n| event("MODIFIED", &live("a", &format!("{}", 11 + n), THEN))).collect();
    let server = Server::new([newest("10"), Reply::events(&flood)]);
    let cluster = server.cluster_with(ConnectOptions { watch_capacity: 3, ..ConnectOptions::default() });
    let events = watch(&cluster).await;
    // Nobody listens while the events come.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(heard(events).await, ["applied a 11", "applied a 12", "applied a 13", "resync"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_no_object_is_not_passed_over() {
    for odd in ["{\"type\": \"ADDED\", \"object\": {\"metadata\": {}}}\n", "not json\n"] {
        let server = Server::new([newest("10"), Reply::text(200, odd)]);
        let events = watch(&server.cluster()).await;
        assert_eq!(heard(events).await, ["resync"], "{odd}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_silent_and_one_that_is_forbidden_is_an_error() {
    let unserved = || Reply::text(404, "404 page not found\n");
    let server = Server::new([unserved(), newest("10"), Reply::events(&[gone()])]);
    let events = server.cluster().watch(&[ADAPTER, GRAPH], Some("prod")).await.unwrap();
    assert_eq!(heard(events).await, ["resync"]);
    let forbidden =
        status(403, "Forbidden", "User \"ci\" cannot watch resource \"dynamographdeployments\"", Value::Null);
    let server = Server::new([newest("10"), forbidden]);
    let error = server.cluster().watch(&[GRAPH], None).await.unwrap_err();
    assert_eq!(
        error.help(),
        "grant that user a ClusterRole with the verb `watch` on `dynamographdeployments.nvidia.com`"
    );
}
