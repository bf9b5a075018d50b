//! Bitbucket Data Center.

use super::api::{
    CommitStatus, ForgeError, ForgeLimits, NewPullRequest, PullRequest, PullRequestComment, PullRequestState,
};
use super::bitbucket_cloud::{BITBUCKET_STATES, BitbucketStatus, new_bitbucket_status, read_bitbucket_status};
use super::client::{ForgeClient, ForgeRequest};
use super::pages::{NextPage, PageStyle};
use super::repository_client::{CommentAccount, CommentEdit, ForgeRepository, HostComment, HostDialect, StateWords};
use super::response::ForgeResponse;
use http::Method;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use url::Url;

/// A repository at a Bitbucket Data Center.
#[derive(Default)]
pub(super) struct BitbucketDataCenter;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DataCenterPullRequest {
    id: u64,
    title: String,
    state: DataCenterPullRequestState,
    from_ref: DataCenterRef,
    to_ref: DataCenterRef,
    #[serde(default)]
    links: DataCenterLinks,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum DataCenterPullRequestState {
    Open,
    Merged,
    #[serde(other)]
    Declined,
}

impl From<DataCenterPullRequestState> for PullRequestState {
    fn from(state: DataCenterPullRequestState) -> Self {
        match state {
            DataCenterPullRequestState::Open => Self::Open,
            DataCenterPullRequestState::Merged => Self::Merged,
            DataCenterPullRequestState::Declined => Self::Closed,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DataCenterRef {
    display_id: String,
    latest_commit: String,
    repository: DataCenterRepository,
}

#[derive(Deserialize)]
struct DataCenterRepository {
    slug: String,
    project: DataCenterProject,
}

impl DataCenterRepository {
    fn is_same_repository(&self, other: &Self) -> bool {
        self.slug.eq_ignore_ascii_case(&other.slug) && self.project.key.eq_ignore_ascii_case(&other.project.key)
    }
}

#[derive(Deserialize)]
struct DataCenterProject {
    key: String,
}

#[derive(Default, Deserialize)]
struct DataCenterLinks {
    #[serde(rename = "self", default)]
    itself: Vec<DataCenterLink>,
}

#[derive(Deserialize)]
struct DataCenterLink {
    href: String,
}

#[derive(Deserialize)]
pub(super) struct DataCenterActivity {
    comment: Option<DataCenterComment>,
    /// Present for a comment on a line of the diff.
    #[serde(rename = "commentAnchor")]
    anchor: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct DataCenterComment {
    id: u64,
    version: u64,
    text: String,
    author: Option<DataCenterUser>,
}

#[derive(Deserialize)]
struct DataCenterUser {
    name: String,
}

impl From<DataCenterComment> for HostComment {
    fn from(note: DataCenterComment) -> Self {
        // An edit must name the version that it is of.
        let comment = PullRequestComment { id: format!("{}:{}", note.id, note.version), body: note.text };
        Self { number: note.id, version: note.version, author: note.author.map(|user| user.name), comment }
    }
}

/// A URL of the server, outside of the API that the repository is below.
fn server_url<'a>(at: &ForgeRepository, path: impl IntoIterator<Item = &'a str>) -> Url {
    let mut url = at.client.api().clone();
    let root = url.path().strip_suffix("/rest/api/latest").unwrap_or_default().to_owned();
    url.set_path(&root);
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    url
}

impl HostDialect for BitbucketDataCenter {
    const NAME: &'static str = "Bitbucket";
    const LIMITS: ForgeLimits =
        ForgeLimits { description: 255, comment: 32_768, html: false, writes: ForgeLimits::WRITES };
    const STATES: StateWords = BITBUCKET_STATES;
    const PAGES: PageStyle = PageStyle { size: ("limit", 100), next: NextPage::Start };
    const PULL_REQUESTS: &'static str = "pull-requests";

    type Status = BitbucketStatus;
    type PullRequest = DataCenterPullRequest;
    type Comment = DataCenterActivity;

    fn prepare(client: ForgeClient) -> ForgeClient {
        // Without it, requests with a body are taken for a page's that was forged.
        client.with_header("x-atlassian-token", "no-check")
    }

    fn repository_path(owner: String, name: String) -> Vec<String> {
        vec!["projects".to_owned(), owner, "repos".to_owned(), name]
    }

    /// No call says who a token belongs to; every answer to one does.
    async fn account(&self, _at: &ForgeRepository) -> Result<CommentAccount, ForgeError> {
        Ok(CommentAccount::InHeader("x-ausername"))
    }

    // Every status must lead somewhere: else to the page of its commit.
    fn status_url(at: &ForgeRepository, commit: &str, given: Option<&str>) -> Option<String> {
        let page = || server_url(at, ["projects", &at.owner, "repos", &at.name, "commits", commit]).into();
        Some(given.map_or_else(page, str::to_owned))
    }

    fn new_status<'a>(at: &'a ForgeRepository, commit: &str, status: &CommitStatus) -> ForgeRequest<'a> {
        at.post(&["commits", commit, "builds"], new_bitbucket_status(status))
    }

    /// Only the server's older API lists the statuses of a commit.
    fn statuses<'a>(at: &'a ForgeRepository, commit: &str) -> ForgeRequest<'a> {
        at.client.get_url(server_url(at, ["rest", "build-status", "latest", "commits", commit]))
    }

    fn read_status(one: BitbucketStatus) -> Option<CommitStatus> {
        read_bitbucket_status(one)
    }

    fn open_onto<'a>(list: ForgeRequest<'a>, base: &str) -> ForgeRequest<'a> {
        let list = list.query("state", "OPEN").query("direction", "INCOMING");
        list.query("at", format!("refs/heads/{base}")).query("order", "OLDEST")
    }

    async fn read_pull_request(
        &self,
        _at: &ForgeRepository,
        pull: DataCenterPullRequest,
    ) -> Result<PullRequest, ForgeError> {
        let fork = !pull.from_ref.repository.is_same_repository(&pull.to_ref.repository);
        Ok(PullRequest {
            number: pull.id,
            title: pull.title,
            state: pull.state.into(),
            base: pull.to_ref.display_id,
            head: pull.from_ref.latest_commit,
            fetch: Some(format!("refs/pull-requests/{}/from", pull.id)),
            branch: (!fork).then_some(pull.from_ref.display_id),
            fork,
            url: pull.links.itself.into_iter().next().map(|link| link.href).unwrap_or_default(),
        })
    }

    fn new_pull_request(new: &NewPullRequest) -> Value {
        json!({
            "title": new.title,
            "description": new.body,
            "fromRef": {"id": format!("refs/heads/{}", new.head)},
            "toRef": {"id": format!("refs/heads/{}", new.base)},
        })
    }

    /// One activity a comment at its newest version, and one more for every edit.
    fn comments<'a>(at: &'a ForgeRepository, number: &str) -> ForgeRequest<'a> {
        at.get(&[Self::PULL_REQUESTS, number, "activities"])
    }

    fn read_comment(activity: DataCenterActivity) -> Option<HostComment> {
        activity.comment.filter(|_| activity.anchor.is_none()).map(HostComment::from)
    }

    fn new_comment<'a>(at: &'a ForgeRepository, number: &str, body: &str) -> ForgeRequest<'a> {
        at.post(&[Self::PULL_REQUESTS, number, "comments"], json!({"text": body}))
    }

    fn edit_comment<'a>(at: &'a ForgeRepository, edit: &CommentEdit<'_>) -> Result<ForgeRequest<'a>, ForgeError> {
        let parts = edit.id.split_once(':').and_then(|(id, version)| Some((id, version.parse::<u64>().ok()?)));
        let (id, version) = parts.ok_or_else(|| at.client.unreadable_error("the comment's id has no version"))?;
        let path = [Self::PULL_REQUESTS, edit.number, "comments", id];
        Ok(at.request(Method::PUT, &path).body(json!({"text": edit.body, "version": version})))
    }

    fn read_created(answer: &ForgeResponse) -> Result<PullRequestComment, ForgeError> {
        Ok(HostComment::from(answer.json::<DataCenterComment>()?).comment)
    }
}
