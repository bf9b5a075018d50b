//! What git no longer has goes: last, in order, and only what was meant.

use super::words::{Shop, Watched};
use crate::cluster::place::{Place, on_every_cluster};
use crate::cluster::scenario::{apply, with};
use crate::testbed::eventually;
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
    a_failed_apply_holds_back_no_other_models_deletion,
    a_renamed_model_goes_once_its_new_name_is_applied,
    a_claim_that_does_not_go_holds_its_own_model_only,
    what_may_not_be_stators_is_said_until_somebody_settles_it,
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
            "created SyncJournal sync-63cbe1e459320dd7-0",
            "created PersistentVolumeClaim weights",
            "created DynamoGraphDeployment base",
            "created Model base",
            "created SyncJournal sync-63cbe1e459320dd7-0",
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
        insta::assert_snapshot!(place.said(&report.models.iter().find(|one| one.name == "handed-over").unwrap().message), @"DynamoGraphDeployment prod/handed-over is no longer labelled as this model's, so stator does not change it");
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
                result: Deleting,
                message: "DynamoGraphDeployment prod/goes is still being deleted (waiting for finalizer nvidia.com/finalizer)",
                applied: 0,
                pruned: 1,
            },
            ModelOutcome {
                name: "stays",
                result: Unchanged,
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
    // The record goes with the next sync, which sees that the graph is gone.
    shop.synced(&[]).await;
    shop.settled().await;
}

/// Row E2 of the review: one apply that failed held every deletion of the environment.
async fn a_failed_apply_holds_back_no_other_models_deletion(place: &impl Place) {
    let shop = Shop::new(place, &[("fails", 1), ("goes", 1)]);
    shop.synced(&[]).await;
    shop.site.remove("goes");
    shop.model("fails", 2, "");
    let mut watched = Watched::new(place.cluster());
    watched.unappliable = Some("fails");
    let plan = shop.plan(&[]).await;
    let report = shop.carry_out(&watched, plan).await;
    let results: Vec<String> = report.models.iter().map(|one| format!("{} {}", one.name, one.result)).collect();
    assert_eq!(results, ["fails Failed", "goes Deleted"], "{report:#?}");
    assert_eq!(shop.live(&GRAPH, "goes").await, None);
    assert_eq!(shop.live(&RECORD, "goes").await, None);
    shop.synced(&[]).await;
    shop.settled().await;
}

/// Row E2: a deletion waits for what it depends on.
async fn a_renamed_model_goes_once_its_new_name_is_applied(place: &impl Place) {
    let shop = Shop::new(place, &[("stays", 1), ("before", 1)]);
    shop.synced(&[]).await;
    shop.site.write("models/before/model.yaml", &crate::sync::pipeline::mocker("after", 1));
    let mut watched = Watched::new(place.cluster());
    watched.unappliable = Some("after");
    let plan = shop.plan(&[]).await;
    let report = shop.carry_out(&watched, plan).await;
    let before = report.models.iter().find(|one| one.name == "before").unwrap();
    assert_eq!(
        before.message, "1 deletion is held back, because model after, which takes its place, could not be applied",
        "{report:#?}"
    );
    assert!(!shop.graph("before").await.is_deleting());
    let watched = Watched::new(place.cluster());
    let plan = shop.plan(&[]).await;
    assert!(shop.carry_out(&watched, plan).await.is_success());
    shop.ready("after").await;
    let plan = shop.plan(&[]).await;
    assert!(shop.carry_out(&watched, plan).await.is_success());
    let graphs: Vec<String> = watched.writes().into_iter().filter(|line| line.contains("DynamoGraph")).collect();
    insta::allow_duplicates! {
        insta::assert_debug_snapshot!(graphs, @r#"
        [
            "created DynamoGraphDeployment after",
            "deleted DynamoGraphDeployment before by uid and version",
        ]
        "#);
    }
    shop.settled().await;
}

/// Row D3 of the review: a claim that a pod uses does not go, and held every deletion of the environment.
async fn a_claim_that_does_not_go_holds_its_own_model_only(place: &impl Place) {
    let shop = Shop::new(place, &[("other", 1), ("goes", 1)]);
    shop.site.write("models/base/model.yaml", ADAPTED);
    shop.synced(&[]).await;
    let claim = shop.named(&CLAIM, "weights");
    place.edit(&claim, "manager", |value| value["metadata"]["finalizers"] = json!(["example.com/in-use"])).await;
    place.cluster().delete(&claim, &Preconditions::default()).await.unwrap();
    shop.site.remove("goes");
    shop.model("other", 2, "");
    let plan = shop.plan(&[]).await;
    let report = shop
        .carry_out_meanwhile(false, plan, async {
            eventually("the other model goes meanwhile", async || shop.live(&GRAPH, "goes").await.is_none()).await;
            assert!(shop.live(&CLAIM, "weights").await.is_some_and(|claim| claim.is_deleting()));
            place.edit(&claim, "manager", |value| value["metadata"]["finalizers"] = json!([])).await;
        })
        .await;
    assert!(report.models.iter().all(|one| one.result.is_success()), "{report:#?}");
    assert!(shop.live(&CLAIM, "weights").await.is_some_and(|claim| !claim.is_deleting()), "made again");
    shop.ready("base").await;
    shop.synced(&[]).await;
    shop.settled().await;
}

/// Row C2 of the review: what is left since it may not be stator's counted as a success, while its GPUs were held.
async fn what_may_not_be_stators_is_said_until_somebody_settles_it(place: &impl Place) {
    let shop = Shop::new(place, &[("stays", 1), ("relabelled", 1), ("unrecorded", 1)]);
    shop.synced(&[]).await;
    let relabelled = shop.named(&GRAPH, "relabelled");
    place.edit(&relabelled, "kubectl-edit", |value| value["metadata"]["labels"] = json!({"team": "search"})).await;
    place.cluster().delete(&shop.named(&RECORD, "unrecorded"), &Preconditions::default()).await.unwrap();
    shop.site.remove("relabelled");
    shop.site.remove("unrecorded");
    // The same is said again by every sync, and nothing is written.
    for _ in 0..2 {
        let before = shop.versions().await;
        let (plan, _) = shop.plan(&[]).await;
        assert_eq!(plan.summary.blocked, 2);
        let said: Vec<String> = plan.findings.iter().map(|one| place.said(&one.message)).collect();
        insta::allow_duplicates! {
            insta::assert_snapshot!(said.join("\n"), @"
            DynamoGraphDeployment prod/unrecorded stays: git no longer has it, but no record shows that stator created it: delete it by hand
            DynamoGraphDeployment prod/relabelled stays: git no longer has it, but its labels no longer mark it as managed by stator: delete it by hand
            ");
        }
        let report = shop.sync(&[]).await;
        let results: Vec<String> = report.models.iter().map(|one| format!("{} {}", one.name, one.result)).collect();
        assert_eq!(results, ["relabelled Blocked", "stays Unchanged", "unrecorded Blocked"], "{report:#?}");
        assert_eq!(shop.versions().await, before);
    }
    for name in ["relabelled", "unrecorded"] {
        place.cluster().delete(&shop.named(&GRAPH, name), &Preconditions::default()).await.unwrap();
    }
    shop.synced(&[]).await;
    assert_eq!(shop.objects().await, ["DynamoGraphDeployment prod/stays", "Model prod/stays"]);
    shop.settled().await;
}
