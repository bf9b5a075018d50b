//! What is remembered from one attempt to the next, so that a steady state costs next to nothing.

use super::SourceLabels;
use super::attempt_report::AttemptSummary;
use super::measure::MeasuredCommits;
use crate::controller::cache::NamespaceCacheGuard;
use crate::controller::cache::drift_detector::DriftDetector;
use crate::controller::report::commit_ledger::ModelVerdict;
use crate::controller::sources::manual_requests::HoldApproval;
use stator_cluster::sync::SyncApproval;
use stator_cluster::sync::incremental::IncrementalPlanner;
use stator_core::object::{ObjectIdentity, ObjectText};
use stator_model::plan::{HeldChanges, HoldKind};
use stator_model::render::RenderTarget;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// What attempts remember.
#[derive(Debug, Default)]
pub(super) struct SyncMemory {
    /// Watches what was planned by.
    pub(super) detector: DriftDetector,
    /// The namespace that it watches.
    pub(super) namespace: String,
    /// Keeps that namespace in the cache.
    pub(super) cache_guard: Option<NamespaceCacheGuard>,
    /// What has the source's labels and is not of this environment, as of the last look at everything: only what is told of
    /// what is left behind hangs from it.
    pub(super) strays: Option<(RenderTarget, Vec<ObjectText>)>,
    /// What need not be looked at again.
    pub(super) planner: SharedPlanner,
    /// The source, as labels of live objects have it.
    pub(super) labels: Option<SourceLabels>,
    /// The commit that had its verdict, and what that stands on.
    pub(super) concluded: Option<ConcludedCommit>,
    /// Whether the newest commit leads on from what was applied.
    pub(super) lineage: Option<CommitLineage>,
    /// What was approved of a commit, and is not through yet.
    pub(super) approved: Option<ApprovedChanges>,
    /// Uncovered models that drifted and are left as they are.
    pub(super) drifted_uncovered: usize,
    /// What was last said of objects whose repair does not stick.
    pub(super) reported_disputes: BTreeSet<String>,
    /// What was last reported of models, by name.
    pub(super) reported_models: BTreeMap<String, ModelVerdict>,
    /// What was measured.
    pub(super) measured: MeasuredCommits,
}

/// How one commit stands to another: asked once, as the answer never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommitLineage {
    pub(super) applied: String,
    pub(super) newest: String,
    /// Whether the newest is the applied one or comes after it.
    pub(super) follows: bool,
}

/// What somebody approved: an attempt that was interrupted has less left of it, and needs no approval of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApprovedChanges {
    pub(super) approval: HoldApproval,
    pub(super) changes: HeldChanges,
}

impl ApprovedChanges {
    /// For the records of the models.
    pub(super) fn for_records(&self) -> SyncApproval {
        let Self { approval, changes } = self;
        let by = approval.by.as_deref().map_or(String::new(), |by| format!(" by {by}"));
        SyncApproval { text: format!("{}{by}", approval.guard_words()), models: changes.models() }
    }
}

impl SyncMemory {
    /// Whether what a plan holds back is what was approved, or what is left of it. Remembers it where it is.
    pub(super) fn accepts(&mut self, approval: &HoldApproval, held: &HeldChanges) -> bool {
        if held.digest() == approval.plan {
            self.approved = Some(ApprovedChanges { approval: approval.clone(), changes: held.clone() });
            return true;
        }
        let is_rest = |one: &ApprovedChanges| one.approval == *approval && held.is_part_of(&one.changes);
        self.approved.as_ref().is_some_and(is_rest)
    }
}

/// A commit that had its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConcludedCommit {
    pub(super) commit: String,
    /// What follows from an attempt that finds nothing new.
    pub(super) summary: AttemptSummary,
    pub(super) basis: VerdictBasis,
}

/// What a verdict stands on beside what is to be written. An attempt that finds it as it was has nothing new to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VerdictBasis {
    /// What could not be touched: somebody may take more, or give some back.
    pub(super) blocked: BTreeSet<ObjectIdentity>,
    /// What guards held back, and what each said.
    pub(super) holds: BTreeMap<HoldKind, String>,
    /// The digest of what they held back.
    pub(super) held_plan: String,
    /// Models that had drifted and were not put back.
    pub(super) unhealed: BTreeSet<String>,
}

/// The incremental planner, shared by the steps of an attempt that run on threads of their own. An attempt that is
/// cancelled, or that fails, leaves what was learned before it.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedPlanner(Arc<Mutex<IncrementalPlanner>>);

impl SharedPlanner {
    /// Works with it; blocks while another thread does.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut IncrementalPlanner) -> T) -> T {
        match self.0.lock() {
            Ok(mut planner) => work(&mut planner),
            Err(poisoned) => {
                // Nobody knows how far the one came that panicked.
                let mut planner = PoisonError::into_inner(poisoned);
                planner.reset();
                self.0.clear_poison();
                work(&mut planner)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use stator_cluster::sync::{DesiredState, GatheredState, PlanParameters};
    use stator_model::intent::{SourceFile, SourceTree, Workspace};
    use stator_model::plan;

    /// A planner that has seen one plan.
    fn learned() -> SharedPlanner {
        let root = "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {name: fleet}\n";
        let root = SourceFile { path: "stator.yaml".to_owned(), content: Ok(root.as_bytes().into()) };
        let planner = SharedPlanner::default();
        planner.with(|planner| {
            let snapshot = planner.snapshot(SourceTree { files: vec![root], ..SourceTree::default() }, "");
            let delta = planner.delta(&snapshot, None, &BTreeSet::new(), &|_, _| None);
            let desired = DesiredState::render(
                Workspace::parse(&delta.tree).resolve_environment(None).unwrap(),
                &Default::default(),
            );
            let target = desired.target.clone();
            let input = desired.into_plan_input(GatheredState::default(), PlanParameters::default());
            planner.remember_plan(&delta, &target, &input, &plan::build_plan(&input));
        });
        planner
    }

    /// Row D6 of the review: an attempt took what was learned along, and lost it when it was cancelled or failed.
    #[test]
    fn what_was_learned_outlives_an_attempt_that_is_dropped_half_way() {
        let memory = SyncMemory { planner: learned(), ..SyncMemory::default() };
        let attempt = async {
            let planner = memory.planner.clone();
            planner.with(|planner| planner.target().cloned());
            std::future::pending::<()>().await;
        };
        assert!(attempt.now_or_never().is_none());
        assert!(memory.planner.with(|planner| planner.target().is_some()));
    }

    /// What a thread left half-done when it panicked is not believed.
    #[test]
    fn what_a_panic_left_behind_is_forgotten() {
        let planner = learned();
        let shared = planner.clone();
        let panicked = std::thread::spawn(move || shared.with(|_| panic!("half-way"))).join();
        assert!(panicked.is_err() && planner.with(|planner| planner.target().is_none()));
    }
}
