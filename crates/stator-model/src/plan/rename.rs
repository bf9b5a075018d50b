//! What takes the place of a model that git no longer has.

use crate::intent::model::ReplacementOrder;
use crate::render::{ApplyStage, RenderedModel};
use serde_json::Value;
use stator_core::finding::Finding;
use stator_core::object::ObjectRef;

/// What takes the place of a model that git no longer has.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rename {
    /// The model's new name.
    pub(super) model: String,
    /// Its graph, or the request that makes one; `None` where it has errors, and renders to nothing.
    pub(super) workload: Option<ObjectRef>,
    /// What comes first. Where the intent does not say, the old one stays until the new one serves: unlike a replacement under
    /// one name, this costs no more than GPUs.
    pub(super) order: ReplacementOrder,
}

impl Rename {
    /// That of a model that appears.
    pub(super) fn to(rendered: &RenderedModel) -> Self {
        let is_faulty = rendered.findings.iter().any(Finding::is_error);
        let workload = rendered.objects.iter().find(|one| one.stage == ApplyStage::Graph && !is_faulty);
        let stated = rendered.intent.parse().pointer("/rollout/replace").and_then(Value::as_str).map(str::to_owned);
        Self {
            model: rendered.model.clone(),
            workload: workload.map(|one| one.object.reference()),
            order: if stated.as_deref() == Some("old-first") {
                ReplacementOrder::OldFirst
            } else {
                ReplacementOrder::NewFirst
            },
        }
    }
}
