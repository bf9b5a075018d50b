//! The share of sums and guards of what a plan or a comparison leaves out.

use super::GpuTotals;
use std::collections::BTreeMap;

/// What is the same in both revisions and not compared: its share of sums and guards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnchangedTotals {
    /// How many objects.
    pub objects: usize,
    /// Their GPUs.
    pub gpus: GpuTotals,
    /// The same by SKU.
    pub gpus_by_sku: BTreeMap<String, GpuTotals>,
}

impl UnchangedTotals {
    /// Both together.
    pub fn add(&mut self, other: &Self) {
        self.objects = self.objects.saturating_add(other.objects);
        self.gpus.add(other.gpus);
        GpuTotals::add_by_sku(&mut self.gpus_by_sku, &other.gpus_by_sku);
    }
}
