//! The most GPUs at any moment of a rollout: an upper bound, by the rules of Dynamo's rolling updates.

use super::{ComponentGpus, GpuUse, components, of, replicas};
use crate::dynamo::disruption::Disruption;
use crate::object::Object;
use serde_json::Value;

const SURGE: &str = "nvidia.com/deployment-rolling-update-max-surge";

/// The most GPUs between `old` and `new`; either may be absent.
pub fn peak(old: Option<&Object>, new: Option<&Object>, disruption: Disruption) -> u64 {
    let before = old.map(of).unwrap_or_default();
    let after = new.map(of).unwrap_or_default();
    let most = before.total().max(after.total());
    match disruption {
        // The old pods are gone before the new ones start.
        Disruption::Recreate | Disruption::Delete | Disruption::None | Disruption::AdapterOnly => most,
        // Components scale apart, so each may be at its larger count; native rolls never surge.
        Disruption::Scale | Disruption::FrontendRoll | Disruption::NativeRoll => {
            pairwise(&before, &after, |b, a| b.map_or(0, ComponentGpus::total).max(a.map_or(0, ComponentGpus::total)))
        }
        Disruption::ManagedRoll => pairwise(&before, &after, |b, a| {
            let surge = match (new, a) {
                (Some(graph), Some(a)) => surge_of(graph, &a.name),
                (Some(_) | None, _) => 0,
            };
            rolled(b, a, surge)
        }),
    }
}

/// The most GPUs while one component goes from its old pods to its new ones: at most the old count, or the new count
/// and its surge, whichever is more; no more new pods than wanted, no more old ones than there were.
fn rolled(before: Option<&ComponentGpus>, after: Option<&ComponentGpus>, surge: u64) -> u64 {
    let (Some(before), Some(after)) = (before, after) else {
        return before.map_or(0, ComponentGpus::total).max(after.map_or(0, ComponentGpus::total));
    };
    let pods = before.replicas.max(after.replicas.saturating_add(surge));
    // The larger kind fills the room first: that is the worst mix.
    let (large, small) = if after.per_replica >= before.per_replica { (after, before) } else { (before, after) };
    let large_count = large.replicas.min(pods);
    let small_count = small.replicas.min(pods.saturating_sub(large_count));
    large_count.saturating_mul(large.per_replica).saturating_add(small_count.saturating_mul(small.per_replica))
}

fn pairwise(
    before: &GpuUse,
    after: &GpuUse,
    most: impl Fn(Option<&ComponentGpus>, Option<&ComponentGpus>) -> u64,
) -> u64 {
    let find = |list: &'_ GpuUse, name: &str| list.components.iter().position(|component| component.name == name);
    let kept = after.components.iter().fold(0_u64, |sum, a| {
        let b = find(before, &a.name).and_then(|index| before.components.get(index));
        sum.saturating_add(most(b, Some(a)))
    });
    before
        .components
        .iter()
        .filter(|b| find(after, &b.name).is_none())
        .fold(kept, |sum, b| sum.saturating_add(most(Some(b), None)))
}

/// How many pods a component may have above its count while it rolls: the annotation of its pods, or of the graph's
/// spec, as a count or a percentage rounded up; 25 % by default.
fn surge_of(graph: &Object, name: &str) -> u64 {
    let Some(component) = components(graph.spec()).find(|one| one.get("name").and_then(Value::as_str) == Some(name))
    else {
        return 0;
    };
    let count = replicas(component);
    let text = component
        .pointer("/podTemplate/metadata/annotations")
        .and_then(|annotations| annotations.get(SURGE))
        .or_else(|| graph.spec().get("annotations")?.get(SURGE))
        .and_then(Value::as_str);
    let quarter = percent(count, 25);
    match text.map(str::trim) {
        None => quarter,
        // What Kubernetes cannot read it refuses, and the default stays.
        Some(text) => match text.strip_suffix('%') {
            Some(number) => number.parse().map_or(quarter, |share| percent(count, share)),
            None => text.parse().unwrap_or(quarter),
        },
    }
}

/// A share of a count, rounded up.
fn percent(count: u64, share: u64) -> u64 {
    let product = u128::from(count) * u128::from(share);
    u64::try_from(product.div_ceil(100)).unwrap_or(u64::MAX)
}
