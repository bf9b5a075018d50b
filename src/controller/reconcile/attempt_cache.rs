//! What one attempt leaves to the next, so that a steady state costs next to nothing. Nothing is decided by it: a process that
//! lost it looks at everything once more.

use super::SourceLabels;
use super::measure::MeasuredCommits;
use crate::controller::cache::NamespaceCacheGuard;
use crate::controller::cache::drift_detector::DriftDetector;
use crate::controller::status_wording::ModelVerdict;
use stator_cluster::sync::incremental::IncrementalPlanner;
use stator_core::object::ObjectText;
use stator_model::render::RenderTarget;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// The watch on the objects that a source was planned by.
#[derive(Debug, Default)]
pub(super) struct EnvironmentWatch {
    /// Watches what was planned by.
    pub(super) detector: DriftDetector,
    /// The namespace that it watches.
    pub(super) namespace: String,
    /// Keeps that namespace in the cache.
    pub(super) cache_guard: Option<NamespaceCacheGuard>,
    /// The source, as labels of live objects have it.
    pub(super) labels: Option<SourceLabels>,
}

/// What need not be looked at again.
#[derive(Debug, Default)]
pub(super) struct AttemptCache {
    /// What was planned last.
    pub(super) planner: SharedPlanner,
    /// What has the source's labels and is not of this environment, as of the last look at everything: only what is told of
    /// what is left behind hangs from it.
    pub(super) strays: Option<(RenderTarget, Vec<ObjectText>)>,
    /// Whether the newest commit leads on from what was applied.
    pub(super) lineage: Option<CommitLineage>,
}

/// What was reported already, and is not reported again as long as it stays.
#[derive(Debug, Default)]
pub(super) struct ReportedFindings {
    /// What was said of objects whose repair does not stick.
    pub(super) disputes: BTreeSet<String>,
    /// How models ended, by name.
    pub(super) models: BTreeMap<String, ModelVerdict>,
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
        let cache = AttemptCache { planner: learned(), ..AttemptCache::default() };
        let attempt = async {
            let planner = cache.planner.clone();
            planner.with(|planner| planner.target().cloned());
            std::future::pending::<()>().await;
        };
        assert!(attempt.now_or_never().is_none());
        assert!(cache.planner.with(|planner| planner.target().is_some()));
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
