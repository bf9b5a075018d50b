//! The cluster moves although git did not.

use super::words::{Shop, labelled};
use crate::cluster::place::{Namespaces, Place, on_every_cluster};
use serde_json::json;
use stator_cluster::cluster::{Cluster as _, DeleteOutcome, Preconditions};
use stator_core::dynamo::kinds::{GRAPH, RECORD};
use stator_core::object::Object;

on_every_cluster! {
    what_somebody_deleted_comes_back,
    what_somebody_removed_or_added_is_found_and_healed,
    what_others_add_beside_is_no_drift,
    a_lost_record_is_written_again,
}

async fn what_somebody_deleted_comes_back(place: &impl Place) {
    let shop = Shop::new(place, &[("llama", 1), ("qwen", 1)]);
    shop.synced(&[]).await;
    let first = shop.graph("llama").await;
    let gone = place.cluster().delete(&first.reference(), &Preconditions::default()).await.unwrap();
    assert_eq!(gone, DeleteOutcome::Gone);
    let seen = shop.pending(&[]).await.join("\n");
    insta::allow_duplicates! {
        insta::assert_snapshot!(seen, @"create DynamoGraphDeployment prod/llama: is not in the cluster yet");
    }
    shop.synced(&[]).await;
    assert_ne!(shop.graph("llama").await.uid(), first.uid());
    shop.settled().await;
}

async fn what_somebody_removed_or_added_is_found_and_healed(place: &impl Place) {
    let shop = Shop::new(place, &[("llama", 1)]);
    shop.synced(&[]).await;
    let first = shop.graph("llama").await;
    // An argument more, in a list that is one value: its owner changes with it.
    place
        .edit(&first.reference(), "kubectl-edit", |value| {
            let components = value["spec"]["components"].as_array_mut().unwrap();
            let worker = components.iter_mut().find(|own| own["name"] == "worker").unwrap();
            let container = &mut worker["podTemplate"]["spec"]["containers"][0];
            container["args"].as_array_mut().unwrap().push(json!("--verbose"));
        })
        .await;
    let pending = shop.pending(&[]).await.join("\n");
    insta::allow_duplicates! {
        insta::assert_snapshot!(pending, @"blocked DynamoGraphDeployment prod/llama: spec.components[name=worker].podTemplate.spec.containers[name=main].args: owned by kubectl-edit; write its value into the intent, or name kubectl-edit in `spec.takeOver` to take it back");
    }
    shop.model("llama", 1, "  takeOver: [kubectl-edit]\n");
    shop.synced(&[]).await;
    assert_eq!(shop.graph("llama").await.spec(), first.spec());
    shop.settled().await;
    // A field of stator's that somebody took away is nobody's, and comes back.
    place
        .edit(&first.reference(), "kubectl-edit", |value| {
            value["metadata"]["labels"].as_object_mut().unwrap().remove("stator.dev/environment");
        })
        .await;
    let seen = shop.pending(&[]).await.join("\n");
    insta::allow_duplicates! {
        insta::assert_snapshot!(seen, @"update DynamoGraphDeployment prod/llama: drifted: changed in the cluster, not in git");
    }
    shop.synced(&[]).await;
    assert_eq!(shop.graph("llama").await.labels(), first.labels());
    shop.settled().await;
}

async fn what_others_add_beside_is_no_drift(place: &impl Place) {
    let shop = Shop::new(place, &[("llama", 1)]);
    shop.synced(&[]).await;
    place
        .edit(&shop.named(&GRAPH, "llama"), "manager", |value| {
            labelled(value, "team", "search");
            value["metadata"]["annotations"]["nvidia.com/current-worker-hash"] = json!("5810b51e");
            value["metadata"]["finalizers"] = json!(["nvidia.com/finalizer"]);
        })
        .await;
    let before = shop.graph("llama").await;
    shop.settled().await;
    assert_eq!(shop.graph("llama").await, before);
    shop.model("llama", 2, "");
    shop.synced(&[]).await;
    let after = shop.graph("llama").await;
    assert_eq!(after.generation(), Some(2));
    assert_eq!((after.labels(), after.annotations()), (before.labels(), before.annotations()));
    assert_eq!(after.finalizers(), before.finalizers());
    shop.settled().await;
}

async fn a_lost_record_is_written_again(place: &impl Place) {
    let shop = Shop::new(place, &[("llama", 1), ("qwen", 1)]);
    shop.synced(&[]).await;
    let graph = shop.graph("llama").await;
    place.cluster().delete(&shop.named(&RECORD, "llama"), &Preconditions::default()).await.unwrap();
    let report = shop.synced(&[]).await;
    assert!(report.writes > 0, "{report:#?}");
    assert!(shop.live(&RECORD, "llama").await.is_some());
    assert_eq!(shop.graph("llama").await, graph);
    shop.settled().await;
}

/// Row A5 of the review: what the server itself made of an apply was drift for ever, and every sync wrote it again. Here
/// admission puts every image on a mirror, as many clusters do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_makes_of_an_apply_is_no_drift() {
    let Some(place) = Namespaces::of("normalized").await else { return };
    place.mirroring_images().await;
    let shop = Shop::new(&place, &[("llama", 1), ("qwen", 1)]);
    shop.synced(&[]).await;
    let first = shop.graph("llama").await;
    let image = worker_container(&first)["image"].as_str().unwrap().to_owned();
    assert!(image.starts_with("mirror.example/"), "{image}");
    shop.settled().await;
    assert_eq!(shop.graph("llama").await, first, "nothing was written");

    // What somebody else changes is seen and healed all the same, and nothing else is written.
    place
        .edit(&first.reference(), "kubectl-edit", |value| {
            value["metadata"]["labels"].as_object_mut().unwrap().remove("stator.dev/environment");
        })
        .await;
    let (plan, _) = shop.plan(&[]).await;
    let fields: Vec<String> = plan.changes.iter().flat_map(|one| &one.fields).map(|one| one.path.to_string()).collect();
    assert_eq!(fields, ["metadata.labels[\"stator.dev/environment\"]"]);
    shop.synced(&[]).await;
    assert_eq!(shop.graph("llama").await.generation(), first.generation());
    shop.settled().await;

    // A change in git is that change, and not a change of the image.
    shop.model("llama", 2, "");
    let (plan, _) = shop.plan(&[]).await;
    let change = plan.changes.iter().find(|one| one.object.name == "llama").unwrap();
    let fields: Vec<String> = change.fields.iter().map(|one| one.path.to_string()).collect();
    assert_eq!(
        (fields, change.disruption.to_string()),
        (vec!["spec.components[name=worker].replicas".to_owned()], "scale".to_owned())
    );
    shop.synced(&[]).await;
    assert_eq!(shop.graph("llama").await.generation(), first.generation().map(|generation| generation + 1));
    shop.settled().await;
}

fn worker_container(graph: &Object) -> serde_json::Value {
    let components = graph.spec()["components"].as_array().unwrap();
    components.iter().find(|own| own["name"] == "worker").unwrap()["podTemplate"]["spec"]["containers"][0].clone()
}
