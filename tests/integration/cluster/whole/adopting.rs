//! Graphs that another tool applied: taken over without a restart, and stator's alone from then on.

use super::words::Shop;
use crate::cluster::place::{Place, on_every_cluster};
use crate::cluster::scenario::{try_apply, with};
use serde_json::{Value, json};
use stator_core::dynamo::kinds::GRAPH;
use stator_core::fields::fields_v1;
use stator_core::object::Object;
use stator_model::plan::{Action, HoldKind};

on_every_cluster! {
    an_adopted_graph_keeps_the_order_of_its_lists,
    what_kubectl_applied_is_stators_alone_once_it_is_adopted,
    a_field_that_a_hotfix_wrote_first_follows_git_again,
    what_each_tool_applied_is_taken_over_with_its_marks,
}

/// Variables whose names sort another way than they stand in the cluster.
const SHUFFLED: [&str; 3] = ["ZED", "ALPHA", "MIDDLE"];

fn variables() -> String {
    SHUFFLED.iter().map(|name| format!("{name}: \"{}\"", name.to_lowercase())).collect::<Vec<_>>().join(", ")
}

/// The graph of a model as a person wrote it before there was stator: no labels of stator's, and variables, volumes and
/// mounts in an order of its own.
async fn handmade(shop: &Shop<'_, impl Place>, name: &str) -> Object {
    with(shop.rendered(&GRAPH, name).await, |value| {
        let metadata = value["metadata"].as_object_mut().unwrap();
        metadata.remove("labels");
        metadata.remove("annotations");
        for component in value["spec"]["components"].as_array_mut().unwrap() {
            let pod = &mut component["podTemplate"]["spec"];
            reverse_order(&mut pod["volumes"]);
            reverse_order(&mut pod["imagePullSecrets"]);
            for container in pod["containers"].as_array_mut().into_iter().flatten() {
                ["env", "volumeMounts", "ports"].iter().for_each(|list| reverse_order(&mut container[*list]));
            }
        }
        drop_nulls(value);
    })
}

fn reverse_order(list: &mut Value) {
    if let Some(items) = list.as_array_mut() {
        items.reverse();
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The model of these stories: pull secrets, a cache with its mount, and variables.
fn model(shop: &Shop<'_, impl Place>, name: &str, replicas: u32, variables: &str) {
    let more =
        format!("  env: {{{variables}}}\n  cache: {{claim: weights}}\n  secrets: {{imagePull: [second, first]}}\n");
    shop.model(name, replicas, &more);
}

fn worker(graph: &Object) -> &Value {
    graph.spec()["components"].as_array().unwrap().iter().find(|own| own["name"] == "worker").unwrap()
}

fn variable_names(graph: &Object) -> Vec<&str> {
    let list = worker(graph)["podTemplate"]["spec"]["containers"][0]["env"].as_array();
    list.into_iter().flatten().filter_map(|one| one["name"].as_str()).filter(|name| SHUFFLED.contains(name)).collect()
}

/// What tells whether pods were replaced: the object, and its generation.
fn identity(graph: &Object) -> (Option<&str>, Option<i64>) {
    (graph.uid(), graph.generation())
}

/// Every manager that owns something of the spec, through the object itself.
fn owners_of_spec(graph: &Object) -> Vec<String> {
    let entries = graph.value()["metadata"]["managedFields"].as_array().unwrap();
    let of_spec = entries.iter().filter(|entry| fields_v1(entry).is_some_and(|fields| fields.get("f:spec").is_some()));
    let mut names: Vec<String> = of_spec.map(|entry| entry["manager"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// Row A1 of the review: an apply in the order of the model put the variables into another order, and the operator replaced
/// every worker pod of a graph of which the plan said that nothing changes.
async fn an_adopted_graph_keeps_the_order_of_its_lists(place: &impl Place) {
    let shop = Shop::new(place, &[]);
    model(&shop, "llama", 1, &variables());
    place.create(handmade(&shop, "llama").await, "kubectl-create").await;
    let before = shop.graph("llama").await;
    assert_eq!(variable_names(&before), ["ZED", "MIDDLE", "ALPHA"], "the story needs an order that no sorting gives");

    let (plan, _) = shop.plan(&[HoldKind::Adopt]).await;
    let adopt = plan.changes.iter().find(|change| change.action == Action::Adopt).unwrap();
    assert_eq!(adopt.disruption.to_string(), "none");
    assert!(adopt.fields.iter().all(|field| field.path.to_string().starts_with("metadata.")), "{:#?}", adopt.fields);
    shop.synced(&[HoldKind::Adopt]).await;
    let adopted = shop.graph("llama").await;
    assert_eq!(identity(&adopted), identity(&before), "the plan said that nothing changes");
    assert_eq!(adopted.spec(), before.spec(), "order and all");
    shop.settled().await;

    // A change in git changes what it says, and moves nothing else.
    model(&shop, "llama", 2, &variables());
    shop.synced(&[]).await;
    let scaled = shop.graph("llama").await;
    assert_eq!((worker(&scaled)["replicas"].as_i64(), variable_names(&scaled)), (Some(2), variable_names(&before)));
    shop.settled().await;
}

/// Rows A2 and A3: a field that git no longer has stayed for ever, as `kubectl-client-side-apply` owned it too, and the plan
/// said that nothing is to be done; a change of such a field was a conflict.
async fn what_kubectl_applied_is_stators_alone_once_it_is_adopted(place: &impl Place) {
    let shop = Shop::new(place, &[]);
    model(&shop, "llama", 1, &variables());
    let applied = with(handmade(&shop, "llama").await, |value| {
        let copy = value.to_string();
        value["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": copy, "note": "ours"});
    });
    place.create(applied, "kubectl-client-side-apply").await;
    let before = shop.graph("llama").await;
    shop.synced(&[HoldKind::Adopt]).await;
    let adopted = shop.graph("llama").await;
    assert_eq!(identity(&adopted), identity(&before));
    assert_eq!(owners_of_spec(&adopted), ["stator"]);
    assert_eq!(adopted.annotations().get("note"), Some(&"ours"), "what git does not have stays");
    assert!(!adopted.annotations().contains_key("kubectl.kubernetes.io/last-applied-configuration"));
    shop.settled().await;

    // Removed in git.
    model(&shop, "llama", 1, "ZED: zed, ALPHA: alpha");
    shop.synced(&[]).await;
    let fewer = shop.graph("llama").await;
    assert_eq!(variable_names(&fewer), ["ZED", "ALPHA"]);
    assert_eq!(fewer.generation(), before.generation().map(|generation| generation + 1));
    shop.settled().await;

    // Changed in git.
    model(&shop, "llama", 3, "ZED: other, ALPHA: alpha");
    shop.synced(&[]).await;
    assert_eq!(worker(&shop.graph("llama").await)["replicas"], 3);
    shop.settled().await;

    // And pruned.
    shop.model("other", 1, "");
    shop.synced(&[]).await;
    shop.site.remove("llama");
    shop.synced(&[]).await;
    assert_eq!(shop.live(&GRAPH, "llama").await, None);
    shop.settled().await;
}

/// Rows A2 and A3 without an adoption: a hotfix by hand that git follows leaves two owners of one value. git's next change is
/// no conflict, and what git removes goes.
async fn a_field_that_a_hotfix_wrote_first_follows_git_again(place: &impl Place) {
    let shop = Shop::new(place, &[]);
    model(&shop, "llama", 1, "ZED: zed");
    shop.synced(&[]).await;
    let graph = shop.named(&GRAPH, "llama");
    place
        .edit(&graph, "kubectl-edit", |value| {
            let components = value["spec"]["components"].as_array_mut().unwrap();
            let worker = components.iter_mut().find(|own| own["name"] == "worker").unwrap();
            let env = worker["podTemplate"]["spec"]["containers"][0]["env"].as_array_mut().unwrap();
            env.iter_mut().find(|one| one["name"] == "ZED").unwrap()["value"] = json!("fixed");
            env.push(json!({"name": "ALPHA", "value": "new"}));
        })
        .await;
    model(&shop, "llama", 1, "ZED: fixed, ALPHA: new");
    shop.synced(&[]).await;
    shop.settled().await;
    model(&shop, "llama", 1, "ZED: better");
    let (plan, _) = shop.plan(&[]).await;
    let change = plan.changes.iter().find(|change| change.object.name == "llama").unwrap();
    assert_eq!(change.action, Action::Update, "{:#?}", change.reasons);
    shop.synced(&[]).await;
    let live = shop.graph("llama").await;
    assert_eq!(variable_names(&live), ["ZED"]);
    assert_eq!(owners_of_spec(&live), ["stator"]);
    shop.settled().await;
}

/// How a tool writes, and by what it is known.
struct Tool {
    manager: &'static str,
    applies: bool,
    labels: &'static [(&'static str, &'static str)],
    annotations: &'static [(&'static str, &'static str)],
}

const TOOLS: [(&str, Tool); 9] = [
    (
        "argo",
        Tool {
            manager: "argocd-controller",
            applies: true,
            labels: &[],
            annotations: &[("argocd.argoproj.io/tracking-id", "ml:nvidia.com/DynamoGraphDeployment:prod/argo")],
        },
    ),
    (
        "argolabel",
        Tool {
            manager: "argocd-controller",
            applies: false,
            labels: &[("app.kubernetes.io/instance", "ml")],
            annotations: &[],
        },
    ),
    (
        "flux",
        Tool {
            manager: "kustomize-controller",
            applies: true,
            labels: &[
                ("kustomize.toolkit.fluxcd.io/name", "models"),
                ("kustomize.toolkit.fluxcd.io/namespace", "flux-system"),
            ],
            annotations: &[],
        },
    ),
    (
        "helm",
        Tool {
            manager: "helm",
            applies: false,
            labels: &[("app.kubernetes.io/managed-by", "Helm")],
            annotations: &[("meta.helm.sh/release-name", "ml"), ("meta.helm.sh/release-namespace", "prod")],
        },
    ),
    ("ssa", Tool { manager: "kubectl", applies: true, labels: &[], annotations: &[] }),
    (
        "kapp",
        Tool {
            manager: "kapp",
            applies: false,
            labels: &[
                ("kapp.k14s.io/app", "1580317584170216000"),
                ("kapp.k14s.io/association", "v1.9f8d036156bc7b497df91a6a7d2b48cd"),
            ],
            annotations: &[
                ("kapp.k14s.io/identity", "v1;prod/nvidia.com/DynamoGraphDeployment/kapp;nvidia.com/v1beta1"),
                ("kapp.k14s.io/original", "{}"),
                ("kapp.k14s.io/original-diff-md5", "c6e94dc94aed3401b5d0f26ed6c0bff3"),
            ],
        },
    ),
    (
        "kluctl",
        Tool {
            manager: "kluctl",
            applies: true,
            labels: &[("kluctl.io/discriminator", "ml-prod"), ("kluctl.io/tag-0", "models")],
            annotations: &[("kluctl.io/deployment-item-dir", "models")],
        },
    ),
    (
        "configsync",
        Tool {
            manager: "configsync",
            applies: true,
            labels: &[
                ("app.kubernetes.io/managed-by", "configmanagement.gke.io"),
                ("configsync.gke.io/declared-version", "v1beta1"),
            ],
            annotations: &[
                ("config.k8s.io/owning-inventory", "config-management-system_root-sync"),
                ("configmanagement.gke.io/cluster-name", "prod"),
                ("configmanagement.gke.io/managed", "enabled"),
                ("configmanagement.gke.io/source-path", "models/configsync.yaml"),
                ("configmanagement.gke.io/token", "747b843a7ddbd945c0616034a935cf648b58e7b5"),
                ("configsync.gke.io/git-context", "{\"repo\":\"https://git.example.com/ml\",\"rev\":\"HEAD\"}"),
                ("configsync.gke.io/manager", ":root"),
                ("configsync.gke.io/resource-id", "nvidia.com_dynamographdeployment_prod_configsync"),
            ],
        },
    ),
    // Its agent installs Helm releases.
    (
        "fleet",
        Tool {
            manager: "fleetagent",
            applies: false,
            labels: &[
                ("app.kubernetes.io/managed-by", "Helm"),
                ("objectset.rio.cattle.io/hash", "e852fa897f5eae59a44b4bfe186aad80b10b94b3"),
            ],
            annotations: &[
                ("meta.helm.sh/release-name", "ml"),
                ("meta.helm.sh/release-namespace", "prod"),
                ("objectset.rio.cattle.io/id", "default-ml"),
            ],
        },
    ),
];

async fn what_each_tool_applied_is_taken_over_with_its_marks(place: &impl Place) {
    let shop = Shop::new(place, &[]);
    for (name, _) in &TOOLS {
        model(&shop, name, 1, &variables());
    }
    for (name, tool) in &TOOLS {
        let theirs = with(handmade(&shop, name).await, |value| {
            let pairs = |pairs: &[(&str, &str)]| -> Value {
                pairs
                    .iter()
                    .map(|(key, text)| ((*key).to_owned(), Value::from(*text)))
                    .collect::<serde_json::Map<_, _>>()
                    .into()
            };
            value["metadata"]["labels"] = pairs(tool.labels);
            value["metadata"]["annotations"] = pairs(tool.annotations);
        });
        if tool.applies {
            try_apply(place.cluster(), theirs, tool.manager).await.unwrap();
        } else {
            place.create(theirs, tool.manager).await;
        }
    }
    let seen = shop.pending(&[]).await.join("\n");
    insta::allow_duplicates! {
        insta::assert_snapshot!(seen, @"
        adopt DynamoGraphDeployment prod/argo: already exists and is managed by Argo CD (`argocd.argoproj.io/tracking-id`): allow its adoption once Argo CD no longer manages it, or give the model another name; field ownership moves to stator from argocd-controller; held back: `--allow adopt` takes it over
        adopt DynamoGraphDeployment prod/argolabel: already exists and is managed by Argo CD (`app.kubernetes.io/instance`): allow its adoption once Argo CD no longer manages it, or give the model another name; field ownership moves to stator from argocd-controller; held back: `--allow adopt` takes it over
        adopt DynamoGraphDeployment prod/configsync: already exists and is managed by Config Sync (`configmanagement.gke.io/cluster-name`): allow its adoption once Config Sync no longer manages it, or give the model another name; field ownership moves to stator from configsync; held back: `--allow adopt` takes it over
        adopt DynamoGraphDeployment prod/fleet: already exists and is managed by Fleet (`objectset.rio.cattle.io/hash`): allow its adoption once Fleet no longer manages it, or give the model another name; field ownership moves to stator from fleetagent; held back: `--allow adopt` takes it over
        adopt DynamoGraphDeployment prod/flux: already exists and is managed by Flux (`kustomize.toolkit.fluxcd.io/name`): allow its adoption once Flux no longer manages it, or give the model another name; field ownership moves to stator from kustomize-controller; held back: `--allow adopt` takes it over
        adopt DynamoGraphDeployment prod/helm: already exists and is managed by Helm (`meta.helm.sh/release-name`): allow its adoption once Helm no longer manages it, or give the model another name; field ownership moves to stator from helm; held back: `--allow adopt` takes it over
        adopt DynamoGraphDeployment prod/kapp: already exists and is managed by kapp (`kapp.k14s.io/app`): allow its adoption once kapp no longer manages it, or give the model another name; field ownership moves to stator from kapp; held back: `--allow adopt` takes it over
        adopt DynamoGraphDeployment prod/kluctl: already exists and is managed by kluctl (`kluctl.io/deployment-item-dir`): allow its adoption once kluctl no longer manages it, or give the model another name; field ownership moves to stator from kluctl; held back: `--allow adopt` takes it over
        adopt DynamoGraphDeployment prod/ssa: already exists and is not managed by stator or another tool: allow its adoption, or give the model another name; field ownership moves to stator from kubectl; held back: `--allow adopt` takes it over
        already in the cluster, not managed by stator; would be taken over: DynamoGraphDeployment prod/argo, DynamoGraphDeployment prod/argolabel, DynamoGraphDeployment prod/configsync, DynamoGraphDeployment prod/fleet, DynamoGraphDeployment prod/flux, DynamoGraphDeployment prod/helm, DynamoGraphDeployment prod/kapp, DynamoGraphDeployment prod/kluctl, DynamoGraphDeployment prod/ssa
        ");
    }
    let (plan, _) = shop.plan(&[]).await;
    let warned: Vec<&str> =
        plan.findings.iter().filter(|one| one.rule.id == "plan/still-managed").map(|one| one.help.as_str()).collect();
    assert_eq!(warned.len(), 8, "{warned:#?}");

    let mut before = Vec::new();
    for (name, _) in &TOOLS {
        before.push(shop.graph(name).await);
    }
    shop.synced(&[HoldKind::Adopt]).await;
    for ((name, tool), before) in TOOLS.iter().zip(&before) {
        let live = shop.graph(name).await;
        assert_eq!(identity(&live), identity(before), "{name}");
        assert_eq!(owners_of_spec(&live), ["stator"], "{name}");
        assert_eq!(live.labels().get("app.kubernetes.io/managed-by"), Some(&"stator"), "{name}");
        let marks =
            tool.labels.iter().chain(tool.annotations).filter(|(key, _)| *key != "app.kubernetes.io/managed-by");
        for (key, _) in marks {
            assert!(!live.labels().contains_key(key) && !live.annotations().contains_key(key), "{name} keeps {key}");
        }
    }
    shop.settled().await;
    // A field removed from git goes, whoever wrote it first.
    for (name, _) in &TOOLS {
        model(&shop, name, 1, "ZED: zed");
    }
    shop.synced(&[]).await;
    for (name, _) in &TOOLS {
        assert_eq!(variable_names(&shop.graph(name).await), ["ZED"], "{name}");
    }
    shop.settled().await;
    // And with the model the graph.
    shop.model("other", 1, "");
    shop.synced(&[]).await;
    for (name, _) in &TOOLS {
        shop.site.remove(name);
    }
    shop.synced(&[HoldKind::MassDelete]).await;
    for (name, _) in &TOOLS {
        assert_eq!(shop.live(&GRAPH, name).await, None, "{name}");
    }
    shop.settled().await;
}
