//! What the operator does with a DynamoModel: finds the workers that serve its base model and loads it into each.

use super::component;
use super::script::{ScriptStep, condition};
use serde_json::{Value, json};
use stator_core::dynamo::release::Release;
use stator_core::object::Object;
use std::time::Duration;

/// Loading one adapter into running engines.
const LOAD_TIME: Duration = Duration::from_millis(800);

/// Where a base model is served: `(pod, ready)`, sorted.
pub(super) fn adapter_endpoints<'a>(
    model: &Object,
    graphs: impl Iterator<Item = &'a Object>,
    release: Release,
) -> Vec<(String, bool)> {
    let base = model.str_at("/spec/baseModelName");
    let mut found = Vec::new();
    for graph in graphs.filter(|graph| graph.namespace() == model.namespace() && !graph.is_deleting()) {
        for own in component::components(graph, release)
            .iter()
            .filter(|own| own.model.is_some() && own.model.as_deref() == base)
        {
            let counts = graph.status().get("components").and_then(|all| all.get(&own.name));
            let number = |field: &str| counts.and_then(|own| own.get(field)).and_then(Value::as_i64).unwrap_or(0);
            let ready = number("readyReplicas");
            for index in 0..number("replicas").min(1000) {
                found.push((format!("{}-{}-{index}", graph.name(), own.name.to_lowercase()), index < ready));
            }
        }
    }
    found.sort();
    found
}

/// The steps that carry a model's spec out on these endpoints.
pub(super) fn build_script(model: &Object, endpoints: &[(String, bool)]) -> Vec<ScriptStep> {
    if model.is_deleting() {
        return vec![ScriptStep::release()];
    }
    let mut frames = Vec::new();
    if !model.finalizers().contains(&stator_core::dynamo::kinds::OPERATOR_FINALIZER) {
        frames.push(ScriptStep::adopt());
    }
    let generation = model.generation();
    let base = model.str_at("/spec/baseModelName").unwrap_or_default();
    if endpoints.is_empty() {
        let message = format!("No endpoint slices found for base model {base}");
        let conditions = json!([
            condition("ServicesFound", false, "NoServicesFound", &message, generation),
            condition("EndpointsReady", false, "NoEndpoints", &message, generation),
        ]);
        frames.push(ScriptStep::status(
            Duration::from_millis(200),
            json!({"readyEndpoints": 0, "totalEndpoints": 0, "conditions": conditions}),
        ));
        return frames;
    }
    // A base model is there when its workers are; only adapters are loaded, and only these count as ready.
    let loaded = model.str_at("/spec/modelType").is_some_and(|kind| kind != "base");
    let status = |ready_now: bool| {
        let ready = |up: bool| loaded && ready_now && up;
        let list: Vec<Value> = endpoints
            .iter()
            .map(|(pod, up)| json!({"address": format!("http://{pod}:9090"), "podName": pod, "ready": ready(*up)}))
            .collect();
        let (count, total) = (endpoints.iter().filter(|(_, up)| ready(*up)).count(), endpoints.len());
        let state = if !loaded {
            (true, "EndpointsDiscovered", format!("Discovered {total} endpoint(s)"))
        } else if count == total {
            (true, "AllEndpointsReady", format!("All {total} endpoint(s) are ready"))
        } else {
            (false, "NotReady", format!("{count} of {total} endpoint(s) are ready"))
        };
        let found = format!("Found endpoint slices for base model {base}");
        json!({
            "readyEndpoints": count, "totalEndpoints": total, "endpoints": list,
            "conditions": [
                condition("ServicesFound", true, "ServicesFound", &found, generation),
                condition("EndpointsReady", state.0, state.1, &state.2, generation),
            ],
        })
    };
    if loaded {
        frames.push(ScriptStep::status(Duration::from_millis(200), status(false)));
    }
    frames.push(ScriptStep::status(LOAD_TIME, status(true)));
    frames
}
