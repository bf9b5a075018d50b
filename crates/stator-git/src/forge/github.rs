//! GitHub, in the cloud and on premises.
//!
//! Every shape here is held against GitHub's own description in the tests.

pub mod app;

use super::api::{
    CommitStatus, ForgeApi, ForgeError, ForgeLimits, NewPullRequest, PullRequest, PullRequestComment, PullRequestState,
};
use super::client::{ForgeAuth, ForgeClient};
use super::issue_comments::{
    IssueComment, IssueCommentBody, LoginName, NewPullRequestBody, OpenOrClosed, WireStatusState,
};
use super::pages::{ListPage, NextPage, PageStyle};
use super::{ForgeHttp, status_text};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

/// A hundred of a page are the most that GitHub gives.
const PAGES: PageStyle = PageStyle { size: ("per_page", 100), next: NextPage::Numbered };
const LIMITS: ForgeLimits = ForgeLimits { description: 140, comment: 65_536, html: true };

/// A repository at GitHub.
pub struct Github {
    client: ForgeClient,
    login: ForgeAuth,
    owner: String,
    name: String,
    /// Who comments are written as.
    account: OnceCell<String>,
}

/// The headers that GitHub asks for: which version of its API is meant.
fn with_github_headers(client: ForgeClient) -> ForgeClient {
    client.with("x-github-api-version", "2022-11-28")
}

#[derive(Serialize)]
struct NewGithubStatus<'a> {
    state: WireStatusState,
    context: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_url: Option<&'a str>,
}

#[derive(Deserialize)]
struct GithubCombinedStatus {
    statuses: Vec<GithubStatus>,
}

impl ListPage for GithubCombinedStatus {
    type Item = GithubStatus;

    fn into_items(self) -> Vec<GithubStatus> {
        self.statuses
    }
}

#[derive(Deserialize)]
struct GithubStatus {
    state: WireStatusState,
    context: String,
    description: Option<String>,
    target_url: Option<String>,
}

#[derive(Deserialize)]
#[serde(expecting = "a pull request")]
struct GithubPullRequest {
    number: u64,
    title: String,
    state: OpenOrClosed,
    merged_at: Option<String>,
    base: GithubPullRequestRef,
    head: GithubPullRequestRef,
    html_url: String,
}

#[derive(Deserialize)]
struct GithubPullRequestRef {
    #[serde(rename = "ref")]
    branch: String,
    sha: String,
    /// Null where the fork is gone.
    repo: Option<GithubRepository>,
}

#[derive(PartialEq, Eq, Deserialize)]
struct GithubRepository {
    id: u64,
}

impl From<GithubPullRequest> for PullRequest {
    fn from(pull: GithubPullRequest) -> Self {
        // By its repository's id, and not by whether that is a fork: so is one where the whole team works in a fork.
        let fork = pull.head.repo.is_none() || pull.head.repo != pull.base.repo;
        Self {
            number: pull.number,
            title: pull.title,
            state: match (pull.state, pull.merged_at) {
                (OpenOrClosed::Open, _) => PullRequestState::Open,
                (OpenOrClosed::Closed, Some(_)) => PullRequestState::Merged,
                (OpenOrClosed::Closed, None) => PullRequestState::Closed,
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

impl Github {
    pub(super) fn new(http: ForgeHttp, place: super::endpoint::ForgeEndpoint, login: ForgeAuth) -> Self {
        let client = with_github_headers(ForgeClient::new(http, place.api, login.clone()));
        Self { client, login, owner: place.owner, name: place.name, account: OnceCell::new() }
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [["repos", &self.owner, &self.name].as_slice(), rest].concat()
    }

    /// Who this token writes comments as.
    async fn account_login(&self) -> Result<&str, ForgeError> {
        let asked = async {
            match &self.login {
                ForgeAuth::App(tokens) => tokens.bot_login().await,
                ForgeAuth::Header(..) => {
                    let user: LoginName = self.client.get(["user"]).resource("the token's account").json().await?;
                    Ok(user.login)
                }
            }
        };
        Ok(self.account.get_or_try_init(|| asked).await?.as_str())
    }
}

impl ForgeApi for Github {
    fn describe(&self) -> String {
        format!("GitHub, {}/{}", self.owner, self.name)
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
        let body = NewGithubStatus {
            state: shown.state.into(),
            context: &shown.context,
            description: &shown.description,
            target_url: shown.target_url.as_deref(),
        };
        let request = self.client.post(self.path(&["statuses", commit])).body(&body);
        request.resource(super::describe_commit(commit)).send().await.map(|_| ())
    }

    async fn list_statuses(&self, commit: &str, prefix: &str) -> Result<Vec<CommitStatus>, ForgeError> {
        let request = self.client.get(self.path(&["commits", commit, "status"]));
        let read = |one: GithubStatus| {
            Some(CommitStatus {
                context: one.context,
                state: one.state.into(),
                description: one.description.unwrap_or_default(),
                target_url: one.target_url.filter(|url| !url.is_empty()),
            })
        };
        let request = request.resource(super::describe_commit(commit));
        let found = request.pages::<GithubCombinedStatus, _>(PAGES, "statuses of a commit", read).await?;
        Ok(super::newest_statuses(found, prefix))
    }

    async fn list_open_pull_requests(&self, base: &str) -> Result<Vec<PullRequest>, ForgeError> {
        let request = self.client.get(self.path(&["pulls"])).query("state", "open").query("base", base);
        let request = request.query("sort", "created").query("direction", "asc").resource("pull requests");
        let read = |pull: GithubPullRequest| Some(PullRequest::from(pull));
        let found = request.pages::<Vec<_>, _>(PAGES, "open pull requests", read).await?;
        Ok(super::open_by_number(found, base))
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequest, ForgeError> {
        let id = number.to_string();
        let request = self.client.get(self.path(&["pulls", &id])).resource(super::describe_pull_request(number));
        Ok(request.json::<GithubPullRequest>().await?.into())
    }

    async fn list_own_comments(&self, number: u64) -> Result<Vec<PullRequestComment>, ForgeError> {
        let account = self.account_login().await?.to_lowercase();
        let id = number.to_string();
        let request = self.client.get(self.path(&["issues", &id, "comments"]));
        let request = request.resource(super::describe_pull_request(number));
        let own = |note: IssueComment| note.written_by(&account);
        Ok(super::oldest_first(request.pages::<Vec<_>, _>(PAGES, "comments on a pull request", own).await?))
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
        Ok(request.resource(what).json::<IssueComment>().await?.into())
    }

    async fn create_pull_request(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        let body = NewPullRequestBody::from(new);
        let answer =
            self.client.post(self.path(&["pulls"])).body(&body).resource("repository").send_unchecked().await?;
        // There is one of these two branches already.
        if answer.status == StatusCode::UNPROCESSABLE_ENTITY && answer.message().contains("already exists") {
            return Err(ForgeError::Conflict { host: answer.host(), message: answer.message() });
        }
        Ok(answer.check_status()?.json::<GithubPullRequest>()?.into())
    }
}
