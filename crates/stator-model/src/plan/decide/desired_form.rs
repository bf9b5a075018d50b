//! A restart that git asks for, and graphs that are only just made.
//!
//! Dynamo refuses to create a graph with a `spec.restart`, and a graph that is new needs none. So it is left out there, and
//! its id is noted on the graph as carried out. The graph is restarted when git has another id.
//! And the labels by which stator knows whose an object is, beside those that are rendered.

use crate::plan::{PlanInput, applyset};
use crate::render::RenderedObject;
use serde_json::{Map, Value};
use stator_core::dynamo::kinds::{ANNOTATION_CREATED_WITH_RESTART, GRAPH, LABEL_OWNER_ID};
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

/// The object as a member of its model's ApplySet, and as that of its owner. Neither label is rendered: kubectl refuses
/// input that has the first already, and a set without its parent means nothing; the second is no matter of the model.
/// On a graph, Dynamo's operator copies labels of `spec` and of pod templates to what it makes, and none of the metadata,
/// so that this restarts no pod.
pub(in crate::plan) fn with_owner_labels(input: &PlanInput, model: &str, desired: &RenderedObject) -> RenderedObject {
    let mut member = desired.clone();
    let labelled = member.object.clone().map(|mut value| {
        let labels = &mut value["metadata"]["labels"];
        labels[applyset::PART_OF] = Value::from(applyset::id_of(model, &input.namespace));
        if let Some(claim) = &input.owner {
            labels[LABEL_OWNER_ID] = Value::from(claim.identity.owner_id());
        }
        value
    });
    if let Ok(object) = labelled {
        member.object = object;
    }
    member
}
