//! Syncs that wait: what is deleted and does not go is named with what holds it, and many models are waited for as one.

use super::pipeline::{Dying, Site};
use serde_json::json;
use stator_cluster::cluster::Cluster as _;
use stator_cluster::cluster::embedded::ObjectPart;
use stator_cluster::cluster::embedded::operator::SimulatedOperator;
use stator_cluster::sync::SyncOptions;
use stator_core::dynamo::kinds::{self, GRAPH};
use stator_core::outcome::SyncOutcome;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_that_does_not_end_is_named_with_what_holds_it() {
    let site = Site::new(&[("goes", 1), ("stays", 1)]);
    assert!(site.sync_on(&site.cluster, false, &[]).await.is_success());
    let graphs = site.cluster.list(&GRAPH, Some(site.namespace()), &[].into()).await.unwrap();
    let goes = graphs.iter().find(|graph| graph.name() == "goes").unwrap().reference();
    let held = |value: &mut serde_json::Value| value["metadata"]["finalizers"] = json!([kinds::OPERATOR_FINALIZER]);
    site.cluster.update(&goes, ObjectPart::Main, "manager", held).await.unwrap();
    site.remove("goes");
    let limited = |progress_deadline| SyncOptions {
        wait: true,
        progress_deadline,
        ..SyncOptions::new("2026-01-01T00:00:00Z".parse().unwrap(), 7)
    };
    // It is no success at the next attempt either: nothing is forgotten until the object is gone.
    for pruned in [1, 0] {
        let report =
            site.sync_in_vain(&site.cluster, &[], "still being deleted", Duration::from_millis(300), limited).await;
        let model = report.models.iter().find(|model| model.name == "goes").unwrap();
        assert_eq!((model.result, model.pruned), (SyncOutcome::Failed, pruned), "{report:#?}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(model.message, @"DynamoGraphDeployment prod/goes is still being deleted (waiting for finalizer nvidia.com/finalizer), after TIME: check that its controller is running");
        }
    }
}

/// Each answer of the cluster once began the opening of the watch anew, which looks at everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_of_many_models_opens_its_watch_once() {
    let site = Site::new(&[]);
    (0..60).for_each(|number| site.model(&format!("model-{number}"), 1));
    let _operator = SimulatedOperator::start(site.cluster.clone(), 10_000.0);
    let cluster = Dying::new(&site.cluster, usize::MAX, true);
    assert!(site.sync_on(&cluster, true, &[]).await.is_success());
    assert_eq!(cluster.watches(), 1);
    site.settled().await;
}
