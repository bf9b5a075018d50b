//! A repository of the oldest release is taken to the newest one, on an API server whose definitions and webhooks are
//! upgraded under it, by doing what `stator check --dynamo` says and nothing else.

use super::converting::{graphs, import_graph, write_as_upstream};
use super::place::{Namespaces, Place as _};
use super::whole::words::Shop;
use crate::testbed::{self, ControlPlane, crds};
use crate::workbench::Workbench;
use serde_json::Value;
use stator_cluster::cluster::Cluster as _;
use stator_core::dynamo::admission::{self, AdmissionOutcome, Platform, rules};
use stator_core::dynamo::disruption::{Disruption, classify_change};
use stator_core::dynamo::kinds::GRAPH;
use stator_core::dynamo::release::Release;
use stator_core::object::Object;
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, ExitStatus};

/// Tags that say no version to the newest release, and what is in them.
const TAGS: [(&str, &str); 8] = [
    (":1.2", "1.2.0"),
    (":01.2.1", "1.2.1"),
    (":1.2.0rc1", "1.2.0"),
    (":1.2.0_cu13", "1.2.0"),
    (":cuda13-1.2.0", "1.2.0"),
    (":latest", "1.2.0"),
    (":2024.01", "1.2.0"),
    ("@sha256:c0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ff", "1.2.0"),
];

fn tagged(number: usize, tag: &str) -> String {
    format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {{name: tag-{number}}}\nspec:\n  model: Qwen/Qwen3-0.6B\n  \
         engine: mocker\n  image: host.example:5000/dynamo{tag}\n  restart: '2'\n  serving:\n    worker: {{replicas: 1}}\n"
    )
}

/// A checkpoint as it was written before it had a switch.
const CHECKPOINT: &str = "apiVersion: stator.dev/v1alpha1
kind: Model
metadata: {name: frozen}
spec:
  model: Qwen/Qwen3-0.6B
  engine: vllm
  runtime: 1.2.0
  serving:
    worker: {replicas: 1, gpus: 1}
  overrides:
    # Captured once it is warm.
    - target: {kind: DynamoGraphDeployment}
      merge:
        spec:
          components:
            - name: worker
              experimental: {checkpoint: {mode: Auto, identity: {model: Qwen/Qwen3-0.6B, backendFramework: vllm}}}
";

struct Upgrade<'a> {
    shop: &'a Shop<'a, Namespaces>,
    bench: Workbench,
}

impl Upgrade<'_> {
    /// Of the files alone: no cluster is named.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.bench.command();
        command.env_remove("STATOR_CLUSTER").args(["check", "--dynamo", "1.5"]).args(arguments);
        command.arg(self.shop.site.path(""));
        command
    }

    fn check(&self, arguments: &[&str]) -> (ExitStatus, String) {
        let output = self.command(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status, format!("{text}{}", String::from_utf8_lossy(&output.stderr)))
    }

    fn foresight(&self) -> Value {
        serde_json::from_slice(&self.command(&["-o", "json"]).output().unwrap().stdout).unwrap()
    }

    fn set_release(&self, release: &str) {
        let path = self.shop.site.path("stator.yaml");
        let text = fs_err::read_to_string(&path).unwrap();
        let before = text.replace("dynamo: \"1.2\", ", "");
        fs_err::write(&path, before.replace("platform: {", &format!("platform: {{dynamo: \"{release}\", "))).unwrap();
    }

    async fn live(&self) -> BTreeMap<String, Object> {
        let place = self.shop.place;
        let graphs = place.cluster.list(&GRAPH, Some(place.home()), &BTreeMap::new()).await.unwrap();
        graphs.into_iter().map(|graph| (graph.name().to_owned(), graph)).collect()
    }
}

fn generations(live: &BTreeMap<String, Object>) -> BTreeMap<&str, Option<i64>> {
    live.iter().map(|(name, graph)| (name.as_str(), graph.generation())).collect()
}

/// A class in the words of a plan.
fn is_quiet(class: Disruption) -> bool {
    matches!(class, Disruption::None | Disruption::Scale)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_of_the_oldest_release_is_taken_to_the_newest_by_what_check_says() {
    let Some(plane) = tokio::task::spawn_blocking(testbed::another).await.unwrap() else { return };
    let plane: &'static ControlPlane = Box::leak(Box::new(plane));
    write_as_upstream(plane, Release::V1_2).await;
    let place = Namespaces::on(plane, "upgrades").await;
    let shop = Shop::new(&place, &[]);
    for (number, (tag, _)) in TAGS.iter().enumerate() {
        shop.site.write(&format!("models/tag-{number}/model.yaml"), &tagged(number, tag));
    }
    shop.site.write("models/frozen/model.yaml", CHECKPOINT);
    for (name, graph) in graphs(Release::V1_2) {
        if let Some(model) = import_graph(name, graph, Release::V1_2).pop() {
            shop.site.write(&format!("models/{name}/model.yaml"), &model.text);
        }
    }
    let upgrade = Upgrade { shop: &shop, bench: Workbench::empty() };
    upgrade.set_release("1.2");
    shop.synced(&[]).await;
    let at_first = upgrade.live().await;

    // What is refused is refused: exit code 1, and all of it has a correction.
    let (status, shown) = upgrade.check(&[]);
    assert_eq!(status.code(), Some(1), "{shown}");
    let foreseen = upgrade.foresight();
    let summary = &foreseen["summary"];
    assert_eq!(summary["refused"], summary["corrected"], "{shown}");
    assert!(summary["refused"].as_u64().unwrap() >= 60 && summary["unreadable"] == 0, "{summary}");
    let versions = |model: &str| {
        let files = foreseen["corrections"].as_array().unwrap();
        let file = files.iter().find(|one| one["file"] == format!("models/{model}/model.yaml")).unwrap();
        let line = file["patch"].as_str().unwrap().lines().find(|line| line.contains("runtimeVersion")).unwrap();
        line.trim_start_matches('+').trim().trim_start_matches("runtimeVersion: ").trim_matches(['"', '\'']).to_owned()
    };
    for (number, (tag, version)) in TAGS.iter().enumerate() {
        assert_eq!(versions(&format!("tag-{number}")), *version, "{tag}");
    }

    // First, while the old release runs: the patch writes nothing in the cluster.
    let (_, shown) = upgrade.check(&["--write"]);
    assert!(shown.contains("sync: that writes nothing."), "{shown}");
    shop.synced(&[]).await;
    assert_eq!(generations(&upgrade.live().await), generations(&at_first));
    let (status, shown) = upgrade.check(&[]);
    assert_eq!(status.code(), Some(0), "{shown}");

    // Then the definitions, the storage and the webhooks of the newest.
    crds::upgrade(&plane.admin().await, crds::NEWEST).await.unwrap();
    write_as_upstream(plane, Release::V1_5).await;
    assert_eq!(generations(&upgrade.live().await), generations(&at_first));

    // Then what is left, and a sync that restarts what was foretold.
    let restarted: BTreeSet<String> = BTreeSet::from(["frozen".to_owned()]);
    assert!(shown.contains("and restarts `frozen` (managed-roll)"), "{shown}");
    upgrade.set_release("1.5");
    let (status, shown) = upgrade.check(&["--write"]);
    assert_eq!(status.code(), Some(0), "{shown}");
    let text = fs_err::read_to_string(shop.site.path("models/frozen/model.yaml")).unwrap();
    assert!(text.contains("enabled: true") && text.contains("# Captured once it is warm."), "{text}");
    let (plan, _) = shop.plan(&[]).await;
    let disturbed: BTreeSet<String> = plan
        .changes
        .iter()
        .filter(|change| change.object.kind == GRAPH.kind && !is_quiet(change.disruption))
        .map(|change| change.object.name.clone())
        .collect();
    assert_eq!(
        disturbed,
        restarted,
        "{:#?}",
        plan.changes.iter().filter(|one| !is_quiet(one.disruption)).collect::<Vec<_>>()
    );
    shop.synced(&[]).await;
    shop.settled().await;

    // All of it is valid there, and its workers are those that there were: by the rules that agree with every verdict that
    // the newest operator gave.
    let platform = Platform {
        dynamo: Some(Release::V1_5),
        inference_gateway: Some(true),
        leader_worker_set: Some(true),
        ..Platform::from_api_groups(["grove.io", "inference.networking.k8s.io"])
    };
    let now = upgrade.live().await;
    assert_eq!(now.keys().collect::<Vec<_>>(), at_first.keys().collect::<Vec<_>>());
    for (name, graph) in &now {
        let applied = graph.clone().map(|mut value| {
            value["metadata"].as_object_mut().unwrap().remove("managedFields");
            value
        });
        let refused: Vec<String> = admission::check_object(&applied.unwrap(), &platform)
            .into_iter()
            .filter(|one| one.outcome == AdmissionOutcome::Denied && one.rule != rules::RESTART_ON_CREATE)
            .map(|one| one.message)
            .collect();
        assert_eq!(refused, Vec::<String>::new(), "{name}");
        let judgement = classify_change(&at_first[name], graph, &platform);
        assert!(judgement.forbidden.is_empty(), "{name}: {judgement:?}");
        assert_eq!(!is_quiet(judgement.disruption), restarted.contains(name), "{name}: {judgement:?}");
        assert_eq!(graph.uid(), at_first[name].uid(), "{name}");
    }
    let (status, shown) = upgrade.check(&[]);
    assert_eq!(status.code(), Some(0), "{shown}");
    assert!(shown.contains("nothing is refused; the operator restarts nothing by itself"), "{shown}");
}
