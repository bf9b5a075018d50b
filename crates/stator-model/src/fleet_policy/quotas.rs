//! What all models of a source take together. More than is allowed stops every model that takes a share of it, whichever
//! came last: nothing of a commit decides who of them may run.

use super::compiled::CompiledFleetPolicy;
use super::references::{References, describe_size};
use super::rules;
use crate::intent::Intent;
use crate::render::{RenderedModel, RenderedObject};
use stator_core::dynamo::gpus;
use stator_core::finding::{Finding, Location};
use stator_core::object::Quantity;
use std::collections::BTreeMap;

/// What is said of one model, and its share of what all take together.
#[derive(Debug)]
pub struct JudgedShare {
    pub(super) findings: Vec<Finding>,
    pub(super) share: Option<Box<Share>>,
}

/// What one model takes at the most.
#[derive(Debug)]
pub(super) struct Share {
    model: String,
    /// Where its name stands.
    place: Location,
    gpus: BTreeMap<String, u64>,
    claims: Quantity,
}

pub(super) fn judge(policy: &CompiledFleetPolicy, all: &mut [JudgedShare]) {
    let Some(quotas) = &policy.document.spec.quotas else { return };
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut claims = Quantity::default();
    for share in all.iter().filter_map(|one| one.share.as_ref()) {
        for (sku, count) in &share.gpus {
            let sum = sums.entry(sku.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
        claims = claims.saturating_add(share.claims);
    }
    let count = all.len();
    let mut refuse = |takes: &dyn Fn(&Share) -> Option<String>, what: &str| {
        for JudgedShare { findings, share } in all.iter_mut() {
            let Some((share, own)) = share.as_ref().and_then(|share| Some((share, takes(share)?))) else { continue };
            let message = format!("fleet policy `{}`: {what}; `{}` takes {own}", policy.name, share.model);
            let help = "Take less, remove a model, or ask an administrator for more.";
            findings.push(Finding::error(rules::QUOTA, share.place.clone(), message, help));
        }
    };
    if let Some(most) = quotas.models.filter(|most| u64::from(*most) < count as u64) {
        let what = format!("the source has {count} models; allowed: at most {most}");
        refuse(&|_| Some("one of them".to_owned()), &what);
    }
    if let Some(allowed) = &quotas.gpus {
        for (sku, sum) in sums {
            let named = allowed.iter().find(|(known, _)| known.as_str() == sku);
            let most = named.or_else(|| allowed.iter().find(|(known, _)| known.as_str() == "*"));
            let most = most.map_or(0, |(_, most)| u64::from(*most));
            if sum > most {
                let what =
                    format!("the models of the source take up to {sum} GPUs of `{sku}`; allowed: at most {most}");
                refuse(&|share| share.gpus.get(&sku).map(u64::to_string), &what);
            }
        }
    }
    if let Some(most) = policy.claims_size.filter(|most| claims > *most) {
        let what = format!(
            "the claims of the source take {}; allowed: at most {} together",
            describe_size(claims),
            describe_size(most)
        );
        refuse(&|share| (share.claims > Quantity::default()).then(|| describe_size(share.claims)), &what);
    }
}

impl Share {
    pub(super) fn of(intent: &Intent, model: &RenderedModel) -> Self {
        let mut share = Self {
            model: model.model.clone(),
            place: intent.origins.locate("metadata.name"),
            gpus: BTreeMap::new(),
            claims: Quantity::default(),
        };
        for desired in &model.objects {
            for (sku, count) in most_gpus(desired) {
                let sum = share.gpus.entry(sku).or_default();
                *sum = sum.saturating_add(count);
            }
            for (_, size) in References::of(&desired.object).claims {
                share.claims = share.claims.saturating_add(size);
            }
        }
        share
    }
}

/// The most GPUs of an object: where somebody else scales it, up to the bounds; of a request, those of its search and of
/// the graph that it may make.
fn most_gpus(desired: &RenderedObject) -> BTreeMap<String, u64> {
    let used = gpus::gpu_use(&desired.object);
    if let Some(budget) = gpus::request_gpu_budget(&desired.object) {
        let sku = used.sku.unwrap_or_else(|| gpus::UNKNOWN_SKU.to_owned());
        let most = budget.graph.max(budget.profiling);
        return if most > 0 { BTreeMap::from([(sku, most)]) } else { BTreeMap::new() };
    }
    let mut most = BTreeMap::new();
    for component in &used.components {
        let start = desired.starting_replicas(component);
        let bound = desired.replica_bounds.get(&component.name).map_or(start, |(_, max)| *max);
        let count = start.max(bound).saturating_mul(component.per_replica);
        if count > 0 {
            let sum: &mut u64 = most.entry(component.sku().to_owned()).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    most
}
