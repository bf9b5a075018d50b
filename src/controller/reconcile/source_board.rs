//! Where a reconciler reports: the source's state with its events, the statuses of its commits, metrics and traces.

use super::commit::PolledCommit;
use crate::controller::metrics::Metrics;
use crate::controller::report::commit_statuses::CommitStatuses;
use crate::controller::sources::registry::{SourcePhase, SourceRegistry, SourceState, source_events};
use crate::controller::sources::resolved_source::ResolvedSource;
use crate::controller::status_wording::CommitStage;
use crate::telemetry::traces::TraceContext;
use stator_view::facts::PreviewFacts;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// What others read of a source. Clones are of the same.
#[derive(Clone, Debug)]
pub(in crate::controller) struct SourceBoard {
    pub(in crate::controller) source: Arc<ResolvedSource>,
    /// Where events are published.
    pub(in crate::controller) registry: Arc<SourceRegistry>,
    pub(in crate::controller) state: watch::Sender<SourceState>,
    /// What is reported of its commits.
    pub(in crate::controller) statuses: CommitStatuses,
    /// The open pull requests that were planned, by number.
    pub(in crate::controller) previews: watch::Sender<BTreeMap<u64, PreviewFacts>>,
    pub(in crate::controller) metrics: Arc<Metrics>,
    /// Where its spans belong now.
    pub(in crate::controller) spans: SpanParent,
    /// Whether the source is an object of a cluster, which people annotate.
    pub(in crate::controller) in_cluster: bool,
}

/// Where the source's spans belong now. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(in crate::controller) struct SpanParent(Arc<Mutex<TraceContext>>);

impl SpanParent {
    pub(super) fn get(&self) -> TraceContext {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, origin: TraceContext) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = origin;
    }
}

impl SourceBoard {
    /// Changes the source's state. Resulting events are published at once; an update without a change publishes none.
    pub(super) fn update_state(&self, change: impl FnOnce(&mut SourceState)) {
        self.state.send_if_modified(|state| {
            let before = state.clone();
            change(state);
            let differs = before != *state;
            if differs {
                for event in source_events::diff_states(&self.source.key, &before, state) {
                    self.registry.publish_event(event);
                }
            }
            differs
        });
    }

    /// Reports how far a commit is: the source's phase and the commit's status go together. `change` is what else of the
    /// state goes with it.
    pub(super) fn report_stage(&self, commit: &str, stage: CommitStage, change: impl FnOnce(&mut SourceState)) {
        self.update_state(|state| {
            state.phase = phase_of(&stage);
            change(state);
        });
        self.statuses.update_ledger(|ledger| ledger.record_progress(commit, stage));
    }

    /// The commits that an earlier process, or another replica, may have said something of: what the mirror last had, what
    /// the source's status names, and the newest one's parent.
    pub(super) fn commits_before(&self, newest: &PolledCommit) -> BTreeSet<String> {
        let previous = self.state.borrow().previous.clone().unwrap_or_default();
        let all = [newest.previous.clone(), newest.parent.clone(), previous.seen, previous.judged_commit];
        all.into_iter().flatten().filter(|commit| *commit != newest.commit).collect()
    }
}

/// What a source is at while its commit is there.
fn phase_of(stage: &CommitStage) -> SourcePhase {
    match stage {
        CommitStage::Queued => SourcePhase::Idle,
        CommitStage::Reading | CommitStage::Planning => SourcePhase::Reading,
        CommitStage::Applying { .. } | CommitStage::Waiting { .. } => SourcePhase::Syncing,
        CommitStage::WindowClosed { .. } => SourcePhase::WindowClosed,
        CommitStage::Suspended => SourcePhase::Suspended,
    }
}
