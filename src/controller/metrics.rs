//! What is counted. Labels are names of sources and words of ours, so there are never more series than sources.

use super::board::{Phase, Standing};
use crate::source::model_source::ForgeKind;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::time::Duration;

/// One source.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfSource {
    source: String,
}

/// One source, and how something ended.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Ended {
    source: String,
    result: &'static str,
}

/// One host, and what became of a delivery.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Delivered {
    forge: &'static str,
    result: &'static str,
}

/// How a look at a repository ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing moved.
    Same,
    /// There is a newer commit.
    Moved,
    /// It failed.
    Failed,
}

/// How a sync ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All is as git says, and healthy.
    Success,
    /// The commit is at fault.
    Failure,
    /// stator, the cluster or the network is.
    Error,
    /// A newer commit came, or the process ended.
    Cancelled,
}

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Taken as a hint.
    Accepted,
    /// Genuine, and about nothing that is synced.
    Ignored,
    /// Taken before.
    Duplicate,
    /// Not genuine.
    Refused,
    /// Too large, too slow, no JSON.
    Unreadable,
}

/// All of it.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    looks: Family<Ended, Counter>,
    syncs: Family<Ended, Counter>,
    writes: Family<OfSource, Counter>,
    repairs: Family<OfSource, Counter>,
    restarts: Family<OfSource, Counter>,
    durations: Family<OfSource, Histogram, fn() -> Histogram>,
    ready: Family<OfSource, Gauge>,
    suspended: Family<OfSource, Gauge>,
    models: Family<Ended, Gauge>,
    deliveries: Family<Delivered, Counter>,
    reloads: Family<[(&'static str, &'static str); 1], Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        fn buckets() -> Histogram {
            Histogram::new([0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0])
        }
        let mut metrics = Self {
            registry: Registry::with_prefix("stator"),
            looks: Family::default(),
            syncs: Family::default(),
            writes: Family::default(),
            repairs: Family::default(),
            restarts: Family::default(),
            durations: Family::new_with_constructor(buckets),
            ready: Family::default(),
            suspended: Family::default(),
            models: Family::default(),
            deliveries: Family::default(),
            reloads: Family::default(),
        };
        let registry = &mut metrics.registry;
        registry.register("build", "The version that runs", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        registry.register("looks", "Looks at a source's repository", metrics.looks.clone());
        registry.register("syncs", "Syncs of a source", metrics.syncs.clone());
        registry.register("writes", "Writes to the cluster", metrics.writes.clone());
        registry.register("repairs", "Syncs because live objects drifted", metrics.repairs.clone());
        registry.register("restarts", "Restarts of a source's task after a panic", metrics.restarts.clone());
        registry.register("sync_duration_seconds", "How long syncs take, health included", metrics.durations.clone());
        registry.register("source_ready", "1 when the newest commit is synced and healthy", metrics.ready.clone());
        registry.register("source_suspended", "1 when the source is suspended", metrics.suspended.clone());
        registry.register("models", "Models by how their last sync ended", metrics.models.clone());
        registry.register("webhook_deliveries", "Deliveries of webhooks", metrics.deliveries.clone());
        registry.register("reloads", "Readings of the file of sources", metrics.reloads.clone());
        metrics
    }
}

impl Metrics {
    /// A look at a repository.
    pub fn looked(&self, source: &str, look: Look) {
        let result = match look {
            Look::Same => "same",
            Look::Moved => "moved",
            Look::Failed => "failed",
        };
        self.looks.get_or_create(&Ended { source: source.to_owned(), result }).inc();
    }

    /// A sync.
    pub fn synced(&self, source: &str, ending: Ending, writes: usize, took: Duration) {
        let result = match ending {
            Ending::Success => "success",
            Ending::Failure => "failure",
            Ending::Error => "error",
            Ending::Cancelled => "cancelled",
        };
        self.syncs.get_or_create(&Ended { source: source.to_owned(), result }).inc();
        let source = OfSource { source: source.to_owned() };
        self.writes.get_or_create(&source).inc_by(u64::try_from(writes).unwrap_or(u64::MAX));
        self.durations.get_or_create(&source).observe(took.as_secs_f64());
    }

    /// A sync that drift made necessary.
    pub fn repaired(&self, source: &str) {
        self.repairs.get_or_create(&OfSource { source: source.to_owned() }).inc();
    }

    /// A task that panicked.
    pub fn restarted(&self, source: &str) {
        self.restarts.get_or_create(&OfSource { source: source.to_owned() }).inc();
    }

    /// How many models of a source ended how.
    pub fn models(&self, source: &str, well: usize, not_well: usize) {
        for (result, number) in [("success", well), ("failure", not_well)] {
            let gauge = self.models.get_or_create_owned(&Ended { source: source.to_owned(), result });
            gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
        }
    }

    /// A delivery.
    pub fn delivered(&self, forge: ForgeKind, delivery: Delivery) {
        let result = match delivery {
            Delivery::Accepted => "accepted",
            Delivery::Ignored => "ignored",
            Delivery::Duplicate => "duplicate",
            Delivery::Refused => "refused",
            Delivery::Unreadable => "unreadable",
        };
        self.deliveries.get_or_create(&Delivered { forge: word(forge), result }).inc();
    }

    /// A reading of the file of sources.
    pub fn reloaded(&self, well: bool) {
        self.reloads.get_or_create(&[("result", if well { "success" } else { "failure" })]).inc();
    }

    /// A source is gone, and its series with it.
    pub fn forget(&self, source: &str) {
        let of = OfSource { source: source.to_owned() };
        for family in [&self.writes, &self.repairs, &self.restarts] {
            family.remove(&of);
        }
        self.durations.remove(&of);
        self.ready.remove(&of);
        self.suspended.remove(&of);
        for result in ["same", "moved", "failed"] {
            self.looks.remove(&Ended { source: source.to_owned(), result });
        }
        for result in ["success", "failure", "error", "cancelled"] {
            self.syncs.remove(&Ended { source: source.to_owned(), result });
            self.models.remove(&Ended { source: source.to_owned(), result });
        }
    }

    /// In the text form of OpenMetrics; `standings` are read as they are now.
    ///
    /// # Errors
    /// Never in practice: it writes to memory.
    pub fn text(&self, standings: &[(String, Standing)]) -> Result<String, std::fmt::Error> {
        for (source, standing) in standings {
            let of = OfSource { source: source.clone() };
            let ready = standing.problem.is_none() && standing.seen.is_some() && standing.seen == standing.applied;
            self.ready.get_or_create(&of).set(i64::from(ready));
            self.suspended.get_or_create(&of).set(i64::from(standing.phase == Phase::Suspended));
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// A host's word in paths and labels.
pub fn word(forge: ForgeKind) -> &'static str {
    match forge {
        ForgeKind::Github => "github",
        ForgeKind::Gitlab => "gitlab",
        ForgeKind::Gitea => "gitea",
        ForgeKind::Bitbucket => "bitbucket",
        ForgeKind::Azure => "azure",
    }
}

/// The host of a word.
pub fn of_word(text: &str) -> Option<ForgeKind> {
    use ForgeKind::{Azure, Bitbucket, Gitea, Github, Gitlab};
    [Github, Gitlab, Gitea, Bitbucket, Azure].into_iter().find(|kind| word(*kind) == text)
}
