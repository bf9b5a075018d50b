//! GitLab.
//!
//! A status is a job there, in a pipeline, and goes through a state machine: what is a plain write elsewhere can be refused
//! for being so already. See `app/services/ci/create_commit_status_service.rb` in GitLab.

use super::api::{CommitStatus, ForgeError, ForgeLimits, NewPullRequest, PullRequest, PullRequestState, StatusState};
use super::client::ForgeRequest;
use super::pages::{NextPage, PageStyle};
use super::repository_client::{
    CommentAccount, CommentEdit, ForgeRepository, HostComment, HostDialect, StateWords, describe_commit,
};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

/// The longest address behind a status, in UTF-16 units.
const MAX_TARGET_URL_LENGTH: usize = 255;

/// A project at GitLab.
#[derive(Default)]
pub(super) struct Gitlab;

#[derive(Deserialize)]
pub(super) struct GitlabStatus {
    status: String,
    name: String,
    description: Option<String>,
    target_url: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct GitlabMergeRequest {
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
    /// `locked` is what it is while it is merged.
    #[serde(alias = "locked")]
    Opened,
    Merged,
    #[serde(other)]
    Closed,
}

impl From<GitlabMergeRequestState> for PullRequestState {
    fn from(state: GitlabMergeRequestState) -> Self {
        match state {
            GitlabMergeRequestState::Opened => Self::Open,
            GitlabMergeRequestState::Merged => Self::Merged,
            GitlabMergeRequestState::Closed => Self::Closed,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct GitlabNote {
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

/// The request that posts a status. The branch of its pipeline is given only where GitLab cannot find it by itself.
fn status_onto<'a>(
    at: &'a ForgeRepository,
    commit: &str,
    status: &CommitStatus,
    branch: Option<&str>,
) -> ForgeRequest<'a> {
    let body = json!({
        "state": Gitlab::STATES.word(status.state),
        "name": status.context,
        "description": status.description,
        "target_url": status.target_url,
        "ref": branch,
    });
    at.post(&["statuses", commit], body).resource(describe_commit(commit))
}

/// The branch of the merge request that brings a commit, for a commit that no branch of the project contains.
async fn merge_request_branch(at: &ForgeRepository, commit: &str) -> Result<Option<String>, ForgeError> {
    let request = at.get(&["repository", "commits", commit, "merge_requests"]).resource(describe_commit(commit));
    let merges: Vec<GitlabMergeRequest> = request.json().await?;
    let open = merges.into_iter().find(|merge| matches!(merge.state, GitlabMergeRequestState::Opened));
    Ok(open.map(|merge| merge.source_branch))
}

impl HostDialect for Gitlab {
    const NAME: &'static str = "GitLab";
    const LIMITS: ForgeLimits =
        ForgeLimits { description: 255, comment: 1_000_000, html: true, writes: ForgeLimits::WRITES };
    const STATES: StateWords = StateWords {
        pending: "running",
        success: "success",
        // GitLab has one word for both; the description says whose fault it is.
        failure: "failed",
        error: "failed",
        further: &[("pending", StatusState::Pending), ("skipped", StatusState::Success)],
        unknown: StatusState::Error,
    };
    /// A hundred of a page are the most that GitLab gives.
    const PAGES: PageStyle = PageStyle { size: ("per_page", 100), next: NextPage::NumberedWithHeader };
    /// Comments may have a million characters each, so fewer of them are asked for at once.
    const COMMENT_PAGES: PageStyle = PageStyle { size: ("per_page", 20), ..Self::PAGES };
    const PULL_REQUESTS: &'static str = "merge_requests";
    const PULL_REQUESTS_NAME: &'static str = "merge requests";

    type Status = GitlabStatus;
    type PullRequest = GitlabMergeRequest;
    type Comment = GitlabNote;

    /// The project with all groups is one part of the path, escaped.
    fn repository_path(owner: String, name: String) -> Vec<String> {
        vec!["projects".to_owned(), format!("{owner}/{name}")]
    }

    async fn account(&self, at: &ForgeRepository) -> Result<CommentAccount, ForgeError> {
        Ok(CommentAccount::Named(at.user::<GitlabUser>().await?.username))
    }

    // A part of an address leads nowhere.
    fn status_url(_at: &ForgeRepository, _commit: &str, given: Option<&str>) -> Option<String> {
        given.filter(|url| url.encode_utf16().count() <= MAX_TARGET_URL_LENGTH).map(str::to_owned)
    }

    fn new_status<'a>(at: &'a ForgeRepository, commit: &str, status: &CommitStatus) -> ForgeRequest<'a> {
        status_onto(at, commit, status, None)
    }

    async fn post_status(&self, at: &ForgeRepository, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        let mut answer = Self::new_status(at, commit, status).send_unchecked().await?;
        if answer.status == StatusCode::NOT_FOUND && answer.message().contains("References for commit") {
            // The commit of a fork's merge request is on no branch here.
            if let Some(branch) = merge_request_branch(at, commit).await? {
                answer = status_onto(at, commit, status, Some(&branch)).send_unchecked().await?;
            }
        }
        if answer.status == StatusCode::BAD_REQUEST && answer.message().contains("Cannot transition status") {
            // Before merge request 198626 of GitLab, saying what is said already is refused. That is no fault, if it is so.
            let request = Self::statuses(at, commit).query("name", &status.context).resource(describe_commit(commit));
            let (there, _) = request.pages(Self::PAGES, "statuses of a commit", Self::read_status).await?;
            if there.iter().any(|one| one.context == status.context && one.state == status.state) {
                return Ok(());
            }
        }
        answer.check_status().map(|_| ())
    }

    fn statuses<'a>(at: &'a ForgeRepository, commit: &str) -> ForgeRequest<'a> {
        at.get(&["repository", "commits", commit, "statuses"])
    }

    fn read_status(one: GitlabStatus) -> Option<CommitStatus> {
        Self::STATES.status(one.name, &one.status, one.description, one.target_url)
    }

    fn open_onto<'a>(list: ForgeRequest<'a>, base: &str) -> ForgeRequest<'a> {
        let list = list.query("state", "opened").query("target_branch", base);
        list.query("order_by", "created_at").query("sort", "asc")
    }

    async fn read_pull_request(
        &self,
        _at: &ForgeRepository,
        merge: GitlabMergeRequest,
    ) -> Result<PullRequest, ForgeError> {
        let fork = merge.source_project_id != Some(merge.target_project_id);
        Ok(PullRequest {
            number: merge.iid,
            title: merge.title,
            state: merge.state.into(),
            base: merge.target_branch,
            head: merge.sha.unwrap_or_default(),
            fetch: Some(format!("refs/merge-requests/{}/head", merge.iid)),
            branch: (!fork).then_some(merge.source_branch),
            fork,
            url: merge.web_url,
        })
    }

    fn new_pull_request(new: &NewPullRequest) -> Value {
        json!({
            "title": new.title,
            "description": new.body,
            "target_branch": new.base,
            "source_branch": new.head,
        })
    }

    fn comments<'a>(at: &'a ForgeRepository, number: &str) -> ForgeRequest<'a> {
        // Newest first, unless asked otherwise.
        at.get(&[Self::PULL_REQUESTS, number, "notes"]).query("sort", "asc").query("order_by", "created_at")
    }

    fn read_comment(note: GitlabNote) -> Option<HostComment> {
        (!note.system).then(|| HostComment::new(note.id, note.author.map(|author| author.username), note.body))
    }

    fn new_comment<'a>(at: &'a ForgeRepository, number: &str, body: &str) -> ForgeRequest<'a> {
        at.post(&[Self::PULL_REQUESTS, number, "notes"], json!({"body": body}))
    }

    fn edit_comment<'a>(at: &'a ForgeRepository, edit: &CommentEdit<'_>) -> Result<ForgeRequest<'a>, ForgeError> {
        let path = [Self::PULL_REQUESTS, edit.number, "notes", edit.id];
        Ok(at.request(Method::PUT, &path).body(json!({"body": edit.body})))
    }
}
