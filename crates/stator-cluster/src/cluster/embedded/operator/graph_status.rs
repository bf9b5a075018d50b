//! The status of a graph while the simulated operator works on it.

use super::component::SimulatedComponent;
use super::script::condition;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What a component's children count.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ComponentReplicaCounts {
    pub(super) names: Vec<String>,
    pub(super) multinode: bool,
    pub(super) replicas: i64,
    pub(super) updated: i64,
    pub(super) ready: i64,
}

impl ComponentReplicaCounts {
    /// All of them there and ready, or none of them yet.
    pub(super) fn all_or_none_ready(component: &SimulatedComponent, child: String, replicas: i64, ready: i64) -> Self {
        Self { names: vec![child], multinode: component.multinode, replicas, updated: replicas, ready }
    }

    fn from_status(value: &Value) -> Self {
        let number = |field: &str| value.get(field).and_then(Value::as_i64).unwrap_or(0);
        let names = value.get("componentNames").and_then(Value::as_array).into_iter().flatten();
        Self {
            names: names.filter_map(Value::as_str).map(str::to_owned).collect(),
            multinode: value.get("componentKind") == Some(&json!("LeaderWorkerSet")),
            replicas: number("replicas"),
            updated: number("updatedReplicas"),
            ready: number("readyReplicas"),
        }
    }

    fn to_status(&self) -> Value {
        let mut value = json!({
            "componentKind": if self.multinode { "LeaderWorkerSet" } else { "Deployment" },
            "componentNames": self.names,
            "replicas": self.replicas,
            "updatedReplicas": self.updated,
            "readyReplicas": self.ready,
        });
        if !self.multinode
            && let Some(map) = value.as_object_mut()
        {
            map.insert("availableReplicas".to_owned(), json!(self.ready));
        }
        value
    }
}

/// The status of a graph in the making.
#[derive(Clone, Debug, Default)]
pub(super) struct GraphStatusView {
    pub(super) generation: i64,
    pub(super) components: BTreeMap<String, ComponentReplicaCounts>,
    /// Why each child is not ready.
    pub(super) waiting: BTreeMap<String, String>,
    /// Phase and the components that are through.
    pub(super) rolling: Option<(String, Vec<String>)>,
    pub(super) restart: Option<Value>,
}

impl GraphStatusView {
    /// The view that a status shows.
    pub(super) fn from_status(status: &Value, generation: i64) -> Self {
        let components = status.get("components").and_then(Value::as_object).into_iter().flatten();
        Self {
            generation,
            components: components
                .map(|(name, value)| (name.clone(), ComponentReplicaCounts::from_status(value)))
                .collect(),
            waiting: BTreeMap::new(),
            rolling: status.get("rollingUpdate").map(|roll| {
                let through = roll.get("updatedComponents").and_then(Value::as_array).into_iter().flatten();
                (
                    roll.get("phase").and_then(Value::as_str).unwrap_or_default().to_owned(),
                    through.filter_map(Value::as_str).map(str::to_owned).collect(),
                )
            }),
            restart: status.get("restart").cloned(),
        }
    }

    /// Whether a managed rollout is under way.
    pub(super) fn is_rolling(&self) -> bool {
        matches!(self.rolling.as_ref().map(|(phase, _)| phase.as_str()), Some("Pending" | "InProgress"))
    }

    /// The status, in the operator's words.
    pub(super) fn to_status(&self) -> Value {
        let (state, ready) = if self.is_rolling() {
            ("pending", condition("Ready", false, "rolling_update_in_progress", "Rolling update in progress", None))
        } else if self.waiting.is_empty() {
            ("successful", condition("Ready", true, "all_resources_are_ready", "All resources are ready", None))
        } else {
            let list: Vec<String> = self.waiting.iter().map(|(child, why)| format!("{child}: {why}")).collect();
            let message = format!("Resources not ready: {}", list.join("; "));
            ("pending", condition("Ready", false, "some_resources_are_not_ready", &message, None))
        };
        let mut status = json!({"state": state, "observedGeneration": self.generation, "conditions": [ready]});
        let Some(map) = status.as_object_mut() else { return status };
        if !self.components.is_empty() {
            let components: Map<String, Value> =
                self.components.iter().map(|(name, counts)| (name.clone(), counts.to_status())).collect();
            map.insert("components".to_owned(), Value::Object(components));
        }
        if let Some((phase, through)) = &self.rolling {
            let mut roll = json!({"phase": phase});
            if !through.is_empty() {
                roll["updatedComponents"] = json!(through);
            }
            map.insert("rollingUpdate".to_owned(), roll);
        }
        if let Some(restart) = &self.restart {
            map.insert("restart".to_owned(), restart.clone());
        }
        status
    }
}
