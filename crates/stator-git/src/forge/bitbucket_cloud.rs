//! Bitbucket Cloud, and what Data Center shares with it: little but the statuses of commits.

use super::api::{CommitStatus, ForgeError, ForgeLimits, NewPullRequest, PullRequest, PullRequestState, StatusState};
use super::client::ForgeRequest;
use super::pages::{NextPage, PageStyle};
use super::repository_client::{
    CommentAccount, CommentEdit, ForgeRepository, HostComment, HostDialect, StateWords, describe_commit,
};
use super::status_text::bitbucket_status_key;
use http::Method;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// How many short hashes are kept that were looked up.
const MAX_CACHED_HASHES: usize = 20_000;

/// A repository at Bitbucket Cloud.
#[derive(Default)]
pub(super) struct BitbucketCloud {
    /// Full hashes by the twelve characters that pull requests name them by.
    hashes: Mutex<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
pub(super) struct BitbucketCloudPullRequest {
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

impl From<BitbucketCloudPullRequestState> for PullRequestState {
    fn from(state: BitbucketCloudPullRequestState) -> Self {
        match state {
            BitbucketCloudPullRequestState::Open => Self::Open,
            BitbucketCloudPullRequestState::Merged => Self::Merged,
            BitbucketCloudPullRequestState::Closed => Self::Closed,
        }
    }
}

#[derive(Deserialize)]
struct BitbucketCloudEndpoint {
    branch: BitbucketCloudBranch,
    /// Null where the branch is gone.
    commit: Option<BitbucketCloudCommit>,
    /// Null where the fork is gone.
    repository: Option<BitbucketCloudRepository>,
}

impl BitbucketCloudEndpoint {
    fn repository_name(&self) -> Option<String> {
        self.repository.as_ref().map(|repository| repository.full_name.to_lowercase())
    }
}

#[derive(Deserialize)]
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
pub(super) struct BitbucketCloudComment {
    id: u64,
    #[serde(default)]
    content: BitbucketCloudContent,
    user: Option<BitbucketCloudUser>,
    #[serde(default)]
    deleted: bool,
    /// Present for a comment on a line of the diff.
    inline: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
struct BitbucketCloudContent {
    #[serde(default)]
    raw: String,
}

#[derive(Deserialize)]
struct BitbucketCloudUser {
    uuid: String,
}

impl BitbucketCloud {
    /// Pull requests name commits by twelve characters. What was looked up once stays so.
    async fn full_hash(&self, at: &ForgeRepository, short: String) -> Result<String, ForgeError> {
        if short.len() >= 40 {
            return Ok(short);
        }
        if let Some(known) = self.hashes.lock().ok().and_then(|hashes| hashes.get(&short).cloned()) {
            return Ok(known);
        }
        let request = at.get(&["commit", &short]).resource(describe_commit(&short));
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
}

impl HostDialect for BitbucketCloud {
    const NAME: &'static str = "Bitbucket";
    /// No limit of comments is documented; 200 kB were taken, and more refused. HTML is shown as text.
    const LIMITS: ForgeLimits =
        ForgeLimits { description: 255, comment: 100_000, html: false, writes: ForgeLimits::FEW_WRITES };
    const STATES: StateWords = BITBUCKET_STATES;
    const PAGES: PageStyle = PageStyle { size: ("pagelen", 100), next: NextPage::Linked };
    /// Pull requests come fifty at most.
    const PULL_REQUEST_PAGES: PageStyle = PageStyle { size: ("pagelen", 50), ..Self::PAGES };
    const PULL_REQUESTS: &'static str = "pullrequests";

    type Status = BitbucketStatus;
    type PullRequest = BitbucketCloudPullRequest;
    type Comment = BitbucketCloudComment;

    fn repository_path(owner: String, name: String) -> Vec<String> {
        vec!["repositories".to_owned(), owner, name]
    }

    async fn account(&self, at: &ForgeRepository) -> Result<CommentAccount, ForgeError> {
        Ok(CommentAccount::Named(at.user::<BitbucketCloudUser>().await?.uuid))
    }

    // Every status must lead somewhere: else to the page of its commit.
    fn status_url(at: &ForgeRepository, commit: &str, given: Option<&str>) -> Option<String> {
        let page = || format!("https://bitbucket.org/{}/{}/commits/{commit}", at.owner, at.name);
        Some(given.map_or_else(page, str::to_owned))
    }

    fn new_status<'a>(at: &'a ForgeRepository, commit: &str, status: &CommitStatus) -> ForgeRequest<'a> {
        at.post(&["commit", commit, "statuses", "build"], new_bitbucket_status(status))
    }

    fn statuses<'a>(at: &'a ForgeRepository, commit: &str) -> ForgeRequest<'a> {
        at.get(&["commit", commit, "statuses"])
    }

    fn read_status(one: BitbucketStatus) -> Option<CommitStatus> {
        read_bitbucket_status(one)
    }

    fn open_onto<'a>(list: ForgeRequest<'a>, base: &str) -> ForgeRequest<'a> {
        let quoted = base.replace('\\', "\\\\").replace('"', "\\\"");
        let query = format!("state = \"OPEN\" AND destination.branch.name = \"{quoted}\"");
        list.query("state", "OPEN").query("q", query)
    }

    /// With the whole hash of its newest commit where it is one of this repository.
    async fn read_pull_request(
        &self,
        at: &ForgeRepository,
        pull: BitbucketCloudPullRequest,
    ) -> Result<PullRequest, ForgeError> {
        let from = pull.source.repository_name();
        let fork = from.is_none() || from != pull.destination.repository_name();
        let short = pull.source.commit.map(|commit| commit.hash).unwrap_or_default();
        // A fork's commits cannot be fetched from here, so nobody needs their whole names.
        let head = if fork || short.is_empty() { short } else { self.full_hash(at, short).await? };
        Ok(PullRequest {
            number: pull.id,
            title: pull.title,
            state: pull.state.into(),
            base: pull.destination.branch.name,
            head,
            fetch: None,
            branch: (!fork).then_some(pull.source.branch.name),
            fork,
            url: pull.links.html.href,
        })
    }

    fn new_pull_request(new: &NewPullRequest) -> Value {
        json!({
            "title": new.title,
            "description": new.body,
            "source": {"branch": {"name": new.head}},
            "destination": {"branch": {"name": new.base}},
        })
    }

    fn comments<'a>(at: &'a ForgeRepository, number: &str) -> ForgeRequest<'a> {
        at.get(&[Self::PULL_REQUESTS, number, "comments"])
    }

    fn read_comment(note: BitbucketCloudComment) -> Option<HostComment> {
        let author = note.user.map(|user| user.uuid);
        (!note.deleted && note.inline.is_none()).then(|| HostComment::new(note.id, author, note.content.raw))
    }

    fn new_comment<'a>(at: &'a ForgeRepository, number: &str, body: &str) -> ForgeRequest<'a> {
        at.post(&[Self::PULL_REQUESTS, number, "comments"], json!({"content": {"raw": body}}))
    }

    fn edit_comment<'a>(at: &'a ForgeRepository, edit: &CommentEdit<'_>) -> Result<ForgeRequest<'a>, ForgeError> {
        let path = [Self::PULL_REQUESTS, edit.number, "comments", edit.id];
        Ok(at.request(Method::PUT, &path).body(json!({"content": {"raw": edit.body}})))
    }
}

/// Others may have stopped or cancelled a build, which is neither's fault.
pub(super) const BITBUCKET_STATES: StateWords = StateWords {
    pending: "INPROGRESS",
    success: "SUCCESSFUL",
    failure: "FAILED",
    error: "FAILED",
    further: &[],
    unknown: StatusState::Error,
};

#[derive(Deserialize)]
pub(super) struct BitbucketStatus {
    key: String,
    state: String,
    #[serde(default)]
    name: String,
    description: Option<String>,
    url: Option<String>,
}

/// Only what is known by its context: another's name may be anything.
pub(super) fn read_bitbucket_status(one: BitbucketStatus) -> Option<CommitStatus> {
    let ours = one.key == bitbucket_status_key(&one.name);
    BITBUCKET_STATES.status(one.name, &one.state, one.description, one.url).filter(|_| ours)
}

/// The body that posts a status.
pub(super) fn new_bitbucket_status(status: &CommitStatus) -> Value {
    json!({
        "key": bitbucket_status_key(&status.context),
        "state": BITBUCKET_STATES.word(status.state),
        "name": status.context,
        "description": status.description,
        "url": status.target_url,
    })
}
