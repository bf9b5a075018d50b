//! What a graph's frontend would list, by the status of the objects around it.

use serde_json::Value;
use stator_core::dynamo::graph_components::named_components;
use stator_core::dynamo::health::AdapterEndpoints;
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};
use stator_core::object::Object;
use std::collections::BTreeSet;

/// A frontend that has no replica ready is reached by nobody. One that has lists the base models of the workers that are
/// ready, and the adapters that are loaded into them.
pub(super) fn list_models(frontend: &FrontendService, graphs: &[Object], adapters: &[Object]) -> FrontendAnswer {
    let Some(graph) = graphs.iter().find(|graph| FrontendService::of_graph(graph).as_ref() == Some(frontend)) else {
        return FrontendAnswer::unknown(format!("there is no {frontend}"));
    };
    let is_ready = |name: &str| {
        let component = graph.status().get("components").and_then(|all| all.get(name));
        component.and_then(|one| one.get("readyReplicas")).and_then(Value::as_u64).is_some_and(|ready| ready > 0)
    };
    let ready: Vec<&Value> =
        named_components(graph.spec()).filter(|(name, _)| is_ready(name)).map(|(_, component)| component).collect();
    if !ready.iter().any(|component| component["type"] == "frontend") {
        return FrontendAnswer::Serves(BTreeSet::new());
    }
    let base = |component: &&Value| component.pointer("/modelRef/name").and_then(Value::as_str).map(str::to_owned);
    let bases: BTreeSet<String> = ready.iter().filter_map(base).collect();
    let is_loaded = |adapter: &&Object| {
        let loaded = adapter.status().get("readyEndpoints").and_then(Value::as_u64);
        loaded.is_some_and(|loaded| loaded > 0) && !adapter.is_deleting()
    };
    let loaded = adapters.iter().filter(is_loaded).filter_map(AdapterEndpoints::from_adapter);
    let names: Vec<String> =
        loaded.filter(|adapter| bases.contains(&adapter.base_model)).map(|adapter| adapter.served_name).collect();
    FrontendAnswer::Serves(bases.into_iter().chain(names).collect())
}
