//! Sums over all changes: counts, GPUs, cost, and the digest of what a sync would do.

use super::{Action, Change, Cost, GpuTotals, Hold, Step, Summary};
use crate::intent::repository::Prices;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// GPUs whose kind nothing names.
const UNKNOWN_SKU: &str = "unknown";

pub(super) fn summary(changes: &[Change], prices: Option<&Prices>) -> Summary {
    let mut summary = Summary::default();
    for change in changes {
        let count = match change.action {
            Action::Create => &mut summary.create,
            Action::Update => &mut summary.update,
            Action::Replace => &mut summary.replace,
            Action::Delete => &mut summary.delete,
            Action::Adopt => &mut summary.adopt,
            Action::Keep => &mut summary.keep,
            Action::Blocked => &mut summary.blocked,
        };
        *count += 1;
        add(&mut summary.gpus, change.gpus);
        if change.gpus != GpuTotals::default() {
            let sku = change.gpu_sku.clone().unwrap_or_else(|| UNKNOWN_SKU.to_owned());
            add(summary.gpus_by_sku.entry(sku).or_default(), change.gpus);
        }
    }
    summary.cost = prices.map(|prices| cost(&summary.gpus_by_sku, prices));
    summary
}

fn add(sum: &mut GpuTotals, more: GpuTotals) {
    sum.before = sum.before.saturating_add(more.before);
    sum.after = sum.after.saturating_add(more.after);
    sum.peak = sum.peak.saturating_add(more.peak);
}

fn cost(by_sku: &BTreeMap<String, GpuTotals>, prices: &Prices) -> Cost {
    let named: BTreeMap<&str, f64> = prices.gpu_hour.iter().map(|(sku, price)| (sku.name(), *price)).collect();
    let mut cost = Cost {
        currency: prices.currency.clone().unwrap_or_else(|| "$".to_owned()),
        before_hour: 0.0,
        after_hour: 0.0,
        unpriced: Vec::new(),
    };
    for (sku, totals) in by_sku {
        match named.get(sku.as_str()) {
            Some(price) => {
                cost.before_hour += price * amount(totals.before);
                cost.after_hour += price * amount(totals.after);
            }
            None => cost.unpriced.push(sku.clone()),
        }
    }
    cost
}

/// A count as an amount of money counts it; beyond 2^53 the last digits are no matter.
#[expect(clippy::cast_precision_loss, reason = "a price times a count that large is no price any more")]
fn amount(count: u64) -> f64 {
    count as f64
}

/// SHA-256 over everything that a sync of these changes would do. Resource versions and status are left out: they move
/// without changing what is done.
pub(super) fn digest(changes: &[Change], holds: &[Hold]) -> String {
    let mut hash = Sha256::new();
    for change in changes.iter().filter(|one| one.action != Action::Keep) {
        let line = json!({
            "model": change.model,
            "object": change.object,
            "action": change.action,
            "disruption": change.disruption,
            "fields": change.fields,
            "step": step(&change.step),
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

fn step(step: &Step) -> Value {
    let apply = |one: &super::ApplyStep| json!({"object": one.object, "force": one.force, "seed": one.seed_replicas});
    match step {
        Step::Nothing => Value::Null,
        Step::Apply(one) => json!({"apply": apply(one)}),
        Step::Replace { delete, apply: one } => json!({"delete": delete.uid, "apply": apply(one)}),
        Step::Delete(delete) => json!({"delete": delete.uid}),
    }
}
