//! The order of a list, and the place of a row in it.

use super::row::ModelRow;
use crate::words::{disruption_rank, health_rank, sync_rank};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// What a list can be sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortKey {
    /// The worst first: health, then sync, then drift.
    Worst,
    /// By name.
    Name,
    /// By namespace.
    Namespace,
    /// By source.
    Source,
    /// By health, the worst first.
    Health,
    /// By sync state, the worst first.
    Sync,
    /// By the number of GPUs.
    Gpus,
    /// By cost.
    Cost,
    /// By what the next sync does to running pods, from harmless to worst.
    Disruption,
    /// By since when it stands as it does, the longest first.
    Since,
}

impl SortKey {
    /// Every key.
    pub const ALL: [Self; 10] = [
        Self::Worst,
        Self::Name,
        Self::Namespace,
        Self::Source,
        Self::Health,
        Self::Sync,
        Self::Gpus,
        Self::Cost,
        Self::Disruption,
        Self::Since,
    ];

    /// Its word in addresses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Worst => "worst",
            Self::Name => "name",
            Self::Namespace => "namespace",
            Self::Source => "source",
            Self::Health => "health",
            Self::Sync => "sync",
            Self::Gpus => "gpus",
            Self::Cost => "cost",
            Self::Disruption => "disruption",
            Self::Since => "since",
        }
    }

    fn value_of(self, row: &ModelRow) -> SortValue {
        let text = |text: &str| SortValue::Text(text.to_owned());
        match self {
            // Ten sync states and a bit for drift fit below one step of health.
            Self::Worst => SortValue::Number(
                health_rank(row.health) * 100 + sync_rank(row.sync) * 2 + u64::from(row.drifted_fields == 0),
            ),
            Self::Name => text(&row.name),
            Self::Namespace => text(&row.namespace),
            Self::Source => text(&row.source),
            Self::Health => SortValue::Number(health_rank(row.health)),
            Self::Sync => SortValue::Number(sync_rank(row.sync)),
            Self::Gpus => SortValue::Number(row.gpu_total()),
            Self::Cost => SortValue::Number(row.cost.as_ref().map_or(0, |cost| hundredths_of_cents(cost.per_hour))),
            Self::Disruption => SortValue::Number(row.disruption.map_or(0, |one| disruption_rank(one) + 1)),
            Self::Since => text(row.since.as_ref().map_or("", |since| &since.time)),
        }
    }
}

/// An amount as a whole number of the smallest parts that a price list knows.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
fn hundredths_of_cents(amount: f64) -> u64 {
    (amount * 10_000.0).round() as u64
}

/// By what, and which way round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelOrder {
    /// The keys, the most important first; true where the order is turned round.
    pub keys: Vec<(SortKey, bool)>,
}

impl Default for ModelOrder {
    fn default() -> Self {
        Self { keys: vec![(SortKey::Worst, false)] }
    }
}

/// What a row is sorted by, as a cursor remembers it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum SortValue {
    Number(u64),
    Text(String),
}

/// Where a row stands in a list: no two stand in the same place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RowPlace {
    values: Vec<SortValue>,
    name: String,
    namespace: String,
    source: String,
}

impl ModelOrder {
    /// As addresses have it: `-gpus,name`.
    pub fn text(&self) -> String {
        let parts = self.keys.iter().map(|(key, turned)| format!("{}{}", if *turned { "-" } else { "" }, key.as_str()));
        parts.collect::<Vec<_>>().join(",")
    }

    pub(super) fn place_of(&self, row: &ModelRow) -> RowPlace {
        RowPlace {
            values: self.keys.iter().map(|(key, _)| key.value_of(row)).collect(),
            name: row.name.clone(),
            namespace: row.namespace.clone(),
            source: row.source.clone(),
        }
    }

    pub(super) fn compare(&self, one: &RowPlace, other: &RowPlace) -> Ordering {
        let by_keys = self
            .keys
            .iter()
            .zip(one.values.iter().zip(&other.values))
            .map(|((_, turned), (one, other))| if *turned { other.cmp(one) } else { one.cmp(other) });
        let by_name = || (&one.name, &one.namespace, &one.source).cmp(&(&other.name, &other.namespace, &other.source));
        by_keys.fold(Ordering::Equal, Ordering::then).then_with(by_name)
    }
}
