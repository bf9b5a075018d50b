//! A source's mirror, for tasks: its calls block, so each runs on a thread of its own, one after the other.

use super::git_threads::{GitThreadError, GitThreads, HostKey};
use super::metrics::{Metrics, MirrorOperation};
use crate::controller::report::preview::planner::PullRequestTrees;
use crate::controller::report::preview::trees::{self, PullRequestReader, PullRequestRefs};
use crate::controller::sources::file::ResolvedSource;
use stator_git::forge::ForgeHttp;
use stator_git::forge::github::app::BlockingTokenProvider;
use stator_git::source::credentials::GitLogin;
use stator_git::source::mirror::{Mirror, MirrorError, RemoteRepository};
use stator_git::source::url::UrlScheme;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
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
            Self::Credentials { .. } => None,
            Self::Panicked | Self::NoThread | Self::TimedOut => Some(Duration::ZERO),
        }
    }

    /// What to do about it.
    pub fn help(&self) -> String {
        match self {
            Self::Mirror(error) => error.help().into_owned(),
            Self::Credentials { .. } => "correct the secret that `secretRef` names".to_owned(),
            Self::Panicked => "report it, with the log; stator retries".to_owned(),
            Self::NoThread => "raise the limit of processes or tasks of the container; stator retries".to_owned(),
            Self::TimedOut => "stator retries; check whether the git host or the disk of `--data` is slow".to_owned(),
        }
    }
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
    threads: GitThreads,
    /// Whoever works with it holds the lock; waiting for it takes no thread.
    mirror: Arc<Mutex<Option<Mirror>>>,
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
        threads: GitThreads,
        cancel: CancellationToken,
    ) -> Self {
        let folder = data.join("mirrors").join(&source.key.namespace).join(format!("{}.git", source.key.name));
        let mirror = Arc::default();
        Self { inner: Arc::new(MirrorHandleState { source, folder, metrics, cancel, threads, mirror }) }
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
        let threads = inner.threads.clone();
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
                *slot = Some(mirror);
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
}

impl PullRequestReader for MirrorHandle {
    async fn read_trees(&self, wanted: PullRequestRefs) -> Result<PullRequestTrees, String> {
        let read = self.with(MirrorOperation::Preview, move |mirror| trees::read_trees(mirror, &wanted)).await;
        read.map_err(|error| format!("{error}; {}", error.help()))
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
            let told = |error: stator_git::forge::ForgeError| GitError::Credentials { message: error.to_string() };
            let http = ForgeHttp::for_repository(&remote.credentials, source.secrets.forge.as_ref()).map_err(told)?;
            let http = http.with_observer(self.metrics.forge_observer());
            let tokens =
                BlockingTokenProvider::for_fetching(app, &source.url, &http, tokio::runtime::Handle::current());
            remote.tokens = Some(Arc::new(tokens.map_err(told)?));
        }
        Ok(Mirror::open(&self.folder, remote)?)
    }
}
