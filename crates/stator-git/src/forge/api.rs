//! What stator asks of a git host, in one shape for all of them.

use secrecy::SecretString;
use std::future::Future;
use std::time::Duration;

/// A git host's API, for one repository. Every call has a deadline of its own; none of them retries, as only the caller
/// knows what may wait and what has been overtaken: see [`ForgeError::retry_advice`].
pub trait ForgeApi: Send + Sync {
    /// What to call it in one line: `GitHub, team/models`.
    fn describe(&self) -> String;

    /// How much it takes.
    fn limits(&self) -> ForgeLimits;

    /// A status as the host gives it back, for comparing with [`ForgeApi::list_statuses`]: its context and description cut to
    /// the limits, and its state where the host has no other word for it.
    fn normalize_status(&self, commit: &str, status: &CommitStatus) -> CommitStatus {
        let _ = commit;
        status.clone()
    }

    /// Sets a commit's status. Hosts that keep every one posted show the newest of a context.
    fn set_status(&self, commit: &str, status: &CommitStatus) -> impl Future<Output = Result<(), ForgeError>> + Send;

    /// The newest status of every context of a commit that begins with `prefix`, sorted by context.
    fn list_statuses(
        &self,
        commit: &str,
        prefix: &str,
    ) -> impl Future<Output = Result<Vec<CommitStatus>, ForgeError>> + Send;

    /// All open pull requests onto a branch, whatever their number, sorted by number.
    fn list_open_pull_requests(&self, base: &str) -> impl Future<Output = Result<Vec<PullRequest>, ForgeError>> + Send;

    /// One pull request.
    fn pull_request(&self, number: u64) -> impl Future<Output = Result<PullRequest, ForgeError>> + Send;

    /// The comments on a pull request that stator's own account wrote, oldest first. Others' are left out: anybody can
    /// write a marker.
    fn list_own_comments(
        &self,
        number: u64,
    ) -> impl Future<Output = Result<Vec<PullRequestComment>, ForgeError>> + Send;

    /// Writes a comment.
    fn create_comment(
        &self,
        number: u64,
        body: &str,
    ) -> impl Future<Output = Result<PullRequestComment, ForgeError>> + Send;

    /// Puts another text in the place of a comment's.
    fn update_comment(
        &self,
        number: u64,
        comment: &PullRequestComment,
        body: &str,
    ) -> impl Future<Output = Result<PullRequestComment, ForgeError>> + Send;

    /// Opens a pull request between two branches of the repository.
    fn create_pull_request(&self, new: &NewPullRequest)
    -> impl Future<Output = Result<PullRequest, ForgeError>> + Send;
}

/// How much a host takes. What is longer is cut before it is sent, with a mark that it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForgeLimits {
    /// Characters of a status' description.
    pub description: usize,
    /// Bytes, and UTF-16 units, of a comment: neither may be more.
    pub comment: usize,
    /// Whether comments keep HTML: hidden markers and folded parts.
    pub html: bool,
    /// At most so many calls that write are made in so long.
    pub writes: &'static [(usize, Duration)],
}

impl ForgeLimits {
    /// Of a host that documents no smaller limit. GitLab takes 300 notes of a user in a minute.
    pub(super) const WRITES: &'static [(usize, Duration)] = &[(240, Duration::from_secs(60))];
    /// GitHub lets 80 requests a minute and 500 an hour make content, and says so in no header; who goes on is banned
    /// ("secondary rate limits" in its REST documentation). Bitbucket Cloud takes 1,000 requests an hour, reads included.
    pub(super) const FEW_WRITES: &'static [(usize, Duration)] =
        &[(60, Duration::from_secs(60)), (450, Duration::from_secs(3_600))];
}

/// What a commit is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum StatusState {
    /// Under way.
    Pending,
    /// Applied and healthy, overtaken, or nothing to do.
    Success,
    /// The commit is at fault: an intent is wrong, or what it asks for does not become healthy.
    Failure,
    /// stator, the cluster or the network is at fault.
    Error,
}

/// A commit's status in one context.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitStatus {
    /// What it is about: `stator/prod`, `stator/prod/llama-3-70b`, `stator/preview/prod`.
    pub context: String,
    /// The verdict.
    pub state: StatusState,
    /// One sentence. A host's limit is kept by its client.
    pub description: String,
    /// Where there is more: absolute, `http` or `https`.
    pub target_url: Option<String>,
}

/// A pull request, or merge request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequest {
    /// Its number in its repository.
    pub number: u64,
    /// Its title, as somebody wrote it.
    pub title: String,
    /// Where it stands.
    pub state: PullRequestState,
    /// The branch it is to go into.
    pub base: String,
    /// The newest commit of what it brings.
    pub head: String,
    /// The ref to fetch it by, in the base repository: `refs/pull/7/head`. `None` where the host has none, and the head
    /// is fetched by its branch.
    pub fetch: Option<String>,
    /// The branch that it comes from, where it is one of this repository.
    pub branch: Option<String>,
    /// Whether it comes from another repository, or from one that is gone.
    pub fork: bool,
    /// Its page.
    pub url: String,
}

/// Where a pull request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullRequestState {
    /// Open.
    Open,
    /// Merged.
    Merged,
    /// Closed without a merge.
    Closed,
}

/// A comment on a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequestComment {
    /// The host's name for it, with what else an edit needs (a thread, a version).
    pub id: String,
    /// Its text.
    pub body: String,
}

/// A pull request to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPullRequest {
    /// Its title.
    pub title: String,
    /// Its text.
    pub body: String,
    /// The branch it is to go into.
    pub base: String,
    /// The branch it comes from.
    pub head: String,
}

/// What a repository needs at its host before a source follows it.
#[derive(Clone, Debug)]
pub enum Registration {
    /// A webhook for pushes and pull requests.
    Webhook {
        /// Where the host calls.
        url: String,
        /// What it signs its calls with.
        secret: SecretString,
    },
    /// A key that may read the repository over SSH.
    DeployKey {
        /// What people see of it.
        title: String,
        /// The public half, as OpenSSH writes it.
        public: String,
    },
}

/// How a registration ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    /// It is there. A webhook of the same address has been changed, a key is always a new one.
    Done,
    /// stator cannot register it at a host of this type.
    Unsupported,
}

/// Why a host did not do what it was asked. Answers are quoted in part and without credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgeError {
    /// The source says something that leads to no API.
    #[error("`{field}` {message}")]
    Misconfigured {
        /// The field at fault: `spec.forge.url`, or the key of a secret.
        field: &'static str,
        /// What is wrong with it; goes on after the field.
        message: String,
        /// What to write in its place.
        fix: &'static str,
    },
    /// The token is missing, wrong or expired.
    #[error("{host} does not accept the token: {message}")]
    Unauthorized {
        /// Who answered.
        host: String,
        /// What it said.
        message: String,
    },
    /// The token may not do this.
    #[error("{host} forbids it: {message}")]
    Forbidden {
        /// Who answered.
        host: String,
        /// What it said.
        message: String,
    },
    /// There is no such repository, commit or pull request, or the token may not see it.
    #[error("{host} has no {what}, or the token may not see it")]
    NotFound {
        /// Who answered.
        host: String,
        /// What was asked for.
        what: String,
    },
    /// The repository or the conversation takes no writes any more: archived, locked, disabled.
    #[error("{host} accepts no writes: {message}")]
    Closed {
        /// Who answered.
        host: String,
        /// What it said.
        message: String,
    },
    /// The host takes no further status of this context on this commit (GitHub: 1,000).
    #[error("{host} accepts no more statuses of this context on this commit")]
    Full {
        /// Who answered.
        host: String,
    },
    /// Too many calls.
    #[error("{host} limits the rate of calls")]
    RateLimited {
        /// Who answered.
        host: String,
        /// How long it says to wait; `None` where it does not say.
        after: Option<Duration>,
    },
    /// Something else was written meanwhile.
    #[error("{host} reports a conflicting change: {message}")]
    Conflict {
        /// Who answered.
        host: String,
        /// What it said.
        message: String,
    },
    /// The host refuses the request as it is.
    #[error("{host} refuses the request: {message}")]
    Invalid {
        /// Who answered.
        host: String,
        /// What it said.
        message: String,
    },
    /// The host is in trouble, cannot be reached, or did not answer in time.
    #[error("{host} cannot be reached: {message}")]
    Unavailable {
        /// Who was asked.
        host: String,
        /// What happened.
        message: String,
        /// How long it says to wait, if it does.
        after: Option<Duration>,
    },
    /// The answer is none that the host documents, or larger than is read.
    #[error("{host} sent a response that stator does not understand: {message}")]
    Unreadable {
        /// Who answered.
        host: String,
        /// What was wrong with it.
        message: String,
    },
}

/// What to do after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAdvice {
    /// Again, after at least this long, with jitter.
    After(Duration),
    /// Again, with growing pauses.
    Soon,
    /// Not before something changes: the secret, the repository, the text.
    Never,
}

impl ForgeError {
    /// Whether asking again may help.
    pub fn retry_advice(&self) -> RetryAdvice {
        match self {
            Self::RateLimited { after: Some(after), .. } | Self::Unavailable { after: Some(after), .. } => {
                RetryAdvice::After(*after)
            }
            // GitHub's secondary limits come without a number; it asks for at least a minute.
            Self::RateLimited { after: None, .. } => RetryAdvice::After(Duration::from_secs(60)),
            Self::Unavailable { after: None, .. } | Self::Conflict { .. } | Self::NotFound { .. } => RetryAdvice::Soon,
            Self::Misconfigured { .. }
            | Self::Unauthorized { .. }
            | Self::Forbidden { .. }
            | Self::Closed { .. }
            | Self::Full { .. }
            | Self::Invalid { .. }
            | Self::Unreadable { .. } => RetryAdvice::Never,
        }
    }

    /// What a user can do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Misconfigured { fix, .. } => fix,
            Self::Unauthorized { .. } => {
                "put a valid token into the secret that `spec.forge.secretRef` names, key `token`"
            }
            Self::Forbidden { .. } => {
                "give the token the right to write commit statuses and comments of this repository"
            }
            Self::NotFound { .. } => {
                "compare `spec.url` and `spec.forge.url` with the repository, and let the token read it"
            }
            Self::Closed { .. } => "unarchive or unlock it, or suspend the source",
            Self::Full { .. } => "push another commit: this one keeps its status",
            Self::RateLimited { .. } => "no action needed: stator waits; a GitHub App has its own rate limit",
            Self::Conflict { .. } => "no action needed: stator reads it again",
            Self::Invalid { .. } => "compare the host's version with the supported ones in docs/reference/forges.md",
            Self::Unavailable { .. } => "compare `spec.forge.url` with the host's address; stator retries",
            Self::Unreadable { .. } => "check that `spec.forge.type` is the type of the git host",
        }
    }
}
