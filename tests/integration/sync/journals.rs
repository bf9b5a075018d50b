//! Journals that an interrupted sync left, on both implementations of a cluster: whoever they belong to reads them, and nobody else
//! touches them.

use super::pipeline::{Dying, Site, claim_at};
use crate::testbed;
use serde_json::json;
use stator_cluster::cluster::embedded::{EmbeddedCluster, EmbeddedOptions};
use stator_cluster::cluster::kube::{ConnectOptions, KubeCluster};
use stator_cluster::cluster::{ApplyRequest, Cluster, Preconditions};
use stator_core::dynamo::kinds::{self, JOURNAL, ObjectKind};
use stator_core::object::Object;
use std::collections::BTreeMap;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn journals_are_read_by_whom_they_belong_to_on_the_embedded_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = EmbeddedCluster::open(folder.path(), EmbeddedOptions::default()).unwrap();
    journals_are_read_by_whom_they_belong_to(&cluster, "journals").await;
    a_journal_that_cannot_be_read_keeps_everything(&cluster, "unread-journal").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn journals_are_read_by_whom_they_belong_to_on_a_real_api_server() {
    let Some(plane) = testbed::shared() else { return };
    let kubeconfig = Some(plane.kubeconfig());
    let cluster = KubeCluster::connect(ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await.unwrap();
    for namespace in ["journals", "unread-journal"] {
        plane.namespace(namespace).await;
    }
    journals_are_read_by_whom_they_belong_to(&cluster, "journals").await;
    a_journal_that_cannot_be_read_keeps_everything(&cluster, "unread-journal").await;
}

async fn names(cluster: &impl Cluster, kind: &ObjectKind, namespace: &str) -> Vec<String> {
    let found = cluster.list(kind, Some(namespace), &BTreeMap::new()).await.unwrap();
    found.iter().map(|object| object.name().to_owned()).collect()
}

/// A sync dies after it created the first of two graphs. Another source of the namespace goes on beside what it left; it
/// does so itself with the next sync, for what git has by then.
async fn journals_are_read_by_whom_they_belong_to(cluster: &impl Cluster, namespace: &str) {
    let ours = Site::of(namespace);
    ours.model("kept", 1);
    ours.model("removed", 1);
    let dying = Dying::new(cluster, 3, true);
    ours.sync_at(&dying, false, &[], 1).await;
    assert!(dying.died());
    assert_eq!(names(cluster, &kinds::GRAPH, namespace).await.len(), 2, "both, and no record of either");
    assert!(names(cluster, &kinds::RECORD, namespace).await.is_empty());
    let left = names(cluster, &JOURNAL, namespace).await;
    assert_eq!(left.len(), 1);

    let theirs = Site::of(namespace);
    theirs.model("other", 1);
    let planned = theirs.try_plan_as(cluster, claim_at("/elsewhere"), &[]).await.unwrap();
    assert!(theirs.carry_out(cluster, planned, false, 8).await.is_success());
    assert_eq!(names(cluster, &kinds::GRAPH, namespace).await, ["kept", "other", "removed"]);
    assert_eq!(names(cluster, &kinds::RECORD, namespace).await, ["other"]);
    assert_eq!(names(cluster, &JOURNAL, namespace).await, left, "it is not theirs");

    ours.remove("removed");
    let report = ours.sync_on(cluster, false, &[]).await;
    assert!(report.is_success(), "{report:#?}");
    assert_eq!(names(cluster, &kinds::GRAPH, namespace).await, ["kept", "other"]);
    assert_eq!(names(cluster, &kinds::RECORD, namespace).await, ["kept", "other"]);
    assert!(names(cluster, &JOURNAL, namespace).await.is_empty());
    assert_eq!(ours.sync_on(cluster, false, &[]).await.writes, 0);
}

/// What a journal says that cannot be read may be anything, so nothing is deleted beside it.
async fn a_journal_that_cannot_be_read_keeps_everything(cluster: &impl Cluster, namespace: &str) {
    let site = Site::of(namespace);
    site.model("kept", 1);
    site.model("removed", 1);
    assert!(site.sync_on(cluster, false, &[]).await.is_success());
    let journal = Object::from_value(json!({
        "apiVersion": JOURNAL.api_version(), "kind": JOURNAL.kind,
        "metadata": {"name": "sync-broken", "namespace": namespace},
        "spec": {"models": []},
    }));
    let journal = cluster.apply(&ApplyRequest::new(journal.unwrap(), "somebody")).await.unwrap().object;

    site.remove("removed");
    site.model("new", 2);
    let (plan, _) = site.plan(cluster, &[]).await;
    let said: Vec<&str> = plan.findings.iter().map(|finding| finding.message.as_str()).collect();
    let said = said.join("\n").replace(namespace, "prod");
    insta::allow_duplicates! {
        insta::assert_snapshot!(said, @"nothing is pruned: a journal of an earlier sync cannot be read: SyncJournal prod/sync-broken: `metadata.labels[stator.dev/repository]` cannot be read: it is missing; use the version of stator that wrote it, or delete it once no sync is running");
    }
    site.sync_on(cluster, false, &[]).await;
    assert_eq!(names(cluster, &kinds::GRAPH, namespace).await, ["kept", "new", "removed"]);
    assert_eq!(names(cluster, &JOURNAL, namespace).await, ["sync-broken"]);

    let meant = Preconditions { uid: journal.uid().map(str::to_owned), resource_version: None };
    cluster.delete(&journal.reference(), &meant).await.unwrap();
    assert!(site.sync_on(cluster, false, &[]).await.is_success());
    assert_eq!(names(cluster, &kinds::GRAPH, namespace).await, ["kept", "new"]);
    assert_eq!(site.sync_on(cluster, false, &[]).await.writes, 0);
}
