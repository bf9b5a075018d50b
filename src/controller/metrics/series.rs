//! Families that can forget: all series of one family, by the values of its labels.

use super::set::{Described, Kind};
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// One value in one series.
pub(super) trait Cell: EncodeMetric + fmt::Debug + Send + Sync + 'static {
    fn of(described: &Described) -> Self;
}

/// Counts.
pub(super) type Count = Counter;
/// A number that is set.
pub(super) type Level = Gauge;

impl Cell for Count {
    fn of(_: &Described) -> Self {
        Self::default()
    }
}

impl Cell for Level {
    fn of(_: &Described) -> Self {
        Self::default()
    }
}

impl Cell for Histogram {
    fn of(described: &Described) -> Self {
        Self::new(described.buckets.iter().copied())
    }
}

/// A family. Clones are the same one.
pub(super) struct Series<M> {
    described: &'static Described,
    cells: Arc<RwLock<BTreeMap<Vec<String>, M>>>,
}

impl<M> Clone for Series<M> {
    fn clone(&self) -> Self {
        Self { described: self.described, cells: Arc::clone(&self.cells) }
    }
}

impl<M: fmt::Debug> fmt::Debug for Series<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Series").field("name", &self.described.name).finish_non_exhaustive()
    }
}

impl<M: Cell> Series<M> {
    /// A family without series yet, in the registry.
    pub(super) fn register(described: &'static Described, registry: &mut Registry) -> Self {
        let series = Self { described, cells: Arc::default() };
        // The registry adds the suffix of counters, and a full stop to the help.
        let name = match described.kind {
            Kind::Counter => described.name.strip_suffix("_total").unwrap_or(described.name),
            Kind::Gauge | Kind::Histogram => described.name,
        };
        registry.register(name, described.meaning, series.clone());
        series
    }

    /// Does something with the series of these values, one for each label in its order.
    pub(super) fn with<R>(&self, values: &[&str], act: impl FnOnce(&M) -> R) -> R {
        debug_assert_eq!(values.len(), self.described.labels.len(), "{}", self.described.name);
        let key: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        if let Some(cell) = self.cells.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return act(cell);
        }
        let mut cells = self.cells.write().unwrap_or_else(PoisonError::into_inner);
        act(cells.entry(key).or_insert_with(|| M::of(self.described)))
    }

    /// Forgets the series whose first values are these.
    pub(super) fn forget(&self, first: &[&str]) {
        let goes = |key: &[String]| key.iter().map(String::as_str).zip(first).all(|(value, gone)| value == *gone);
        self.cells.write().unwrap_or_else(PoisonError::into_inner).retain(|key, _| !goes(key));
    }
}

impl<M: Cell> EncodeMetric for Series<M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (values, cell) in &*self.cells.read().unwrap_or_else(PoisonError::into_inner) {
            let names = self.described.labels.iter().map(|label| label.name);
            let labels: Vec<(&str, &str)> = names.zip(values.iter().map(String::as_str)).collect();
            if labels.is_empty() {
                return cell.encode(encoder);
            }
            cell.encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        match self.described.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        }
    }

    fn is_empty(&self) -> bool {
        self.cells.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}
