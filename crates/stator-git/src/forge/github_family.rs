//! What is one API at GitHub and at Gitea, which copies it.

use super::api::{CommitStatus, ForgeError, ForgeLimits, NewPullRequest, PullRequest, PullRequestState, StatusState};
use super::auth::ForgeAuth;
use super::client::{ForgeClient, ForgeRequest};
use super::pages::{NextPage, PageStyle};
use super::repository_client::{CommentAccount, CommentEdit, ForgeRepository, HostComment, HostDialect, StateWords};
use http::Method;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

/// What is not the same at the two. See [`HostDialect`] for what is not described here.
pub(super) trait GithubFamily: Default + Send + Sync {
    const NAME: &'static str;
    const LIMITS: ForgeLimits;
    const PAGES: PageStyle;
    const COMMENT_PAGES: PageStyle;
    /// The query parameters that list pull requests from the oldest on.
    const OLDEST_FIRST: &'static [(&'static str, &'static str)];

    fn prepare(client: ForgeClient) -> ForgeClient {
        client
    }
}

#[derive(Deserialize)]
pub(super) struct GithubStatus {
    /// `status` is Gitea's name for it.
    #[serde(alias = "status")]
    state: String,
    context: String,
    description: Option<String>,
    target_url: Option<String>,
}

#[derive(Deserialize)]
#[serde(expecting = "a pull request")]
pub(super) struct GithubPullRequest {
    number: u64,
    title: String,
    state: OpenOrClosed,
    merged_at: Option<IgnoredAny>,
    /// GitHub leaves it out of lists.
    #[serde(default)]
    merged: bool,
    base: GithubPullRequestRef,
    head: GithubPullRequestRef,
    html_url: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OpenOrClosed {
    Open,
    Closed,
}

#[derive(Deserialize)]
struct GithubPullRequestRef {
    #[serde(rename = "ref")]
    branch: String,
    sha: String,
    /// Null where the fork is gone.
    repo: Option<GithubRepository>,
    /// Gitea's alone: 0 or less where the fork is gone.
    repo_id: Option<i64>,
}

#[derive(Deserialize)]
struct GithubRepository {
    id: i64,
}

impl GithubPullRequestRef {
    fn repository_id(&self) -> Option<i64> {
        self.repo_id.or(self.repo.as_ref().map(|repository| repository.id)).filter(|id| *id > 0)
    }
}

#[derive(Deserialize)]
pub(super) struct GithubComment {
    id: u64,
    body: Option<String>,
    user: Option<GithubUser>,
}

#[derive(Deserialize)]
struct GithubUser {
    login: String,
}

impl<F: GithubFamily> HostDialect for F {
    const NAME: &'static str = F::NAME;
    const LIMITS: ForgeLimits = F::LIMITS;
    /// GitHub has the four; the others are Gitea's.
    const STATES: StateWords = StateWords {
        pending: "pending",
        success: "success",
        failure: "failure",
        error: "error",
        further: &[("skipped", StatusState::Success), ("warning", StatusState::Failure)],
        unknown: StatusState::Error,
    };
    const PAGES: PageStyle = F::PAGES;
    const COMMENT_PAGES: PageStyle = F::COMMENT_PAGES;
    const PULL_REQUESTS: &'static str = "pulls";

    type Status = GithubStatus;
    type PullRequest = GithubPullRequest;
    type Comment = GithubComment;

    fn prepare(client: ForgeClient) -> ForgeClient {
        F::prepare(client)
    }

    fn repository_path(owner: String, name: String) -> Vec<String> {
        vec!["repos".to_owned(), owner, name]
    }

    async fn account(&self, at: &ForgeRepository) -> Result<CommentAccount, ForgeError> {
        Ok(CommentAccount::Named(match at.client.login() {
            ForgeAuth::App(tokens) => tokens.account_login().await?,
            ForgeAuth::Header(..) => at.user::<GithubUser>().await?.login,
        }))
    }

    // Gitea trims the address that it is given.
    fn status_url(_at: &ForgeRepository, _commit: &str, given: Option<&str>) -> Option<String> {
        given.map(|url| url.trim().to_owned()).filter(|url| !url.is_empty())
    }

    fn new_status<'a>(at: &'a ForgeRepository, commit: &str, status: &CommitStatus) -> ForgeRequest<'a> {
        let body = json!({
            "state": Self::STATES.word(status.state),
            "context": status.context,
            "description": status.description,
            "target_url": status.target_url,
        });
        at.post(&["statuses", commit], body)
    }

    fn statuses<'a>(at: &'a ForgeRepository, commit: &str) -> ForgeRequest<'a> {
        at.get(&["commits", commit, "status"])
    }

    fn read_status(one: GithubStatus) -> Option<CommitStatus> {
        Self::STATES.status(one.context, &one.state, one.description, one.target_url)
    }

    fn open_onto<'a>(list: ForgeRequest<'a>, base: &str) -> ForgeRequest<'a> {
        // Old servers of Gitea do not know `base` and list those onto every branch.
        let list = list.query("state", "open").query("base", base);
        F::OLDEST_FIRST.iter().fold(list, |list, (name, value)| list.query(name, value))
    }

    async fn read_pull_request(
        &self,
        _at: &ForgeRepository,
        pull: GithubPullRequest,
    ) -> Result<PullRequest, ForgeError> {
        // By its repository's id, and not by whether that is a fork: so is one where the whole team works in a fork.
        let from = pull.head.repository_id();
        let fork = from.is_none() || from != pull.base.repository_id();
        Ok(PullRequest {
            number: pull.number,
            title: pull.title,
            state: match pull.state {
                OpenOrClosed::Open => PullRequestState::Open,
                OpenOrClosed::Closed if pull.merged || pull.merged_at.is_some() => PullRequestState::Merged,
                OpenOrClosed::Closed => PullRequestState::Closed,
            },
            base: pull.base.branch,
            head: pull.head.sha,
            fetch: Some(format!("refs/pull/{}/head", pull.number)),
            branch: (!fork).then_some(pull.head.branch),
            fork,
            url: pull.html_url,
        })
    }

    fn new_pull_request(new: &NewPullRequest) -> Value {
        json!({"title": new.title, "body": new.body, "base": new.base, "head": new.head})
    }

    fn comments<'a>(at: &'a ForgeRepository, number: &str) -> ForgeRequest<'a> {
        at.get(&["issues", number, "comments"])
    }

    fn read_comment(one: GithubComment) -> Option<HostComment> {
        Some(HostComment::new(one.id, one.user.map(|user| user.login), one.body.unwrap_or_default()))
    }

    fn new_comment<'a>(at: &'a ForgeRepository, number: &str, body: &str) -> ForgeRequest<'a> {
        at.post(&["issues", number, "comments"], json!({"body": body}))
    }

    fn edit_comment<'a>(at: &'a ForgeRepository, edit: &CommentEdit<'_>) -> Result<ForgeRequest<'a>, ForgeError> {
        Ok(at.request(Method::PATCH, &["issues", "comments", edit.id]).body(json!({"body": edit.body})))
    }
}

/// A repository at GitHub, in the cloud or on premises. Every shape that is read or written is held against GitHub's own
/// description in the tests.
#[derive(Default)]
pub(super) struct Github;

impl GithubFamily for Github {
    const NAME: &'static str = "GitHub";
    const LIMITS: ForgeLimits =
        ForgeLimits { description: 140, comment: 65_536, html: true, writes: ForgeLimits::FEW_WRITES };
    /// A hundred of a page are the most that GitHub gives.
    const PAGES: PageStyle = PageStyle { size: ("per_page", 100), next: NextPage::Numbered };
    const COMMENT_PAGES: PageStyle = <Self as GithubFamily>::PAGES;
    const OLDEST_FIRST: &'static [(&'static str, &'static str)] = &[("sort", "created"), ("direction", "asc")];

    fn prepare(client: ForgeClient) -> ForgeClient {
        with_api_version(client)
    }
}

/// With the version of GitHub's API that is meant.
pub(super) fn with_api_version(client: ForgeClient) -> ForgeClient {
    client.with_header("x-github-api-version", "2022-11-28")
}

/// A repository at a Gitea or Forgejo server.
#[derive(Default)]
pub(super) struct Gitea;

impl GithubFamily for Gitea {
    const NAME: &'static str = "Gitea";
    /// No limit is documented for descriptions (they are shown on one line), nor for comments.
    const LIMITS: ForgeLimits =
        ForgeLimits { description: 255, comment: 65_536, html: true, writes: ForgeLimits::WRITES };
    /// Fifty of a page are the most that a server gives as it comes (`MAX_RESPONSE_ITEMS`). One may be set to give fewer.
    const PAGES: PageStyle = PageStyle { size: ("limit", 50), next: NextPage::NumberedToEmpty };
    const COMMENT_PAGES: PageStyle = PageStyle::UNPAGED;
    const OLDEST_FIRST: &'static [(&'static str, &'static str)] = &[("sort", "oldest")];
}
