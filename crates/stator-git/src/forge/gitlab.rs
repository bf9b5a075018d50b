//! GitLab.
//!
//! A status is a job there, in a pipeline, and goes through a state machine: what is a plain write elsewhere can be refused
//! for being so already. See `app/services/ci/create_commit_status_service.rb` in GitLab.

use super::api::{
    CommitStatus, ForgeApi, ForgeError, ForgeLimits, NewPullRequest, PullRequest, PullRequestComment, PullRequestState,
    StatusState,
};
use super::client::{ForgeAuth, ForgeClient, ForgeResponse};
use super::pages::{NextPage, PageStyle};
use super::{ForgeHttp, status_text};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

/// A hundred of a page are the most that GitLab gives.
const PAGES: PageStyle = PageStyle { size: ("per_page", 100), next: NextPage::NumberedWithHeader };
/// Comments may have a million characters each, so fewer of them are asked for at once.
const NOTE_PAGES: PageStyle = PageStyle { size: ("per_page", 20), ..PAGES };
const LIMITS: ForgeLimits = ForgeLimits { description: 255, comment: 1_000_000, html: true };
/// The longest address behind a status.
const MAX_TARGET_URL_LENGTH: usize = 255;

/// A project at GitLab.
pub struct Gitlab {
    client: ForgeClient,
    /// With all groups; one part of a path, escaped.
    project: String,
    account: OnceCell<String>,
}

#[derive(Serialize)]
struct NewGitlabStatus<'a> {
    state: GitlabStatusState,
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_url: Option<&'a str>,
    /// The branch of the pipeline; only where GitLab cannot find it by itself.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    branch: Option<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum GitlabStatusState {
    Pending,
    Running,
    Success,
    Failed,
    Canceled,
    Skipped,
    /// What a later version may add.
    #[serde(other)]
    Unknown,
}

impl From<StatusState> for GitlabStatusState {
    fn from(state: StatusState) -> Self {
        match state {
            StatusState::Pending => Self::Running,
            StatusState::Success => Self::Success,
            // GitLab has one word for both; the description says whose fault it is.
            StatusState::Failure | StatusState::Error => Self::Failed,
        }
    }
}

impl From<GitlabStatusState> for StatusState {
    fn from(state: GitlabStatusState) -> Self {
        match state {
            GitlabStatusState::Pending | GitlabStatusState::Running => Self::Pending,
            GitlabStatusState::Success | GitlabStatusState::Skipped => Self::Success,
            GitlabStatusState::Failed => Self::Failure,
            GitlabStatusState::Canceled | GitlabStatusState::Unknown => Self::Error,
        }
    }
}

#[derive(Deserialize)]
struct GitlabStatus {
    status: GitlabStatusState,
    name: String,
    description: Option<String>,
    target_url: Option<String>,
}

#[derive(Deserialize)]
struct GitlabMergeRequest {
    iid: u64,
    title: String,
    state: GitlabMergeRequestState,
    target_branch: String,
    source_branch: String,
    /// Null while GitLab has not looked at a new one yet.
    sha: Option<String>,
    /// Null where the fork is gone.
    source_project_id: Option<u64>,
    target_project_id: u64,
    web_url: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum GitlabMergeRequestState {
    Opened,
    Merged,
    /// While it is merged.
    Locked,
    #[serde(other)]
    Closed,
}

#[derive(Deserialize)]
struct GitlabNote {
    id: u64,
    #[serde(default)]
    body: String,
    #[serde(default)]
    system: bool,
    author: Option<GitlabUser>,
}

#[derive(Deserialize)]
struct GitlabUser {
    username: String,
}

#[derive(Serialize)]
struct GitlabNoteBody<'a> {
    body: &'a str,
}

#[derive(Serialize)]
struct NewGitlabMergeRequest<'a> {
    title: &'a str,
    description: &'a str,
    target_branch: &'a str,
    source_branch: &'a str,
}

impl From<GitlabMergeRequest> for PullRequest {
    fn from(merge: GitlabMergeRequest) -> Self {
        let fork = merge.source_project_id != Some(merge.target_project_id);
        Self {
            number: merge.iid,
            title: merge.title,
            state: match merge.state {
                GitlabMergeRequestState::Opened | GitlabMergeRequestState::Locked => PullRequestState::Open,
                GitlabMergeRequestState::Merged => PullRequestState::Merged,
                GitlabMergeRequestState::Closed => PullRequestState::Closed,
            },
            base: merge.target_branch,
            head: merge.sha.unwrap_or_default(),
            fetch: Some(format!("refs/merge-requests/{}/head", merge.iid)),
            branch: (!fork).then_some(merge.source_branch),
            fork,
            url: merge.web_url,
        }
    }
}

impl From<GitlabNote> for PullRequestComment {
    fn from(note: GitlabNote) -> Self {
        Self { id: note.id.to_string(), body: note.body }
    }
}

impl Gitlab {
    pub(super) fn new(http: ForgeHttp, place: super::endpoint::ForgeEndpoint, login: ForgeAuth) -> Self {
        let client = ForgeClient::new(http, place.api, login);
        Self { client, project: format!("{}/{}", place.owner, place.name), account: OnceCell::new() }
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [["projects", self.project.as_str()].as_slice(), rest].concat()
    }

    async fn account_username(&self) -> Result<&str, ForgeError> {
        let asked = async {
            let user: GitlabUser = self.client.get(["user"]).resource("the token's account").json().await?;
            Ok(user.username)
        };
        Ok(self.account.get_or_try_init(|| asked).await?.as_str())
    }

    async fn post_status(
        &self,
        commit: &str,
        status: &CommitStatus,
        branch: Option<&str>,
    ) -> Result<ForgeResponse, ForgeError> {
        let body = NewGitlabStatus {
            state: status.state.into(),
            name: &status.context,
            description: &status.description,
            target_url: status.target_url.as_deref(),
            branch,
        };
        self.client
            .post(self.path(&["statuses", commit]))
            .body(&body)
            .resource(super::describe_commit(commit))
            .send_unchecked()
            .await
    }

    /// The branch of the merge request that brings a commit, for a commit that no branch of the project contains.
    async fn merge_request_branch(&self, commit: &str) -> Result<Option<String>, ForgeError> {
        let path = self.path(&["repository", "commits", commit, "merge_requests"]);
        let merges: Vec<GitlabMergeRequest> =
            self.client.get(path).resource(super::describe_commit(commit)).json().await?;
        let open = merges
            .into_iter()
            .find(|merge| matches!(merge.state, GitlabMergeRequestState::Opened | GitlabMergeRequestState::Locked));
        Ok(open.map(|merge| merge.source_branch))
    }

    /// The newest statuses of a commit, of one context or of all.
    async fn list_commit_statuses(&self, commit: &str, name: Option<&str>) -> Result<Vec<CommitStatus>, ForgeError> {
        let mut request = self.client.get(self.path(&["repository", "commits", commit, "statuses"]));
        if let Some(name) = name {
            request = request.query("name", name);
        }
        let read = |one: GitlabStatus| {
            Some(CommitStatus {
                context: one.name,
                state: one.status.into(),
                description: one.description.unwrap_or_default(),
                target_url: one.target_url.filter(|url| !url.is_empty()),
            })
        };
        let request = request.resource(super::describe_commit(commit));
        request.pages::<Vec<_>, _>(PAGES, "statuses of a commit", read).await
    }
}

impl ForgeApi for Gitlab {
    fn describe(&self) -> String {
        format!("GitLab, {}", self.project)
    }

    fn limits(&self) -> ForgeLimits {
        LIMITS
    }

    fn normalize_status(&self, _commit: &str, status: &CommitStatus) -> CommitStatus {
        CommitStatus {
            context: status_text::normalize_context(&status.context),
            state: GitlabStatusState::from(status.state).into(),
            description: status_text::truncate_text(&status.description, LIMITS.description),
            // A part of an address leads nowhere.
            target_url: status.target_url.clone().filter(|url| url.encode_utf16().count() <= MAX_TARGET_URL_LENGTH),
        }
    }

    async fn set_status(&self, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        let shown = self.normalize_status(commit, status);
        let mut answer = self.post_status(commit, &shown, None).await?;
        if answer.status == StatusCode::NOT_FOUND && answer.message().contains("References for commit") {
            // The commit of a fork's merge request is on no branch here.
            if let Some(branch) = self.merge_request_branch(commit).await? {
                answer = self.post_status(commit, &shown, Some(&branch)).await?;
            }
        }
        if answer.status == StatusCode::BAD_REQUEST && answer.message().contains("Cannot transition status") {
            // Before merge request 198626 of GitLab, saying what is said already is refused. That is no fault, if it is so.
            let there = self.list_commit_statuses(commit, Some(&shown.context)).await?;
            if there.iter().any(|one| one.context == shown.context && one.state == shown.state) {
                return Ok(());
            }
        }
        answer.check_status().map(|_| ())
    }

    async fn list_statuses(&self, commit: &str, prefix: &str) -> Result<Vec<CommitStatus>, ForgeError> {
        Ok(super::newest_statuses(self.list_commit_statuses(commit, None).await?, prefix))
    }

    async fn list_open_pull_requests(&self, base: &str) -> Result<Vec<PullRequest>, ForgeError> {
        let request = self.client.get(self.path(&["merge_requests"]));
        let request = request.query("state", "opened").query("target_branch", base);
        let request = request.query("order_by", "created_at").query("sort", "asc").resource("merge requests");
        let read = |merge: GitlabMergeRequest| Some(PullRequest::from(merge));
        let found = request.pages::<Vec<_>, _>(PAGES, "open merge requests", read).await?;
        Ok(super::open_by_number(found, base))
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequest, ForgeError> {
        let id = number.to_string();
        let request =
            self.client.get(self.path(&["merge_requests", &id])).resource(super::describe_pull_request(number));
        Ok(request.json::<GitlabMergeRequest>().await?.into())
    }

    async fn list_own_comments(&self, number: u64) -> Result<Vec<PullRequestComment>, ForgeError> {
        let account = self.account_username().await?.to_lowercase();
        let id = number.to_string();
        let request = self.client.get(self.path(&["merge_requests", &id, "notes"]));
        // Newest first, unless asked otherwise.
        let request = request.query("sort", "asc").query("order_by", "created_at");
        let request = request.resource(super::describe_pull_request(number));
        let own = |note: GitlabNote| {
            let by_us = note.author.as_ref().is_some_and(|user| user.username.to_lowercase() == account);
            (by_us && !note.system).then(|| (note.id, note.into()))
        };
        Ok(super::oldest_first(request.pages::<Vec<_>, _>(NOTE_PAGES, "comments on a merge request", own).await?))
    }

    async fn create_comment(&self, number: u64, body: &str) -> Result<PullRequestComment, ForgeError> {
        let id = number.to_string();
        let request = self.client.post(self.path(&["merge_requests", &id, "notes"])).body(&GitlabNoteBody { body });
        Ok(request.resource(super::describe_pull_request(number)).json::<GitlabNote>().await?.into())
    }

    async fn update_comment(
        &self,
        number: u64,
        comment: &PullRequestComment,
        body: &str,
    ) -> Result<PullRequestComment, ForgeError> {
        let id = number.to_string();
        let request =
            self.client.put(self.path(&["merge_requests", &id, "notes", &comment.id])).body(&GitlabNoteBody { body });
        let what = format!("comment {} on {}", comment.id, super::describe_pull_request(number));
        Ok(request.resource(what).json::<GitlabNote>().await?.into())
    }

    async fn create_pull_request(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        let body = NewGitlabMergeRequest {
            title: &new.title,
            description: &new.body,
            target_branch: &new.base,
            source_branch: &new.head,
        };
        let request = self.client.post(self.path(&["merge_requests"])).body(&body).resource("project");
        Ok(request.json::<GitlabMergeRequest>().await?.into())
    }
}
