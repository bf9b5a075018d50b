//! All sources: a task each, started, replaced and ended as a file or a cluster says, and none in another's way.

use super::backoff::Backoff;
use super::board::{Board, Entry, Part, Problem, Reason, Recalled, Standing};
use super::budget::Budget;
use super::git::Git;
use super::hints::Hints;
use super::lease::Held;
use super::live::{Live, Lives};
use super::metrics::Metrics;
use super::notify::Notifier;
use super::report::Report;
use super::requests::Requests;
use super::resources::Resources;
use super::sources::{Source, SourceKey};
use super::unit::{Ended, Place as Spans, Unit, seed};
use crate::telemetry::UNIT;
use futures_util::future::join_all;
use stator_cluster::cluster::AnyCluster;
use stator_cluster::cluster::kube::{ConnectError, Fence, Impersonate, Kube, Options as KubeOptions};
use stator_git::source::model_source::status::ModelSourceStatus;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

/// Pauses before a task that panicked is started anew.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);
/// How long the last notifications are waited for at the end.
const FAREWELL: Duration = Duration::from_secs(5);

/// Where the controller works.
#[derive(Clone, Debug)]
pub struct Place {
    /// The cluster.
    pub cluster: AnyCluster,
    /// How to connect to it as somebody else, where it is a Kubernetes cluster of a kubeconfig.
    pub kube: Option<KubeOptions>,
    /// What cluster it is, where nobody said which one to use: an environment that names a context of its own is refused
    /// then.
    pub implied: Option<String>,
    /// Where mirrors are kept.
    pub data: PathBuf,
    /// Whether each source is synced once, and then it ends.
    pub once: bool,
}

/// A controller that runs.
#[derive(Debug)]
pub struct Controller {
    lives: Arc<Lives>,
    place: Place,
    board: Arc<Board>,
    resources: Option<Arc<Resources>>,
    metrics: Arc<Metrics>,
    notifier: Notifier,
    ending: CancellationToken,
    budgets: BTreeMap<String, Arc<Budget>>,
    held: Held,
    running: BTreeMap<SourceKey, Running>,
    /// Sources that are gone and whose tasks are not through yet.
    leaving: BTreeMap<SourceKey, JoinHandle<Ended>>,
}

#[derive(Debug)]
struct Running {
    source: Arc<Source>,
    requests: watch::Sender<Requests>,
    ending: CancellationToken,
    task: JoinHandle<Ended>,
}

/// What became of sources that were applied, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Started.
    pub started: Vec<SourceKey>,
    /// Ended and started anew, as they changed.
    pub replaced: Vec<SourceKey>,
    /// Ended, as they are gone. What they synced stays.
    pub ended: Vec<SourceKey>,
}

impl Controller {
    /// Without sources yet.
    pub fn new(place: Place) -> Self {
        let metrics: Arc<Metrics> = Arc::default();
        if let AnyCluster::Kubernetes(kube) = &place.cluster {
            kube.observe(metrics.of_kube());
        }
        let board: Arc<Board> = Arc::default();
        Self {
            lives: Arc::new(Lives::new(place.cluster.clone())),
            place,
            notifier: Notifier::new(Arc::clone(&board), Arc::clone(&metrics)),
            board,
            resources: None,
            metrics,
            ending: CancellationToken::new(),
            budgets: BTreeMap::new(),
            held: Held::everything(),
            running: BTreeMap::new(),
            leaving: BTreeMap::new(),
        }
    }

    /// Its sources are these objects of the cluster: what their status says is known of the time before.
    pub fn with_resources(mut self, resources: Arc<Resources>) -> Self {
        self.resources = Some(resources);
        self
    }

    /// What the server needs to know.
    pub fn board(&self) -> Arc<Board> {
        Arc::clone(&self.board)
    }

    /// What is counted.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Set to end it all, between two writes.
    pub fn ending(&self) -> CancellationToken {
        self.ending.clone()
    }

    /// Makes these the sources that run, as far as this replica holds them. One that is the same as before is not disturbed;
    /// one that changed ends between two writes and is started anew; nothing that a source synced is deleted because it is
    /// gone. Never waits: one that takes long to end keeps nobody waiting but its own successor.
    pub fn apply(&mut self, sources: Vec<Source>) -> Applied {
        let mut applied = Applied::default();
        let wanted: BTreeMap<SourceKey, Source> =
            sources.into_iter().filter(|one| self.held.holds(&one.key)).map(|one| (one.key.clone(), one)).collect();
        let stale: Vec<SourceKey> = self
            .running
            .iter()
            .filter(|(name, running)| wanted.get(*name).is_none_or(|source| !running.source.same(source)))
            .map(|(name, _)| name.clone())
            .collect();
        let mut former: BTreeMap<SourceKey, (Arc<Source>, Requests)> = BTreeMap::new();
        for name in stale {
            if let Some(running) = self.running.remove(&name) {
                running.ending.cancel();
                let asked = running.requests.borrow().clone();
                former.insert(name.clone(), (running.source, asked));
                self.leaving.insert(name.clone(), running.task);
            }
            if wanted.contains_key(&name) {
                applied.replaced.push(name);
            } else {
                self.board.remove(&name);
                self.metrics.forget(&name);
                self.notifier.remove(&name);
                applied.ended.push(name);
            }
        }
        let mut known: BTreeMap<SourceKey, Standing> = self.board.standings().into_iter().collect();
        for (name, source) in wanted {
            if !self.running.contains_key(&name) {
                if !applied.replaced.contains(&name) {
                    applied.started.push(name.clone());
                }
                let replaced = applied.replaced.contains(&name);
                let standing = known.remove(&name).filter(|_| replaced).unwrap_or_else(|| self.recalled(&name));
                let former = former.get(&name);
                let anew = former.is_some_and(|(former, _)| !former.as_before(&source));
                let asked = former.map(|(_, asked)| asked.clone()).unwrap_or_default();
                let running = self.start(Arc::new(source), anew, standing, asked);
                self.running.insert(name, running);
            }
        }
        let through = self.leaving.extract_if(.., |_, task| task.is_finished());
        // What they counted at their end is nobody's any more.
        through.for_each(|(key, _)| self.metrics.forget(&key));
        applied
    }

    /// What this replica holds from now on. Sources that it does not hold any more, or anew, end between two writes and are
    /// off the board when this returns; which of them start is for [`Controller::apply`] to say, which knows only those
    /// that are held. Gives those that ended, sorted.
    pub async fn hold(&mut self, held: Held) -> Vec<SourceKey> {
        let before = std::mem::replace(&mut self.held, held);
        let over: Vec<SourceKey> =
            self.running.keys().filter(|key| !self.held.continues(&before, key)).cloned().collect();
        let left: Vec<SourceKey> =
            self.leaving.keys().filter(|key| !self.held.continues(&before, key)).cloned().collect();
        self.end(&over).await;
        let left = left.iter().filter_map(|key| self.leaving.remove(key));
        let _ = join_all(left.collect::<Vec<_>>()).await;
        for key in &over {
            self.board.remove(key);
            self.metrics.forget(key);
            self.notifier.remove(key);
        }
        over
    }

    /// Ends sources between two writes, and waits until they are through.
    async fn end(&mut self, sources: &[SourceKey]) {
        let ending = sources.iter().filter_map(|key| self.running.remove(key)).map(|running| {
            running.ending.cancel();
            running.task
        });
        let _ = join_all(ending.collect::<Vec<_>>()).await;
    }

    /// Says what people ask of a source now. Nothing, where it does not run.
    pub fn ask(&self, source: &SourceKey, requests: Requests) {
        if let Some(running) = self.running.get(source) {
            running.requests.send_if_modified(|known| {
                let news = *known != requests;
                *known = requests;
                news
            });
        }
    }

    /// What the source's own status says of the time before this process.
    fn recalled(&self, source: &SourceKey) -> Standing {
        let resource = self.resources.as_ref().and_then(|resources| resources.get(source));
        let status = resource.map(|resource| ModelSourceStatus::read(resource.object.value()));
        let recalled = status.as_ref().map(Recalled::of);
        let handled = status.and_then(|status| status.last_handled_request);
        Standing { recalled, handled, ..Standing::default() }
    }

    fn start(&mut self, source: Arc<Source>, anew: bool, standing: Standing, asked: Requests) -> Running {
        let ending = self.ending.child_token();
        let hints = Arc::new(Hints::default());
        // What is known of a source stays known when its task is another one.
        let (standing, seen) = watch::channel(standing);
        let (requests, asked) = watch::channel(asked);
        let fence = self.held.fence(&source.key).cloned();
        self.board.put(Entry { fence, ..Entry::new(&source, Arc::clone(&hints), seen) });
        let host = source.url.host().to_owned();
        let budget = Arc::clone(self.budgets.entry(host).or_default());
        let work = Work {
            board: self.board(),
            in_cluster: self.resources.is_some(),
            // One mirror has one user, so the one before has to be through.
            before: self.leaving.remove(&source.key),
            source: Arc::clone(&source),
            place: self.place.clone(),
            fence: self.held.fence(&source.key).cloned(),
            lives: Arc::clone(&self.lives),
            hints,
            requests: asked,
            standing,
            metrics: self.metrics(),
            budget,
            ending: ending.clone(),
            anew,
        };
        self.metrics.begin(&source.key);
        self.notifier.put(&source);
        let about = tracing::error_span!(target: UNIT, "source", source = %source.key);
        Running { source, requests, ending, task: tokio::spawn(work.supervise().instrument(about)) }
    }

    /// Waits until every source has ended: after [`Controller::ending`] was set, or by itself with `once`. True when all
    /// ended well.
    pub async fn ended(&mut self) -> bool {
        let left = std::mem::take(&mut self.leaving).into_values();
        let tasks = std::mem::take(&mut self.running).into_values().map(|running| running.task).chain(left);
        let ended = join_all(tasks.collect::<Vec<_>>()).await;
        self.notifier.ended(FAREWELL).await;
        ended.into_iter().all(|one| matches!(one, Ok(Ended::Well | Ended::Told)))
    }

    /// How the sources stand, sorted.
    pub fn standings(&self) -> Vec<(SourceKey, Standing)> {
        self.board.standings()
    }
}

/// What a source's task works with, whatever becomes of one run of it.
struct Work {
    board: Arc<Board>,
    in_cluster: bool,
    /// The task of the same source that was told to end.
    before: Option<JoinHandle<Ended>>,
    source: Arc<Source>,
    place: Place,
    /// What its writes ask.
    fence: Option<Fence>,
    lives: Arc<Lives>,
    hints: Arc<Hints>,
    requests: watch::Receiver<Requests>,
    standing: watch::Sender<Standing>,
    metrics: Arc<Metrics>,
    budget: Arc<Budget>,
    ending: CancellationToken,
    /// Its source was written anew, and no unit has taken that up yet.
    anew: bool,
}

impl Work {
    /// Runs the unit, and starts it anew when it panics: one hostile repository is one unit's matter.
    async fn supervise(mut self) -> Ended {
        if let Some(before) = self.before.take() {
            let _ = before.await;
        }
        let mut backoff = Backoff::new(FIRST, LONGEST);
        let mut pause = Duration::ZERO;
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.ending.cancelled() => return Ended::Told,
            }
            let cluster = match self.cluster().await {
                Ok(cluster) => self.fence.iter().fold(cluster, |cluster, fence| cluster.fenced(fence.clone())),
                Err(problem) => {
                    tracing::warn!(source = %self.source.key, "{problem}");
                    self.standing.send_modify(|standing| standing.set(Part::Source, Some(problem)));
                    if self.place.once {
                        return Ended::NotWell;
                    }
                    pause = backoff.pause();
                    continue;
                }
            };
            let (report, problem) = Report::new(
                Arc::clone(&self.source),
                Arc::clone(&self.budget),
                self.fence.clone(),
                seed(),
                &self.metrics,
            );
            if let Some(problem) = &problem {
                tracing::warn!(source = %self.source.key, "no statuses are posted: {problem}");
            }
            self.standing.send_modify(|standing| {
                standing.set(Part::Source, None);
                standing.statuses.problem = problem;
            });
            let unit = Unit {
                git: Git::new(
                    Arc::clone(&self.source),
                    &self.place.data,
                    Arc::clone(&self.metrics),
                    self.ending.clone(),
                ),
                source: Arc::clone(&self.source),
                cluster,
                fence: self.fence.clone(),
                implied: self.place.implied.clone(),
                hints: Arc::clone(&self.hints),
                board: Arc::clone(&self.board),
                in_cluster: self.in_cluster,
                requests: self.requests.clone(),
                standing: self.standing.clone(),
                metrics: Arc::clone(&self.metrics),
                place: Spans::default(),
                ending: self.ending.clone(),
                anew: std::mem::take(&mut self.anew),
            };
            let once = self.place.once;
            match tokio::spawn(async move { unit.run(report, once).await }.in_current_span()).await {
                Ok(ended) => return ended,
                Err(error) if error.is_panic() => {
                    self.metrics.restarted(&self.source.key);
                    let message = "the source's task came to an unexpected end and is started anew";
                    let problem = Problem::passing(Reason::InternalError, message, "report it, with the log");
                    tracing::error!(source = %self.source.key, "{problem}");
                    self.standing.send_modify(|standing| standing.set(Part::Source, Some(problem)));
                    if once {
                        return Ended::NotWell;
                    }
                    pause = backoff.pause();
                }
                Err(_) => return Ended::Told,
            }
        }
    }

    /// The cluster as this source may use it, with what is remembered of it: all that it reads and writes of models and
    /// records goes through here, as the account that it acts as, and in the namespace that it may touch.
    async fn cluster(&self) -> Result<Live, Problem> {
        let access = &self.source.access;
        let live = match &access.account {
            None => self.lives.own(),
            Some(_) if matches!(self.place.cluster, AnyCluster::Embedded(_)) => {
                tracing::info!(source = %self.source.key, "an embedded cluster has no service accounts to act as");
                self.lives.own()
            }
            Some(account) => self.impersonated(account).await?,
        };
        Ok(match &access.only {
            Some(namespace) => live.confined(namespace),
            None => live,
        })
    }

    /// The cluster as a service account of the source's own namespace sees it.
    async fn impersonated(&self, account: &str) -> Result<Live, Problem> {
        let impersonate = Impersonate::service_account(&self.source.key.namespace, account);
        let user = impersonate.user.clone();
        let connect = async {
            let options = KubeOptions { impersonate: Some(impersonate), ..self.place.kube.clone().unwrap_or_default() };
            let connected =
                if self.place.kube.is_some() { Kube::connect(options).await } else { Kube::in_cluster(options) };
            let told =
                |error: ConnectError| Problem::passing(Reason::ClusterUnreachable, error.to_string(), error.help());
            let kube = connected.map_err(told)?;
            kube.observe(self.metrics.of_kube());
            Ok(AnyCluster::from(kube))
        };
        self.lives.of(&user, connect).await
    }
}
