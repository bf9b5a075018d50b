//! Sums over all changes: counts, GPUs, cost, and the digest of what a sync would do.
//! What a plan leaves out has its share of them.

use super::{Action, Change, Cost, GpuTotals, Hold, ModelTotals, PlanStep, PlannedWrite, Summary, rules};
use crate::intent::repository::Prices;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::gpus::UNKNOWN_SKU;
use stator_core::finding::{Finding, Location};
use std::collections::{BTreeMap, BTreeSet};

/// Hours in a month, as cloud price lists count: 365 × 24 / 12.
const HOURS_PER_MONTH: f64 = 730.0;

/// Writes down what each change costs.
pub(super) fn price_changes(changes: &mut [Change], prices: Option<&Prices>) {
    let Some(prices) = prices else { return };
    for change in changes.iter_mut().filter(|change| !change.gpus_by_sku.is_empty()) {
        change.cost = Some(compute_cost(&change.gpus_by_sku, prices));
    }
}

impl Summary {
    /// GPUs of all models once everything that is held is approved.
    pub fn gpus_if_approved(&self) -> GpuTotals {
        let Some(held) = &self.if_approved else { return self.gpus };
        let with = |all: u64, before: u64, then: u64| all.saturating_sub(before).saturating_add(then);
        GpuTotals {
            before: self.gpus.before,
            after: with(self.gpus.after, held.gpus.before, held.gpus.after),
            peak: with(self.gpus.peak, held.gpus.before, held.gpus.peak),
        }
    }

    /// Where a change is counted.
    pub fn count_mut(&mut self, change: &Change) -> &mut usize {
        if change.step.held_by().is_some() {
            return &mut self.held;
        }
        match change.action {
            Action::Create => &mut self.create,
            Action::Update => &mut self.update,
            Action::Replace => &mut self.replace,
            Action::Delete => &mut self.delete,
            Action::Deleting => &mut self.deleting,
            Action::Adopt => &mut self.adopt,
            Action::Keep => &mut self.keep,
            Action::Blocked => &mut self.blocked,
            Action::LeftBehind => &mut self.left_behind,
        }
    }
}

/// The sums over all changes, and over what is left out of them since nothing of it changes.
pub(super) fn summarize_changes(
    changes: &[Change],
    rest: Option<&UnchangedTotals>,
    prices: Option<&Prices>,
) -> Summary {
    let mut summary = Summary::default();
    if let Some(rest) = rest {
        summary.keep = rest.objects;
        summary.gpus = rest.gpus;
        summary.gpus_by_sku.clone_from(&rest.gpus_by_sku);
    }
    let mut held = ModelTotals::default();
    for change in changes {
        *summary.count_mut(change) += 1;
        if change.step.held_by().is_none() {
            summary.gpus.add(change.gpus);
            GpuTotals::add_by_sku(&mut summary.gpus_by_sku, &change.gpus_by_sku);
            continue;
        }
        held.gpus.add(change.gpus);
        GpuTotals::add_by_sku(&mut held.gpus_by_sku, &change.gpus_by_sku);
        let (gpus, by_sku) = unchanged_gpus(change);
        summary.gpus.add(gpus);
        GpuTotals::add_by_sku(&mut summary.gpus_by_sku, &by_sku);
    }
    summary.cost = prices.map(|prices| compute_cost(&summary.gpus_by_sku, prices));
    if held.gpus_by_sku.values().any(|totals| *totals != totals.unchanged()) {
        held.cost = prices.map(|prices| compute_cost(&held.gpus_by_sku, prices));
        summary.if_approved = Some(held);
    }
    summary.models = model_totals(changes, prices);
    summary
}

/// The GPUs of a change that is not carried out.
fn unchanged_gpus(change: &Change) -> (GpuTotals, BTreeMap<String, GpuTotals>) {
    let by_sku = change.gpus_by_sku.iter().map(|(sku, totals)| (sku.clone(), totals.unchanged()));
    (change.gpus.unchanged(), by_sku.collect())
}

/// The models of which something changes.
fn model_totals(changes: &[Change], prices: Option<&Prices>) -> BTreeMap<String, ModelTotals> {
    let moving: BTreeSet<&str> = changes
        .iter()
        .filter(|one| !matches!(one.action, Action::Keep | Action::LeftBehind) && one.step.held_by().is_none())
        .map(|one| one.model.as_str())
        .collect();
    let mut models = BTreeMap::<String, ModelTotals>::new();
    for change in changes.iter().filter(|one| moving.contains(one.model.as_str()) && !one.gpus_by_sku.is_empty()) {
        let own = models.entry(change.model.clone()).or_default();
        let (gpus, by_sku) = if change.step.held_by().is_some() {
            unchanged_gpus(change)
        } else {
            (change.gpus, change.gpus_by_sku.clone())
        };
        own.gpus.add(gpus);
        GpuTotals::add_by_sku(&mut own.gpus_by_sku, &by_sku);
    }
    for own in models.values_mut() {
        own.cost = prices.map(|prices| compute_cost(&own.gpus_by_sku, prices));
    }
    models
}

fn compute_cost(by_sku: &BTreeMap<String, GpuTotals>, prices: &Prices) -> Cost {
    let named: BTreeMap<&str, f64> = prices.gpu_hour.iter().map(|(sku, price)| (sku.name(), *price)).collect();
    let mut cost = Cost {
        currency: prices.currency.clone().unwrap_or_else(|| "$".to_owned()),
        before_hour: 0.0,
        after_hour: 0.0,
        delta_hour: 0.0,
        delta_month: 0.0,
        unpriced: Vec::new(),
    };
    for (sku, totals) in by_sku {
        match named.get(sku.as_str()) {
            Some(price) => {
                cost.before_hour += price * count_to_amount(totals.before);
                cost.after_hour += price * count_to_amount(totals.after);
            }
            None => cost.unpriced.push(sku.clone()),
        }
    }
    cost.before_hour = round_amount(cost.before_hour);
    cost.after_hour = round_amount(cost.after_hour);
    cost.delta_hour = round_amount(cost.after_hour - cost.before_hour);
    cost.delta_month = round_amount(cost.delta_hour * HOURS_PER_MONTH);
    cost
}

/// Without the dust of sums in binary: a hundredth of a cent is the least that a price list knows.
fn round_amount(amount: f64) -> f64 {
    (amount * 10_000.0).round() / 10_000.0
}

/// A count as an amount of money counts it; beyond 2^53 the last digits are no matter.
#[expect(clippy::cast_precision_loss, reason = "a price times a count that large is no price any more")]
fn count_to_amount(count: u64) -> f64 {
    count as f64
}

/// SHA-256 over everything that a sync of these changes would do. Resource versions and status are left out: they move
/// without changing what is done.
pub(super) fn plan_digest(changes: &[Change], holds: &[Hold]) -> String {
    let mut hash = Sha256::new();
    for change in changes.iter().filter(|one| one.action != Action::Keep) {
        let line = json!({
            "model": change.model,
            "object": change.object,
            "action": change.action,
            "disruption": change.disruption,
            "fields": change.fields,
            "step": step_digest_input(&change.step),
        });
        hash.update(line.to_string().as_bytes());
        hash.update(b"\n");
    }
    for hold in holds {
        hash.update(json!({"hold": hold.kind, "allowed": hold.allowed}).to_string().as_bytes());
        hash.update(b"\n");
    }
    hex::encode(hash.finalize())
}

fn step_digest_input(step: &PlanStep) -> Value {
    match step {
        PlanStep::NoWrite => Value::Null,
        PlanStep::AwaitGone { uid } => json!({"awaitGone": uid}),
        PlanStep::Held { by, would: _ } => json!({"heldBy": by}),
        PlanStep::Write(write) => write_digest_input(write),
    }
}

/// What a write does, without what moves by itself.
pub(super) fn write_digest_input(write: &PlannedWrite) -> Value {
    let apply = |one: &super::ApplyStep| {
        let first = one.first.as_ref().map(stator_core::object::ObjectText::parse);
        json!({"first": first, "object": one.object.parse(), "force": one.force, "seed": one.seed_replicas})
    };
    match write {
        PlannedWrite::Apply(one) => json!({"apply": apply(one)}),
        PlannedWrite::Replace { delete, apply: one } => json!({"delete": delete.uid, "apply": apply(one)}),
        PlannedWrite::Delete(delete) => match &delete.after {
            None => json!({"delete": delete.uid}),
            Some(after) => json!({"delete": delete.uid, "after": after}),
        },
    }
}

/// SKUs of which a plan needs more GPUs at once than the cluster has, and than are in use: one warning each.
pub(super) fn capacity_findings<'a>(
    summary: &'a Summary,
    platform: &'a Platform,
) -> impl Iterator<Item = Finding> + use<'a> {
    // What nobody says of a SKU is not known.
    let has = |sku: &str| platform.gpus.as_ref()?.get(sku).copied();
    let known = summary.gpus_by_sku.iter().filter(|(sku, _)| *sku != UNKNOWN_SKU);
    known.filter_map(move |(sku, totals)| {
        let exists = has(sku).filter(|exists| totals.peak > *exists && totals.peak > totals.before)?;
        let (peak, before) = (totals.peak, totals.before);
        Some(Finding::warning(
            rules::CAPACITY,
            Location::default(),
            format!("up to {peak} {sku} GPUs are needed at once, and the cluster has {exists}; {before} are in use"),
            "scale something down first, set `rollout` to surge 0, or add nodes: otherwise pods wait for a GPU"
                .to_owned(),
        ))
    })
}

/// What is the same in both revisions and not compared: its share of sums and guards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnchangedTotals {
    /// How many objects.
    pub objects: usize,
    /// Their GPUs.
    pub gpus: GpuTotals,
    /// The same by SKU.
    pub gpus_by_sku: BTreeMap<String, GpuTotals>,
    /// How often they use what is deprecated, by the release that removes it.
    pub deprecated: BTreeMap<Option<&'static str>, usize>,
}

impl UnchangedTotals {
    /// Both together.
    pub fn add(&mut self, other: &Self) {
        self.objects = self.objects.saturating_add(other.objects);
        self.gpus.add(other.gpus);
        GpuTotals::add_by_sku(&mut self.gpus_by_sku, &other.gpus_by_sku);
        for (removed_in, uses) in &other.deprecated {
            *self.deprecated.entry(*removed_in).or_default() += uses;
        }
    }
}
