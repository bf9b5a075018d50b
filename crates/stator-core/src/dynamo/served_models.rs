//! What the frontend of a graph says that it serves.

use super::graph_components::named_components;
use super::kinds::GRAPH;
use crate::object::Object;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt;

/// The port of a frontend's Service, by name (the operator's `DynamoServicePortName`, release 1.2).
pub const FRONTEND_PORT: &str = "http";
/// Where a frontend lists what it serves, as OpenAI's API does.
pub const MODELS_PATH: &str = "/v1/models";

/// The Service that the operator makes for the frontend of a graph.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrontendService {
    /// The graph's namespace.
    pub namespace: String,
    /// The Service's name.
    pub name: String,
}

impl FrontendService {
    /// That of a graph; `None` where no component of it is a frontend.
    pub fn of_graph(graph: &Object) -> Option<Self> {
        let (component, _) = named_components(graph.spec())
            .find(|(_, component)| graph.kind() == GRAPH.kind && component["type"] == "frontend")?;
        let name = format!("{}-{}", graph.name(), component.to_lowercase());
        Some(Self { namespace: graph.namespace().to_owned(), name })
    }
}

impl fmt::Display for FrontendService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Service {}/{}", self.namespace, self.name)
    }
}

/// What came of asking a frontend for the models that it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrontendAnswer {
    /// Frontends are not asked here.
    NotAsked,
    /// It serves these, by the names that clients ask for.
    Serves(BTreeSet<String>),
    /// It gave no answer that says anything.
    Unknown {
        /// Why, with what to do where somebody can do something.
        why: String,
        /// Whether it may be another in a moment.
        may_pass: bool,
    },
}

impl FrontendAnswer {
    /// What cannot be found out, however often it is asked.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown { why: why.into(), may_pass: false }
    }

    /// What could not be found out this time.
    pub fn unknown_now(why: impl Into<String>) -> Self {
        Self::Unknown { why: why.into(), may_pass: true }
    }

    /// What the body of a frontend's answer says. Anybody may have written it.
    pub fn from_model_list(body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct ModelList {
            data: Vec<ListedModel>,
        }
        #[derive(Deserialize)]
        struct ListedModel {
            id: String,
        }
        match serde_json::from_slice::<ModelList>(body) {
            Ok(list) => Self::Serves(list.data.into_iter().map(|model| model.id).collect()),
            Err(_) => Self::unknown(format!("its {MODELS_PATH} did not answer with a list of models")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_service_of_a_frontend_is_called_after_graph_and_component() {
        let graph = |components: serde_json::Value| {
            Object::from_value(json!({
                "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
                "metadata": {"name": "llama", "namespace": "prod"}, "spec": {"components": components},
            }))
            .unwrap()
        };
        let named = |components| FrontendService::of_graph(&graph(components)).map(|service| service.to_string());
        let frontend = json!([{"name": "Worker", "type": "worker"}, {"name": "Frontend", "type": "frontend"}]);
        assert_eq!(named(frontend), Some("Service prod/llama-frontend".to_owned()));
        assert_eq!(named(json!([{"name": "worker", "type": "worker"}])), None);
        assert_eq!(named(json!("?")), None);
    }

    #[test]
    fn a_list_of_models_is_read_and_anything_else_is_not_known() {
        let list =
            br#"{"object": "list", "data": [{"id": "qwen", "object": "model", "owned_by": "nvidia"}, {"id": "sql"}]}"#;
        let names = ["qwen", "sql"].map(str::to_owned);
        assert_eq!(FrontendAnswer::from_model_list(list), FrontendAnswer::Serves(names.into()));
        assert_eq!(FrontendAnswer::from_model_list(br#"{"data": []}"#), FrontendAnswer::Serves(BTreeSet::new()));
        let deep = "[".repeat(100_000);
        for other in ["", "<html>", "null", "[]", r#"{"data": [{"name": "sql"}]}"#, r#"{"data": "sql"}"#, &deep] {
            let answer = FrontendAnswer::from_model_list(other.as_bytes());
            let unknown = FrontendAnswer::unknown("its /v1/models did not answer with a list of models");
            assert_eq!(answer, unknown, "{}", other.chars().take(40).collect::<String>());
        }
    }
}
