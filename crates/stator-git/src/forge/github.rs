//! GitHub, in the cloud and on premises.
//!
//! Every shape here is held against GitHub's own description in the tests.

pub mod app;

use super::api::{
    Comment, CommitStatus, Forge, ForgeError, Limits, NewPullRequest, PullRequest, PullRequestState, StatusState,
};
use super::client::{Client, Login};
use super::{Http, MOST, text};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

/// How many of a page: the most that GitHub gives.
const PAGE: usize = 100;
const LIMITS: Limits = Limits { description: 140, comment: 65_536, html: true };

/// A repository at GitHub.
pub struct Github {
    client: Client,
    login: Login,
    owner: String,
    name: String,
    /// Who comments are written as.
    account: OnceCell<String>,
}

/// The headers that GitHub asks for: which version of its API is meant.
fn headers(client: Client) -> Client {
    client.with("x-github-api-version", "2022-11-28")
}

#[derive(Serialize)]
struct NewStatus<'a> {
    state: State,
    context: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_url: Option<&'a str>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Pending,
    Success,
    Failure,
    Error,
}

impl From<StatusState> for State {
    fn from(state: StatusState) -> Self {
        match state {
            StatusState::Pending => Self::Pending,
            StatusState::Success => Self::Success,
            StatusState::Failure => Self::Failure,
            StatusState::Error => Self::Error,
        }
    }
}

impl From<State> for StatusState {
    fn from(state: State) -> Self {
        match state {
            State::Pending => Self::Pending,
            State::Success => Self::Success,
            State::Failure => Self::Failure,
            State::Error => Self::Error,
        }
    }
}

#[derive(Deserialize)]
struct Combined {
    statuses: Vec<Status>,
}

#[derive(Deserialize)]
struct Status {
    state: State,
    context: String,
    description: Option<String>,
    target_url: Option<String>,
}

#[derive(Deserialize)]
struct Pull {
    number: u64,
    title: String,
    state: OpenOrClosed,
    merged_at: Option<String>,
    base: Side,
    head: Side,
    html_url: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OpenOrClosed {
    Open,
    Closed,
}

#[derive(Deserialize)]
struct Side {
    #[serde(rename = "ref")]
    branch: String,
    sha: String,
    /// Null where the fork is gone.
    repo: Option<Repository>,
}

#[derive(PartialEq, Eq, Deserialize)]
struct Repository {
    id: u64,
}

#[derive(Deserialize)]
struct Note {
    id: u64,
    body: Option<String>,
    user: Option<User>,
}

#[derive(Deserialize)]
struct User {
    login: String,
}

#[derive(Serialize)]
struct Body<'a> {
    body: &'a str,
}

#[derive(Serialize)]
struct NewPull<'a> {
    title: &'a str,
    body: &'a str,
    base: &'a str,
    head: &'a str,
}

impl From<Pull> for PullRequest {
    fn from(pull: Pull) -> Self {
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

impl From<Note> for Comment {
    fn from(note: Note) -> Self {
        Self { id: note.id.to_string(), body: note.body.unwrap_or_default() }
    }
}

impl Github {
    pub(super) fn new(http: Http, place: super::address::Place, login: Login) -> Self {
        let client = headers(Client::new(http, place.api, login.clone()));
        Self { client, login, owner: place.owner, name: place.name, account: OnceCell::new() }
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [["repos", &self.owner, &self.name].as_slice(), rest].concat()
    }

    /// Who this token writes comments as.
    async fn account(&self) -> Result<&str, ForgeError> {
        let asked = async {
            match &self.login {
                Login::App(tokens) => tokens.login().await,
                Login::Header(..) => {
                    let user: User = self.client.get(["user"]).what("the token's account").json().await?;
                    Ok(user.login)
                }
            }
        };
        Ok(self.account.get_or_try_init(|| asked).await?.as_str())
    }
}

impl Forge for Github {
    fn describe(&self) -> String {
        format!("GitHub, {}/{}", self.owner, self.name)
    }

    fn limits(&self) -> Limits {
        LIMITS
    }

    fn shown(&self, _commit: &str, status: &CommitStatus) -> CommitStatus {
        CommitStatus {
            context: text::context(&status.context),
            state: status.state,
            description: text::cut(&status.description, LIMITS.description),
            target_url: status.target_url.clone(),
        }
    }

    async fn set_status(&self, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        let shown = self.shown(commit, status);
        let body = NewStatus {
            state: shown.state.into(),
            context: &shown.context,
            description: &shown.description,
            target_url: shown.target_url.as_deref(),
        };
        let request = self.client.post(self.path(&["statuses", commit])).body(&body);
        request.what(super::commit(commit)).send().await.map(|_| ())
    }

    async fn statuses(&self, commit: &str, prefix: &str) -> Result<Vec<CommitStatus>, ForgeError> {
        let mut found = Vec::new();
        for page in 1.. {
            let request = self.client.get(self.path(&["commits", commit, "status"]));
            let request = request.query("per_page", PAGE).query("page", page).what(super::commit(commit));
            let combined: Combined = request.json().await?;
            let last = combined.statuses.len() < PAGE;
            found.extend(combined.statuses.into_iter().map(|one| CommitStatus {
                context: one.context,
                state: one.state.into(),
                description: one.description.unwrap_or_default(),
                target_url: one.target_url.filter(|url| !url.is_empty()),
            }));
            if last {
                break;
            }
            if found.len() >= MOST {
                return Err(self.client.too_many(MOST, "statuses of a commit"));
            }
        }
        Ok(super::newest(found, prefix))
    }

    async fn open_pull_requests(&self, base: &str) -> Result<Vec<PullRequest>, ForgeError> {
        let mut found: Vec<PullRequest> = Vec::new();
        for page in 1.. {
            let request = self.client.get(self.path(&["pulls"])).query("state", "open").query("base", base);
            let request = request.query("sort", "created").query("direction", "asc");
            let request = request.query("per_page", PAGE).query("page", page).what("pull requests");
            let pulls: Vec<Pull> = request.json().await?;
            let last = pulls.len() < PAGE;
            found.extend(pulls.into_iter().map(PullRequest::from));
            if last {
                break;
            }
            if found.len() >= MOST {
                return Err(self.client.too_many(MOST, "open pull requests"));
            }
        }
        Ok(super::by_number(found, base))
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequest, ForgeError> {
        let id = number.to_string();
        let request = self.client.get(self.path(&["pulls", &id])).what(super::pull(number));
        Ok(request.json::<Pull>().await?.into())
    }

    async fn own_comments(&self, number: u64) -> Result<Vec<Comment>, ForgeError> {
        let account = self.account().await?.to_lowercase();
        let id = number.to_string();
        let mut found: Vec<(u64, Comment)> = Vec::new();
        let mut seen = 0_usize;
        for page in 1.. {
            let request = self.client.get(self.path(&["issues", &id, "comments"]));
            let request = request.query("per_page", PAGE).query("page", page).what(super::pull(number));
            let notes: Vec<Note> = request.json().await?;
            let last = notes.len() < PAGE;
            seen = seen.saturating_add(notes.len());
            let own = |note: &Note| note.user.as_ref().is_some_and(|user| user.login.to_lowercase() == account);
            found.extend(notes.into_iter().filter(own).map(|note| (note.id, note.into())));
            if last {
                break;
            }
            if seen >= MOST {
                return Err(self.client.too_many(MOST, "comments on a pull request"));
            }
        }
        Ok(super::oldest_first(found))
    }

    async fn add_comment(&self, number: u64, body: &str) -> Result<Comment, ForgeError> {
        let id = number.to_string();
        let request = self.client.post(self.path(&["issues", &id, "comments"])).body(&Body { body });
        Ok(request.what(super::pull(number)).json::<Note>().await?.into())
    }

    async fn edit_comment(&self, number: u64, comment: &Comment, body: &str) -> Result<Comment, ForgeError> {
        let request = self.client.patch(self.path(&["issues", "comments", &comment.id])).body(&Body { body });
        let what = format!("comment {} on {}", comment.id, super::pull(number));
        Ok(request.what(what).json::<Note>().await?.into())
    }

    async fn add_pull_request(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        let body = NewPull { title: &new.title, body: &new.body, base: &new.base, head: &new.head };
        let answer = self.client.post(self.path(&["pulls"])).body(&body).what("repository").ask().await?;
        // There is one of these two branches already.
        if answer.status == StatusCode::UNPROCESSABLE_ENTITY && answer.message().contains("already exists") {
            return Err(ForgeError::Conflict { host: answer.host(), message: answer.message() });
        }
        Ok(answer.checked()?.json::<Pull>()?.into())
    }
}
