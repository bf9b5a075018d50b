//! The second state of an attempt: what would be written, and what that is judged by. Nothing is written yet.

use super::attempt::{Attempt, AttemptEnd, CancelReceiver, wait_for_cancel};
use super::attempt_cache::SharedPlanner;
use super::attempt_report::{UncoveredModels, VerdictBasis};
use super::commit::PolledCommit;
use super::context::{ReconcileContext, ReconcileTools};
use super::failure::AttemptFailure;
use super::gather::{Gathered, RenderedCommit};
use super::machine::{AttemptOutcome, AttemptPass, PlanFindings};
use super::measure::MeasuredPlan;
use super::repair_choice::RepairChoice;
use super::unhealed_drift::{DriftedModels, LeftAlone};
use super::verdict::PlanOverview;
use crate::controller::commit_reading::CommitReading;
use crate::controller::metrics::SyncStage;
use crate::controller::sources::registry::{PlanSummary, TimestampedRevision};
use crate::controller::status_wording::CommitStage;
use futures_util::FutureExt as _;
use stator_cluster::cluster::Cluster;
use stator_cluster::sync::incremental::PlanDelta;
use stator_cluster::sync::{self, DesiredState, PlanParameters};
use stator_core::finding::Finding;
use stator_model::plan::{self, Action, HoldKind, Plan, PlanDraft, PlanInput, PlanScope, SyncBookkeeping};
use stator_model::render::RenderTarget;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use tracing::Instrument as _;

/// A commit's plan.
pub(super) struct CommitPlan {
    pub(super) plan: Plan,
    /// What a sync starts from.
    bookkeeping: SyncBookkeeping,
    delta: PlanDelta,
    /// What it was put together of, for guards that are released in it.
    draft: PlanDraft,
    target: RenderTarget,
    /// Where what needs no second look is noted.
    planner: Option<SharedPlanner>,
    /// Kept until it is carried out.
    _reading: CommitReading,
}

impl CommitPlan {
    /// Plans on threads that may take their time; what only the cluster can tell of a difference, it is asked in between.
    /// `remembers` says whether what needs no second look is noted.
    pub(super) async fn build<C: Cluster>(
        cluster: &C,
        Gathered { rendered, live }: Gathered,
        parameters: PlanParameters,
        remembers: bool,
    ) -> Result<Self, AttemptFailure> {
        let RenderedCommit { desired, delta, policies: _, planner, is_named: _, reading } = rendered;
        let target = desired.target.clone();
        let input = PlanInput { unchanged: delta.unchanged.clone(), ..desired.into_plan_input(live, parameters) };
        let planned = on_thread(move || {
            let mut draft = PlanDraft::new(input);
            Self {
                plan: draft.plan(),
                bookkeeping: plan::own_bookkeeping(draft.input()),
                delta,
                draft,
                target,
                planner: remembers.then_some(planner),
                _reading: reading,
            }
        });
        planned.await?.explain(cluster).await
    }

    /// The same plan with guards released.
    pub(super) async fn release<C: Cluster>(
        mut self,
        cluster: &C,
        kinds: BTreeSet<HoldKind>,
    ) -> Result<Self, AttemptFailure> {
        let released = on_thread(move || {
            self.draft.allow(kinds);
            Self { plan: self.draft.plan(), bookkeeping: plan::own_bookkeeping(self.draft.input()), ..self }
        });
        released.await?.explain(cluster).await
    }

    /// What is carried out; what the plan was made of is of no use then, and large.
    pub(super) fn into_parts(self) -> (Plan, SyncBookkeeping, PlanDelta) {
        (self.plan, self.bookkeeping, self.delta)
    }

    /// Has the cluster explain what only it can tell, and notes what needs no second look.
    async fn explain<C: Cluster>(mut self, cluster: &C) -> Result<Self, AttemptFailure> {
        let answers = sync::answer_open_questions(cluster, &self.plan).await;
        on_thread(move || {
            if answers != self.draft.input().answers {
                self.draft.answer(answers);
                self.plan = self.draft.plan();
            }
            if let Some(planner) = &self.planner {
                planner.with(|planner| {
                    planner.remember_plan(&self.delta, &self.target, self.draft.input(), &self.plan);
                });
            }
            self
        })
        .await
    }
}

async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, AttemptFailure> {
    tokio::task::spawn_blocking(work).await.map_err(|_| AttemptFailure::panicked("planning"))
}

/// The models of a commit that have nothing valid to say.
pub(super) struct FaultyModels {
    /// Those that have errors, with their `model.yaml`.
    pub(super) models: BTreeMap<String, String>,
    /// Whether the commit is refused as a whole: it does not speak for the models that it removes either.
    pub(super) is_refused: bool,
}

impl FaultyModels {
    pub(super) fn of_commit(rendered: &RenderedCommit) -> Self {
        let desired: &DesiredState = &rendered.desired;
        let broken = desired.selection.broken.iter();
        let broken = broken.map(|one| (one.name.clone().unwrap_or_else(|| one.source.clone()), one.source.clone()));
        let refused = desired.rendered.iter().filter(|one| one.findings.iter().any(Finding::is_error));
        let models = broken.chain(refused.map(|one| (one.model.clone(), one.source.clone()))).collect();
        Self { models, is_refused: rendered.is_refused() }
    }
}

/// An attempt that has its plan.
pub(super) struct Planned {
    pub(super) attempt: Attempt,
    pub(super) commit_plan: CommitPlan,
    pub(super) facts: PlannedFacts,
}

/// What an attempt is judged by, and what is said of its plan.
pub(super) struct PlannedFacts {
    pub(super) faulty: FaultyModels,
    /// The findings of the files, and what only the cluster's records show to be wrong with them.
    pub(super) findings: Vec<Finding>,
    pub(super) overview: PlanOverview,
    /// What drifted.
    pub(super) drifted: DriftedModels,
    /// What of it is put back, and what is left.
    pub(super) repairs: RepairChoice,
    /// Drifted models that are left as they are, as nobody asks for their repair.
    pub(super) left_alone: LeftAlone,
    /// What there is of the plan for people, with what is left of it.
    pub(super) summary: PlanSummary,
    pub(super) measured: MeasuredPlan,
    pub(super) basis: VerdictBasis,
    /// The models that the commit has nothing valid to say of.
    pub(super) uncovered: Option<UncoveredModels>,
    /// How many of those drifted and are left as they are.
    pub(super) drifted_uncovered: usize,
}

impl Planned {
    /// What a plan says before it is carried out: of drift, which is taken out of it where the source does not ask for its
    /// repair, and of models.
    pub(super) fn new(attempt: Attempt, mut commit_plan: CommitPlan, faulty: FaultyModels) -> Self {
        let CommitPlan { plan, bookkeeping, delta, draft, .. } = &mut commit_plan;
        let findings = plan.findings.clone();
        let drifted = DriftedModels::find(plan, &bookkeeping.records);
        let repairs = if attempt.pass.heal {
            RepairChoice::apply(plan, &bookkeeping.records, &attempt.pass.limits)
        } else {
            RepairChoice::default()
        };
        let left = if attempt.pass.heal { BTreeSet::new() } else { drifted.all() };
        let summary = PlanSummary::from_summary(&attempt.commit.commit, &plan.summary);
        let measured = MeasuredPlan::of_plan(plan, draft.input(), &left);
        let left_alone = LeftAlone::take_from(plan, &left);
        let overview = PlanOverview::of_plan(plan, delta.unchanged.models);
        // What is blocked is never left out of a plan, so these are all of them.
        let blocked = plan.changes.iter().filter(|change| change.action == Action::Blocked);
        let blocked = blocked.map(|change| change.object.identity());
        let mut unhealed = drifted.unrepairable.clone();
        unhealed.extend(repairs.disputed_models());
        let basis = VerdictBasis {
            blocked: blocked.filter(|object| !repairs.waiting.contains_key(object)).collect(),
            holds: overview.holds(),
            held_plan: overview.held_plan().to_owned(),
            unhealed: if attempt.pass.heal { unhealed } else { left },
        };
        let uncovered = if faulty.is_refused { Some(UncoveredModels::All) } else { overview.uncovered(&faulty.models) };
        let drifted_uncovered = attempt.pass.drifted_uncovered;
        let facts = PlannedFacts {
            faulty,
            findings,
            overview,
            drifted,
            repairs,
            left_alone,
            summary,
            measured,
            basis,
            uncovered,
            drifted_uncovered,
        };
        Self { attempt, commit_plan, facts }
    }

    /// What decides whether and how it is carried out.
    pub(super) fn plan_findings(&self) -> PlanFindings {
        let facts = &self.facts;
        PlanFindings {
            changing: facts.overview.changing(),
            held: self.commit_plan.plan.held.clone(),
            basis: facts.basis.clone(),
            uncovered: facts.uncovered.clone(),
            drift: facts.repairs.findings.clone(),
            is_empty: facts.summary.is_empty() && facts.summary.blocked == 0,
        }
    }
}

impl ReconcileContext {
    /// Begins an attempt: reads and plans a commit. When it is cancelled, it ends at once.
    pub(super) async fn plan_attempt(
        &self,
        commit: PolledCommit,
        pass: AttemptPass,
        cancelled: CancelReceiver,
        tools: &mut ReconcileTools,
    ) -> Result<Planned, AttemptOutcome> {
        self.board.report_stage(&commit.commit, CommitStage::Reading, |state| {
            if state.attempted.as_ref().is_none_or(|attempted| attempted.commit != commit.commit) {
                state.attempted = Some(TimestampedRevision::now(&commit.commit));
            }
        });
        let started = Instant::now();
        let (span, log_span) = self.board.begin_attempt_span(&commit);
        let attempt = Attempt { commit, pass, started, log_span, span };
        let work = self.read_and_plan(&attempt.commit, cancelled, tools);
        let planned = work.instrument(attempt.log_span.clone()).boxed().await;
        let (attempt, (commit_plan, faulty)) = self.check_end(attempt, planned)?;
        Ok(Planned::new(attempt, commit_plan, faulty))
    }

    async fn read_and_plan(
        &self,
        commit: &PolledCommit,
        mut cancelled: CancelReceiver,
        ReconcileTools { watch, cache, reported: _ }: &mut ReconcileTools,
    ) -> Result<(CommitPlan, FaultyModels), AttemptEnd> {
        let planner = cache.planner.clone();
        let gathered = self.gather(&commit.commit, Some(&self.board.statuses), planner, (watch, cache));
        let gathered = tokio::select! {
            gathered = gathered.boxed() => gathered?,
            () = wait_for_cancel(&mut cancelled) => return Err(AttemptEnd::Cancelled),
        };
        let Gathered { rendered, .. } = &gathered;
        self.check_policy_windows(rendered).await?;
        let faulty = FaultyModels::of_commit(rendered);
        let parameters = PlanParameters {
            revision: commit.commit.clone(),
            folder: self.recorded_folder(rendered.is_named),
            rewound: self.rewound_branch(&commit.commit, &mut cache.lineage).await?,
            allow: BTreeSet::new(),
            prune: self.source.spec.prune.unwrap_or(true),
            scope: PlanScope::All,
        };
        let is_cached = self.target.cluster.is_cached(&watch.namespace);
        let planning = CommitPlan::build(&self.target.cluster, gathered, parameters, is_cached);
        Ok((self.board.measure_stage(SyncStage::Plan, planning).await?, faulty))
    }

    /// Releases guards in a plan, for what somebody approved.
    pub(super) async fn release_holds(
        &self,
        planned: Planned,
        kinds: BTreeSet<HoldKind>,
    ) -> Result<Planned, AttemptOutcome> {
        let Planned { attempt, commit_plan, facts } = planned;
        let work = self.board.measure_stage(SyncStage::Plan, commit_plan.release(&self.target.cluster, kinds));
        let released = work.instrument(attempt.log_span.clone()).boxed().await;
        let (attempt, commit_plan) = self.check_end(attempt, released.map_err(AttemptEnd::from))?;
        Ok(Planned::new(attempt, commit_plan, facts.faulty))
    }
}
