//! Routes: after the graph, healthy by the gateway's word, and along with a graph that is replaced.

use super::words::Shop;
use crate::cluster::place::{Place, on_every_cluster};
use crate::testbed::eventually;
use serde_json::{Value, json};
use stator_core::dynamo::kinds::{GRAPH, HTTP_ROUTE, RECORD};
use stator_core::object::Object;
use stator_model::plan::{HoldKind, alternate_graph_name};

on_every_cluster! {
    a_route_follows_its_graph_and_is_healthy_once_the_gateway_takes_it,
    a_canary_gets_its_share_once_it_is_healthy_and_loses_it_at_once,
    a_route_moves_with_a_graph_that_is_replaced_new_first,
}

const ROUTE: &str = "  route: {gateway: {name: public, namespace: infra}, hostnames: [chat.example.com]}\n";

fn with_canary(weight: u32) -> String {
    let gateway = "{name: public, namespace: infra}";
    format!(
        "  route: {{gateway: {gateway}, hostnames: [chat.example.com], canary: {{model: next, weight: {weight}}}}}\n"
    )
}

async fn route<P: Place>(shop: &Shop<'_, P>, name: &str) -> Option<Object> {
    shop.live(&HTTP_ROUTE, name).await
}

/// What requests go to, with their shares.
fn backends(route: &Object) -> Vec<(String, i64)> {
    let all = route.spec()["rules"][0]["backendRefs"].as_array().unwrap();
    all.iter().map(|one| (one["name"].as_str().unwrap().to_owned(), one["weight"].as_i64().unwrap())).collect()
}

/// As the controller of a gateway says of a route.
async fn answer<P: Place>(shop: &Shop<'_, P>, name: &str, accepted: (&str, &str, &str)) {
    let generation = route(shop, name).await.unwrap().generation();
    let condition = |kind: &str, (status, reason, message): (&str, &str, &str)| {
        json!({"type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let parent =
        json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "public", "namespace": "infra"});
    let status: Value = json!({"parents": [{"parentRef": parent, "controllerName": "example.com/gateway",
        "conditions": [condition("Accepted", accepted), condition("ResolvedRefs", ("True", "ResolvedRefs", ""))]}]});
    shop.report(&shop.named(&HTTP_ROUTE, name), status).await;
}

const TAKEN: (&str, &str, &str) = ("True", "Accepted", "");

async fn a_route_follows_its_graph_and_is_healthy_once_the_gateway_takes_it(place: &impl Place) {
    let shop = Shop::new(place, &[]);
    shop.model("chat", 1, ROUTE);
    let pending = shop.pending(&[]).await;
    insta::allow_duplicates! { insta::assert_debug_snapshot!(pending, @r#"
    [
        "create DynamoGraphDeployment prod/chat: is not in the cluster yet",
        "create HTTPRoute prod/chat: is not in the cluster yet; applied once graph chat is Ready",
    ]
    "#); }
    let report = shop.sync(&[]).await;
    let said = place.said(format!("{:?}: {}", report.models[0].result, report.models[0].message));
    insta::allow_duplicates! { insta::assert_snapshot!(said, @"Deferred: HTTPRoute chat is waiting for its graph to be Ready (DynamoGraphDeployment prod/chat: the operator has not observed it yet); run `stator sync --wait`"); }
    assert!(route(&shop, "chat").await.is_none(), "requests would find nobody");
    assert_eq!(shop.sync(&[]).await.writes, 0);

    // A sync that waits applies it once the graph is Healthy, and says what the gateway says.
    let plan = shop.plan(&[]).await;
    tokio::select! {
        report = shop.wait(plan) => panic!("the gateway has not taken it: {report:#?}"),
        () = async {
            shop.ready("chat").await;
            eventually("the route is there", async || route(&shop, "chat").await.is_some()).await;
        } => {}
    }
    answer(&shop, "chat", ("False", "NoMatchingListenerHostname", "no listener for chat.example.com")).await;
    let report = shop.sync_in_vain(true, &[], "NoMatchingListenerHostname").await;
    let said = place.said(format!("{:?}: {}", report.models[0].result, report.models[0].message));
    insta::allow_duplicates! { insta::assert_snapshot!(said, @"Unhealthy: timed out after TIME; HTTPRoute prod/chat: route not accepted by gateway infra/public: NoMatchingListenerHostname: no listener for chat.example.com"); }
    assert_eq!(shop.live(&RECORD, "chat").await.unwrap().status()["health"], "Degraded");
    answer(&shop, "chat", TAKEN).await;
    let plan = shop.plan(&[]).await;
    let report = shop.wait(plan).await;
    assert!(report.is_success(), "{report:#?}");
    assert_eq!(backends(&route(&shop, "chat").await.unwrap()), [("chat-frontend".to_owned(), 1)]);
    shop.settled().await;

    // It goes with its field.
    shop.model("chat", 1, "");
    shop.synced(&[]).await;
    assert!(route(&shop, "chat").await.is_none());
    shop.settled().await;
}

async fn a_canary_gets_its_share_once_it_is_healthy_and_loses_it_at_once(place: &impl Place) {
    let shop = Shop::new(place, &[]);
    shop.model("chat", 1, ROUTE);
    shop.sync(&[]).await;
    shop.ready("chat").await;
    shop.synced(&[]).await;
    answer(&shop, "chat", TAKEN).await;

    shop.model("chat", 1, &with_canary(10));
    shop.model("next", 1, "");
    let pending = shop.pending(&[]).await;
    insta::allow_duplicates! { insta::assert_debug_snapshot!(pending, @r#"
    [
        "update HTTPRoute prod/chat: changed in git; applied once graph next is Ready",
        "create DynamoGraphDeployment prod/next: is not in the cluster yet",
    ]
    "#); }
    shop.sync(&[]).await;
    assert_eq!(backends(&route(&shop, "chat").await.unwrap()).len(), 1, "the canary is not there yet");
    shop.ready("next").await;
    shop.synced(&[]).await;
    let shares = |one: i64, other: i64| vec![("chat-frontend".to_owned(), one), ("next-frontend".to_owned(), other)];
    assert_eq!(backends(&route(&shop, "chat").await.unwrap()), shares(90, 10));
    answer(&shop, "chat", TAKEN).await;
    shop.settled().await;

    // It is not well: its share is taken away although it is not.
    shop.report(&shop.named(&GRAPH, "next"), json!({"state": "failed", "observedGeneration": 1})).await;
    shop.model("chat", 1, &with_canary(0));
    shop.sync(&[]).await;
    assert_eq!(backends(&route(&shop, "chat").await.unwrap()), shares(100, 0));
    shop.ready("next").await;
    answer(&shop, "chat", TAKEN).await;
    shop.settled().await;
}

const NEW_FIRST: &str = "  rollout: {replace: new-first}\n";

async fn a_route_moves_with_a_graph_that_is_replaced_new_first(place: &impl Place) {
    let shop = Shop::new(place, &[]);
    shop.model("chat", 1, &format!("{NEW_FIRST}{ROUTE}"));
    shop.sync(&[]).await;
    shop.ready("chat").await;
    shop.synced(&[]).await;
    answer(&shop, "chat", TAKEN).await;
    shop.settled().await;

    // Dynamo forbids another component in place.
    let text =
        crate::sync::pipeline::mocker("chat", 1).replace("worker: {replicas: 1}", "worker: {name: solo, replicas: 1}");
    assert!(text.contains("solo"), "{text}");
    shop.site.write("models/chat/model.yaml", &format!("{text}{NEW_FIRST}{ROUTE}"));
    let pending = shop.pending(&[HoldKind::Replace]).await;
    insta::allow_duplicates! { insta::assert_debug_snapshot!(pending, @r#"
    [
        "replace DynamoGraphDeployment prod/chat: changed in git; Dynamo forbids adding component `solo` in place; Dynamo forbids removing component `worker` in place; DynamoGraphDeployment prod/chat-31e06 is created beside it; this one is deleted once the new one is Healthy; the address moves from Service `chat-frontend` to Service `chat-31e06-frontend`",
        "update HTTPRoute prod/chat: changed in git; applied once graph chat-31e06 is Ready",
    ]
    "#); }
    let new = alternate_graph_name("chat");
    shop.sync(&[HoldKind::Replace]).await;
    assert_eq!(backends(&route(&shop, "chat").await.unwrap()), [("chat-frontend".to_owned(), 1)]);
    shop.ready(&new).await;
    shop.sync(&[HoldKind::Replace]).await;
    assert_eq!(backends(&route(&shop, "chat").await.unwrap()), [(format!("{new}-frontend"), 1)]);
    // Until the gateway has taken that up, clients may come by the old one.
    assert!(shop.live(&GRAPH, "chat").await.is_some());
    answer(&shop, "chat", TAKEN).await;
    shop.synced(&[HoldKind::Replace]).await;
    assert!(shop.live(&GRAPH, "chat").await.is_none());
    shop.settled().await;
}
