//! The GPUs of a change: before, after, and the most at any moment of a rollout, which is an upper bound by the rules of
//! Dynamo's rolling updates.

use super::disruption::{self, Disruption, RestartOrder};
use super::gpus::{ComponentGpus, GpuTotals, GpuUse, UNKNOWN_SKU, gpu_use, replicas, request_gpu_budget};
use crate::dynamo::graph_components::named_components;
use crate::dynamo::registry::annotation;
use crate::object::Object;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The GPUs of one change of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuChange {
    /// Of all SKUs.
    pub totals: GpuTotals,
    /// By SKU; [`UNKNOWN_SKU`] where nothing names it. Empty without GPUs.
    pub by_sku: BTreeMap<String, GpuTotals>,
    /// The SKU that the object names first.
    pub sku: Option<String>,
}

/// The GPUs of an object that stays as it is.
pub fn unchanged_gpus(object: &Object) -> GpuChange {
    let used = gpu_use(object);
    let same = |count: u64| GpuTotals { before: count, after: count, peak: count };
    let by_sku = used.by_sku().into_iter().map(|(sku, count)| (sku, same(count))).collect();
    GpuChange { totals: same(used.total()), by_sku, sku: used.sku }
}

/// The GPUs between `old` and `new`; either may be absent.
pub fn gpu_change(old: Option<&Object>, new: Option<&Object>, disruption: Disruption) -> GpuChange {
    let before = old.map(gpu_use).unwrap_or_default();
    let after = new.map(gpu_use).unwrap_or_default();
    let mut change = GpuChange { sku: after.sku.clone().or_else(|| before.sku.clone()), ..GpuChange::default() };
    for (sku, count) in before.by_sku() {
        change.by_sku.entry(sku).or_default().before = count;
    }
    for (sku, count) in after.by_sku() {
        change.by_sku.entry(sku).or_default().after = count;
    }
    for totals in change.by_sku.values_mut() {
        totals.peak = totals.before.max(totals.after);
    }
    change.totals.before = before.total();
    change.totals.after = after.total();
    change.totals.peak = change.totals.before.max(change.totals.after);
    match disruption {
        // The old pods are gone before the new ones start.
        Disruption::Recreate | Disruption::Delete | Disruption::None | Disruption::AdapterOnly => {}
        // Components scale and roll apart, so each may be at its worst moment.
        Disruption::Scale
        | Disruption::OnDelete
        | Disruption::FrontendRoll
        | Disruption::RollingRestart
        | Disruption::NativeRoll
        | Disruption::ManagedRoll => {
            let rolling = surging_components(old, new, disruption);
            let surge = |name: &str| if rolling.contains(name) { new.map_or(0, |new| max_surge(new, name)) } else { 0 };
            add_peaks(&before, &after, surge, &mut change);
            if disruption == Disruption::RollingRestart
                && let (Some(old), Some(new)) = (old, new)
            {
                add_restart_peaks((old, new), &before, &after, (surge, &mut change));
            }
        }
    }
    if let Some(search) = new.filter(|new| old != Some(new)).and_then(request_gpu_budget) {
        let most = search.profiling.max(search.graph);
        if most > 0 {
            let sku = change.sku.clone().unwrap_or_else(|| UNKNOWN_SKU.to_owned());
            let own = change.by_sku.entry(sku).or_default();
            own.peak = own.peak.max(most);
            change.totals.peak = change.totals.peak.max(most);
        }
    }
    change
}

/// The components whose pods are replaced beside those that run: native rolls never surge (Grove and LeaderWorkerSet
/// replace one at a time in place).
fn surging_components(old: Option<&Object>, new: Option<&Object>, disruption: Disruption) -> BTreeSet<String> {
    let (Some(old), Some(new)) = (old, new) else { return BTreeSet::new() };
    match disruption {
        Disruption::ManagedRoll | Disruption::FrontendRoll | Disruption::RollingRestart => {
            disruption::rolled_components(old, new, disruption == Disruption::ManagedRoll)
        }
        Disruption::None
        | Disruption::AdapterOnly
        | Disruption::Scale
        | Disruption::OnDelete
        | Disruption::NativeRoll
        | Disruption::Recreate
        | Disruption::Delete => BTreeSet::new(),
    }
}

/// Sums the worst moment of every component.
fn add_peaks(before: &GpuUse, after: &GpuUse, surge: impl Fn(&str) -> u64, change: &mut GpuChange) {
    let find = |list: &'_ GpuUse, name: &str| list.components.iter().position(|component| component.name == name);
    let mut peaks: BTreeMap<String, u64> = BTreeMap::new();
    let mut total = 0_u64;
    let mut add = |sku: &str, count: u64| {
        let sum = peaks.entry(sku.to_owned()).or_default();
        *sum = sum.saturating_add(count);
    };
    for a in &after.components {
        let b = find(before, &a.name).and_then(|index| before.components.get(index));
        let most = rollout_peak(b, Some(a), surge(&a.name));
        total = total.saturating_add(most);
        match b {
            // Moving to other GPUs, a component holds some of both.
            Some(b) if b.sku() != a.sku() => {
                add(b.sku(), b.total());
                add(a.sku(), a.total());
            }
            Some(_) | None => add(a.sku(), most),
        }
    }
    for b in before.components.iter().filter(|b| find(after, &b.name).is_none()) {
        total = total.saturating_add(b.total());
        add(b.sku(), b.total());
    }
    change.totals.peak = change.totals.peak.max(total);
    for (sku, peak) in peaks.into_iter().filter(|(_, peak)| *peak > 0) {
        let own = change.by_sku.entry(sku).or_default();
        own.peak = own.peak.max(peak);
    }
}

/// The surge of a restart on top of what the rest of a change needs: of the component that needs most where they go one
/// after the other, of all where they go at once. A restart replaces pods beside those that run
/// (`tests/data/dynamo/recordings/restart.jsonl`).
fn add_restart_peaks(
    (old, new): (&Object, &Object),
    before: &GpuUse,
    after: &GpuUse,
    (known, change): (impl Fn(&str) -> u64, &mut GpuChange),
) {
    let Some(order) = disruption::requested_restart(old, new) else { return };
    let (mut total, mut by_sku) = (0_u64, BTreeMap::<String, u64>::new());
    for a in &after.components {
        let Some(b) = before.components.iter().find(|b| b.name == a.name) else { continue };
        let with = rollout_peak(Some(b), Some(a), max_surge(new, &a.name));
        let extra = with.saturating_sub(rollout_peak(Some(b), Some(a), known(&a.name)));
        let own = by_sku.entry(a.sku().to_owned()).or_default();
        match order {
            RestartOrder::Sequential => {
                total = total.max(extra);
                *own = (*own).max(extra);
            }
            RestartOrder::Parallel => {
                total = total.saturating_add(extra);
                *own = own.saturating_add(extra);
            }
        }
    }
    change.totals.peak = change.totals.peak.saturating_add(total);
    for (sku, extra) in by_sku.into_iter().filter(|(_, extra)| *extra > 0) {
        let own = change.by_sku.entry(sku).or_default();
        own.peak = own.peak.saturating_add(extra);
    }
}

/// The most GPUs while one component goes from its old pods to its new ones: at most the old count, or the new count
/// and its surge, whichever is more; no more new pods than wanted, no more old ones than there were.
fn rollout_peak(before: Option<&ComponentGpus>, after: Option<&ComponentGpus>, surge: u64) -> u64 {
    let (Some(before), Some(after)) = (before, after) else {
        return before.map_or(0, ComponentGpus::total).max(after.map_or(0, ComponentGpus::total));
    };
    let pods = before.replicas.max(after.replicas.saturating_add(surge));
    // The larger kind fills the capacity first: that is the worst mix.
    let (large, small) = if after.per_replica >= before.per_replica { (after, before) } else { (before, after) };
    let large_count = large.replicas.min(pods);
    let small_count = small.replicas.min(pods.saturating_sub(large_count));
    large_count.saturating_mul(large.per_replica).saturating_add(small_count.saturating_mul(small.per_replica))
}

/// How many pods a component may have above its count while it rolls: the annotation of its pods, or of the graph's
/// spec, as a count or a percentage rounded up; 25 % by default.
fn max_surge(graph: &Object, name: &str) -> u64 {
    let Some((_, component)) = named_components(graph.spec()).find(|(other, _)| *other == name) else { return 0 };
    let count = replicas(component);
    let text = component
        .pointer("/podTemplate/metadata/annotations")
        .and_then(|annotations| annotations.get(annotation::MAX_SURGE))
        .or_else(|| graph.spec().get("annotations")?.get(annotation::MAX_SURGE))
        .and_then(Value::as_str);
    let quarter = percent_rounded_up(count, 25);
    match text.map(str::trim) {
        None => quarter,
        // What Kubernetes cannot read it refuses, and the default stays.
        Some(text) => match text.strip_suffix('%') {
            Some(number) => number.parse().map_or(quarter, |share| percent_rounded_up(count, share)),
            None => text.parse().unwrap_or(quarter),
        },
    }
}

/// A share of a count, rounded up.
fn percent_rounded_up(count: u64, share: u64) -> u64 {
    let product = u128::from(count) * u128::from(share);
    u64::try_from(product.div_ceil(100)).unwrap_or(u64::MAX)
}
