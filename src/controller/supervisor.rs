//! All sources: a task each, started, replaced and ended as a file or a cluster says, and none in another's way.

use super::cache::IdentityCaches;
use super::commit_reading::PlanningBudget;
use super::commit_trials::CommitTrials;
use super::git_threads::GitThreads;
use super::metrics::Metrics;
use super::mirror_disk::MirrorDisk;
use super::mirror_handle::MirrorResources;
use super::reconcile::ReconcileResult;
use super::source_task::SourceTask;
use crate::controller::report::commit_statuses::write_budget::ForgeWriteBudgets;
use crate::controller::report::notifications::Notifier;
use crate::controller::report::queued_forge::ForgeTurns;
use crate::controller::sources::hints::SourceHints;
use crate::controller::sources::manual_requests::ManualRequests;
use crate::controller::sources::objects::{DesiredSources, ModelSourceStore};
use crate::controller::sources::owned_shards::OwnedShards;
use crate::controller::sources::registry::{PreviousState, RegisteredSource, SourceRegistry, SourceState};
use crate::controller::sources::resolved_source::{ResolvedSource, SourceKey};
use crate::controller::sources::source_order::SourceOrder;
use crate::controller::sources::sync_windows::WindowClock;
use crate::controller::waiting::send_if_new;
use crate::telemetry::SPAN_TARGET;
use futures_util::future::join_all;
use stator_cluster::cluster::AnyCluster;
use stator_git::source::model_source::status::ModelSourceStatus;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

pub use super::source_task::ControllerOptions;

/// How long the last notifications are waited for at the end.
const NOTIFICATION_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// A controller that runs.
#[derive(Debug)]
pub struct Controller {
    caches: Arc<IdentityCaches>,
    options: ControllerOptions,
    registry: Arc<SourceRegistry>,
    resources: Option<Arc<ModelSourceStore>>,
    metrics: Arc<Metrics>,
    notifier: Notifier,
    window_clock: WindowClock,
    order: SourceOrder,
    mirrors: MirrorResources,
    shutdown: CancellationToken,
    forge_turns: ForgeTurns,
    write_budgets: ForgeWriteBudgets,
    owned_shards: OwnedShards,
    running: BTreeMap<SourceKey, RunningSource>,
    /// Sources that are gone and whose tasks are not through yet.
    leaving: BTreeMap<SourceKey, JoinHandle<ReconcileResult>>,
}

#[derive(Debug)]
struct RunningSource {
    source: Arc<ResolvedSource>,
    requests: watch::Sender<ManualRequests>,
    shutdown: CancellationToken,
    task: JoinHandle<ReconcileResult>,
}

/// What became of sources that were applied, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceChanges {
    /// Started.
    pub started: Vec<SourceKey>,
    /// Ended and started anew, as they changed.
    pub replaced: Vec<SourceKey>,
    /// Ended, as they are gone. What they synced stays.
    pub ended: Vec<SourceKey>,
}

impl Controller {
    /// Without sources yet.
    pub fn new(options: ControllerOptions) -> Self {
        let metrics: Arc<Metrics> = Arc::default();
        if let AnyCluster::Kubernetes(kube) = &options.cluster {
            kube.observe_requests(metrics.kube_observer());
        }
        let registry: Arc<SourceRegistry> = Arc::default();
        let mirrors = MirrorResources {
            threads: GitThreads::default(),
            budget: PlanningBudget::default(),
            trials: CommitTrials::open(&options.data_dir),
            disk: MirrorDisk::new(&options.data_dir),
        };
        Self {
            caches: Arc::new(IdentityCaches::new(options.cluster.clone())),
            options,
            notifier: Notifier::new(Arc::clone(&registry), Arc::clone(&metrics)),
            registry,
            resources: None,
            metrics,
            window_clock: WindowClock::default(),
            order: SourceOrder::default(),
            mirrors,
            shutdown: CancellationToken::new(),
            forge_turns: ForgeTurns::default(),
            write_budgets: ForgeWriteBudgets::default(),
            owned_shards: OwnedShards::all(),
            running: BTreeMap::new(),
            leaving: BTreeMap::new(),
        }
    }

    /// Its sources are these objects of the cluster: what their status says is known of the time before.
    pub fn with_resources(mut self, resources: Arc<ModelSourceStore>) -> Self {
        self.resources = Some(resources);
        self
    }

    /// Asks sync windows by another clock than the system's.
    pub fn with_window_clock(mut self, clock: WindowClock) -> Self {
        self.window_clock = clock;
        self
    }

    /// What the server needs to know.
    pub fn registry(&self) -> Arc<SourceRegistry> {
        Arc::clone(&self.registry)
    }

    /// What is counted.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Set to end it all, between two writes.
    pub fn shutdown_token(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// Makes these the sources that run, as far as this replica holds them. One that is the same as before is not disturbed;
    /// one that changed ends between two writes and is started anew; nothing that a source synced is deleted because it is
    /// gone. Never waits: one that takes long to end keeps nobody waiting but its own successor.
    pub fn apply(&mut self, sources: Vec<ResolvedSource>) -> SourceChanges {
        self.order.set_by_position(&sources);
        self.run_sources(sources)
    }

    fn run_sources(&mut self, sources: Vec<ResolvedSource>) -> SourceChanges {
        let mut applied = SourceChanges::default();
        let wanted: BTreeMap<SourceKey, ResolvedSource> = sources
            .into_iter()
            .filter(|one| self.owned_shards.owns(&one.key))
            .map(|one| (one.key.clone(), one))
            .collect();
        let stale: Vec<SourceKey> = self
            .running
            .iter()
            .filter(|(name, running)| wanted.get(*name).is_none_or(|source| !running.source.is_same_as(source)))
            .map(|(name, _)| name.clone())
            .collect();
        let mut former: BTreeMap<SourceKey, (Arc<ResolvedSource>, ManualRequests)> = BTreeMap::new();
        for name in stale {
            if let Some(running) = self.running.remove(&name) {
                running.shutdown.cancel();
                let asked = running.requests.borrow().clone();
                former.insert(name.clone(), (running.source, asked));
                self.leaving.insert(name.clone(), running.task);
            }
            if wanted.contains_key(&name) {
                applied.replaced.push(name);
            } else {
                self.forget_source(&name);
                if let Some(board) = &self.options.observations {
                    board.remove_source(&name.namespace, &name.name);
                }
                applied.ended.push(name);
            }
        }
        let mut known: BTreeMap<SourceKey, SourceState> = self.registry.states().into_iter().collect();
        for (name, source) in wanted {
            if !self.running.contains_key(&name) {
                if !applied.replaced.contains(&name) {
                    applied.started.push(name.clone());
                }
                let replaced = applied.replaced.contains(&name);
                let state = known.remove(&name).filter(|_| replaced).unwrap_or_else(|| self.previous_state(&name));
                let former = former.get(&name);
                let anew = former.is_some_and(|(former, _)| !former.has_same_outcome_as(&source));
                let asked = former.map(|(_, asked)| asked.clone()).unwrap_or_default();
                let running = self.start_source(Arc::new(source), anew, state, asked);
                self.running.insert(name, running);
            }
        }
        let through = self.leaving.extract_if(.., |_, task| task.is_finished());
        // What they counted at their end is nobody's any more.
        through.for_each(|(key, _)| self.metrics.remove_source(&key));
        applied
    }

    /// Does what a cluster's objects ask for: starts, replaces and ends sources as [`Controller::apply`] does, and hands on
    /// what people ask of those that run.
    pub fn apply_desired(&mut self, desired: DesiredSources) {
        self.order.set(desired.order);
        let changes = self.run_sources(desired.sources);
        for (key, requests) in desired.requests {
            self.set_requests(&key, requests);
        }
        for (change, keys) in [("started", changes.started), ("replaced", changes.replaced), ("ended", changes.ended)] {
            keys.iter().for_each(|key| tracing::info!(source = %key, "{change}"));
        }
    }

    /// What this replica holds from now on. Sources that it does not hold any more, or anew, end between two writes and are
    /// off the board when this returns; which of them start is for [`Controller::apply`] to say, which knows only those
    /// that are held. Gives those that ended, sorted.
    pub async fn set_owned_shards(&mut self, held: OwnedShards) -> Vec<SourceKey> {
        let before = std::mem::replace(&mut self.owned_shards, held);
        let goes = |key: &&SourceKey| !self.owned_shards.continues_from(&before, key);
        let over: Vec<SourceKey> = self.running.keys().filter(goes).cloned().collect();
        let left: Vec<SourceKey> = self.leaving.keys().filter(goes).cloned().collect();
        let ending = over.iter().filter_map(|key| self.running.remove(key)).map(|running| {
            running.shutdown.cancel();
            running.task
        });
        let _ = join_all(ending.collect::<Vec<_>>()).await;
        let left = left.iter().filter_map(|key| self.leaving.remove(key));
        let _ = join_all(left.collect::<Vec<_>>()).await;
        for key in &over {
            self.forget_source(key);
        }
        over
    }

    /// Takes a source that has ended off the board, with what is counted and sent of it.
    fn forget_source(&self, key: &SourceKey) {
        self.registry.unregister(key);
        self.metrics.remove_source(key);
        self.notifier.remove_source(key);
    }

    /// Says what people ask of a source now. Nothing, where it does not run.
    pub fn set_requests(&self, source: &SourceKey, requests: ManualRequests) {
        if let Some(running) = self.running.get(source) {
            send_if_new(&running.requests, requests);
        }
    }

    /// What the source's own status says of the time before this process.
    fn previous_state(&self, source: &SourceKey) -> SourceState {
        let resource = self.resources.as_ref().and_then(|resources| resources.get(source));
        let status = resource.map(|resource| ModelSourceStatus::read(resource.object.value()));
        let recalled = status.as_ref().map(PreviousState::from_status);
        let handled = status.and_then(|status| status.last_handled_request);
        SourceState { previous: recalled, handled_request: handled, ..SourceState::default() }
    }

    fn start_source(
        &mut self,
        source: Arc<ResolvedSource>,
        anew: bool,
        state: SourceState,
        asked: ManualRequests,
    ) -> RunningSource {
        let ending = self.shutdown.child_token();
        let hints = Arc::new(SourceHints::default());
        // What is known of a source stays known when its task is another one.
        let (state, seen) = watch::channel(state);
        let (requests, asked) = watch::channel(asked);
        let fence = self.owned_shards.fence(&source.key).cloned();
        self.registry.register(RegisteredSource { fence, ..RegisteredSource::new(&source, Arc::clone(&hints), seen) });
        let work = SourceTask {
            registry: self.registry(),
            in_cluster: self.resources.is_some(),
            // One mirror has one user, so the one before has to be through.
            predecessor: self.leaving.remove(&source.key),
            source: Arc::clone(&source),
            options: self.options.clone(),
            fence: self.owned_shards.fence(&source.key).cloned(),
            caches: Arc::clone(&self.caches),
            hints,
            requests: asked,
            asking: requests.clone(),
            state,
            metrics: self.metrics(),
            window_clock: self.window_clock.clone(),
            order: self.order.clone(),
            mirrors: self.mirrors.clone(),
            forge_turns: self.forge_turns.clone(),
            write_budgets: self.write_budgets.clone(),
            shutdown: ending.clone(),
            is_rewritten: anew,
        };
        self.metrics.init_source(&source.key);
        self.notifier.set_receivers(&source);
        let about = tracing::error_span!(target: SPAN_TARGET, "source", source = %source.key);
        RunningSource {
            source,
            requests,
            shutdown: ending,
            task: tokio::spawn(work.run_supervised().instrument(about)),
        }
    }

    /// Waits until every source has ended: after [`Controller::shutdown_token`] was cancelled, or by itself with `once`. True
    /// when all ended well. May be dropped while it waits, and called again: what has not ended is waited for then.
    pub async fn wait_until_ended(&mut self) -> bool {
        let mut all_well = true;
        let mut note_end = |ended: Result<ReconcileResult, JoinError>| {
            all_well &= matches!(ended, Ok(ReconcileResult::Synced | ReconcileResult::Stopped));
        };
        // Each is kept until it has ended.
        while let Some(mut leaving) = self.leaving.first_entry() {
            note_end(leaving.get_mut().await);
            leaving.remove();
        }
        while let Some(mut running) = self.running.first_entry() {
            note_end((&mut running.get_mut().task).await);
            running.remove();
        }
        self.notifier.flush_and_stop(NOTIFICATION_FLUSH_TIMEOUT).await;
        all_well
    }

    /// How the sources stand, sorted.
    pub fn states(&self) -> Vec<(SourceKey, SourceState)> {
        self.registry.states()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::sources::file;
    use futures_util::FutureExt as _;
    use stator_cluster::cluster::embedded::{EmbeddedCluster, EmbeddedOptions};

    /// With `--once`, Ctrl-C ended the process in the middle of what was under way.
    #[tokio::test]
    async fn whoever_stops_waiting_for_the_end_may_wait_again() {
        let folder = tempfile::tempdir().unwrap();
        let cluster = EmbeddedCluster::open(&folder.path().join("cluster"), EmbeddedOptions::default()).unwrap();
        let data_dir = folder.path().join("data");
        let mut controller = Controller::new(ControllerOptions {
            cluster: cluster.into(),
            implied_cluster: None,
            policies: None,
            data_dir,
            once: false,
            observations: None,
            pages: None,
        });
        let text = "apiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {name: a}\nspec: {url: 'https://h.invalid/a/b.git', ref: {branch: main}}\n";
        controller.apply(file::parse_file("s.yaml", text.as_bytes()).sources);
        for _ in 0..2 {
            assert_eq!(controller.wait_until_ended().now_or_never(), None);
        }
        controller.shutdown_token().cancel();
        assert!(controller.wait_until_ended().await);
    }
}
