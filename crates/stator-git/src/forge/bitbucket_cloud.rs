//! Bitbucket Cloud.

use super::api::{
    Comment, CommitStatus, Forge, ForgeError, Limits, NewPullRequest, PullRequest, PullRequestState, StatusState,
};
use super::client::{Client, Login, Request};
use super::{Http, MOST, text};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Mutex;
use tokio::sync::OnceCell;

/// How many of a page; pull requests come fifty at most.
const PAGE: usize = 100;
const PULLS: usize = 50;
/// No limit of comments is documented; 200 kB were taken, and more refused. HTML is shown as text.
const LIMITS: Limits = Limits { description: 255, comment: 100_000, html: false };
/// How many short hashes are looked up at a time, and kept.
const LOOKUPS: usize = 4;
const KEPT: usize = 20_000;

/// A repository at Bitbucket Cloud.
pub struct BitbucketCloud {
    client: Client,
    workspace: String,
    slug: String,
    account: OnceCell<String>,
    /// Full hashes by the twelve characters that pull requests name them by.
    hashes: Mutex<BTreeMap<String, String>>,
}

#[derive(Serialize, Deserialize)]
struct Status {
    key: String,
    state: State,
    #[serde(default)]
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    url: String,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum State {
    Inprogress,
    Successful,
    Failed,
    Stopped,
}

impl From<StatusState> for State {
    fn from(state: StatusState) -> Self {
        match state {
            StatusState::Pending => Self::Inprogress,
            StatusState::Success => Self::Successful,
            StatusState::Failure | StatusState::Error => Self::Failed,
        }
    }
}

impl From<State> for StatusState {
    fn from(state: State) -> Self {
        match state {
            State::Inprogress => Self::Pending,
            State::Successful => Self::Success,
            State::Failed => Self::Failure,
            State::Stopped => Self::Error,
        }
    }
}

#[derive(Deserialize)]
struct Page<T> {
    values: Vec<T>,
    /// The address of the next page.
    next: Option<String>,
}

#[derive(Deserialize)]
struct Pull {
    id: u64,
    title: String,
    state: PullState,
    source: Side,
    destination: Side,
    links: Links,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum PullState {
    Open,
    Merged,
    /// Declined or superseded.
    #[serde(other)]
    Closed,
}

#[derive(Deserialize)]
struct Side {
    branch: Branch,
    /// Null where the branch is gone.
    commit: Option<Commit>,
    /// Null where the fork is gone.
    repository: Option<Repository>,
}

#[derive(Serialize, Deserialize)]
struct Branch {
    name: String,
}

#[derive(Deserialize)]
struct Commit {
    hash: String,
}

#[derive(Deserialize)]
struct Repository {
    full_name: String,
}

#[derive(Deserialize)]
struct Links {
    html: Link,
}

#[derive(Deserialize)]
struct Link {
    href: String,
}

#[derive(Deserialize)]
struct Note {
    id: u64,
    #[serde(default)]
    content: Content,
    user: Option<User>,
    #[serde(default)]
    deleted: bool,
    /// Present for a comment on a line of the diff.
    inline: Option<serde::de::IgnoredAny>,
}

#[derive(Default, Serialize, Deserialize)]
struct Content {
    #[serde(default)]
    raw: String,
}

#[derive(Deserialize)]
struct User {
    uuid: String,
}

#[derive(Serialize)]
struct NewNote<'a> {
    content: NewContent<'a>,
}

#[derive(Serialize)]
struct NewContent<'a> {
    raw: &'a str,
}

#[derive(Serialize)]
struct NewPull<'a> {
    title: &'a str,
    description: &'a str,
    source: NewSide<'a>,
    destination: NewSide<'a>,
}

#[derive(Serialize)]
struct NewSide<'a> {
    branch: NewBranch<'a>,
}

#[derive(Serialize)]
struct NewBranch<'a> {
    name: &'a str,
}

impl From<Note> for Comment {
    fn from(note: Note) -> Self {
        Self { id: note.id.to_string(), body: note.content.raw }
    }
}

impl BitbucketCloud {
    pub(super) fn new(http: Http, place: super::address::Place, login: Login) -> Self {
        let client = Client::new(http, place.api, login);
        Self { client, workspace: place.owner, slug: place.name, account: OnceCell::new(), hashes: Mutex::default() }
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [["repositories", &self.workspace, &self.slug].as_slice(), rest].concat()
    }

    async fn account(&self) -> Result<&str, ForgeError> {
        let asked = async {
            let user: User = self.client.get(["user"]).what("the token's account").json().await?;
            Ok(user.uuid)
        };
        Ok(self.account.get_or_try_init(|| asked).await?.as_str())
    }

    /// Every value of a list, page after page.
    async fn all<T: DeserializeOwned>(
        &self,
        first: Request<'_>,
        what: &str,
        things: &str,
    ) -> Result<Vec<T>, ForgeError> {
        let mut page: Page<T> = first.what(what).json().await?;
        let mut found = Vec::new();
        loop {
            let empty = page.values.is_empty();
            found.extend(page.values);
            match page.next {
                Some(next) if !empty && found.len() < MOST => {
                    page = self.client.follow(&next)?.what(what).json().await?;
                }
                Some(_) if !empty => return Err(self.client.too_many(MOST, things)),
                Some(_) | None => return Ok(found),
            }
        }
    }

    /// The pull request, with the whole hash of its newest commit where it is one of this repository.
    async fn read(&self, pull: Pull) -> Result<PullRequest, ForgeError> {
        let own = |side: &Side| side.repository.as_ref().map(|repository| repository.full_name.to_lowercase());
        let fork = own(&pull.source).is_none() || own(&pull.source) != own(&pull.destination);
        let short = pull.source.commit.map(|commit| commit.hash).unwrap_or_default();
        // A fork's commits cannot be fetched from here, so nobody needs their whole names.
        let head = if fork || short.is_empty() { short } else { self.whole(short).await? };
        Ok(PullRequest {
            number: pull.id,
            title: pull.title,
            state: match pull.state {
                PullState::Open => PullRequestState::Open,
                PullState::Merged => PullRequestState::Merged,
                PullState::Closed => PullRequestState::Closed,
            },
            base: pull.destination.branch.name,
            head,
            fetch: None,
            branch: (!fork).then_some(pull.source.branch.name),
            fork,
            url: pull.links.html.href,
        })
    }

    /// Pull requests name commits by twelve characters. What was looked up once stays so.
    async fn whole(&self, short: String) -> Result<String, ForgeError> {
        if short.len() >= 40 {
            return Ok(short);
        }
        if let Some(known) = self.hashes.lock().ok().and_then(|hashes| hashes.get(&short).cloned()) {
            return Ok(known);
        }
        let request = self.client.get(self.path(&["commit", &short])).what(super::commit(&short));
        let commit: Commit = match request.json().await {
            Ok(commit) => commit,
            // Its branch went meanwhile. The short name says enough for a list.
            Err(ForgeError::NotFound { .. }) => return Ok(short),
            Err(error) => return Err(error),
        };
        if let Ok(mut hashes) = self.hashes.lock() {
            if hashes.len() >= KEPT {
                hashes.clear();
            }
            hashes.insert(short, commit.hash.clone());
        }
        Ok(commit.hash)
    }

    /// A page of a commit; every status must lead somewhere.
    fn page_of(&self, commit: &str) -> String {
        format!("https://bitbucket.org/{}/{}/commits/{commit}", self.workspace, self.slug)
    }
}

impl Forge for BitbucketCloud {
    fn describe(&self) -> String {
        format!("Bitbucket, {}/{}", self.workspace, self.slug)
    }

    fn limits(&self) -> Limits {
        LIMITS
    }

    fn shown(&self, commit: &str, status: &CommitStatus) -> CommitStatus {
        CommitStatus {
            context: text::context(&status.context),
            state: State::from(status.state).into(),
            description: text::cut(&status.description, LIMITS.description),
            target_url: Some(status.target_url.clone().unwrap_or_else(|| self.page_of(commit))),
        }
    }

    async fn set_status(&self, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        let shown = self.shown(commit, status);
        let body = Status {
            key: text::key(&shown.context),
            state: shown.state.into(),
            name: shown.context,
            description: shown.description,
            url: shown.target_url.unwrap_or_default(),
        };
        let request = self.client.post(self.path(&["commit", commit, "statuses", "build"])).body(&body);
        request.what(super::commit(commit)).send().await.map(|_| ())
    }

    async fn statuses(&self, commit: &str, prefix: &str) -> Result<Vec<CommitStatus>, ForgeError> {
        let request = self.client.get(self.path(&["commit", commit, "statuses"])).query("pagelen", PAGE);
        let all: Vec<Status> = self.all(request, &super::commit(commit), "statuses of a commit").await?;
        // Only what is known by its context: another's name may be anything.
        let ours = all.into_iter().filter(|one| one.key == text::key(&one.name)).map(|one| CommitStatus {
            context: one.name,
            state: one.state.into(),
            description: one.description,
            target_url: Some(one.url).filter(|url| !url.is_empty()),
        });
        Ok(super::newest(ours.collect(), prefix))
    }

    async fn open_pull_requests(&self, base: &str) -> Result<Vec<PullRequest>, ForgeError> {
        let quoted = base.replace('\\', "\\\\").replace('"', "\\\"");
        let request = self.client.get(self.path(&["pullrequests"])).query("state", "OPEN").query("pagelen", PULLS);
        let request = request.query("q", format!("state = \"OPEN\" AND destination.branch.name = \"{quoted}\""));
        let pulls: Vec<Pull> = self.all(request, "pull requests", "open pull requests").await?;
        let read = stream::iter(pulls).map(|pull| self.read(pull)).buffer_unordered(LOOKUPS);
        Ok(super::by_number(read.try_collect().await?, base))
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequest, ForgeError> {
        let id = number.to_string();
        let request = self.client.get(self.path(&["pullrequests", &id])).what(super::pull(number));
        self.read(request.json().await?).await
    }

    async fn own_comments(&self, number: u64) -> Result<Vec<Comment>, ForgeError> {
        let account = self.account().await?.to_lowercase();
        let id = number.to_string();
        let request = self.client.get(self.path(&["pullrequests", &id, "comments"])).query("pagelen", PAGE);
        let notes: Vec<Note> = self.all(request, &super::pull(number), "comments on a pull request").await?;
        let own = |note: &Note| {
            let by_us = note.user.as_ref().is_some_and(|user| user.uuid.to_lowercase() == account);
            by_us && !note.deleted && note.inline.is_none()
        };
        Ok(super::oldest_first(notes.into_iter().filter(own).map(|note| (note.id, note.into())).collect()))
    }

    async fn add_comment(&self, number: u64, body: &str) -> Result<Comment, ForgeError> {
        let id = number.to_string();
        let new = NewNote { content: NewContent { raw: body } };
        let request = self.client.post(self.path(&["pullrequests", &id, "comments"])).body(&new);
        Ok(request.what(super::pull(number)).json::<Note>().await?.into())
    }

    async fn edit_comment(&self, number: u64, comment: &Comment, body: &str) -> Result<Comment, ForgeError> {
        let id = number.to_string();
        let new = NewNote { content: NewContent { raw: body } };
        let request = self.client.put(self.path(&["pullrequests", &id, "comments", &comment.id])).body(&new);
        let what = format!("comment {} on {}", comment.id, super::pull(number));
        Ok(request.what(what).json::<Note>().await?.into())
    }

    async fn add_pull_request(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        let side = |name| NewSide { branch: NewBranch { name } };
        let body = NewPull {
            title: &new.title,
            description: &new.body,
            source: side(&new.head),
            destination: side(&new.base),
        };
        let request = self.client.post(self.path(&["pullrequests"])).body(&body).what("repository");
        self.read(request.json().await?).await
    }
}
