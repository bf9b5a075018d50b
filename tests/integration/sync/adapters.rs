//! Adapters: applied when their graph is ready, and Healthy when every endpoint has them.

use super::pipeline::{Site, mocker};
use serde_json::json;
use stator_cluster::cluster::Cluster as _;
use stator_cluster::cluster::embedded::ObjectPart;
use stator_cluster::sync::{SyncOptions, SyncReport};
use stator_core::dynamo::kinds;
use stator_core::object::{Object, ObjectRef};
use stator_core::outcome::SyncOutcome;
use std::time::Duration;

/// A model of so many workers with one adapter.
fn with_adapter(site: &Site, replicas: u32, more: &str) {
    let model = mocker("llama", replicas).replace("engine: mocker", "engine: vllm");
    let more = format!(
        "  hardware: {{gpu: l40s, gpusPerNode: 4}}\n  adapters: [{{name: sql, source: s3://adapters/sql}}]\n{more}"
    );
    site.write("models/llama/model.yaml", &format!("{model}{more}"));
}

/// The one adapter there is.
async fn adapter(site: &Site) -> Option<Object> {
    site.cluster.list(&kinds::ADAPTER, Some("prod"), &[].into()).await.unwrap().pop()
}

async fn loaded(site: &Site) -> (i64, i64) {
    let adapter = adapter(site).await.unwrap();
    let count = |name: &str| adapter.status()[name].as_i64().unwrap();
    (count("readyEndpoints"), count("totalEndpoints"))
}

/// The operator's word on the adapter, from before it was stopped.
async fn says(site: &Site, object: &ObjectRef, ready: u64, total: u64) {
    let said = move |value: &mut serde_json::Value| {
        value["status"]["readyEndpoints"] = json!(ready);
        value["status"]["totalEndpoints"] = json!(total);
        for condition in value["status"]["conditions"].as_array_mut().unwrap() {
            if condition["type"] == "EndpointsReady" {
                condition["status"] = json!("False");
                condition["reason"] = json!("NotReady");
                condition["message"] = json!(format!("{ready} of {total} endpoint(s) are ready"));
            }
        }
    };
    site.cluster.update(object, ObjectPart::Status, "manager", said).await.unwrap();
}

/// Waits for what no operator brings on, for as long as a model may make no progress.
async fn in_vain(site: &Site, says: &str) -> SyncReport {
    let limited = |progress_deadline| SyncOptions {
        wait: true,
        progress_deadline,
        ..SyncOptions::new("2026-01-01T00:00:00Z".parse().unwrap(), 7)
    };
    site.sync_in_vain(&site.cluster, &[], says, Duration::from_millis(300), limited).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adapter_of_a_graph_that_never_gets_ready_is_never_applied() {
    let site = Site::of("prod");
    with_adapter(&site, 1, "");
    let left = site.sync_on(&site.cluster, false, &[]).await;
    assert_eq!(left.models[0].result, SyncOutcome::Deferred, "{left:#?}");
    insta::assert_snapshot!(left.models[0].message, @"DynamoModel llama-sql is waiting for its graph to be Ready (DynamoGraphDeployment prod/llama: the operator has not observed it yet); run `stator sync --wait`");
    let waited = in_vain(&site, "its graph is not ready").await;
    assert_eq!(waited.models[0].result, SyncOutcome::Unhealthy, "{waited:#?}");
    insta::assert_snapshot!(waited.models[0].message, @"no progress for TIME: DynamoGraphDeployment prod/llama: the operator has not observed it yet; DynamoModel prod/llama-sql is skipped for now: its graph is not ready");
    assert!(adapter(&site).await.is_none());
    // The operator comes up after all.
    assert!(site.sync(&[]).await.is_success());
    assert_eq!(loaded(&site).await, (1, 1));
    site.settled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adapter_that_only_some_endpoints_have_is_waited_for() {
    let site = Site::of("prod");
    with_adapter(&site, 2, "");
    assert!(site.sync(&[]).await.is_success());
    assert_eq!(loaded(&site).await, (2, 2));
    let object = adapter(&site).await.unwrap().reference();
    let mut told = Vec::new();
    for ready in [1, 0] {
        says(&site, &object, ready, 2).await;
        let report = in_vain(&site, &format!("loaded on {ready} of 2 endpoints")).await;
        assert_eq!(report.models[0].result, SyncOutcome::Unhealthy, "{report:#?}");
        told.push(report.models[0].message.clone());
    }
    insta::assert_snapshot!(told.join("\n"), @"
    no progress for TIME: DynamoModel prod/llama-sql: loaded on 1 of 2 endpoints: 1 of 2 endpoint(s) are ready
    no progress for TIME: DynamoModel prod/llama-sql: loaded on 0 of 2 endpoints: 0 of 2 endpoint(s) are ready
    ");
    // Whoever does not wait is not held up: nothing is to be written.
    assert_eq!(site.sync_on(&site.cluster, false, &[]).await.models[0].result, SyncOutcome::Unchanged);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adapters_come_back_after_their_workers_were_replaced() {
    let site = Site::of("prod");
    with_adapter(&site, 1, "");
    assert!(site.sync(&[]).await.is_success());
    let before = adapter(&site).await.unwrap();
    // All workers are replaced, and there is one more of them.
    with_adapter(&site, 2, "  env: {LOG_LEVEL: debug}\n");
    let report = site.sync(&[]).await;
    assert_eq!(report.models[0].result, SyncOutcome::Healthy, "{report:#?}");
    assert_eq!(loaded(&site).await, (2, 2), "Healthy is said when every endpoint has it");
    let after = adapter(&site).await.unwrap();
    assert_eq!((before.uid(), before.generation()), (after.uid(), after.generation()), "nobody wrote the adapter");
    site.settled().await;
}
