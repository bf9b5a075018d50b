//! What is counted, where it happens: see [`ALL`] for every family, its labels and what it says.

mod process;
mod series;
mod set;
mod text;
mod words;

#[cfg(test)]
mod tests;

pub use set::{ALL, Described, Group, Kind, Label};
pub use text::Form;
pub use words::{Apply, Delivery, Ending, Gpus, Look, Notified, Operation, Previewed, Queue, Stage, of_word, word};

use super::board::{Board, Phase};
use super::sources::SourceKey;
use crate::telemetry::traces;
use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use series::{Count, Level, Series};
use stator_cluster::cluster::kube;
use stator_core::dynamo::gpus::{UNKNOWN_SKU, is_known};
use stator_core::dynamo::health::Health;
use stator_git::forge;
use stator_git::source::model_source::{ForgeKind, NotificationKind};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use words::{kind, result};

/// Git hosts that are told apart: a tenant makes a source, and with it a host, whenever it likes.
const HOSTS: usize = 200;
/// What all others are called.
const OTHER: &str = "other";

/// Panics of this process. The hook that sees them belongs to the process too.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Counts a panic: for the process' panic hook.
pub fn panicked() {
    PANICS.fetch_add(1, Ordering::Relaxed);
}

/// Looks at how long a queue is; `None` once it is no more.
type Sample = Box<dyn Fn() -> Option<usize> + Send + Sync>;

/// All of it.
pub struct Metrics {
    registry: Registry,
    states: Series<Level>,
    ready_source: Series<Level>,
    suspended: Series<Level>,
    held: Series<Level>,
    drifted: Series<Level>,
    look_due: Series<Level>,
    last_success: Series<Level>,
    restarts: Series<Count>,
    reloads: Series<Count>,
    looks: Series<Count>,
    syncs: Series<Count>,
    sync_seconds: Series<Histogram>,
    stage_seconds: Series<Histogram>,
    applied_seconds: Series<Histogram>,
    healthy_seconds: Series<Histogram>,
    writes: Series<Count>,
    applies: Series<Count>,
    drift_seen: Series<Count>,
    drift_repaired: Series<Count>,
    models: Series<Level>,
    gpus: Series<Level>,
    previews: Series<Count>,
    preview_seconds: Series<Histogram>,
    notifications: Series<Count>,
    webhooks: Series<Count>,
    webhook_seconds: Series<Histogram>,
    git: Series<Count>,
    git_seconds: Series<Histogram>,
    git_bytes: Series<Count>,
    kube: Series<Count>,
    kube_seconds: Series<Histogram>,
    forge_requests: Series<Count>,
    forge_seconds: Series<Histogram>,
    forge_left: Series<Level>,
    shards: Series<Level>,
    shards_held: Series<Level>,
    replicas: Series<Level>,
    renewals: Series<Count>,
    fenced: Series<Count>,
    ready: Series<Level>,
    queue: Series<Level>,
    hosts: Mutex<BTreeSet<String>>,
    samples: Mutex<Vec<(Queue, Sample)>>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let r = &mut registry;
        let build: Series<Level> = Series::register(&set::BUILD, r);
        build.with(&[env!("CARGO_PKG_VERSION")], |one| one.set(1));
        let metrics = Self {
            states: Series::register(&set::STATES, r),
            ready_source: Series::register(&set::READY_SOURCE, r),
            suspended: Series::register(&set::SUSPENDED, r),
            held: Series::register(&set::HELD, r),
            drifted: Series::register(&set::DRIFTED, r),
            look_due: Series::register(&set::LOOK_DUE, r),
            last_success: Series::register(&set::LAST_SUCCESS, r),
            restarts: Series::register(&set::RESTARTS, r),
            reloads: Series::register(&set::RELOADS, r),
            looks: Series::register(&set::LOOKS, r),
            syncs: Series::register(&set::SYNCS, r),
            sync_seconds: Series::register(&set::SYNC_SECONDS, r),
            stage_seconds: Series::register(&set::STAGE_SECONDS, r),
            applied_seconds: Series::register(&set::APPLIED_SECONDS, r),
            healthy_seconds: Series::register(&set::HEALTHY_SECONDS, r),
            writes: Series::register(&set::WRITES, r),
            applies: Series::register(&set::APPLIES, r),
            drift_seen: Series::register(&set::DRIFT_SEEN, r),
            drift_repaired: Series::register(&set::DRIFT_REPAIRED, r),
            models: Series::register(&set::MODELS, r),
            gpus: Series::register(&set::GPUS, r),
            previews: Series::register(&set::PREVIEWS, r),
            preview_seconds: Series::register(&set::PREVIEW_SECONDS, r),
            notifications: Series::register(&set::NOTIFICATIONS, r),
            webhooks: Series::register(&set::WEBHOOKS, r),
            webhook_seconds: Series::register(&set::WEBHOOK_SECONDS, r),
            git: Series::register(&set::GIT, r),
            git_seconds: Series::register(&set::GIT_SECONDS, r),
            git_bytes: Series::register(&set::GIT_BYTES, r),
            kube: Series::register(&set::KUBE, r),
            kube_seconds: Series::register(&set::KUBE_SECONDS, r),
            forge_requests: Series::register(&set::FORGE_REQUESTS, r),
            forge_seconds: Series::register(&set::FORGE_SECONDS, r),
            forge_left: Series::register(&set::FORGE_LEFT, r),
            shards: Series::register(&set::SHARDS, r),
            shards_held: Series::register(&set::SHARDS_HELD, r),
            replicas: Series::register(&set::REPLICAS, r),
            renewals: Series::register(&set::RENEWALS, r),
            fenced: Series::register(&set::FENCED, r),
            ready: Series::register(&set::READY, r),
            queue: Series::register(&set::QUEUE, r),
            hosts: Mutex::default(),
            samples: Mutex::default(),
            registry: Registry::default(),
        };
        registry.register_collector(Box::new(Whole));
        registry.register_collector(Box::new(process::Process));
        Self { registry, ..metrics }
    }
}

/// Reads what is counted of the process as a whole: panics, and batches of spans where there is a collector.
#[derive(Debug)]
struct Whole;

impl Collector for Whole {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let panics = ConstCounter::new(PANICS.load(Ordering::Relaxed));
        let name = |of: &Described| of.name.strip_suffix("_total").unwrap_or(of.name).to_owned();
        let help = |of: &Described| format!("{}.", of.meaning);
        let (own, about) = (name(&set::PANICS), help(&set::PANICS));
        panics.encode(encoder.encode_descriptor(&own, &about, None, panics.metric_type())?)?;
        let Some((sent, lost)) = traces::exports() else { return Ok(()) };
        let (own, about) = (name(&set::TRACES), help(&set::TRACES));
        let mut family = encoder.encode_descriptor(&own, &about, None, panics.metric_type())?;
        for (result, number) in [("success", sent), ("failure", lost)] {
            ConstCounter::new(number).encode(family.encode_family(&[("result", result)])?)?;
        }
        Ok(())
    }
}

fn of(source: &SourceKey) -> [&str; 2] {
    [&source.namespace, &source.name]
}

fn level(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn set(series: &Series<Level>, values: &[&str], number: i64) {
    series.with(values, |level| level.set(number));
}

fn count(series: &Series<Count>, values: &[&str]) {
    series.with(values, |count| count.inc());
}

fn observe(series: &Series<Histogram>, values: &[&str], took: Duration) {
    series.with(values, |histogram| histogram.observe(took.as_secs_f64()));
}

/// Sources and their syncs.
impl Metrics {
    /// A source begins: what is counted of it is there from now on, so that the first of anything is seen as one more.
    pub fn begin(&self, source: &SourceKey) {
        let [namespace, name] = of(source);
        Look::ALL.iter().for_each(|look| self.looks.with(&[namespace, name, look.word()], |_| ()));
        Ending::ALL.iter().for_each(|ending| self.syncs.with(&[namespace, name, ending.word()], |_| ()));
        for counts in [&self.writes, &self.restarts, &self.drift_seen, &self.drift_repaired] {
            counts.with(&[namespace, name], |_| ());
        }
    }

    /// A look at a repository.
    pub fn looked(&self, source: &SourceKey, look: Look) {
        let [namespace, name] = of(source);
        count(&self.looks, &[namespace, name, look.word()]);
    }

    /// When the next look is due. Not to be told of looks that failed: the one that did stays due.
    pub fn look_due(&self, source: &SourceKey, at: Timestamp) {
        set(&self.look_due, &of(source), at.as_second());
    }

    /// A sync.
    pub fn synced(&self, source: &SourceKey, ending: Ending, writes: usize, took: Duration) {
        let [namespace, name] = of(source);
        count(&self.syncs, &[namespace, name, ending.word()]);
        let writes = u64::try_from(writes).unwrap_or(u64::MAX);
        self.writes.with(&[namespace, name], |all| all.inc_by(writes));
        observe(&self.sync_seconds, &[ending.word()], took);
    }

    /// The newest commit was found synced and healthy.
    pub fn well(&self, source: &SourceKey, at: Timestamp) {
        set(&self.last_success, &of(source), at.as_second());
    }

    /// A part of an attempt is through.
    pub fn staged(&self, stage: Stage, took: Duration) {
        observe(&self.stage_seconds, &[stage.word()], took);
    }

    /// A commit was written to the cluster, so long after it was made.
    pub fn commit_applied(&self, source: &SourceKey, after: Duration) {
        observe(&self.applied_seconds, &of(source), after);
    }

    /// All models of a commit are healthy, so long after it was made.
    pub fn commit_healthy(&self, source: &SourceKey, after: Duration) {
        observe(&self.healthy_seconds, &of(source), after);
    }

    /// Something was done to an object of a kind; of an empty one, where it is not known.
    pub fn applied(&self, kind: &str, apply: Apply) {
        count(&self.applies, &[kind, apply.word()]);
    }

    /// Live objects were changed by somebody else.
    pub fn drifted(&self, source: &SourceKey) {
        count(&self.drift_seen, &of(source));
    }

    /// A sync that drift made necessary.
    pub fn repaired(&self, source: &SourceKey) {
        count(&self.drift_repaired, &of(source));
    }

    /// A task that panicked.
    pub fn restarted(&self, source: &SourceKey) {
        count(&self.restarts, &of(source));
    }

    /// How many models of a source have which health.
    pub fn models(&self, source: &SourceKey, by_health: &BTreeMap<Health, usize>) {
        use Health::{Degraded, Failed, Healthy, Progressing, Suspended, Unknown};
        let [namespace, name] = of(source);
        for health in [Healthy, Suspended, Progressing, Unknown, Degraded, Failed] {
            let number = by_health.get(&health).copied().unwrap_or_default();
            set(&self.models, &[namespace, name, &health.word().to_ascii_lowercase()], level(number));
        }
    }

    /// How many GPUs a source's graphs ask for, by SKU. One that Dynamo does not know is another.
    pub fn gpus<'a>(&self, source: &SourceKey, all: impl IntoIterator<Item = (&'a str, Gpus, u64)>) {
        let [namespace, name] = of(source);
        let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (sku, state, number) in all {
            let known = sku == UNKNOWN_SKU || is_known(sku);
            let sum = sums.entry((if known { sku } else { OTHER }, state.word())).or_default();
            *sum = sum.saturating_add(number);
        }
        self.gpus.forget(&[namespace, name]);
        for ((sku, state), number) in sums {
            set(&self.gpus, &[namespace, name, sku, state], i64::try_from(number).unwrap_or(i64::MAX));
        }
    }

    /// A reading of the file of sources.
    pub fn reloaded(&self, well: bool) {
        count(&self.reloads, &[result(well)]);
    }

    /// A source is gone, and its series with it.
    pub fn forget(&self, source: &SourceKey) {
        let of = of(source);
        let levels = [
            &self.ready_source,
            &self.suspended,
            &self.held,
            &self.drifted,
            &self.look_due,
            &self.last_success,
            &self.models,
            &self.gpus,
        ];
        levels.into_iter().for_each(|series| series.forget(&of));
        let counts = [
            &self.restarts,
            &self.looks,
            &self.syncs,
            &self.writes,
            &self.drift_seen,
            &self.drift_repaired,
            &self.git,
            &self.git_bytes,
        ];
        counts.into_iter().for_each(|series| series.forget(&of));
        [&self.applied_seconds, &self.healthy_seconds].into_iter().for_each(|series| series.forget(&of));
    }
}

/// What is asked of others, and told them.
impl Metrics {
    /// Counts the requests of a connection to an API server.
    pub fn of_kube(self: &Arc<Self>) -> kube::Observer {
        let metrics = Arc::clone(self);
        Arc::new(move |one: kube::Exchanged| metrics.kube(one.verb, one.code.unwrap_or_default(), one.took))
    }

    /// Counts the requests of a client of a git host's API.
    pub fn of_forges(self: &Arc<Self>) -> forge::Observer {
        let metrics = Arc::clone(self);
        Arc::new(move |one: forge::Exchanged<'_>| {
            metrics.forge(one.host, one.code.unwrap_or_default(), one.took, one.left);
        })
    }

    /// Work on a source's mirror.
    pub fn git(&self, source: &SourceKey, operation: Operation, well: bool, took: Duration, received: u64) {
        let [namespace, name] = of(source);
        count(&self.git, &[namespace, name, operation.word(), result(well)]);
        self.git_bytes.with(&[namespace, name], |all| all.inc_by(received));
        observe(&self.git_seconds, &[operation.word()], took);
    }

    /// A request to the API server; `code` is 0 where no answer came.
    pub fn kube(&self, verb: &'static str, code: u16, took: Duration) {
        count(&self.kube, &[verb, &status(code)]);
        observe(&self.kube_seconds, &[verb], took);
    }

    /// A request to a git host's API; `code` is 0 where no answer came, and `left` what it says that it still takes.
    pub fn forge(&self, host: &str, code: u16, took: Duration, left: Option<u64>) {
        let host = self.host(host);
        count(&self.forge_requests, &[&host, &status(code)]);
        observe(&self.forge_seconds, &[&host], took);
        if let Some(left) = left {
            set(&self.forge_left, &[&host], i64::try_from(left).unwrap_or(i64::MAX));
        }
    }

    fn host(&self, host: &str) -> String {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.contains(host) || (hosts.len() < HOSTS && hosts.insert(host.to_owned())) {
            return host.to_owned();
        }
        OTHER.to_owned()
    }

    /// A delivery.
    pub fn delivered(&self, forge: ForgeKind, delivery: Delivery, took: Duration) {
        count(&self.webhooks, &[word(forge), delivery.word()]);
        observe(&self.webhook_seconds, &[word(forge)], took);
    }

    /// A preview.
    pub fn previewed(&self, ending: Previewed, took: Duration) {
        count(&self.previews, &[ending.word()]);
        observe(&self.preview_seconds, &[], took);
    }

    /// Somebody is to be told: what becomes of notifications is counted from now on.
    pub fn receives(&self, of: NotificationKind) {
        Notified::ALL.iter().for_each(|ending| self.notifications.with(&[kind(of), ending.word()], |_| ()));
    }

    /// A notification.
    pub fn notified(&self, of: NotificationKind, ending: Notified) {
        count(&self.notifications, &[kind(of), ending.word()]);
    }
}

/// The status as a label has it. What is no status is none, so that there are never more than there are statuses.
fn status(code: u16) -> String {
    if (100..600).contains(&code) { code.to_string() } else { "none".to_owned() }
}

/// The process and its kind.
impl Metrics {
    /// How shards are spread: how many there are, how many are held here, and among how many live replicas.
    pub fn shards(&self, all: usize, held: usize, replicas: usize) {
        set(&self.shards, &[], level(all));
        set(&self.shards_held, &[], level(held));
        set(&self.replicas, &[], level(replicas));
    }

    /// A renewal of a lease.
    pub fn renewed(&self, well: bool) {
        count(&self.renewals, &[result(well)]);
    }

    /// A write that was not sent, as the shard was no longer certain to be held.
    pub fn fenced(&self) {
        count(&self.fenced, &[]);
    }

    /// Whether the process is ready.
    pub fn ready(&self, ready: bool) {
        set(&self.ready, &[], i64::from(ready));
    }

    /// Something waits in a queue that `sample` can look at, until it says `None`.
    pub fn sample(&self, queue: Queue, sample: impl Fn() -> Option<usize> + Send + Sync + 'static) {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.retain(|(_, sample)| sample().is_some());
        samples.push((queue, Box::new(sample)));
    }

    /// In a text form; how sources stand is read from the board as it is now.
    ///
    /// # Errors
    /// Never in practice: it writes to memory.
    pub fn text(&self, board: &Board, form: Form) -> Result<String, fmt::Error> {
        let (standings, faulty) = (board.standings(), board.held());
        for series in [&self.ready_source, &self.suspended, &self.held, &self.drifted] {
            series.forget(&[]);
        }
        for source in faulty.keys() {
            set(&self.ready_source, &of(source), 0);
        }
        for (source, standing) in &standings {
            let of = of(source);
            set(&self.ready_source, &of, i64::from(standing.is_ready()));
            set(&self.suspended, &of, i64::from(standing.phase == Phase::Suspended));
            set(&self.held, &of, i64::from(standing.held.is_some()));
            set(&self.drifted, &of, i64::from(standing.counts.drifted > 0));
        }
        for (state, number) in
            [("running", standings.len()), ("faulty", faulty.len()), ("elsewhere", board.elsewhere())]
        {
            set(&self.states, &[state], level(number));
        }
        let mut lengths: BTreeMap<&str, usize> = Queue::ALL.iter().map(|queue| (queue.word(), 0)).collect();
        self.samples.lock().unwrap_or_else(PoisonError::into_inner).retain(|(queue, sample)| {
            let now = sample();
            *lengths.entry(queue.word()).or_default() += now.unwrap_or_default();
            now.is_some()
        });
        for (queue, length) in lengths {
            set(&self.queue, &[queue], level(length));
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(form.of(text))
    }
}
