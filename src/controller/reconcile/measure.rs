//! What is measured of a source's work: stages and their spans, how long a commit takes, what models are like. Nothing here
//! decides anything.

use super::commit::PolledCommit;
use super::source_board::SourceBoard;
use crate::controller::metrics::{GpuCountKind, ObjectWriteKind, SyncStage};
use crate::telemetry::SPAN_TARGET;
use crate::telemetry::traces::{TraceContext, TraceSpan};
use jiff::Timestamp;
use stator_cluster::sync::{SyncProgress, SyncReport};
use stator_core::dynamo::health::Health;
use stator_core::outcome::SyncOutcome;
use stator_model::plan::{Action, Plan, PlanInput, UnchangedTotals};
use stator_model::render::count_deprecated;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// A commit that is older than this when it is first seen was made long before it was pushed: it counts from then.
const MAX_PUSH_DELAY_SECONDS: i64 = 3600;

/// When a commit began, as it is measured: when it was committed, where that can be when it was pushed.
pub(super) fn latency_start(committed: Option<i64>, seen: Timestamp) -> Timestamp {
    let committed = committed.and_then(|second| Timestamp::from_second(second).ok());
    committed.filter(|at| *at <= seen && seen.as_second() - at.as_second() <= MAX_PUSH_DELAY_SECONDS).unwrap_or(seen)
}

/// What was measured of commits, so that each is measured once.
#[derive(Debug, Default)]
pub(super) struct MeasuredCommits {
    applied: Option<String>,
    healthy: Option<String>,
    /// The health of models that a plan found, by name, and which of them it was to change.
    found: BTreeMap<String, Health>,
}

/// What a plan says of models, GPUs and what is deprecated.
#[derive(Debug)]
pub(super) struct MeasuredPlan {
    /// Whether all models are in it.
    is_of_all: bool,
    found: BTreeMap<String, Health>,
    retired: BTreeSet<String>,
    gpus: Vec<(String, GpuCountKind, u64)>,
    deprecated: BTreeMap<Option<&'static str>, usize>,
}

impl MeasuredPlan {
    /// Of a plan and what it is made of; models that are `left` as they are stay as they were.
    pub(super) fn of_plan(plan: &Plan, input: &PlanInput, left: &BTreeSet<String>) -> Self {
        let unchanged = &input.unchanged;
        let retired: BTreeSet<String> = plan.retired.iter().cloned().collect();
        let mut found: BTreeMap<String, Health> = BTreeMap::new();
        for change in plan.changes.iter().filter(|change| !retired.contains(&change.model)) {
            let moves = match change.action {
                Action::Create | Action::Update | Action::Replace => true,
                // Until its adoption is approved, what exists stays as it is.
                Action::Adopt => change.step.write().is_some(),
                Action::Delete | Action::Deleting | Action::Keep | Action::Blocked | Action::LeftBehind => false,
            };
            let busy = moves && !left.contains(&change.model);
            let health = if busy { Health::Progressing } else { change.health.unwrap_or_default() };
            let known = found.entry(change.model.clone()).or_insert(health);
            *known = (*known).max(health);
        }
        let all = plan.changes.iter().flat_map(|change| &change.gpus_by_sku).chain(&unchanged.totals.gpus_by_sku);
        let gpus = all.flat_map(|(sku, totals)| {
            let states = [
                (GpuCountKind::Live, totals.before),
                (GpuCountKind::Desired, totals.after),
                (GpuCountKind::Peak, totals.peak),
            ];
            states.into_iter().map(move |(state, number)| (sku.clone(), state, number))
        });
        let deprecated = count_deprecated(&input.rendered);
        let mut totals = UnchangedTotals { deprecated, ..UnchangedTotals::default() };
        totals.add(&unchanged.totals);
        let (gpus, deprecated) = (gpus.collect(), totals.deprecated);
        Self { is_of_all: unchanged.models == 0, found, retired, gpus, deprecated }
    }
}

/// What happens while a plan is carried out.
#[derive(Debug)]
pub(super) struct SyncMeasurement {
    origin: TraceContext,
    began: SystemTime,
    state: Mutex<MeasuredProgress>,
}

#[derive(Debug, Default)]
struct MeasuredProgress {
    /// When something was last written.
    written: Option<Timestamp>,
    spans: BTreeMap<String, TraceSpan>,
    waiting: BTreeSet<String>,
}

impl SourceBoard {
    /// Begins the span of an attempt, and says in the log what its lines are about.
    pub(super) fn begin_attempt_span(&self, commit: &PolledCommit) -> (TraceSpan, tracing::Span) {
        let span = TraceSpan::start("attempt", &commit.origin)
            .with("source", &self.source.key)
            .with("revision", &commit.commit);
        let origin = span.trace_context();
        let trace = origin.trace_id();
        self.spans.set(origin);
        (span, tracing::error_span!(target: SPAN_TARGET, "attempt", revision = commit.commit, trace_id = trace))
    }

    /// Does one part of an attempt, and measures it.
    pub(super) async fn measure_stage<T>(&self, stage: SyncStage, work: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let name = match stage {
            SyncStage::Read => "read",
            SyncStage::Render => "render",
            SyncStage::Look => "look at cluster",
            SyncStage::Plan => "plan",
            SyncStage::Sync => "sync",
        };
        let span = TraceSpan::start(name, &self.spans.get()).with("source", &self.source.key);
        let done = work.await;
        drop(span);
        self.metrics.record_stage(stage, began.elapsed());
        done
    }

    /// What a plan says of models, GPUs and what is deprecated, before it is carried out.
    pub(super) fn measure_plan(&self, plan: &MeasuredPlan, marks: &mut MeasuredCommits) {
        if plan.is_of_all {
            marks.found.clear();
        }
        // What is not in the plan is as it was.
        marks.found.retain(|model, _| !plan.retired.contains(model));
        marks.found.extend(plan.found.clone());
        self.metrics.set_model_health(&self.source.key, &count_by_health(&marks.found));
        let gpus = plan.gpus.iter().map(|(sku, kind, number)| (sku.as_str(), *kind, *number));
        self.metrics.set_gpus(&self.source.key, gpus);
        self.metrics.set_deprecated_uses(&self.source.key, &plan.deprecated);
    }

    /// What a sync made of the models, and how long its commit took.
    pub(super) fn measure_sync(
        &self,
        commit: &PolledCommit,
        measurement: &SyncMeasurement,
        report: &SyncReport,
        well: bool,
        marks: &mut MeasuredCommits,
    ) {
        for outcome in &report.models {
            let Some(health) = marks.found.get_mut(&outcome.name) else { continue };
            if outcome.result.is_success() {
                *health = if *health == Health::Suspended { *health } else { Health::Healthy };
            } else if *health < Health::Degraded && outcome.result == SyncOutcome::Unhealthy {
                *health = Health::Failed;
            }
        }
        self.metrics.set_model_health(&self.source.key, &count_by_health(&marks.found));
        if !commit.is_fresh {
            return;
        }
        let since = |at: Timestamp| Duration::try_from(at.duration_since(commit.began)).unwrap_or_default();
        let new = |known: &Option<String>| known.as_ref() != Some(&commit.commit);
        if let Some(written) = measurement.lock().written
            && new(&marks.applied)
        {
            marks.applied = Some(commit.commit.clone());
            self.metrics.record_commit_applied(&self.source.key, since(written));
        }
        if well && new(&marks.healthy) {
            marks.healthy = Some(commit.commit.clone());
            self.metrics.record_commit_healthy(&self.source.key, since(Timestamp::now()));
        }
    }

    /// For what happens while a plan is carried out.
    pub(super) fn begin_sync_measurement(&self) -> SyncMeasurement {
        SyncMeasurement { origin: self.spans.get(), began: SystemTime::now(), state: Mutex::default() }
    }

    /// Something happened while a plan is carried out.
    pub(super) fn measure_progress(&self, measurement: &SyncMeasurement, event: &SyncProgress) {
        match event {
            SyncProgress::Applied { object, .. } => self.metrics.record_apply(&object.kind, ObjectWriteKind::Applied),
            SyncProgress::Deleted { object, .. } => self.metrics.record_apply(&object.kind, ObjectWriteKind::Deleted),
            SyncProgress::Retrying { .. } => self.metrics.record_apply("", ObjectWriteKind::Retried),
            SyncProgress::Waiting { .. } | SyncProgress::Finished(_) => {}
        }
        measurement.take_in(event);
    }
}

impl SyncMeasurement {
    fn lock(&self) -> MutexGuard<'_, MeasuredProgress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_in(&self, event: &SyncProgress) {
        let mut seen = self.lock();
        if matches!(event, SyncProgress::Applied { .. } | SyncProgress::Deleted { .. }) {
            seen.written = Some(Timestamp::now());
        }
        if self.origin.trace_id().is_none() {
            return;
        }
        match event {
            SyncProgress::Applied { model, .. }
            | SyncProgress::Deleted { model, .. }
            | SyncProgress::Retrying { model, .. } => {
                let begin = || TraceSpan::start_at("apply", &self.origin, self.began).with("model", model);
                seen.spans.entry(model.clone()).or_insert_with(begin);
            }
            SyncProgress::Waiting { model, .. } => {
                if seen.waiting.insert(model.clone()) {
                    // What was there of the model ends with this.
                    seen.spans.insert(model.clone(), TraceSpan::start("wait", &self.origin).with("model", model));
                }
            }
            SyncProgress::Finished(outcome) => {
                seen.waiting.remove(&outcome.name);
                if let Some(mut span) = seen.spans.remove(&outcome.name)
                    && !outcome.result.is_success()
                {
                    span.set_error(&outcome.message);
                }
            }
        }
    }
}

fn count_by_health(found: &BTreeMap<String, Health>) -> BTreeMap<Health, usize> {
    let mut counts = BTreeMap::new();
    for health in found.values() {
        *counts.entry(*health).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_counts_from_when_it_was_made_unless_that_cannot_be_when_it_was_pushed() {
        let seen = Timestamp::from_second(1_000_000).unwrap();
        let told = [Some(999_990), Some(1_000_060), Some(990_000), None].map(|at| latency_start(at, seen).as_second());
        assert_eq!(told, [999_990, 1_000_000, 1_000_000, 1_000_000]);
    }
}
