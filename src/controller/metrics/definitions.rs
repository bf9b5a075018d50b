//! Every family of series that is served, described once: the registry, `docs/metrics.md` and the tests of the alert rules
//! read the same table.
//!
//! Labels are names of sources and words of ours. A revision, an address, a pull request, a model or a pod is no label: each
//! would make as many series as there are of it. What has the labels `namespace` and `source` goes when the source goes.

use prometheus_client::metrics::MetricType;

/// What a family counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum MetricKind {
    /// Only ever grows, until the process starts anew.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts in buckets.
    Histogram,
}

impl MetricKind {
    /// As the text form has it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// As encoders have it.
    pub(super) fn metric_type(self) -> MetricType {
        match self {
            Self::Counter => MetricType::Counter,
            Self::Gauge => MetricType::Gauge,
            Self::Histogram => MetricType::Histogram,
        }
    }
}

/// One label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricLabel {
    /// Its name.
    pub name: &'static str,
    /// Its values, in words.
    pub values: &'static str,
}

/// One family of series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricDefinition {
    /// Its name, as it is served.
    pub name: &'static str,
    /// What it counts in.
    pub kind: MetricKind,
    /// Its unit; empty for plain numbers.
    pub unit: &'static str,
    /// Its labels.
    pub labels: &'static [MetricLabel],
    /// What it says.
    pub meaning: &'static str,
    /// The upper ends of a histogram's buckets.
    pub buckets: &'static [f64],
}

impl MetricDefinition {
    /// Its name for the registry and for encoders, which add the suffix of counters.
    pub(super) fn registered_name(&self) -> &'static str {
        match self.kind {
            MetricKind::Counter => self.name.strip_suffix("_total").unwrap_or(self.name),
            MetricKind::Gauge | MetricKind::Histogram => self.name,
        }
    }
}

/// What belongs together on the page.
#[derive(Clone, Copy, Debug)]
pub struct MetricGroup {
    /// The heading.
    pub title: &'static str,
    /// The families.
    pub families: &'static [MetricDefinition],
}

pub(super) const NAMESPACE: MetricLabel = MetricLabel { name: "namespace", values: "the source's namespace" };
pub(super) const SOURCE: MetricLabel = MetricLabel { name: "source", values: "the source's name" };
const HOST: MetricLabel = MetricLabel { name: "host", values: "the git host; `other` from the 201st on" };
const FORGE: MetricLabel = MetricLabel { name: "forge", values: "`github`, `gitlab`, `gitea`, `bitbucket`, `azure`" };

const fn result(values: &'static str) -> MetricLabel {
    label("result", values)
}

const fn label(name: &'static str, values: &'static str) -> MetricLabel {
    MetricLabel { name, values }
}

/// For what may take two hours: weights are loaded and compiled in that time.
const LONG: &[f64] = &[1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0];
/// For what a network and a disk take.
const SHORT: &[f64] = &[0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0];

macro_rules! families {
    ($($group:ident $title:literal { $($id:ident $kind:ident $name:literal $unit:literal [$($label:expr),*] $($buckets:ident)? $meaning:literal)* })*) => {
        $(
            $(
                pub(super) const $id: MetricDefinition = MetricDefinition {
                    name: $name,
                    kind: MetricKind::$kind,
                    unit: $unit,
                    labels: &[$($label),*],
                    meaning: $meaning,
                    buckets: families!(@ $($buckets)?),
                };
            )*
            const $group: MetricGroup = MetricGroup { title: $title, families: &[$($id),*] };
        )*
        /// Everything, as the page has it.
        pub const ALL: &[MetricGroup] = &[$($group),*];
    };
    (@ $buckets:ident) => { $buckets };
    (@) => { &[] };
}

families! {
    SOURCES "Sources" {
        STATES Gauge "stator_sources" "" [label("state", "`running`, `faulty` (invalid, or in conflict), `elsewhere` (another replica runs it, and this one receives its deliveries)")]
            "Sources that this replica knows of"
        READY_SOURCE Gauge "stator_source_ready" "" [NAMESPACE, SOURCE]
            "1 when the newest commit is synced and healthy, and the source has no problem"
        SUSPENDED Gauge "stator_source_suspended" "" [NAMESPACE, SOURCE] "1 while the source is suspended"
        HELD Gauge "stator_source_held" "" [NAMESPACE, SOURCE] "1 while a guard holds the newest commit until it is approved"
        DRIFTED Gauge "stator_source_drifted" "" [NAMESPACE, SOURCE]
            "1 while live objects have drift that is not healed"
        LOOK_DUE Gauge "stator_source_look_due_timestamp_seconds" "seconds" [NAMESPACE, SOURCE]
            "When the next poll of the repository is due; stays in the past while polls fail"
        LAST_SUCCESS Gauge "stator_source_last_success_timestamp_seconds" "seconds" [NAMESPACE, SOURCE]
            "When the newest commit was last found synced and healthy; missing before the first time"
        RESTARTS Counter "stator_source_restarts_total" "" [NAMESPACE, SOURCE]
            "Restarts of the task of a source after a panic"
        RELOADS Counter "stator_reloads_total" "" [result("`success`, `failure`")] "Reloads of the file of sources"
    }
    SYNCS_GROUP "Polls and syncs" {
        LOOKS Counter "stator_looks_total" "" [NAMESPACE, SOURCE, result("`same`, `moved`, `failed`")]
            "Polls of a source's repository"
        SYNCS Counter "stator_syncs_total" "" [NAMESPACE, SOURCE, result("`success`, `failure` (caused by the commit), `error` (caused by stator, the cluster or the network), `cancelled`")]
            "Reconciles that changed something or reported a result"
        SYNC_SECONDS Histogram "stator_sync_duration_seconds" "seconds" [result("as in `stator_syncs_total`")] LONG
            "Duration of these reconciles, including the wait for health"
        STAGE_SECONDS Histogram "stator_stage_duration_seconds" "seconds" [label("stage", "`read`, `render`, `look`, `plan`, `sync`")] SHORT
            "Duration of the stages of a reconcile; `look` reads the cluster, `sync` applies and waits"
        APPLIED_SECONDS Histogram "stator_commit_to_applied_seconds" "seconds" [NAMESPACE, SOURCE] LONG
            "From a commit to its last write: from the committer's date, or from when it was first seen if that date is more than an hour earlier or in the future"
        HEALTHY_SECONDS Histogram "stator_commit_to_healthy_seconds" "seconds" [NAMESPACE, SOURCE] LONG
            "From a commit, measured in the same way, until all of its models are healthy"
        WRITES Counter "stator_writes_total" "" [NAMESPACE, SOURCE] "Writes to the cluster, including those of records"
        APPLIES Counter "stator_applies_total" "" [label("kind", "kinds of objects that stator applies"), result("`applied`, `deleted`, `retried`")]
            "Objects created or changed, objects deleted, and calls that were retried (without a kind)"
        DRIFT_SEEN Counter "stator_drift_seen_total" "" [NAMESPACE, SOURCE] "Times that live objects were found changed by another client"
        DRIFT_REPAIRED Counter "stator_drift_repaired_total" "" [NAMESPACE, SOURCE] "Syncs that healed drift"
    }
    MODELS_GROUP "Models" {
        MODELS Gauge "stator_models" "" [NAMESPACE, SOURCE, label("health", "`healthy`, `suspended`, `progressing`, `unknown`, `degraded`, `failed`")]
            "Models by their last known health"
        GPUS Gauge "stator_model_gpus" "" [NAMESPACE, SOURCE, label("gpu", "the SKUs that Dynamo knows, `other`, `unknown`"), label("state", "`live`, `desired`, `peak`")]
            "GPUs of the source's graphs: requested by live objects, requested by the newest commit, and the peak during the rollout"
        DEPRECATED_USES Gauge "stator_deprecated_uses" "" [NAMESPACE, SOURCE, label("removed_in", "the release of Dynamo that removes it, or `none` if no release does yet")]
            "Places in objects of the newest planned commit that use something that Dynamo deprecated; missing when there are none"
    }
    PREVIEWS_GROUP "Pull requests and notifications" {
        PREVIEWS Counter "stator_previews_total" "" [result("`planned`, `faulty` (caused by the pull request), `failed`, `left-out` (from a fork, or above the limit)")]
            "Pull requests that were planned, or could not be planned"
        PREVIEW_SECONDS Histogram "stator_preview_duration_seconds" "seconds" [] SHORT
            "Duration of a preview, including fetching and commenting"
        NOTIFICATIONS Counter "stator_notifications_total" "" [label("type", "`slack`, `webhook`"), result("`sent`, `refused` (not retried), `failed` (all retries failed), `dropped` (the queue was full)")]
            "Notifications by result"
        WEBHOOKS Counter "stator_webhook_deliveries_total" "" [FORGE, result("`accepted`, `ignored`, `duplicate`, `refused` (no valid signature), `unreadable`")]
            "Webhook deliveries"
        WEBHOOK_SECONDS Histogram "stator_webhook_duration_seconds" "seconds" [FORGE] SHORT
            "Duration of answering a delivery, including reading the body"
    }
    OUTSIDE_GROUP "Calls to git hosts and the API server" {
        GIT Counter "stator_git_operations_total" "" [NAMESPACE, SOURCE, label("operation", "`list`, `fetch`, `read`, `preview`"), result("`success`, `failure`")]
            "Operations on a source's mirror: listing refs, fetching, reading a commit's files, reading a pull request"
        GIT_SECONDS Histogram "stator_git_operation_duration_seconds" "seconds" [label("operation", "as in `stator_git_operations_total`")] SHORT
            "Duration of an operation, including the wait for the mirror"
        TRIALS Counter "stator_trials_total" "" [result("`alone`, `refused` (not tried again)")]
            "Commits and pull requests that may have crashed the process before, by outcome"
        GIT_BYTES Counter "stator_git_received_bytes_total" "bytes" [NAMESPACE, SOURCE] "Bytes received from git hosts, without headers"
        KUBE Counter "stator_kube_requests_total" "" [label("verb", "`get`, `list`, `watch`, `create`, `update`, `apply`, `patch`, `delete`, `other`"), label("code", "the HTTP status, or `none` without a response")]
            "Requests to the API server"
        KUBE_SECONDS Histogram "stator_kube_request_duration_seconds" "seconds" [label("verb", "as in `stator_kube_requests_total`")] SHORT
            "Time until the response began"
        FORGE_REQUESTS Counter "stator_forge_requests_total" "" [HOST, label("code", "the HTTP status, or `none` without a response")]
            "Requests to the APIs of git hosts"
        FORGE_SECONDS Histogram "stator_forge_request_duration_seconds" "seconds" [HOST] SHORT "Time until the \
                                                                                                response began"
        FORGE_LEFT Gauge "stator_forge_rate_limit_remaining" "" [HOST] "Requests left in the current rate limit window, if the host reports it"
    }
    SHARDS_GROUP "Replicas and shards" {
        SHARDS Gauge "stator_shards" "" [] "Shards that sources are divided into; missing without leases"
        SHARDS_HELD Gauge "stator_shards_held" "" [] "Shards that this replica owns; missing without leases"
        REPLICAS Gauge "stator_replicas" "" [] "Live replicas that this one sees, itself included; missing without leases"
        RENEWALS Counter "stator_lease_renewals_total" "" [result("`success`, `failure`")] "Renewals of leases"
        FENCED Counter "stator_fenced_writes_total" "" [] "Writes that were not sent, because ownership of the shard was no longer certain"
    }
    PROCESS_GROUP "The process" {
        BUILD Gauge "stator_build_info" "" [label("version", "the version that runs")] "Always 1"
        READY Gauge "stator_ready" "" [] "1 when /readyz succeeds"
        PANICS Counter "stator_panics_total" "" [] "Panics, each of which ended one task"
        QUEUE Gauge "stator_queue_length" "" [label("queue", "`statuses`, `notifications`")] "Items that wait to be sent"
        TRACES Counter "stator_trace_exports_total" "" [result("`success`, `failure`")] "Batches of spans sent to the collector; missing without a collector"
        CPU Counter "process_cpu_seconds_total" "seconds" [] "Processor time of the process, user and system"
        MEMORY Gauge "process_resident_memory_bytes" "bytes" [] "Resident memory of the process"
        VIRTUAL Gauge "process_virtual_memory_bytes" "bytes" [] "Virtual memory of the process"
        FDS Gauge "process_open_fds" "" [] "Open file descriptors of the process"
        MOST_FDS Gauge "process_max_fds" "" [] "Limit of open file descriptors"
        START Gauge "process_start_time_seconds" "seconds" [] "When the process started"
    }
}
