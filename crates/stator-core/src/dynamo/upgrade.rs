//! What an operator of another release does to objects that nobody changed: which pods it replaces by itself, and which
//! fields it no longer lets change.
//!
//! An operator makes the children of every graph anew when it starts. Where what it makes of a graph differs from what
//! the one before made, Kubernetes replaces the pods: the graph itself stays as it is. Sources: those that the table of
//! releases has for each cause. What the chart says of the operator (NATS, etcd) shows in no graph.

use super::admission::{self, AdmissionFinding, AdmissionOutcome, ChangeRemedy, Platform, UpdateAuthor};
use super::disruption::{Disruption, PodRunner, hashed_version, is_worker, updates_on_delete, worker_disruption};
use super::gpu_change::{GpuChange, gpu_change, unchanged_gpus};
use super::graph_components::{edit_components, named_components};
use super::registry::MAIN_CONTAINER;
use super::release::{Behaviour, Release};
use super::{kinds, registry};
use crate::object::{FieldPath, Object};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// How sure it is that pods are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// Dynamo's documentation or code says so.
    Stated,
    /// It follows from what changed, and nobody has said or measured it.
    Likely,
}

/// A change of the operator by which pods are replaced when it takes over.
struct RestartRule {
    cause: Behaviour,
    certainty: Certainty,
    /// Whether the workers get another hash, and are all replaced as by a change of one.
    rehashes: bool,
    /// Whether it only counts on the way back.
    only_back: bool,
    touches: fn(&Value, &GraphView<'_>) -> bool,
}

/// What a rule is asked of, beside a component.
struct GraphView<'a> {
    graph: &'a Object,
    runner: PodRunner,
}

const fn rule(cause: Behaviour, certainty: Certainty, touches: fn(&Value, &GraphView<'_>) -> bool) -> RestartRule {
    RestartRule { cause, certainty, rehashes: false, only_back: false, touches }
}

const RESTARTING: &[RestartRule] = &[
    rule(Behaviour::MemoryClientsChanged, Certainty::Likely, |component, _| {
        component.pointer("/experimental/gpuMemoryService").is_some_and(Value::is_object)
    }),
    rule(Behaviour::PickerLogsLess, Certainty::Likely, |component, of| {
        is_picker(component) && !env_of(component, of.graph).contains("RUST_LOG")
    }),
    rule(Behaviour::LeaderVariablesAdded, Certainty::Likely, |component, of| {
        of.engine() == Some("trtllm") && is_worker(component) && is_grouped(component)
    }),
    rule(Behaviour::ElasticExpertsWrapped, Certainty::Stated, |component, of| {
        let args = main_words(component, "args");
        of.engine() == Some("vllm") && !is_grouped(component) && admission::starts_elastic_experts(&args)
    }),
    rule(Behaviour::PickerCacheWithheld, Certainty::Stated, |component, _| {
        is_picker(component) && component.get("eppConfig").is_some_and(Value::is_object)
    }),
    RestartRule {
        rehashes: true,
        ..rule(Behaviour::CheckpointsBySnapshots, Certainty::Likely, |component, _| {
            is_worker(component) && has_checkpoint(component)
        })
    },
    RestartRule {
        rehashes: true,
        ..rule(Behaviour::ResolvedVersionHashed, Certainty::Stated, |component, _| {
            is_worker(component) && hashed_version(component).is_some()
        })
    },
    // Names get their suffix with the next change of a worker, and lose it at once.
    RestartRule {
        rehashes: true,
        only_back: true,
        ..rule(Behaviour::GroveWorkersRollTogether, Certainty::Likely, |component, of| {
            of.runner == PodRunner::Grove && is_worker(component)
        })
    },
];

impl GraphView<'_> {
    fn engine(&self) -> Option<&str> {
        self.graph.spec().get("backendFramework").and_then(Value::as_str)
    }

    /// The components that a rule is about, sorted.
    fn touched_by(&self, rule: &RestartRule) -> Vec<String> {
        let all = || named_components(self.graph.spec());
        let touched: BTreeSet<&str> =
            all().filter(|(_, component)| (rule.touches)(component, self)).map(|(name, _)| name).collect();
        let all_workers = rule.rehashes && !touched.is_empty();
        all()
            .filter(|(name, component)| touched.contains(name) || (all_workers && is_worker(component)))
            .map(|(name, _)| name.to_owned())
            .collect::<BTreeSet<String>>()
            .into_iter()
            .collect()
    }

    fn disruption_by(&self, rule: &RestartRule, components: &[String], release: Release) -> Disruption {
        if rule.rehashes {
            return worker_disruption(self.runner, self.graph, release);
        }
        let is_touched = |name: &str| components.iter().any(|own| own == name);
        let has_workers = named_components(self.graph.spec()).any(|(name, one)| is_worker(one) && is_touched(name));
        match self.runner {
            PodRunner::Grove if updates_on_delete(self.graph, release) => Disruption::OnDelete,
            PodRunner::Grove | PodRunner::Groups if has_workers => Disruption::NativeRoll,
            // In place, with surge pods, and under the hash that they have.
            PodRunner::Deployments if has_workers => Disruption::RollingRestart,
            PodRunner::Grove | PodRunner::Groups | PodRunner::Deployments => Disruption::FrontendRoll,
        }
    }
}

/// Pods that the operator replaces when it takes over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorRestart {
    /// Why: the change of the operator.
    pub cause: Behaviour,
    /// How sure it is.
    pub certainty: Certainty,
    /// The components, sorted.
    pub components: Vec<String>,
    /// How they are replaced.
    pub disruption: Disruption,
}

/// The pods of a graph that an operator of release `to` replaces by itself when it takes over from one of `from`, which may
/// be the newer one. `platform` says what the cluster has beside Dynamo; its release does not count.
pub fn operator_restarts(graph: &Object, from: Release, to: Release, platform: &Platform) -> Vec<OperatorRestart> {
    let (older, newer) = (from.min(to), from.max(to));
    let view = GraphView { graph, runner: PodRunner::of(graph, graph, platform) };
    let crossed = RESTARTING.iter().filter(|rule| !older.has(rule.cause) && newer.has(rule.cause));
    crossed
        .filter(|rule| !rule.only_back || to < from)
        .filter_map(|rule| {
            let components = view.touched_by(rule);
            (!components.is_empty()).then(|| OperatorRestart {
                cause: rule.cause,
                certainty: rule.certainty,
                disruption: view.disruption_by(rule, &components, to),
                components,
            })
        })
        .collect()
}

/// The GPUs of a graph while the operator replaces these pods, at the most.
pub fn restart_gpus(graph: &Object, restarts: &[OperatorRestart]) -> GpuChange {
    let Some(worst) = restarts.iter().map(|one| one.disruption).max() else { return unchanged_gpus(graph) };
    let replaced: BTreeSet<&str> = restarts.iter().flat_map(|one| &one.components).map(String::as_str).collect();
    // What makes their pods others is not known in full, and that they are is enough.
    let after = edit_components(graph, |name, component| {
        if replaced.contains(name) {
            component.insert("replacedByOperator".to_owned(), Value::Bool(true));
        }
    });
    let class = if worst == Disruption::RollingRestart { Disruption::ManagedRoll } else { worst };
    gpu_change(Some(graph), Some(&after), class)
}

/// A field that can no longer be changed in place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FrozenField {
    /// The field.
    pub path: FieldPath,
    /// What is forbidden about it, in a sentence.
    pub message: String,
}

/// The fields of an object that release `to` freezes and `from` does not. Found by trying: each field is taken away, and the
/// rules of both releases are asked.
pub fn newly_frozen(object: &Object, from: Release, to: Release, platform: &Platform) -> Vec<FrozenField> {
    let before: BTreeSet<FieldPath> = frozen_fields(object, from, platform).into_iter().map(|one| one.path).collect();
    let mut frozen = frozen_fields(object, to, platform);
    // What is the operator's to write was never anybody else's to change.
    let is_operators = |path: &FieldPath| path.last_field().is_some_and(registry::is_operator_key);
    frozen.retain(|one| !before.contains(&one.path) && !is_operators(&one.path));
    frozen.sort();
    frozen.dedup();
    frozen
}

fn frozen_fields(object: &Object, release: Release, platform: &Platform) -> Vec<FrozenField> {
    let platform = Platform { dynamo: Some(release), served: None, ..platform.clone() };
    let mut value = object.value().clone();
    admission::fill_on_create(object.kind(), &mut value, &platform, &format!("{release}.0"));
    if object.kind() == kinds::REQUEST.kind {
        // The phase in which a request waits for people.
        value["status"] = json!({"phase": "Ready"});
    }
    let Ok(whole) = Object::from_value(value) else { return Vec::new() };
    let mut places = Vec::new();
    collect_places(whole.value(), String::new(), &mut places);
    let tried = places.into_iter().filter_map(|pointer| {
        let without = whole.clone().map(|mut value| {
            remove_at(&mut value, &pointer);
            value
        });
        without.ok()
    });
    let is_frozen =
        |one: &AdmissionFinding| one.remedy == ChangeRemedy::Replace && one.outcome == AdmissionOutcome::Denied;
    tried
        .flat_map(|without| admission::check_update(&whole, &without, UpdateAuthor::Operator, release))
        .filter(is_frozen)
        .map(|one| FrozenField { path: one.path, message: one.message })
        .collect()
}

/// Pointers to the fields of a document that rules of updates may look at: not into what a pod is made of.
fn collect_places(value: &Value, pointer: String, places: &mut Vec<String>) {
    let below: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, field)| (name.clone(), field)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    for (name, field) in below {
        let is_desired = !pointer.is_empty() || matches!(name.as_str(), "spec" | "metadata");
        let is_name = matches!(name.as_str(), "name" | "namespace" | "uid" | "managedFields");
        if !is_desired || is_name {
            continue;
        }
        let place = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
        if pointer.ends_with("/podTemplate") && name == "spec" {
            places.push(place);
            continue;
        }
        // A component that is gone says nothing of its fields.
        if !pointer.ends_with("/components") && !matches!(place.as_str(), "/spec" | "/metadata" | "/spec/components") {
            places.push(place.clone());
        }
        collect_places(field, place, places);
    }
}

fn remove_at(value: &mut Value, pointer: &str) {
    let Some((above, name)) = pointer.rsplit_once('/') else { return };
    let name = name.replace("~1", "/").replace("~0", "~");
    match value.pointer_mut(above) {
        Some(Value::Object(fields)) => drop(fields.remove(&name)),
        Some(Value::Array(items)) => {
            if let Some(index) = name.parse().ok().filter(|index| *index < items.len()) {
                items.remove(index);
            }
        }
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => {}
    }
}

fn has_checkpoint(component: &Value) -> bool {
    let checkpoint = component.pointer("/experimental/checkpoint").filter(|one| one.is_object());
    checkpoint.is_some_and(|one| one.get("enabled") != Some(&Value::Bool(false)))
}

fn is_grouped(component: &Value) -> bool {
    component.get("multinode").is_some_and(Value::is_object)
}

fn main_container(component: &Value) -> Option<&Map<String, Value>> {
    let containers = component.pointer("/podTemplate/spec/containers")?.as_array()?;
    containers.iter().find(|one| one.get("name").and_then(Value::as_str) == Some(MAIN_CONTAINER))?.as_object()
}

fn main_words<'a>(component: &'a Value, list: &str) -> Vec<&'a str> {
    let words = main_container(component).and_then(|main| main.get(list)?.as_array());
    words.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn is_picker(component: &Value) -> bool {
    component.get("type").and_then(Value::as_str) == Some("epp")
}

/// The variables that a component's main container has by its own wish or the graph's.
fn env_of<'a>(component: &'a Value, graph: &'a Object) -> BTreeSet<&'a str> {
    let own = main_container(component).and_then(|main| main.get("env"));
    let lists = [own, graph.spec().get("env")].into_iter().flatten().filter_map(Value::as_array);
    lists.flatten().filter_map(|one| one.get("name")?.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(spec: Value, annotations: Value) -> Object {
        let value = json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
            "metadata": {"name": "q", "namespace": "prod", "annotations": annotations}, "spec": spec,
        });
        Object::from_value(value).unwrap()
    }

    fn component(name: &str, kind: &str, image: &str, more: Value) -> Value {
        let main = json!({"name": "main", "image": image, "resources": {"limits": {"nvidia.com/gpu": "2"}}});
        let mut value =
            json!({"name": name, "type": kind, "replicas": 4, "podTemplate": {"spec": {"containers": [main]}}});
        let fields = more.as_object().unwrap();
        fields.iter().for_each(|(field, more)| value[field] = more.clone());
        value
    }

    fn told(graph: &Object, from: Release, to: Release, platform: &Platform) -> String {
        let restarts = operator_restarts(graph, from, to, platform);
        let peak = restart_gpus(graph, &restarts).totals.peak;
        let lines: Vec<String> = restarts
            .iter()
            .map(|one| format!("{:?} {:?} {} {}\n", one.cause, one.certainty, one.disruption, one.components.join("+")))
            .collect();
        format!("{}peak {peak}\n", lines.concat())
    }

    #[test]
    fn workers_whose_version_is_hashed_from_a_release_on_are_replaced_together_by_that_release() {
        let of = |image: &str| {
            let components =
                [component("a", "prefill", image, json!({})), component("b", "decode", "x:1.2.0", json!({}))];
            graph(json!({"backendFramework": "vllm", "components": components}), Value::Null)
        };
        let platform = Platform::default();
        let told = |image: &str, from, to| told(&of(image), from, to, &platform);
        insta::assert_snapshot!(told("x:1.5.0", Release::V1_2, Release::V1_5), @"
        ResolvedVersionHashed Stated managed-roll a+b
        peak 20
        ");
        insta::assert_snapshot!(told("x:1.5.0", Release::V1_5, Release::V1_4), @"
        ResolvedVersionHashed Stated managed-roll a+b
        peak 20
        ");
        for quiet in [
            told("x:1.5.0", Release::V1_2, Release::V1_4),
            told("x:1.4.9", Release::V1_2, Release::V1_5),
            told("x@sha256:00", Release::V1_2, Release::V1_5),
            told("x:1.5.0", Release::V1_5, Release::V1_5),
        ] {
            assert_eq!(quiet, "peak 16\n");
        }
    }

    #[test]
    fn what_runs_the_pods_decides_how_the_operator_replaces_them() {
        let pickers = json!({"eppConfig": {"config": {}}});
        let grouped = component("w", "worker", "x:1.2.0", json!({"multinode": {"nodeCount": 2}}));
        let memory =
            component("m", "worker", "x:1.2.0", json!({"experimental": {"gpuMemoryService": {"mode": "IntraPod"}}}));
        let checkpoint = component("c", "worker", "x:1.2.0", json!({"experimental": {"checkpoint": {"mode": "Auto"}}}));
        let of =
            |engine: &str, one: &Value| graph(json!({"backendFramework": engine, "components": [one]}), Value::Null);
        let told = |object: &Object, platform: &Platform| told(object, Release::V1_2, Release::V1_5, platform);
        let (bare, grove) = (Platform::default(), Platform::from_api_groups(["grove.io"]));
        let picker = component("p", "epp", "x:1.2.0", pickers);
        let elastic = {
            let mut one = component("e", "worker", "x:1.2.0", json!({}));
            one["podTemplate"]["spec"]["containers"][0]["args"] =
                json!(["--enable-elastic-ep", "--data-parallel-backend", "ray"]);
            one
        };
        let shown = [
            told(&of("vllm", &picker), &bare),
            told(&of("trtllm", &grouped), &bare),
            told(&of("vllm", &grouped), &bare),
            told(&of("vllm", &memory), &bare),
            told(&of("vllm", &memory), &grove),
            told(&of("vllm", &checkpoint), &bare),
            told(&of("vllm", &elastic), &bare),
        ];
        insta::assert_snapshot!(shown.concat(), @"
        PickerLogsLess Likely frontend-roll p
        PickerCacheWithheld Stated frontend-roll p
        peak 10
        LeaderVariablesAdded Likely native-roll w
        peak 16
        peak 16
        MemoryClientsChanged Likely rolling-restart m
        peak 10
        MemoryClientsChanged Likely native-roll m
        peak 8
        CheckpointsBySnapshots Likely managed-roll c
        peak 10
        ElasticExpertsWrapped Stated rolling-restart e
        peak 10
        ");
    }

    #[test]
    fn a_grove_that_loses_its_suffix_replaces_every_worker_on_the_way_back() {
        let worker = graph(json!({"components": [component("w", "worker", "x:1.2.0", json!({}))]}), Value::Null);
        let grove = Platform::from_api_groups(["grove.io"]);
        assert_eq!(told(&worker, Release::V1_4, Release::V1_5, &grove), "peak 8\n");
        insta::assert_snapshot!(told(&worker, Release::V1_5, Release::V1_4, &grove), @"
        GroveWorkersRollTogether Likely native-roll w
        peak 8
        ");
    }

    #[test]
    fn what_a_release_freezes_is_found_by_trying() {
        let limit = json!({"podTemplate": {
            "metadata": {"annotations": {"dynamo.nvidia.com/gpu-power-limit": "300"}},
            "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
        }});
        let worker = component("w", "worker", "x:1.2.0", limit);
        let of = graph(json!({"components": [worker]}), json!({"nvidia.com/enable-grove": "true"}));
        let frozen = |from, to, platform: &Platform| {
            let found = newly_frozen(&of, from, to, platform);
            found.into_iter().map(|one| one.path.to_string()).collect::<Vec<_>>()
        };
        let (bare, grove) = (Platform::default(), Platform::from_api_groups(["grove.io"]));
        let limit = r#"spec.components[name=w].podTemplate.metadata.annotations["dynamo.nvidia.com/gpu-power-limit"]"#;
        assert_eq!(frozen(Release::V1_2, Release::V1_4, &bare), Vec::<String>::new());
        assert_eq!(frozen(Release::V1_2, Release::V1_5, &bare), ["spec.components[name=w].podTemplate", limit]);
        let minimum = "spec.components[name=w].minAvailable";
        assert_eq!(
            frozen(Release::V1_2, Release::V1_5, &grove),
            [minimum, "spec.components[name=w].podTemplate", limit]
        );
        assert_eq!(frozen(Release::V1_5, Release::V1_2, &grove), Vec::<String>::new());

        let request = json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentRequest",
            "metadata": {"name": "q", "namespace": "prod"}, "spec": {"model": "m", "autoApply": false},
        });
        let request = Object::from_value(request).unwrap();
        let frozen = newly_frozen(&request, Release::V1_3, Release::V1_4, &bare);
        assert_eq!(frozen.len(), 1, "{frozen:?}");
        assert_eq!(newly_frozen(&request, Release::V1_4, Release::V1_5, &bare), []);
    }
}
