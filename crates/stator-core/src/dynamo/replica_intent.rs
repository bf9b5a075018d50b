//! Who says how many replicas a component of a graph has: read once of what git wants, and carried along to the apply.
//!
//! Dynamo has three ways to leave a count to somebody else:
//! - `components[].scalingAdapter`: the operator makes a DynamoGraphDeploymentScalingAdapter for the component and copies
//!   that one's `spec.replicas` into the graph; whatever scales (a HorizontalPodAutoscaler, KEDA, a planner) scales the
//!   adapter. Admission then denies whoever else changes the count
//!   (`deploy/operator/internal/controller/dynamographdeploymentscalingadapter_controller.go`).
//! - A component of type `planner`, whose settings say `environment: kubernetes` and not `advisory`: it writes the counts of
//!   the workers of its `mode` (`components/src/dynamo/planner/config`), through their adapters or into the graph itself.
//! - Nothing at all: the operator's webhook makes 1 of a count that is left out, and any `kubectl scale` another.

use super::registry::MAIN_CONTAINER;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Who says how many replicas one component has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaIntent {
    /// git does: the count is part of what stator applies.
    Git(u64),
    /// git does, and whoever else wrote another count keeps it: the graph has a planner that does not say that it scales
    /// this component, as its settings cannot be read, are advisory or are of another mode. Applied, until it is disputed.
    Yielding(u64),
    /// A scaling adapter or a planner does. git says with how many the component starts: the graph is created with so many,
    /// a second field manager holds them, and stator lets go of them. Nothing is applied for a graph that is there.
    Seed(u64),
    /// Somebody else does, from the start: a scaling adapter or a planner where git gives no count to start with, or,
    /// where nothing scales the component, the operator's webhook. Nothing is ever applied.
    Delegated,
}

impl ReplicaIntent {
    /// The count that git gives, be it to stay or to start with.
    pub fn count(self) -> Option<u64> {
        match self {
            Self::Git(count) | Self::Yielding(count) | Self::Seed(count) => Some(count),
            Self::Delegated => None,
        }
    }

    /// Whether an object that is there is held to the count.
    pub fn is_applied(self) -> bool {
        match self {
            Self::Git(_) | Self::Yielding(_) => true,
            Self::Seed(_) | Self::Delegated => false,
        }
    }
}

/// Who says how many replicas the components of one graph have, by name. Empty for what is no graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaIntents(Box<[(Box<str>, ReplicaIntent)]>);

impl ReplicaIntents {
    /// Reads them off a graph as git has it, and takes the counts out that are not git's to keep: what stays is what stator
    /// applies.
    pub fn take_from(graph: &mut Map<String, Value>) -> Self {
        let Some(Value::Array(components)) = graph.get_mut("spec").and_then(|spec| spec.get_mut("components")) else {
            return Self::default();
        };
        let scaled = scaled_components(components);
        let may_yield = components.iter().any(is_planner);
        let mut intents: BTreeMap<String, ReplicaIntent> = BTreeMap::new();
        for component in components.iter_mut().filter_map(Value::as_object_mut) {
            let Some(name) = component.get("name").and_then(Value::as_str).map(str::to_owned) else { continue };
            let is_scaled = scaled.contains(&name);
            let written = if is_scaled { component.remove("replicas") } else { component.get("replicas").cloned() };
            let intent = match written.as_ref().and_then(Value::as_u64) {
                None => ReplicaIntent::Delegated,
                Some(count) if is_scaled => ReplicaIntent::Seed(count),
                Some(count) if may_yield => ReplicaIntent::Yielding(count),
                Some(count) => ReplicaIntent::Git(count),
            };
            intents.insert(name, intent);
        }
        Self(intents.into_iter().map(|(name, intent)| (name.into(), intent)).collect())
    }

    /// Of one component; `None` where the graph has none of that name.
    pub fn get(&self, component: &str) -> Option<ReplicaIntent> {
        self.0.iter().find(|(name, _)| **name == *component).map(|(_, intent)| *intent)
    }

    /// Whether the graph has the component, and stator applies no count for it.
    pub fn is_left_to_others(&self, component: &str) -> bool {
        self.get(component).is_some_and(|intent| !intent.is_applied())
    }

    /// How many replicas components start with whose count is somebody else's from then on.
    pub fn seeds(&self) -> BTreeMap<String, u64> {
        let seed = |(name, intent): &(Box<str>, ReplicaIntent)| match intent {
            ReplicaIntent::Seed(count) => Some((name.to_string(), *count)),
            ReplicaIntent::Git(_) | ReplicaIntent::Yielding(_) | ReplicaIntent::Delegated => None,
        };
        self.0.iter().filter_map(seed).collect()
    }

    /// Leaves a disputed count to whoever wrote it, where git does not insist on it. True where it was left.
    pub fn yield_count(&mut self, component: &str) -> bool {
        let found = self.0.iter_mut().find(|(name, _)| **name == *component);
        match found.map(|(_, intent)| intent) {
            Some(intent @ ReplicaIntent::Yielding(_)) => {
                *intent = ReplicaIntent::Delegated;
                true
            }
            Some(ReplicaIntent::Git(_) | ReplicaIntent::Seed(_) | ReplicaIntent::Delegated) | None => false,
        }
    }
}

/// The components that something scales: those with a scaling adapter, and the workers that the graph's planner covers.
pub fn scaled_components(components: &[Value]) -> BTreeSet<String> {
    let planners: Vec<PlannerScope> = components.iter().filter_map(planner_scope).collect();
    let covered = |component: &Value| {
        let component_type = component.get("type").and_then(Value::as_str);
        planners.iter().any(|scope| scope.covers(component_type))
    };
    let scaled = components.iter().filter(|component| has_scaling_adapter(component) || covered(component));
    scaled.filter_map(|component| component.get("name")?.as_str()).map(str::to_owned).collect()
}

/// Whether a component hands its count to a scaling adapter.
pub fn has_scaling_adapter(component: &Value) -> bool {
    component.get("scalingAdapter").is_some_and(|adapter| !adapter.is_null())
}

fn is_planner(component: &Value) -> bool {
    component.get("type").and_then(Value::as_str) == Some("planner")
}

/// The workers that a planner scales, by its `mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlannerScope {
    Prefill,
    Decode,
    All,
}

impl PlannerScope {
    fn covers(self, component_type: Option<&str>) -> bool {
        match component_type {
            Some("prefill") => matches!(self, Self::Prefill | Self::All),
            Some("decode") => matches!(self, Self::Decode | Self::All),
            Some("worker") => self == Self::All,
            Some(_) | None => false,
        }
    }
}

/// Which workers a component scales, when it is a planner that does; settings that cannot be read count as none.
fn planner_scope(component: &Value) -> Option<PlannerScope> {
    if !is_planner(component) {
        return None;
    }
    let mut containers = component.pointer("/podTemplate/spec/containers")?.as_array()?.iter();
    let main = containers.find(|one| one.get("name").and_then(Value::as_str) == Some(MAIN_CONTAINER))?;
    let args = main.get("args")?.as_array()?;
    let position = args.iter().position(|argument| argument.as_str() == Some("--config"))?;
    let config: Map<String, Value> = serde_json::from_str(args.get(position + 1)?.as_str()?).ok()?;
    let kubernetes = config.get("environment").and_then(Value::as_str) == Some("kubernetes");
    let advisory = config.get("advisory").and_then(Value::as_bool) == Some(true);
    if !kubernetes || advisory {
        return None;
    }
    Some(match config.get("mode").and_then(Value::as_str) {
        Some("prefill") => PlannerScope::Prefill,
        Some("decode") => PlannerScope::Decode,
        Some(_) | None => PlannerScope::All,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamo::graph_components::{named_components, with_replicas};
    use crate::object::Object;
    use proptest::prelude::*;
    use serde_json::json;

    fn planner(config: &str) -> Value {
        let main = json!({"name": "main", "args": ["--config", config]});
        json!({"name": "planner", "type": "planner", "replicas": 1, "podTemplate": {"spec": {"containers": [main]}}})
    }

    fn graph(components: Vec<Value>) -> Map<String, Value> {
        let value = json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
            "metadata": {"name": "chat", "namespace": "prod"}, "spec": {"components": components},
        });
        value.as_object().cloned().unwrap_or_default()
    }

    fn any_component(name: &'static str) -> impl Strategy<Value = Value> {
        let types = ["frontend", "worker", "prefill", "decode", "epp"];
        let adapter = prop_oneof![Just(None), Just(Some(json!({}))), Just(Some(Value::Null))];
        (prop::option::of(prop::sample::select(types.to_vec())), prop::option::of(0_u64..9), adapter).prop_map(
            move |(kind, replicas, adapter)| {
                let mut component = json!({"name": name, "podTemplate": {"spec": {"containers": []}}});
                for (field, value) in [
                    ("type", kind.map(Value::from)),
                    ("replicas", replicas.map(Value::from)),
                    ("scalingAdapter", adapter),
                ] {
                    if let Some(value) = value {
                        component[field] = value;
                    }
                }
                component
            },
        )
    }

    fn any_graph() -> impl Strategy<Value = Map<String, Value>> {
        let configs = [
            r#"{"environment":"kubernetes"}"#,
            r#"{"environment":"kubernetes","mode":"decode"}"#,
            r#"{"environment":"kubernetes","mode":"prefill"}"#,
            r#"{"environment":"kubernetes","advisory":true}"#,
            r#"{"environment":"virtual"}"#,
            "/etc/planner.yaml",
        ];
        let planner = prop::option::of(prop::sample::select(configs.to_vec()).prop_map(planner));
        (any_component("a"), any_component("b"), any_component("c"), planner)
            .prop_map(|(a, b, c, planner)| graph([Some(a), Some(b), Some(c), planner].into_iter().flatten().collect()))
    }

    fn intents_of(components: Vec<Value>) -> Vec<(String, ReplicaIntent)> {
        ReplicaIntents::take_from(&mut graph(components))
            .0
            .into_iter()
            .map(|(name, intent)| (name.to_string(), intent))
            .collect()
    }

    #[test]
    fn every_owner_of_a_count_is_told_apart() {
        use ReplicaIntent::{Delegated, Git, Seed, Yielding};
        let worker = |name: &str, kind: &str| json!({"name": name, "type": kind, "replicas": 3});
        let adapted = json!({"name": "adapted", "type": "worker", "replicas": 2, "scalingAdapter": {}});
        let unsaid = json!({"name": "unsaid", "type": "worker"});
        let intents = |components| intents_of(components).into_iter().map(|(_, intent)| intent).collect::<Vec<_>>();
        assert_eq!(intents(vec![adapted, unsaid, worker("written", "worker")]), [Seed(2), Delegated, Git(3)]);
        let beside = |config: &str| intents(vec![worker("d", "decode"), worker("p", "prefill"), planner(config)]);
        assert_eq!(beside(r#"{"environment":"kubernetes"}"#), [Seed(3), Seed(3), Yielding(1)]);
        assert_eq!(beside(r#"{"environment":"kubernetes","mode":"prefill"}"#), [Yielding(3), Seed(3), Yielding(1)]);
        assert_eq!(beside("/etc/planner.yaml"), [Yielding(3), Yielding(3), Yielding(1)]);
    }

    proptest! {
        /// What is applied has exactly the counts that are git's, and with those that components start with it is what git
        /// has.
        #[test]
        fn counts_are_taken_out_once_and_nothing_is_lost(original in any_graph()) {
            let mut applied = original.clone();
            let intents = ReplicaIntents::take_from(&mut applied);
            for (name, component) in named_components(&applied["spec"]) {
                let intent = intents.get(name);
                prop_assert!(intent.is_some());
                let count = intent.filter(|one| one.is_applied()).and_then(ReplicaIntent::count);
                prop_assert_eq!(component.get("replicas").and_then(Value::as_u64), count);
                prop_assert_eq!(intents.is_left_to_others(name), component.get("replicas").is_none());
                prop_assert!(!has_scaling_adapter(component) || intents.is_left_to_others(name));
            }
            let mut again = applied.clone();
            let reread = ReplicaIntents::take_from(&mut again);
            prop_assert_eq!(&again, &applied);
            prop_assert!(reread.seeds().is_empty());
            let applied = Object::from_value(Value::Object(applied)).unwrap();
            prop_assert_eq!(with_replicas(&applied, &intents.seeds()).into_value(), Value::Object(original));
        }
    }
}
