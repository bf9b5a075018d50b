//! A restart that git asks for, and graphs that are only just made.
//!
//! Dynamo refuses to create a graph with a `spec.restart`, and a graph that is new needs none. So it is left out there, and
//! its id is noted on the graph as carried out. The graph is restarted when git has another id.

use crate::render::RenderedObject;
use serde_json::{Map, Value};
use stator_core::dynamo::kinds::{ANNOTATION_CREATED_WITH_RESTART, GRAPH};
use stator_core::object::Object;
use std::borrow::Cow;

/// What git wants of an object beside the live one: the restart that it was created with is not asked for again.
pub(in crate::plan) fn desired_beside<'a>(
    desired: &'a RenderedObject,
    live: Option<&Object>,
) -> Cow<'a, RenderedObject> {
    let is_done = |live: &Object| {
        live.spec().get("restart").is_none()
            && live.annotations().get(ANNOTATION_CREATED_WITH_RESTART).copied() == restart_id(&desired.object)
    };
    if live.is_some_and(|live| !is_done(live)) { Cow::Borrowed(desired) } else { created_form(desired) }
}

/// A graph as it is created.
pub(in crate::plan) fn created_form(desired: &RenderedObject) -> Cow<'_, RenderedObject> {
    let Some(id) = restart_id(&desired.object).map(str::to_owned) else { return Cow::Borrowed(desired) };
    let object = desired.object.clone().map(|mut value| {
        if let Some(Value::Object(spec)) = value.get_mut("spec") {
            spec.remove("restart");
        }
        if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
            let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(annotations) = annotations {
                annotations.insert(ANNOTATION_CREATED_WITH_RESTART.to_owned(), id.into());
            }
        }
        value
    });
    match object {
        Ok(object) => Cow::Owned(RenderedObject { object, ..desired.clone() }),
        Err(_) => Cow::Borrowed(desired),
    }
}

fn restart_id(graph: &Object) -> Option<&str> {
    let is_graph = graph.kind() == GRAPH.kind && graph.api_version() == GRAPH.api_version();
    graph.spec().pointer("/restart/id").and_then(Value::as_str).filter(|_| is_graph)
}
