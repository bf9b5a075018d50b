//! What the components of one graph need to know of each other.

use super::engine::{EngineTable, WorkerRole};
use super::{RenderContext, rules};
use crate::intent::model::{ComponentType, ModelSpec, RouterMode, Serving, Worker};

/// What the components of one graph need to know of each other.
pub(super) struct GraphContext<'a> {
    pub(super) spec: &'a ModelSpec,
    pub(super) serving: &'a Serving,
    pub(super) table: &'static EngineTable,
    /// An endpoint picker is among the components.
    pub(super) has_endpoint_picker: bool,
    /// Somebody follows the workers' KV events.
    pub(super) kv_events: bool,
}

impl<'a> GraphContext<'a> {
    /// That of a `serving`, whose engine has this table.
    pub(super) fn new(spec: &'a ModelSpec, serving: &'a Serving, table: &'static EngineTable) -> Self {
        let router = serving.frontend.as_ref().and_then(|frontend| frontend.router);
        let graph = Self { spec, serving, table, has_endpoint_picker: false, kv_events: false };
        let has_endpoint_picker = graph.has_component_of(ComponentType::Epp);
        Self { has_endpoint_picker, kv_events: has_endpoint_picker || router == Some(RouterMode::Kv), ..graph }
    }

    /// Whether one of the further components is of a type.
    pub(super) fn has_component_of(&self, wanted: ComponentType) -> bool {
        self.spec.components.values().any(|component| component.component_type == Some(wanted))
    }

    /// The workers with their names and roles, in the order they are rendered.
    pub(super) fn workers(&self) -> Vec<(&'static str, WorkerRole, &'a Worker)> {
        [
            ("worker", WorkerRole::Aggregated, self.serving.worker.as_deref()),
            ("prefill", WorkerRole::Prefill, self.serving.prefill.as_deref()),
            ("decode", WorkerRole::Decode, self.serving.decode.as_deref()),
        ]
        .into_iter()
        .filter_map(|(name, role, worker)| worker.map(|worker| (name, role, worker)))
        .collect()
    }

    /// Prefill and decode hand KV blocks over, so their sizes must be one.
    pub(super) fn check_block_sizes(&self, context: &mut RenderContext<'_>) {
        let (Some(prefill), Some(decode)) = (&self.serving.prefill, &self.serving.decode) else { return };
        if let (Some(first), Some(second)) = (prefill.block_size, decode.block_size)
            && first != second
        {
            context.error(
                rules::BLOCK_SIZE,
                "spec.serving.decode.blockSize",
                format!(
                    "prefill has KV blocks of {first} tokens and decode of {second}; they hand blocks to each other"
                ),
                "give both the same `blockSize`",
            );
        }
    }
}
