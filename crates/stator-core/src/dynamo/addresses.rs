//! Where clients find a graph: what the operator makes for them, under names that follow from the graph's.

use super::graph_components::named_components;
use crate::object::Object;
use serde_json::Value;
use std::fmt;

/// The port of a frontend's Service, and of an InferencePool in a route.
pub const FRONTEND_PORT_NUMBER: u16 = 8000;

/// The Service of the frontend of a graph, where its component has the usual name.
pub fn frontend_of(graph: &str) -> String {
    format!("{graph}-frontend")
}

/// The InferencePool of the endpoint picker of a graph.
pub fn pool_of(graph: &str) -> String {
    format!("{graph}-pool")
}

/// What clients or routes name to reach a graph.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GraphAddress {
    /// The Service of a frontend, `<graph>-<component>`.
    FrontendService(String),
    /// The InferencePool of an endpoint picker, `<graph>-pool`, which an HTTPRoute names.
    InferencePool(String),
}

impl GraphAddress {
    /// Its name, whatever it is.
    pub fn name(&self) -> &str {
        match self {
            Self::FrontendService(name) | Self::InferencePool(name) => name,
        }
    }
}

impl fmt::Display for GraphAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FrontendService(name) => write!(f, "Service `{name}`"),
            Self::InferencePool(name) => write!(f, "InferencePool `{name}`"),
        }
    }
}

/// The addresses of a graph, in the order of its components.
pub fn graph_addresses(graph: &Object) -> Vec<GraphAddress> {
    let name = graph.name();
    let of_component = |(component, value): (&str, &Value)| match value.get("type").and_then(Value::as_str)? {
        "frontend" => Some(GraphAddress::FrontendService(format!("{name}-{}", component.to_lowercase()))),
        "epp" => Some(GraphAddress::InferencePool(pool_of(name))),
        _ => None,
    };
    named_components(graph.spec()).filter_map(of_component).collect()
}

/// A component whose workers every graph of the namespace finds (`globalDynamoNamespace`), where a graph has one. The others
/// are found in their own graph alone, whose Dynamo namespace is `<namespace>-<graph>`.
pub fn globally_discovered_component(graph: &Object) -> Option<&str> {
    let is_global = |value: &Value| value.get("globalDynamoNamespace").and_then(Value::as_bool) == Some(true);
    named_components(graph.spec()).find(|(_, value)| is_global(value)).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn graph(components: Value) -> Object {
        let graph = json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
            "metadata": {"name": "llama", "namespace": "prod"}, "spec": {"components": components},
        });
        Object::from_value(graph).unwrap()
    }

    /// Upstream's own planner configurations say `http://vllm-disagg-planner-frontend:8000` for a graph
    /// `vllm-disagg-planner` with a component `Frontend`.
    #[test]
    fn clients_find_a_graph_by_names_that_follow_from_its_own() {
        let both = graph(json!([
            {"name": "Frontend", "type": "frontend"}, {"name": "picker", "type": "epp"}, {"name": "worker", "type": "worker"},
        ]));
        let said: Vec<String> = graph_addresses(&both).iter().map(ToString::to_string).collect();
        assert_eq!(said, ["Service `llama-frontend`", "InferencePool `llama-pool`"]);
        assert!(graph_addresses(&graph(json!([{"name": "worker", "type": "worker"}]))).is_empty());
    }

    #[test]
    fn workers_of_the_global_namespace_are_told() {
        let global = graph(json!([
            {"name": "decode", "type": "decode"}, {"name": "worker", "type": "worker", "globalDynamoNamespace": true},
        ]));
        assert_eq!(globally_discovered_component(&global), Some("worker"));
        let own = graph(json!([{"name": "worker", "type": "worker", "globalDynamoNamespace": false}]));
        assert_eq!(globally_discovered_component(&own), None);
    }
}
