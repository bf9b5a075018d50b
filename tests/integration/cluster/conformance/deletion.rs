//! Objects go: by uid and resource version, and not before their finalizers let go.

use crate::cluster::place::{Place, on_every_cluster_and_make};
use crate::cluster::scenario::{apply, live, try_apply, with};
use serde_json::json;
use stator_cluster::cluster::{Cluster, ClusterError, DeleteOutcome, Preconditions};
use stator_core::object::Object;

on_every_cluster_and_make! {
    a_recreated_object_survives_a_stale_delete,
    an_object_written_since_survives_a_stale_delete,
    an_object_with_a_finalizer_waits_for_it,
}

fn only(object: &Object) -> Preconditions {
    Preconditions { uid: object.uid().map(str::to_owned), resource_version: None }
}

async fn a_recreated_object_survives_a_stale_delete(place: &impl Place) {
    let cluster = place.cluster();
    let first = apply(cluster, place.graph("llama", 1)).await.object;
    let reference = first.reference();
    assert_eq!(cluster.delete(&reference, &only(&first)).await.unwrap(), DeleteOutcome::Gone);
    assert_eq!(cluster.delete(&reference, &only(&first)).await.unwrap(), DeleteOutcome::Absent);
    let second = apply(cluster, place.graph("llama", 1)).await.object;
    assert_ne!(second.uid(), first.uid());
    let error = cluster.delete(&reference, &only(&first)).await.unwrap_err();
    assert!(matches!(error, ClusterError::Precondition { .. }), "{error}");
    let old = Preconditions { uid: None, resource_version: first.resource_version().map(str::to_owned) };
    assert!(matches!(cluster.delete(&reference, &old).await, Err(ClusterError::Precondition { .. })));
    assert_eq!(live(cluster, &second).await, Some(second));
}

async fn an_object_written_since_survives_a_stale_delete(place: &impl Place) {
    let cluster = place.cluster();
    let first = apply(cluster, place.graph("llama", 1)).await.object;
    place.edit(&first.reference(), "kubectl-edit", |value| value["metadata"]["labels"]["tier"] = json!("gold")).await;
    let stale = Preconditions { resource_version: first.resource_version().map(str::to_owned), ..only(&first) };
    let error = cluster.delete(&first.reference(), &stale).await.unwrap_err();
    assert!(matches!(error, ClusterError::Precondition { .. }), "{error}");
    let now = live(cluster, &first).await.unwrap();
    let fresh = Preconditions { resource_version: now.resource_version().map(str::to_owned), ..only(&now) };
    assert_eq!(cluster.delete(&first.reference(), &fresh).await.unwrap(), DeleteOutcome::Gone);
}

async fn an_object_with_a_finalizer_waits_for_it(place: &impl Place) {
    let cluster = place.cluster();
    let held = with(place.graph("llama", 1), |value| value["metadata"]["finalizers"] = json!(["example.com/hold"]));
    let first = apply(cluster, held).await.object;
    let DeleteOutcome::Pending(pending) = cluster.delete(&first.reference(), &Preconditions::default()).await.unwrap()
    else {
        panic!("it did not wait");
    };
    assert!(pending.is_deleting());
    assert_eq!(pending.generation(), Some(2), "a delete that waits raises the generation");
    assert_eq!(pending.value()["metadata"]["deletionGracePeriodSeconds"], json!(0));
    let again = cluster.delete(&first.reference(), &Preconditions::default()).await.unwrap();
    assert_eq!(again, DeleteOutcome::Pending(pending), "a second delete changes nothing");
    let another = with(place.graph("llama", 1), |value| {
        value["metadata"]["finalizers"] = json!(["example.com/hold", "example.com/more"]);
    });
    let error = try_apply(cluster, another, "stator").await.unwrap_err();
    assert!(error.to_string().contains("no new finalizers can be added if the object is being deleted"), "{error}");
    apply(cluster, place.graph("llama", 1)).await;
    assert_eq!(live(cluster, &first).await, None, "the last finalizer took it along");
}
