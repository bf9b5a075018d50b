//! Refusals, in a server's words and in ours.

use super::{Reply, Server, graph, live, status};
use crate::cluster::{ApplyRequest, Cluster as _, ClusterError, Preconditions};
use insta::assert_snapshot;
use serde_json::{Value, json};
use stator_core::dynamo::kinds::{FIELD_MANAGER, GRAPH};
use std::collections::BTreeMap;
use std::time::Duration;

/// The error of an apply that is answered so. That there was none before is asked first.
async fn refused(reply: Reply) -> ClusterError {
    let absent = status(404, "NotFound", "dynamographdeployments.nvidia.com \"llama\" not found", about("llama"));
    let server = Server::new([absent, reply, Reply::json(200, &live("llama", "7", "2026-11-21T03:00:00Z"))]);
    server.cluster().apply(&ApplyRequest::new(graph("llama"), FIELD_MANAGER)).await.unwrap_err()
}

fn about(name: &str) -> Value {
    json!({"name": name, "group": "nvidia.com", "kind": "dynamographdeployments"})
}

fn described(error: &ClusterError) -> String {
    let kind = format!("{error:?}").split([' ', '{']).next().unwrap_or_default().to_owned();
    let again = match error.retry_delay() {
        Some(pause) if pause.is_zero() => "try again".to_owned(),
        Some(pause) => format!("try again after {pause:?}"),
        None => "for good".to_owned(),
    };
    format!("{kind}, {again}\n{error}\n{}", error.help())
}

#[tokio::test]
async fn a_server_that_is_busy_says_when_to_come_back() {
    let reply = status(429, "TooManyRequests", "too many requests, please try again later", Value::Null);
    assert_snapshot!(described(&refused(reply.header("Retry-After", "7")).await), @"
    Transient, try again after 7s
    the API server is overloaded (too many requests, please try again later)
    run the command again in a moment
    ");
    let described_in_the_body = status(
        504,
        "Timeout",
        "Timeout: request did not complete within the allotted timeout",
        json!({"retryAfterSeconds": 3}),
    );
    assert_eq!(refused(described_in_the_body).await.retry_delay(), Some(Duration::from_secs(3)));
    let for_ever = status(503, "ServiceUnavailable", "later", Value::Null).header("Retry-After", "86400");
    assert_eq!(refused(for_ever).await.retry_delay(), Some(Duration::from_secs(120)), "nobody is left alone for a day");
}

#[tokio::test]
async fn a_500_may_be_the_objects_own_fault_or_a_webhook_that_is_down() {
    let typed = "failed to create typed patch object (prod/llama; nvidia.com/v1beta1, Kind=DynamoGraphDeployment): \
                 errors:\n  .spec.components[name=\"worker\"].replica: field not declared in schema\n  .spec.foo: field not declared in schema";
    assert_snapshot!(described(&refused(status(500, "", typed, Value::Null)).await), @"
    Invalid, for good
    DynamoGraphDeployment prod/llama is invalid: spec.components[name=worker].replica: field not declared in schema; spec.foo: field not declared in schema
    the cluster's schema refuses the object: `stator render` shows it in full
    ");
    let webhook = "Internal error occurred: failed calling webhook \"vdynamographdeployment.kb.io\": failed to call webhook: \
                   Post \"https://dynamo-operator.dynamo.svc:443/validate?timeout=10s\": dial tcp 10.0.0.9:443: connect: connection refused";
    assert_snapshot!(described(&refused(status(500, "InternalError", webhook, Value::Null)).await), @r#"
    Transient, try again
    Internal error occurred: failed calling webhook "vdynamographdeployment.kb.io": failed to call webhook: Post "https://dynamo-operator.dynamo.svc:443/validate?timeout=10s": dial tcp 10.0.0.9:443: connect: connection refused (the webhook does not answer: is its service running?)
    run the command again in a moment
    "#);
    let conversion = "conversion webhook for nvidia.com/v1alpha1, Kind=DynamoGraphDeployment failed: Post \
                      \"https://dynamo-operator.dynamo.svc:443/convert?timeout=30s\": no endpoints available for service \"dynamo-operator\"";
    assert_snapshot!(described(&refused(status(500, "", conversion, Value::Null)).await), @r#"
    Transient, try again
    conversion webhook for nvidia.com/v1alpha1, Kind=DynamoGraphDeployment failed: Post "https://dynamo-operator.dynamo.svc:443/convert?timeout=30s": no endpoints available for service "dynamo-operator" (Dynamo's operator serves that conversion: is it running?)
    run the command again in a moment
    "#);
    let unconvertible = "conversion webhook for nvidia.com/v1beta1, Kind=DynamoGraphDeployment failed: component \"worker\" has two volumes for one claim";
    assert_snapshot!(described(&refused(status(500, "", unconvertible, Value::Null)).await), @r#"
    Invalid, for good
    DynamoGraphDeployment prod/llama is invalid: conversion webhook for nvidia.com/v1beta1, Kind=DynamoGraphDeployment failed: component "worker" has two volumes for one claim
    the cluster's schema refuses the object: `stator render` shows it in full
    "#);
    let etcd = status(500, "InternalError", "etcdserver: leader changed", Value::Null);
    assert_snapshot!(described(&refused(etcd).await), @"
    Transient, try again
    etcdserver: leader changed
    run the command again in a moment
    ");
}

#[tokio::test]
async fn a_409_is_about_fields_a_precondition_or_a_race() {
    let conflict = status(
        409,
        "Conflict",
        "Apply failed with 2 conflicts",
        json!({"causes": [
            {"reason": "FieldManagerConflict", "message": "conflict with \"kubectl \\\"edit\\\"\" using nvidia.com/v1beta1", "field": ".spec.components[name=\"worker\"].replicas"},
            {"reason": "FieldManagerConflict", "message": "conflict with \"stator\" with subresource \"status\" using v1", "field": ".metadata.labels.example.com/team"},
        ]}),
    );
    assert_snapshot!(described(&refused(conflict).await), @r#"
    Conflict, for good
    DynamoGraphDeployment prod/llama: spec.components[name=worker].replicas is owned by kubectl "edit"; metadata.labels["example.com/team"] is owned by stator
    name the manager in `spec.takeOver` to take its fields back, or remove them from the intent
    "#);
    let modified = "Operation cannot be fulfilled on dynamographdeployments.nvidia.com \"llama\": the object has been modified; please apply your changes to the latest version and try again";
    let race = refused(status(409, "Conflict", modified, about("llama"))).await;
    assert!(matches!(race, ClusterError::Transient { .. }), "nothing was asked to be still true: {race}");
    let server = Server::new([status(409, "Conflict", modified, about("llama"))]);
    let meant = Preconditions { uid: None, resource_version: Some("6".to_owned()) };
    let error = server.cluster().delete(&graph("llama").reference(), &meant).await.unwrap_err();
    assert_snapshot!(described(&error), @"
    Precondition, for good
    DynamoGraphDeployment prod/llama: the object has been modified; please apply your changes to the latest version and try again
    the object has changed: run the command again
    ");
}

#[tokio::test]
async fn a_403_is_a_missing_right_an_admission_or_a_namespace_that_ends() {
    let rbac = "dynamographdeployments.nvidia.com \"llama\" is forbidden: User \"system:serviceaccount:prod:ci\" cannot patch resource \"dynamographdeployments\" in API group \"nvidia.com\" in the namespace \"prod\"";
    assert_snapshot!(described(&refused(status(403, "Forbidden", rbac, about("llama"))).await), @r#"
    Forbidden, for good
    dynamographdeployments.nvidia.com "llama" is forbidden: User "system:serviceaccount:prod:ci" cannot patch resource "dynamographdeployments" in API group "nvidia.com" in the namespace "prod"
    grant that user a Role in prod with the verb `patch` on `dynamographdeployments.nvidia.com`
    "#);
    let admission = "admission webhook \"vdynamographdeployment.kb.io\" denied the request: spec.services must have at least one service";
    assert_snapshot!(described(&refused(status(403, "Forbidden", admission, about("llama"))).await), @r#"
    Denied, for good
    DynamoGraphDeployment prod/llama: admission webhook "vdynamographdeployment.kb.io" denied the request: spec.services must have at least one service
    change the intent so that admission accepts the object: `stator render` shows it
    "#);
    let quota = "persistentvolumeclaims \"cache\" is forbidden: exceeded quota: storage, requested: 500Gi, used: 1Ti, limited: 1Ti";
    assert_snapshot!(described(&refused(status(403, "Forbidden", quota, about("llama"))).await), @r#"
    Denied, for good
    DynamoGraphDeployment prod/llama: persistentvolumeclaims "cache" is forbidden: exceeded quota: storage, requested: 500Gi, used: 1Ti, limited: 1Ti
    change the intent so that admission accepts the object: `stator render` shows it
    "#);
    let ending = status(
        403,
        "Forbidden",
        "dynamographdeployments.nvidia.com \"llama\" is forbidden: unable to create new content in namespace prod because it is being terminated",
        json!({"name": "llama", "causes": [{"reason": "NamespaceTerminating", "message": "namespace prod is being terminated", "field": "metadata.namespace"}]}),
    );
    assert_snapshot!(described(&refused(ending).await), @"
    NamespaceUnavailable, for good
    namespace prod is being deleted, and nothing new can be created in it
    wait until it is gone and create it again, or use another one
    ");
}

#[tokio::test]
async fn what_is_not_there_is_the_object_the_namespace_or_the_kind() {
    let namespace =
        status(404, "NotFound", "namespaces \"prod\" not found", json!({"name": "prod", "kind": "namespaces"}));
    assert_snapshot!(described(&refused(namespace).await), @"
    NamespaceUnavailable, for good
    namespace prod does not exist
    create it with `kubectl create namespace prod`, or use another one
    ");
    assert_snapshot!(described(&refused(Reply::text(404, "404 page not found\n")).await), @"
    UnknownKind, for good
    the cluster does not serve nvidia.com/v1beta1 DynamoGraphDeployment
    install Dynamo's custom resource definitions first
    ");
    let server = Server::new([Reply::text(404, "404 page not found\n")]);
    let error = server.cluster().list(&GRAPH, Some("prod"), &BTreeMap::new()).await.unwrap_err();
    assert!(matches!(error, ClusterError::UnknownKind { .. }), "{error}");
}

#[tokio::test]
async fn what_no_other_try_helps_is_said_as_that() {
    assert_snapshot!(described(&refused(status(401, "Unauthorized", "Unauthorized", Value::Null)).await), @"
    Refused, for good
    the API server does not accept the credentials (Unauthorized)
    log in again: the token or the client certificate of the kubeconfig's user is expired or wrong
    ");
    assert_snapshot!(described(&refused(Reply::text(302, "<html><body>Please  log\n in</body></html>")).await), @"
    Refused, for good
    the API server answered patch of DynamoGraphDeployment prod/llama with 302: <html><body>Please log in</body></html>
    check that the kubeconfig's server is a Kubernetes API server
    ");
    let large = status(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728", Value::Null);
    assert_snapshot!(described(&refused(large).await), @"
    Invalid, for good
    DynamoGraphDeployment prod/llama is invalid: Request entity too large: limit is 3145728
    the cluster's schema refuses the object: `stator render` shows it in full
    ");
    // An answer that is no object is no reason to believe that there is none.
    let server = Server::new([Reply::text(200, "{\"kind\": \"Dyna")]);
    let error = server.cluster().get(&graph("llama").reference()).await.unwrap_err();
    assert!(matches!(error, ClusterError::Damaged { .. }), "{error}");
}
