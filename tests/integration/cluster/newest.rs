//! A cluster with the newest Dynamo, and with a field that stator has never heard of.

use super::converting::{graphs, has_picker, import_graph, plane_of, write_as_upstream};
use super::place::{Namespaces, Place as _};
use super::whole::words::Shop;
use crate::testbed::{self, ControlPlane};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use stator_cluster::cluster::Cluster as _;
use stator_core::dynamo::disruption::Disruption;
use stator_core::dynamo::kinds::GRAPH;
use stator_core::dynamo::release::Release;
use stator_model::plan::Action;
use std::collections::BTreeMap;

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
    for graph in place.cluster.list(&GRAPH, Some(place.home()), &BTreeMap::new()).await.unwrap() {
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

/// A model that says a graph of the recorded pairs, under another name; `None` where a model cannot say it.
fn model_of(graph: &Value, name: &str) -> Option<String> {
    let mut graph = graph.clone();
    graph["metadata"]["name"] = json!(name);
    import_graph(name, &graph, Release::V1_5).pop().map(|model| model.text)
}

/// The law of plans, for each recorded pair of graphs that the newest operator took, on definitions of its release: what a plan
/// keeps stays at its generation, and what it calls `none` moved no worker of the operator's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_says_none_moves_neither_generation_nor_hash() {
    let Some(plane) = plane_of(Release::V1_5).await else { return };
    let place = Namespaces::on(plane, "laws").await;
    let shop = Shop::new(&place, &[]);
    let rows = ["updates", "updates-grove"].map(|file| crate::fidelity::verdicts(Release::V1_5, file)).concat();
    let mut pairs = BTreeMap::new();
    for (number, row) in rows.iter().enumerate().filter(|(_, row)| row["admitted"] == true) {
        let name = format!("p{number}");
        let (Some(old), Some(new)) = (model_of(&row["old"], &name), model_of(&row["new"], &name)) else { continue };
        shop.site.write(&format!("models/{name}/model.yaml"), &old);
        pairs.insert(name, (row, new));
    }
    assert!(pairs.len() > 150, "{}", pairs.len());
    shop.sync(&[]).await;
    let graphs = async || {
        let all = place.cluster.list(&GRAPH, Some(place.home()), &BTreeMap::new()).await.unwrap();
        all.into_iter().map(|one| (one.name().to_owned(), one.generation())).collect::<BTreeMap<_, _>>()
    };
    let before = graphs().await;
    for (name, (_, new)) in &pairs {
        shop.site.write(&format!("models/{name}/model.yaml"), new);
    }
    let (plan, gathered) = shop.plan(&[]).await;
    let told: BTreeMap<String, (Action, Disruption)> = plan
        .changes
        .iter()
        .filter(|change| change.object.kind == GRAPH.kind && before.contains_key(&change.object.name))
        .map(|change| (change.object.name.clone(), (change.action, change.disruption)))
        .collect();
    shop.carry_out(&place.cluster, (plan, gathered)).await;
    let after = graphs().await;
    let (mut kept, mut quiet) = (0, 0);
    for (name, (action, class)) in told {
        let (row, _) = &pairs[&name];
        if action == Action::Keep {
            assert_eq!(after[&name], before[&name], "{}", row["name"]);
            kept += 1;
        } else if action == Action::Update && class == Disruption::None && row["late"] != true {
            assert_eq!(row["workersRoll"], false, "{}", row["name"]);
            quiet += 1;
        }
    }
    assert!(kept > 10 && quiet > 10, "{kept} {quiet}");
    shop.settled().await;
}
