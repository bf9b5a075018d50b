//! What happens to a repository and its cluster in a random history.

use super::super::pipeline::{Site, mocker};
use proptest::prelude::*;
use serde_json::{Value, json};
use stator_cluster::cluster::embedded::{EmbeddedCluster, ObjectPart};
use stator_cluster::cluster::{ApplyRequest, Cluster, Preconditions};
use stator_core::dynamo::kinds;
use stator_core::object::{Object, ObjectRef};

/// What a person, or another tool, does next. Models are numbered.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Write {
        model: u8,
        replicas: u32,
    },
    /// The same name in another folder.
    Twin {
        model: u8,
    },
    /// A claim that all models that have one share.
    Weights {
        model: u8,
    },
    /// Its workers mount a file of its folder.
    Mount {
        model: u8,
    },
    /// That file is changed, and nothing else.
    EditFile {
        model: u8,
        content: u8,
    },
    Break {
        model: u8,
    },
    /// A model of which there is something to say, each time.
    Doubt {
        model: u8,
    },
    /// Settings of which there is something to say for each model below them.
    DoubtfulDefaults,
    Remove {
        model: u8,
    },
    FolderDefaults {
        value: u8,
    },
    RootDefaults {
        value: u8,
    },
    Price {
        cents: u8,
    },
    /// Somebody scales a graph by hand, and takes the field.
    Scale {
        model: u8,
        replicas: i64,
    },
    Annotate {
        model: u8,
    },
    /// Somebody else takes a graph over.
    Track {
        model: u8,
    },
    Delete {
        model: u8,
    },
    DeleteRecord {
        model: u8,
    },
    /// A record is edited so that nobody can read it.
    Damage {
        model: u8,
    },
    /// An object that is labelled as a model's and that git does not have.
    Copy {
        model: u8,
    },
    /// A graph that is not well any more.
    Sicken {
        model: u8,
    },
    Sync,
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let model = || 0..6_u8;
    let one = prop_oneof![
        6 => (model(), 1..4_u32).prop_map(|(model, replicas)| Step::Write { model, replicas }),
        1 => model().prop_map(|model| Step::Twin { model }),
        2 => model().prop_map(|model| Step::Weights { model }),
        2 => model().prop_map(|model| Step::Mount { model }),
        3 => (model(), 0..3_u8).prop_map(|(model, content)| Step::EditFile { model, content }),
        1 => model().prop_map(|model| Step::Break { model }),
        2 => model().prop_map(|model| Step::Doubt { model }),
        1 => Just(Step::DoubtfulDefaults),
        2 => model().prop_map(|model| Step::Remove { model }),
        1 => (0..3_u8).prop_map(|value| Step::FolderDefaults { value }),
        1 => (0..3_u8).prop_map(|value| Step::RootDefaults { value }),
        1 => (1..3_u8).prop_map(|cents| Step::Price { cents }),
        2 => (model(), 1..9_i64).prop_map(|(model, replicas)| Step::Scale { model, replicas }),
        1 => model().prop_map(|model| Step::Annotate { model }),
        1 => model().prop_map(|model| Step::Track { model }),
        2 => model().prop_map(|model| Step::Delete { model }),
        1 => model().prop_map(|model| Step::DeleteRecord { model }),
        1 => model().prop_map(|model| Step::Damage { model }),
        1 => model().prop_map(|model| Step::Copy { model }),
        2 => model().prop_map(|model| Step::Sicken { model }),
        8 => Just(Step::Sync),
    ];
    prop::collection::vec(one, 1..40)
}

fn graph(model: u8) -> ObjectRef {
    reference(kinds::GRAPH, &format!("m-{model}"))
}

pub(super) fn reference(kind: kinds::ObjectKind, name: &str) -> ObjectRef {
    kind.reference("prod", name)
}

pub(super) fn root(site: &Site, value: u8, cents: u8) {
    site.write(
        "stator.yaml",
        &format!(
            "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {{name: shop}}\nspec:\n  prices: {{gpuHour: \
             {{h100_sxm: 1.{cents}}}}}\n  defaults: {{env: {{ROOT: \"{value}\"}}}}\n  environments:\n    prod: {{namespace: prod}}\n"
        ),
    );
}

async fn edit(
    cluster: &EmbeddedCluster,
    object: &ObjectRef,
    part: ObjectPart,
    change: impl FnOnce(&mut Value) + Send + 'static,
) {
    // What is not there is not edited, and what the schema refuses neither.
    let _ = cluster.update(object, part, "somebody", change).await;
}

pub(super) async fn take(site: &Site, step: &Step) {
    let folder = |model: u8| format!("models/{}/m-{model}/model.yaml", if model < 3 { "a" } else { "b" });
    let name = |model: u8| format!("m-{model}");
    match *step {
        Step::Write { model, replicas } => site.write(&folder(model), &mocker(&name(model), replicas)),
        Step::Twin { model } => site.write(&format!("twins/m-{model}/model.yaml"), &mocker(&name(model), 1)),
        Step::Weights { model } => {
            let text = format!("{}  cache: {{claim: weights, size: 10Gi}}\n", mocker(&name(model), 1));
            site.write(&folder(model), &text);
        }
        Step::Mount { model } => {
            let file = "  files: {engine: {from: engine/a.yaml, mountPath: /e/a.yaml}}\n";
            site.write(&folder(model), &format!("{}{file}", mocker(&name(model), 1)));
        }
        Step::EditFile { model, content } => {
            site.write(&folder(model).replace("model.yaml", "engine/a.yaml"), &format!("a: {content}\n"));
        }
        Step::Break { model } => site.write(&folder(model), &format!("{}  nonsense: 1\n", mocker(&name(model), 1))),
        Step::Doubt { model } => {
            // One is found when the model is read, one when it is rendered.
            let doubt = "  unset: [cache]\n  env: {DYN_KVBM_POOL: \"1\"}\n";
            site.write(&folder(model), &format!("{}{doubt}", mocker(&name(model), 1)));
        }
        Step::DoubtfulDefaults => site.write(
            "models/a/stator.yaml",
            "apiVersion: stator.dev/v1alpha1\nkind: Defaults\nspec: {env: {DYN_CONNECTOR: kvbm}}\n",
        ),
        Step::Remove { model } => {
            for path in [folder(model), format!("twins/m-{model}/model.yaml")] {
                let _ = fs_err::remove_file(site.path(&path));
            }
        }
        Step::FolderDefaults { value } => site.write(
            "models/a/stator.yaml",
            &format!("apiVersion: stator.dev/v1alpha1\nkind: Defaults\nspec: {{env: {{FOLDER: \"{value}\"}}}}\n"),
        ),
        Step::RootDefaults { value } => root(site, value, 1),
        Step::Price { cents } => root(site, 0, cents),
        Step::Scale { model, replicas } => {
            edit(&site.cluster, &graph(model), ObjectPart::Main, move |value| {
                for component in value["spec"]["components"].as_array_mut().into_iter().flatten() {
                    component["replicas"] = json!(replicas);
                }
            })
            .await;
        }
        Step::Annotate { model } => {
            edit(&site.cluster, &graph(model), ObjectPart::Main, |value| {
                value["metadata"]["annotations"]["note"] = json!("mine");
            })
            .await;
        }
        Step::Track { model } => {
            edit(&site.cluster, &graph(model), ObjectPart::Main, |value| {
                value["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"] = json!("apps");
            })
            .await;
        }
        Step::Delete { model } => {
            site.cluster.delete(&graph(model), &Preconditions::default()).await.unwrap();
        }
        Step::DeleteRecord { model } => {
            let record = reference(kinds::RECORD, &name(model));
            site.cluster.delete(&record, &Preconditions::default()).await.unwrap();
        }
        Step::Damage { model } => {
            edit(&site.cluster, &reference(kinds::RECORD, &name(model)), ObjectPart::Main, |value| {
                value["metadata"]["labels"]["stator.dev/repository"] = json!("other");
            })
            .await;
        }
        Step::Copy { model } => {
            let Some(live) = site.cluster.get(&graph(model)).await.unwrap() else { return };
            let mut value = live.into_value();
            for own in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"] {
                value["metadata"].as_object_mut().unwrap().remove(own);
            }
            value["metadata"]["name"] = json!(format!("copy-{model}"));
            value.as_object_mut().unwrap().remove("status");
            let copy = ApplyRequest::new(Object::from_value(value).unwrap(), "kubectl");
            let _ = site.cluster.apply(&copy).await;
        }
        Step::Sicken { model } => healthy(&site.cluster, &graph(model), false).await,
        Step::Sync => {}
    }
}

/// What the operator says of a graph.
pub(super) async fn healthy(cluster: &EmbeddedCluster, graph: &ObjectRef, ready: bool) {
    edit(cluster, graph, ObjectPart::Status, move |value| {
        let generation = value["metadata"]["generation"].clone();
        value["status"] = json!({
            "observedGeneration": generation, "state": if ready { "successful" } else { "pending" },
            "conditions": [{
                "type": "Ready", "status": if ready { "True" } else { "False" }, "reason": "all_resources_are_ready",
                "message": "", "observedGeneration": generation, "lastTransitionTime": "2026-11-21T03:00:00Z",
            }],
        });
    })
    .await;
}
