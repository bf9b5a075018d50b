//! One source, and all that its reconciler works with.

use super::attempt_cache::{AttemptCache, EnvironmentWatch, ReportedFindings};
use super::attempt_report::HeldPlan;
use super::machine::{HeldRevisionPlan, ReconcilerStart};
use super::source_board::SourceBoard;
use super::verified_commits::VerifiedCommits;
use crate::controller::cache::CachedCluster;
use crate::controller::mirror_handle::MirrorHandle;
use crate::controller::sources::hints::SourceHints;
use crate::controller::sources::manual_requests::ManualRequests;
use crate::controller::sources::resolved_source::ResolvedSource;
use crate::controller::sources::source_order::SourceOrder;
use crate::controller::sources::sync_windows::WindowClock;
use stator_cluster::cluster::Fence;
use stator_cluster::fleet_policies::FleetPolicyReader;
use stator_git::source::model_source::SourceGuards;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Handles of everything outside of the process, and of what others in it read. Clones are of the same source.
#[derive(Clone, Debug)]
pub(in crate::controller) struct ReconcileContext {
    pub(in crate::controller) source: Arc<ResolvedSource>,
    pub(in crate::controller) repository: SourceRepository,
    pub(in crate::controller) target: TargetCluster,
    pub(in crate::controller) rules: AdministratorRules,
    pub(in crate::controller) board: SourceBoard,
    /// What people request of the source.
    pub(in crate::controller) requests: watch::Receiver<ManualRequests>,
    /// Whether the source's spec was changed since its last reconciler: the newest commit is taken up again then.
    pub(in crate::controller) is_rewritten: bool,
    pub(in crate::controller) shutdown: CancellationToken,
}

/// The repository of a source.
#[derive(Clone, Debug)]
pub(in crate::controller) struct SourceRepository {
    pub(in crate::controller) git: MirrorHandle,
    /// What says that it may have changed.
    pub(in crate::controller) hints: Arc<SourceHints>,
    /// Commits whose signature was found to be good.
    pub(in crate::controller) verified: VerifiedCommits,
}

/// The cluster that a source is synced to.
#[derive(Clone, Debug)]
pub(in crate::controller) struct TargetCluster {
    pub(in crate::controller) cluster: CachedCluster,
    /// What writes ask first; none where this replica works alone.
    pub(in crate::controller) fence: Option<Fence>,
    /// What cluster this is, where nobody said which one to use: an environment that asks for another one is refused.
    pub(in crate::controller) implied_cluster: Option<String>,
}

/// What administrators allow, and what it is judged with.
#[derive(Clone, Debug)]
pub(in crate::controller) struct AdministratorRules {
    pub(in crate::controller) policies: FleetPolicyReader,
    /// Which sources are older.
    pub(in crate::controller) order: SourceOrder,
    /// What sync windows are asked by.
    pub(in crate::controller) window_clock: WindowClock,
}

/// What work is done with, and handed on to the next.
#[derive(Debug, Default)]
pub(super) struct ReconcileTools {
    pub(super) watch: EnvironmentWatch,
    pub(super) cache: AttemptCache,
    pub(super) reported: ReportedFindings,
}

impl ReconcileContext {
    /// What the source's spec and its past say.
    pub(super) fn reconciler_start(&self, once: bool) -> ReconcilerStart {
        let state = self.board.state.borrow();
        ReconcilerStart {
            is_suspended: self.source.spec.suspend,
            self_heal: self.heals_drift(),
            once,
            is_changed: self.is_rewritten,
            requests: self.requests.borrow().clone(),
            approvers: self.source.spec.guards.as_ref().map_or(0, SourceGuards::required_approvers),
            handled_request: state.handled_request.clone(),
            applied: state.applied.as_ref().map(|applied| applied.commit.clone()),
            previously_applied: state.previous.as_ref().and_then(|previous| previous.applied.clone()),
            held: state.hold.as_ref().map(|hold| HeldRevisionPlan {
                revision: hold.revision.clone(),
                plan: HeldPlan { digest: hold.plan.clone(), guards: hold.guards.keys().copied().collect() },
            }),
            concluded: state.verdict.as_ref().map(|verdict| verdict.revision.clone()),
            seed: super::jitter_seed(),
        }
    }

    /// Whether another replica may be at work on this source by now: nothing that is found here counts any more.
    pub(super) fn is_fenced_off(&self) -> bool {
        self.target.fence.as_ref().is_some_and(|fence| !fence.is_valid())
    }

    /// Whether drift is put back by itself.
    pub(super) fn heals_drift(&self) -> bool {
        self.source.spec.self_heal.unwrap_or(true)
    }
}
