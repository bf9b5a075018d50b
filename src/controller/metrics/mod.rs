//! What is counted, where it happens: see [`ALL`] for every family, its labels and what it says.

mod definitions;
mod exposition;
mod family;
mod labels;
mod process;

#[cfg(test)]
mod tests;

pub use definitions::{ALL, MetricDefinition, MetricGroup, MetricKind, MetricLabel};
pub use exposition::ExpositionFormat;
pub use labels::{
    DeliveryOutcome, GpuCountKind, MirrorOperation, NotificationResult, ObjectWriteKind, PollOutcome, PreviewOutcome,
    QueueKind, SyncStage, TrialResult,
};
pub use process::count_panic;

use crate::controller::sources::registry::{SourcePhase, SourceRegistry};
use crate::controller::sources::resolved_source::SourceKey;
use family::MetricFamily;
use jiff::Timestamp;
use labels::{HostLabels, OTHER_LABEL, result_label};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use stator_cluster::cluster::kube;
use stator_core::dynamo::gpus::{UNKNOWN_SKU, is_known_sku};
use stator_core::dynamo::health::Health;
use stator_core::outcome::OutcomeClass;
use stator_git::forge;
use stator_git::source::model_source::{ForgeKind, NotificationKind};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Looks at how long a queue is; `None` once it is no more.
type QueueLengthProbe = Box<dyn Fn() -> Option<usize> + Send + Sync>;

/// Makes [`Metrics`] of its families, which are registered in their order.
macro_rules! metrics {
    ($($family:ident: $value:ty = $definition:ident,)*) => {
        /// All of it.
        pub struct Metrics {
            registry: Registry,
            $($family: MetricFamily<$value>,)*
            hosts: HostLabels,
            queue_probes: Mutex<Vec<(QueueKind, QueueLengthProbe)>>,
        }

        impl Default for Metrics {
            fn default() -> Self {
                let mut registry = Registry::default();
                let build: MetricFamily<Gauge> = MetricFamily::register(&definitions::BUILD, &mut registry);
                build.with_labels(&[env!("CARGO_PKG_VERSION")], |one| one.set(1));
                $(let $family = MetricFamily::register(&definitions::$definition, &mut registry);)*
                registry.register_collector(Box::new(process::ProcessCollector));
                Self { registry, $($family,)* hosts: HostLabels::default(), queue_probes: Mutex::default() }
            }
        }

        impl Metrics {
            /// A source is gone, and its series with it.
            pub fn remove_source(&self, source: &SourceKey) {
                $(self.$family.remove_source(source_labels(source));)*
            }
        }
    };
}

metrics! {
    states: Gauge = STATES,
    ready_source: Gauge = READY_SOURCE,
    suspended: Gauge = SUSPENDED,
    held: Gauge = HELD,
    drifted: Gauge = DRIFTED,
    look_due: Gauge = LOOK_DUE,
    last_success: Gauge = LAST_SUCCESS,
    restarts: Counter = RESTARTS,
    reloads: Counter = RELOADS,
    looks: Counter = LOOKS,
    syncs: Counter = SYNCS,
    sync_seconds: Histogram = SYNC_SECONDS,
    stage_seconds: Histogram = STAGE_SECONDS,
    applied_seconds: Histogram = APPLIED_SECONDS,
    healthy_seconds: Histogram = HEALTHY_SECONDS,
    writes: Counter = WRITES,
    applies: Counter = APPLIES,
    drift_seen: Counter = DRIFT_SEEN,
    drift_repaired: Counter = DRIFT_REPAIRED,
    models: Gauge = MODELS,
    gpus: Gauge = GPUS,
    deprecated_uses: Gauge = DEPRECATED_USES,
    previews: Counter = PREVIEWS,
    preview_seconds: Histogram = PREVIEW_SECONDS,
    notifications: Counter = NOTIFICATIONS,
    webhooks: Counter = WEBHOOKS,
    webhook_seconds: Histogram = WEBHOOK_SECONDS,
    git: Counter = GIT,
    git_seconds: Histogram = GIT_SECONDS,
    trials: Counter = TRIALS,
    git_bytes: Counter = GIT_BYTES,
    kube: Counter = KUBE,
    kube_seconds: Histogram = KUBE_SECONDS,
    forge_requests: Counter = FORGE_REQUESTS,
    forge_seconds: Histogram = FORGE_SECONDS,
    forge_left: Gauge = FORGE_LEFT,
    shards: Gauge = SHARDS,
    shards_held: Gauge = SHARDS_HELD,
    replicas: Gauge = REPLICAS,
    renewals: Counter = RENEWALS,
    fenced: Counter = FENCED,
    ready: Gauge = READY,
    queue: Gauge = QUEUE,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

fn source_labels(source: &SourceKey) -> [&str; 2] {
    [&source.namespace, &source.name]
}

fn to_gauge_value(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn set_gauge(series: &MetricFamily<Gauge>, values: &[&str], number: i64) {
    series.with_labels(values, |level| level.set(number));
}

fn increment_counter(series: &MetricFamily<Counter>, values: &[&str]) {
    series.with_labels(values, |count| count.inc());
}

fn observe_seconds(series: &MetricFamily<Histogram>, values: &[&str], took: Duration) {
    series.with_labels(values, |histogram| histogram.observe(took.as_secs_f64()));
}

/// Sources and their syncs.
impl Metrics {
    /// A source begins: what is counted of it is there from now on, so that the first of anything is seen as one more.
    pub fn init_source(&self, source: &SourceKey) {
        let [namespace, name] = source_labels(source);
        PollOutcome::ALL.iter().for_each(|look| self.looks.with_labels(&[namespace, name, look.as_str()], |_| ()));
        for class in OutcomeClass::ALL {
            self.syncs.with_labels(&[namespace, name, class.metric_label()], |_| ());
        }
        for counts in [&self.writes, &self.restarts, &self.drift_seen, &self.drift_repaired] {
            counts.with_labels(&[namespace, name], |_| ());
        }
    }

    /// A look at a repository.
    pub fn record_poll(&self, source: &SourceKey, look: PollOutcome) {
        let [namespace, name] = source_labels(source);
        increment_counter(&self.looks, &[namespace, name, look.as_str()]);
    }

    /// When the next look is due. Not called for failed polls: a failed poll stays due.
    pub fn set_next_poll(&self, source: &SourceKey, at: Timestamp) {
        set_gauge(&self.look_due, &source_labels(source), at.as_second());
    }

    /// A sync.
    pub fn record_sync(&self, source: &SourceKey, class: OutcomeClass, writes: usize, took: Duration) {
        let [namespace, name] = source_labels(source);
        increment_counter(&self.syncs, &[namespace, name, class.metric_label()]);
        let writes = u64::try_from(writes).unwrap_or(u64::MAX);
        self.writes.with_labels(&[namespace, name], |all| all.inc_by(writes));
        observe_seconds(&self.sync_seconds, &[class.metric_label()], took);
    }

    /// The newest commit was found synced and healthy.
    pub fn record_success(&self, source: &SourceKey, at: Timestamp) {
        set_gauge(&self.last_success, &source_labels(source), at.as_second());
    }

    /// A part of an attempt is through.
    pub fn record_stage(&self, stage: SyncStage, took: Duration) {
        observe_seconds(&self.stage_seconds, &[stage.as_str()], took);
    }

    /// A commit was written to the cluster, so long after it was made.
    pub fn record_commit_applied(&self, source: &SourceKey, after: Duration) {
        observe_seconds(&self.applied_seconds, &source_labels(source), after);
    }

    /// All models of a commit are healthy, so long after it was made.
    pub fn record_commit_healthy(&self, source: &SourceKey, after: Duration) {
        observe_seconds(&self.healthy_seconds, &source_labels(source), after);
    }

    /// Something was done to an object of a kind; of an empty one, where it is not known.
    pub fn record_apply(&self, kind: &str, apply: ObjectWriteKind) {
        increment_counter(&self.applies, &[kind, apply.as_str()]);
    }

    /// Live objects were changed by another client.
    pub fn record_drift(&self, source: &SourceKey) {
        increment_counter(&self.drift_seen, &source_labels(source));
    }

    /// A sync that drift made necessary.
    pub fn record_drift_repair(&self, source: &SourceKey) {
        increment_counter(&self.drift_repaired, &source_labels(source));
    }

    /// A task that panicked.
    pub fn record_restart(&self, source: &SourceKey) {
        increment_counter(&self.restarts, &source_labels(source));
    }

    /// How many models of a source have which health.
    pub fn set_model_health(&self, source: &SourceKey, by_health: &BTreeMap<Health, usize>) {
        use Health::{Degraded, Failed, Healthy, Progressing, Suspended, Unknown};
        let [namespace, name] = source_labels(source);
        for health in [Healthy, Suspended, Progressing, Unknown, Degraded, Failed] {
            let number = by_health.get(&health).copied().unwrap_or_default();
            set_gauge(&self.models, &[namespace, name, &health.as_str().to_ascii_lowercase()], to_gauge_value(number));
        }
    }

    /// How many GPUs a source's graphs ask for, by SKU. One that Dynamo does not know is another.
    pub fn set_gpus<'a>(&self, source: &SourceKey, all: impl IntoIterator<Item = (&'a str, GpuCountKind, u64)>) {
        let [namespace, name] = source_labels(source);
        let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (sku, state, number) in all {
            let known = sku == UNKNOWN_SKU || is_known_sku(sku);
            let sum = sums.entry((if known { sku } else { OTHER_LABEL }, state.as_str())).or_default();
            *sum = sum.saturating_add(number);
        }
        self.gpus.remove_matching(&[namespace, name]);
        for ((sku, state), number) in sums {
            set_gauge(&self.gpus, &[namespace, name, sku, state], i64::try_from(number).unwrap_or(i64::MAX));
        }
    }

    /// How often a source's objects use what Dynamo deprecated, by the release that removes it.
    pub fn set_deprecated_uses(&self, source: &SourceKey, by_removal: &BTreeMap<Option<&'static str>, usize>) {
        let [namespace, name] = source_labels(source);
        self.deprecated_uses.remove_matching(&[namespace, name]);
        for (release, number) in by_removal {
            let removed_in = release.unwrap_or("none");
            set_gauge(&self.deprecated_uses, &[namespace, name, removed_in], to_gauge_value(*number));
        }
    }

    /// A reading of the file of sources.
    pub fn record_reload(&self, well: bool) {
        increment_counter(&self.reloads, &[result_label(well)]);
    }
}

/// Counts what others are asked.
impl Metrics {
    /// Counts the requests of a connection to an API server.
    pub fn kube_observer(self: &Arc<Self>) -> kube::RequestObserver {
        let metrics = Arc::clone(self);
        Arc::new(move |one: kube::ObservedRequest| {
            metrics.record_kube_request(one.verb, one.code.unwrap_or_default(), one.duration)
        })
    }

    /// Counts the requests of a client of a git host's API.
    pub fn forge_observer(self: &Arc<Self>) -> forge::ForgeObserver {
        let metrics = Arc::clone(self);
        Arc::new(move |one: forge::ForgeExchange<'_>| {
            metrics.record_forge_request(one.host, one.code.unwrap_or_default(), one.took, one.remaining_calls);
        })
    }

    /// Work on a source's mirror.
    pub fn record_git_operation(
        &self,
        source: &SourceKey,
        operation: MirrorOperation,
        well: bool,
        took: Duration,
        received: u64,
    ) {
        let [namespace, name] = source_labels(source);
        increment_counter(&self.git, &[namespace, name, operation.as_str(), result_label(well)]);
        self.git_bytes.with_labels(&[namespace, name], |all| all.inc_by(received));
        observe_seconds(&self.git_seconds, &[operation.as_str()], took);
    }

    /// A request to the API server; `code` is 0 where no answer came.
    pub fn record_kube_request(&self, verb: &'static str, code: u16, took: Duration) {
        increment_counter(&self.kube, &[verb, &status_label(code)]);
        observe_seconds(&self.kube_seconds, &[verb], took);
    }

    /// A request to a git host's API; `code` is 0 where no answer came, and `left` what it says that it still takes.
    pub fn record_forge_request(&self, host: &str, code: u16, took: Duration, left: Option<u64>) {
        let host = self.hosts.label(host);
        increment_counter(&self.forge_requests, &[&host, &status_label(code)]);
        observe_seconds(&self.forge_seconds, &[&host], took);
        if let Some(left) = left {
            set_gauge(&self.forge_left, &[&host], i64::try_from(left).unwrap_or(i64::MAX));
        }
    }

    /// A delivery.
    pub fn record_delivery(&self, forge: ForgeKind, delivery: DeliveryOutcome, took: Duration) {
        increment_counter(&self.webhooks, &[forge.as_str(), delivery.as_str()]);
        observe_seconds(&self.webhook_seconds, &[forge.as_str()], took);
    }

    /// A commit that may have ended the process before.
    pub(in crate::controller) fn record_trial(&self, result: TrialResult) {
        increment_counter(&self.trials, &[result.as_str()]);
    }

    /// A preview.
    pub fn record_preview(&self, ending: PreviewOutcome, took: Duration) {
        increment_counter(&self.previews, &[ending.as_str()]);
        observe_seconds(&self.preview_seconds, &[], took);
    }

    /// There is a receiver: results of notifications are counted from now on.
    pub fn init_receiver(&self, of: NotificationKind) {
        NotificationResult::ALL
            .iter()
            .for_each(|ending| self.notifications.with_labels(&[of.as_str(), ending.as_str()], |_| ()));
    }

    /// A notification.
    pub fn record_notification(&self, of: NotificationKind, ending: NotificationResult) {
        increment_counter(&self.notifications, &[of.as_str(), ending.as_str()]);
    }
}

/// The status as a label has it. What is no status is none, so that there are never more than there are statuses.
fn status_label(code: u16) -> String {
    if (100..600).contains(&code) { code.to_string() } else { "none".to_owned() }
}

/// The process and its kind.
impl Metrics {
    /// How shards are spread: how many there are, how many are held here, and among how many live replicas.
    pub fn set_shards(&self, all: usize, held: usize, replicas: usize) {
        set_gauge(&self.shards, &[], to_gauge_value(all));
        set_gauge(&self.shards_held, &[], to_gauge_value(held));
        set_gauge(&self.replicas, &[], to_gauge_value(replicas));
    }

    /// A renewal of a lease.
    pub fn record_lease_renewal(&self, well: bool) {
        increment_counter(&self.renewals, &[result_label(well)]);
    }

    /// A write that was not sent, as the shard was no longer certain to be held.
    pub fn record_fenced_write(&self) {
        increment_counter(&self.fenced, &[]);
    }

    /// Whether the process is ready.
    pub fn set_ready(&self, ready: bool) {
        set_gauge(&self.ready, &[], i64::from(ready));
    }

    /// Something waits in a queue that `sample` can look at, until it says `None`.
    pub fn add_queue_probe(&self, queue: QueueKind, sample: impl Fn() -> Option<usize> + Send + Sync + 'static) {
        let mut samples = self.queue_probes.lock().unwrap_or_else(PoisonError::into_inner);
        samples.retain(|(_, sample)| sample().is_some());
        samples.push((queue, Box::new(sample)));
    }

    /// In a text form; how sources stand is read from the board as it is now.
    ///
    /// # Errors
    /// Never in practice: it writes to memory.
    pub fn render(&self, board: &SourceRegistry, form: ExpositionFormat) -> Result<String, fmt::Error> {
        let (states, faulty) = (board.states(), board.rejected());
        for series in [&self.ready_source, &self.suspended, &self.held, &self.drifted] {
            series.remove_matching(&[]);
        }
        for source in faulty.keys() {
            set_gauge(&self.ready_source, &source_labels(source), 0);
        }
        for (source, state) in &states {
            let of = source_labels(source);
            set_gauge(&self.ready_source, &of, i64::from(state.is_ready()));
            set_gauge(&self.suspended, &of, i64::from(state.phase == SourcePhase::Suspended));
            set_gauge(&self.held, &of, i64::from(state.hold.is_some()));
            set_gauge(&self.drifted, &of, i64::from(state.counts.drifted > 0));
        }
        for (state, number) in [("running", states.len()), ("faulty", faulty.len()), ("elsewhere", board.elsewhere())] {
            set_gauge(&self.states, &[state], to_gauge_value(number));
        }
        let mut lengths: BTreeMap<&str, usize> = QueueKind::ALL.iter().map(|queue| (queue.as_str(), 0)).collect();
        self.queue_probes.lock().unwrap_or_else(PoisonError::into_inner).retain(|(queue, sample)| {
            let now = sample();
            *lengths.entry(queue.as_str()).or_default() += now.unwrap_or_default();
            now.is_some()
        });
        for (queue, length) in lengths {
            set_gauge(&self.queue, &[queue], to_gauge_value(length));
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(form.convert(text))
    }
}
