//! GitLab.
//!
//! A status is a job there, in a pipeline, and goes through a state machine: what is a plain write elsewhere can be refused
//! for being so already. See `app/services/ci/create_commit_status_service.rb` in GitLab.

use super::api::{
    Comment, CommitStatus, Forge, ForgeError, Limits, NewPullRequest, PullRequest, PullRequestState, StatusState,
};
use super::client::{Answer, Client, Login};
use super::{Http, MOST, text};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

/// How many of a page: the most that GitLab gives.
const PAGE: usize = 100;
/// Comments may have a million characters each, so fewer of them are asked for at once.
const NOTES: usize = 20;
const LIMITS: Limits = Limits { description: 255, comment: 1_000_000, html: true };
/// The longest address behind a status.
const URL_LIMIT: usize = 255;

/// A project at GitLab.
pub struct Gitlab {
    client: Client,
    /// With all groups; one part of a path, escaped.
    project: String,
    account: OnceCell<String>,
}

#[derive(Serialize)]
struct NewStatus<'a> {
    state: State,
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_url: Option<&'a str>,
    /// The branch of the pipeline; only where GitLab cannot find it by itself.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    branch: Option<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Pending,
    Running,
    Success,
    Failed,
    Canceled,
    Skipped,
    /// What a later version may add.
    #[serde(other)]
    Unknown,
}

impl From<StatusState> for State {
    fn from(state: StatusState) -> Self {
        match state {
            StatusState::Pending => Self::Running,
            StatusState::Success => Self::Success,
            // GitLab has one word for both; the description says whose fault it is.
            StatusState::Failure | StatusState::Error => Self::Failed,
        }
    }
}

impl From<State> for StatusState {
    fn from(state: State) -> Self {
        match state {
            State::Pending | State::Running => Self::Pending,
            State::Success | State::Skipped => Self::Success,
            State::Failed => Self::Failure,
            State::Canceled | State::Unknown => Self::Error,
        }
    }
}

#[derive(Deserialize)]
struct Status {
    status: State,
    name: String,
    description: Option<String>,
    target_url: Option<String>,
}

#[derive(Deserialize)]
struct Merge {
    iid: u64,
    title: String,
    state: MergeState,
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
enum MergeState {
    Opened,
    Merged,
    /// While it is merged.
    Locked,
    #[serde(other)]
    Closed,
}

#[derive(Deserialize)]
struct Note {
    id: u64,
    #[serde(default)]
    body: String,
    #[serde(default)]
    system: bool,
    author: Option<User>,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Serialize)]
struct Body<'a> {
    body: &'a str,
}

#[derive(Serialize)]
struct NewMerge<'a> {
    title: &'a str,
    description: &'a str,
    target_branch: &'a str,
    source_branch: &'a str,
}

impl From<Merge> for PullRequest {
    fn from(merge: Merge) -> Self {
        let fork = merge.source_project_id != Some(merge.target_project_id);
        Self {
            number: merge.iid,
            title: merge.title,
            state: match merge.state {
                MergeState::Opened | MergeState::Locked => PullRequestState::Open,
                MergeState::Merged => PullRequestState::Merged,
                MergeState::Closed => PullRequestState::Closed,
            },
            base: merge.target_branch,
            head: merge.sha.unwrap_or_default(),
            fetch: Some(format!("refs/merge-requests/{}/head", merge.iid)),
            branch: (!fork).then_some(merge.source_branch),
            fork,
            url: merge.web_url,
        }
    }
}

impl From<Note> for Comment {
    fn from(note: Note) -> Self {
        Self { id: note.id.to_string(), body: note.body }
    }
}

impl Gitlab {
    pub(super) fn new(http: Http, place: super::address::Place, login: Login) -> Self {
        let client = Client::new(http, place.api, login);
        Self { client, project: format!("{}/{}", place.owner, place.name), account: OnceCell::new() }
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [["projects", self.project.as_str()].as_slice(), rest].concat()
    }

    async fn account(&self) -> Result<&str, ForgeError> {
        let asked = async {
            let user: User = self.client.get(["user"]).what("the token's account").json().await?;
            Ok(user.username)
        };
        Ok(self.account.get_or_try_init(|| asked).await?.as_str())
    }

    async fn post(&self, commit: &str, status: &CommitStatus, branch: Option<&str>) -> Result<Answer, ForgeError> {
        let body = NewStatus {
            state: status.state.into(),
            name: &status.context,
            description: &status.description,
            target_url: status.target_url.as_deref(),
            branch,
        };
        self.client.post(self.path(&["statuses", commit])).body(&body).what(super::commit(commit)).ask().await
    }

    /// The branch of the merge request that brings a commit, for a commit that no branch of the project contains.
    async fn branch_of(&self, commit: &str) -> Result<Option<String>, ForgeError> {
        let path = self.path(&["repository", "commits", commit, "merge_requests"]);
        let merges: Vec<Merge> = self.client.get(path).what(super::commit(commit)).json().await?;
        let open = merges.into_iter().find(|merge| matches!(merge.state, MergeState::Opened | MergeState::Locked));
        Ok(open.map(|merge| merge.source_branch))
    }

    /// The newest statuses of a commit, of one context or of all.
    async fn listed(&self, commit: &str, name: Option<&str>) -> Result<Vec<CommitStatus>, ForgeError> {
        let mut found = Vec::new();
        for page in 1.. {
            let mut request = self.client.get(self.path(&["repository", "commits", commit, "statuses"]));
            if let Some(name) = name {
                request = request.query("name", name);
            }
            let request = request.query("per_page", PAGE).query("page", page).what(super::commit(commit));
            let answer = request.send().await?;
            let statuses: Vec<Status> = answer.json()?;
            let last = is_last(&answer, statuses.len(), PAGE);
            found.extend(statuses.into_iter().map(|one| CommitStatus {
                context: one.name,
                state: one.status.into(),
                description: one.description.unwrap_or_default(),
                target_url: one.target_url.filter(|url| !url.is_empty()),
            }));
            if last {
                return Ok(found);
            }
            if found.len() >= MOST {
                break;
            }
        }
        Err(self.client.too_many(MOST, "statuses of a commit"))
    }
}

/// Whether no page follows: by the header, or where a proxy took that away, by how full this one is.
fn is_last(answer: &Answer, length: usize, page: usize) -> bool {
    match answer.header("x-next-page") {
        Some(next) => next.trim().is_empty() || length == 0,
        None => length < page,
    }
}

impl Forge for Gitlab {
    fn describe(&self) -> String {
        format!("GitLab, {}", self.project)
    }

    fn limits(&self) -> Limits {
        LIMITS
    }

    fn shown(&self, _commit: &str, status: &CommitStatus) -> CommitStatus {
        CommitStatus {
            context: text::context(&status.context),
            state: State::from(status.state).into(),
            description: text::cut(&status.description, LIMITS.description),
            // A part of an address leads nowhere.
            target_url: status.target_url.clone().filter(|url| url.encode_utf16().count() <= URL_LIMIT),
        }
    }

    async fn set_status(&self, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        let shown = self.shown(commit, status);
        let mut answer = self.post(commit, &shown, None).await?;
        if answer.status == StatusCode::NOT_FOUND && answer.message().contains("References for commit") {
            // The commit of a fork's merge request is on no branch here.
            if let Some(branch) = self.branch_of(commit).await? {
                answer = self.post(commit, &shown, Some(&branch)).await?;
            }
        }
        if answer.status == StatusCode::BAD_REQUEST && answer.message().contains("Cannot transition status") {
            // Before merge request 198626 of GitLab, saying what is said already is refused. That is no fault, if it is so.
            let there = self.listed(commit, Some(&shown.context)).await?;
            if there.iter().any(|one| one.context == shown.context && one.state == shown.state) {
                return Ok(());
            }
        }
        answer.checked().map(|_| ())
    }

    async fn statuses(&self, commit: &str, prefix: &str) -> Result<Vec<CommitStatus>, ForgeError> {
        Ok(super::newest(self.listed(commit, None).await?, prefix))
    }

    async fn open_pull_requests(&self, base: &str) -> Result<Vec<PullRequest>, ForgeError> {
        let mut found: Vec<PullRequest> = Vec::new();
        for page in 1.. {
            let request = self.client.get(self.path(&["merge_requests"]));
            let request = request.query("state", "opened").query("target_branch", base);
            let request = request.query("order_by", "created_at").query("sort", "asc");
            let request = request.query("per_page", PAGE).query("page", page).what("merge requests");
            let answer = request.send().await?;
            let merges: Vec<Merge> = answer.json()?;
            let last = is_last(&answer, merges.len(), PAGE);
            found.extend(merges.into_iter().map(PullRequest::from));
            if last {
                break;
            }
            if found.len() >= MOST {
                return Err(self.client.too_many(MOST, "open merge requests"));
            }
        }
        Ok(super::by_number(found, base))
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequest, ForgeError> {
        let id = number.to_string();
        let request = self.client.get(self.path(&["merge_requests", &id])).what(super::pull(number));
        Ok(request.json::<Merge>().await?.into())
    }

    async fn own_comments(&self, number: u64) -> Result<Vec<Comment>, ForgeError> {
        let account = self.account().await?.to_lowercase();
        let id = number.to_string();
        let mut found: Vec<(u64, Comment)> = Vec::new();
        let mut seen = 0_usize;
        for page in 1.. {
            let request = self.client.get(self.path(&["merge_requests", &id, "notes"]));
            // Newest first, unless asked otherwise.
            let request = request.query("sort", "asc").query("order_by", "created_at");
            let request = request.query("per_page", NOTES).query("page", page).what(super::pull(number));
            let answer = request.send().await?;
            let notes: Vec<Note> = answer.json()?;
            let last = is_last(&answer, notes.len(), NOTES);
            seen = seen.saturating_add(notes.len());
            let own = |note: &Note| {
                !note.system && note.author.as_ref().is_some_and(|user| user.username.to_lowercase() == account)
            };
            found.extend(notes.into_iter().filter(own).map(|note| (note.id, note.into())));
            if last {
                break;
            }
            if seen >= MOST {
                return Err(self.client.too_many(MOST, "comments on a merge request"));
            }
        }
        Ok(super::oldest_first(found))
    }

    async fn add_comment(&self, number: u64, body: &str) -> Result<Comment, ForgeError> {
        let id = number.to_string();
        let request = self.client.post(self.path(&["merge_requests", &id, "notes"])).body(&Body { body });
        Ok(request.what(super::pull(number)).json::<Note>().await?.into())
    }

    async fn edit_comment(&self, number: u64, comment: &Comment, body: &str) -> Result<Comment, ForgeError> {
        let id = number.to_string();
        let request = self.client.put(self.path(&["merge_requests", &id, "notes", &comment.id])).body(&Body { body });
        let what = format!("comment {} on {}", comment.id, super::pull(number));
        Ok(request.what(what).json::<Note>().await?.into())
    }

    async fn add_pull_request(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        let body =
            NewMerge { title: &new.title, description: &new.body, target_branch: &new.base, source_branch: &new.head };
        let request = self.client.post(self.path(&["merge_requests"])).body(&body).what("project");
        Ok(request.json::<Merge>().await?.into())
    }
}
