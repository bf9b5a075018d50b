//! The HTTPRoute of a model (`spec.route`), as upstream's recipes write it: a gateway, hosts, a prefix, and the graph's
//! frontend or the InferencePool of its endpoint picker.

use super::{ApplyStage, ObjectDraft, RenderContext, object_metadata};
use crate::intent::model::Route;
use crate::intent::rules::MODEL_ROUTE;
use crate::intent::scalar::DnsName;
use serde_json::{Map, Value, json};
use stator_core::dynamo::addresses::{self, FRONTEND_PORT_NUMBER, GraphAddress};
use stator_core::dynamo::kinds;
use stator_core::object::Object;

/// Adds the route of the model; overrides have been applied to the graph that it leads to.
pub(super) fn add_draft(context: &mut RenderContext<'_>, drafts: &mut Vec<ObjectDraft>) {
    let intent = context.intent;
    let Some(route) = &intent.model.spec.route else { return };
    let Some(graph) = drafts.iter().find(|draft| draft.kind == kinds::GRAPH) else {
        // Faults of the shape have been reported.
        if intent.model.spec.sla.is_some() {
            context.warning(
                MODEL_ROUTE,
                "spec.route",
                "there is no route yet: the profiler has not found its graph",
                "Run `stator lock` once the request is complete: the route then leads to the locked graph.",
            );
        }
        return;
    };
    let Ok(graph) = Object::from_value(Value::Object(graph.value.clone())) else { return };
    let Some(address) = address_of(&graph) else {
        context.error(
            MODEL_ROUTE,
            "spec.route",
            "the graph has neither a frontend nor an endpoint picker, so requests cannot reach it",
            "Add `serving.frontend: {}`, or remove `route`.",
        );
        return;
    };
    let draft = draft_route(context, route, &address);
    drafts.push(draft);
}

/// Where requests go: to the picker where there is one, which chooses the worker.
fn address_of(graph: &Object) -> Option<GraphAddress> {
    let addresses = addresses::graph_addresses(graph);
    let is_pool = |address: &&GraphAddress| matches!(address, GraphAddress::InferencePool(_));
    addresses.iter().find(is_pool).or(addresses.first()).cloned()
}

fn draft_route(context: &RenderContext<'_>, route: &Route, address: &GraphAddress) -> ObjectDraft {
    let mut parent = json!({"name": route.gateway.name.as_str()});
    if let Some(namespace) = &route.gateway.namespace {
        parent["namespace"] = namespace.as_str().into();
    }
    if let Some(section) = &route.gateway.section_name {
        parent["sectionName"] = section.as_str().into();
    }
    let mut backends = vec![backend(address)];
    if let Some(canary) = &route.canary {
        let mut other = backend(&canary_address(address, canary.model.as_str()));
        other["weight"] = canary.weight.into();
        for own in &mut backends {
            own["weight"] = 100_u32.saturating_sub(canary.weight).into();
        }
        backends.push(other);
    }
    let mut rule = json!({
        "matches": [{"path": {"type": "PathPrefix", "value": route.path()}}],
        "backendRefs": backends,
    });
    if let Some(timeout) = &route.timeout {
        rule["timeouts"] = json!({"request": timeout.as_str()});
    }
    let mut spec = Map::from_iter([("parentRefs".to_owned(), json!([parent])), ("rules".to_owned(), json!([rule]))]);
    if !route.hostnames.is_empty() {
        let hosts: Vec<&str> = route.hostnames.iter().map(|host| host.as_str()).collect();
        spec.insert("hostnames".to_owned(), json!(hosts));
    }
    let name = route.name.as_ref().map_or(context.intent.model.metadata.name.as_str(), DnsName::as_str);
    let mut value = object_metadata::new_object(context, kinds::HTTP_ROUTE, name, Value::Object(spec), false);
    if let (Some(canary), Some(metadata)) = (&route.canary, value.get_mut("metadata")) {
        metadata["annotations"] = json!({kinds::ANNOTATION_CANARY: canary.model.as_str()});
    }
    ObjectDraft {
        kind: kinds::HTTP_ROUTE,
        value,
        path: "spec.route".to_owned(),
        stage: ApplyStage::Exposure,
        prune: true,
    }
}

/// That of another model: its frontend, or its pool where this one has a pool.
fn canary_address(own: &GraphAddress, model: &str) -> GraphAddress {
    match own {
        GraphAddress::FrontendService(_) => GraphAddress::FrontendService(addresses::frontend_of(model)),
        GraphAddress::InferencePool(_) => GraphAddress::InferencePool(addresses::pool_of(model)),
    }
}

fn backend(address: &GraphAddress) -> Value {
    match address {
        GraphAddress::FrontendService(name) => json!({"name": name, "port": FRONTEND_PORT_NUMBER}),
        GraphAddress::InferencePool(name) => json!({
            "group": "inference.networking.k8s.io", "kind": "InferencePool", "name": name, "port": FRONTEND_PORT_NUMBER,
        }),
    }
}
