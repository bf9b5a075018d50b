//! Bitbucket Cloud.

use super::api::{
    CommitStatus, ForgeApi, ForgeError, ForgeLimits, NewPullRequest, PullRequest, PullRequestComment, PullRequestState,
    StatusState,
};
use super::client::{ForgeAuth, ForgeClient};
use super::pages::{BitbucketPage, NextPage, PageStyle};
use super::{ForgeHttp, status_text};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Mutex;
use tokio::sync::OnceCell;

const PAGES: PageStyle = PageStyle { size: ("pagelen", 100), next: NextPage::Linked };
/// Pull requests come fifty at most.
const PULL_REQUEST_PAGES: PageStyle = PageStyle { size: ("pagelen", 50), ..PAGES };
/// No limit of comments is documented; 200 kB were taken, and more refused. HTML is shown as text.
const LIMITS: ForgeLimits = ForgeLimits { description: 255, comment: 100_000, html: false };
/// How many short hashes are looked up at a time, and kept.
const MAX_PARALLEL_LOOKUPS: usize = 4;
const MAX_CACHED_HASHES: usize = 20_000;

/// A repository at Bitbucket Cloud.
pub struct BitbucketCloud {
    client: ForgeClient,
    workspace: String,
    slug: String,
    account: OnceCell<String>,
    /// Full hashes by the twelve characters that pull requests name them by.
    hashes: Mutex<BTreeMap<String, String>>,
}

#[derive(Serialize, Deserialize)]
struct BitbucketCloudStatus {
    key: String,
    state: BitbucketCloudBuildState,
    #[serde(default)]
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    url: String,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum BitbucketCloudBuildState {
    Inprogress,
    Successful,
    Failed,
    Stopped,
}

impl From<StatusState> for BitbucketCloudBuildState {
    fn from(state: StatusState) -> Self {
        match state {
            StatusState::Pending => Self::Inprogress,
            StatusState::Success => Self::Successful,
            StatusState::Failure | StatusState::Error => Self::Failed,
        }
    }
}

impl From<BitbucketCloudBuildState> for StatusState {
    fn from(state: BitbucketCloudBuildState) -> Self {
        match state {
            BitbucketCloudBuildState::Inprogress => Self::Pending,
            BitbucketCloudBuildState::Successful => Self::Success,
            BitbucketCloudBuildState::Failed => Self::Failure,
            BitbucketCloudBuildState::Stopped => Self::Error,
        }
    }
}

#[derive(Deserialize)]
struct BitbucketCloudPullRequest {
    id: u64,
    title: String,
    state: BitbucketCloudPullRequestState,
    source: BitbucketCloudEndpoint,
    destination: BitbucketCloudEndpoint,
    links: BitbucketCloudLinks,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum BitbucketCloudPullRequestState {
    Open,
    Merged,
    /// Declined or superseded.
    #[serde(other)]
    Closed,
}

#[derive(Deserialize)]
struct BitbucketCloudEndpoint {
    branch: BitbucketCloudBranch,
    /// Null where the branch is gone.
    commit: Option<BitbucketCloudCommit>,
    /// Null where the fork is gone.
    repository: Option<BitbucketCloudRepository>,
}

#[derive(Serialize, Deserialize)]
struct BitbucketCloudBranch {
    name: String,
}

#[derive(Deserialize)]
struct BitbucketCloudCommit {
    hash: String,
}

#[derive(Deserialize)]
struct BitbucketCloudRepository {
    full_name: String,
}

#[derive(Deserialize)]
struct BitbucketCloudLinks {
    html: BitbucketCloudLink,
}

#[derive(Deserialize)]
struct BitbucketCloudLink {
    href: String,
}

#[derive(Deserialize)]
struct BitbucketCloudComment {
    id: u64,
    #[serde(default)]
    content: BitbucketCloudContent,
    user: Option<BitbucketCloudUser>,
    #[serde(default)]
    deleted: bool,
    /// Present for a comment on a line of the diff.
    inline: Option<serde::de::IgnoredAny>,
}

#[derive(Default, Serialize, Deserialize)]
struct BitbucketCloudContent {
    #[serde(default)]
    raw: String,
}

#[derive(Deserialize)]
struct BitbucketCloudUser {
    uuid: String,
}

#[derive(Serialize)]
struct NewBitbucketCloudComment<'a> {
    content: NewBitbucketCloudContent<'a>,
}

#[derive(Serialize)]
struct NewBitbucketCloudContent<'a> {
    raw: &'a str,
}

#[derive(Serialize)]
struct NewBitbucketCloudPullRequest<'a> {
    title: &'a str,
    description: &'a str,
    source: NewBitbucketCloudEndpoint<'a>,
    destination: NewBitbucketCloudEndpoint<'a>,
}

#[derive(Serialize)]
struct NewBitbucketCloudEndpoint<'a> {
    branch: NewBitbucketCloudBranch<'a>,
}

#[derive(Serialize)]
struct NewBitbucketCloudBranch<'a> {
    name: &'a str,
}

impl From<BitbucketCloudComment> for PullRequestComment {
    fn from(note: BitbucketCloudComment) -> Self {
        Self { id: note.id.to_string(), body: note.content.raw }
    }
}

impl BitbucketCloud {
    pub(super) fn new(http: ForgeHttp, place: super::endpoint::ForgeEndpoint, login: ForgeAuth) -> Self {
        let client = ForgeClient::new(http, place.api, login);
        Self { client, workspace: place.owner, slug: place.name, account: OnceCell::new(), hashes: Mutex::default() }
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [["repositories", &self.workspace, &self.slug].as_slice(), rest].concat()
    }

    async fn account_id(&self) -> Result<&str, ForgeError> {
        let asked = async {
            let user: BitbucketCloudUser = self.client.get(["user"]).resource("the token's account").json().await?;
            Ok(user.uuid)
        };
        Ok(self.account.get_or_try_init(|| asked).await?.as_str())
    }

    /// The pull request, with the whole hash of its newest commit where it is one of this repository.
    async fn read_pull_request(&self, pull: BitbucketCloudPullRequest) -> Result<PullRequest, ForgeError> {
        let own = |side: &BitbucketCloudEndpoint| {
            side.repository.as_ref().map(|repository| repository.full_name.to_lowercase())
        };
        let fork = own(&pull.source).is_none() || own(&pull.source) != own(&pull.destination);
        let short = pull.source.commit.map(|commit| commit.hash).unwrap_or_default();
        // A fork's commits cannot be fetched from here, so nobody needs their whole names.
        let head = if fork || short.is_empty() { short } else { self.full_hash(short).await? };
        Ok(PullRequest {
            number: pull.id,
            title: pull.title,
            state: match pull.state {
                BitbucketCloudPullRequestState::Open => PullRequestState::Open,
                BitbucketCloudPullRequestState::Merged => PullRequestState::Merged,
                BitbucketCloudPullRequestState::Closed => PullRequestState::Closed,
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
    async fn full_hash(&self, short: String) -> Result<String, ForgeError> {
        if short.len() >= 40 {
            return Ok(short);
        }
        if let Some(known) = self.hashes.lock().ok().and_then(|hashes| hashes.get(&short).cloned()) {
            return Ok(known);
        }
        let request = self.client.get(self.path(&["commit", &short])).resource(super::describe_commit(&short));
        let commit: BitbucketCloudCommit = match request.json().await {
            Ok(commit) => commit,
            // Its branch went meanwhile. The short name says enough for a list.
            Err(ForgeError::NotFound { .. }) => return Ok(short),
            Err(error) => return Err(error),
        };
        if let Ok(mut hashes) = self.hashes.lock() {
            if hashes.len() >= MAX_CACHED_HASHES {
                hashes.clear();
            }
            hashes.insert(short, commit.hash.clone());
        }
        Ok(commit.hash)
    }

    /// A page of a commit; every status must lead somewhere.
    fn commit_page_url(&self, commit: &str) -> String {
        format!("https://bitbucket.org/{}/{}/commits/{commit}", self.workspace, self.slug)
    }
}

impl ForgeApi for BitbucketCloud {
    fn describe(&self) -> String {
        format!("Bitbucket, {}/{}", self.workspace, self.slug)
    }

    fn limits(&self) -> ForgeLimits {
        LIMITS
    }

    fn normalize_status(&self, commit: &str, status: &CommitStatus) -> CommitStatus {
        CommitStatus {
            context: status_text::normalize_context(&status.context),
            state: BitbucketCloudBuildState::from(status.state).into(),
            description: status_text::truncate_text(&status.description, LIMITS.description),
            target_url: Some(status.target_url.clone().unwrap_or_else(|| self.commit_page_url(commit))),
        }
    }

    async fn set_status(&self, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        let shown = self.normalize_status(commit, status);
        let body = BitbucketCloudStatus {
            key: status_text::bitbucket_status_key(&shown.context),
            state: shown.state.into(),
            name: shown.context,
            description: shown.description,
            url: shown.target_url.unwrap_or_default(),
        };
        let request = self.client.post(self.path(&["commit", commit, "statuses", "build"])).body(&body);
        request.resource(super::describe_commit(commit)).send().await.map(|_| ())
    }

    async fn list_statuses(&self, commit: &str, prefix: &str) -> Result<Vec<CommitStatus>, ForgeError> {
        let request = self.client.get(self.path(&["commit", commit, "statuses"]));
        // Only what is known by its context: another's name may be anything.
        let ours = |one: BitbucketCloudStatus| {
            (one.key == status_text::bitbucket_status_key(&one.name)).then(|| CommitStatus {
                context: one.name,
                state: one.state.into(),
                description: one.description,
                target_url: Some(one.url).filter(|url| !url.is_empty()),
            })
        };
        let request = request.resource(super::describe_commit(commit));
        let found = request.pages::<BitbucketPage<_>, _>(PAGES, "statuses of a commit", ours).await?;
        Ok(super::newest_statuses(found, prefix))
    }

    async fn list_open_pull_requests(&self, base: &str) -> Result<Vec<PullRequest>, ForgeError> {
        let quoted = base.replace('\\', "\\\\").replace('"', "\\\"");
        let request = self.client.get(self.path(&["pullrequests"])).query("state", "OPEN");
        let request = request.query("q", format!("state = \"OPEN\" AND destination.branch.name = \"{quoted}\""));
        let request = request.resource("pull requests");
        let pulls = request.pages::<BitbucketPage<_>, _>(PULL_REQUEST_PAGES, "open pull requests", Some).await?;
        let read = stream::iter(pulls).map(|pull| self.read_pull_request(pull)).buffer_unordered(MAX_PARALLEL_LOOKUPS);
        Ok(super::open_by_number(read.try_collect().await?, base))
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequest, ForgeError> {
        let id = number.to_string();
        let request = self.client.get(self.path(&["pullrequests", &id])).resource(super::describe_pull_request(number));
        self.read_pull_request(request.json().await?).await
    }

    async fn list_own_comments(&self, number: u64) -> Result<Vec<PullRequestComment>, ForgeError> {
        let account = self.account_id().await?.to_lowercase();
        let id = number.to_string();
        let request = self.client.get(self.path(&["pullrequests", &id, "comments"]));
        let own = |note: BitbucketCloudComment| {
            let by_us = note.user.as_ref().is_some_and(|user| user.uuid.to_lowercase() == account);
            (by_us && !note.deleted && note.inline.is_none()).then(|| (note.id, note.into()))
        };
        let request = request.resource(super::describe_pull_request(number));
        let found = request.pages::<BitbucketPage<_>, _>(PAGES, "comments on a pull request", own).await?;
        Ok(super::oldest_first(found))
    }

    async fn create_comment(&self, number: u64, body: &str) -> Result<PullRequestComment, ForgeError> {
        let id = number.to_string();
        let new = NewBitbucketCloudComment { content: NewBitbucketCloudContent { raw: body } };
        let request = self.client.post(self.path(&["pullrequests", &id, "comments"])).body(&new);
        Ok(request.resource(super::describe_pull_request(number)).json::<BitbucketCloudComment>().await?.into())
    }

    async fn update_comment(
        &self,
        number: u64,
        comment: &PullRequestComment,
        body: &str,
    ) -> Result<PullRequestComment, ForgeError> {
        let id = number.to_string();
        let new = NewBitbucketCloudComment { content: NewBitbucketCloudContent { raw: body } };
        let request = self.client.put(self.path(&["pullrequests", &id, "comments", &comment.id])).body(&new);
        let what = format!("comment {} on {}", comment.id, super::describe_pull_request(number));
        Ok(request.resource(what).json::<BitbucketCloudComment>().await?.into())
    }

    async fn create_pull_request(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        let side = |name| NewBitbucketCloudEndpoint { branch: NewBitbucketCloudBranch { name } };
        let body = NewBitbucketCloudPullRequest {
            title: &new.title,
            description: &new.body,
            source: side(&new.head),
            destination: side(&new.base),
        };
        let request = self.client.post(self.path(&["pullrequests"])).body(&body).resource("repository");
        self.read_pull_request(request.json().await?).await
    }
}
