//! GPUs: how many models hold of each SKU, and what they cost.

use crate::models::CostView;
use crate::observation::FleetObservation;
use schemars::JsonSchema;
use serde::Serialize;
use serde_with::skip_serializing_none;
use stator_core::dynamo::gpus::UNKNOWN_SKU;
use std::collections::BTreeMap;

/// Why nobody says how many GPUs there are.
const ALLOCATABLE_UNKNOWN: &str =
    "no node names this SKU, or stator may not list nodes; and `platform.gpus` in stator.yaml does not say";
const NODES_WITHHELD: &str = "only those may see it who may `list nodes`";

/// The GPUs of all models.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Capacity")]
pub struct CapacityView {
    /// Each SKU that a model uses, sorted.
    pub items: Vec<SkuView>,
    /// What all models cost, by currency.
    pub cost: Vec<CostView>,
    /// Models that hold GPUs without a price, where other models have one.
    pub unpriced_models: usize,
}

/// The GPUs of one SKU.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "GpuCapacity")]
pub struct SkuView {
    /// The SKU; `unknown` where nothing names it.
    pub sku: String,
    /// GPUs that models hold now.
    pub used: u64,
    /// Models that hold some.
    pub models: usize,
    /// The most that models hold at once while pending changes roll out.
    pub peak: u64,
    /// GPUs that open pull requests would add.
    pub reserved: u64,
    /// GPUs that can be allocated; absent where that is not known.
    pub allocatable: Option<u64>,
    /// Whether pending changes and open pull requests need more than there is.
    pub exceeded: bool,
    /// Why the number of existing GPUs is unknown, if it is.
    pub allocatable_unknown: Option<String>,
}

/// What is counted of one SKU.
#[derive(Clone, Copy, Default)]
struct SkuSums {
    used: u64,
    models: usize,
    rising: u64,
    reserved: u64,
}

/// Without the dust of sums in binary, as plans have it.
fn rounded(amount: f64) -> f64 {
    (amount * 10_000.0).round() / 10_000.0
}

/// The GPUs of all models.
pub fn capacity(observation: &FleetObservation) -> CapacityView {
    let mut skus: BTreeMap<&str, SkuSums> = BTreeMap::new();
    let mut costs: BTreeMap<&str, f64> = BTreeMap::new();
    let mut unpriced_models = 0;
    for row in observation.rows() {
        for gpu in &row.gpus {
            let sums = skus.entry(&gpu.sku).or_default();
            sums.used = sums.used.saturating_add(gpu.count);
            sums.models += 1;
        }
        match &row.cost {
            Some(cost) => *costs.entry(&cost.currency).or_default() += cost.per_hour,
            None => unpriced_models += usize::from(!row.gpus.is_empty()),
        }
    }
    for source in &observation.facts.sources {
        let pending = source.models.iter().flat_map(|model| model.pending.iter()).flat_map(|one| &one.gpus_by_sku);
        for (sku, totals) in pending {
            let sums = skus.entry(sku).or_default();
            sums.rising = sums.rising.saturating_add(totals.peak.saturating_sub(totals.before));
        }
        for (sku, totals) in source.previews.values().flat_map(|preview| &preview.gpus_by_sku) {
            let sums = skus.entry(sku).or_default();
            sums.reserved = sums.reserved.saturating_add(totals.after.saturating_sub(totals.before));
        }
    }
    let is_seen = observation.reader.nodes;
    // Sources of one process write to one cluster.
    let known: Option<BTreeMap<&str, u64>> = is_seen.then(|| {
        let all = observation.facts.sources.iter().filter_map(|source| source.allocatable.as_deref()).flatten();
        all.fold(BTreeMap::new(), |mut known: BTreeMap<&str, u64>, (sku, count)| {
            let most = known.entry(sku).or_default();
            *most = (*most).max(*count);
            known
        })
    });
    for sku in known.iter().flat_map(BTreeMap::keys) {
        skus.entry(sku).or_default();
    }
    let items = skus.into_iter().map(|(sku, sums)| {
        let allocatable = known.as_ref().and_then(|known| known.get(sku).copied());
        let peak = sums.used.saturating_add(sums.rising);
        SkuView {
            sku: sku.to_owned(),
            used: sums.used,
            models: sums.models,
            peak,
            reserved: sums.reserved,
            exceeded: allocatable
                .is_some_and(|exists| peak.saturating_add(sums.reserved) > exists && sku != UNKNOWN_SKU),
            allocatable,
            allocatable_unknown: match (allocatable, is_seen) {
                (Some(_), _) => None,
                (None, true) => Some(ALLOCATABLE_UNKNOWN.to_owned()),
                (None, false) => Some(NODES_WITHHELD.to_owned()),
            },
        }
    });
    let cost: Vec<CostView> = costs
        .into_iter()
        .map(|(currency, sum)| CostView { currency: currency.to_owned(), per_hour: rounded(sum) })
        .collect();
    CapacityView { items: items.collect(), unpriced_models: if cost.is_empty() { 0 } else { unpriced_models }, cost }
}
