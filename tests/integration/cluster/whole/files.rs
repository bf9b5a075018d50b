//! Files that pods mount: new content rolls who mounts it, and the old content stays until nobody does.

use super::words::{Shop, Watched};
use crate::cluster::place::{Place, on_every_cluster};
use crate::cluster::scenario::{try_apply, with};
use serde_json::json;
use stator_cluster::cluster::{Cluster as _, ClusterError, Preconditions};
use stator_core::dynamo::kinds::{CONFIG_MAP, GRAPH, RECORD};
use stator_core::object::Object;

on_every_cluster! {
    new_content_rolls_who_mounts_it_and_the_old_content_goes_last,
    content_that_comes_back_is_mounted_again,
    a_config_map_that_somebody_deletes_is_made_again,
    a_config_map_of_somebody_else_is_not_written_over,
    what_no_cluster_takes_of_a_config_map_is_refused_in_the_same_words,
}

const MOUNTS: &str = "  files:\n    engine: {from: engine/decode.yaml, mountPath: /engine_configs/decode.yaml}\n    banner: \
                      {text: hello, mountPath: /etc/banner, components: [frontend]}\n";

/// A shop of a model whose workers mount a file with this content, synced and Healthy.
async fn mounting<'a, P: Place>(place: &'a P, content: &str) -> Shop<'a, P> {
    let shop = Shop::new(place, &[]);
    shop.model("chat", 1, MOUNTS);
    shop.site.write("models/chat/engine/decode.yaml", content);
    shop.synced(&[]).await;
    shop.ready("chat").await;
    shop.settled().await;
    shop
}

/// The ConfigMaps of the scenario by the file that they hold, sorted.
async fn config_maps<P: Place>(shop: &Shop<'_, P>) -> Vec<String> {
    let all = shop.cluster().list(&CONFIG_MAP, Some(shop.place.home()), &[ours()].into()).await.unwrap();
    let mut found: Vec<String> =
        all.iter().map(|one| format!("{} {}", one.labels()["stator.dev/file"], one.value()["data"])).collect();
    found.sort();
    found
}

fn ours() -> (String, String) {
    ("stator.dev/model".to_owned(), "chat".to_owned())
}

/// What the workers and the frontend mount.
fn mounted(graph: &Object) -> (String, String) {
    let of = |name: &str| {
        let components = graph.spec()["components"].as_array().unwrap();
        let component = components.iter().find(|one| one["name"] == name).unwrap();
        component["podTemplate"]["spec"]["volumes"].to_string()
    };
    (of("worker"), of("frontend"))
}

async fn new_content_rolls_who_mounts_it_and_the_old_content_goes_last(place: &impl Place) {
    let shop = mounting(place, "max_num_tokens: 8192\n").await;
    let before = mounted(&shop.graph("chat").await);
    assert!(before.0.contains("chat-engine-") && before.1.contains("chat-banner-"), "{before:?}");

    shop.site.write("models/chat/engine/decode.yaml", "max_num_tokens: 4096\n");
    let pending = shop.pending(&[]).await;
    insta::allow_duplicates! {
        insta::assert_debug_snapshot!(pending, @r#"
        [
            "create ConfigMap prod/chat-engine-8fb9b79ed7: holds the new content of file `engine` (engine/decode.yaml)",
            "update DynamoGraphDeployment prod/chat: changed in git; worker mounts the new content of file `engine` (engine/decode.yaml)",
            "delete ConfigMap prod/chat-engine-f53870da59: ConfigMap prod/chat-engine-8fb9b79ed7 holds the file's new content; deleted once no pod mounts the old one",
        ]
        "#);
    }
    let watched = Watched::new(place.cluster());
    let plan = shop.plan(&[]).await;
    let report = shop.carry_out(&watched, plan).await;
    assert!(report.is_success(), "{report:#?}");
    let after = mounted(&shop.graph("chat").await);
    assert_ne!(before.0, after.0, "the workers mount the new content");
    assert_eq!(before.1, after.1, "nothing of the frontend changed");
    let written = (watched.writes(), config_maps(&shop).await);
    insta::allow_duplicates! {
        insta::assert_debug_snapshot!(written, @r#"
        (
            [
                "created SyncJournal sync-63cbe1e459320dd7-0",
                "created ConfigMap chat-engine-8fb9b79ed7",
                "updated DynamoGraphDeployment chat",
                "updated Model chat",
                "updated Model chat",
                "deleted SyncJournal sync-63cbe1e459320dd7-0 by uid",
            ],
            [
                "banner {\"banner\":\"hello\"}",
                "engine {\"decode.yaml\":\"max_num_tokens: 4096\\n\"}",
                "engine {\"decode.yaml\":\"max_num_tokens: 8192\\n\"}",
            ],
        )
        "#);
    }
    // Pods of before may start again as long as the graph is not Healthy.
    let still = shop.sync(&[]).await;
    assert_eq!((still.writes, config_maps(&shop).await.len()), (0, 3), "{still:#?}");
    shop.ready("chat").await;
    shop.synced(&[]).await;
    let left = config_maps(&shop).await;
    insta::allow_duplicates! {
        insta::assert_debug_snapshot!(left, @r#"
        [
            "banner {\"banner\":\"hello\"}",
            "engine {\"decode.yaml\":\"max_num_tokens: 4096\\n\"}",
        ]
        "#);
    }
    shop.settled().await;
    let record = shop.live(&RECORD, "chat").await.unwrap();
    let kinds = record.annotations()["applyset.kubernetes.io/contains-group-kinds"].to_owned();
    assert_eq!(kinds, "ConfigMap,DynamoGraphDeployment.nvidia.com");

    // With the model everything goes that it mounted.
    shop.model("other", 1, "");
    shop.synced(&[]).await;
    shop.site.remove("chat");
    shop.synced(&[]).await;
    assert_eq!((shop.live(&GRAPH, "chat").await, config_maps(&shop).await), (None, Vec::new()));
    shop.ready("other").await;
    shop.settled().await;
}

/// A commit that is reverted before the graph is up finds the ConfigMap where it was.
async fn content_that_comes_back_is_mounted_again(place: &impl Place) {
    let shop = mounting(place, "one").await;
    let before = mounted(&shop.graph("chat").await);
    shop.site.write("models/chat/engine/decode.yaml", "two");
    shop.synced(&[]).await;
    shop.site.write("models/chat/engine/decode.yaml", "one");
    shop.synced(&[]).await;
    assert_eq!(mounted(&shop.graph("chat").await), before);
    shop.ready("chat").await;
    shop.synced(&[]).await;
    assert_eq!(config_maps(&shop).await.len(), 2, "the banner, and the content that is mounted");
    shop.settled().await;
}

async fn a_config_map_that_somebody_deletes_is_made_again(place: &impl Place) {
    let shop = mounting(place, "one").await;
    let all = shop.cluster().list(&CONFIG_MAP, Some(place.home()), &[ours()].into()).await.unwrap();
    place.cluster().delete(&all[0].reference(), &Preconditions::default()).await.unwrap();
    shop.synced(&[]).await;
    assert_eq!(config_maps(&shop).await.len(), 2);
    shop.settled().await;
}

/// Only stator's own ConfigMaps are listed and kept in memory: one of the wanted name that is none of them is still seen.
async fn a_config_map_of_somebody_else_is_not_written_over(place: &impl Place) {
    let shop = Shop::new(place, &[]);
    shop.model("chat", 1, "  files: {banner: {text: hello, mountPath: /etc/banner}}\n");
    let (plan, _) = shop.plan(&[]).await;
    let wanted = plan.changes.iter().find(|change| change.object.kind == CONFIG_MAP.kind).unwrap().object.clone();
    let theirs = place.object(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": wanted.name}, "data": {"theirs": "kept"},
    }));
    place.create(theirs, "somebody").await;
    let pending = shop.pending(&[]).await.join("\n");
    insta::allow_duplicates! {
        insta::assert_snapshot!(pending, @"
        adopt ConfigMap prod/chat-banner-d4a4e74f3c: already exists and is not managed by stator or another tool: allow its adoption, or give the model another name; held back: `--allow adopt` takes it over
        create DynamoGraphDeployment prod/chat: is not in the cluster yet
        already in the cluster, not managed by stator; would be taken over: ConfigMap prod/chat-banner-d4a4e74f3c
        ");
    }
    let report = shop.sync(&[]).await;
    assert!(!report.is_success(), "{report:#?}");
    let live = shop.live(&CONFIG_MAP, &wanted.name).await.unwrap();
    assert_eq!((&live.value()["data"], live.labels().is_empty()), (&json!({"theirs": "kept"}), true));
    // Once it is out of the way, stator's own is made.
    place.cluster().delete(&wanted, &Preconditions::default()).await.unwrap();
    shop.synced(&[]).await;
    assert_eq!(config_maps(&shop).await, ["banner {\"banner\":\"hello\"}"]);
    shop.ready("chat").await;
    shop.settled().await;
}

async fn what_no_cluster_takes_of_a_config_map_is_refused_in_the_same_words(place: &impl Place) {
    let cluster = place.cluster();
    let config_map = |name: &str, fields: serde_json::Value| {
        let mut value = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        value.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        place.object(value)
    };
    let held = config_map("held", json!({"data": {"a": "1"}, "immutable": true}));
    try_apply(cluster, held.clone(), "stator").await.unwrap();
    let labelled = with(held.clone(), |value| value["metadata"]["labels"] = json!({"team": "search"}));
    try_apply(cluster, labelled, "stator").await.unwrap();
    let mut told = Vec::new();
    for refused in [
        config_map("keys", json!({"data": {"a b": "1", "..": "2"}})),
        config_map("both", json!({"data": {"a": "1"}, "binaryData": {"a": "AP8="}})),
        config_map("large", json!({"data": {"a": "x".repeat(1 << 20), "b": "y"}})),
        with(held.clone(), |value| value["data"] = json!({"a": "2"})),
        with(held, |value| value["immutable"] = json!(false)),
    ] {
        let error = try_apply(cluster, refused, "stator").await.unwrap_err();
        assert!(matches!(error, ClusterError::Invalid { .. }), "{error:?}");
        told.push(place.said(error));
    }
    insta::allow_duplicates! {
        insta::assert_snapshot!(told.join("\n"), @r#"
        ConfigMap prod/keys is invalid: data[".."]: Invalid value: "..": must not be '..'; data.a b: Invalid value: "a b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')
        ConfigMap prod/both is invalid: data.a: Invalid value: "a": duplicate of key present in binaryData
        ConfigMap prod/large is invalid: : Too long: may not be more than 1048576 bytes
        ConfigMap prod/held is invalid: data: Forbidden: field is immutable when `immutable` is set
        ConfigMap prod/held is invalid: immutable: Forbidden: field is immutable when `immutable` is set
        "#);
    }
}
