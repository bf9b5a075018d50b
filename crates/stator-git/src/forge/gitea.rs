//! Gitea and Forgejo.

use super::api::{
    Comment, CommitStatus, Forge, ForgeError, Limits, NewPullRequest, PullRequest, PullRequestState, StatusState,
};
use super::client::{Client, Login};
use super::{Http, MOST, text};
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

/// How many of a page: the most that a server gives as it comes (`MAX_RESPONSE_ITEMS`). One may be set to give fewer.
const PAGE: usize = 50;
/// No limit is documented for descriptions (they are shown on one line), nor for comments.
const LIMITS: Limits = Limits { description: 255, comment: 65_536, html: true };

/// A repository at a Gitea or Forgejo server.
pub struct Gitea {
    client: Client,
    owner: String,
    name: String,
    account: OnceCell<String>,
}

#[derive(Serialize)]
struct NewStatus<'a> {
    state: State,
    context: &'a str,
    description: &'a str,
    target_url: &'a str,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Pending,
    #[serde(alias = "skipped")]
    Success,
    #[serde(alias = "warning")]
    Failure,
    /// Also what a later version may add.
    #[serde(other)]
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
    /// Null where there is none.
    statuses: Option<Vec<Status>>,
}

#[derive(Deserialize)]
struct Status {
    status: State,
    context: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    target_url: String,
}

#[derive(Deserialize)]
struct Pull {
    number: u64,
    title: String,
    state: OpenOrClosed,
    #[serde(default)]
    merged: bool,
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
    /// 0 or less where the fork is gone.
    #[serde(default)]
    repo_id: i64,
}

#[derive(Deserialize)]
struct Note {
    id: u64,
    #[serde(default)]
    body: String,
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

impl From<Note> for Comment {
    fn from(note: Note) -> Self {
        Self { id: note.id.to_string(), body: note.body }
    }
}

impl Gitea {
    pub(super) fn new(http: Http, place: super::address::Place, login: Login) -> Self {
        let client = Client::new(http, place.api, login);
        Self { client, owner: place.owner, name: place.name, account: OnceCell::new() }
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [["repos", &self.owner, &self.name].as_slice(), rest].concat()
    }

    async fn account(&self) -> Result<&str, ForgeError> {
        let asked = async {
            let user: User = self.client.get(["user"]).what("the token's account").json().await?;
            Ok(user.login)
        };
        Ok(self.account.get_or_try_init(|| asked).await?.as_str())
    }
}

impl Forge for Gitea {
    fn describe(&self) -> String {
        format!("Gitea, {}/{}", self.owner, self.name)
    }

    fn limits(&self) -> Limits {
        LIMITS
    }

    fn shown(&self, _commit: &str, status: &CommitStatus) -> CommitStatus {
        CommitStatus {
            // The server trims all three; `cut` and `context` have done so before.
            context: text::context(&status.context),
            state: status.state,
            description: text::cut(&status.description, LIMITS.description),
            target_url: status.target_url.as_deref().map(|url| url.trim().to_owned()).filter(|url| !url.is_empty()),
        }
    }

    async fn set_status(&self, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        let shown = self.shown(commit, status);
        let body = NewStatus {
            state: shown.state.into(),
            context: &shown.context,
            description: &shown.description,
            target_url: shown.target_url.as_deref().unwrap_or_default(),
        };
        let request = self.client.post(self.path(&["statuses", commit])).body(&body);
        request.what(super::commit(commit)).send().await.map(|_| ())
    }

    async fn statuses(&self, commit: &str, prefix: &str) -> Result<Vec<CommitStatus>, ForgeError> {
        let mut found = Vec::new();
        for page in 1.. {
            let request = self.client.get(self.path(&["commits", commit, "status"]));
            let request = request.query("limit", PAGE).query("page", page).what(super::commit(commit));
            let statuses = request.json::<Combined>().await?.statuses.unwrap_or_default();
            // To the first empty page, as a server may be set to give fewer than asked for.
            if statuses.is_empty() {
                break;
            }
            let before = found.len();
            found.extend(statuses.into_iter().map(|one| CommitStatus {
                context: one.context,
                state: one.status.into(),
                description: one.description,
                target_url: Some(one.target_url).filter(|url| !url.is_empty()),
            }));
            // Old servers give the same page for ever.
            if super::repeats(&found, before) {
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
            // Old servers do not know `base` and list those onto every branch.
            let request = self.client.get(self.path(&["pulls"])).query("state", "open").query("base", base);
            let request = request.query("sort", "oldest");
            let request = request.query("limit", PAGE).query("page", page).what("pull requests");
            let pulls: Vec<Pull> = request.json().await?;
            if pulls.is_empty() {
                break;
            }
            found.extend(pulls.into_iter().map(PullRequest::from));
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
        // All at once: this list has no pages.
        let request = self.client.get(self.path(&["issues", &id, "comments"])).what(super::pull(number));
        let notes: Vec<Note> = request.json().await?;
        let own = |note: &Note| note.user.as_ref().is_some_and(|user| user.login.to_lowercase() == account);
        Ok(super::oldest_first(notes.into_iter().filter(own).map(|note| (note.id, note.into())).collect()))
    }

    async fn add_comment(&self, number: u64, body: &str) -> Result<Comment, ForgeError> {
        let id = number.to_string();
        let request = self.client.post(self.path(&["issues", &id, "comments"])).body(&Body { body });
        Ok(request.what(super::pull(number)).json::<Note>().await?.into())
    }

    async fn edit_comment(&self, number: u64, comment: &Comment, body: &str) -> Result<Comment, ForgeError> {
        let request = self.client.patch(self.path(&["issues", "comments", &comment.id])).body(&Body { body });
        let what = format!("comment {} on {}", comment.id, super::pull(number));
        let answer = request.what(what).send().await?;
        // 204 where the text was this one already.
        if answer.body_is_empty() {
            return Ok(Comment { id: comment.id.clone(), body: body.to_owned() });
        }
        Ok(answer.json::<Note>()?.into())
    }

    async fn add_pull_request(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        let body = NewPull { title: &new.title, body: &new.body, base: &new.base, head: &new.head };
        let request = self.client.post(self.path(&["pulls"])).body(&body).what("repository");
        Ok(request.json::<Pull>().await?.into())
    }
}
