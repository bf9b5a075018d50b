//! The list of models.

use super::frame::{PageFrame, PageSection};
use super::text::{ProseText, TimeText, amount_text, number_text, print};
use crate::capacity::capacity;
use crate::models::{ModelListMetadata, ModelOrder, ModelQuery, ModelRow, SortKey};
use crate::observation::FleetObservation;
use crate::problem::ProblemDetails;
use crate::query_string::encode;
use crate::words::{HEALTHS, SYNC_STATES, health_shape, sync_shape};
use askama::Template;
use jiff::Timestamp;
use stator_core::dynamo::health::Health;
use stator_model::plan::{SyncState, abbreviate_revision};
use std::collections::BTreeSet;

#[derive(Template)]
#[template(path = "models.html")]
struct ModelsPage {
    frame: PageFrame,
    health: Vec<CountLink>,
    sync: Vec<CountLink>,
    kept: Vec<(&'static str, String)>,
    choices: Vec<FilterChoice>,
    api_address: String,
    range: String,
    rows: Vec<RowText>,
    /// Where all are in one, it is said once.
    has_namespaces: bool,
    previous: Option<String>,
    next: Option<String>,
    totals: String,
}

/// A count that is a filter.
struct CountLink {
    id: String,
    href: String,
    class: &'static str,
    shape: &'static str,
    word: &'static str,
    number: String,
    is_on: bool,
}

/// A filter that is chosen from a list.
pub(super) struct FilterChoice {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) options: Vec<FilterOption>,
}

pub(super) struct FilterOption {
    pub(super) value: String,
    pub(super) text: String,
    pub(super) is_on: bool,
}

/// A row as the page shows it.
pub(super) struct RowText {
    pub(super) id: String,
    pub(super) href: String,
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) health: &'static str,
    pub(super) health_shape: &'static str,
    pub(super) health_class: &'static str,
    pub(super) components: String,
    pub(super) sync: String,
    pub(super) sync_shape: &'static str,
    pub(super) sync_class: &'static str,
    pub(super) gpus: String,
    pub(super) rollout: String,
    pub(super) revision: String,
    pub(super) since: Option<TimeText>,
    pub(super) message: ProseText,
}

/// The page at `/` with this query.
///
/// # Errors
/// Where the query has parameters that are not allowed, or a page of another list.
pub fn models_page(observation: &FleetObservation, query: &str, now: Timestamp) -> Result<String, ProblemDetails> {
    let query = ModelQuery::parse(query)?;
    let page = observation.models(&query)?;
    let mut frame = PageFrame::live("Models", PageSection::Models, observation, now);
    frame.search = query.filter.search.clone().unwrap_or_default();
    // What is not known yet is not counted.
    let is_loading = observation.is_loading();
    let chosen = ["namespace", "source", "gpu", "sort"];
    let turned = |cursor: &Option<String>| cursor.as_ref().map(|cursor| query.page_address("/", cursor));
    Ok(print(&ModelsPage {
        frame,
        health: match is_loading {
            true => Vec::new(),
            false => HEALTHS.iter().rev().map(|health| health_count(&query, *health, &page.counts.health)).collect(),
        },
        sync: SYNC_STATES
            .iter()
            .rev()
            .map(|sync| sync_count(&query, *sync, &page.counts.sync))
            .chain([drift_count(&query, page.counts.drifted)])
            .filter(|_| !is_loading)
            .collect(),
        kept: query.parameters().into_iter().filter(|(name, _)| !chosen.contains(name)).collect(),
        choices: choices(observation, &query),
        api_address: query.address("/api/v1/models"),
        range: match is_loading {
            true => "Models are being loaded.".to_owned(),
            false => list_range(&page.metadata, page.rows.len(), page.counts.all),
        },
        rows: page.rows.iter().map(|row| RowText::new(row, now)).collect(),
        has_namespaces: observation.choices().namespaces.len() > 1,
        previous: turned(&page.metadata.previous),
        next: turned(&page.metadata.next),
        totals: if is_loading { String::new() } else { totals(observation) },
    }))
}

/// Which rows of a list are shown.
pub(super) fn list_range(place: &ModelListMetadata, shown: usize, all: usize) -> String {
    let (first, total) = (place.first, place.total);
    let of = if total == all {
        number_text(all)
    } else {
        format!("{} matching, of {}", number_text(total), number_text(all))
    };
    match shown {
        0 if all == 0 => "There are no models.".to_owned(),
        0 => format!("No model matches the filters; there are {}.", number_text(all)),
        shown => format!("{}–{} of {of}", number_text(first), number_text(first + shown - 1)),
    }
}

/// The query with its filters changed, as an address.
fn changed(query: &ModelQuery, change: impl FnOnce(&mut ModelQuery)) -> String {
    let mut query = query.clone();
    change(&mut query);
    query.address("/")
}

fn toggle<T: Ord>(set: &mut BTreeSet<T>, value: T) {
    if !set.remove(&value) {
        set.insert(value);
    }
}

fn health_count(
    query: &ModelQuery,
    health: Health,
    counts: &std::collections::BTreeMap<&'static str, usize>,
) -> CountLink {
    let number = counts.get(health.as_str()).copied().unwrap_or_default();
    CountLink {
        id: format!("health-{}", health.as_str()),
        href: changed(query, |query| toggle(&mut query.filter.health, health)),
        class: count_class(health_class(health), number),
        shape: health_shape(health),
        word: health.as_str(),
        number: number_text(number),
        is_on: query.filter.health.contains(&health),
    }
}

fn sync_count(
    query: &ModelQuery,
    sync: SyncState,
    counts: &std::collections::BTreeMap<&'static str, usize>,
) -> CountLink {
    let number = counts.get(sync.as_str()).copied().unwrap_or_default();
    CountLink {
        id: format!("sync-{}", sync.as_str()),
        href: changed(query, |query| toggle(&mut query.filter.sync, sync)),
        class: count_class(sync_class(sync), number),
        shape: sync_shape(sync),
        word: sync.as_str(),
        number: number_text(number),
        is_on: query.filter.sync.contains(&sync),
    }
}

/// What is not there is no reason for a colour.
fn count_class(class: &'static str, number: usize) -> &'static str {
    if number == 0 { "none" } else { class }
}

fn drift_count(query: &ModelQuery, number: usize) -> CountLink {
    let is_on = query.filter.drift == Some(true);
    CountLink {
        id: "drifted".to_owned(),
        href: changed(query, |query| query.filter.drift = (!is_on).then_some(true)),
        class: count_class("mild", number),
        shape: "≠",
        word: "drifted",
        number: number_text(number),
        is_on,
    }
}

fn choices(observation: &FleetObservation, query: &ModelQuery) -> Vec<FilterChoice> {
    let choices = observation.choices();
    let filter = &query.filter;
    vec![
        choice("source", "Source", &choices.sources, &filter.source),
        choice("namespace", "Namespace", &choices.namespaces, &filter.namespace),
        choice("gpu", "GPU", &choices.gpus, &filter.gpu),
        FilterChoice { name: "sort", label: "Sort", options: sort_options(&query.order) },
    ]
}

fn choice(name: &'static str, label: &'static str, all: &BTreeSet<String>, chosen: &BTreeSet<String>) -> FilterChoice {
    let any = FilterOption { value: String::new(), text: "all".to_owned(), is_on: chosen.is_empty() };
    // What is chosen is shown also where no model has it any more.
    let values = all.union(chosen).map(|value| FilterOption {
        value: value.clone(),
        text: value.clone(),
        is_on: chosen.contains(value),
    });
    FilterChoice { name, label, options: [any].into_iter().chain(values).collect() }
}

/// The choice of a source.
pub(super) fn source_choice(observation: &FleetObservation, query: &ModelQuery) -> FilterChoice {
    choice("source", "Source", &observation.choices().sources, &query.filter.source)
}

fn sort_options(order: &ModelOrder) -> Vec<FilterOption> {
    let orders = [
        (SortKey::Worst, false, "worst first"),
        (SortKey::Name, false, "name"),
        (SortKey::Namespace, false, "namespace"),
        (SortKey::Gpus, true, "most GPUs first"),
        (SortKey::Cost, true, "most expensive first"),
        (SortKey::Since, true, "newest change first"),
    ];
    let mut options: Vec<FilterOption> = orders
        .into_iter()
        .map(|(key, turned, text)| {
            let one = ModelOrder { keys: vec![(key, turned)] };
            FilterOption { value: one.text(), text: text.to_owned(), is_on: one == *order }
        })
        .collect();
    if options.iter().all(|option| !option.is_on) {
        options.push(FilterOption { value: order.text(), text: order.text(), is_on: true });
    }
    options
}

fn totals(observation: &FleetObservation) -> String {
    let capacity = capacity(observation);
    let gpus: Vec<String> = capacity.items.iter().map(|one| format!("{} {}", one.used, one.sku)).collect();
    let costs: Vec<String> = capacity.cost.iter().map(|cost| amount_text(&cost.currency, cost.per_hour)).collect();
    match (gpus.is_empty(), costs.is_empty()) {
        (true, _) => "GPUs now: none".to_owned(),
        (false, true) => format!("GPUs now: {}", gpus.join(", ")),
        (false, false) => format!("GPUs now: {}. Cost now: {}", gpus.join(", "), costs.join(", ")),
    }
}

/// The colour of a health, beside its word and its shape.
pub(super) fn health_class(health: Health) -> &'static str {
    match health {
        Health::Healthy => "good",
        Health::Progressing | Health::Suspended | Health::Unknown => "mild",
        Health::Degraded | Health::Failed => "bad",
    }
}

fn sync_class(sync: SyncState) -> &'static str {
    match sync {
        SyncState::Synced => "good",
        SyncState::OutOfSync | SyncState::Unknown => "mild",
        SyncState::Blocked => "bad",
    }
}

impl RowText {
    pub(super) fn new(row: &ModelRow, now: Timestamp) -> Self {
        let gpus = row.gpus.iter().map(|one| format!("{} {}", one.count, one.sku)).collect::<Vec<_>>();
        let drifted = match row.drifted_fields {
            0 => String::new(),
            1 => " (1 field)".to_owned(),
            fields => format!(" ({fields} fields)"),
        };
        Self {
            // A slash is in no part of it, as both are encoded.
            id: format!("{}/{}", encode(&row.namespace), encode(&row.name)),
            href: model_address(&row.namespace, &row.name),
            name: row.name.clone(),
            namespace: row.namespace.clone(),
            health: row.health.as_str(),
            health_shape: health_shape(row.health),
            health_class: health_class(row.health),
            components: row.components.map(|count| format!("{}/{}", count.ready, count.total)).unwrap_or_default(),
            sync: format!("{}{drifted}", row.sync.as_str()),
            sync_shape: sync_shape(row.sync),
            sync_class: sync_class(row.sync),
            gpus: if gpus.is_empty() { "0".to_owned() } else { gpus.join(", ") },
            rollout: row.rollout.clone().unwrap_or_else(|| "–".to_owned()),
            revision: abbreviate_revision(&row.revision),
            since: row.since.as_ref().map(|since| {
                let time = TimeText::ago(&since.time, now);
                TimeText { text: if since.at_least { format!("≥ {}", time.text) } else { time.text }, ..time }
            }),
            message: ProseText::new(&row.message),
        }
    }
}

/// The page of a model.
pub fn model_address(namespace: &str, name: &str) -> String {
    format!("/models/{}/{}", encode(namespace), encode(name))
}
