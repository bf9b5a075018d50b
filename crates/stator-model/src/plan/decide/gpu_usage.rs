//! The GPUs of a line: what it holds, what somebody else may make of it, and what a request does with them.

use crate::plan::context::PlanContext;
use crate::plan::{Change, ChangeReason, GpuRange};
use crate::render::RenderedObject;
use stator_core::dynamo::disruption::Disruption;
use stator_core::dynamo::gpu_change::{self, GpuChange};
use stator_core::dynamo::gpus::{self, GpuTotals, UNKNOWN_SKU};
use stator_core::object::Object;
use std::collections::BTreeMap;

/// The GPUs of a line that changes nothing: what is there stays.
pub(in crate::plan) fn set_unchanged_gpus(change: &mut Change, live: &Object) {
    set_gpus(change, gpu_change::unchanged_gpus(live));
}

/// Adds the GPUs of the graph that a request made: they are the model's, and what happens to the request leaves them.
pub(in crate::plan) fn add_graph_gpus(context: &PlanContext<'_>, change: &mut Change, request: &Object) {
    if let Some(graph) = context.graph_made_by(request) {
        set_unchanged_gpus(change, &graph);
        if let Some(sku) = request.str_at("/spec/hardware/gpuSku") {
            name_sku(change, sku);
        }
    }
}

/// The GPUs of a graph whose request is gone: the model's record remembers which they are.
pub(in crate::plan) fn set_left_gpus(context: &PlanContext<'_>, change: &mut Change, graph: &Object) {
    set_unchanged_gpus(change, graph);
    let state = context.inventory_entry(&change.object).and_then(|(record, _)| record.state.as_ref());
    if let Some(sku) = state.and_then(|state| state.gpu_sku.clone()) {
        name_sku(change, &sku);
    }
}

/// The GPUs that a record tells of, which stay.
pub(in crate::plan) fn set_recorded_gpus(change: &mut Change, count: u64, sku: Option<&str>) {
    let totals = GpuTotals { before: count, after: count, peak: count };
    let by_sku = BTreeMap::from([(sku.unwrap_or(UNKNOWN_SKU).to_owned(), totals)]);
    let by_sku = if count > 0 { by_sku } else { BTreeMap::new() };
    set_gpus(change, GpuChange { totals, by_sku, sku: sku.map(str::to_owned) });
}

/// Names the SKU of GPUs of which the graph itself does not tell.
fn name_sku(change: &mut Change, sku: &str) {
    if let Some(totals) = change.gpus_by_sku.remove(UNKNOWN_SKU) {
        change.gpus_by_sku.entry(sku.to_owned()).or_default().add(totals);
        change.gpu_sku.get_or_insert_with(|| sku.to_owned());
    }
}

/// Writes the GPUs of a change down.
pub(in crate::plan) fn set_gpus(change: &mut Change, gpus: GpuChange) {
    change.gpus = gpus.totals;
    change.gpus_by_sku = gpus.by_sku;
    change.gpu_sku = gpus.sku;
}

/// Between how many GPUs an autoscaler or planner may move a graph, where the intent gives bounds.
pub(in crate::plan) fn scaling_gpu_range(desired: &RenderedObject) -> Option<GpuRange> {
    if desired.replica_bounds.is_empty() {
        return None;
    }
    let used = gpus::gpu_use(&desired.object);
    let sum = |bound: fn(&(u64, u64)) -> u64| {
        used.components.iter().fold(0_u64, |sum, component| {
            let bounds = desired.replica_bounds.get(&component.name);
            let replicas = bounds.map_or_else(|| desired.starting_replicas(component), bound);
            sum.saturating_add(replicas.saturating_mul(component.per_replica))
        })
    };
    Some(GpuRange { min: sum(|(min, _)| *min), max: sum(|(_, max)| *max) }).filter(|range| range.max > 0)
}

/// What a request does with GPUs.
pub(in crate::plan) fn search_reason(object: &Object) -> Option<ChangeReason> {
    gpus::request_gpu_budget(object).map(ChangeReason::GpuSearch)
}

/// The GPUs of a graph that goes once another has come up beside it: at the most, those of both.
pub(in crate::plan) fn set_side_by_side_gpus(change: &mut Change, old: &Object, new: &Object) {
    let mut gpus = gpu_change::gpu_change(Some(old), Some(new), Disruption::None);
    for totals in gpus.by_sku.values_mut().chain([&mut gpus.totals]) {
        totals.peak = totals.before.saturating_add(totals.after);
    }
    set_gpus(change, gpus);
}

/// The GPUs of a line that changes something, by the class of the change.
pub(in crate::plan) fn set_changed_gpus(change: &mut Change, live: Option<&Object>, after: Option<&Object>) {
    set_gpus(change, gpu_change::gpu_change(live, after, change.disruption));
}
