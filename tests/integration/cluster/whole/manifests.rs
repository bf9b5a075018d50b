//! Other objects of a model: planned, owned, healed, kept and pruned like what stator renders itself.

use super::words::{Shop, Watched};
use crate::cluster::place::{Place, on_every_cluster};
use serde_json::json;
use stator_cluster::cluster::{Cluster as _, Preconditions};
use stator_core::dynamo::kinds::{
    CLAIM, COMPUTE_DOMAIN, CONFIG_MAP, GRAPH, HTTP_ROUTE, RECORD, RESOURCE_CLAIM_TEMPLATE, SERVICE,
};
use stator_model::plan::HoldKind;

on_every_cluster! {
    other_objects_come_first_are_healed_and_go_with_the_model,
    an_object_that_is_there_already_is_adopted_when_that_is_allowed,
    what_pods_claim_comes_first_and_what_clients_reach_comes_last,
    what_cannot_be_changed_is_made_again_when_that_is_allowed,
}

const INLINE: &str = "  manifests:\n    - apiVersion: v1\n      kind: ConfigMap\n      metadata: {name: chat-prompts}\n      \
                      data: {system.txt: hello}\n    - from: extra/more.yaml\n";
const FILE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: chat-table}\ndata: {table: a}\n---\napiVersion: \
                    v1\nkind: PersistentVolumeClaim\nmetadata: {name: chat-scratch}\nspec: {accessModes: [ReadWriteMany], \
                    resources: {requests: {storage: 5Gi}}}\n";

async fn other_objects_come_first_are_healed_and_go_with_the_model(place: &impl Place) {
    let shop = Shop::new(place, &[("other", 1)]);
    shop.model("chat", 1, INLINE);
    shop.site.write("models/chat/extra/more.yaml", FILE);
    let watched = Watched::new(place.cluster());
    let plan = shop.plan(&[]).await;
    let report = shop.carry_out(&watched, plan).await;
    assert!(report.is_success(), "{report:#?}");
    let first: Vec<String> = watched.writes().into_iter().filter(|line| line.contains("chat")).collect();
    assert_eq!(
        first[..4],
        [
            "created ConfigMap chat-prompts",
            "created ConfigMap chat-table",
            "created PersistentVolumeClaim chat-scratch",
            "created DynamoGraphDeployment chat",
        ]
    );
    shop.ready("chat").await;
    shop.ready("other").await;
    shop.settled().await;

    // Somebody changes one and deletes another.
    let prompts = shop.named(&CONFIG_MAP, "chat-prompts");
    place.edit(&prompts, "somebody", |value| drop(value["data"].as_object_mut().unwrap().remove("system.txt"))).await;
    place.cluster().delete(&shop.named(&CONFIG_MAP, "chat-table"), &Preconditions::default()).await.unwrap();
    shop.synced(&[]).await;
    let live = shop.live(&CONFIG_MAP, "chat-prompts").await.unwrap();
    assert_eq!(live.value()["data"], json!({"system.txt": "hello"}));
    assert!(shop.live(&CONFIG_MAP, "chat-table").await.is_some());
    shop.settled().await;

    // One changes in git, one goes from it, and the claim stays.
    shop.model("chat", 1, &INLINE.replace("hello", "good day").replace("    - from: extra/more.yaml\n", ""));
    let pending = shop.pending(&[]).await.join("\n");
    insta::allow_duplicates! {
        insta::assert_snapshot!(pending, @r"
        update ConfigMap prod/chat-prompts: changed in git
        delete ConfigMap prod/chat-table: the model no longer has it
        ");
    }
    shop.synced(&[]).await;
    assert!(shop.live(&CONFIG_MAP, "chat-table").await.is_none());
    assert!(shop.live(&CLAIM, "chat-scratch").await.is_some());
    shop.settled().await;

    shop.site.remove("chat");
    shop.synced(&[]).await;
    let left = (shop.live(&GRAPH, "chat").await, shop.live(&CONFIG_MAP, "chat-prompts").await);
    assert_eq!(left, (None, None));
    assert_eq!(shop.live(&RECORD, "chat").await, None);
    assert!(shop.live(&CLAIM, "chat-scratch").await.is_some(), "data outlives its model");
    shop.settled().await;
}

async fn an_object_that_is_there_already_is_adopted_when_that_is_allowed(place: &impl Place) {
    let shop = Shop::new(place, &[]);
    shop.model("chat", 1, &INLINE.replace("    - from: extra/more.yaml\n", ""));
    let theirs = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "chat-prompts"}, "data": {"system.txt": "before"},
    });
    place.create(place.object(theirs), "somebody").await;
    assert!(!shop.sync(&[]).await.is_success());
    let live = shop.live(&CONFIG_MAP, "chat-prompts").await.unwrap();
    assert_eq!(live.value()["data"], json!({"system.txt": "before"}));
    shop.synced(&[HoldKind::Adopt]).await;
    let live = shop.live(&CONFIG_MAP, "chat-prompts").await.unwrap();
    assert_eq!(live.value()["data"], json!({"system.txt": "hello"}));
    shop.ready("chat").await;
    shop.settled().await;
}

const MORE: &str = "  manifests: [{from: more.yaml}]\n";
const EVERY_KIND: &str = "apiVersion: v1
kind: Service
metadata: {name: chat-api}
spec:
  selector: {nvidia.com/dynamo-graph-deployment-name: chat}
  ports: [{name: http, port: 80, targetPort: 8000}, {name: metrics, port: 9090}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat}
spec:
  parentRefs: [{name: public, namespace: infra}]
  hostnames: [chat.example.com]
  rules: [{backendRefs: [{name: chat-api, port: 80}]}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: chat-nvlink}
spec:
  spec:
    devices:
      requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]
---
apiVersion: resource.nvidia.com/v1beta1
kind: ComputeDomain
metadata: {name: chat}
spec: {channel: {resourceClaimTemplate: {name: chat-channel}}}
";

async fn what_pods_claim_comes_first_and_what_clients_reach_comes_last(place: &impl Place) {
    let shop = Shop::new(place, &[("other", 1)]);
    shop.model("chat", 1, MORE);
    shop.site.write("models/chat/more.yaml", EVERY_KIND);
    let watched = Watched::new(place.cluster());
    let plan = shop.plan(&[]).await;
    let report = shop.carry_out(&watched, plan).await;
    assert!(report.is_success(), "{report:#?}");
    let made: Vec<String> = watched.writes().into_iter().filter(|line| line.contains(" chat")).take(4).collect();
    assert_eq!(
        made,
        [
            "created ComputeDomain chat",
            "created ResourceClaimTemplate chat-nvlink",
            "created DynamoGraphDeployment chat",
            "created Service chat-api",
        ]
    );
    // Requests would find nobody before that.
    assert!(shop.live(&HTTP_ROUTE, "chat").await.is_none());
    shop.ready("chat").await;
    shop.ready("other").await;
    shop.synced(&[]).await;
    assert!(shop.live(&HTTP_ROUTE, "chat").await.is_some());
    // What the API server filled in is nobody's change.
    let service = shop.live(&SERVICE, "chat-api").await.unwrap();
    assert_eq!(service.value()["spec"]["type"], "ClusterIP", "{:#}", service.value());
    shop.settled().await;

    // Somebody changes one and deletes another.
    let domain = shop.named(&COMPUTE_DOMAIN, "chat");
    let remove = |value: &mut serde_json::Value| drop(value["spec"].as_object_mut().unwrap().remove("selector"));
    place.edit(&shop.named(&SERVICE, "chat-api"), "somebody", remove).await;
    place.cluster().delete(&domain, &Preconditions::default()).await.unwrap();
    shop.synced(&[]).await;
    let service = shop.live(&SERVICE, "chat-api").await.unwrap();
    assert_eq!(service.value()["spec"]["selector"], json!({"nvidia.com/dynamo-graph-deployment-name": "chat"}));
    assert!(shop.live(&COMPUTE_DOMAIN, "chat").await.is_some());
    shop.settled().await;

    // A change in git, and one that goes.
    let fewer = EVERY_KIND.split("---\n").filter(|text| !text.contains("HTTPRoute")).collect::<Vec<_>>().join("---\n");
    shop.site.write("models/chat/more.yaml", &fewer.replace(", {name: metrics, port: 9090}", ""));
    shop.synced(&[]).await;
    assert!(shop.live(&HTTP_ROUTE, "chat").await.is_none());
    let service = shop.live(&SERVICE, "chat-api").await.unwrap();
    assert_eq!(service.value()["spec"]["ports"].as_array().unwrap().len(), 1);
    shop.settled().await;

    shop.site.remove("chat");
    shop.synced(&[]).await;
    for kind in [SERVICE, RESOURCE_CLAIM_TEMPLATE, COMPUTE_DOMAIN, GRAPH] {
        let left = shop.cluster().list(&kind, Some(place.home()), &[ours()].into()).await.unwrap();
        assert!(left.iter().all(|object| object.labels().get("stator.dev/model") != Some(&"chat")), "{}", kind.kind);
    }
    shop.settled().await;
}

fn ours() -> (String, String) {
    ("app.kubernetes.io/managed-by".to_owned(), "stator".to_owned())
}

async fn what_cannot_be_changed_is_made_again_when_that_is_allowed(place: &impl Place) {
    let shop = Shop::new(place, &[]);
    shop.model("chat", 1, MORE);
    shop.site.write("models/chat/more.yaml", EVERY_KIND);
    shop.synced(&[]).await;
    shop.ready("chat").await;
    let before = shop.live(&RESOURCE_CLAIM_TEMPLATE, "chat-nvlink").await.unwrap();
    shop.site.write("models/chat/more.yaml", &EVERY_KIND.replace("gpu.nvidia.com", "mig.nvidia.com"));
    let pending = shop.pending(&[]).await.join("\n");
    insta::allow_duplicates! {
        insta::assert_snapshot!(pending, @"
    replace ResourceClaimTemplate prod/chat-nvlink: changed in git; `spec` of a ResourceClaimTemplate cannot be changed; held back: `--allow replace` deletes it and creates it again
    create HTTPRoute prod/chat: is not in the cluster yet
    Dynamo forbids these changes in place; to be deleted and created again: ResourceClaimTemplate prod/chat-nvlink
    ");
    }
    shop.synced(&[HoldKind::Replace]).await;
    let after = shop.live(&RESOURCE_CLAIM_TEMPLATE, "chat-nvlink").await.unwrap();
    assert_ne!(before.uid(), after.uid());
    shop.settled().await;
}
