//! Lists, outcomes and deadlines.

use super::{Reply, Server, graph, live, status};
use crate::cluster::kube::{ConnectOptions, RequestDeadlines};
use crate::cluster::{ApplyOutcome, ApplyRequest, Cluster as _, ClusterError};
use serde_json::{Value, json};
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::kinds::{CLAIM, FIELD_MANAGER, GRAPH};
use stator_core::dynamo::release::Release;
use std::collections::BTreeMap;
use std::time::Duration;

const THEN: &str = "2026-11-21T03:00:00Z";
const LATER: &str = "2026-11-21T03:30:00Z";

fn page(items: &[Value], next: &str) -> Reply {
    Reply::json(200, &json!({"kind": "List", "metadata": {"resourceVersion": "9", "continue": next}, "items": items}))
}

#[tokio::test]
async fn a_list_goes_on_page_by_page_and_starts_anew_when_the_first_is_too_old() {
    let expired = || status(410, "Expired", "The provided continue parameter is too old", Value::Null);
    let server = Server::new([
        page(&[live("b", "1", THEN)], "c2"),
        page(&[live("a", "2", THEN)], "c3"),
        expired(),
        page(&[live("c", "3", THEN), live("a", "2", THEN)], ""),
    ]);
    let labels = BTreeMap::from([("stator.dev/model".to_owned(), "x".to_owned()), ("team".to_owned(), "y".to_owned())]);
    let cluster = server.cluster_with(ConnectOptions { page_size: 1, ..ConnectOptions::default() });
    let found = cluster.list(&GRAPH, Some("prod"), &labels).await.unwrap();
    assert_eq!(found.iter().map(|object| object.name()).collect::<Vec<_>>(), ["a", "c"]);
    insta::assert_snapshot!(server.asked().join("\n"), @"
    GET /apis/nvidia.com/v1beta1/namespaces/prod/dynamographdeployments?labelSelector=stator.dev%2Fmodel%3Dx%2Cteam%3Dy&limit=1
    GET /apis/nvidia.com/v1beta1/namespaces/prod/dynamographdeployments?labelSelector=stator.dev%2Fmodel%3Dx%2Cteam%3Dy&limit=1&continue=c2
    GET /apis/nvidia.com/v1beta1/namespaces/prod/dynamographdeployments?labelSelector=stator.dev%2Fmodel%3Dx%2Cteam%3Dy&limit=1&continue=c3
    GET /apis/nvidia.com/v1beta1/namespaces/prod/dynamographdeployments?labelSelector=stator.dev%2Fmodel%3Dx%2Cteam%3Dy
    ");
}

#[tokio::test]
async fn items_of_a_built_in_kind_are_told_what_they_are() {
    let bare = json!({"metadata": {"name": "cache", "namespace": "prod"}, "spec": {}});
    let server = Server::new([page(&[bare], "")]);
    let found = server.cluster().list(&CLAIM, None, &BTreeMap::new()).await.unwrap();
    assert_eq!((found[0].api_version(), found[0].kind()), ("v1", "PersistentVolumeClaim"));
}

#[tokio::test]
async fn one_object_that_cannot_be_read_fails_the_list_and_is_not_left_out() {
    let server = Server::new([page(&[live("a", "1", THEN), json!({"metadata": {"name": "b"}})], "")]);
    let error = server.cluster().list(&GRAPH, Some("prod"), &BTreeMap::new()).await.unwrap_err();
    assert!(matches!(error, ClusterError::Damaged { .. }), "{error}");
}

/// What an apply comes to: `before` was listed, `after` is the answer, at this time by the server's clock.
async fn outcome(before: Option<Value>, code: u16, after: &Value, date: &str) -> (ApplyOutcome, usize) {
    let answer = Reply::json(code, after).header("Date", date);
    let server = Server::new([page(before.as_slice(), ""), answer]);
    let cluster = server.cluster();
    cluster.list(&GRAPH, Some("prod"), &BTreeMap::new()).await.unwrap();
    let applied = cluster.apply(&ApplyRequest::new(graph("llama"), FIELD_MANAGER)).await.unwrap();
    (applied.outcome, server.asked().len() - 1)
}

#[tokio::test]
async fn what_an_apply_did_is_known_from_what_was_seen_before_and_costs_no_read() {
    const NOW: &str = "Sat, 21 Nov 2026 03:30:01 GMT";
    let seen = || Some(live("llama", "5", THEN));
    for (before, code, after, expected) in [
        (None, 201, live("llama", "6", LATER), ApplyOutcome::Created),
        (seen(), 200, live("llama", "5", THEN), ApplyOutcome::Unchanged),
        (seen(), 200, live("llama", "6", LATER), ApplyOutcome::Updated),
        // Somebody else wrote in between: the resource version moved, but not the time of our own entry.
        (seen(), 200, live("llama", "6", THEN), ApplyOutcome::Unchanged),
        // Two applies within one second have one time; the second may well have written.
        (Some(live("llama", "5", LATER)), 200, live("llama", "6", LATER), ApplyOutcome::Updated),
        // Deleted and made anew since.
        (seen(), 201, live("llama", "8", LATER), ApplyOutcome::Created),
    ] {
        assert_eq!(outcome(before, code, &after, NOW).await, (expected, 1), "{after}");
    }
}

#[tokio::test]
async fn an_object_that_was_never_looked_at_is_looked_at_once() {
    let absent = status(404, "NotFound", "x", json!({"name": "llama", "kind": "dynamographdeployments"}));
    let again = Reply::json(200, &live("llama", "6", LATER));
    let server = Server::new([absent, Reply::json(201, &live("llama", "6", LATER)), again]);
    let cluster = server.cluster();
    let apply = async || cluster.apply(&ApplyRequest::new(graph("llama"), FIELD_MANAGER)).await.unwrap().outcome;
    assert_eq!((apply().await, apply().await), (ApplyOutcome::Created, ApplyOutcome::Unchanged));
    let verbs: Vec<String> = server.asked().iter().map(|line| line[..3].to_owned()).collect();
    assert_eq!(verbs, ["GET", "PAT", "PAT"]);
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up() {
    let service = tower::service_fn(|_: http::Request<::kube::client::Body>| async {
        std::future::pending::<Result<http::Response<::kube::client::Body>, tower::BoxError>>().await
    });
    let deadlines = RequestDeadlines { get: Duration::from_millis(20), ..RequestDeadlines::default() };
    let options = ConnectOptions { deadlines, ..ConnectOptions::default() };
    let client = ::kube::Client::new(service, "default");
    let cluster =
        super::KubeCluster::of(client, "https://test".to_owned(), options, Default::default(), "a test".to_owned());
    let error = cluster.get(&graph("llama").reference()).await.unwrap_err();
    insta::assert_snapshot!(error, @"https://test did not answer GET /apis/nvidia.com/v1beta1/namespaces/prod/dynamographdeployments/llama within 0.02 s");
    assert!(error.retry_delay().is_some());
}

#[tokio::test]
async fn what_a_cluster_has_is_told_by_its_groups_and_left_open_where_they_are_kept_back() {
    let group =
        |name: &str| json!({"name": name, "versions": [{"groupVersion": format!("{name}/v1"), "version": "v1"}]});
    let groups = json!({"kind": "APIGroupList", "groups": [group("apps"), group("grove.io"), group("nvidia.com")]});
    let kept_back =
        |what: &str| status(403, "Forbidden", &format!("forbidden: User \"me\" cannot get {what}"), json!({}));
    let graphs = |version: &str| {
        json!({
            "metadata": {"name": "dynamographdeployments.nvidia.com", "uid": "u", "resourceVersion": version},
            "spec": {"group": "nvidia.com", "names": {"kind": "DynamoGraphDeployment"}, "versions": [{
                "name": "v1beta1", "served": true, "schema": {"openAPIV3Schema": {"properties": {"spec": {"properties": {
                    "components": {"items": {"properties": {"minAvailable": {"type": "integer"}}}}}}}}},
            }]},
        })
    };
    let absent = || status(404, "NotFound", "not found", json!({}));
    let definitions = |version: &str| [Reply::json(200, &graphs(version)), absent(), kept_back("definitions")];
    let server = Server::new(
        [Reply::json(200, &groups)]
            .into_iter()
            .chain(definitions("7"))
            // The same, and then another.
            .chain([Reply::json(200, &groups)])
            .chain(definitions("7"))
            .chain([kept_back("path \"/apis\"")])
            .chain(definitions("8"))
            .chain(definitions("8"))
            .chain([Reply::text(200, "none")]),
    );
    let cluster = server.cluster();
    let found = cluster.platform(&Platform::default()).await.unwrap();
    assert_eq!((found.grove, found.leader_worker_set, found.inference_gateway), (Some(true), Some(false), Some(false)));
    assert_eq!(found.release(), Release::V1_3);
    assert_eq!(cluster.platform(&Platform::default()).await.unwrap(), found);
    let again = cluster.platform(&Platform::default()).await.unwrap();
    assert_eq!((again.grove, again.release()), (None, Release::V1_3));
    assert!(again.served != found.served, "they were read again");
    assert!(cluster.platform(&Platform::default()).await.is_err(), "no answer at all is not an empty one");
    let reads = server.asked().iter().filter(|line| line.contains("customresourcedefinitions")).count();
    assert_eq!((server.asked().len(), reads), (4 + 12, 12));
}
