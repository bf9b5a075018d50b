//! Watches over connections that end.

use super::{Reply, Server, live, status};
use crate::cluster::kube::{KubeCluster, WatchUpdate};
use crate::cluster::{Cluster as _, WatchEvent, WatchReceiver};
use serde_json::{Value, json};
use stator_core::dynamo::kinds::{ADAPTER, GRAPH};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

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

async fn watch(cluster: &KubeCluster) -> WatchReceiver {
    cluster.watch(&[GRAPH], Some("prod")).await.unwrap()
}

/// Everything that is heard until the stream ends.
async fn heard(mut events: WatchReceiver) -> Vec<String> {
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
        Reply::events(&[event("ADDED", &live("a", "11", THEN)), event("MODIFIED", &live("b", "12", THEN))]),
        // An empty line, and one that the connection breaks off in.
        Reply::text(200, &format!("{}\n\r\n{{\"type\":\"ADDED\",\"obj", bookmark("40"))),
        status(429, "TooManyRequests", "busy", Value::Null).header("Retry-After", "2"),
        Reply::events(&[event("DELETED", &live("c", "41", THEN))]),
        Reply::events(&[gone()]),
    ]);
    let events = watch(&server.cluster()).await;
    assert_eq!(heard(events).await, ["applied a 11", "applied b 12", "deleted c", "resync"]);
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
async fn a_reader_that_is_behind_sees_the_last_state() {
    let flood: Vec<Value> = (0..9).map(|n| event("MODIFIED", &live("a", &format!("{}", 11 + n), THEN))).collect();
    let server = Server::new([newest("10"), Reply::events(&flood)]);
    let cluster = server.cluster();
    let events = watch(&cluster).await;
    // Nobody listens while the events come.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(heard(events).await, ["applied a 19", "resync"]);
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

/// How long after each answer the next list was asked for, up to the first that was a list.
async fn delays_before_lists(answers: Vec<Reply>) -> Vec<Duration> {
    let cluster = Server::new(answers).cluster();
    let (moments, listed, nudge) = (Mutex::new(vec![Instant::now()]), Notify::new(), Notify::new());
    let on_update = |update: WatchUpdate| {
        if let WatchUpdate::ListFailed(_) | WatchUpdate::ListComplete = update {
            moments.lock().unwrap().push(Instant::now());
        }
        if let WatchUpdate::ListComplete = update {
            listed.notify_one();
        }
    };
    let everything = BTreeMap::new();
    tokio::select! {
        () = cluster.list_and_watch(&GRAPH, "prod", &everything, &nudge, &on_update) => {}
        () = listed.notified() => {}
    }
    let moments = moments.into_inner().unwrap();
    moments.windows(2).map(|pair| pair[1] - pair[0]).skip(1).collect()
}

/// Row D1 of the review: a right that was granted later was seen after ten minutes.
#[tokio::test(start_paused = true)]
async fn a_list_that_is_refused_is_tried_again_until_it_is_not() {
    let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
    let forbidden =
        || status(403, "Forbidden", "User \"ci\" cannot list resource \"dynamographdeployments\"", Value::Null);
    let answers = std::iter::repeat_with(forbidden).take(9).chain([newest("10")]).collect();
    let delays = delays_before_lists(answers).await;
    assert_eq!(delays.len(), 9);
    assert!(delays[0] <= 5 * second && delays.iter().all(|delay| *delay > second && *delay <= minute), "{delays:?}");
    // A kind that nobody installs is asked for less often.
    let unserved = || Reply::text(404, "404 page not found\n");
    let answers = std::iter::repeat_with(unserved).take(12).chain([newest("10")]).collect();
    let delays = delays_before_lists(answers).await;
    assert!(delays[0] <= 5 * second && delays[11] > 2 * minute && delays[11] <= 5 * minute, "{delays:?}");
}
