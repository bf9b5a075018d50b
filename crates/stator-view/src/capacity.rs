//! GPUs: how many models hold of each SKU, and what they cost.

use crate::models::CostView;
use crate::observation::FleetObservation;
use schemars::JsonSchema;
use serde::Serialize;
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// Why nobody says how many GPUs there are.
const ALLOCATABLE_UNKNOWN: &str = "nodes are not read, so the number of GPUs is unknown";

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
    /// GPUs that exist; `null` where that is not known.
    pub allocatable: Option<u64>,
    /// Why the number of existing GPUs is unknown, if it is.
    pub allocatable_unknown: Option<String>,
}

/// Without the dust of sums in binary, as plans have it.
fn rounded(amount: f64) -> f64 {
    (amount * 10_000.0).round() / 10_000.0
}

/// The GPUs of all models.
pub fn capacity(observation: &FleetObservation) -> CapacityView {
    let mut skus: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    let mut costs: BTreeMap<&str, f64> = BTreeMap::new();
    let mut unpriced_models = 0;
    for row in observation.rows() {
        for gpu in &row.gpus {
            let (used, models) = skus.entry(&gpu.sku).or_default();
            *used = used.saturating_add(gpu.count);
            *models += 1;
        }
        match &row.cost {
            Some(cost) => *costs.entry(&cost.currency).or_default() += cost.per_hour,
            None => unpriced_models += usize::from(!row.gpus.is_empty()),
        }
    }
    let items = skus.into_iter().map(|(sku, (used, models))| SkuView {
        sku: sku.to_owned(),
        used,
        models,
        allocatable: None,
        allocatable_unknown: Some(ALLOCATABLE_UNKNOWN.to_owned()),
    });
    let cost: Vec<CostView> = costs
        .into_iter()
        .map(|(currency, sum)| CostView { currency: currency.to_owned(), per_hour: rounded(sum) })
        .collect();
    CapacityView { items: items.collect(), unpriced_models: if cost.is_empty() { 0 } else { unpriced_models }, cost }
}
