//! Clusters that write graphs as Dynamo's operator does: of the oldest release stored at v1alpha1 and converted by a webhook,
//! there and back; of the newest stored at v1beta1 and written anew by a webhook of admission.
//!
//! Conversion keeps a graph's spec in an annotation of the v1alpha1 object and gives it back in the form in which upstream's
//! encoder writes it. That this is the recorded form is checked against every recorded v1beta1 graph.

use crate::cluster::place::{Namespaces, Place as _};
use crate::cluster::whole::words::Shop;
use crate::git_server::tls::{TlsProxy, pem};
use crate::testbed::{self, ControlPlane, eventually};
use axum::{Json, Router, routing::post};
use base64::Engine as _;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};
use stator_cluster::cluster::{ApplyRequest, Cluster as _};
use stator_core::dynamo::equivalence::is_unknown_component_type;
use stator_core::dynamo::graph_components::{components, components_mut};
use stator_core::dynamo::kinds::{FIELD_MANAGER, GRAPH};
use stator_core::dynamo::release::Release;
use stator_core::fields;
use stator_core::object::{FieldPath, Object, PathSegment, Quantity};
use stator_model::import::{self, ImportOptions, ImportedModel, ManifestFile};
use stator_model::plan::{Action, HoldKind};
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::sync::{LazyLock, OnceLock};

/// Where the webhook keeps the spec of a graph while it is stored.
const KEPT_SPEC: &str = "nvidia.com/dgd-spec";

/// The spec of a graph as upstream's Go types encode it.
fn encode_as_upstream(spec: &mut Value) {
    let mut graph = json!({"spec": spec.take()});
    for component in components_mut(&mut graph) {
        let plugins = component.get_mut("eppConfig").and_then(|epp| epp.pointer_mut("/config/plugins"));
        for plugin in plugins.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
            // Fields without `omitempty`.
            plugin.entry("name").or_insert_with(|| json!(""));
            plugin.entry("parameters").or_insert(Value::Null);
        }
        let pod = component.get_mut("podTemplate").and_then(|template| template.get_mut("spec"));
        if let Some(pod) = pod {
            for list in ["containers", "initContainers"] {
                for container in pod.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                    encode_container(container);
                }
            }
        }
    }
    *spec = graph["spec"].take();
}

fn encode_container(container: &mut Value) {
    for variable in container.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(variable) = variable.as_object_mut().filter(|variable| variable.get("value") == Some(&json!(""))) {
            variable.remove("value");
        }
    }
    for kind in ["limits", "requests"] {
        let amounts = container.get_mut("resources").and_then(|all| all.get_mut(kind)).and_then(Value::as_object_mut);
        for amount in amounts.into_iter().flat_map(|amounts| amounts.values_mut()) {
            let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
            if let Some(canonical) = Quantity::canonical(&text) {
                *amount = json!(canonical);
            }
        }
    }
}

/// One object of a ConversionReview.
fn convert_object(mut object: Value, wanted: &str) -> Value {
    if object["apiVersion"] == wanted {
        return object;
    }
    object["apiVersion"] = json!(wanted);
    if wanted.ends_with("/v1alpha1") {
        let kept = object["spec"].to_string();
        let names = object["spec"]["components"].as_array().into_iter().flatten();
        let services: serde_json::Map<String, Value> =
            names.filter_map(|one| Some((one["name"].as_str()?.to_owned(), json!({})))).collect();
        object["spec"] = json!({"services": services});
        object["metadata"]["annotations"][KEPT_SPEC] = json!(kept);
        return object;
    }
    let kept = object.pointer_mut("/metadata/annotations").and_then(|all| all.as_object_mut()?.remove(KEPT_SPEC));
    if let Some(mut spec) = kept.as_ref().and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok()) {
        encode_as_upstream(&mut spec);
        object["spec"] = spec;
    }
    if object.pointer("/metadata/annotations").is_some_and(|all| all.as_object().is_some_and(|all| all.is_empty())) {
        object["metadata"].as_object_mut().unwrap().remove("annotations");
    }
    object
}

/// What the newest operator's webhook of admission makes of a graph: its own encoding, and on a cluster with Grove its
/// defaults.
fn admit_object(object: &mut Value, is_new: bool) {
    for component in components_mut(object) {
        component.entry("replicas").or_insert(json!(1));
        component.entry("minAvailable").or_insert(json!(1));
    }
    if is_new {
        object["metadata"]["annotations"]["nvidia.com/workload-provider"] = json!("grove");
    }
    encode_as_upstream(&mut object["spec"]);
}

async fn answer_admission(Json(review): Json<Value>) -> Json<Value> {
    let mut object = review["request"]["object"].clone();
    admit_object(&mut object, review["request"]["operation"] == "CREATE");
    let patch = json!([
        {"op": "replace", "path": "/spec", "value": object["spec"]},
        {"op": "add", "path": "/metadata/annotations", "value": object["metadata"]["annotations"]},
    ]);
    let patch = base64::engine::general_purpose::STANDARD.encode(patch.to_string());
    Json(json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": true, "patchType": "JSONPatch", "patch": patch},
    }))
}

async fn answer_review(Json(review): Json<Value>) -> Json<Value> {
    let wanted = review["request"]["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = review["request"]["objects"].as_array().cloned().unwrap_or_default();
    let converted: Vec<Value> = objects.into_iter().map(|object| convert_object(object, wanted)).collect();
    Json(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "response": {"uid": review["request"]["uid"], "convertedObjects": converted, "result": {"status": "Success"}},
    }))
}

/// Starts both webhooks, for as long as the process lives.
fn start_webhooks() -> TlsProxy {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let router = Router::new()
            .route("/convert", post(answer_review))
            .route("/mutate", post(answer_admission))
            .layer(axum::extract::DefaultBodyLimit::max(64 * 1024 * 1024));
        let serve = async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, router).await.unwrap();
        };
        runtime.block_on(serve);
    });
    TlsProxy::start(address, false)
}

/// A control plane that writes graphs as this release has them written; one of each for all tests of this file.
pub async fn plane_of(release: Release) -> Option<&'static ControlPlane> {
    type Planes = [(OnceLock<Option<ControlPlane>>, tokio::sync::OnceCell<()>); 2];
    static PLANES: Planes = [const { (OnceLock::new(), tokio::sync::OnceCell::const_new()) }; 2];
    let (number, start): (usize, fn() -> Option<ControlPlane>) =
        if release == Release::V1_5 { (1, testbed::another_of_newest) } else { (0, testbed::another) };
    let (plane, ready) = &PLANES[number];
    let plane = tokio::task::spawn_blocking(move || plane.get_or_init(start)).await.unwrap().as_ref()?;
    ready.get_or_init(|| write_as_upstream(plane, release)).await;
    Some(plane)
}

/// From now on the graphs of a control plane are written as this release has them written.
pub async fn write_as_upstream(plane: &'static ControlPlane, release: Release) {
    let definitions: Api<CustomResourceDefinition> = Api::all(plane.admin().await);
    let name = format!("{}.{}", GRAPH.plural, GRAPH.group);
    let stored = if release == Release::V1_5 { "v1beta1" } else { "v1alpha1" };
    let mut definition = serde_json::to_value(definitions.get(&name).await.unwrap()).unwrap();
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version["storage"] = json!(version["name"] == stored);
    }
    let authority = base64::engine::general_purpose::STANDARD.encode(pem("ca.pem"));
    let webhooks = start_webhooks();
    definition["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"url": webhooks.url("convert"), "caBundle": authority},
    }});
    let definition = serde_json::from_value(definition).unwrap();
    definitions.replace(&name, &PostParams::default(), &definition).await.unwrap();
    if release == Release::V1_5 {
        let admission: Api<MutatingWebhookConfiguration> = Api::all(plane.admin().await);
        let configuration = json!({"metadata": {"name": "dynamo"}, "webhooks": [{
            "name": "graphs.nvidia.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": webhooks.url("mutate"), "caBundle": authority},
            "rules": [{
                "apiGroups": [GRAPH.group], "apiVersions": [GRAPH.version], "resources": [GRAPH.plural],
                "operations": ["CREATE", "UPDATE"],
            }],
        }]});
        let configuration = serde_json::from_value(configuration).unwrap();
        admission.create(&PostParams::default(), &configuration).await.unwrap();
    }
    // The API server takes a moment until it asks the webhooks: a dry run tells.
    let name = if release == Release::V1_5 { "admits" } else { "converts" };
    let place = Namespaces::on(plane, name).await;
    let mut probe = place.graph("probe", 1).into_value();
    probe["spec"]["components"][0]["type"] = json!("epp");
    probe["spec"]["components"][0]["eppConfig"] = json!({"config": {
        "plugins": [{"type": "x"}], "schedulingProfiles": [{"name": "all", "plugins": [{"pluginRef": "x"}]}],
    }});
    let probe = ApplyRequest { dry_run: true, ..ApplyRequest::new(Object::from_value(probe).unwrap(), "probe") };
    eventually("graphs are written as upstream writes them", async || {
        let answer = place.cluster.apply(&probe).await;
        let seen = answer.map_or_else(|error| error.to_string(), |answer| answer.object.spec().to_string());
        if seen.contains(r#""name":"","type":"x""#) { Ok(()) } else { Err(move || seen) }
    })
    .await;
}

/// What the operator said of upstream's manifests: examples, and recipes for production.
fn verdicts(release: Release) -> Vec<Value> {
    ["manifests", "recipes"].map(|name| crate::fidelity::verdicts(release, name)).concat()
}

/// Every graph of a release's manifests that its operator took, at v1beta1, under a name of its own.
pub fn graphs(release: Release) -> &'static BTreeMap<String, Value> {
    static OLDEST: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| read_graphs(Release::V1_2));
    static NEWEST: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| read_graphs(Release::V1_5));
    if release == Release::V1_5 { &NEWEST } else { &OLDEST }
}

fn read_graphs(release: Release) -> BTreeMap<String, Value> {
    let rows = verdicts(release);
    // A type that v1beta1 has no word for only a v1alpha1 object can have.
    let is_known = |one: &Value| one["type"].as_str().is_none_or(|word| !is_unknown_component_type(word));
    let graphs = rows.iter().filter(|row| row["kind"] == GRAPH.kind && row["admitted"] == true);
    let graphs = graphs.filter(|row| components(&row["v1beta1"]["spec"]).all(is_known));
    let named = graphs.enumerate().map(|(number, row)| {
        let name = format!("m{number}");
        let mut graph = row["v1beta1"].clone();
        graph["metadata"] = json!({"name": name});
        (name, graph)
    });
    named.collect()
}

/// The webhook of these tests gives back what upstream's is recorded to give back.
#[test]
fn the_webhook_converts_there_and_back_as_upstreams_is_recorded_to() {
    let mut compared = 0;
    for row in verdicts(Release::V1_2) {
        let (Some(recorded), true) = (row["v1beta1"].get("spec"), row["kind"] == GRAPH.kind) else { continue };
        let written = crate::fidelity::source(Release::V1_2, &row);
        let written = if row["version"] == GRAPH.api_version() { written } else { row["v1beta1"].clone() };
        let stored = convert_object(written, "nvidia.com/v1alpha1");
        assert!(stored["spec"].get("components").is_none(), "{}", row["file"]);
        let read = convert_object(stored, &GRAPH.api_version());
        assert_eq!(read["spec"], *recorded, "{}", row["file"]);
        compared += 1;
    }
    assert!(compared > 170, "{compared}");
}

/// The models that say all of a graph.
pub fn import_graph(name: &str, graph: &Value, release: Release) -> Vec<ImportedModel> {
    let manifest = ManifestFile { file: format!("{name}.json"), content: graph.to_string().into_bytes() };
    let models = import::import(&[manifest], ImportOptions { release, ..ImportOptions::default() }).models;
    models.into_iter().filter(|model| model.round_trips).collect()
}

/// A model for each graph. Those that a model cannot express are left out; there are few.
fn models(release: Release) -> &'static BTreeMap<String, String> {
    static OLDEST: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| import_all(Release::V1_2));
    static NEWEST: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| import_all(Release::V1_5));
    if release == Release::V1_5 { &NEWEST } else { &OLDEST }
}

fn import_all(release: Release) -> BTreeMap<String, String> {
    let import = |(name, graph): (&String, &Value)| {
        import_graph(name, graph, release).pop().map(|model| (name.clone(), model.text))
    };
    let imported: BTreeMap<String, String> = graphs(release).iter().filter_map(import).collect();
    assert!(imported.len() > 80, "{}", imported.len());
    imported
}

/// A repository with all models. Their names.
fn write_models(shop: &Shop<'_, Namespaces>, release: Release) -> BTreeSet<String> {
    for (name, text) in models(release) {
        shop.site.write(&format!("models/{name}/model.yaml"), text);
    }
    models(release).keys().cloned().collect()
}

async fn generations(place: &Namespaces) -> BTreeMap<String, (String, i64)> {
    let graphs = place.cluster.list(&GRAPH, Some(place.home()), &BTreeMap::new()).await.unwrap();
    let state =
        |graph: Object| (graph.name().to_owned(), (graph.uid().unwrap().to_owned(), graph.generation().unwrap()));
    graphs.into_iter().map(state).collect()
}

/// Each scenario on a cluster of each make.
macro_rules! on_both_makes {
    ($($scenario:ident,)*) => {
        mod of_the_oldest {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $scenario() {
                    super::$scenario(super::Release::V1_2).await;
                }
            )*
        }

        mod of_the_newest {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $scenario() {
                    super::$scenario(super::Release::V1_5).await;
                }
            )*
        }
    };
}

on_both_makes! {
    a_change_of_every_kind_of_leaf_is_seen,
    every_recorded_graph_is_adopted_without_a_new_generation,
    every_recorded_graph_settles,
}

/// Row A5 of the review, for every recorded graph: what conversion makes of an apply is no drift, a second sync writes nothing,
/// and no generation moves.
async fn every_recorded_graph_settles(release: Release) {
    let Some(plane) = plane_of(release).await else { return };
    let place = Namespaces::on(plane, "settles").await;
    let shop = Shop::new(&place, &[]);
    let imported = write_models(&shop, release);
    shop.synced(&[]).await;
    let before = generations(&place).await;
    assert_eq!(before.keys().cloned().collect::<BTreeSet<_>>(), imported);
    shop.settled().await;
    assert_eq!(generations(&place).await, before);
}

/// Row A1, for every recorded graph: one that somebody created is adopted by a plan that says `none`, and stays the same object
/// at the same generation, from which it follows that the hash of its workers stays.
async fn every_recorded_graph_is_adopted_without_a_new_generation(release: Release) {
    let Some(plane) = plane_of(release).await else { return };
    let place = Namespaces::on(plane, "adopts").await;
    let shop = Shop::new(&place, &[]);
    let imported = write_models(&shop, release);
    for name in &imported {
        place.create(place.object(graphs(release)[name].clone()), "kubectl-client-side-apply").await;
    }
    let before = generations(&place).await;
    let (plan, _) = shop.plan(&[HoldKind::Adopt]).await;
    let planned = plan.changes.iter().filter(|change| change.object.kind == GRAPH.kind);
    let disturbing: Vec<String> = planned
        .filter(|change| {
            let is_quiet = change.fields.iter().all(|field| field.path.to_string().starts_with("metadata."));
            change.action != Action::Adopt || change.disruption.to_string() != "none" || !is_quiet
        })
        .map(|change| format!("{} {:?} {} {:#?}", change.object.name, change.action, change.disruption, change.fields))
        .collect();
    assert_eq!(disturbing, Vec::<String>::new());
    shop.synced(&[HoldKind::Adopt]).await;
    // The newest webhook writes `parameters: null` into the plugins of a picker at every write, whoever writes what: that
    // alone moves the generation of such a graph, and no worker's hash.
    let is_counted = |name: &str| release != Release::V1_5 || !has_picker(&graphs(release)[name]);
    let counted = |generations: BTreeMap<String, (String, i64)>| {
        generations.into_iter().filter(|(name, _)| is_counted(name)).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(counted(generations(&place).await), counted(before));
    shop.settled().await;
}

/// A change of a value that is still one of its type.
fn alter(value: &mut Value) -> bool {
    match value {
        // A quantity stays one.
        Value::String(text) if text.starts_with(|first: char| first.is_ascii_digit()) => text.insert(0, '1'),
        Value::String(text) => text.push('x'),
        Value::Bool(flag) => *flag = !*flag,
        Value::Number(number) => *value = json!(number.as_i64().unwrap_or_default() + 1),
        Value::Array(items) if items.iter().all(Value::is_string) => items.push(json!("x")),
        Value::Array(items) => return items.first_mut().is_some_and(alter),
        Value::Object(map) => return map.values_mut().any(alter),
        Value::Null => return false,
    }
    true
}

/// The value that a path leads to.
fn at<'a>(mut value: &'a mut Value, path: &FieldPath) -> Option<&'a mut Value> {
    for segment in &path.0 {
        value = match segment {
            PathSegment::Field(name) => value.get_mut(name)?,
            PathSegment::Key(keys) => {
                let is_it = |item: &Value| {
                    keys.iter().all(|(name, key)| {
                        let default = if name == "protocol" { json!("TCP") } else { Value::Null };
                        *item.get(name).unwrap_or(&default) == key.value()
                    })
                };
                value.as_array_mut()?.iter_mut().find(|item| is_it(item))?
            }
            PathSegment::Item(_) | PathSegment::Index(_) => return None,
        };
    }
    Some(value)
}

/// A path without the keys of its list items: the kind of leaf that it is.
fn kind_of_leaf(path: &FieldPath) -> String {
    let names = path.0.iter().map(|segment| match segment {
        PathSegment::Field(name) => name.as_str(),
        PathSegment::Key(_) | PathSegment::Item(_) | PathSegment::Index(_) => "[]",
    });
    names.collect::<Vec<_>>().join(".")
}

/// Whether a graph has an endpoint picker.
pub fn has_picker(graph: &Value) -> bool {
    components(&graph["spec"]).any(|one| one["type"] == "epp")
}

fn has_planner(graph: &Object) -> bool {
    components(graph.spec()).any(|one| one["type"] == "planner")
}

/// Every kind of leaf that stator applies in any recorded graph is changed by hand once, on a server that converts, and each
/// time the plan names the field.
async fn a_change_of_every_kind_of_leaf_is_seen(release: Release) {
    let Some(plane) = plane_of(release).await else { return };
    let place = Namespaces::on(plane, "leaves").await;
    let shop = Shop::new(&place, &[]);
    write_models(&shop, release);
    shop.synced(&[]).await;
    let mut kinds: BTreeMap<String, Vec<(String, FieldPath)>> = BTreeMap::new();
    for graph in place.cluster.list(&GRAPH, Some(place.home()), &BTreeMap::new()).await.unwrap() {
        for path in fields::applied_fields(&graph, FIELD_MANAGER).unwrap().leaves() {
            let kind = kind_of_leaf(&path);
            // Counts are left to a planner as soon as it writes one.
            let is_delegated = path.last_field() == Some("replicas") && has_planner(&graph);
            if kind.starts_with("spec.") && !kind.ends_with(".[]") && !is_delegated {
                let places = kinds.entry(kind).or_default();
                // A server that refuses two changes of a kind refuses all of them: it is a word of a fixed list.
                if places.len() < 2 {
                    places.push((graph.name().to_owned(), path));
                }
            }
        }
    }
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GRAPH.group, GRAPH.version, GRAPH.kind), GRAPH.plural);
    let api: Api<DynamicObject> = Api::namespaced_with(plane.admin().await, place.home(), &resource);
    let (mut seen, mut refused) = (0, Vec::new());
    while !kinds.is_empty() {
        // One change of a graph at a time.
        let mut changed: BTreeMap<String, FieldPath> = BTreeMap::new();
        let mut done = Vec::new();
        for (kind, places) in &mut kinds {
            let Some(free) = places.iter().position(|(name, _)| !changed.contains_key(name)) else { continue };
            let (name, path) = places.swap_remove(free);
            let mut value = serde_json::to_value(api.get(&name).await.unwrap()).unwrap();
            // What stands in a map that is applied empty is somebody else's. Any other map that is a leaf is one value.
            let is_empty = |map: &mut Value| map.as_object().is_some_and(serde_json::Map::is_empty);
            let is_whole = at(&mut graphs(release)[&name].clone(), &path).is_some_and(|applied| !is_empty(applied));
            let altered = at(&mut value, &path).filter(|leaf| !leaf.is_object() || is_whole).is_some_and(alter);
            let post = PostParams { field_manager: Some("kubectl-edit".to_owned()), ..PostParams::default() };
            let written = api.replace(&name, &post, &serde_json::from_value(value).unwrap()).await;
            if altered && written.is_ok() {
                changed.insert(name, path);
                done.push(kind.clone());
            } else if places.is_empty() {
                refused.push(kind.clone());
                done.push(kind.clone());
            }
        }
        done.iter().for_each(|kind| drop(kinds.remove(kind)));
        let (plan, _) = shop.plan(&[]).await;
        for (name, path) in changed {
            let change =
                plan.changes.iter().find(|one| one.object.kind == GRAPH.kind && one.object.name == name).unwrap();
            let named =
                change.fields.iter().any(|field| field.path.starts_with(&path) || path.starts_with(&field.path));
            assert!(named && change.action != Action::Keep, "{name}: {path}: {:?} {:#?}", change.action, change.fields);
            seen += 1;
        }
    }
    assert!(seen > 75 && refused.len() < 10, "{seen} seen, refused: {refused:#?}");
}
