//! The labels by which stator knows whose an object is, beside those that are rendered.

use crate::plan::{PlanInput, applyset};
use crate::render::RenderedObject;
use serde_json::Value;
use stator_core::dynamo::kinds::LABEL_OWNER_ID;

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
