//! What runs goes on running: volumes that others mount, models that get another name, objects that do not go, and what an
//! identity that changed leaves behind.

use super::words::Shop;
use crate::cluster::place::{Place, on_every_cluster_and_make};
use crate::testbed::eventually;
use serde_json::json;
use stator_core::dynamo::kinds::{self, CLAIM, GRAPH, RECORD};
use stator_core::outcome::SyncOutcome;
use stator_model::plan::{RepositoryOrigin, SourceClaim, SourceIdentity};

on_every_cluster_and_make! {
    a_claim_that_somebody_mounts_outlives_whoever_declared_it,
    a_deletion_is_done_when_the_object_is_gone,
    a_renamed_model_serves_until_its_successor_is_healthy,
    a_remote_that_is_added_leaves_nothing_unsaid,
}

/// A model whose worker mounts a claim, which it declares as well or not.
fn mounting(name: &str, cache: &str) -> String {
    format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {{name: {name}}}\nspec:\n  model: Qwen/Qwen3-0.6B\n  \
         engine: vllm\n  runtime: 1.2.0\n  hardware: {{gpu: l40s, gpusPerNode: 4}}\n  serving: {{worker: {{replicas: \
         1}}}}\n  cache: {cache}\n"
    )
}

/// Row N1 of the second review.
async fn a_claim_that_somebody_mounts_outlives_whoever_declared_it(place: &impl Place) {
    let shop = Shop::new(place, &[("stays", 1)]);
    shop.site.write("models/a/model.yaml", &mounting("aa", "{claim: weights, size: 10Gi, prune: true}"));
    shop.site.write("models/b/model.yaml", &mounting("bb", "{claim: weights}"));
    shop.synced(&[]).await;
    shop.site.remove("a");
    let (plan, _) = shop.plan(&[]).await;
    let claim = plan.changes.iter().find(|one| one.object.kind == CLAIM.kind).unwrap();
    insta::allow_duplicates! {
        insta::assert_snapshot!(place.said(stator_model::plan::join_reasons(&claim.reasons)), @"git no longer has it; it stays, because DynamoGraphDeployment prod/bb uses it");
    }
    shop.synced(&[]).await;
    assert!(shop.live(&GRAPH, "aa").await.is_none() && shop.live(&CLAIM, "weights").await.is_some());
    shop.settled().await;
    // The schema of the other one is broken: its graph runs on.
    shop.site.write("models/b/model.yaml", &mounting("bb", "{clame: weights}"));
    assert!(shop.pending(&[]).await.iter().all(|line| !line.starts_with("delete")));
    // The last user goes, and the volume with it.
    shop.site.remove("b");
    shop.synced(&[]).await;
    // An API server protects a volume until it has seen that no pod uses it.
    eventually("the volume is gone", async || shop.live(&CLAIM, "weights").await.is_none()).await;
    shop.synced(&[]).await;
    assert_eq!(shop.objects().await, ["DynamoGraphDeployment prod/stays", "Model prod/stays"]);
    shop.settled().await;
}

/// Row N2: nobody takes the finalizer away.
async fn a_deletion_is_done_when_the_object_is_gone(place: &impl Place) {
    let shop = Shop::new(place, &[("stays", 1), ("goes", 1)]);
    shop.synced(&[]).await;
    let graph = shop.named(&GRAPH, "goes");
    place.edit(&graph, "manager", |value| value["metadata"]["finalizers"] = json!([kinds::OPERATOR_FINALIZER])).await;
    shop.site.remove("goes");
    for _ in 0..3 {
        let report = shop.synced(&[]).await;
        let goes = report.models.iter().find(|one| one.name == "goes").unwrap();
        assert_eq!(goes.result, SyncOutcome::Deleting, "{report:#?}");
        assert!(goes.message.contains("waiting for finalizer nvidia.com/finalizer"), "{report:#?}");
        assert!(shop.live(&RECORD, "goes").await.is_some(), "what is there is known by its record");
        let (plan, _) = shop.plan(&[]).await;
        assert_eq!((plan.summary.deleting, plan.summary.delete), (1, 0), "{:#?}", plan.changes);
    }
    place.edit(&graph, "manager", |value| value["metadata"]["finalizers"] = json!([])).await;
    assert!(shop.live(&GRAPH, "goes").await.is_none());
    shop.synced(&[]).await;
    assert!(shop.live(&RECORD, "goes").await.is_none());
    shop.settled().await;
}

/// Row N3: name and folder change in one commit.
async fn a_renamed_model_serves_until_its_successor_is_healthy(place: &impl Place) {
    let shop = Shop::new(place, &[("stays", 1), ("aa", 1)]);
    shop.synced(&[]).await;
    shop.site.remove("aa");
    shop.model("az", 1, "");
    let pending = shop.pending(&[]).await.join("\n");
    insta::allow_duplicates! {
        insta::assert_snapshot!(pending, @"
        create DynamoGraphDeployment prod/az: is not in the cluster yet; takes the place of model aa
        delete DynamoGraphDeployment prod/aa: model aa is no longer in git; model az takes its place; this one stays until that is Healthy; the address moves from Service `aa-frontend` to Service `az-frontend`
        ");
    }
    // It is applied, and never gets Ready.
    for _ in 0..2 {
        let report = shop.synced(&[]).await;
        let aa = report.models.iter().find(|one| one.name == "aa").unwrap();
        assert_eq!(aa.result, SyncOutcome::Deferred, "{report:#?}");
        assert!(!shop.graph("aa").await.is_deleting() && shop.live(&RECORD, "aa").await.is_some());
    }
    shop.ready("az").await;
    shop.synced(&[]).await;
    assert!(shop.live(&GRAPH, "aa").await.is_none() && shop.live(&RECORD, "aa").await.is_none());
    shop.settled().await;
}

/// Row N4: a repository without a remote is synced, gets one, and loses a model in the same commit.
async fn a_remote_that_is_added_leaves_nothing_unsaid(place: &impl Place) {
    let shop = Shop::new(place, &[("aa", 1), ("bb", 1)]);
    // Of this scenario alone: others share the API server.
    let commit = hex::encode(place.home().as_bytes());
    let before = RepositoryOrigin::at_root_commit(&commit, "");
    let claim = SourceClaim::new(SourceIdentity::Repository { origin: before.clone() });
    let plan = shop.site.plan_everywhere(shop.cluster(), claim).await;
    assert!(shop.carry_out(shop.cluster(), plan).await.is_success());
    shop.site.remove("bb");
    let after = RepositoryOrigin::at_path(&format!("/srv/{}", place.home()));
    let mut claim = SourceClaim::new(SourceIdentity::Repository { origin: after });
    claim.former_origins = vec![before];
    for _ in 0..2 {
        let (plan, live) = shop.site.plan_everywhere(shop.cluster(), claim.clone()).await;
        let left: Vec<String> = plan
            .changes
            .iter()
            .filter(|one| one.action == stator_model::plan::Action::LeftBehind)
            .map(|one| {
                place.said(format!("{} {}: {}", one.model, one.object, stator_model::plan::join_reasons(&one.reasons)))
            })
            .map(|line| line.replace(&commit[..7], "COMMIT"))
            .collect();
        insta::allow_duplicates! {
            insta::assert_snapshot!(left.join("\n"), @"bb DynamoGraphDeployment prod/bb: was synced by the repository that began with commit COMMIT, this source's former identity, and git no longer has it: if no other source has it, run `kubectl delete dynamographdeployments.nvidia.com bb -n prod`, or declare it again and take it over with `--allow move`");
        }
        assert!(shop.carry_out(shop.cluster(), (plan, live)).await.is_success());
        assert!(!shop.graph("bb").await.is_deleting());
    }
}
