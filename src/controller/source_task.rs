//! The task of one source: it connects to the cluster, runs the reconciler, and starts it again after a panic.

use super::cache::{CachedCluster, IdentityCaches};
use super::metrics::Metrics;
use super::mirror_handle::{MirrorHandle, MirrorResources};
use super::reconcile::{
    AdministratorRules, ReconcileContext, ReconcileResult, SourceBoard, SourceRepository, SpanParent, TargetCluster,
    VerifiedCommits,
};
use crate::controller::report::commit_statuses::CommitStatuses;
use crate::controller::report::commit_statuses::write_budget::ForgeWriteBudgets;
use crate::controller::report::queued_forge::ForgeTurns;
use crate::controller::sources::hints::SourceHints;
use crate::controller::sources::manual_requests::{HoldApproval, ManualRequests};
use crate::controller::sources::registry::{ProblemReason, ProblemScope, SourceProblem, SourceRegistry, SourceState};
use crate::controller::sources::resolved_source::ResolvedSource;
use crate::controller::sources::source_order::SourceOrder;
use crate::controller::sources::sync_windows::WindowClock;
use crate::observation::ObservationBoard;
use crate::observation::{RequestDesk, SourceRequests};
use stator_cluster::cluster::kube::{ConnectError, ImpersonatedUser, KubeCluster};
use stator_cluster::cluster::{AnyCluster, Fence};
use stator_cluster::fleet_policies::FleetPolicyReader;
use stator_cluster::random::random_bits;
use stator_core::retry::Backoff;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;
use url::Url;

/// Pauses before a task that panicked is started anew.
const INITIAL_RESTART_BACKOFF: Duration = Duration::from_secs(1);
const MAX_RESTART_BACKOFF: Duration = Duration::from_secs(300);

/// Where the controller works.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// The cluster.
    pub cluster: AnyCluster,
    /// What cluster it is, where nobody said which one to use: an environment that names a context of its own is refused
    /// then.
    pub implied_cluster: Option<String>,
    /// A file of policies, or a folder of such files, beside those of the cluster.
    pub policies: Option<PathBuf>,
    /// Where mirrors are kept.
    pub data_dir: PathBuf,
    /// Whether each source is synced once, and then it ends.
    pub once: bool,
    /// Where to say how models stand, where anybody shows it.
    pub observations: Option<ObservationBoard>,
    /// Where people open the pages, where that is known: commit statuses lead there.
    pub pages: Option<Url>,
}

/// What a source's task works with, in all of its runs.
pub(super) struct SourceTask {
    pub(super) registry: Arc<SourceRegistry>,
    pub(super) in_cluster: bool,
    /// The task of the same source that is shutting down.
    pub(super) predecessor: Option<JoinHandle<ReconcileResult>>,
    pub(super) source: Arc<ResolvedSource>,
    pub(super) options: ControllerOptions,
    /// What its writes ask.
    pub(super) fence: Option<Fence>,
    pub(super) caches: Arc<IdentityCaches>,
    pub(super) hints: Arc<SourceHints>,
    pub(super) requests: watch::Receiver<ManualRequests>,
    /// Where people who look at pages ask the same.
    pub(super) asking: watch::Sender<ManualRequests>,
    pub(super) state: watch::Sender<SourceState>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) window_clock: WindowClock,
    pub(super) order: SourceOrder,
    pub(super) mirrors: MirrorResources,
    pub(super) forge_turns: ForgeTurns,
    pub(super) write_budgets: ForgeWriteBudgets,
    pub(super) shutdown: CancellationToken,
    /// Its source was written anew, and no reconciler has taken that up yet.
    pub(super) is_rewritten: bool,
}

impl SourceTask {
    /// Runs the reconciler, and starts it anew when it panics: one hostile repository is one source's matter.
    pub(super) async fn run_supervised(mut self) -> ReconcileResult {
        if let Some(before) = self.predecessor.take() {
            let _ = before.await;
        }
        let mut backoff = Backoff::new(INITIAL_RESTART_BACKOFF, MAX_RESTART_BACKOFF, random_bits());
        let mut pause = Duration::ZERO;
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.shutdown.cancelled() => return ReconcileResult::Stopped,
            }
            let cluster = match self.connect_cluster().await {
                Ok(cluster) => self.fence.iter().fold(cluster, |cluster, fence| cluster.fenced(fence.clone())),
                Err(problem) => {
                    tracing::warn!(source = %self.source.key, "{problem}");
                    self.state.send_modify(|state| state.set_problem(ProblemScope::Source, Some(problem)));
                    if self.options.once {
                        return ReconcileResult::NotSynced;
                    }
                    pause = backoff.next_delay();
                    continue;
                }
            };
            let (statuses, problem) = CommitStatuses::new(
                &self.source,
                (self.forge_turns.clone(), &self.write_budgets),
                self.fence.clone(),
                random_bits(),
                &self.metrics,
                self.options.pages.as_ref(),
            );
            if let Some(problem) = &problem {
                tracing::warn!(source = %self.source.key, "no statuses are posted: {problem}");
            }
            self.state.send_modify(|state| {
                state.set_problem(ProblemScope::Source, None);
                state.statuses.problem = problem;
            });
            let context = ReconcileContext {
                source: Arc::clone(&self.source),
                repository: SourceRepository {
                    git: MirrorHandle::new(
                        Arc::clone(&self.source),
                        &self.options.data_dir,
                        Arc::clone(&self.metrics),
                        self.mirrors.clone(),
                        self.shutdown.clone(),
                    ),
                    hints: Arc::clone(&self.hints),
                    verified: VerifiedCommits::default(),
                },
                target: TargetCluster {
                    cluster,
                    fence: self.fence.clone(),
                    implied_cluster: self.options.implied_cluster.clone(),
                },
                rules: AdministratorRules {
                    // As the controller, whoever the source acts as.
                    policies: FleetPolicyReader {
                        path: self.options.policies.clone(),
                        cluster: Some(self.options.cluster.clone()),
                    },
                    order: self.order.clone(),
                    window_clock: self.window_clock.clone(),
                },
                board: SourceBoard {
                    source: Arc::clone(&self.source),
                    registry: Arc::clone(&self.registry),
                    state: self.state.clone(),
                    statuses,
                    previews: watch::Sender::default(),
                    metrics: Arc::clone(&self.metrics),
                    spans: SpanParent::default(),
                    in_cluster: self.in_cluster,
                },
                requests: self.requests.clone(),
                is_rewritten: std::mem::take(&mut self.is_rewritten),
                shutdown: self.shutdown.clone(),
            };
            let once = self.options.once;
            // Who looks for the pages stops with the reconciler that it looks beside.
            let observing = self.options.observations.clone().map(|board| {
                let observer = context.clone();
                board.set_desks(&self.source.key.namespace, &self.source.key.name, |desks| {
                    desks.cluster = Some(self.options.cluster.clone());
                    if !self.in_cluster {
                        let desk = FileRequests { requests: self.asking.clone(), state: self.state.clone() };
                        desks.requests = Some(RequestDesk(Arc::new(desk)));
                    }
                });
                AbortOnDropHandle::new(tokio::spawn(async move { observer.observe_models(board).await }))
            });
            let ended = tokio::spawn(async move { context.run(once).await }.in_current_span()).await;
            drop(observing);
            match ended {
                Ok(ended) => return ended,
                Err(error) if error.is_panic() => {
                    self.metrics.record_restart(&self.source.key);
                    let message = "the source's task ended unexpectedly and is restarted";
                    let problem =
                        SourceProblem::transient(ProblemReason::InternalError, message, "report it, with the log");
                    tracing::error!(source = %self.source.key, "{problem}");
                    self.state.send_modify(|state| state.set_problem(ProblemScope::Source, Some(problem)));
                    if once {
                        return ReconcileResult::NotSynced;
                    }
                    pause = backoff.next_delay();
                }
                Err(_) => return ReconcileResult::Stopped,
            }
        }
    }

    /// The cluster as this source may use it, with what is remembered of it: all that it reads and writes of models and
    /// records goes through here, as the account that it acts as, and in the namespace that it may touch.
    async fn connect_cluster(&self) -> Result<CachedCluster, SourceProblem> {
        let access = &self.source.access;
        let live = match (&access.service_account, self.options.cluster.as_kubernetes()) {
            (None, _) => self.caches.default_cluster(),
            (Some(_), None) => {
                tracing::info!(source = %self.source.key, "an embedded cluster has no service accounts to impersonate");
                self.caches.default_cluster()
            }
            (Some(account), Some(kube)) => self.connect_impersonated(kube, account).await?,
        };
        Ok(match &access.only_namespace {
            Some(namespace) => live.confined(namespace),
            None => live,
        }
        .of_source(&self.source.key))
    }

    /// The cluster as a service account of the source's own namespace sees it.
    async fn connect_impersonated(&self, kube: &KubeCluster, account: &str) -> Result<CachedCluster, SourceProblem> {
        let user = ImpersonatedUser::service_account(&self.source.key.namespace, account);
        let name = user.user.clone();
        let connect = async {
            let problem = |error: ConnectError| {
                SourceProblem::transient(ProblemReason::ClusterUnreachable, error.to_string(), error.help())
            };
            let kube = kube.connect_as(user).await.map_err(problem)?;
            kube.observe_requests(self.metrics.kube_observer());
            Ok(AnyCluster::from(kube))
        };
        self.caches.get_or_connect(&name, connect).await
    }
}

/// What people who look at pages ask of a source of a file, whose annotations nobody can set.
struct FileRequests {
    requests: watch::Sender<ManualRequests>,
    state: watch::Sender<SourceState>,
}

impl SourceRequests for FileRequests {
    fn sync_now(&self) {
        self.requests.send_modify(|asked| asked.requested_at = Some(jiff::Timestamp::now().to_string()));
    }

    fn approve(&self, commit: &str, plan: &str) {
        let hold = self.state.borrow().hold.clone();
        let Some(hold) = hold.filter(|hold| hold.revision == commit && hold.plan == plan) else { return };
        let kinds = hold.guards.into_keys().collect();
        let approval = HoldApproval { kinds, revision: hold.revision, plan: hold.plan, by: None };
        self.requests.send_modify(|asked| asked.allow = Some(approval));
        self.sync_now();
    }
}
