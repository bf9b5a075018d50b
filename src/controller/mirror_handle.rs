//! A source's mirror, for tasks: its calls block, so each runs on a thread of its own, one after the other.

use super::commit_reading::{CommitReading, PlanningBudget};
use super::commit_trials::{CommitTrials, TrialDecision, TrialRefusal, TrialSubject};
use super::git_threads::{GitThreadError, GitThreads, HostKey};
use super::metrics::{Metrics, MirrorOperation, TrialResult};
use super::mirror_disk::{MirrorDisk, MirrorSlot};
use crate::controller::report::preview::planner::PullRequestTrees;
use crate::controller::report::preview::trees::{self, PullRequestReadError, PullRequestReader, PullRequestRefs};
use crate::controller::sources::file::ResolvedSource;
use stator_git::forge::github_app::BlockingTokenProvider;
use stator_git::forge::{ForgeError, ForgeHttp};
use stator_git::source::credentials::GitLogin;
use stator_git::source::mirror::{FetchOutcome, Mirror, MirrorError, RemoteRepository, ResolvedRef};
use stator_git::source::url::UrlScheme;
use stator_model::intent::SourceTree;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long anything that is asked of a mirror is waited for, the wait for its turn included. Every conversation with a
/// host has a shorter deadline of its own.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// Why a repository could not be asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum GitError {
    /// The mirror says no.
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    /// The secret for it cannot be used.
    #[error("{message}")]
    Credentials {
        /// What is wrong, without a value.
        message: String,
    },
    /// Reading the commit ended the process too often.
    #[error(transparent)]
    Trial(#[from] TrialRefusal),
    /// A hostile repository brought the reader down; the mirror is opened anew.
    #[error("reading the repository ended unexpectedly")]
    Panicked,
    /// The system gives no thread for it.
    #[error("no thread could be started to read the repository")]
    NoThread,
    /// The mirror is at work for too long: a conversation ends in minutes, but several may wait for each other.
    #[error("reading the repository timed out after {} minutes", OPERATION_TIMEOUT.as_secs() / 60)]
    TimedOut,
}

impl GitError {
    /// As [`MirrorError::retry_delay`].
    pub fn may_pass(&self) -> Option<Duration> {
        match self {
            Self::Mirror(error) => error.retry_delay(),
            Self::Credentials { .. } | Self::Trial(_) => None,
            Self::Panicked | Self::NoThread | Self::TimedOut => Some(Duration::ZERO),
        }
    }

    /// What to do about it.
    pub fn help(&self) -> String {
        match self {
            Self::Mirror(error) => error.help().into_owned(),
            Self::Credentials { .. } => "correct the secret that `secretRef` names".to_owned(),
            Self::Trial(_) => TrialRefusal::help().to_owned(),
            Self::Panicked => "report it, with the log; stator retries".to_owned(),
            Self::NoThread => "raise the limit of processes or tasks of the container; stator retries".to_owned(),
            Self::TimedOut => "stator retries; check whether the git host or the disk of `--data` is slow".to_owned(),
        }
    }
}

/// What all mirrors share. Clones are the same.
#[derive(Clone, Debug)]
pub(in crate::controller) struct MirrorResources {
    pub(in crate::controller) threads: GitThreads,
    pub(in crate::controller) budget: PlanningBudget,
    pub(in crate::controller) trials: CommitTrials,
    pub(in crate::controller) disk: MirrorDisk,
}

/// A mirror that tasks share. Clones are the same one.
#[derive(Clone)]
pub struct MirrorHandle {
    inner: Arc<MirrorHandleState>,
}

struct MirrorHandleState {
    source: Arc<ResolvedSource>,
    folder: PathBuf,
    metrics: Arc<Metrics>,
    cancel: CancellationToken,
    shared: MirrorResources,
    /// Whoever works with it holds the lock; waiting for it takes no thread.
    mirror: MirrorSlot,
}

impl std::fmt::Debug for MirrorHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Git").field("folder", &self.inner.folder).finish_non_exhaustive()
    }
}

impl MirrorHandle {
    /// The mirror of a source, in a folder of its own below `data`. Nothing is opened yet. `cancel` ends what is under
    /// way.
    pub(in crate::controller) fn new(
        source: Arc<ResolvedSource>,
        data: &Path,
        metrics: Arc<Metrics>,
        shared: MirrorResources,
        cancel: CancellationToken,
    ) -> Self {
        let folder = MirrorDisk::folder(data, &source.key);
        let mirror = MirrorSlot::default();
        Self { inner: Arc::new(MirrorHandleState { source, folder, metrics, cancel, shared, mirror }) }
    }

    /// Does something with the mirror, on a thread of its own. Whoever stops waiting leaves it to end by itself.
    ///
    /// # Errors
    /// What the mirror says, and when it cannot be opened.
    pub async fn with<T, F>(&self, operation: MirrorOperation, work: F) -> Result<T, GitError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Mirror) -> Result<T, MirrorError> + Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        let (began, span) = (Instant::now(), tracing::Span::current());
        let threads = inner.shared.threads.clone();
        let host = inner.host_of(operation);
        let slot = Arc::clone(&inner.mirror).lock_owned();
        let work = |mut slot: tokio::sync::OwnedMutexGuard<Option<Mirror>>| {
            move || {
                let _inside = span.enter();
                // Out of its place while it works: one that panics is not used again.
                let mut mirror = match slot.take() {
                    Some(mirror) => mirror,
                    None => inner.open_mirror()?,
                };
                let before = mirror.traffic().received;
                let done = work(&mut mirror);
                let received = mirror.traffic().received.saturating_sub(before);
                let bytes = mirror.disk_bytes();
                *slot = Some(mirror);
                drop(slot);
                inner.shared.disk.record_use(&inner.folder, &inner.mirror, bytes);
                let done = done.map_err(GitError::from);
                inner.metrics.record_git_operation(
                    &inner.source.key,
                    operation,
                    done.is_ok(),
                    began.elapsed(),
                    received,
                );
                done
            }
        };
        let done = async { threads.run(host, work(slot.await)).await };
        let failed = match tokio::time::timeout(OPERATION_TIMEOUT, done).await {
            Ok(Ok(done)) => return done,
            Ok(Err(GitThreadError::Panicked)) => GitError::Panicked,
            Ok(Err(GitThreadError::NoThread)) => GitError::NoThread,
            Err(_) => GitError::TimedOut,
        };
        self.inner.metrics.record_git_operation(&self.inner.source.key, operation, false, began.elapsed(), 0);
        Err(failed)
    }

    /// Brings in what a tip leads to, as [`Mirror::fetch`], and when the commit was made.
    ///
    /// # Errors
    /// What the mirror says, and that the commit is not tried any more.
    pub(in crate::controller) async fn fetch(&self, tip: ResolvedRef) -> Result<(FetchOutcome, Option<i64>), GitError> {
        let _reading = self.begin_trial(&TrialSubject::SourceCommit(tip.commit.clone())).await?;
        let fetched = self.with(MirrorOperation::Fetch, move |mirror| {
            let fetched = mirror.fetch(&tip)?;
            let committed = mirror.commit_time(&fetched.commit);
            Ok((fetched, committed))
        });
        fetched.await
    }

    /// The files of a commit, once there is memory to read and to plan it. What comes with them is to be kept until it is
    /// planned.
    ///
    /// # Errors
    /// As [`Mirror::tree`], and that the commit is not tried any more.
    pub(in crate::controller) async fn read_commit(
        &self,
        commit: &str,
        folder: &str,
    ) -> Result<(SourceTree, CommitReading), GitError> {
        let mut reading = self.begin_trial(&TrialSubject::SourceCommit(commit.to_owned())).await?;
        let (commit, folder) = (commit.to_owned(), folder.to_owned());
        if reading.permit.is_none() {
            let (commit, folder) = (commit.clone(), folder.clone());
            let measured = self.with(MirrorOperation::Read, move |mirror| {
                Ok(mirror.measure(&commit, &folder)?.memory_estimate(mirror.limits()))
            });
            reading.permit =
                Some(self.inner.shared.budget.reserve(&self.inner.source.key.namespace, measured.await?).await);
        }
        let tree = self.with(MirrorOperation::Read, move |mirror| mirror.tree(&commit, &folder)).await?;
        Ok((tree, reading))
    }

    /// Somebody asks for a commit again: where it is not tried any more, it is tried once more. True then.
    pub(in crate::controller) fn retry_trial(&self, commit: &str) -> bool {
        let key = &self.inner.source.key;
        self.inner.shared.trials.retry((&key.namespace, &key.name), &TrialSubject::SourceCommit(commit.to_owned()))
    }

    /// Marks a commit that is about to be read. One that may have ended the process before has all memory to itself.
    async fn begin_trial(&self, subject: &TrialSubject) -> Result<CommitReading, GitError> {
        let MirrorHandleState { source, shared, metrics, .. } = &*self.inner;
        match shared.trials.begin((&source.key.namespace, &source.key.name), subject).await {
            TrialDecision::Beside(trial) => Ok(CommitReading { permit: None, _trial: trial }),
            TrialDecision::Alone(trial) => {
                metrics.record_trial(TrialResult::Alone);
                // Nothing else is read or planned beside it.
                Ok(CommitReading {
                    permit: Some(shared.budget.reserve(&source.key.namespace, usize::MAX).await),
                    _trial: trial,
                })
            }
            TrialDecision::Refused(refusal) => {
                metrics.record_trial(TrialResult::Refused);
                Err(refusal.into())
            }
        }
    }
}

impl From<GitError> for PullRequestReadError {
    fn from(error: GitError) -> Self {
        match &error {
            GitError::Trial(_) => {
                Self::Faulty { reason: error.to_string(), help: "push another commit to the pull request".to_owned() }
            }
            GitError::Mirror(MirrorError::TooMany { .. }) => {
                Self::Faulty { reason: error.to_string(), help: error.help() }
            }
            GitError::Mirror(_)
            | GitError::Credentials { .. }
            | GitError::Panicked
            | GitError::NoThread
            | GitError::TimedOut => Self::Git(format!("{error}; {}", error.help())),
        }
    }
}

impl PullRequestReader for MirrorHandle {
    async fn forget_ref(&self, name: String) {
        let forgotten = self.with(MirrorOperation::Read, move |mirror| mirror.forget_ref(&name)).await;
        if let Err(error) = forgotten {
            tracing::debug!(%error, "what is known of a pull request that is closed could not be removed");
        }
    }

    async fn read_trees(&self, wanted: PullRequestRefs) -> Result<PullRequestTrees, PullRequestReadError> {
        let mut reading = self.begin_trial(&TrialSubject::PullRequestHead(wanted.head.clone())).await?;
        let folder = wanted.folder.clone();
        let fetched = self.with(MirrorOperation::Preview, move |mirror| {
            let sides = trees::fetch_sides(mirror, &wanted)?;
            let bytes = trees::measure_sides(mirror, &sides, &wanted.folder)?;
            Ok((sides, bytes))
        });
        let (sides, bytes) = fetched.await?;
        if reading.permit.is_none() {
            reading.permit = Some(self.inner.shared.budget.reserve(&self.inner.source.key.namespace, bytes).await);
        }
        let read = self.with(MirrorOperation::Read, move |mirror| trees::read_sides(mirror, sides, &folder));
        Ok(PullRequestTrees { reading: Some(Arc::new(reading)), ..read.await? })
    }
}

impl MirrorHandleState {
    /// The host that an operation talks to, where it talks to one.
    fn host_of(&self, operation: MirrorOperation) -> Option<HostKey> {
        let url = &self.source.url;
        match operation {
            MirrorOperation::List | MirrorOperation::Fetch | MirrorOperation::Preview => {
                (url.scheme() != UrlScheme::Local).then(|| (url.host().to_owned(), url.port()))
            }
            // Of what is here already.
            MirrorOperation::Read => None,
        }
    }

    fn open_mirror(&self) -> Result<Mirror, GitError> {
        let source = &self.source;
        // Read here and not once and for all: it is wiped from memory with the mirror.
        let credentials =
            source.git_credentials().map_err(|error| GitError::Credentials { message: error.to_string() })?;
        let mut remote = RemoteRepository::new(source.url.clone(), credentials);
        remote.cancel = self.cancel.clone();
        if let GitLogin::App(app) = &remote.credentials.login {
            let unusable = |error: ForgeError| GitError::Credentials { message: error.to_string() };
            let http =
                ForgeHttp::for_repository(&remote.credentials, source.secrets.forge.as_ref()).map_err(unusable)?;
            let http = http.with_observer(self.metrics.forge_observer());
            let tokens =
                BlockingTokenProvider::for_fetching(app, &source.url, &http, tokio::runtime::Handle::current());
            remote.tokens = Some(Arc::new(tokens.map_err(unusable)?));
        }
        Ok(Mirror::open(&self.folder, remote)?)
    }
}
