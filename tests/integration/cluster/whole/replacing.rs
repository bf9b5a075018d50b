//! What Dynamo forbids in place: the object is made again, when that is allowed.

use super::words::{Shop, Watched};
use crate::cluster::place::{Namespaces, Place, on_every_cluster};
use crate::testbed::{PATIENCE, eventually};
use serde_json::json;
use stator_core::dynamo::kinds::GRAPH;
use stator_model::plan::{HoldKind, alternate_graph_name};

on_every_cluster! {
    a_forbidden_change_is_a_replace_and_waits_to_be_allowed,
    a_replace_waits_for_the_finalizers,
    new_first_the_old_graph_serves_until_the_new_one_is_healthy,
    a_new_graph_that_does_not_come_up_leaves_the_old_one_serving,
}

const DISAGGREGATED: &str = "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: llama}\nspec:\n  model: \
                             Qwen/Qwen3-0.6B\n  engine: mocker\n  runtime: 1.2.0\n  serving:\n    prefill: {replicas: \
                             1}\n    decode: {replicas: 1}\n";

async fn a_forbidden_change_is_a_replace_and_waits_to_be_allowed(place: &impl Place) {
    let shop = Shop::new(place, &[("llama", 1), ("qwen", 1)]);
    shop.synced(&[]).await;
    let first = shop.graph("llama").await;
    shop.site.write("models/llama/model.yaml", DISAGGREGATED);
    shop.model("qwen", 2, "");
    let seen = shop.pending(&[]).await.join("\n");
    insta::allow_duplicates! {
        insta::assert_snapshot!(seen, @r#"
        replace DynamoGraphDeployment prod/llama: changed in git; Dynamo forbids adding component `decode` in place; Dynamo forbids adding component `prefill` in place; Dynamo forbids removing component `worker` in place; held back: `--allow replace` deletes it and creates it again
        update DynamoGraphDeployment prod/qwen: changed in git
        Dynamo forbids these changes in place; to be deleted and created again: DynamoGraphDeployment prod/llama
        "#);
    }
    let held = shop.sync(&[]).await;
    assert!(!held.is_success(), "{held:#?}");
    assert_eq!(shop.graph("llama").await, first, "nothing was written");
    assert_eq!(shop.graph("qwen").await.generation(), Some(2), "the other one goes on");
    shop.synced(&[HoldKind::Replace]).await;
    let second = shop.graph("llama").await;
    assert_ne!(second.uid(), first.uid());
    assert_eq!(second.spec()["components"].as_array().map(Vec::len), Some(3));
    shop.settled().await;
}

async fn a_replace_waits_for_the_finalizers(place: &impl Place) {
    let shop = Shop::new(place, &[("llama", 1)]);
    shop.synced(&[]).await;
    let graph = shop.named(&GRAPH, "llama");
    let hold = |value: &mut serde_json::Value| value["metadata"]["finalizers"] = json!(["nvidia.com/finalizer"]);
    place.edit(&graph, "manager", hold).await;
    let first = shop.graph("llama").await;
    shop.site.write("models/llama/model.yaml", DISAGGREGATED);

    // Nobody lets go: the wait ends, and says what it waited for.
    let stuck = shop.sync_in_vain(false, &[HoldKind::Replace], "still being deleted").await;
    assert!(stuck.timed_out && !stuck.is_success(), "{stuck:#?}");
    insta::allow_duplicates! {
        insta::assert_snapshot!(place.said(&stuck.models[0].message), @"timed out after TIME; DynamoGraphDeployment prod/llama is still being deleted (waiting for finalizer nvidia.com/finalizer)");
    }
    let going = shop.graph("llama").await;
    assert!(going.is_deleting() && going.uid() == first.uid());
    // The next plan says so too, and does not touch what is going.
    let seen = shop.pending(&[]).await.join("\n");
    let seen = regex::Regex::new("since [0-9TZ:.-]+").unwrap().replace(&seen, "since TIME");
    insta::allow_duplicates! {
        insta::assert_snapshot!(seen, @"create DynamoGraphDeployment prod/llama: is being deleted since TIME (waiting for finalizer nvidia.com/finalizer): created again once it is gone");
    }

    // The operator lets go while the next sync waits.
    let plan = shop.plan(&[HoldKind::Replace]).await;
    let let_go = place.edit(&graph, "manager", |value| value["metadata"]["finalizers"] = json!([]));
    let done = shop.carry_out_meanwhile(false, plan, let_go).await;
    assert!(done.is_success(), "{done:#?}");
    if shop.live(&GRAPH, "llama").await.is_none() {
        shop.synced(&[]).await;
    }
    assert_ne!(shop.graph("llama").await.uid(), first.uid());
    shop.settled().await;
}

/// Row B5 of the review: the graph was deleted before anything had checked that it could be made again, and the model was down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_cluster_would_refuse_to_make_again_is_not_deleted() {
    let Some(place) = Namespaces::of("refused-replacement").await else { return };
    let shop = Shop::new(&place, &[("llama", 1), ("qwen", 1)]);
    shop.synced(&[]).await;
    let first = shop.graph("llama").await;
    place.refusing_graphs_of_three().await;
    shop.site.write("models/llama/model.yaml", DISAGGREGATED);
    shop.model("qwen", 2, "");
    let seen = shop.pending(&[HoldKind::Replace]).await.join("\n");
    insta::assert_snapshot!(seen, @"
    blocked DynamoGraphDeployment prod/llama: changed in git; Dynamo forbids adding component `decode` in place; Dynamo forbids adding component `prefill` in place; Dynamo forbids removing component `worker` in place; is not deleted, because the cluster would refuse to re-create it: DynamoGraphDeployment prod/llama is invalid: ValidatingAdmissionPolicy 'small.prod.stator.dev' with binding 'small.prod.stator.dev' denied request: this team has no disaggregated graphs; fix that, then sync again
    update DynamoGraphDeployment prod/qwen: changed in git
    ");
    let report = shop.sync(&[HoldKind::Replace]).await;
    assert!(!report.is_success(), "{report:#?}");
    assert_eq!(shop.graph("llama").await, first, "it keeps serving");
    assert_eq!(shop.graph("qwen").await.generation(), Some(2), "the other one goes on");
    shop.model("llama", 1, "");
    shop.synced(&[]).await;
    shop.settled().await;
}

const NEW_FIRST: &str = "  rollout: {replace: new-first}\n";
const SOLO: &str = "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: llama}\nspec:\n  model: \
                       Qwen/Qwen3-0.6B\n  engine: mocker\n  runtime: 1.2.0\n  rollout: {replace: new-first}\n  serving:\n    \
                       worker: {name: solo, replicas: 1}\n";

/// The graphs that are there.
async fn graphs<P: Place>(shop: &Shop<'_, P>) -> Vec<String> {
    let objects = shop.objects().await;
    let names = objects.iter().filter_map(|name| name.strip_prefix("DynamoGraphDeployment prod/"));
    names.map(str::to_owned).collect()
}

/// A model of one worker that serves, and git wants prefill and decode apart, the new graph first.
async fn to_be_apart<P: Place>(place: &P) -> (Shop<'_, P>, String) {
    let shop = Shop::new(place, &[("llama", 1)]);
    shop.synced(&[]).await;
    shop.ready("llama").await;
    shop.site.write("models/llama/model.yaml", &format!("{DISAGGREGATED}{NEW_FIRST}"));
    (shop, alternate_graph_name("llama"))
}

async fn new_first_the_old_graph_serves_until_the_new_one_is_healthy(place: &impl Place) {
    let (shop, second) = to_be_apart(place).await;
    let first = shop.graph("llama").await;
    let seen = shop.pending(&[]).await.join("\n");
    insta::allow_duplicates! {
        insta::assert_snapshot!(seen, @"
        replace DynamoGraphDeployment prod/llama: changed in git; Dynamo forbids adding component `decode` in place; Dynamo forbids adding component `prefill` in place; Dynamo forbids removing component `worker` in place; DynamoGraphDeployment prod/llama-fc5a1 is created beside it; this one is deleted once the new one is Healthy; the address moves from Service `llama-frontend` to Service `llama-fc5a1-frontend`; held back: `--allow replace` creates the new graph and deletes this one once the new one is Healthy
        Dynamo forbids these changes in place; to be replaced by a graph with another address: DynamoGraphDeployment prod/llama (then Service `llama-fc5a1-frontend`)
        ");
    }
    let held = shop.sync(&[]).await;
    assert!(!held.is_success(), "{held:#?}");
    assert_eq!((graphs(&shop).await, shop.graph("llama").await), (vec!["llama".to_owned()], first.clone()));

    // The new one comes up while the sync waits.
    let watched = Watched::new(place.cluster());
    let plan = shop.plan(&[HoldKind::Replace]).await;
    let comes_up = async {
        eventually("the new graph is there", async || shop.live(&GRAPH, &second).await.is_some()).await;
        assert_eq!(shop.graph("llama").await, first, "the old one is not touched meanwhile");
        shop.ready(&second).await;
    };
    let (report, ()) = tokio::join!(shop.wait_on(&watched, plan, PATIENCE), comes_up);
    assert!(report.is_success(), "{report:#?}");
    let writes = watched.writes();
    let graphs_written: Vec<&String> = writes.iter().filter(|write| write.contains(GRAPH.kind)).collect();
    assert_eq!(
        graphs_written,
        [&format!("created {} {second}", GRAPH.kind), &format!("deleted {} llama by uid and version", GRAPH.kind),]
    );
    assert_eq!(graphs(&shop).await, std::slice::from_ref(&second));
    shop.settled().await;

    // Changes go there now; and the next replacement takes the first name again.
    let apart = DISAGGREGATED.replace("decode: {replicas: 1}", "decode: {replicas: 2}");
    shop.site.write("models/llama/model.yaml", &format!("{apart}{NEW_FIRST}"));
    shop.synced(&[]).await;
    assert_eq!(shop.graph(&second).await.generation(), Some(2));
    shop.settled().await;
    shop.ready(&second).await;
    shop.model("llama", 1, NEW_FIRST);
    let report = shop.sync(&[HoldKind::Replace]).await;
    insta::allow_duplicates! {
        insta::assert_snapshot!(place.said(&report.models[0].message), @"DynamoGraphDeployment prod/llama-fc5a1 keeps serving, because DynamoGraphDeployment prod/llama is not Healthy yet; run `stator sync --wait`");
    }
    shop.ready("llama").await;
    shop.synced(&[]).await;
    assert_eq!(graphs(&shop).await, ["llama"]);
    shop.settled().await;
}

async fn a_new_graph_that_does_not_come_up_leaves_the_old_one_serving(place: &impl Place) {
    let (shop, second) = to_be_apart(place).await;
    let first = shop.graph("llama").await;
    let report = shop.sync_in_vain(true, &[HoldKind::Replace], &second).await;
    assert!(!report.is_success(), "{report:#?}");
    assert_eq!(shop.graph("llama").await, first);
    let seen = shop.pending(&[]).await.join("\n");
    insta::allow_duplicates! {
        insta::assert_snapshot!(seen, @"delete DynamoGraphDeployment prod/llama: DynamoGraphDeployment prod/llama-fc5a1 takes its place; this one keeps serving until that graph is Healthy; the address moves from Service `llama-frontend` to Service `llama-fc5a1-frontend`");
    }
    // Another graph half way: the unfinished one is made again, and the old one serves.
    shop.site.write("models/llama/model.yaml", SOLO);
    let held = shop.sync(&[]).await;
    assert!(!held.is_success(), "{held:#?}");
    assert_eq!(graphs(&shop).await.len(), 2);
    shop.sync(&[HoldKind::Replace]).await;
    assert_eq!(shop.graph("llama").await, first);
    assert_eq!(shop.graph(&second).await.spec()["components"][1]["name"], "solo");
    // Taken back: the unfinished one goes, and the old one was never touched.
    shop.model("llama", 1, NEW_FIRST);
    shop.synced(&[]).await;
    assert_eq!((graphs(&shop).await, shop.graph("llama").await), (vec!["llama".to_owned()], first));
    shop.settled().await;
}

/// What the cluster refuses is known before anything is written; the name of the new graph is the one that is tried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_graph_that_the_cluster_would_refuse_is_not_created() {
    let Some(place) = Namespaces::of("refused-new-graph").await else { return };
    let (shop, _) = to_be_apart(&place).await;
    let before = shop.versions().await;
    place.refusing_graphs_of_three().await;
    let seen = shop.pending(&[HoldKind::Replace]).await.join("\n");
    insta::assert_snapshot!(seen, @"blocked DynamoGraphDeployment prod/llama: changed in git; Dynamo forbids adding component `decode` in place; Dynamo forbids adding component `prefill` in place; Dynamo forbids removing component `worker` in place; is not deleted, because the cluster would refuse to re-create it: DynamoGraphDeployment prod/llama-fc5a1 is invalid: ValidatingAdmissionPolicy 'small.prod.stator.dev' with binding 'small.prod.stator.dev' denied request: this team has no disaggregated graphs; fix that, then sync again");
    let report = shop.sync(&[HoldKind::Replace]).await;
    assert!(!report.is_success(), "{report:#?}");
    assert_eq!(shop.versions().await.len(), before.len());
    shop.model("llama", 1, "");
    shop.synced(&[]).await;
    shop.settled().await;
}
