//! All sources of a file: a task each, started, replaced and ended as the file says, and none in another's way.

use super::backoff::Backoff;
use super::board::{Board, Entry, Standing};
use super::budget::Budget;
use super::file::Source;
use super::git::Git;
use super::hints::Hints;
use super::metrics::Metrics;
use super::report::Report;
use super::unit::{Ended, Unit, seed};
use crate::cluster::AnyCluster;
use crate::cluster::kube::{Impersonate, Kube, Options as KubeOptions};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Pauses before a task that panicked is started anew.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);

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
    place: Place,
    board: Arc<Board>,
    metrics: Arc<Metrics>,
    ending: CancellationToken,
    budgets: BTreeMap<String, Arc<Budget>>,
    running: BTreeMap<String, Running>,
}

#[derive(Debug)]
struct Running {
    source: Arc<Source>,
    ending: CancellationToken,
    task: JoinHandle<Ended>,
}

/// What became of a file that was applied: names of sources, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Started.
    pub started: Vec<String>,
    /// Ended and started anew, as they changed.
    pub replaced: Vec<String>,
    /// Ended, as they are gone. What they synced stays.
    pub ended: Vec<String>,
}

impl Controller {
    /// Without sources yet.
    pub fn new(place: Place) -> Self {
        Self {
            place,
            board: Arc::default(),
            metrics: Arc::default(),
            ending: CancellationToken::new(),
            budgets: BTreeMap::new(),
            running: BTreeMap::new(),
        }
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

    /// Makes these the sources that run. One that is the same as before is not disturbed; one that changed ends between
    /// two writes and is started anew; nothing that a source synced is deleted because it is gone from the file.
    pub async fn apply(&mut self, sources: Vec<Source>) -> Applied {
        let mut applied = Applied::default();
        let wanted: BTreeMap<String, Source> = sources.into_iter().map(|one| (one.name.clone(), one)).collect();
        let stale: Vec<String> = self
            .running
            .iter()
            .filter(|(name, running)| wanted.get(*name).is_none_or(|source| !running.source.same(source)))
            .map(|(name, _)| name.clone())
            .collect();
        let ending = stale.iter().filter_map(|name| self.running.remove(name)).map(|running| {
            running.ending.cancel();
            running.task
        });
        // One mirror has one user, so the old one has to be through.
        let _ = join_all(ending.collect::<Vec<_>>()).await;
        for name in stale {
            if wanted.contains_key(&name) {
                applied.replaced.push(name);
            } else {
                self.board.remove(&name);
                self.metrics.forget(&name);
                applied.ended.push(name);
            }
        }
        for (name, source) in wanted {
            if !self.running.contains_key(&name) {
                if !applied.replaced.contains(&name) {
                    applied.started.push(name.clone());
                }
                let running = self.start(Arc::new(source), applied.replaced.contains(&name));
                self.running.insert(name, running);
            }
        }
        applied
    }

    fn start(&mut self, source: Arc<Source>, anew: bool) -> Running {
        let ending = self.ending.child_token();
        let hints = Arc::new(Hints::default());
        let (standing, seen) = watch::channel(Standing::default());
        self.board.put(Entry::new(&source, Arc::clone(&hints), seen));
        let host = source.url.host().to_owned();
        let budget = Arc::clone(self.budgets.entry(host).or_default());
        let work = Work {
            source: Arc::clone(&source),
            place: self.place.clone(),
            hints,
            standing,
            metrics: self.metrics(),
            budget,
            ending: ending.clone(),
            anew,
        };
        Running { source, ending, task: tokio::spawn(work.supervise()) }
    }

    /// Waits until every source has ended: after [`Controller::ending`] was set, or by itself with `once`. True when all
    /// ended well.
    pub async fn ended(&mut self) -> bool {
        let tasks = std::mem::take(&mut self.running).into_values().map(|running| running.task);
        let ended = join_all(tasks.collect::<Vec<_>>()).await;
        ended.into_iter().all(|one| matches!(one, Ok(Ended::Well | Ended::Told)))
    }

    /// How the sources stand, sorted by name.
    pub fn standings(&self) -> Vec<(String, Standing)> {
        self.board.standings()
    }
}

/// What a source's task works with, whatever becomes of one run of it.
struct Work {
    source: Arc<Source>,
    place: Place,
    hints: Arc<Hints>,
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
        let mut backoff = Backoff::new(FIRST, LONGEST);
        let mut pause = Duration::ZERO;
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.ending.cancelled() => return Ended::Told,
            }
            let cluster = match self.cluster().await {
                Ok(cluster) => cluster,
                Err(problem) => {
                    tracing::warn!(source = self.source.name, "{problem}");
                    self.standing.send_modify(|standing| standing.problem = Some(problem));
                    if self.place.once {
                        return Ended::NotWell;
                    }
                    pause = backoff.pause();
                    continue;
                }
            };
            let (report, problem) = Report::new(Arc::clone(&self.source), Arc::clone(&self.budget), seed());
            if let Some(problem) = problem {
                tracing::warn!(source = self.source.name, "no statuses are posted: {problem}");
            }
            let unit = Unit {
                git: Git::new(Arc::clone(&self.source), &self.place.data, self.ending.clone()),
                source: Arc::clone(&self.source),
                cluster,
                implied: self.place.implied.clone(),
                hints: Arc::clone(&self.hints),
                standing: self.standing.clone(),
                metrics: Arc::clone(&self.metrics),
                ending: self.ending.clone(),
                anew: std::mem::take(&mut self.anew),
            };
            let once = self.place.once;
            match tokio::spawn(async move { unit.run(report, once).await }).await {
                Ok(ended) => return ended,
                Err(error) if error.is_panic() => {
                    self.metrics.restarted(&self.source.name);
                    let problem = "the source's task came to an unexpected end and is started anew".to_owned();
                    tracing::error!(source = self.source.name, "{problem}");
                    self.standing.send_modify(|standing| standing.problem = Some(problem));
                    if once {
                        return Ended::NotWell;
                    }
                    pause = backoff.pause();
                }
                Err(_) => return Ended::Told,
            }
        }
    }

    /// The cluster, as the service account that the source is to act as.
    async fn cluster(&self) -> Result<AnyCluster, String> {
        let Some(account) = &self.source.spec.service_account_name else { return Ok(self.place.cluster.clone()) };
        match (&self.place.cluster, &self.place.kube) {
            (AnyCluster::Embedded(_), _) => {
                tracing::info!(source = self.source.name, "an embedded cluster has no service accounts to act as");
                Ok(self.place.cluster.clone())
            }
            (AnyCluster::Kubernetes(_), Some(options)) => {
                let impersonate = Impersonate::service_account(&self.source.namespace, account.as_str());
                let options = KubeOptions { impersonate: Some(impersonate), ..options.clone() };
                let told = |error: crate::cluster::kube::ConnectError| format!("{error}; {}", error.help());
                Ok(Kube::connect(options).await.map_err(told)?.into())
            }
            (AnyCluster::Kubernetes(_), None) => {
                let impersonate = Impersonate::service_account(&self.source.namespace, account.as_str());
                let options = KubeOptions { impersonate: Some(impersonate), ..KubeOptions::default() };
                let told = |error: crate::cluster::kube::ConnectError| format!("{error}; {}", error.help());
                Ok(Kube::in_cluster(options).map_err(told)?.into())
            }
        }
    }
}
