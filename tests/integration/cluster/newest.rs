//! A cluster with the newest Dynamo, and with a field that stator has never heard of.

use super::converting::{graphs, has_picker, import_graph, write_as_upstream};
use super::place::{Namespaces, Place as _};
use super::whole::words::Shop;
use crate::testbed::{self, ControlPlane};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use stator_cluster::cluster::Cluster as _;
use stator_core::dynamo::kinds::GRAPH;
use stator_core::dynamo::release::Release;

/// A model whose image says no version, with a restart and a field of a release to come.
const DIGEST: &str = "apiVersion: stator.dev/v1alpha1
kind: Model
metadata: {name: digest}
spec:
  model: Qwen/Qwen3-0.6B
  engine: mocker
  image: registry.example/dynamo@sha256:c0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ff
  runtimeVersion: 1.5.0
  restart: first
  serving:
    worker: {replicas: 1}
  overrides:
    - target: {kind: DynamoGraphDeployment}
      merge: {spec: {fieldToCome: {of: a later release}}}
";

/// Every graph may have `spec.fieldToCome`.
async fn add_field_to_come(plane: &ControlPlane) {
    let definitions: Api<CustomResourceDefinition> = Api::all(plane.admin().await);
    let name = format!("{}.{}", GRAPH.plural, GRAPH.group);
    let definition = serde_json::to_value(definitions.get(&name).await.unwrap()).unwrap();
    let versions = definition["spec"]["versions"].as_array().unwrap();
    let at = versions.iter().position(|version| version["name"] == GRAPH.version).unwrap();
    let path = format!("/spec/versions/{at}/schema/openAPIV3Schema/properties/spec/properties/fieldToCome");
    let field = json!({"type": "object", "properties": {"of": {"type": "string"}}});
    let patch = serde_json::from_value(json!([{"op": "add", "path": path, "value": field}])).unwrap();
    definitions.patch(&name, &PatchParams::default(), &Patch::Json::<()>(patch)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_cluster_serves_decides_and_nothing_is_written_twice() {
    let Some(plane) = tokio::task::spawn_blocking(testbed::another_of_newest).await.unwrap() else { return };
    let plane: &'static ControlPlane = Box::leak(Box::new(plane));
    add_field_to_come(plane).await;
    write_as_upstream(plane, Release::V1_5).await;
    let place = Namespaces::on(plane, "newest").await;
    let shop = Shop::new(&place, &[]);
    shop.site.write("models/digest/model.yaml", DIGEST);
    let picker = graphs(Release::V1_5).iter().filter(|(_, graph)| has_picker(graph));
    let picker = picker.flat_map(|(name, graph)| import_graph(name, graph, Release::V1_5)).next().unwrap();
    shop.site.write("models/picker/model.yaml", &picker.text);

    shop.synced(&[]).await;
    let created = shop.graph("digest").await;
    assert!(created.spec().get("restart").is_none(), "{created:#?}");
    assert_eq!(created.spec()["fieldToCome"], json!({"of": "a later release"}));
    for component in created.spec()["components"].as_array().unwrap() {
        assert_eq!(component["runtimeVersionOverride"], "1.5.0");
    }
    shop.settled().await;
    assert_eq!(shop.graph("digest").await.generation(), Some(1));
    for graph in place.cluster.list(&GRAPH, Some(place.home()), &std::collections::BTreeMap::new()).await.unwrap() {
        assert_eq!(graph.generation(), Some(1), "{}", graph.name());
    }

    // Another restart is one that is carried out.
    shop.site.write("models/digest/model.yaml", &DIGEST.replace("restart: first", "restart: second"));
    shop.synced(&[]).await;
    let restarted = shop.graph("digest").await;
    assert_eq!(restarted.spec()["restart"]["id"], "second");
    assert_eq!(restarted.generation(), Some(2));
    assert_eq!(restarted.annotations().get("nvidia.com/workload-provider").copied(), Some("grove"));
    shop.settled().await;
    assert_eq!(shop.graph("digest").await.generation(), Some(2));
}
