//! Objects and fields of somebody else.

use super::words::{Shop, labelled};
use crate::cluster::place::{Place, on_every_cluster};
use crate::cluster::scenario::{try_apply, with};
use serde_json::json;
use stator_core::dynamo::kinds::{GRAPH, RECORD};
use stator_core::object::Object;
use stator_core::outcome::SyncOutcome;
use stator_model::plan::HoldKind;

on_every_cluster! {
    what_is_nobodys_is_adopted_when_allowed,
    what_another_tool_manages_is_left_alone_until_its_adoption_is_allowed,
    a_conflict_blocks_its_model_until_the_manager_is_named,
    ownership_is_given_up_with_the_field,
}

/// The same graph without a word of whose it is.
fn anonymous(object: Object) -> Object {
    with(object, |value| {
        let metadata = value["metadata"].as_object_mut().unwrap();
        metadata.remove("labels");
        metadata.remove("annotations");
    })
}

async fn what_is_nobodys_is_adopted_when_allowed(place: &impl Place) {
    let shop = Shop::new(place, &[("llama", 1)]);
    let theirs = anonymous(shop.rendered(&GRAPH, "llama").await);
    let made = try_apply(place.cluster(), theirs, "kubectl").await.unwrap().object;
    let seen = shop.pending(&[]).await.join("\n");
    insta::allow_duplicates! {
        insta::assert_snapshot!(seen, @"
        adopt DynamoGraphDeployment prod/llama: already exists and is not managed by stator or another tool: allow its adoption, or give the model another name; field ownership moves to stator from kubectl; held back: `--allow adopt` takes it over
        already in the cluster, not managed by stator; would be taken over: DynamoGraphDeployment prod/llama
        ");
    }
    let report = shop.sync(&[]).await;
    assert_eq!(report.models[0].result, SyncOutcome::Held, "{report:#?}");
    assert_eq!(shop.graph("llama").await, made, "nothing was written");
    assert_eq!(shop.pending(&[]).await.join("\n"), seen, "nor has the sync made it stator's");
    let seen = shop.pending(&[HoldKind::Adopt]).await.join("\n");
    insta::allow_duplicates! {
        insta::assert_snapshot!(seen, @"adopt DynamoGraphDeployment prod/llama: already exists and is not managed by stator or another tool: taken over, as allowed; field ownership moves to stator from kubectl");
    }
    shop.synced(&[HoldKind::Adopt]).await;
    let adopted = shop.graph("llama").await;
    assert_eq!((adopted.uid(), adopted.generation()), (made.uid(), made.generation()), "it is the same, untouched");
    assert_eq!(adopted.labels().get("app.kubernetes.io/managed-by"), Some(&"stator"));
    assert!(shop.live(&RECORD, "llama").await.is_some());
    shop.settled().await;
    // From here on it is stator's, and goes with its model.
    shop.model("other", 1, "");
    shop.synced(&[]).await;
    shop.site.remove("llama");
    shop.synced(&[]).await;
    assert_eq!(shop.live(&GRAPH, "llama").await, None);
    shop.settled().await;
}

async fn what_another_tool_manages_is_left_alone_until_its_adoption_is_allowed(place: &impl Place) {
    let shop = Shop::new(place, &[("llama", 1), ("qwen", 1)]);
    let theirs = with(anonymous(shop.rendered(&GRAPH, "llama").await), |value| {
        value["metadata"]["annotations"] =
            json!({"argocd.argoproj.io/tracking-id": "ml:nvidia.com/DynamoGraphDeployment"});
    });
    let made = try_apply(place.cluster(), theirs.clone(), "argocd-controller").await.unwrap().object;
    let seen = shop.pending(&[]).await.join("\n");
    insta::allow_duplicates! {
        insta::assert_snapshot!(seen, @"
        adopt DynamoGraphDeployment prod/llama: already exists and is managed by Argo CD (`argocd.argoproj.io/tracking-id`): allow its adoption once Argo CD no longer manages it, or give the model another name; field ownership moves to stator from argocd-controller; held back: `--allow adopt` takes it over
        create DynamoGraphDeployment prod/qwen: is not in the cluster yet
        already in the cluster, not managed by stator; would be taken over: DynamoGraphDeployment prod/llama
        ");
    }
    let report = shop.sync(&[HoldKind::Replace, HoldKind::MassDelete]).await;
    let results: Vec<_> = report.models.iter().map(|model| (model.name.as_str(), model.result)).collect();
    assert_eq!(results, [("llama", SyncOutcome::Held), ("qwen", SyncOutcome::Synced)]);
    assert_eq!(shop.graph("llama").await, made, "nothing was written");
    // Nor is it pruned when git gives it up.
    shop.site.remove("llama");
    shop.synced(&[HoldKind::MassDelete]).await;
    assert_eq!(shop.graph("llama").await, made);
    shop.settled().await;

    // Once it is adopted, a tool that still runs and marks it again is named, and not fought.
    shop.model("llama", 1, "");
    shop.synced(&[HoldKind::Adopt]).await;
    shop.settled().await;
    try_apply(place.cluster(), theirs, "argocd-controller").await.unwrap();
    let contested = shop.graph("llama").await;
    let seen = shop.pending(&[]).await.join("\n");
    insta::allow_duplicates! {
        insta::assert_snapshot!(seen, @"
        adopt DynamoGraphDeployment prod/llama: already exists and is managed by Argo CD (`argocd.argoproj.io/tracking-id`): allow its adoption once Argo CD no longer manages it, or give the model another name; field ownership moves to stator from argocd-controller; held back: `--allow adopt` takes it over
        already in the cluster, not managed by stator; would be taken over: DynamoGraphDeployment prod/llama
        ");
    }
    let report = shop.sync(&[]).await;
    assert_eq!((report.is_success(), shop.graph("llama").await), (false, contested));
    shop.site.remove("llama");
    shop.synced(&[HoldKind::MassDelete]).await;
    assert!(shop.live(&GRAPH, "llama").await.is_some(), "what another tool marks is not pruned");
    shop.settled().await;
}

async fn a_conflict_blocks_its_model_until_the_manager_is_named(place: &impl Place) {
    let shop = Shop::new(place, &[("llama", 1), ("qwen", 1)]);
    shop.synced(&[]).await;
    let graph = shop.named(&GRAPH, "llama");
    place
        .edit(&graph, "kubectl-edit", |value| {
            let worker =
                value["spec"]["components"].as_array_mut().unwrap().iter_mut().find(|own| own["name"] == "worker");
            worker.unwrap()["replicas"] = json!(4);
        })
        .await;
    let edited = shop.graph("llama").await;
    shop.model("llama", 2, "");
    shop.model("qwen", 2, "");
    let seen = shop.pending(&[]).await.join("\n");
    insta::allow_duplicates! {
        insta::assert_snapshot!(seen, @r#"
        blocked DynamoGraphDeployment prod/llama: spec.components[name=worker].replicas: owned by kubectl-edit; write its value into the intent, or name kubectl-edit in `spec.takeOver` to take it back
        update DynamoGraphDeployment prod/qwen: changed in git
        "#);
    }
    let report = shop.sync(&[]).await;
    let results: Vec<_> = report.models.iter().map(|model| (model.name.as_str(), model.result)).collect();
    assert_eq!(results, [("llama", SyncOutcome::Blocked), ("qwen", SyncOutcome::Synced)]);
    assert_eq!(shop.graph("llama").await, edited, "nothing was written");
    shop.model("llama", 2, "  takeOver: [kubectl-edit]\n");
    shop.synced(&[]).await;
    assert_eq!(worker(&shop.graph("llama").await)["replicas"], 2);
    shop.settled().await;
}

fn worker(graph: &Object) -> serde_json::Value {
    graph.spec()["components"].as_array().unwrap().iter().find(|own| own["name"] == "worker").unwrap().clone()
}

async fn ownership_is_given_up_with_the_field(place: &impl Place) {
    let shop = Shop::new(place, &[]);
    let with_env = |more: &str| shop.model("llama", 1, &format!("  env: {{{more}}}\n"));
    with_env("LEVEL: debug, COLOUR: blue");
    shop.synced(&[]).await;
    let names = |graph: &Object| {
        let container = &worker(graph)["podTemplate"]["spec"]["containers"][0];
        let env = container["env"].as_array().cloned().unwrap_or_default();
        let mut names: Vec<String> = env.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let has = |names: &[String], name: &str| names.iter().any(|own| own == name);
    let first = names(&shop.graph("llama").await);
    assert!(has(&first, "LEVEL") && has(&first, "COLOUR"), "{first:?}");
    // A label of somebody else is theirs, and stays through all of it.
    place.edit(&shop.named(&GRAPH, "llama"), "billing", |value| labelled(value, "team", "search")).await;
    shop.settled().await;
    with_env("LEVEL: debug");
    shop.synced(&[]).await;
    let graph = shop.graph("llama").await;
    let second = names(&graph);
    assert!(has(&second, "LEVEL") && !has(&second, "COLOUR"), "{second:?}");
    assert_eq!(graph.labels().get("team"), Some(&"search"));
    shop.settled().await;
}
