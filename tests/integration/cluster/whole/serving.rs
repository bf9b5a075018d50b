//! Adapters that are loaded, and served or not.

use super::words::Shop;
use crate::cluster::place::{Place, on_every_cluster};
use serde_json::json;
use stator_cluster::cluster::Cluster;
use stator_cluster::sync;
use stator_core::dynamo::kinds::{ADAPTER, GRAPH};
use stator_core::object::ObjectRef;
use stator_core::outcome::SyncOutcome;
use stator_model::plan::{self, ModelStatusContext};

on_every_cluster! {
    an_adapter_is_healthy_when_the_frontend_serves_it,
}

const LOADED: &str = "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: base}\nspec:\n  model: \
                      Qwen/Qwen3-0.6B\n  engine: vllm\n  runtime: 1.2.0\n  hardware: {gpu: l40s, gpusPerNode: 4}\n  \
                      serving: {worker: {replicas: 1}}\n  adapters: [{name: sql, source: s3://adapters/sql}]\n";

/// Says of a graph that it is Ready with one worker, as the operator does.
async fn ready<P: Place>(shop: &Shop<'_, P>, graph: &ObjectRef) {
    let generation = shop.cluster().get(graph).await.unwrap().unwrap().generation();
    let component = json!({"componentKind": "Deployment", "componentNames": ["base"], "replicas": 1, "readyReplicas": 1,
                           "availableReplicas": 1, "updatedReplicas": 1});
    let ready = json!({"type": "Ready", "status": "True", "reason": "all_resources_are_ready", "message": "",
                       "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let components = json!({"frontend": component, "worker": component});
    let status = json!({"state": "successful", "observedGeneration": generation, "conditions": [ready],
                        "components": components});
    shop.report(graph, status).await;
}

/// Says of an adapter that it is loaded into one worker, as the operator does.
async fn loaded<P: Place>(shop: &Shop<'_, P>, adapter: &ObjectRef) {
    let generation = shop.cluster().get(adapter).await.unwrap().unwrap().generation();
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "AllEndpointsReady", "message": "",
               "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let conditions = json!([condition("ServicesFound"), condition("EndpointsReady")]);
    shop.report(adapter, json!({"readyEndpoints": 1, "totalEndpoints": 1, "conditions": conditions})).await;
}

/// What `stator status` says of the model's objects.
async fn status<P: Place>(shop: &Shop<'_, P>) -> String {
    let input = shop.site.plan_input(shop.cluster()).await;
    let plan = plan::build_plan(&input);
    let mut sight = ModelStatusContext::default();
    let models = plan::model_statuses(&input, &plan, &sight);
    sight.frontends = sync::ask_frontends(shop.cluster(), plan::frontends_of_adapters(&input, &plan, &models)).await;
    let models = plan::model_statuses(&input, &plan, &sight);
    let objects = models[0].objects.iter();
    let lines = objects.map(|one| shop.place.said(format!("{}: {} {}", one.object, one.health.as_str(), one.message)));
    lines.collect::<Vec<_>>().join("\n")
}

async fn an_adapter_is_healthy_when_the_frontend_serves_it(place: &impl Place) {
    let shop = Shop::new(place, &[]);
    shop.site.write("models/base/model.yaml", LOADED);
    shop.sync(&[]).await;
    let graph = shop.named(&GRAPH, "base");
    ready(&shop, &graph).await;
    shop.synced(&[]).await;
    let adapter = shop.named(&ADAPTER, "base-sql");
    loaded(&shop, &adapter).await;
    if !place.serve(&graph, &[]).await {
        return;
    }
    let waited = shop.sync_in_vain(true, &[], "does not list").await;
    let said =
        place.said(format!("{:?} {}\n{}", waited.models[0].result, waited.models[0].message, status(&shop).await));
    insta::allow_duplicates! {
        insta::assert_snapshot!(said, @"
        Unhealthy timed out after TIME; DynamoModel prod/base-sql: loaded on 1 of 1 endpoints, not served yet: /v1/models of the frontend does not list `sql`
        DynamoGraphDeployment prod/base: Healthy all components are ready
        DynamoModel prod/base-sql: Progressing loaded on 1 of 1 endpoints, not served yet: /v1/models of the frontend does not list `sql`
        ");
    }
    place.serve(&graph, &["Qwen/Qwen3-0.6B", "sql"]).await;
    let waited = shop.wait(shop.plan(&[]).await).await;
    assert_eq!((waited.models[0].result, waited.models[0].message.as_str()), (SyncOutcome::Healthy, ""));
    let said = status(&shop).await;
    insta::allow_duplicates! {
        insta::assert_snapshot!(said, @"
        DynamoGraphDeployment prod/base: Healthy all components are ready
        DynamoModel prod/base-sql: Healthy loaded on 1 of 1 endpoints, served
        ");
    }
    shop.settled().await;
}
