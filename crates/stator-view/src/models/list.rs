//! A list cut to a page, with the counts that filters are chosen by.
//! A page begins at a place between rows, so that rows that come and go neither repeat nor hide others.

use super::filter::ModelFilter;
use super::order::RowPlace;
use super::query::{DEFAULT_LIMIT, ModelQuery};
use super::row::{IndexedRow, ModelRow};
use crate::problem::{ProblemDetails, ProblemKind};
use crate::words::{HEALTHS, SYNC_STATES};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One page of a list of models, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ModelList")]
pub struct ModelListView {
    /// The rows of the page.
    pub items: Vec<ModelRow>,
    /// Where the page is in the list.
    pub metadata: ModelListMetadata,
    /// Numbers of models, by health and sync state.
    pub counts: HealthCounts,
    /// Notices about the list: sources whose models are unknown, or whose current state is. Empty if all is known.
    pub notices: Vec<String>,
}

/// Where a page is in its list.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelListMetadata {
    /// Models that match the filters.
    pub total: usize,
    /// The number of the page's first row in the list, from 1; 0 for a page without rows.
    pub first: usize,
    /// Rows behind this page.
    pub remaining_item_count: usize,
    /// For the parameter `continue`: the page after this one; absent on the last one.
    #[serde(rename = "continue")]
    pub next: Option<String>,
    /// For the parameter `continue`: the page before this one; absent on the first one.
    pub previous: Option<String>,
}

/// Numbers of models, by health and sync state. Each count applies all other filters, and so is the number that
/// choosing it would show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCounts {
    /// Models without any filter.
    pub all: usize,
    /// By health.
    pub health: BTreeMap<&'static str, usize>,
    /// By sync state.
    pub sync: BTreeMap<&'static str, usize>,
    /// Those with drifted fields.
    pub drifted: usize,
}

/// One page, before it is printed.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSelection<'a> {
    /// Its rows.
    pub rows: Vec<&'a ModelRow>,
    /// Where it is.
    pub metadata: ModelListMetadata,
    /// Numbers of models, by health and sync state.
    pub counts: HealthCounts,
}

impl ModelSelection<'_> {
    /// As JSON has it.
    pub fn to_list(&self, notices: Vec<String>) -> ModelListView {
        ModelListView {
            items: self.rows.iter().map(|row| (*row).clone()).collect(),
            metadata: self.metadata.clone(),
            counts: self.counts.clone(),
            notices,
        }
    }
}

/// Filters, sorts and cuts.
pub(crate) fn select<'a>(
    rows: &'a [Arc<IndexedRow>],
    query: &ModelQuery,
) -> Result<ModelSelection<'a>, ProblemDetails> {
    let list = query.digest();
    let cursor = query.cursor.as_deref().map(|text| PageCursor::parse(text, &list)).transpose()?;
    let (counts, found) = filter(rows, &query.filter);
    let mut placed: Vec<(RowPlace, &ModelRow)> =
        found.into_iter().map(|row| (query.order.place_of(row), row)).collect();
    placed.sort_by(|(one, _), (other, _)| query.order.compare(one, other));
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    let start = match &cursor {
        None => 0,
        Some(PageCursor { place, is_backward: false, .. }) => {
            placed.partition_point(|(one, _)| query.order.compare(one, place) != Ordering::Greater)
        }
        Some(PageCursor { place, is_backward: true, .. }) => {
            placed.partition_point(|(one, _)| query.order.compare(one, place) == Ordering::Less).saturating_sub(limit)
        }
    };
    let total = placed.len();
    let page = placed.get(start..total.min(start.saturating_add(limit))).unwrap_or_default();
    let at = |place: Option<&(RowPlace, &ModelRow)>, is_backward: bool| {
        place.map(|(place, _)| PageCursor { list: list.clone(), place: place.clone(), is_backward }.to_text())
    };
    let behind = total - (start + page.len()).min(total);
    let metadata = ModelListMetadata {
        total,
        first: if page.is_empty() { 0 } else { start + 1 },
        remaining_item_count: behind,
        next: at(page.last().filter(|_| behind > 0), false),
        previous: at(page.first().filter(|_| start > 0), true),
    };
    Ok(ModelSelection { rows: page.iter().map(|(_, row)| *row).collect(), metadata, counts })
}

fn filter<'a>(rows: &'a [Arc<IndexedRow>], filter: &ModelFilter) -> (HealthCounts, Vec<&'a ModelRow>) {
    let mut counts = HealthCounts {
        all: rows.len(),
        health: HEALTHS.iter().map(|one| (one.as_str(), 0)).collect(),
        sync: SYNC_STATES.iter().map(|one| (one.as_str(), 0)).collect(),
        drifted: 0,
    };
    let mut found = Vec::new();
    for IndexedRow { row, words } in rows.iter().map(|one| &**one) {
        if !filter.has_rest(row, words) {
            continue;
        }
        let (health, sync, drift) = (filter.has_health(row), filter.has_sync(row), filter.has_drift(row));
        if sync && drift {
            *counts.health.entry(row.health.as_str()).or_default() += 1;
        }
        if health && drift {
            *counts.sync.entry(row.sync.as_str()).or_default() += 1;
        }
        if health && sync && row.drifted_fields > 0 {
            counts.drifted += 1;
        }
        if health && sync && drift {
            found.push(row);
        }
    }
    (counts, found)
}

/// A place in a list, and the list that it is a place of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageCursor {
    /// The digest of filters and order.
    pub(super) list: String,
    /// The row that the page begins behind, or ends before.
    pub(super) place: RowPlace,
    /// Whether the page ends before the place.
    pub(super) is_backward: bool,
}

impl PageCursor {
    pub(super) fn to_text(&self) -> String {
        // A struct of strings and numbers always has a JSON form.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads what [`Self::to_text`] wrote for the list of that digest.
    pub(super) fn parse(text: &str, list: &str) -> Result<Self, ProblemDetails> {
        let cursor = URL_SAFE_NO_PAD.decode(text).ok().and_then(|json| serde_json::from_slice::<Self>(&json).ok());
        // What is a place of no list is one of another list, for whoever comes back with it.
        cursor.filter(|cursor| cursor.list == list).ok_or_else(|| ProblemDetails::new(ProblemKind::Expired))
    }
}
