//! How many replicas of each component of a graph are there, by the graph's own status.

use super::gpus::replicas;
use super::graph_components::named_components;
use crate::object::Object;
use serde_json::Value;

/// One component of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentReadiness {
    /// The component's name.
    pub name: String,
    /// Replicas that the graph asks for; 1 when it does not say.
    pub wanted: u64,
    /// Replicas that are ready, as far as the operator has reported: 0 before it did.
    pub ready: u64,
    /// Replicas of the newest pod template, where the operator reports them.
    pub updated: Option<u64>,
}

impl ComponentReadiness {
    /// Whether as many are ready as are asked for.
    pub fn is_ready(&self) -> bool {
        self.ready >= self.wanted
    }
}

/// The components of a graph in its order; none of any other object.
pub fn component_readiness(graph: &Object) -> Vec<ComponentReadiness> {
    if graph.kind() != super::kinds::GRAPH.kind {
        return Vec::new();
    }
    let reported = graph.status().get("components");
    named_components(graph.spec())
        .map(|(name, component)| {
            let status = reported.and_then(|all| all.get(name));
            let number = |field: &str| status.and_then(|one| one.get(field)).and_then(Value::as_u64);
            ComponentReadiness {
                name: name.to_owned(),
                wanted: replicas(component),
                ready: number("readyReplicas").or_else(|| number("availableReplicas")).unwrap_or(0),
                updated: number("updatedReplicas"),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_operator_has_not_reported_is_not_ready() {
        let graph = Object::from_value(json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
            "metadata": {"name": "llama", "namespace": "prod"},
            "spec": {"components": [{"name": "frontend"}, {"name": "decode", "replicas": 3}, {"name": "idle", "replicas": 0}]},
            "status": {"components": {"decode": {"readyReplicas": 2, "updatedReplicas": 1}}},
        }))
        .unwrap();
        let seen: Vec<String> = component_readiness(&graph)
            .iter()
            .map(|one| format!("{} {}/{} {:?} {}", one.name, one.ready, one.wanted, one.updated, one.is_ready()))
            .collect();
        assert_eq!(seen, ["frontend 0/1 None false", "decode 2/3 Some(1) false", "idle 0/0 None true"]);
    }
}
