//! The page of the GPUs.

use super::frame::{PageFrame, PageSection};
use super::text::{ProseText, amount_text, number_text, print};
use crate::capacity::{SkuView, capacity};
use crate::models::ModelQuery;
use crate::observation::FleetObservation;
use askama::Template;
use jiff::Timestamp;
use std::collections::BTreeSet;

#[derive(Template)]
#[template(path = "capacity.html")]
struct CapacityPage {
    frame: PageFrame,
    items: Vec<SkuText>,
    cost: String,
}

struct SkuText {
    sku: String,
    href: String,
    used: u64,
    peak: u64,
    reserved: u64,
    allocatable: String,
    unknown: ProseText,
    is_exceeded: bool,
    models: String,
}

/// The page at `/capacity`.
pub fn capacity_page(observation: &FleetObservation, now: Timestamp) -> String {
    let view = capacity(observation);
    let costs: Vec<String> = view.cost.iter().map(|cost| amount_text(&cost.currency, cost.per_hour)).collect();
    let cost = match (costs.is_empty(), view.unpriced_models) {
        (true, _) => "No cost is shown, because the repository has no prices.".to_owned(),
        (false, 0) => format!("Cost now: {}", costs.join(", ")),
        (false, unpriced) => {
            format!("Cost now: {}, without {} models that have no price", costs.join(", "), number_text(unpriced))
        }
    };
    print(&CapacityPage {
        frame: PageFrame::live("Capacity", PageSection::Capacity, observation, now),
        items: view.items.iter().map(sku_text).collect(),
        cost,
    })
}

fn sku_text(one: &SkuView) -> SkuText {
    let mut models = ModelQuery::default();
    models.filter.gpu = BTreeSet::from([one.sku.clone()]);
    SkuText {
        sku: one.sku.clone(),
        href: models.address("/"),
        used: one.used,
        peak: one.peak,
        reserved: one.reserved,
        allocatable: one.allocatable.map(|number| number.to_string()).unwrap_or_default(),
        unknown: ProseText::new(one.allocatable_unknown.as_deref().unwrap_or_default()),
        is_exceeded: one.exceeded,
        models: number_text(one.models),
    }
}
