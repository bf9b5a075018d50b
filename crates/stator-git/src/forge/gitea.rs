//! Gitea and Forgejo.

use super::api::{
    CommitStatus, ForgeApi, ForgeError, ForgeLimits, NewPullRequest, PullRequest, PullRequestComment, PullRequestState,
};
use super::client::{ForgeAuth, ForgeClient};
use super::issue_comments::{
    IssueComment, IssueCommentBody, LoginName, NewPullRequestBody, OpenOrClosed, WireStatusState,
};
use super::pages::{ListPage, NextPage, PageStyle};
use super::{ForgeHttp, status_text};
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

/// Fifty of a page are the most that a server gives as it comes (`MAX_RESPONSE_ITEMS`). One may be set to give fewer.
const PAGES: PageStyle = PageStyle { size: ("limit", 50), next: NextPage::NumberedToEmpty };
/// No limit is documented for descriptions (they are shown on one line), nor for comments.
const LIMITS: ForgeLimits = ForgeLimits { description: 255, comment: 65_536, html: true };

/// A repository at a Gitea or Forgejo server.
pub struct Gitea {
    client: ForgeClient,
    owner: String,
    name: String,
    account: OnceCell<String>,
}

#[derive(Serialize)]
struct NewGiteaCommitStatus<'a> {
    state: WireStatusState,
    context: &'a str,
    description: &'a str,
    target_url: &'a str,
}

#[derive(Deserialize)]
struct GiteaCombinedStatus {
    /// Null where there is none.
    statuses: Option<Vec<GiteaCommitStatus>>,
}

impl ListPage for GiteaCombinedStatus {
    type Item = GiteaCommitStatus;

    fn into_items(self) -> Vec<GiteaCommitStatus> {
        self.statuses.unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct GiteaCommitStatus {
    status: WireStatusState,
    context: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    target_url: String,
}

#[derive(Deserialize)]
struct GiteaPullRequest {
    number: u64,
    title: String,
    state: OpenOrClosed,
    #[serde(default)]
    merged: bool,
    base: GiteaPullRequestRef,
    head: GiteaPullRequestRef,
    html_url: String,
}

#[derive(Deserialize)]
struct GiteaPullRequestRef {
    #[serde(rename = "ref")]
    branch: String,
    sha: String,
    /// 0 or less where the fork is gone.
    #[serde(default)]
    repo_id: i64,
}

impl From<GiteaPullRequest> for PullRequest {
    fn from(pull: GiteaPullRequest) -> Self {
        let fork = pull.head.repo_id <= 0 || pull.head.repo_id != pull.base.repo_id;
        Self {
            number: pull.number,
            title: pull.title,
            state: match (pull.state, pull.merged) {
                (OpenOrClosed::Open, _) => PullRequestState::Open,
                (OpenOrClosed::Closed, true) => PullRequestState::Merged,
                (OpenOrClosed::Closed, false) => PullRequestState::Closed,
            },
            base: pull.base.branch,
            head: pull.head.sha,
            fetch: Some(format!("refs/pull/{}/head", pull.number)),
            branch: (!fork).then_some(pull.head.branch),
            fork,
            url: pull.html_url,
        }
    }
}

impl Gitea {
    pub(super) fn new(http: ForgeHttp, place: super::endpoint::ForgeEndpoint, login: ForgeAuth) -> Self {
        let client = ForgeClient::new(http, place.api, login);
        Self { client, owner: place.owner, name: place.name, account: OnceCell::new() }
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [["repos", &self.owner, &self.name].as_slice(), rest].concat()
    }

    async fn account_login(&self) -> Result<&str, ForgeError> {
        let asked = async {
            let user: LoginName = self.client.get(["user"]).resource("the token's account").json().await?;
            Ok(user.login)
        };
        Ok(self.account.get_or_try_init(|| asked).await?.as_str())
    }
}

impl ForgeApi for Gitea {
    fn describe(&self) -> String {
        format!("Gitea, {}/{}", self.owner, self.name)
    }

    fn limits(&self) -> ForgeLimits {
        LIMITS
    }

    fn normalize_status(&self, _commit: &str, status: &CommitStatus) -> CommitStatus {
        CommitStatus {
            // The server trims all three; `cut` and `context` have done so before.
            context: status_text::normalize_context(&status.context),
            state: status.state,
            description: status_text::truncate_text(&status.description, LIMITS.description),
            target_url: status.target_url.as_deref().map(|url| url.trim().to_owned()).filter(|url| !url.is_empty()),
        }
    }

    async fn set_status(&self, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        let shown = self.normalize_status(commit, status);
        let body = NewGiteaCommitStatus {
            state: shown.state.into(),
            context: &shown.context,
            description: &shown.description,
            target_url: shown.target_url.as_deref().unwrap_or_default(),
        };
        let request = self.client.post(self.path(&["statuses", commit])).body(&body);
        request.resource(super::describe_commit(commit)).send().await.map(|_| ())
    }

    async fn list_statuses(&self, commit: &str, prefix: &str) -> Result<Vec<CommitStatus>, ForgeError> {
        let request = self.client.get(self.path(&["commits", commit, "status"]));
        let read = |one: GiteaCommitStatus| {
            Some(CommitStatus {
                context: one.context,
                state: one.status.into(),
                description: one.description,
                target_url: Some(one.target_url).filter(|url| !url.is_empty()),
            })
        };
        let request = request.resource(super::describe_commit(commit));
        let found = request.pages::<GiteaCombinedStatus, _>(PAGES, "statuses of a commit", read).await?;
        Ok(super::newest_statuses(found, prefix))
    }

    async fn list_open_pull_requests(&self, base: &str) -> Result<Vec<PullRequest>, ForgeError> {
        // Old servers do not know `base` and list those onto every branch.
        let request = self.client.get(self.path(&["pulls"])).query("state", "open").query("base", base);
        let request = request.query("sort", "oldest").resource("pull requests");
        let read = |pull: GiteaPullRequest| Some(PullRequest::from(pull));
        let found = request.pages::<Vec<_>, _>(PAGES, "open pull requests", read).await?;
        Ok(super::open_by_number(found, base))
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequest, ForgeError> {
        let id = number.to_string();
        let request = self.client.get(self.path(&["pulls", &id])).resource(super::describe_pull_request(number));
        Ok(request.json::<GiteaPullRequest>().await?.into())
    }

    async fn list_own_comments(&self, number: u64) -> Result<Vec<PullRequestComment>, ForgeError> {
        let account = self.account_login().await?.to_lowercase();
        let id = number.to_string();
        // All at once: this list has no pages.
        let request =
            self.client.get(self.path(&["issues", &id, "comments"])).resource(super::describe_pull_request(number));
        let notes: Vec<IssueComment> = request.json().await?;
        Ok(super::oldest_first(notes.into_iter().filter_map(|note| note.written_by(&account)).collect()))
    }

    async fn create_comment(&self, number: u64, body: &str) -> Result<PullRequestComment, ForgeError> {
        let id = number.to_string();
        let request = self.client.post(self.path(&["issues", &id, "comments"])).body(&IssueCommentBody { body });
        Ok(request.resource(super::describe_pull_request(number)).json::<IssueComment>().await?.into())
    }

    async fn update_comment(
        &self,
        number: u64,
        comment: &PullRequestComment,
        body: &str,
    ) -> Result<PullRequestComment, ForgeError> {
        let request =
            self.client.patch(self.path(&["issues", "comments", &comment.id])).body(&IssueCommentBody { body });
        let what = format!("comment {} on {}", comment.id, super::describe_pull_request(number));
        let answer = request.resource(what).send().await?;
        // 204 where the text was this one already.
        if answer.body_is_empty() {
            return Ok(PullRequestComment { id: comment.id.clone(), body: body.to_owned() });
        }
        Ok(answer.json::<IssueComment>()?.into())
    }

    async fn create_pull_request(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        let body = NewPullRequestBody::from(new);
        let request = self.client.post(self.path(&["pulls"])).body(&body).resource("repository");
        Ok(request.json::<GiteaPullRequest>().await?.into())
    }
}
