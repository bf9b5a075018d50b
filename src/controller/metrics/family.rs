//! Families that can forget: all series of one family, by the values of its labels.

use super::definitions::{MetricDefinition, NAMESPACE, SOURCE};
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
pub(super) trait SeriesValue: EncodeMetric + fmt::Debug + Send + Sync + 'static {
    fn from_definition(described: &MetricDefinition) -> Self;
}

impl SeriesValue for Counter {
    fn from_definition(_: &MetricDefinition) -> Self {
        Self::default()
    }
}

impl SeriesValue for Gauge {
    fn from_definition(_: &MetricDefinition) -> Self {
        Self::default()
    }
}

impl SeriesValue for Histogram {
    fn from_definition(described: &MetricDefinition) -> Self {
        Self::new(described.buckets.iter().copied())
    }
}

/// A family. Clones are the same one.
pub(super) struct MetricFamily<M> {
    definition: &'static MetricDefinition,
    series: Arc<RwLock<BTreeMap<Vec<String>, M>>>,
}

impl<M> Clone for MetricFamily<M> {
    fn clone(&self) -> Self {
        Self { definition: self.definition, series: Arc::clone(&self.series) }
    }
}

impl<M: fmt::Debug> fmt::Debug for MetricFamily<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Series").field("name", &self.definition.name).finish_non_exhaustive()
    }
}

impl<M: SeriesValue> MetricFamily<M> {
    /// A family without series yet, in the registry.
    pub(super) fn register(described: &'static MetricDefinition, registry: &mut Registry) -> Self {
        let series = Self { definition: described, series: Arc::default() };
        // The registry adds a full stop to the help.
        registry.register(described.registered_name(), described.meaning, series.clone());
        series
    }

    /// Does something with the series of these values, one for each label in its order.
    pub(super) fn with_labels<R>(&self, values: &[&str], act: impl FnOnce(&M) -> R) -> R {
        debug_assert_eq!(values.len(), self.definition.labels.len(), "{}", self.definition.name);
        let key: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        if let Some(cell) = self.series.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return act(cell);
        }
        let mut cells = self.series.write().unwrap_or_else(PoisonError::into_inner);
        act(cells.entry(key).or_insert_with(|| M::from_definition(self.definition)))
    }

    /// Forgets the series of a source, in a family that has some for each.
    pub(super) fn remove_source(&self, source: [&str; 2]) {
        if self.definition.labels.starts_with(&[NAMESPACE, SOURCE]) {
            self.remove_matching(&source);
        }
    }

    /// Forgets the series whose first values are these.
    pub(super) fn remove_matching(&self, first: &[&str]) {
        let goes = |key: &[String]| key.iter().map(String::as_str).zip(first).all(|(value, gone)| value == *gone);
        self.series.write().unwrap_or_else(PoisonError::into_inner).retain(|key, _| !goes(key));
    }
}

impl<M: SeriesValue> EncodeMetric for MetricFamily<M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (values, cell) in &*self.series.read().unwrap_or_else(PoisonError::into_inner) {
            let names = self.definition.labels.iter().map(|label| label.name);
            let labels: Vec<(&str, &str)> = names.zip(values.iter().map(String::as_str)).collect();
            if labels.is_empty() {
                return cell.encode(encoder);
            }
            cell.encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        self.definition.kind.metric_type()
    }

    fn is_empty(&self) -> bool {
        self.series.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}
