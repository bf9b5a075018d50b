//! Azure DevOps.

use super::api::{
    CommitStatus, ForgeError, ForgeLimits, NewPullRequest, PullRequest, PullRequestComment, PullRequestState,
    StatusState,
};
use super::client::{ForgeClient, ForgeRequest};
use super::pages::{NextPage, PageStyle};
use super::repository_client::{
    CommentAccount, CommentEdit, ForgeRepository, HostComment, HostDialect, StateWords, describe_commit,
    describe_pull_request,
};
use super::response::ForgeResponse;
use http::Method;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// How many pull requests' heads are remembered.
const MAX_REMEMBERED_HEADS: usize = 20_000;

/// A repository at Azure DevOps.
#[derive(Default)]
pub(super) struct AzureDevOps {
    /// Which pull requests a commit is the head of, of those read lately: branch policies look at the statuses of pull
    /// requests and not at those of commits.
    heads: Mutex<BTreeMap<u64, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AzureStatus {
    state: String,
    description: Option<String>,
    target_url: Option<String>,
    context: AzureStatusContext,
}

/// A status' context: the part before the first `/` is the genre, and the two are shown with a `/` between them.
#[derive(Deserialize)]
struct AzureStatusContext {
    name: String,
    genre: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AzurePullRequest {
    pull_request_id: u64,
    title: String,
    status: AzurePullRequestStatus,
    source_ref_name: String,
    target_ref_name: String,
    /// Missing while Azure has not looked at a new one yet.
    last_merge_source_commit: Option<AzureCommit>,
    fork_source: Option<IgnoredAny>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum AzurePullRequestStatus {
    Active,
    Completed,
    #[serde(other)]
    Abandoned,
}

impl From<AzurePullRequestStatus> for PullRequestState {
    fn from(status: AzurePullRequestStatus) -> Self {
        match status {
            AzurePullRequestStatus::Active => Self::Open,
            AzurePullRequestStatus::Completed => Self::Merged,
            AzurePullRequestStatus::Abandoned => Self::Closed,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AzureCommit {
    commit_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AzureThread {
    id: u64,
    #[serde(default)]
    comments: Vec<AzureComment>,
    #[serde(default)]
    is_deleted: bool,
    /// Present for a thread on a line of the diff.
    thread_context: Option<IgnoredAny>,
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

/// `refs/heads/main` as `main`.
fn branch_name(name: &str) -> String {
    name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()
}

/// The body that posts a status.
fn status_body(status: &CommitStatus) -> Value {
    let context = match status.context.split_once('/') {
        Some((genre, name)) if !genre.is_empty() && !name.is_empty() => json!({"name": name, "genre": genre}),
        Some(_) | None => json!({"name": status.context}),
    };
    json!({
        "state": AzureDevOps::STATES.word(status.state),
        "description": status.description,
        "targetUrl": status.target_url,
        "context": context,
    })
}

impl AzureDevOps {
    fn pull_requests_with_head(&self, commit: &str) -> Vec<u64> {
        let Ok(heads) = self.heads.lock() else { return Vec::new() };
        heads.iter().filter(|(_, head)| *head == commit).map(|(number, _)| *number).collect()
    }

    fn remember_head(&self, number: u64, state: PullRequestState, head: &str) {
        let Ok(mut heads) = self.heads.lock() else { return };
        match state {
            PullRequestState::Open if heads.len() < MAX_REMEMBERED_HEADS => drop(heads.insert(number, head.to_owned())),
            PullRequestState::Open | PullRequestState::Merged | PullRequestState::Closed => drop(heads.remove(&number)),
        }
    }
}

impl HostDialect for AzureDevOps {
    const NAME: &'static str = "Azure DevOps";
    const LIMITS: ForgeLimits =
        ForgeLimits { description: 255, comment: 150_000, html: true, writes: ForgeLimits::WRITES };
    const STATES: StateWords = StateWords {
        pending: "pending",
        success: "succeeded",
        failure: "failed",
        error: "error",
        further: &[("notApplicable", StatusState::Success)],
        // `notSet`.
        unknown: StatusState::Pending,
    };
    const PAGES: PageStyle = PageStyle { size: ("top", 100), next: NextPage::Skip("skip") };
    const PULL_REQUEST_PAGES: PageStyle = PageStyle { size: ("$top", 100), next: NextPage::Skip("$skip") };
    const COMMENT_PAGES: PageStyle = PageStyle::UNPAGED;
    const PULL_REQUESTS: &'static str = "pullrequests";

    type Status = AzureStatus;
    type PullRequest = AzurePullRequest;
    type Comment = AzureThread;

    fn prepare(client: ForgeClient) -> ForgeClient {
        client.with_query("api-version", "7.1")
    }

    fn repository_path(owner: String, name: String) -> Vec<String> {
        let [apis, git, repositories] = ["_apis", "git", "repositories"].map(str::to_owned);
        vec![owner, apis, git, repositories, name]
    }

    async fn account(&self, at: &ForgeRepository) -> Result<CommentAccount, ForgeError> {
        let url = at.client.url(["_apis", "connectionData"]);
        // Never left its preview, and is what Microsoft's own clients ask.
        let request = at.client.get_url(url).query("api-version", "7.1-preview").resource("the token's account");
        Ok(CommentAccount::Named(request.json::<AzureConnectionData>().await?.authenticated_user.id))
    }

    fn new_status<'a>(at: &'a ForgeRepository, commit: &str, status: &CommitStatus) -> ForgeRequest<'a> {
        at.post(&["commits", commit, "statuses"], status_body(status))
    }

    async fn post_status(&self, at: &ForgeRepository, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        Self::new_status(at, commit, status).resource(describe_commit(commit)).send().await?;
        for number in self.pull_requests_with_head(commit) {
            let request = at.post(&["pullRequests", &number.to_string(), "statuses"], status_body(status));
            request.resource(describe_pull_request(number)).send().await?;
        }
        Ok(())
    }

    fn statuses<'a>(at: &'a ForgeRepository, commit: &str) -> ForgeRequest<'a> {
        at.get(&["commits", commit, "statuses"]).query("latestOnly", true)
    }

    fn read_status(one: AzureStatus) -> Option<CommitStatus> {
        let context = match one.context.genre.filter(|genre| !genre.is_empty()) {
            Some(genre) => format!("{genre}/{}", one.context.name),
            None => one.context.name,
        };
        Self::STATES.status(context, &one.state, one.description, one.target_url)
    }

    fn open_onto<'a>(list: ForgeRequest<'a>, base: &str) -> ForgeRequest<'a> {
        let list = list.query("searchCriteria.status", "active");
        list.query("searchCriteria.targetRefName", format!("refs/heads/{base}"))
    }

    async fn read_pull_request(&self, at: &ForgeRepository, pull: AzurePullRequest) -> Result<PullRequest, ForgeError> {
        let number = pull.pull_request_id;
        let fork = pull.fork_source.is_some();
        let url = at.client.url([at.owner.as_str(), "_git", &at.name, "pullrequest", &number.to_string()]);
        let head = pull.last_merge_source_commit.map(|commit| commit.commit_id).unwrap_or_default();
        let state = pull.status.into();
        self.remember_head(number, state, &head);
        Ok(PullRequest {
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
        })
    }

    fn new_pull_request(new: &NewPullRequest) -> Value {
        json!({
            "title": new.title,
            "description": new.body,
            "sourceRefName": format!("refs/heads/{}", new.head),
            "targetRefName": format!("refs/heads/{}", new.base),
        })
    }

    fn comments<'a>(at: &'a ForgeRepository, number: &str) -> ForgeRequest<'a> {
        at.get(&["pullRequests", number, "threads"])
    }

    /// What begins a thread; answers to others are not stator's to write.
    fn read_comment(thread: AzureThread) -> Option<HostComment> {
        let note = thread.comments.into_iter().next()?;
        let hidden = thread.is_deleted || thread.thread_context.is_some() || note.is_deleted;
        let comment = PullRequestComment { id: format!("{}/{}", thread.id, note.id), body: note.content };
        let author = note.author.map(|author| author.id);
        (!hidden && note.comment_type != "system").then_some(HostComment {
            number: thread.id,
            version: 0,
            author,
            comment,
        })
    }

    fn new_comment<'a>(at: &'a ForgeRepository, number: &str, body: &str) -> ForgeRequest<'a> {
        let comment = json!({"parentCommentId": 0, "content": body, "commentType": "text"});
        // Closed from the start, so that it never keeps a pull request from being completed.
        at.post(&["pullRequests", number, "threads"], json!({"comments": [comment], "status": "closed"}))
    }

    fn edit_comment<'a>(at: &'a ForgeRepository, edit: &CommentEdit<'_>) -> Result<ForgeRequest<'a>, ForgeError> {
        let parts = edit.id.split_once('/');
        let (thread, id) = parts.ok_or_else(|| at.client.unreadable_error("the comment's id names no thread"))?;
        let path = ["pullRequests", edit.number, "threads", thread, "comments", id];
        Ok(at.request(Method::PATCH, &path).body(json!({"content": edit.body})))
    }

    fn read_edited(answer: &ForgeResponse, edit: &CommentEdit<'_>) -> Result<PullRequestComment, ForgeError> {
        let note: AzureComment = answer.json()?;
        Ok(PullRequestComment { id: edit.id.to_owned(), body: note.content })
    }
}
