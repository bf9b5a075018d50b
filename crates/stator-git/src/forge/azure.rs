//! Azure DevOps.

use super::api::{
    Comment, CommitStatus, Forge, ForgeError, Limits, NewPullRequest, PullRequest, PullRequestState, StatusState,
};
use super::client::{Client, Login, Request};
use super::{Http, MOST, text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Mutex;
use tokio::sync::OnceCell;

/// The version of the API that is meant.
const VERSION: &str = "7.1";
/// How many of a page.
const PAGE: usize = 100;
const LIMITS: Limits = Limits { description: 255, comment: 150_000, html: true };
/// How many pull requests' heads are remembered.
const KEPT: usize = 20_000;

/// A repository at Azure DevOps.
pub struct Azure {
    client: Client,
    project: String,
    name: String,
    account: OnceCell<String>,
    /// Which pull requests a commit is the head of, of those read lately: branch policies look at the statuses of pull
    /// requests and not at those of commits.
    heads: Mutex<BTreeMap<u64, String>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    state: State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target_url: Option<String>,
    context: Context,
}

#[derive(Serialize, Deserialize)]
struct Context {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    genre: Option<String>,
}

impl Context {
    /// The first part is the genre; the two are shown with a `/` between them.
    fn of(context: &str) -> Self {
        match context.split_once('/') {
            Some((genre, name)) if !genre.is_empty() && !name.is_empty() => {
                Self { name: name.to_owned(), genre: Some(genre.to_owned()) }
            }
            Some(_) | None => Self { name: context.to_owned(), genre: None },
        }
    }

    fn whole(self) -> String {
        match self.genre.filter(|genre| !genre.is_empty()) {
            Some(genre) => format!("{genre}/{}", self.name),
            None => self.name,
        }
    }
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum State {
    Pending,
    Succeeded,
    Failed,
    Error,
    NotApplicable,
    /// Not set, or what a later version may add.
    #[serde(other)]
    NotSet,
}

impl From<StatusState> for State {
    fn from(state: StatusState) -> Self {
        match state {
            StatusState::Pending => Self::Pending,
            StatusState::Success => Self::Succeeded,
            StatusState::Failure => Self::Failed,
            StatusState::Error => Self::Error,
        }
    }
}

impl From<State> for StatusState {
    fn from(state: State) -> Self {
        match state {
            State::Pending | State::NotSet => Self::Pending,
            State::Succeeded | State::NotApplicable => Self::Success,
            State::Failed => Self::Failure,
            State::Error => Self::Error,
        }
    }
}

#[derive(Deserialize)]
struct All<T> {
    value: Vec<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pull {
    pull_request_id: u64,
    title: String,
    status: PullStatus,
    source_ref_name: String,
    target_ref_name: String,
    /// Missing while Azure has not looked at a new one yet.
    last_merge_source_commit: Option<Commit>,
    fork_source: Option<serde::de::IgnoredAny>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum PullStatus {
    Active,
    Completed,
    #[serde(other)]
    Abandoned,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Commit {
    commit_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Thread {
    id: u64,
    #[serde(default)]
    comments: Vec<Note>,
    #[serde(default)]
    is_deleted: bool,
    /// Present for a thread on a line of the diff.
    thread_context: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Note {
    id: u64,
    #[serde(default)]
    content: String,
    author: Option<User>,
    #[serde(default)]
    comment_type: String,
    #[serde(default)]
    is_deleted: bool,
}

#[derive(Deserialize)]
struct User {
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Connection {
    authenticated_user: User,
}

#[derive(Serialize)]
struct NewThread<'a> {
    comments: [NewNote<'a>; 1],
    /// Closed from the start, so that it never keeps a pull request from being completed.
    status: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewNote<'a> {
    parent_comment_id: u64,
    content: &'a str,
    comment_type: &'static str,
}

#[derive(Serialize)]
struct Content<'a> {
    content: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewPull<'a> {
    title: &'a str,
    description: &'a str,
    source_ref_name: String,
    target_ref_name: String,
}

/// `refs/heads/main` as `main`.
fn branch(name: &str) -> String {
    name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()
}

impl Azure {
    pub(super) fn new(http: Http, place: super::address::Place, login: Login) -> Self {
        let client = Client::new(http, place.api, login);
        Self { client, project: place.owner, name: place.name, account: OnceCell::new(), heads: Mutex::default() }
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [[&self.project, "_apis", "git", "repositories", &self.name].as_slice(), rest].concat()
    }

    fn get<'a>(&'a self, rest: &[&'a str]) -> Request<'a> {
        self.client.get(self.path(rest)).query("api-version", VERSION)
    }

    fn post<'a>(&'a self, rest: &[&'a str]) -> Request<'a> {
        self.client.post(self.path(rest)).query("api-version", VERSION)
    }

    async fn account(&self) -> Result<&str, ForgeError> {
        let asked = async {
            // Never left its preview, and is what Microsoft's own clients ask.
            let request = self.client.get(["_apis", "connectionData"]).query("api-version", "7.1-preview");
            Ok(request.what("the token's account").json::<Connection>().await?.authenticated_user.id)
        };
        Ok(self.account.get_or_try_init(|| asked).await?.as_str())
    }

    fn read(&self, pull: Pull) -> PullRequest {
        let number = pull.pull_request_id;
        let fork = pull.fork_source.is_some();
        let mut url = self.client.api().clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend([&self.project, "_git", &self.name, "pullrequest", &number.to_string()]);
        }
        let head = pull.last_merge_source_commit.map(|commit| commit.commit_id).unwrap_or_default();
        let state = match pull.status {
            PullStatus::Active => PullRequestState::Open,
            PullStatus::Completed => PullRequestState::Merged,
            PullStatus::Abandoned => PullRequestState::Closed,
        };
        if let Ok(mut heads) = self.heads.lock() {
            match state {
                PullRequestState::Open if heads.len() < KEPT => drop(heads.insert(number, head.clone())),
                PullRequestState::Open | PullRequestState::Merged | PullRequestState::Closed => {
                    drop(heads.remove(&number));
                }
            }
        }
        PullRequest {
            number,
            title: pull.title,
            state,
            base: branch(&pull.target_ref_name),
            head,
            // Azure has a ref of the merge, and none of the head.
            fetch: None,
            branch: (!fork).then(|| branch(&pull.source_ref_name)),
            fork,
            url: url.into(),
        }
    }

    fn brought_by(&self, commit: &str) -> Vec<u64> {
        let Ok(heads) = self.heads.lock() else { return Vec::new() };
        heads.iter().filter(|(_, head)| *head == commit).map(|(number, _)| *number).collect()
    }
}

impl Forge for Azure {
    fn describe(&self) -> String {
        format!("Azure DevOps, {}/{}", self.project, self.name)
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
        let body = Status {
            state: shown.state.into(),
            description: Some(shown.description),
            target_url: shown.target_url,
            context: Context::of(&shown.context),
        };
        let what = super::commit(commit);
        self.post(&["commits", commit, "statuses"]).body(&body).what(what).send().await?;
        for number in self.brought_by(commit) {
            let id = number.to_string();
            let request = self.post(&["pullRequests", &id, "statuses"]).body(&body);
            request.what(super::pull(number)).send().await?;
        }
        Ok(())
    }

    async fn statuses(&self, commit: &str, prefix: &str) -> Result<Vec<CommitStatus>, ForgeError> {
        let mut found = Vec::new();
        loop {
            let request = self.get(&["commits", commit, "statuses"]).query("latestOnly", true);
            let request = request.query("top", PAGE).query("skip", found.len()).what(super::commit(commit));
            let page = request.json::<All<Status>>().await?.value;
            let last = page.len() < PAGE;
            found.extend(page.into_iter().map(|one| CommitStatus {
                context: one.context.whole(),
                state: one.state.into(),
                description: one.description.unwrap_or_default(),
                target_url: one.target_url.filter(|url| !url.is_empty()),
            }));
            if last {
                return Ok(super::newest(found, prefix));
            }
            if found.len() >= MOST {
                return Err(self.client.too_many(MOST, "statuses of a commit"));
            }
        }
    }

    async fn open_pull_requests(&self, base: &str) -> Result<Vec<PullRequest>, ForgeError> {
        let mut found: Vec<PullRequest> = Vec::new();
        loop {
            let request = self.get(&["pullrequests"]).query("searchCriteria.status", "active");
            let request = request.query("searchCriteria.targetRefName", format!("refs/heads/{base}"));
            let request = request.query("$top", PAGE).query("$skip", found.len()).what("pull requests");
            let page = request.json::<All<Pull>>().await?.value;
            let last = page.len() < PAGE;
            found.extend(page.into_iter().map(|pull| self.read(pull)));
            if last {
                return Ok(super::by_number(found, base));
            }
            if found.len() >= MOST {
                return Err(self.client.too_many(MOST, "open pull requests"));
            }
        }
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequest, ForgeError> {
        let id = number.to_string();
        Ok(self.read(self.get(&["pullrequests", &id]).what(super::pull(number)).json().await?))
    }

    async fn own_comments(&self, number: u64) -> Result<Vec<Comment>, ForgeError> {
        let account = self.account().await?.to_lowercase();
        let id = number.to_string();
        // All at once: this list has no pages.
        let request = self.get(&["pullRequests", &id, "threads"]).what(super::pull(number));
        let threads = request.json::<All<Thread>>().await?.value;
        let mut found: Vec<(u64, Comment)> = Vec::new();
        for thread in threads.into_iter().filter(|thread| !thread.is_deleted && thread.thread_context.is_none()) {
            // What begins a thread; answers to others are not stator's to write.
            let Some(note) = thread.comments.into_iter().next() else { continue };
            let own = note.author.as_ref().is_some_and(|user| user.id.to_lowercase() == account);
            if own && !note.is_deleted && note.comment_type != "system" {
                found.push((thread.id, Comment { id: format!("{}/{}", thread.id, note.id), body: note.content }));
            }
        }
        Ok(super::oldest_first(found))
    }

    async fn add_comment(&self, number: u64, body: &str) -> Result<Comment, ForgeError> {
        let id = number.to_string();
        let new = NewThread {
            comments: [NewNote { parent_comment_id: 0, content: body, comment_type: "text" }],
            status: "closed",
        };
        let request = self.post(&["pullRequests", &id, "threads"]).body(&new).what(super::pull(number));
        let thread: Thread = request.json().await?;
        let note = thread.comments.into_iter().next();
        let note = note.ok_or_else(|| self.client.unreadable("the new thread has no comment"))?;
        Ok(Comment { id: format!("{}/{}", thread.id, note.id), body: note.content })
    }

    async fn edit_comment(&self, number: u64, comment: &Comment, body: &str) -> Result<Comment, ForgeError> {
        let parts = comment.id.split_once('/');
        let (thread, id) = parts.ok_or_else(|| self.client.unreadable("the comment's id names no thread"))?;
        let number_text = number.to_string();
        let path = self.path(&["pullRequests", &number_text, "threads", thread, "comments", id]);
        let request = self.client.patch(path).query("api-version", VERSION).body(&Content { content: body });
        let what = format!("comment {} on {}", comment.id, super::pull(number));
        let note: Note = request.what(what).json().await?;
        Ok(Comment { id: comment.id.clone(), body: note.content })
    }

    async fn add_pull_request(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        let body = NewPull {
            title: &new.title,
            description: &new.body,
            source_ref_name: format!("refs/heads/{}", new.head),
            target_ref_name: format!("refs/heads/{}", new.base),
        };
        Ok(self.read(self.post(&["pullrequests"]).body(&body).what("repository").json().await?))
    }
}
