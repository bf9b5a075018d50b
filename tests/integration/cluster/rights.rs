//! A service account with the rights of `docs/how-to/grant-rights.md`, and with one right less.

use super::place::{Namespaces, Place as _, user};
use super::whole::words::Shop;
use crate::testbed::PATIENCE;
use futures_util::FutureExt as _;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role};
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use stator::controller::cache::CachedCluster;
use stator_cluster::cluster::{AnyCluster, ApplyRequest, Cluster, ClusterError};
use stator_core::dynamo::kinds::{ADAPTER, GRAPH, RECORD};
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};
use stator_model::plan::HoldKind;
use std::time::Duration;

/// The rules of the role that the page gives.
fn documented() -> Vec<PolicyRule> {
    let page = include_str!("../../../docs/how-to/grant-rights.md");
    let block = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let role = block.split("---\n").find(|document| document.contains("kind: Role\n")).unwrap();
    let role: Role = serde_saphyr::from_str(role).unwrap();
    role.rules.unwrap()
}

/// The rules without one verb on one resource.
fn without(resource: &str, verb: &str) -> Vec<PolicyRule> {
    let mut rules = Vec::new();
    let mut found = false;
    for rule in documented() {
        for own in rule.resources.clone().unwrap() {
            let mut rule = PolicyRule { resources: Some(vec![own.clone()]), ..rule.clone() };
            if own == resource {
                found |= rule.verbs.iter().any(|given| given == verb);
                rule.verbs.retain(|given| given != verb);
            }
            if !rule.verbs.is_empty() {
                rules.push(rule);
            }
        }
    }
    assert!(found, "the page does not grant {verb} on {resource}");
    rules
}

const ADAPTED: &str = "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: base}\nspec:\n  model: \
                       Qwen/Qwen3-0.6B\n  engine: vllm\n  runtime: 1.2.0\n  hardware: {gpu: l40s, gpusPerNode: 4}\n  \
                       serving: {worker: {replicas: 1}}\n  cache: {claim: weights, size: 10Gi}\n  files: {a: {text: b, mountPath: /a/b}}\n  adapters: [{name: \
                       sql, source: s3://adapters/sql}]\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_rights_are_enough_for_everything() {
    let Some(place) = Namespaces::of("rights-enough").await else { return };
    let kubeconfig = place.plane.account(place.home(), "stator", documented()).await;
    let stator = user(kubeconfig, "stator").await;
    let shop = Shop::new(&place, &[("other", 1)]);
    shop.site.write("models/base/model.yaml", ADAPTED);
    // Create, and the adapter once its graph is Ready.
    for _ in 0..2 {
        let report = shop.site.sync_on(&stator, false, &[]).await;
        assert!(report.is_success(), "{report:#?}");
        shop.ready("base").await;
    }
    assert!(shop.live(&ADAPTER, "base-sql").await.is_some());
    // Update, and wait with a watch.
    shop.model("other", 2, "");
    shop.ready("other").await;
    let (plan, gathered) = shop.site.plan(&stator, &[]).await;
    let waited = shop.wait_on(&stator, (plan, gathered), Duration::from_secs(2)).await;
    assert!(waited.timed_out, "nobody plays the operator: {waited:#?}");
    // Replace, and prune.
    let disaggregated = ADAPTED.replace("{worker: {replicas: 1}}", "{prefill: {replicas: 1}, decode: {replicas: 1}}");
    shop.site.write("models/base/model.yaml", &disaggregated);
    let replaced = shop.site.sync_on(&stator, false, &[HoldKind::Replace]).await;
    assert!(replaced.is_success(), "{replaced:#?}");
    shop.site.remove("base");
    let pruned = shop.site.sync_on(&stator, false, &[]).await;
    assert!(pruned.is_success(), "{pruned:#?}");
    assert_eq!(shop.live(&GRAPH, "base").await, None);
    shop.settled().await;
}

/// Jobs download weights, and nothing else is done with them: who has no right to them has models without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_a_matter_of_models_that_have_weights() {
    let Some(place) = Namespaces::of("rights-jobs").await else { return };
    let rules = documented().into_iter().filter(|rule| rule.api_groups != Some(vec!["batch".to_owned()]));
    let kubeconfig = place.plane.account(place.home(), "no-jobs", rules.collect()).await;
    let cluster = user(kubeconfig, "no-jobs").await;
    let shop = Shop::new(&place, &[("plain", 1)]);
    let report = shop.site.sync_on(&cluster, false, &[]).await;
    assert!(report.is_success(), "{report:#?}");
    let (plan, gathered) = shop.site.plan(&cluster, &[]).await;
    let waited = shop.wait_on(&cluster, (plan, gathered), Duration::from_secs(2)).await;
    assert!(waited.timed_out, "nobody plays the operator: {waited:#?}");
    let weights = "  weights: {source: 'hf://Qwen/Qwen3-0.6B@b5c939de8f754692c1647ca79fbf85e8c1e70f8a', claim: {name: a, \
                   size: 1Gi}}\n";
    shop.model("weighted", 1, weights);
    insta::assert_snapshot!(place.said(denied(&shop, &cluster).await), @r#"weighted Failed: Job prod/weights-qwen3-0-6b-479c7baddf: jobs.batch "weights-qwen3-0-6b-479c7baddf" is forbidden: User "system:serviceaccount:prod:no-jobs" cannot get resource "jobs" in API group "batch" in the namespace "prod"; grant that user a Role in prod with the verb `get` on `jobs.batch`; Job prod/weights-qwen3-0-6b-479c7baddf: Jobs cannot be listed: jobs.batch is forbidden: User "system:serviceaccount:prod:no-jobs" cannot list resource "jobs" in API group "batch" in the namespace "prod"; DynamoGraphDeployment prod/weighted is skipped for now: it is not known whether its weights are downloaded"#);
}

/// What is said when one right is missing. What may still be done is done, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_right_is_named_and_nothing_is_lost() {
    let Some(place) = Namespaces::of("rights-missing").await else { return };
    let shop = Shop::new(&place, &[("changes", 1), ("goes", 1)]);
    shop.synced(&[]).await;
    shop.model("changes", 2, "");
    // Of another intent than what goes, whose place it does not take.
    shop.model("comes", 3, "");
    shop.site.remove("goes");
    let before = shop.versions().await;
    let mut told = Vec::new();
    for (resource, verb) in [("dynamographdeployments", "list"), ("models", "list"), ("syncjournals", "list")] {
        let name = format!("no-{verb}-{resource}");
        let kubeconfig = place.plane.account(place.home(), &name, without(resource, verb)).await;
        let cluster = user(kubeconfig, &name).await;
        told.push(format!("{verb} {resource}: {}", place.said(denied(&shop, &cluster).await)));
        assert_eq!(shop.versions().await, before, "without {verb} on {resource} something was written");
    }
    // Each of these stops one thing; what may still be done is done.
    for (resource, verb) in [
        ("syncjournals", "create"),
        ("models", "patch"),
        ("dynamographdeployments", "patch"),
        ("dynamographdeployments", "create"),
        ("dynamographdeployments", "delete"),
    ] {
        if (resource, verb) == ("dynamographdeployments", "patch") {
            shop.model("follows", 4, "");
        }
        if verb == "delete" {
            shop.site.model("goes", 1);
            shop.synced(&[]).await;
            shop.site.remove("goes");
        }
        let name = format!("no-{verb}-{resource}");
        let kubeconfig = place.plane.account(place.home(), &name, without(resource, verb)).await;
        let cluster = user(kubeconfig, &name).await;
        told.push(format!("{verb} {resource}: {}", place.said(denied(&shop, &cluster).await)));
        // Row E2 of the review: what goes waits for nobody else.
        assert_eq!(shop.live(&GRAPH, "goes").await.is_some(), verb == "delete", "{told:#?}");
    }
    insta::assert_snapshot!(told.join("\n"), @r#"
    list dynamographdeployments: DynamoGraphDeployments cannot be read from the cluster, so nothing is planned (a partial view would look like removals): dynamographdeployments.nvidia.com is forbidden: User "system:serviceaccount:prod:no-list-dynamographdeployments" cannot list resource "dynamographdeployments" in API group "nvidia.com" in the namespace "prod"
    list models: stator's records cannot be read from the cluster, so nothing is planned (a partial view would look like removals): models.stator.dev is forbidden: User "system:serviceaccount:prod:no-list-models" cannot list resource "models" in API group "stator.dev" in the namespace "prod"
    list syncjournals: stator's journals cannot be read from the cluster, so nothing is planned (a partial view would look like removals): syncjournals.stator.dev is forbidden: User "system:serviceaccount:prod:no-list-syncjournals" cannot list resource "syncjournals" in API group "stator.dev" in the namespace "prod"
    create syncjournals: comes Failed: the journal could not be written: syncjournals.stator.dev "sync-63cbe1e459320dd7-0" is forbidden: User "system:serviceaccount:prod:no-create-syncjournals" cannot create resource "syncjournals" in API group "stator.dev" in the namespace "prod"; grant that user a Role in prod with the verb `create` on `syncjournals.stator.dev`
    patch models: comes Failed: the record could not be written: models.stator.dev "comes" is forbidden: User "system:serviceaccount:prod:no-patch-models" cannot patch resource "models" in API group "stator.dev" in the namespace "prod"; grant that user a Role in prod with the verb `patch` on `models.stator.dev`
    patch dynamographdeployments: follows Failed: DynamoGraphDeployment prod/follows: dynamographdeployments.nvidia.com "follows" is forbidden: User "system:serviceaccount:prod:no-patch-dynamographdeployments" cannot patch resource "dynamographdeployments" in API group "nvidia.com" in the namespace "prod"; grant that user a Role in prod with the verb `patch` on `dynamographdeployments.nvidia.com`
    create dynamographdeployments: follows Failed: DynamoGraphDeployment prod/follows: dynamographdeployments.nvidia.com "follows" is forbidden: User "system:serviceaccount:prod:no-create-dynamographdeployments" cannot create resource "dynamographdeployments" in API group "nvidia.com" in the namespace "prod"; grant that user a Role in prod with the verb `create` on `dynamographdeployments.nvidia.com`
    delete dynamographdeployments: goes Failed: DynamoGraphDeployment prod/goes: dynamographdeployments.nvidia.com "goes" is forbidden: User "system:serviceaccount:prod:no-delete-dynamographdeployments" cannot delete resource "dynamographdeployments" in API group "nvidia.com" in the namespace "prod"; grant that user a Role in prod with the verb `delete` on `dynamographdeployments.nvidia.com`
    "#);
    shop.synced(&[]).await;
    assert_eq!(shop.live(&GRAPH, "goes").await, None);
    shop.settled().await;
}

/// Claims and ConfigMaps are listed for the models that have some. Without the right these are held, and no others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_few_models_need_holds_those_alone() {
    let Some(place) = Namespaces::of("rights-few").await else { return };
    let mut told = Vec::new();
    for (resource, more) in [
        ("configmaps", "  files: {banner: {text: hello, mountPath: /etc/banner}}\n"),
        ("persistentvolumeclaims", "  cache: {claim: weights, size: 10Gi}\n"),
    ] {
        let shop = Shop::new(&place, &[("plain", 1)]);
        let name = format!("few-{resource}");
        let kubeconfig = place.plane.account(place.home(), &name, without(resource, "list")).await;
        let cluster = user(kubeconfig, &name).await;
        let report = shop.site.sync_on(&cluster, false, &[]).await;
        assert!(report.is_success(), "{report:#?}");

        shop.model("needs", 1, more);
        shop.model("comes", 1, "");
        let (plan, gathered) = shop.site.plan(&cluster, &[]).await;
        let findings = plan.findings.iter().map(|one| format!("{}: {}", one.message, one.help));
        told.extend(findings.map(|line| place.said(line)));
        let report = shop.carry_out(&cluster, (plan, gathered)).await;
        let failed: Vec<&str> =
            report.models.iter().filter(|model| !model.result.is_success()).map(|model| model.name.as_str()).collect();
        assert_eq!(failed, ["needs"], "{report:#?}");
        assert!(shop.live(&GRAPH, "comes").await.is_some());
        assert_eq!(shop.live(&GRAPH, "needs").await, None, "its pods would miss what cannot be looked at");

        // With the right everything is made; without it again, nothing of it is taken for gone.
        shop.synced(&[]).await;
        let before = shop.versions().await;
        shop.site.remove("needs");
        let report = shop.site.sync_on(&cluster, false, &[]).await;
        assert!(!report.is_success(), "what the record names cannot be seen: {report:#?}");
        assert!(shop.live(&RECORD, "needs").await.is_some());
        let kept = |versions: &std::collections::BTreeMap<String, (String, String)>| {
            versions.keys().filter(|key| key.starts_with("ConfigMap") || key.starts_with("Persistent")).count()
        };
        assert_eq!(kept(&shop.versions().await), kept(&before));
        shop.synced(&[]).await;
    }
    insta::assert_snapshot!(told.join("\n"), @r#"
    ConfigMap prod/needs-banner-15c74677da stays unchanged, because ConfigMaps cannot be listed: configmaps is forbidden: User "system:serviceaccount:prod:few-configmaps" cannot list resource "configmaps" in API group "" in the namespace "prod": grant that user a Role in prod with the verb `list` on `configmaps`
    PersistentVolumeClaim prod/weights stays unchanged, because PersistentVolumeClaims cannot be listed: persistentvolumeclaims is forbidden: User "system:serviceaccount:prod:few-persistentvolumeclaims" cannot list resource "persistentvolumeclaims" in API group "" in the namespace "prod": grant that user a Role in prod with the verb `list` on `persistentvolumeclaims`
    "#);
}

/// What a frontend serves is asked of it with a right of its own, without which stator does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frontend_that_may_not_be_asked_is_not_known() {
    let Some(place) = Namespaces::of("rights-frontends").await else { return };
    let frontend = FrontendService { namespace: place.home().to_owned(), name: "base-frontend".to_owned() };
    let mut told = Vec::new();
    for (name, rules) in [("none", without("services/proxy", "get")), ("all", documented())] {
        let kubeconfig = place.plane.account(place.home(), name, rules).await;
        let cluster = user(kubeconfig, name).await;
        told.push(place.said(format!("{:?}", cluster.served_models(&frontend).await)));
    }
    insta::assert_snapshot!(told.join("\n"), @r#"
    Unknown { why: "give stator the right `get` on `services/proxy` in namespace prod", may_pass: false }
    Unknown { why: "there is no Service prod/base-frontend", may_pass: false }
    "#);
    assert!(place.serve(&place.graph("base", 1).reference(), &["sql"]).await);
    let asked = place.cluster.served_models(&frontend).await;
    assert_eq!(asked, FrontendAnswer::Serves(["sql".to_owned()].into()));
    assert_eq!(place.cluster.with_frontends_asked(false).served_models(&frontend).await, FrontendAnswer::NotAsked);
}

/// Row D1 of the review, of a write: nobody tells that a right was granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_a_write_lacked_is_noticed_when_it_is_granted() {
    let Some(place) = Namespaces::of("rights-granted").await else { return };
    let kubeconfig = place.plane.account(place.home(), "late", without("dynamographdeployments", "create")).await;
    let cluster = CachedCluster::new(AnyCluster::from(user(kubeconfig, "late").await));
    let _held = cluster.cache_namespace(place.home());
    let graph = ApplyRequest::new(place.graph("llama", 1), "stator");
    let refused = cluster.apply(&graph).await.unwrap_err();
    assert!(matches!(refused, ClusterError::Forbidden { .. }), "{refused}");
    let mut waits = std::pin::pin!(cluster.wait_for_access(place.home().to_owned()));
    assert_eq!(waits.as_mut().now_or_never(), None, "it is refused still");

    let roles: Api<Role> = Api::namespaced(place.plane.admin().await, place.home());
    let patch = Patch::Merge(json!({"rules": documented()}));
    roles.patch("late", &PatchParams::default(), &patch).await.unwrap();
    tokio::time::timeout(PATIENCE, waits).await.expect("it is noticed");
    cluster.apply(&graph).await.unwrap();
    let idle = std::pin::pin!(cluster.wait_for_access(place.home().to_owned())).now_or_never();
    assert_eq!(idle, None, "nothing is refused any more");
}

/// What a sync says that is not allowed to do everything.
async fn denied<C: Cluster>(shop: &Shop<'_, Namespaces>, cluster: &C) -> String {
    match shop.site.try_plan(cluster, &[]).await {
        Err(error) => error.to_string(),
        Ok(plan) => {
            let report = shop.carry_out(cluster, plan).await;
            assert!(!report.is_success(), "{report:#?}");
            let models = report.models.iter().filter(|model| !model.result.is_success());
            models
                .map(|model| format!("{} {}: {}", model.name, model.result, model.message))
                .collect::<Vec<_>>()
                .join("; ")
        }
    }
}
