//! One client for every make of git host: it asks, reads every page, keeps what is stator's and sorts it. What only one
//! make has, its own file gives as a [`HostDialect`].

use super::ForgeHttp;
use super::api::{
    CommitStatus, ForgeApi, ForgeError, ForgeLimits, NewPullRequest, PullRequest, PullRequestComment, PullRequestState,
    Registered, StatusState,
};
use super::auth::ForgeAuth;
use super::client::{ForgeClient, ForgeRequest};
use super::endpoint::ForgeEndpoint;
use super::pages::PageStyle;
use super::response::ForgeResponse;
use super::status_text::{normalize_context, truncate_text};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::future::Future;
use tokio::sync::OnceCell;

/// How many pull requests are read at a time, where that takes further calls.
const MAX_PARALLEL_READS: usize = 4;

/// What the API of one make of git host has of its own: paths, names of fields, words, limits.
pub(super) trait HostDialect: Default + Send + Sync {
    /// What the make is called.
    const NAME: &'static str;
    /// How much it takes.
    const LIMITS: ForgeLimits;
    /// Its words for the states of a status.
    const STATES: StateWords;
    /// How its lists come in pages.
    const PAGES: PageStyle;
    /// As [`Self::PAGES`], of the list of pull requests.
    const PULL_REQUEST_PAGES: PageStyle = Self::PAGES;
    /// As [`Self::PAGES`], of the list of comments.
    const COMMENT_PAGES: PageStyle = Self::PAGES;
    /// The part of a path that pull requests are below.
    const PULL_REQUESTS: &'static str;
    /// What it calls them, in the plural.
    const PULL_REQUESTS_NAME: &'static str = "pull requests";

    /// A status in a list.
    type Status: DeserializeOwned + Send;
    /// A pull request.
    type PullRequest: DeserializeOwned + Send;
    /// A comment in a list.
    type Comment: DeserializeOwned + Send;

    /// The client with what every request to this make must have.
    fn prepare(client: ForgeClient) -> ForgeClient {
        client
    }

    /// The path of a repository below the API.
    fn repository_path(owner: String, name: String) -> Vec<String>;

    /// Who the login writes comments as.
    fn account(&self, at: &ForgeRepository) -> impl Future<Output = Result<CommentAccount, ForgeError>> + Send;

    /// The address behind a status as the host keeps it.
    fn status_url(_at: &ForgeRepository, _commit: &str, given: Option<&str>) -> Option<String> {
        given.map(str::to_owned)
    }

    /// The request that posts a status, which is within the limits.
    fn new_status<'a>(at: &'a ForgeRepository, commit: &str, status: &CommitStatus) -> ForgeRequest<'a>;

    /// Posts a status, which is within the limits.
    fn post_status(
        &self,
        at: &ForgeRepository,
        commit: &str,
        status: &CommitStatus,
    ) -> impl Future<Output = Result<(), ForgeError>> + Send {
        let request = Self::new_status(at, commit, status).resource(describe_commit(commit));
        async move { request.send().await.map(|_| ()) }
    }

    /// The request that lists the statuses of a commit.
    fn statuses<'a>(at: &'a ForgeRepository, commit: &str) -> ForgeRequest<'a>;

    /// A status of such a list; `None` for one that cannot be stator's.
    fn read_status(status: Self::Status) -> Option<CommitStatus>;

    /// The request that lists pull requests, restricted to open ones onto a branch.
    fn open_onto<'a>(list: ForgeRequest<'a>, base: &str) -> ForgeRequest<'a>;

    /// What a pull request of the host is.
    fn read_pull_request(
        &self,
        at: &ForgeRepository,
        pull: Self::PullRequest,
    ) -> impl Future<Output = Result<PullRequest, ForgeError>> + Send;

    /// The body that opens a pull request.
    fn new_pull_request(new: &NewPullRequest) -> Value;

    /// The request that lists the comments on the pull request of this number.
    fn comments<'a>(at: &'a ForgeRepository, number: &str) -> ForgeRequest<'a>;

    /// A comment of such a list; `None` for what is on a line of the diff, deleted, or not written by anybody.
    fn read_comment(comment: Self::Comment) -> Option<HostComment>;

    /// The request that writes a comment.
    fn new_comment<'a>(at: &'a ForgeRepository, number: &str, body: &str) -> ForgeRequest<'a>;

    /// The request that puts another text in the place of a comment's.
    ///
    /// # Errors
    /// When the comment's id is none that this client gave.
    fn edit_comment<'a>(at: &'a ForgeRepository, edit: &CommentEdit<'_>) -> Result<ForgeRequest<'a>, ForgeError>;

    /// The comment in the answer to one that was written.
    ///
    /// # Errors
    /// As [`ForgeResponse::json`].
    fn read_created(answer: &ForgeResponse) -> Result<PullRequestComment, ForgeError> {
        let read = Self::read_comment(answer.json()?).map(|read| read.comment);
        read.ok_or_else(|| answer.host.unreadable_error("the host's answer is not a comment"))
    }

    /// The comment in the answer to one that was edited.
    ///
    /// # Errors
    /// As [`ForgeResponse::json`].
    fn read_edited(answer: &ForgeResponse, _edit: &CommentEdit<'_>) -> Result<PullRequestComment, ForgeError> {
        Self::read_created(answer)
    }
}

/// A comment that is to have another text.
pub(super) struct CommentEdit<'a> {
    /// The number of its pull request.
    pub number: &'a str,
    /// Its id, as [`PullRequestComment::id`] has it.
    pub id: &'a str,
    /// The other text.
    pub body: &'a str,
}

/// Who comments are written as.
pub(super) enum CommentAccount {
    /// An account of this name.
    Named(String),
    /// The account that this header of every answer names.
    InHeader(&'static str),
}

/// A comment with what it is found by.
pub(super) struct HostComment {
    /// The host's number for it: hosts number comments as they come.
    pub number: u64,
    /// Grows with every edit, at hosts that list a comment once for each.
    pub version: u64,
    /// Who wrote it.
    pub author: Option<String>,
    pub comment: PullRequestComment,
}

impl HostComment {
    /// A comment that is known by its number.
    pub fn new(number: u64, author: Option<String>, body: String) -> Self {
        Self { number, version: 0, author, comment: PullRequestComment { id: number.to_string(), body } }
    }

    fn is_by(&self, account: &str) -> bool {
        self.author.as_ref().is_some_and(|author| author.to_lowercase() == account.to_lowercase())
    }
}

/// A host's words for the states of a status. Two states may share a word, which is then read as the first of them.
pub(super) struct StateWords {
    pub pending: &'static str,
    pub success: &'static str,
    pub failure: &'static str,
    pub error: &'static str,
    /// Words that others set, and what they mean.
    pub further: &'static [(&'static str, StatusState)],
    /// What any other word means: what a later version may add.
    pub unknown: StatusState,
}

impl StateWords {
    /// The host's word for a state.
    pub fn word(&self, state: StatusState) -> &'static str {
        match state {
            StatusState::Pending => self.pending,
            StatusState::Success => self.success,
            StatusState::Failure => self.failure,
            StatusState::Error => self.error,
        }
    }

    /// What a word of the host means.
    pub fn state(&self, word: &str) -> StatusState {
        let states = [StatusState::Pending, StatusState::Success, StatusState::Failure, StatusState::Error];
        let further = || self.further.iter().find(|(known, _)| *known == word).map(|(_, state)| *state);
        states.into_iter().find(|state| self.word(*state) == word).or_else(further).unwrap_or(self.unknown)
    }

    /// A status as the host lists it. An address of no characters is none.
    pub fn status(
        &self,
        context: String,
        word: &str,
        description: Option<String>,
        target_url: Option<String>,
    ) -> Option<CommitStatus> {
        Some(CommitStatus {
            context,
            state: self.state(word),
            description: description.unwrap_or_default(),
            target_url: target_url.filter(|url| !url.is_empty()),
        })
    }
}

/// A repository at its host's API.
pub(super) struct ForgeRepository {
    pub client: ForgeClient,
    pub owner: String,
    pub name: String,
    /// Its path below the API.
    path: Vec<String>,
}

impl ForgeRepository {
    /// A request below the repository.
    pub fn request(&self, method: Method, rest: &[&str]) -> ForgeRequest<'_> {
        self.client.request(method, self.path.iter().map(String::as_str).chain(rest.iter().copied()))
    }

    /// Reads what is below the repository.
    pub fn get(&self, rest: &[&str]) -> ForgeRequest<'_> {
        self.request(Method::GET, rest)
    }

    /// Adds something below the repository.
    pub fn post(&self, rest: &[&str], body: Value) -> ForgeRequest<'_> {
        self.request(Method::POST, rest).body(body)
    }

    /// The account of the login.
    pub async fn user<T: DeserializeOwned>(&self) -> Result<T, ForgeError> {
        self.client.get(["user"]).resource("the token's account").json().await
    }
}

/// A registration as one make of host takes it.
pub(super) struct HostRegistration {
    /// Its list, below the repository.
    pub path: &'static [&'static str],
    /// What is added to the list.
    pub body: Value,
    /// How an entry of the same address is changed; `None` where each is a new one.
    pub change: Option<EntryChange>,
}

/// How an entry of a list is changed in its place.
pub(super) struct EntryChange {
    pub method: Method,
    /// Which member of an entry has the address, as a JSON pointer, and the address.
    pub address: (&'static str, String),
    /// What names an entry below the list, as a JSON pointer.
    pub id: &'static str,
}

/// A repository at a git host of one make.
pub(super) struct RepositoryClient<H> {
    at: ForgeRepository,
    dialect: H,
    account: OnceCell<CommentAccount>,
}

impl<H: HostDialect> RepositoryClient<H> {
    pub(super) fn new(http: ForgeHttp, place: ForgeEndpoint, login: ForgeAuth) -> Self {
        let client = H::prepare(ForgeClient::new(http, place.api, login));
        let path = H::repository_path(place.owner.clone(), place.name.clone());
        let at = ForgeRepository { client, owner: place.owner, name: place.name, path };
        Self { at, dialect: H::default(), account: OnceCell::new() }
    }
}

impl<H: HostDialect> RepositoryClient<H> {
    /// Adds an entry to a list of the repository's settings, or changes the one of the same address.
    pub(super) async fn register(&self, what: &HostRegistration) -> Result<Registered, ForgeError> {
        let things = what.path.join("/");
        if let Some(EntryChange { method, address: (pointer, address), id }) = &what.change {
            let same = |entry: Value| {
                let is_same = entry.pointer(pointer).and_then(Value::as_str) == Some(address);
                let id = entry.pointer(id).filter(|_| is_same)?;
                Some(id.as_str().map_or_else(|| id.to_string(), str::to_owned))
            };
            let (same, _) = self.at.get(what.path).resource(&*things).pages(H::PAGES, &things, same).await?;
            if let Some(id) = same.first() {
                let entry = self.at.request(method.clone(), &[what.path, &[id.as_str()]].concat());
                entry.body(what.body.clone()).resource(&*things).send().await?;
                return Ok(Registered::Done);
            }
        }
        self.at.post(what.path, what.body.clone()).resource(&*things).send().await?;
        Ok(Registered::Done)
    }
}

impl<H: HostDialect> ForgeApi for RepositoryClient<H> {
    fn describe(&self) -> String {
        format!("{}, {}/{}", H::NAME, self.at.owner, self.at.name)
    }

    fn limits(&self) -> ForgeLimits {
        H::LIMITS
    }

    fn normalize_status(&self, commit: &str, status: &CommitStatus) -> CommitStatus {
        CommitStatus {
            context: normalize_context(&status.context),
            state: H::STATES.state(H::STATES.word(status.state)),
            description: truncate_text(&status.description, H::LIMITS.description),
            target_url: H::status_url(&self.at, commit, status.target_url.as_deref()),
        }
    }

    async fn set_status(&self, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        self.dialect.post_status(&self.at, commit, &self.normalize_status(commit, status)).await
    }

    async fn list_statuses(&self, commit: &str, prefix: &str) -> Result<Vec<CommitStatus>, ForgeError> {
        let request = H::statuses(&self.at, commit).resource(describe_commit(commit));
        let (found, _) = request.pages(H::PAGES, "statuses of a commit", H::read_status).await?;
        Ok(newest_statuses(found, prefix))
    }

    async fn list_open_pull_requests(&self, base: &str) -> Result<Vec<PullRequest>, ForgeError> {
        let request = H::open_onto(self.at.get(&[H::PULL_REQUESTS]), base).resource(H::PULL_REQUESTS_NAME);
        let things = format!("open {}", H::PULL_REQUESTS_NAME);
        let (pulls, _) = request.pages(H::PULL_REQUEST_PAGES, &things, Some).await?;
        let read = pulls.into_iter().map(|pull| self.dialect.read_pull_request(&self.at, pull));
        let mut found: Vec<PullRequest> = stream::iter(read).buffer_unordered(MAX_PARALLEL_READS).try_collect().await?;
        found.retain(|one| one.base == base && one.state == PullRequestState::Open);
        found.sort_by_key(|one| one.number);
        // A list whose end moves while its pages are read names some twice.
        found.dedup_by_key(|one| one.number);
        Ok(found)
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequest, ForgeError> {
        let request = self.at.get(&[H::PULL_REQUESTS, &number.to_string()]);
        self.dialect.read_pull_request(&self.at, request.resource(describe_pull_request(number)).json().await?).await
    }

    async fn list_own_comments(&self, number: u64) -> Result<Vec<PullRequestComment>, ForgeError> {
        let account = self.account.get_or_try_init(|| self.dialect.account(&self.at)).await?;
        let request = H::comments(&self.at, &number.to_string()).resource(describe_pull_request(number));
        let read = |one: H::Comment| {
            H::read_comment(one).filter(|read| match account {
                CommentAccount::Named(name) => read.is_by(name),
                CommentAccount::InHeader(_) => true,
            })
        };
        let things = format!("comments on a {}", H::PULL_REQUESTS_NAME.trim_end_matches('s'));
        let (mut found, answer) = request.pages(H::COMMENT_PAGES, &things, read).await?;
        if let CommentAccount::InHeader(header) = account {
            let name = answer.header(header).filter(|name| !name.is_empty()).ok_or_else(|| {
                let header = header.to_uppercase();
                answer.host.unauthorized_error(format!("it does not name the owner of the token (the header {header})"))
            })?;
            found.retain(|read| read.is_by(name));
        }
        found.sort_by_key(|read| (read.number, Reverse(read.version)));
        found.dedup_by_key(|read| read.number);
        Ok(found.into_iter().map(|read| read.comment).collect())
    }

    async fn create_comment(&self, number: u64, body: &str) -> Result<PullRequestComment, ForgeError> {
        let request = H::new_comment(&self.at, &number.to_string(), body);
        H::read_created(&request.resource(describe_pull_request(number)).send().await?)
    }

    async fn update_comment(
        &self,
        number: u64,
        comment: &PullRequestComment,
        body: &str,
    ) -> Result<PullRequestComment, ForgeError> {
        let edit = CommentEdit { number: &number.to_string(), id: &comment.id, body };
        let what = format!("comment {} on {}", comment.id, describe_pull_request(number));
        let answer = H::edit_comment(&self.at, &edit)?.resource(what).send().await?;
        // Gitea says nothing where the text was this one already.
        if answer.body_is_empty() {
            return Ok(PullRequestComment { id: comment.id.clone(), body: body.to_owned() });
        }
        H::read_edited(&answer, &edit)
    }

    async fn create_pull_request(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        let request = self.at.post(&[H::PULL_REQUESTS], H::new_pull_request(new)).resource("repository");
        self.dialect.read_pull_request(&self.at, request.json().await?).await
    }
}

/// The statuses whose context begins with `prefix`, the first of each context, sorted.
fn newest_statuses(found: Vec<CommitStatus>, prefix: &str) -> Vec<CommitStatus> {
    let prefix = prefix.to_lowercase();
    let mut by_context: BTreeMap<String, CommitStatus> = BTreeMap::new();
    for mut status in found {
        status.context = status.context.to_lowercase();
        if status.context.starts_with(&prefix) {
            by_context.entry(status.context.clone()).or_insert(status);
        }
    }
    by_context.into_values().collect()
}

/// A commit in a message.
pub(super) fn describe_commit(commit: &str) -> String {
    format!("commit {}", commit.get(..12).unwrap_or(commit))
}

/// A pull request in a message.
pub(super) fn describe_pull_request(number: u64) -> String {
    format!("pull request {number}")
}
