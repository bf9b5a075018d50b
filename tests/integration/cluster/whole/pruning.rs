//! What git no longer has goes: last, in order, and only what was meant.

use super::words::{Shop, Watched};
use crate::cluster::place::{Place, on_every_cluster};
use crate::cluster::scenario::{apply, with};
use serde_json::json;
use stator_cluster::cluster::{Cluster as _, DeleteOutcome, Preconditions};
use stator_cluster::sync::gather;
use stator_core::dynamo::kinds::{self, ADAPTER, CLAIM, GRAPH, RECORD};
use stator_model::plan::HoldKind;

on_every_cluster! {
    a_removed_model_goes_in_order_and_its_weights_stay,
    an_object_made_again_since_the_plan_survives,
    a_record_written_since_the_plan_stays_until_it_is_looked_at_again,
    an_object_written_since_the_plan_is_looked_at_again,
    what_cannot_be_listed_is_never_pruned,
    a_mass_removal_waits_for_a_release,
    a_pruned_object_may_take_its_time_to_go,
}

const ADAPTED: &str = "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: base}\nspec:\n  model: \
                       Qwen/Qwen3-0.6B\n  engine: vllm\n  runtime: 1.2.0\n  hardware: {gpu: l40s, gpusPerNode: 4}\n  \
                       serving: {worker: {replicas: 1}}\n  cache: {claim: weights, size: 10Gi}\n  adapters: [{name: \
                       sql, source: s3://adapters/sql}]\n";

async fn a_removed_model_goes_in_order_and_its_weights_stay(place: &impl Place) {
    let shop = Shop::new(place, &[("other", 1)]);
    shop.site.write("models/base/model.yaml", ADAPTED);
    let watched = Watched::new(place.cluster());
    let plan = shop.plan(&[]).await;
    shop.carry_out(&watched, plan).await;
    assert_eq!(shop.live(&ADAPTER, "base-sql").await, None, "an adapter waits for its graph");
    shop.ready("base").await;
    let plan = shop.plan(&[]).await;
    shop.carry_out(&watched, plan).await;
    let base: Vec<String> = watched.writes().into_iter().filter(|line| !line.contains("other")).collect();
    let made: Vec<&String> = base.iter().filter(|line| line.starts_with("created")).collect();
    insta::allow_duplicates! {
        insta::assert_debug_snapshot!(made, @r#"
        [
            "created Model base",
            "created PersistentVolumeClaim weights",
            "created DynamoGraphDeployment base",
            "created DynamoModel base-sql",
        ]
        "#);
    }
    shop.ready("other").await;
    shop.settled().await;

    shop.site.remove("base");
    shop.model("other", 2, "");
    let watched = Watched::new(place.cluster());
    let plan = shop.plan(&[]).await;
    let report = shop.carry_out(&watched, plan).await;
    assert!(report.is_success(), "{report:#?}");
    // Models go side by side, but nothing is deleted before every apply is through.
    let writes = watched.writes();
    assert_eq!(writes.iter().position(|line| line == "updated DynamoGraphDeployment other"), Some(0), "{writes:#?}");
    let base: Vec<&String> = writes.iter().filter(|line| line.contains(" base")).collect();
    insta::allow_duplicates! {
        insta::assert_debug_snapshot!(base, @r#"
        [
            "deleted DynamoModel base-sql by uid and version",
            "deleted DynamoGraphDeployment base by uid and version",
            "deleted Model base by uid and version",
        ]
        "#);
    }
    assert!(shop.live(&CLAIM, "weights").await.is_some_and(|claim| !claim.is_deleting()));
    shop.settled().await;
}

async fn an_object_made_again_since_the_plan_survives(place: &impl Place) {
    let shop = Shop::new(place, &[("stays", 1), ("goes", 1)]);
    shop.synced(&[]).await;
    shop.site.remove("goes");
    let plan = shop.plan(&[]).await;
    // Somebody makes it anew, labels and all, before the plan is carried out.
    let first = shop.graph("goes").await;
    assert_eq!(
        place.cluster().delete(&first.reference(), &Preconditions::default()).await.unwrap(),
        DeleteOutcome::Gone
    );
    let copy = with(first.clone(), |value| {
        let metadata = value["metadata"].as_object_mut().unwrap();
        metadata.retain(|key, _| ["name", "namespace", "labels"].contains(&key.as_str()));
        value.as_object_mut().unwrap().remove("status");
    });
    let second = apply(place.cluster(), copy).await.object;
    assert_ne!(second.uid(), first.uid());
    shop.carry_out(place.cluster(), plan).await;
    assert_eq!(shop.graph("goes").await, second);
    shop.settled().await;
    assert_eq!(shop.graph("goes").await, second, "no record shows that stator created it");
}

async fn a_record_written_since_the_plan_stays_until_it_is_looked_at_again(place: &impl Place) {
    let shop = Shop::new(place, &[("stays", 1), ("goes", 1)]);
    shop.synced(&[]).await;
    shop.site.remove("goes");
    let plan = shop.plan(&[]).await;
    place
        .edit(&shop.named(&RECORD, "goes"), "another-stator", |value| {
            value["metadata"]["annotations"]["example.com/note"] = json!("written by another replica");
        })
        .await;
    let report = shop.carry_out(place.cluster(), plan).await;
    let goes = report.models.iter().find(|one| one.name == "goes").unwrap();
    assert!(goes.message.starts_with("the record could not be deleted: "), "{report:#?}");
    assert!(shop.live(&RECORD, "goes").await.is_some());
    shop.synced(&[]).await;
    assert_eq!(shop.live(&RECORD, "goes").await, None);
    shop.settled().await;
}

async fn an_object_written_since_the_plan_is_looked_at_again(place: &impl Place) {
    let shop = Shop::new(place, &[("stays", 1), ("status", 1), ("handed-over", 1)]);
    shop.synced(&[]).await;
    shop.site.remove("status");
    shop.site.remove("handed-over");
    let plan = shop.plan(&[]).await;
    // A status moves the resource version, and means nothing; labels that are gone mean a lot.
    shop.ready("status").await;
    place
        .edit(&shop.named(&GRAPH, "handed-over"), "kubectl-edit", |value| {
            value["metadata"]["labels"] = json!({"team": "search"});
        })
        .await;
    let report = shop.carry_out(place.cluster(), plan).await;
    assert_eq!(shop.live(&GRAPH, "status").await, None, "{report:#?}");
    assert!(shop.live(&GRAPH, "handed-over").await.is_some(), "{report:#?}");
    insta::allow_duplicates! {
        insta::assert_snapshot!(place.said(&report.models.iter().find(|one| one.name == "handed-over").unwrap().message), @"DynamoGraphDeployment prod/handed-over is no longer labelled as this model's, and is not changed");
    }
}

async fn what_cannot_be_listed_is_never_pruned(place: &impl Place) {
    let shop = Shop::new(place, &[("stays", 1), ("goes", 1)]);
    shop.synced(&[]).await;
    let before = shop.versions().await;
    shop.site.remove("goes");
    let mut watched = Watched::new(place.cluster());
    for kind in [GRAPH, ADAPTER, CLAIM, RECORD] {
        watched.unlistable = Some(kind);
        let error = gather(&watched, "shop", "prod", place.home(), &[]).await.unwrap_err();
        assert!(error.to_string().contains("nothing is planned"), "{error}");
    }
    assert_eq!(shop.versions().await, before);
    shop.synced(&[]).await;
    assert_eq!(shop.live(&GRAPH, "goes").await, None);
    shop.settled().await;
}

async fn a_mass_removal_waits_for_a_release(place: &impl Place) {
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let shop = Shop::new(place, &names.map(|name| (name, 1)));
    shop.synced(&[]).await;
    let before = shop.versions().await;
    for name in &names[1..] {
        shop.site.remove(name);
    }
    let held = shop.sync(&[]).await;
    assert!(!held.is_success(), "{held:#?}");
    assert_eq!(shop.versions().await, before);
    shop.synced(&[HoldKind::MassDelete]).await;
    assert_eq!(shop.objects().await, ["DynamoGraphDeployment prod/a", "Model prod/a"]);
    shop.settled().await;
}

async fn a_pruned_object_may_take_its_time_to_go(place: &impl Place) {
    let shop = Shop::new(place, &[("stays", 1), ("goes", 1)]);
    shop.synced(&[]).await;
    let graph = shop.named(&GRAPH, "goes");
    place.edit(&graph, "manager", |value| value["metadata"]["finalizers"] = json!([kinds::OPERATOR_FINALIZER])).await;
    shop.site.remove("goes");
    let report = shop.synced(&[]).await;
    insta::allow_duplicates! {
        insta::assert_snapshot!(place.said(format!("{:#?}", report.models)), @r#"
        [
            ModelOutcome {
                name: "goes",
                result: Synced,
                message: "",
                applied: 0,
                pruned: 1,
            },
            ModelOutcome {
                name: "stays",
                result: Synced,
                message: "",
                applied: 0,
                pruned: 0,
            },
        ]
        "#);
    }
    assert!(shop.graph("goes").await.is_deleting());
    shop.settled().await;
    place.edit(&graph, "manager", |value| value["metadata"]["finalizers"] = json!([])).await;
    assert_eq!(shop.live(&GRAPH, "goes").await, None);
    shop.settled().await;
}
