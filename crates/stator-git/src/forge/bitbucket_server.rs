//! Bitbucket Data Center.

use super::api::{
    Comment, CommitStatus, Forge, ForgeError, Limits, NewPullRequest, PullRequest, PullRequestState, StatusState,
};
use super::client::{Answer, Client, Login, Request};
use super::{Http, MOST, text};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many of a page.
const PAGE: usize = 100;
const LIMITS: Limits = Limits { description: 255, comment: 32_768, html: false };

/// A repository at a Bitbucket Data Center.
pub struct BitbucketDataCenter {
    client: Client,
    /// The same server's older API, which alone lists the statuses of a commit.
    builds: Client,
    project: String,
    slug: String,
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
    Cancelled,
    #[serde(other)]
    Unknown,
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
            State::Cancelled | State::Unknown => Self::Error,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<T> {
    values: Vec<T>,
    #[serde(default)]
    is_last_page: bool,
    next_page_start: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pull {
    id: u64,
    title: String,
    state: PullState,
    from_ref: Side,
    to_ref: Side,
    #[serde(default)]
    links: Links,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum PullState {
    Open,
    Merged,
    #[serde(other)]
    Declined,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Side {
    display_id: String,
    latest_commit: String,
    repository: Repository,
}

#[derive(Deserialize)]
struct Repository {
    slug: String,
    project: Project,
}

impl Repository {
    fn is(&self, other: &Self) -> bool {
        self.slug.eq_ignore_ascii_case(&other.slug) && self.project.key.eq_ignore_ascii_case(&other.project.key)
    }
}

#[derive(Deserialize)]
struct Project {
    key: String,
}

#[derive(Default, Deserialize)]
struct Links {
    #[serde(rename = "self", default)]
    itself: Vec<Link>,
}

#[derive(Deserialize)]
struct Link {
    href: String,
}

#[derive(Deserialize)]
struct Activity {
    comment: Option<Note>,
    /// Present for a comment on a line of the diff.
    #[serde(rename = "commentAnchor")]
    anchor: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Note {
    id: u64,
    version: u64,
    text: String,
    author: Option<User>,
}

#[derive(Deserialize)]
struct User {
    name: String,
}

#[derive(Serialize)]
struct NewNote<'a> {
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewPull<'a> {
    title: &'a str,
    description: &'a str,
    from_ref: NewSide,
    to_ref: NewSide,
}

#[derive(Serialize)]
struct NewSide {
    id: String,
}

impl From<Pull> for PullRequest {
    fn from(pull: Pull) -> Self {
        let fork = !pull.from_ref.repository.is(&pull.to_ref.repository);
        Self {
            number: pull.id,
            title: pull.title,
            state: match pull.state {
                PullState::Open => PullRequestState::Open,
                PullState::Merged => PullRequestState::Merged,
                PullState::Declined => PullRequestState::Closed,
            },
            base: pull.to_ref.display_id,
            head: pull.from_ref.latest_commit,
            fetch: Some(format!("refs/pull-requests/{}/from", pull.id)),
            branch: (!fork).then_some(pull.from_ref.display_id),
            fork,
            url: pull.links.itself.into_iter().next().map(|link| link.href).unwrap_or_default(),
        }
    }
}

impl From<Note> for Comment {
    fn from(note: Note) -> Self {
        // An edit must name the version that it is of.
        Self { id: format!("{}:{}", note.id, note.version), body: note.text }
    }
}

impl BitbucketDataCenter {
    pub(super) fn new(http: Http, place: super::address::Place, login: Login) -> Self {
        let mut older = place.api.clone();
        let root = place.api.path().strip_suffix("/rest/api/latest").unwrap_or_default().to_owned();
        older.set_path(&format!("{root}/rest/build-status/latest"));
        // Without it, requests with a body are taken for a page's that was forged.
        let new = |api| Client::new(http.clone(), api, login.clone()).with("x-atlassian-token", "no-check");
        Self { client: new(place.api), builds: new(older), project: place.owner, slug: place.name }
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [["projects", &self.project, "repos", &self.slug].as_slice(), rest].concat()
    }

    /// Every value of a list, page after page, and the last answer.
    async fn all<'a, T: DeserializeOwned>(
        &'a self,
        page: impl Fn() -> Request<'a>,
        things: &str,
    ) -> Result<(Vec<T>, Answer), ForgeError> {
        let mut found = Vec::new();
        let mut start = 0;
        loop {
            let answer = page().query("limit", PAGE).query("start", start).send().await?;
            let read: Page<T> = answer.json()?;
            found.extend(read.values);
            match read.next_page_start {
                Some(next) if !read.is_last_page && next > start => start = next,
                Some(_) | None => return Ok((found, answer)),
            }
            if found.len() >= MOST {
                return Err(self.client.too_many(MOST, things));
            }
        }
    }

    /// A page of a commit; every status must lead somewhere.
    fn page_of(&self, commit: &str) -> String {
        let mut page = self.client.api().clone();
        let root = page.path().strip_suffix("/rest/api/latest").unwrap_or_default().to_owned();
        page.set_path(&root);
        if let Ok(mut path) = page.path_segments_mut() {
            path.pop_if_empty().extend(self.path(&["commits", commit]));
        }
        page.into()
    }

    /// The parts of a comment's id.
    fn parts(&self, comment: &Comment) -> Result<(String, u64), ForgeError> {
        let parts = comment.id.split_once(':').and_then(|(id, version)| Some((id.to_owned(), version.parse().ok()?)));
        parts.ok_or_else(|| self.client.unreadable("the comment's id has no version"))
    }
}

impl Forge for BitbucketDataCenter {
    fn describe(&self) -> String {
        format!("Bitbucket, {}/{}", self.project, self.slug)
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
        let request = self.client.post(self.path(&["commits", commit, "builds"])).body(&body);
        request.what(super::commit(commit)).send().await.map(|_| ())
    }

    async fn statuses(&self, commit: &str, prefix: &str) -> Result<Vec<CommitStatus>, ForgeError> {
        let page = || self.builds.get(["commits", commit]).what(super::commit(commit));
        let (all, _): (Vec<Status>, _) = self.all(page, "statuses of a commit").await?;
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
        let onto = format!("refs/heads/{base}");
        let page = || {
            let request = self.client.get(self.path(&["pull-requests"])).query("state", "OPEN");
            request.query("direction", "INCOMING").query("at", &onto).query("order", "OLDEST").what("pull requests")
        };
        let (pulls, _): (Vec<Pull>, _) = self.all(page, "open pull requests").await?;
        Ok(super::by_number(pulls.into_iter().map(PullRequest::from).collect(), base))
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequest, ForgeError> {
        let id = number.to_string();
        let request = self.client.get(self.path(&["pull-requests", &id])).what(super::pull(number));
        Ok(request.json::<Pull>().await?.into())
    }

    async fn own_comments(&self, number: u64) -> Result<Vec<Comment>, ForgeError> {
        let id = number.to_string();
        let page = || self.client.get(self.path(&["pull-requests", &id, "activities"])).what(super::pull(number));
        let (activities, answer): (Vec<Activity>, _) = self.all(page, "activities of a pull request").await?;
        // No call says who a token belongs to; every answer to one does.
        let account = answer.header("x-ausername").unwrap_or_default().to_lowercase();
        if account.is_empty() {
            let message = "it does not say whose token this is (the header X-AUSERNAME)".to_owned();
            return Err(ForgeError::Unauthorized { host: answer.host(), message });
        }
        // One activity a comment at its newest version, and one more for every edit.
        let mut newest: BTreeMap<u64, Note> = BTreeMap::new();
        for activity in activities.into_iter().filter(|activity| activity.anchor.is_none()) {
            let Some(note) = activity.comment else { continue };
            let own = note.author.as_ref().is_some_and(|user| user.name.to_lowercase() == account);
            if own && newest.get(&note.id).is_none_or(|known| known.version < note.version) {
                newest.insert(note.id, note);
            }
        }
        Ok(newest.into_values().map(Comment::from).collect())
    }

    async fn add_comment(&self, number: u64, body: &str) -> Result<Comment, ForgeError> {
        let id = number.to_string();
        let new = NewNote { text: body, version: None };
        let request = self.client.post(self.path(&["pull-requests", &id, "comments"])).body(&new);
        Ok(request.what(super::pull(number)).json::<Note>().await?.into())
    }

    async fn edit_comment(&self, number: u64, comment: &Comment, body: &str) -> Result<Comment, ForgeError> {
        let (id, version) = self.parts(comment)?;
        let number_text = number.to_string();
        let new = NewNote { text: body, version: Some(version) };
        let request = self.client.put(self.path(&["pull-requests", &number_text, "comments", &id])).body(&new);
        let what = format!("comment {id} on {}", super::pull(number));
        Ok(request.what(what).json::<Note>().await?.into())
    }

    async fn add_pull_request(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        let side = |name: &str| NewSide { id: format!("refs/heads/{name}") };
        let body =
            NewPull { title: &new.title, description: &new.body, from_ref: side(&new.head), to_ref: side(&new.base) };
        let request = self.client.post(self.path(&["pull-requests"])).body(&body).what("repository");
        Ok(request.json::<Pull>().await?.into())
    }
}
