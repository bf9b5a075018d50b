//! Azure DevOps.

use super::api::{
    CommitStatus, ForgeApi, ForgeError, ForgeLimits, NewPullRequest, PullRequest, PullRequestComment, PullRequestState,
    StatusState,
};
use super::client::{ForgeAuth, ForgeClient, ForgeRequest};
use super::pages::{ListPage, NextPage, PageStyle};
use super::{ForgeHttp, status_text};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Mutex;
use tokio::sync::OnceCell;

/// The version of the API that is meant.
const API_VERSION: &str = "7.1";
const STATUS_PAGES: PageStyle = PageStyle { size: ("top", 100), next: NextPage::Skip("skip") };
const PULL_REQUEST_PAGES: PageStyle = PageStyle { size: ("$top", 100), next: NextPage::Skip("$skip") };
const LIMITS: ForgeLimits = ForgeLimits { description: 255, comment: 150_000, html: true };
/// How many pull requests' heads are remembered.
const MAX_REMEMBERED_HEADS: usize = 20_000;

/// A repository at Azure DevOps.
pub struct AzureDevOps {
    client: ForgeClient,
    project: String,
    name: String,
    account: OnceCell<String>,
    /// Which pull requests a commit is the head of, of those read lately: branch policies look at the statuses of pull
    /// requests and not at those of commits.
    heads: Mutex<BTreeMap<u64, String>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AzureStatus {
    state: AzureStatusState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target_url: Option<String>,
    context: AzureStatusContext,
}

#[derive(Serialize, Deserialize)]
struct AzureStatusContext {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    genre: Option<String>,
}

impl AzureStatusContext {
    /// The first part is the genre; the two are shown with a `/` between them.
    fn from_text(context: &str) -> Self {
        match context.split_once('/') {
            Some((genre, name)) if !genre.is_empty() && !name.is_empty() => {
                Self { name: name.to_owned(), genre: Some(genre.to_owned()) }
            }
            Some(_) | None => Self { name: context.to_owned(), genre: None },
        }
    }

    fn full_name(self) -> String {
        match self.genre.filter(|genre| !genre.is_empty()) {
            Some(genre) => format!("{genre}/{}", self.name),
            None => self.name,
        }
    }
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum AzureStatusState {
    Pending,
    Succeeded,
    Failed,
    Error,
    NotApplicable,
    /// Not set, or what a later version may add.
    #[serde(other)]
    NotSet,
}

impl From<StatusState> for AzureStatusState {
    fn from(state: StatusState) -> Self {
        match state {
            StatusState::Pending => Self::Pending,
            StatusState::Success => Self::Succeeded,
            StatusState::Failure => Self::Failed,
            StatusState::Error => Self::Error,
        }
    }
}

impl From<AzureStatusState> for StatusState {
    fn from(state: AzureStatusState) -> Self {
        match state {
            AzureStatusState::Pending | AzureStatusState::NotSet => Self::Pending,
            AzureStatusState::Succeeded | AzureStatusState::NotApplicable => Self::Success,
            AzureStatusState::Failed => Self::Failure,
            AzureStatusState::Error => Self::Error,
        }
    }
}

#[derive(Deserialize)]
struct AzureList<T> {
    value: Vec<T>,
}

impl<T: DeserializeOwned> ListPage for AzureList<T> {
    type Item = T;

    fn into_items(self) -> Vec<T> {
        self.value
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AzurePullRequest {
    pull_request_id: u64,
    title: String,
    status: AzurePullRequestStatus,
    source_ref_name: String,
    target_ref_name: String,
    /// Missing while Azure has not looked at a new one yet.
    last_merge_source_commit: Option<AzureCommit>,
    fork_source: Option<serde::de::IgnoredAny>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum AzurePullRequestStatus {
    Active,
    Completed,
    #[serde(other)]
    Abandoned,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AzureCommit {
    commit_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AzureThread {
    id: u64,
    #[serde(default)]
    comments: Vec<AzureComment>,
    #[serde(default)]
    is_deleted: bool,
    /// Present for a thread on a line of the diff.
    thread_context: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AzureComment {
    id: u64,
    #[serde(default)]
    content: String,
    author: Option<AzureUser>,
    #[serde(default)]
    comment_type: String,
    #[serde(default)]
    is_deleted: bool,
}

#[derive(Deserialize)]
struct AzureUser {
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AzureConnectionData {
    authenticated_user: AzureUser,
}

#[derive(Serialize)]
struct NewAzureThread<'a> {
    comments: [NewAzureComment<'a>; 1],
    /// Closed from the start, so that it never keeps a pull request from being completed.
    status: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewAzureComment<'a> {
    parent_comment_id: u64,
    content: &'a str,
    comment_type: &'static str,
}

#[derive(Serialize)]
struct AzureCommentUpdate<'a> {
    content: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewAzurePullRequest<'a> {
    title: &'a str,
    description: &'a str,
    source_ref_name: String,
    target_ref_name: String,
}

/// `refs/heads/main` as `main`.
fn branch_name(name: &str) -> String {
    name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()
}

impl AzureDevOps {
    pub(super) fn new(http: ForgeHttp, place: super::endpoint::ForgeEndpoint, login: ForgeAuth) -> Self {
        let client = ForgeClient::new(http, place.api, login);
        Self { client, project: place.owner, name: place.name, account: OnceCell::new(), heads: Mutex::default() }
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [[&self.project, "_apis", "git", "repositories", &self.name].as_slice(), rest].concat()
    }

    fn get<'a>(&'a self, rest: &[&'a str]) -> ForgeRequest<'a> {
        self.client.get(self.path(rest)).query("api-version", API_VERSION)
    }

    fn post<'a>(&'a self, rest: &[&'a str]) -> ForgeRequest<'a> {
        self.client.post(self.path(rest)).query("api-version", API_VERSION)
    }

    async fn account_id(&self) -> Result<&str, ForgeError> {
        let asked = async {
            // Never left its preview, and is what Microsoft's own clients ask.
            let request = self.client.get(["_apis", "connectionData"]).query("api-version", "7.1-preview");
            Ok(request.resource("the token's account").json::<AzureConnectionData>().await?.authenticated_user.id)
        };
        Ok(self.account.get_or_try_init(|| asked).await?.as_str())
    }

    fn read_pull_request(&self, pull: AzurePullRequest) -> PullRequest {
        let number = pull.pull_request_id;
        let fork = pull.fork_source.is_some();
        let mut url = self.client.api().clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend([&self.project, "_git", &self.name, "pullrequest", &number.to_string()]);
        }
        let head = pull.last_merge_source_commit.map(|commit| commit.commit_id).unwrap_or_default();
        let state = match pull.status {
            AzurePullRequestStatus::Active => PullRequestState::Open,
            AzurePullRequestStatus::Completed => PullRequestState::Merged,
            AzurePullRequestStatus::Abandoned => PullRequestState::Closed,
        };
        if let Ok(mut heads) = self.heads.lock() {
            match state {
                PullRequestState::Open if heads.len() < MAX_REMEMBERED_HEADS => {
                    drop(heads.insert(number, head.clone()))
                }
                PullRequestState::Open | PullRequestState::Merged | PullRequestState::Closed => {
                    drop(heads.remove(&number));
                }
            }
        }
        PullRequest {
            number,
            title: pull.title,
            state,
            base: branch_name(&pull.target_ref_name),
            head,
            // Azure has a ref of the merge, and none of the head.
            fetch: None,
            branch: (!fork).then(|| branch_name(&pull.source_ref_name)),
            fork,
            url: url.into(),
        }
    }

    fn pull_requests_with_head(&self, commit: &str) -> Vec<u64> {
        let Ok(heads) = self.heads.lock() else { return Vec::new() };
        heads.iter().filter(|(_, head)| *head == commit).map(|(number, _)| *number).collect()
    }
}

impl ForgeApi for AzureDevOps {
    fn describe(&self) -> String {
        format!("Azure DevOps, {}/{}", self.project, self.name)
    }

    fn limits(&self) -> ForgeLimits {
        LIMITS
    }

    fn normalize_status(&self, _commit: &str, status: &CommitStatus) -> CommitStatus {
        CommitStatus {
            context: status_text::normalize_context(&status.context),
            state: status.state,
            description: status_text::truncate_text(&status.description, LIMITS.description),
            target_url: status.target_url.clone(),
        }
    }

    async fn set_status(&self, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        let shown = self.normalize_status(commit, status);
        let body = AzureStatus {
            state: shown.state.into(),
            description: Some(shown.description),
            target_url: shown.target_url,
            context: AzureStatusContext::from_text(&shown.context),
        };
        let what = super::describe_commit(commit);
        self.post(&["commits", commit, "statuses"]).body(&body).resource(what).send().await?;
        for number in self.pull_requests_with_head(commit) {
            let id = number.to_string();
            let request = self.post(&["pullRequests", &id, "statuses"]).body(&body);
            request.resource(super::describe_pull_request(number)).send().await?;
        }
        Ok(())
    }

    async fn list_statuses(&self, commit: &str, prefix: &str) -> Result<Vec<CommitStatus>, ForgeError> {
        let request = self.get(&["commits", commit, "statuses"]).query("latestOnly", true);
        let read = |one: AzureStatus| {
            Some(CommitStatus {
                context: one.context.full_name(),
                state: one.state.into(),
                description: one.description.unwrap_or_default(),
                target_url: one.target_url.filter(|url| !url.is_empty()),
            })
        };
        let request = request.resource(super::describe_commit(commit));
        let found = request.pages::<AzureList<_>, _>(STATUS_PAGES, "statuses of a commit", read).await?;
        Ok(super::newest_statuses(found, prefix))
    }

    async fn list_open_pull_requests(&self, base: &str) -> Result<Vec<PullRequest>, ForgeError> {
        let request = self.get(&["pullrequests"]).query("searchCriteria.status", "active");
        let request = request.query("searchCriteria.targetRefName", format!("refs/heads/{base}"));
        let read = |pull: AzurePullRequest| Some(self.read_pull_request(pull));
        let request = request.resource("pull requests");
        let found = request.pages::<AzureList<_>, _>(PULL_REQUEST_PAGES, "open pull requests", read).await?;
        Ok(super::open_by_number(found, base))
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequest, ForgeError> {
        let id = number.to_string();
        Ok(self.read_pull_request(
            self.get(&["pullrequests", &id]).resource(super::describe_pull_request(number)).json().await?,
        ))
    }

    async fn list_own_comments(&self, number: u64) -> Result<Vec<PullRequestComment>, ForgeError> {
        let account = self.account_id().await?.to_lowercase();
        let id = number.to_string();
        // All at once: this list has no pages.
        let request = self.get(&["pullRequests", &id, "threads"]).resource(super::describe_pull_request(number));
        let threads = request.json::<AzureList<AzureThread>>().await?.value;
        let mut found: Vec<(u64, PullRequestComment)> = Vec::new();
        for thread in threads.into_iter().filter(|thread| !thread.is_deleted && thread.thread_context.is_none()) {
            // What begins a thread; answers to others are not stator's to write.
            let Some(note) = thread.comments.into_iter().next() else { continue };
            let own = note.author.as_ref().is_some_and(|user| user.id.to_lowercase() == account);
            if own && !note.is_deleted && note.comment_type != "system" {
                found.push((
                    thread.id,
                    PullRequestComment { id: format!("{}/{}", thread.id, note.id), body: note.content },
                ));
            }
        }
        Ok(super::oldest_first(found))
    }

    async fn create_comment(&self, number: u64, body: &str) -> Result<PullRequestComment, ForgeError> {
        let id = number.to_string();
        let new = NewAzureThread {
            comments: [NewAzureComment { parent_comment_id: 0, content: body, comment_type: "text" }],
            status: "closed",
        };
        let request =
            self.post(&["pullRequests", &id, "threads"]).body(&new).resource(super::describe_pull_request(number));
        let thread: AzureThread = request.json().await?;
        let note = thread.comments.into_iter().next();
        let note = note.ok_or_else(|| self.client.unreadable_error("the new thread has no comment"))?;
        Ok(PullRequestComment { id: format!("{}/{}", thread.id, note.id), body: note.content })
    }

    async fn update_comment(
        &self,
        number: u64,
        comment: &PullRequestComment,
        body: &str,
    ) -> Result<PullRequestComment, ForgeError> {
        let parts = comment.id.split_once('/');
        let (thread, id) = parts.ok_or_else(|| self.client.unreadable_error("the comment's id names no thread"))?;
        let number_text = number.to_string();
        let path = self.path(&["pullRequests", &number_text, "threads", thread, "comments", id]);
        let request =
            self.client.patch(path).query("api-version", API_VERSION).body(&AzureCommentUpdate { content: body });
        let what = format!("comment {} on {}", comment.id, super::describe_pull_request(number));
        let note: AzureComment = request.resource(what).json().await?;
        Ok(PullRequestComment { id: comment.id.clone(), body: note.content })
    }

    async fn create_pull_request(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        let body = NewAzurePullRequest {
            title: &new.title,
            description: &new.body,
            source_ref_name: format!("refs/heads/{}", new.head),
            target_ref_name: format!("refs/heads/{}", new.base),
        };
        Ok(self.read_pull_request(self.post(&["pullrequests"]).body(&body).resource("repository").json().await?))
    }
}
