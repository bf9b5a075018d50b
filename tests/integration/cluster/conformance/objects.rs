//! Objects come to be, change, and are listed.

use crate::cluster::place::{Place, on_every_cluster_and_make};
use crate::cluster::scenario::{apply, live, try_apply, with};
use serde_json::json;
use stator_cluster::cluster::{ApplyOutcome, ApplyRequest, Cluster, ClusterError};
use stator_core::dynamo::kinds;
use std::collections::BTreeMap;

on_every_cluster_and_make! {
    a_created_object_gets_what_only_the_cluster_gives,
    only_a_change_of_the_spec_raises_the_generation,
    a_second_apply_of_the_same_writes_nothing,
    a_dry_run_tells_the_outcome_and_writes_nothing,
    an_apply_with_a_uid_never_creates_and_never_hits_a_namesake,
    a_list_is_sorted_and_keeps_to_kind_namespace_and_labels,
    status_and_spec_are_written_apart,
}

async fn a_created_object_gets_what_only_the_cluster_gives(place: &impl Place) {
    let cluster = place.cluster();
    let applied = apply(cluster, place.graph("llama", 1)).await;
    assert_eq!(applied.outcome, ApplyOutcome::Created);
    assert_eq!(applied.object.generation(), Some(1));
    assert!(applied.object.uid().is_some_and(|uid| uid.len() == 36));
    assert!(applied.object.str_at("/metadata/creationTimestamp").is_some_and(|time| time.ends_with('Z')));
    assert!(applied.object.resource_version().is_some());
    assert_eq!(live(cluster, &applied.object).await, Some(applied.object));
}

async fn only_a_change_of_the_spec_raises_the_generation(place: &impl Place) {
    let cluster = place.cluster();
    let first = apply(cluster, place.graph("llama", 1)).await.object;
    let labelled =
        |replicas| with(place.graph("llama", replicas), |value| value["metadata"]["labels"]["team"] = json!("ads"));
    let second = apply(cluster, labelled(1)).await;
    assert_eq!((second.outcome, second.object.generation()), (ApplyOutcome::Updated, Some(1)));
    let third = apply(cluster, labelled(3)).await;
    assert_eq!((third.outcome, third.object.generation()), (ApplyOutcome::Updated, Some(2)));
    assert_eq!(third.object.uid(), first.uid());
    let versions: Vec<u64> = [&first, &second.object, &third.object]
        .map(|object| object.resource_version().unwrap().parse().unwrap())
        .to_vec();
    assert!(versions.is_sorted() && versions[0] < versions[1] && versions[1] < versions[2], "{versions:?}");
}

async fn a_second_apply_of_the_same_writes_nothing(place: &impl Place) {
    let first = apply(place.cluster(), place.graph("llama", 1)).await.object;
    let second = apply(place.cluster(), place.graph("llama", 1)).await;
    assert_eq!(second.outcome, ApplyOutcome::Unchanged);
    assert_eq!(second.object, first);
}

async fn a_dry_run_tells_the_outcome_and_writes_nothing(place: &impl Place) {
    let cluster = place.cluster();
    let dry = async |replicas| {
        let request = ApplyRequest { dry_run: true, ..ApplyRequest::new(place.graph("llama", replicas), "stator") };
        cluster.apply(&request).await.unwrap().outcome
    };
    assert_eq!(dry(1).await, ApplyOutcome::Created);
    assert_eq!(live(cluster, &place.graph("llama", 1)).await, None);
    let first = apply(cluster, place.graph("llama", 1)).await.object;
    assert_eq!(dry(1).await, ApplyOutcome::Unchanged);
    assert_eq!(dry(2).await, ApplyOutcome::Updated);
    assert_eq!(live(cluster, &first).await, Some(first));
}

async fn an_apply_with_a_uid_never_creates_and_never_hits_a_namesake(place: &impl Place) {
    let cluster = place.cluster();
    let meant = |uid: &str| {
        let uid = uid.to_owned();
        with(place.graph("llama", 2), move |value| value["metadata"]["uid"] = json!(uid))
    };
    let gone = "11111111-1111-4111-8111-111111111111";
    let error = try_apply(cluster, meant(gone), "stator").await.unwrap_err();
    assert!(matches!(error, ClusterError::Precondition { .. }), "{error}");
    let first = apply(cluster, place.graph("llama", 1)).await.object;
    let error = try_apply(cluster, meant(gone), "stator").await.unwrap_err();
    assert!(matches!(error, ClusterError::Precondition { .. }), "{error}");
    let hit = try_apply(cluster, meant(first.uid().unwrap()), "stator").await.unwrap();
    assert_eq!(hit.object.generation(), Some(2));
    let stale = with(place.graph("llama", 3), |v| v["metadata"]["resourceVersion"] = json!(first.resource_version()));
    let error = try_apply(cluster, stale, "stator").await.unwrap_err();
    assert!(matches!(error, ClusterError::Precondition { .. }), "{error}");
}

async fn a_list_is_sorted_and_keeps_to_kind_namespace_and_labels(place: &impl Place) {
    let cluster = place.cluster();
    for name in ["b", "c", "a"] {
        apply(cluster, place.graph(name, 1)).await;
    }
    let elsewhere = with(place.graph("d", 1), |value| {
        value["metadata"]["namespace"] = json!(place.away());
        value["metadata"]["labels"]["team"] = json!("ads");
    });
    apply(cluster, elsewhere).await;
    let names = async |namespace: Option<&str>, labels: &[(&str, &str)]| {
        let labels: BTreeMap<String, String> = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let found = cluster.list(&kinds::GRAPH, namespace, &labels).await.unwrap();
        // Other scenarios may be at work in other namespaces.
        let ours = found.iter().filter(|object| [place.home(), &place.away()].contains(&object.namespace()));
        let names = ours.map(|object| format!("{}/{}", object.namespace(), object.name()));
        names.map(|name| place.said(name)).collect::<Vec<_>>()
    };
    assert_eq!(names(None, &[]).await, ["prod/a", "prod/b", "prod/c", "prod-dev/d"]);
    assert_eq!(names(Some(place.home()), &[]).await, ["prod/a", "prod/b", "prod/c"]);
    assert_eq!(names(None, &[("team", "ads")]).await, ["prod-dev/d"]);
    assert_eq!(names(None, &[("team", "ads"), ("tier", "gold")]).await, Vec::<String>::new());
    assert!(names(Some("nowhere"), &[]).await.is_empty());
    assert!(cluster.list(&kinds::CLAIM, Some(place.home()), &BTreeMap::new()).await.unwrap().is_empty());
}

async fn status_and_spec_are_written_apart(place: &impl Place) {
    let cluster = place.cluster();
    let with_status = with(place.graph("llama", 1), |value| value["status"] = json!({"state": "failed"}));
    let first = apply(cluster, with_status).await.object;
    assert_ne!(first.status()["state"], "failed", "a create has no say about the status");
    let only = place.object(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "llama"}, "status": {"state": "pending"},
    }));
    let request = ApplyRequest { status: true, ..ApplyRequest::new(only, "manager") };
    let written = cluster.apply(&request).await.unwrap().object;
    assert_eq!((written.status()["state"].as_str(), written.generation()), (Some("pending"), Some(1)));
    assert_eq!(written.spec(), first.spec());
    assert_eq!(apply(cluster, place.graph("llama", 1)).await.outcome, ApplyOutcome::Unchanged);
}
