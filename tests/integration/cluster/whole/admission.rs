//! What admission adds on the way in is no drift.

use super::words::{Shop, labelled};
use crate::cluster::place::{Place, on_every_cluster};
use serde_json::json;
use stator_core::dynamo::kinds::GRAPH;

on_every_cluster! {
    what_admission_adds_is_no_drift,
}

async fn what_admission_adds_is_no_drift(place: &impl Place) {
    let shop = Shop::new(place, &[("plain", 1)]);
    // Somebody else scales this worker, so stator's own apply does not say how often it runs.
    let scaled = "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: scaled}\nspec:\n  model: \
                  Qwen/Qwen3-0.6B\n  engine: mocker\n  runtime: 1.2.0\n  serving:\n    worker: {replicas: 2, scaling: \
                  external}\n";
    shop.site.write("models/scaled/model.yaml", scaled);
    let webhook = place.admitting().await;
    shop.synced(&[]).await;
    drop(webhook);
    for name in ["plain", "scaled"] {
        let graph = shop.graph(name).await;
        assert_eq!(graph.annotations().get("nvidia.com/dynamo-operator-origin-version"), Some(&"1.2.0"), "{name}");
    }
    shop.settled().await;
    // A change beside what was added leaves it standing.
    place.edit(&shop.named(&GRAPH, "plain"), "kubectl-edit", |value| labelled(value, "team", "search")).await;
    shop.model("plain", 3, "");
    shop.synced(&[]).await;
    let graph = shop.graph("plain").await;
    let worker = graph.spec()["components"].as_array().unwrap().iter().find(|own| own["name"] == "worker");
    assert_eq!(worker.unwrap()["replicas"], json!(3));
    assert_eq!(graph.annotations().get("nvidia.com/dynamo-operator-origin-version"), Some(&"1.2.0"));
    shop.settled().await;
}
