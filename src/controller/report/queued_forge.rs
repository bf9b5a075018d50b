//! A git host's API, whose calls wait for their turn: so many to one host at a time, and so many in all.
//!
//! A host that hangs holds a call for as long as its deadline is, and its name may hang as well, which holds a thread of the
//! runtime's that plans are made on. Each source has a few calls at a time, and there may be a thousand sources.

use crate::controller::sources::resolved_source::ResolvedSource;
use crate::fair_turns::FairTurns;
use stator_git::forge::{
    AnyForge, CommitStatus, ForgeApi, ForgeError, ForgeLimits, NewPullRequest, PullRequest, PullRequestComment,
};
use url::Url;

/// Calls under way at a time: half of the threads that names are resolved on.
const MAX_CALLS: usize = 256;
/// Calls under way at a time to one host. GitHub takes a hundred of everybody together, and asks for fewer.
const MAX_CALLS_PER_HOST: usize = 16;

/// The turns of all git hosts' APIs. Clones are the same.
#[derive(Clone, Debug)]
pub(in crate::controller) struct ForgeTurns(FairTurns<String>);

impl Default for ForgeTurns {
    fn default() -> Self {
        Self(FairTurns::new(MAX_CALLS, MAX_CALLS_PER_HOST))
    }
}

/// An API behind its turns.
pub(in crate::controller) struct QueuedForge<F = AnyForge> {
    forge: F,
    turns: ForgeTurns,
    host: String,
}

impl<F> QueuedForge<F> {
    /// The API of a source's git host.
    pub(in crate::controller) fn new(forge: F, source: &ResolvedSource, turns: ForgeTurns) -> Self {
        let own = source.spec.forge.as_ref().and_then(|spec| Url::parse(spec.url.as_ref()?).ok());
        let host = match own.as_ref().and_then(|own| Some((own.host_str()?, own.port()))) {
            Some((host, Some(port))) => format!("{host}:{port}"),
            // As of a source that does not name it: both share what the host takes.
            Some((host, None)) => host.to_owned(),
            // Its API is there, too, or beside it; by whatever scheme and port it is cloned.
            None => source.url.host().to_owned(),
        };
        Self { forge, turns, host }
    }

    /// The host, and the port of its API where that is not the usual one.
    pub(in crate::controller) fn host(&self) -> &str {
        &self.host
    }

    /// A call, in its turn.
    async fn in_turn<T>(&self, call: impl Future<Output = T>) -> T {
        let _turn = self.turns.0.wait(self.host.clone(), 1).await;
        call.await
    }
}

impl<F: ForgeApi> ForgeApi for QueuedForge<F> {
    fn describe(&self) -> String {
        self.forge.describe()
    }

    fn limits(&self) -> ForgeLimits {
        self.forge.limits()
    }

    fn normalize_status(&self, commit: &str, status: &CommitStatus) -> CommitStatus {
        self.forge.normalize_status(commit, status)
    }

    async fn set_status(&self, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        self.in_turn(self.forge.set_status(commit, status)).await
    }

    async fn list_statuses(&self, commit: &str, prefix: &str) -> Result<Vec<CommitStatus>, ForgeError> {
        self.in_turn(self.forge.list_statuses(commit, prefix)).await
    }

    async fn list_open_pull_requests(&self, base: &str) -> Result<Vec<PullRequest>, ForgeError> {
        self.in_turn(self.forge.list_open_pull_requests(base)).await
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequest, ForgeError> {
        self.in_turn(self.forge.pull_request(number)).await
    }

    async fn list_own_comments(&self, number: u64) -> Result<Vec<PullRequestComment>, ForgeError> {
        self.in_turn(self.forge.list_own_comments(number)).await
    }

    async fn create_comment(&self, number: u64, body: &str) -> Result<PullRequestComment, ForgeError> {
        self.in_turn(self.forge.create_comment(number, body)).await
    }

    async fn update_comment(
        &self,
        number: u64,
        comment: &PullRequestComment,
        body: &str,
    ) -> Result<PullRequestComment, ForgeError> {
        self.in_turn(self.forge.update_comment(number, comment, body)).await
    }

    async fn create_pull_request(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        self.in_turn(self.forge.create_pull_request(new)).await
    }
}
