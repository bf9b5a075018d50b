//! Weights that are downloaded: the claim, then the Job, then the graph; and a graph that serves until what follows it is
//! there.

use super::words::{Shop, Watched};
use crate::cluster::place::{Place, on_every_cluster};
use crate::testbed::eventually;
use serde_json::{Value, json};
use stator_cluster::cluster::Cluster as _;
use stator_core::dynamo::kinds::{GRAPH, JOB, RECORD};
use stator_core::object::Object;
use std::collections::BTreeMap;

on_every_cluster! {
    a_graph_follows_its_weights_and_a_new_revision_is_downloaded_first,
    a_download_that_fails_keeps_the_graph_serving,
    models_that_share_weights_download_them_once,
    a_download_that_somebody_deletes_is_made_again,
    jobs_run_one_after_the_other_and_a_new_graph_after_all,
}

const ONE: &str = "b5c939de8f754692c1647ca79fbf85e8c1e70f8a";
const TWO: &str = "0123456789012345678901234567890123456789";
const BEGAN: &str = "2026-01-01T00:00:00Z";

/// Weights of the mocker's own model at a commit.
fn weights(commit: &str) -> String {
    let claim = "{name: model-cache, size: 1Gi}";
    format!("  weights: {{source: 'hf://Qwen/Qwen3-0.6B@{commit}', claim: {claim}, mountPath: /opt/models}}\n")
}

async fn jobs<P: Place>(shop: &Shop<'_, P>) -> Vec<Object> {
    shop.cluster().list(&JOB, Some(shop.place.home()), &BTreeMap::new()).await.unwrap()
}

/// The Job of a commit.
async fn job<P: Place>(shop: &Shop<'_, P>, commit: &str) -> Object {
    let of_commit = |job: &Object| job.annotations()["stator.dev/weights"].ends_with(commit);
    jobs(shop).await.into_iter().find(of_commit).unwrap()
}

/// As the Job controller says that a Job is complete.
pub fn complete() -> Value {
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "CompletionsReached",
            "message": "Reached expected number of succeeded pods", "lastTransitionTime": BEGAN, "lastProbeTime": BEGAN})
    };
    json!({"startTime": BEGAN, "completionTime": BEGAN, "succeeded": 1,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]})
}

/// As it says that a Job has failed.
fn failed() -> Value {
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "BackoffLimitExceeded",
            "message": "Job has reached the specified backoff limit", "lastTransitionTime": BEGAN, "lastProbeTime": BEGAN})
    };
    json!({"startTime": BEGAN, "failed": 4, "conditions": [condition("FailureTarget"), condition("Failed")]})
}

/// The folder that the workers serve.
fn served(graph: &Object) -> String {
    let components = graph.spec()["components"].as_array().unwrap();
    let worker = components.iter().find(|one| one["name"] == "worker").unwrap();
    let args = worker["podTemplate"]["spec"]["containers"][0]["args"].as_array().unwrap();
    let at = args.iter().position(|one| one.as_str().unwrap().starts_with("--model")).unwrap();
    args[at + 1].as_str().unwrap().to_owned()
}

/// A shop of a model whose graph serves the first commit.
async fn serving<'a, P: Place>(place: &'a P) -> Shop<'a, P> {
    let shop = Shop::new(place, &[]);
    shop.model("chat", 1, &weights(ONE));
    shop.sync(&[]).await;
    shop.report(&job(&shop, ONE).await.reference(), complete()).await;
    shop.synced(&[]).await;
    shop.ready("chat").await;
    shop.settled().await;
    shop
}

async fn a_graph_follows_its_weights_and_a_new_revision_is_downloaded_first(place: &impl Place) {
    let shop = Shop::new(place, &[]);
    shop.model("chat", 1, &weights(ONE));
    let pending = shop.pending(&[]).await;
    insta::allow_duplicates! { insta::assert_debug_snapshot!(pending, @r#"
    [
        "create PersistentVolumeClaim prod/model-cache: is not in the cluster yet",
        "create Job prod/weights-qwen3-0-6b-53202d681c: is not in the cluster yet; downloads hf://Qwen/Qwen3-0.6B@b5c939de8f754692c1647ca79fbf85e8c1e70f8a; the graph is applied once the download is complete",
        "create DynamoGraphDeployment prod/chat: is not in the cluster yet; applied once Job prod/weights-qwen3-0-6b-53202d681c is complete",
    ]
    "#); }
    let watched = Watched::new(place.cluster());
    let plan = shop.plan(&[]).await;
    let report = shop.carry_out(&watched, plan).await;
    let said = shop.place.said(format!("{:?}: {}", report.models[0].result, report.models[0].message));
    insta::allow_duplicates! { insta::assert_snapshot!(said, @"Deferred: DynamoGraphDeployment prod/chat is waiting for its weights (waiting for the download of the weights to start); run `stator sync --wait`"); }
    insta::allow_duplicates! { insta::assert_debug_snapshot!(watched.writes(), @r#"
    [
        "created SyncJournal sync-63cbe1e459320dd7-0",
        "created PersistentVolumeClaim model-cache",
        "created Job weights-qwen3-0-6b-53202d681c",
        "created Model chat",
        "updated Model chat",
        "deleted SyncJournal sync-63cbe1e459320dd7-0 by uid",
    ]
    "#); }
    // Nothing is written while nothing happens.
    let again = shop.sync(&[]).await;
    assert_eq!(again.writes, 0, "{again:#?}");
    // A sync that waits goes on once the download is complete.
    let first = job(&shop, ONE).await.reference();
    let plan = shop.plan(&[]).await;
    let meanwhile = async {
        assert!(shop.live(&GRAPH, "chat").await.is_none(), "the graph is there before its weights");
        shop.report(&first, complete()).await;
        eventually("the graph is there", async || shop.live(&GRAPH, "chat").await.is_some()).await;
        shop.ready("chat").await;
        shop.report_bound("model-cache").await;
    };
    let report = shop.carry_out_meanwhile(true, plan, meanwhile).await;
    assert!(report.is_success(), "{report:#?}");
    assert!(served(&shop.graph("chat").await).ends_with(ONE));
    shop.settled().await;

    // The next revision is downloaded while the first one is served.
    shop.model("chat", 1, &weights(TWO));
    let pending = shop.pending(&[]).await;
    insta::allow_duplicates! { insta::assert_debug_snapshot!(pending, @r#"
    [
        "create Job prod/weights-qwen3-0-6b-543e2b8f54: is not in the cluster yet; downloads hf://Qwen/Qwen3-0.6B@0123456789012345678901234567890123456789; the graph is applied once the download is complete",
        "update DynamoGraphDeployment prod/chat: changed in git; applied once Job prod/weights-qwen3-0-6b-543e2b8f54 is complete; until then it keeps serving unchanged",
        "delete Job prod/weights-qwen3-0-6b-53202d681c: the model no longer has it; deleted once DynamoGraphDeployment prod/chat is Healthy; the downloaded files stay on the volume",
    ]
    "#); }
    shop.sync(&[]).await;
    assert!(served(&shop.graph("chat").await).ends_with(ONE));
    assert_eq!(jobs(&shop).await.len(), 2);
    shop.report(&job(&shop, TWO).await.reference(), complete()).await;
    shop.sync(&[]).await;
    assert!(served(&shop.graph("chat").await).ends_with(TWO));
    assert_eq!(jobs(&shop).await.len(), 2, "the old Job stays until the graph is Healthy");
    shop.ready("chat").await;
    shop.synced(&[]).await;
    assert_eq!(jobs(&shop).await.len(), 1);
    shop.settled().await;

    // With the model its Job goes, and what it downloaded stays.
    shop.model("other", 1, "");
    shop.synced(&[]).await;
    shop.site.remove("chat");
    shop.synced(&[]).await;
    let left = shop.objects().await;
    assert!(left.iter().any(|one| one.starts_with("PersistentVolumeClaim")), "{left:?}");
    assert!(!left.iter().any(|one| one.starts_with("Job")), "{left:?}");
}

async fn a_download_that_fails_keeps_the_graph_serving(place: &impl Place) {
    let shop = serving(place).await;
    shop.model("chat", 1, &weights(TWO));
    shop.sync(&[]).await;
    shop.report(&job(&shop, TWO).await.reference(), failed()).await;
    let plan = shop.plan(&[]).await;
    let report = shop.wait(plan).await;
    let said = shop.place.said(format!("{:?}: {}", report.models[0].result, report.models[0].message));
    insta::allow_duplicates! { insta::assert_snapshot!(said, @"Unhealthy: Job prod/weights-qwen3-0-6b-543e2b8f54: the download of the weights failed (0 active, 4 failed, 0 succeeded), BackoffLimitExceeded: Job has reached the specified backoff limit; read `kubectl logs -n prod job/weights-qwen3-0-6b-543e2b8f54`, then correct `weights`, or increase `weights.attempt` by one to try again; DynamoGraphDeployment prod/chat keeps serving unchanged: its weights are not downloaded"); }
    assert!(served(&shop.graph("chat").await).ends_with(ONE));
    let record = shop.live(&RECORD, "chat").await.unwrap();
    assert_eq!(record.status()["health"], "Failed");
    let again = shop.sync(&[]).await;
    assert_eq!(again.writes, 0, "{again:#?}");
    // Scaling what serves does not wait for what does not come.
    shop.model("chat", 1, &weights(ONE));
    shop.synced(&[]).await;
    assert_eq!(jobs(&shop).await.len(), 1, "the failed one is no longer wanted");
    shop.settled().await;
}

async fn models_that_share_weights_download_them_once(place: &impl Place) {
    let shop = Shop::new(place, &[]);
    shop.model("a", 1, &weights(ONE));
    shop.model("b", 1, &weights(ONE));
    shop.sync(&[]).await;
    assert_eq!(jobs(&shop).await.len(), 1);
    shop.report(&job(&shop, ONE).await.reference(), complete()).await;
    shop.synced(&[]).await;
    assert!(shop.live(&GRAPH, "a").await.is_some() && shop.live(&GRAPH, "b").await.is_some());
    // The model that applied it goes, and the other one has it.
    shop.site.remove("a");
    shop.synced(&[]).await;
    assert_eq!(job(&shop, ONE).await.labels()["stator.dev/model"], "b");
    shop.settled().await;
}

async fn a_download_that_somebody_deletes_is_made_again(place: &impl Place) {
    let shop = serving(place).await;
    let gone = job(&shop, ONE).await;
    let sure = stator_cluster::cluster::Preconditions { uid: gone.uid().map(str::to_owned), resource_version: None };
    shop.cluster().delete(&gone.reference(), &sure).await.unwrap();
    let pending = shop.pending(&[]).await;
    insta::allow_duplicates! { insta::assert_debug_snapshot!(pending, @r#"
    [
        "create Job prod/weights-qwen3-0-6b-53202d681c: is not in the cluster yet; downloads hf://Qwen/Qwen3-0.6B@b5c939de8f754692c1647ca79fbf85e8c1e70f8a; the graph is applied once the download is complete",
    ]
    "#); }
    shop.synced(&[]).await;
    assert!(served(&shop.graph("chat").await).ends_with(ONE), "what is served stays");
    shop.settled().await;
}

/// Two Jobs of `manifests`, in an order that is not that of their names.
fn checks(script: &str) -> String {
    let job = |name: &str, script: &str| {
        let pod = format!(
            "{{restartPolicy: Never, containers: [{{name: main, image: 'busybox:1.36', command: [sh, -c, '{script}']}}]}}"
        );
        format!(
            "    - {{apiVersion: batch/v1, kind: Job, metadata: {{name: {name}}}, spec: {{backoffLimit: 0, template: {{spec: {pod}}}}}}}\n"
        )
    };
    format!("  manifests:\n{}{}", job("verify", script), job("announce", "true"))
}

async fn jobs_run_one_after_the_other_and_a_new_graph_after_all(place: &impl Place) {
    let shop = Shop::new(place, &[]);
    shop.model("chat", 1, &format!("{}{}", weights(ONE), checks("test -d /x")));
    let names = |jobs: Vec<Object>| -> Vec<String> {
        let short = |job: &Object| job.name().rsplit_once('-').unwrap().0.to_owned();
        jobs.iter().map(short).collect()
    };
    let first = |all: Vec<Object>, start: &str| all.into_iter().find(|job| job.name().starts_with(start)).unwrap();
    shop.sync(&[]).await;
    assert_eq!(names(jobs(&shop).await), ["weights-qwen3-0-6b"]);
    shop.report(&job(&shop, ONE).await.reference(), complete()).await;
    shop.sync(&[]).await;
    assert_eq!(names(jobs(&shop).await), ["verify", "weights-qwen3-0-6b"]);
    // While it runs, nothing is written; once it has failed, what follows stays away.
    assert_eq!(shop.sync(&[]).await.writes, 0);
    shop.report(&first(jobs(&shop).await, "verify").reference(), failed()).await;
    let report = shop.sync(&[]).await;
    assert!(report.models[0].message.contains("correct the Job in `manifests`"), "{report:#?}");
    assert_eq!(names(jobs(&shop).await), ["verify", "weights-qwen3-0-6b"]);
    // What it is to run instead is another Job.
    shop.model("chat", 1, &format!("{}{}", weights(ONE), checks("test -d /opt")));
    shop.sync(&[]).await;
    let verify = jobs(&shop).await.into_iter().filter(|job| job.name().starts_with("verify"));
    let open = verify.into_iter().find(|job| job.status().get("conditions").is_none()).unwrap();
    shop.report(&open.reference(), complete()).await;
    shop.sync(&[]).await;
    shop.report(&first(jobs(&shop).await, "announce").reference(), complete()).await;
    assert!(shop.live(&GRAPH, "chat").await.is_none());
    shop.synced(&[]).await;
    shop.ready("chat").await;
    // What the first one was is no longer in git, and goes now that the graph serves.
    shop.synced(&[]).await;
    shop.settled().await;
    // A graph that serves waits for no Job.
    shop.model("chat", 2, &format!("{}{}", weights(ONE), checks("test -d /srv")));
    shop.sync(&[]).await;
    assert_eq!(shop.graph("chat").await.generation(), Some(2));
}
