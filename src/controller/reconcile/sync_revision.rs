//! One attempt: a commit's files, rendered, planned against what is live, and carried out. What comes next is the machine's
//! matter.

use super::attempt_report::{AttemptReport, AttemptSummary, ModelFindings, NextStep, UncoveredModels};
use super::commit::PolledCommit;
use super::context::ReconcileContext;
use super::drift_repairs::DriftFindings;
use super::failure::AttemptFailure;
use super::machine::{AttemptOutcome, AttemptPass, RecheckScope};
use super::measure::SyncMeasurement;
use super::prepare::{PlannedCommit, plan_commit};
use super::progress::{PROGRESS_INTERVAL, WaitingModels, log_progress};
use super::repair_choice::RepairChoice;
use super::sync_memory::{ApprovedChanges, ConcludedCommit, SyncMemory, VerdictBasis};
use super::unhealed_drift::{DriftedModels, LeftAlone};
use super::verdict::{PlanOverview, SyncEvaluation, evaluate_sync};
use crate::controller::cache::CachedCluster;
use crate::controller::cache::drift_detector::{PlannedWrites, SyncInterruption};
use crate::controller::metrics::SyncStage;
use crate::controller::report::commit_ledger::CommitStage;
use crate::controller::report::commit_reporter::CommitReporter;
use crate::controller::sources::manual_requests::HoldApproval;
use crate::controller::sources::registry::{AcceptedApproval, PlanSummary, SourcePhase, TimestampedRevision};
use futures_util::FutureExt as _;
use futures_util::future::Either;
use stator_cluster::cluster::ClusterError;
use stator_cluster::cluster::Fence;
use stator_cluster::cluster::FilteredCluster;
use stator_cluster::sync::{self, CancelReason, DesiredState, PlanParameters, SyncOptions, SyncProgress, SyncReport};
use stator_core::finding::Finding;
use stator_core::object::ObjectIdentity;
use stator_core::outcome::OutcomeClass;
use stator_model::plan::{Action, Change, HeldChanges, HoldKind, Plan, PlanScope, PlannedWrite};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::watch;
use tracing::Instrument as _;

/// How work hears that it is to end.
pub(super) type CancelReceiver = watch::Receiver<Option<CancelReason>>;

/// What came of carrying a commit out.
enum RevisionResult {
    Concluded(Box<FinishedSync>),
    /// Nothing is to be done, and the commit had its verdict before.
    Unchanged(AttemptSummary),
    Cancelled,
    /// Somebody changed or deleted something.
    Interrupted(SyncInterruption),
}

/// A sync that ran to its end.
struct FinishedSync {
    evaluation: SyncEvaluation,
    summary: AttemptSummary,
    writes: usize,
}

/// A plan that is ready to be carried out.
struct ReadySync {
    planned: PlannedCommit,
    overview: PlanOverview,
    repairs: RepairChoice,
    left_alone: LeftAlone,
    basis: VerdictBasis,
}

impl ReconcileContext {
    /// Brings the cluster to where a commit wants it. When it is cancelled, it ends at once before anything is written, and
    /// between two writes then.
    pub(super) async fn attempt(
        &self,
        commit: &PolledCommit,
        pass: AttemptPass,
        cancelled: CancelReceiver,
        reporter: &mut CommitReporter,
        memory: &mut SyncMemory,
    ) -> AttemptOutcome {
        let (started, source) = (Instant::now(), &self.source.key);
        self.update_state(|state| {
            state.phase = SourcePhase::Reading;
            if state.attempted.as_ref().is_none_or(|attempted| attempted.commit != commit.commit) {
                state.attempted = Some(TimestampedRevision::now(&commit.commit));
            }
        });
        let (mut span, log_span) = self.begin_attempt_span(commit);
        let work = self.sync_revision(commit, pass, cancelled, reporter, memory);
        let outcome = work.instrument(log_span.clone()).await;
        let _log_span = log_span.enter();
        let took = started.elapsed();
        let record_cancelled = || self.metrics.record_sync(source, OutcomeClass::Cancelled, 0, took);
        if self.is_fenced_off() {
            tracing::warn!(%source, revision = commit.short(), "{}", ClusterError::Fenced);
            let refused = self.fence.as_ref().map_or(0, Fence::take_refused_writes);
            (0..refused).for_each(|_| self.metrics.record_fenced_write());
            record_cancelled();
            return AttemptOutcome::FencedOff;
        }
        match outcome {
            Ok(RevisionResult::Concluded(finished)) => {
                let FinishedSync { evaluation, summary, writes } = *finished;
                if !evaluation.is_success() {
                    span.set_error(&evaluation.verdict.sentence());
                }
                let SyncEvaluation { verdict, next: _, watches_statuses: _, counts, models, holds, held_plan } =
                    evaluation;
                let models = Some(ModelFindings { namespace: memory.namespace.clone(), counts, verdicts: models });
                let report = AttemptReport { summary, verdict, failure: None, models, holds, held_plan, writes, took };
                AttemptOutcome::Concluded(Box::new(report))
            }
            // A look that found all as it was says nothing new.
            Ok(RevisionResult::Unchanged(summary)) => AttemptOutcome::Unchanged(summary),
            Ok(RevisionResult::Cancelled) => {
                record_cancelled();
                AttemptOutcome::Cancelled
            }
            Ok(RevisionResult::Interrupted(SyncInterruption::Deleted(object))) => {
                record_cancelled();
                AttemptOutcome::ObjectLost(object.identity())
            }
            Ok(RevisionResult::Interrupted(SyncInterruption::Changed(object))) => {
                record_cancelled();
                AttemptOutcome::ObjectChanged(object.identity())
            }
            Err(failure) => {
                span.set_error(&failure.verdict.sentence());
                AttemptOutcome::Concluded(Box::new(failure.into_report(took)))
            }
        }
    }

    async fn sync_revision(
        &self,
        commit: &PolledCommit,
        pass: AttemptPass,
        mut cancelled: CancelReceiver,
        reporter: &mut CommitReporter,
        memory: &mut SyncMemory,
    ) -> Result<RevisionResult, AttemptFailure> {
        if pass.recheck == RecheckScope::Everything {
            memory.concluded = None;
        }
        reporter.report_progress(&commit.commit, CommitStage::Reading);
        memory.detector.begin_look();
        let prepared = async {
            let mut rendered = self.render_commit(&commit.commit, Some(reporter), memory.planner.clone()).await?;
            reporter.report_progress(&commit.commit, CommitStage::Planning);
            let live = self.gather_live(&mut rendered, memory).await?;
            Ok::<_, AttemptFailure>((rendered, live))
        }
        .boxed();
        let (rendered, live) = tokio::select! {
            prepared = prepared => prepared?,
            () = wait_for_cancel(&mut cancelled) => return Ok(RevisionResult::Cancelled),
        };
        self.check_policy_windows(&rendered).await?;
        let is_refused = rendered.is_refused();
        let faulty = faulty_models(&rendered.desired);
        let rewound = self.rewound_branch(&commit.commit, &mut memory.lineage).await?;
        let parameters = PlanParameters {
            revision: commit.commit.clone(),
            folder: self.recorded_folder(rendered.is_named),
            rewound,
            allow: BTreeSet::new(),
            prune: self.source.spec.prune.unwrap_or(true),
            scope: PlanScope::All,
        };
        let is_cached = self.cluster.is_cached(&memory.namespace);
        let approved_kinds = |held: &HeldChanges| self.approved_kinds(commit, pass.approval.as_ref(), held, memory);
        let planning = plan_commit(&self.cluster, rendered, live, parameters, is_cached, approved_kinds);
        let planned = self.measure_stage(SyncStage::Plan, planning).await?;
        // Those of the files, and what only the cluster's records show to be wrong with them.
        let findings: Vec<Finding> = planned.plan.findings.clone();
        let known = memory.concluded.as_ref().filter(|known| known.commit == commit.commit).cloned();
        let ready = self.take_stock(commit, &pass, planned, known.as_ref(), memory);
        // A commit that is refused as a whole does not speak for the models that it removes either.
        let uncovered = if is_refused { Some(UncoveredModels::All) } else { ready.overview.uncovered(&faulty) };
        if uncovered.is_none() {
            memory.drifted_uncovered = 0;
        }
        if let Some(known) = known
            && pass.recheck == RecheckScope::Nothing
            && ready.overview.changing() == 0
            && ready.basis == known.basis
        {
            let drift = ready.repairs.findings.clone();
            return Ok(RevisionResult::Unchanged(AttemptSummary { uncovered, drift, ..known.summary }));
        }
        if !ready.repairs.findings.repaired.is_empty() {
            self.metrics.record_drift_repair(&self.source.key);
        }
        let changing = ready.overview.changing();
        if changing > 0 {
            self.check_fitness().await?;
        }
        tracing::info!(source = %self.source.key, revision = commit.short(), changing, "syncing");
        self.set_phase(SourcePhase::Syncing);
        let ReadySync { planned, overview, repairs, left_alone, basis } = ready;
        let unhealed = basis.unhealed.clone();
        let measurement = self.begin_sync_measurement();
        let work =
            self.carry_out_plan(commit, cancelled, reporter, memory, (planned, &pass), (&overview, &measurement));
        let report = match work.await {
            Ok(report) => report,
            Err(interruption) => return Ok(RevisionResult::Interrupted(interruption)),
        };
        if report.cancelled {
            return Ok(RevisionResult::Cancelled);
        }
        let mut evaluation = evaluate_sync(&overview, &findings, &faulty, &report);
        evaluation.counts.drifted =
            if pass.heal { repairs.waiting_models().union(&unhealed).count() } else { 0 } + memory.drifted_uncovered;
        left_alone.count_in(&mut evaluation);
        self.measure_sync(commit, &measurement, &report, evaluation.is_success(), &mut memory.measured);
        if evaluation.is_success() {
            memory.approved = None;
            self.record_applied(&commit.commit).await;
        }
        let summary = evaluation.summary(uncovered, repairs.findings_of(&report));
        let unchanged = NextStep::Watch { statuses: evaluation.watches_statuses };
        let unchanged = AttemptSummary { next: unchanged, drift: DriftFindings::default(), ..summary.clone() };
        let concluded = ConcludedCommit { commit: commit.commit.clone(), summary: unchanged, basis };
        memory.concluded = (summary.next != NextStep::Retry).then_some(concluded);
        let writes = report.writes;
        Ok(RevisionResult::Concluded(Box::new(FinishedSync { evaluation, summary, writes })))
    }

    /// The guards that are released for what a plan holds back: those that somebody approved for exactly that.
    fn approved_kinds(
        &self,
        commit: &PolledCommit,
        approval: Option<&HoldApproval>,
        held: &HeldChanges,
        memory: &mut SyncMemory,
    ) -> BTreeSet<HoldKind> {
        let Some(approval) = approval.filter(|approval| memory.accepts(approval, held)) else {
            return BTreeSet::new();
        };
        let accepted = AcceptedApproval {
            revision: commit.commit.clone(),
            plan: approval.plan.clone(),
            guards: approval.kinds.clone(),
            by: approval.by.clone(),
        };
        if self.state.borrow().approval.as_ref() != Some(&accepted) {
            tracing::warn!(source = %self.source.key, revision = commit.short(), "{}", accepted.sentence());
        }
        self.update_state(|state| state.approval = Some(accepted));
        approval.kinds.clone()
    }

    /// Refuses to write where the cluster would drop a part of it.
    pub(super) async fn check_fitness(&self) -> Result<(), AttemptFailure> {
        match self.cluster.write_obstacle().await.map_err(AttemptFailure::unknown_fitness)? {
            Some(problem) => Err(AttemptFailure::unfit_cluster(problem)),
            None => Ok(()),
        }
    }

    /// What a plan says before it is carried out: of drift, which is taken out of it where the source does not ask for its
    /// repair, and of models and GPUs.
    fn take_stock(
        &self,
        commit: &PolledCommit,
        pass: &AttemptPass,
        mut planned: PlannedCommit,
        known: Option<&ConcludedCommit>,
        memory: &mut SyncMemory,
    ) -> ReadySync {
        let PlannedCommit { plan, bookkeeping, delta } = &mut planned;
        let drifted = DriftedModels::find(plan, &bookkeeping.records);
        let repairs = if pass.heal {
            RepairChoice::apply(plan, &bookkeeping.records, &pass.limits)
        } else {
            RepairChoice::default()
        };
        self.report_disputes(plan, memory);
        let summary = PlanSummary::from_summary(&commit.commit, &plan.summary);
        let drifting = drifted.all().len() + memory.drifted_uncovered;
        if drifting > self.state.borrow().counts.drifted {
            self.metrics.record_drift(&self.source.key);
        }
        let left = if pass.heal { BTreeSet::new() } else { drifted.all() };
        self.measure_plan(plan, &delta.unchanged, &left, &mut memory.measured);
        let left_alone = LeftAlone::take_from(plan, &left);
        self.update_state(|state| state.counts.drifted = drifting);
        let overview = PlanOverview::of_plan(plan, delta.unchanged.models);
        // What is blocked is never left out of a plan, so these are all of them.
        let blocked = plan.changes.iter().filter(|change| change.action == Action::Blocked);
        let blocked = blocked.map(|change| change.object.identity());
        let mut unhealed = drifted.unrepairable;
        unhealed.extend(repairs.disputed_models());
        let basis = VerdictBasis {
            blocked: blocked.filter(|object| !repairs.waiting.contains_key(object)).collect(),
            holds: overview.holds(),
            held_plan: overview.held_plan().to_owned(),
            unhealed: if pass.heal { unhealed } else { left },
        };
        // The plan that finds all done says nothing of what was.
        if !summary.is_empty() || summary.blocked > 0 || known.is_none() {
            self.update_state(|state| state.plan = Some(summary));
        }
        ReadySync { planned, overview, repairs, left_alone, basis }
    }

    /// Carries a plan out. The error is why it is better begun anew. A commit without a verdict goes on where somebody
    /// changes an object: what comes of it is waited for.
    async fn carry_out_plan(
        &self,
        commit: &PolledCommit,
        cancelled: CancelReceiver,
        reporter: &mut CommitReporter,
        memory: &mut SyncMemory,
        (planned, pass): (PlannedCommit, &AttemptPass),
        (overview, measurement): (&PlanOverview, &SyncMeasurement),
    ) -> Result<SyncReport, SyncInterruption> {
        let PlannedCommit { plan, bookkeeping, delta } = planned;
        let planned = planned_writes(&plan);
        let (labels, namespace) = (memory.labels.clone(), memory.namespace.clone());
        let mut cluster = FilteredCluster::new(&self.cluster, &namespace, delta.listed_objects.as_ref());
        cluster.include(plan.changes.iter().flat_map(Change::objects));
        let mut options = SyncOptions::new(jiff::Timestamp::now(), super::jitter_seed());
        options.wait = true;
        options.prune = self.source.spec.prune.unwrap_or(true);
        options.timeout = self.source.timeout;
        let approved = memory.approved.as_ref().filter(|one| pass.approval.as_ref() == Some(&one.approval));
        options.approval = approved.map(ApprovedChanges::for_records);
        let sync = Synchronizing { commit, cluster: &cluster, overview, measurement };
        let work = self.run_reported_sync(sync, (plan, bookkeeping, options), cancelled, reporter);
        let work = self.measure_stage(SyncStage::Sync, work).boxed();
        let is_ours = |object: &stator_core::object::Object| super::is_ours(object, labels.as_ref());
        let is_concluded = memory.concluded.as_ref().is_some_and(|known| known.commit == commit.commit);
        let interrupts = |object: &ObjectIdentity| is_concluded && pass.limits.lets_interrupt(object);
        let gone = memory.detector.wait_for_interruption(is_ours, &planned, interrupts).boxed();
        match futures_util::future::select(work, gone).await {
            Either::Left((report, _)) => Ok(report),
            // Between two writes as between any: the next attempt finds what is left.
            Either::Right((interruption, work)) => {
                let (source, revision) = (&self.source.key, commit.short());
                match &interruption {
                    SyncInterruption::Deleted(object) => {
                        tracing::info!(%source, revision, "{object} was deleted in the meantime");
                    }
                    SyncInterruption::Changed(object) => {
                        tracing::info!(%source, revision, "{object} was changed in the meantime");
                    }
                }
                drop(work);
                Err(interruption)
            }
        }
    }

    /// Runs a sync, and reports from time to time how far it is.
    async fn run_reported_sync(
        &self,
        sync: Synchronizing<'_>,
        (plan, bookkeeping, options): (stator_model::plan::Plan, stator_model::plan::SyncBookkeeping, SyncOptions),
        cancelled: CancelReceiver,
        reporter: &mut CommitReporter,
    ) -> SyncReport {
        let Synchronizing { commit, cluster, overview, measurement } = sync;
        reporter.report_progress(&commit.commit, CommitStage::Applying { models: overview.changing() });
        let waiting: Mutex<WaitingModels> = Mutex::default();
        let sink = |event: SyncProgress| {
            log_progress(&self.source.key, commit, &event);
            self.measure_progress(measurement, &event);
            waiting.lock().unwrap_or_else(PoisonError::into_inner).take_in(event);
        };
        let mut work = sync::run_sync(cluster, plan, bookkeeping, options, &sink, cancelled).boxed();
        let mut due = tokio::time::interval(PROGRESS_INTERVAL);
        due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                report = &mut work => return report,
                _ = due.tick() => {
                    let stage = waiting.lock().unwrap_or_else(PoisonError::into_inner).stage(overview.models());
                    if let Some(stage) = stage {
                        reporter.report_progress(&commit.commit, stage);
                    }
                }
            }
        }
    }
}

/// What a sync is of, and what it is measured by.
struct Synchronizing<'a> {
    commit: &'a PolledCommit,
    cluster: &'a FilteredCluster<'a, CachedCluster>,
    overview: &'a PlanOverview,
    measurement: &'a SyncMeasurement,
}

/// The objects that a sync of this plan writes.
pub(super) fn planned_writes(plan: &Plan) -> PlannedWrites {
    let mut planned = PlannedWrites::default();
    for change in &plan.changes {
        match change.step.write() {
            Some(PlannedWrite::Replace { delete, apply }) => {
                planned.deleted.insert(change.object.identity());
                if delete.after.is_some() {
                    planned.applied.insert(apply.object.reference().identity());
                }
            }
            Some(PlannedWrite::Delete(_)) => {
                planned.deleted.insert(change.object.identity());
            }
            Some(PlannedWrite::Apply(_)) => {
                planned.applied.insert(change.object.identity());
            }
            None => {}
        }
    }
    planned
}

/// Waits until work is asked to stop.
pub(super) async fn wait_for_cancel(cancelled: &mut CancelReceiver) {
    if cancelled.wait_for(Option::is_some).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The models that have errors, with their `model.yaml`.
fn faulty_models(desired: &DesiredState) -> BTreeMap<String, String> {
    let broken = desired.selection.broken.iter();
    let broken = broken.map(|one| (one.name.clone().unwrap_or_else(|| one.source.clone()), one.source.clone()));
    let refused = desired.rendered.iter().filter(|one| one.findings.iter().any(Finding::is_error));
    broken.chain(refused.map(|one| (one.model.clone(), one.source.clone()))).collect()
}
