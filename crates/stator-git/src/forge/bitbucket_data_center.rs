//! Bitbucket Data Center.

use super::api::{
    CommitStatus, ForgeApi, ForgeError, ForgeLimits, NewPullRequest, PullRequest, PullRequestComment, PullRequestState,
    StatusState,
};
use super::client::{ForgeAuth, ForgeClient};
use super::pages::{BitbucketPage, NextPage, PageStyle};
use super::{ForgeHttp, status_text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const PAGES: PageStyle = PageStyle { size: ("limit", 100), next: NextPage::Start };
const LIMITS: ForgeLimits = ForgeLimits { description: 255, comment: 32_768, html: false };

/// A repository at a Bitbucket Data Center.
pub struct BitbucketDataCenter {
    client: ForgeClient,
    /// The same server's older API, which alone lists the statuses of a commit.
    builds: ForgeClient,
    project: String,
    slug: String,
}

#[derive(Serialize, Deserialize)]
struct DataCenterStatus {
    key: String,
    state: DataCenterBuildState,
    #[serde(default)]
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    url: String,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum DataCenterBuildState {
    Inprogress,
    Successful,
    Failed,
    Cancelled,
    #[serde(other)]
    Unknown,
}

impl From<StatusState> for DataCenterBuildState {
    fn from(state: StatusState) -> Self {
        match state {
            StatusState::Pending => Self::Inprogress,
            StatusState::Success => Self::Successful,
            StatusState::Failure | StatusState::Error => Self::Failed,
        }
    }
}

impl From<DataCenterBuildState> for StatusState {
    fn from(state: DataCenterBuildState) -> Self {
        match state {
            DataCenterBuildState::Inprogress => Self::Pending,
            DataCenterBuildState::Successful => Self::Success,
            DataCenterBuildState::Failed => Self::Failure,
            DataCenterBuildState::Cancelled | DataCenterBuildState::Unknown => Self::Error,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DataCenterPullRequest {
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
struct DataCenterActivity {
    comment: Option<DataCenterComment>,
    /// Present for a comment on a line of the diff.
    #[serde(rename = "commentAnchor")]
    anchor: Option<serde::de::IgnoredAny>,
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

#[derive(Serialize)]
struct NewDataCenterComment<'a> {
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewDataCenterPullRequest<'a> {
    title: &'a str,
    description: &'a str,
    from_ref: NewDataCenterRef,
    to_ref: NewDataCenterRef,
}

#[derive(Serialize)]
struct NewDataCenterRef {
    id: String,
}

impl From<DataCenterPullRequest> for PullRequest {
    fn from(pull: DataCenterPullRequest) -> Self {
        let fork = !pull.from_ref.repository.is_same_repository(&pull.to_ref.repository);
        Self {
            number: pull.id,
            title: pull.title,
            state: match pull.state {
                DataCenterPullRequestState::Open => PullRequestState::Open,
                DataCenterPullRequestState::Merged => PullRequestState::Merged,
                DataCenterPullRequestState::Declined => PullRequestState::Closed,
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

impl From<DataCenterComment> for PullRequestComment {
    fn from(note: DataCenterComment) -> Self {
        // An edit must name the version that it is of.
        Self { id: format!("{}:{}", note.id, note.version), body: note.text }
    }
}

impl BitbucketDataCenter {
    pub(super) fn new(http: ForgeHttp, place: super::endpoint::ForgeEndpoint, login: ForgeAuth) -> Self {
        let mut older = place.api.clone();
        let root = place.api.path().strip_suffix("/rest/api/latest").unwrap_or_default().to_owned();
        older.set_path(&format!("{root}/rest/build-status/latest"));
        // Without it, requests with a body are taken for a page's that was forged.
        let new = |api| ForgeClient::new(http.clone(), api, login.clone()).with("x-atlassian-token", "no-check");
        Self { client: new(place.api), builds: new(older), project: place.owner, slug: place.name }
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [["projects", &self.project, "repos", &self.slug].as_slice(), rest].concat()
    }

    /// A page of a commit; every status must lead somewhere.
    fn commit_page_url(&self, commit: &str) -> String {
        let mut page = self.client.api().clone();
        let root = page.path().strip_suffix("/rest/api/latest").unwrap_or_default().to_owned();
        page.set_path(&root);
        if let Ok(mut path) = page.path_segments_mut() {
            path.pop_if_empty().extend(self.path(&["commits", commit]));
        }
        page.into()
    }

    /// The parts of a comment's id.
    fn comment_id_parts(&self, comment: &PullRequestComment) -> Result<(String, u64), ForgeError> {
        let parts = comment.id.split_once(':').and_then(|(id, version)| Some((id.to_owned(), version.parse().ok()?)));
        parts.ok_or_else(|| self.client.unreadable_error("the comment's id has no version"))
    }
}

impl ForgeApi for BitbucketDataCenter {
    fn describe(&self) -> String {
        format!("Bitbucket, {}/{}", self.project, self.slug)
    }

    fn limits(&self) -> ForgeLimits {
        LIMITS
    }

    fn normalize_status(&self, commit: &str, status: &CommitStatus) -> CommitStatus {
        CommitStatus {
            context: status_text::normalize_context(&status.context),
            state: DataCenterBuildState::from(status.state).into(),
            description: status_text::truncate_text(&status.description, LIMITS.description),
            target_url: Some(status.target_url.clone().unwrap_or_else(|| self.commit_page_url(commit))),
        }
    }

    async fn set_status(&self, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        let shown = self.normalize_status(commit, status);
        let body = DataCenterStatus {
            key: status_text::bitbucket_status_key(&shown.context),
            state: shown.state.into(),
            name: shown.context,
            description: shown.description,
            url: shown.target_url.unwrap_or_default(),
        };
        let request = self.client.post(self.path(&["commits", commit, "builds"])).body(&body);
        request.resource(super::describe_commit(commit)).send().await.map(|_| ())
    }

    async fn list_statuses(&self, commit: &str, prefix: &str) -> Result<Vec<CommitStatus>, ForgeError> {
        let request = self.builds.get(["commits", commit]);
        // Only what is known by its context: another's name may be anything.
        let ours = |one: DataCenterStatus| {
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
        let onto = format!("refs/heads/{base}");
        let request = self.client.get(self.path(&["pull-requests"])).query("state", "OPEN");
        let request = request.query("direction", "INCOMING").query("at", &onto).query("order", "OLDEST");
        let read = |pull: DataCenterPullRequest| Some(PullRequest::from(pull));
        let request = request.resource("pull requests");
        let found = request.pages::<BitbucketPage<_>, _>(PAGES, "open pull requests", read).await?;
        Ok(super::open_by_number(found, base))
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequest, ForgeError> {
        let id = number.to_string();
        let request =
            self.client.get(self.path(&["pull-requests", &id])).resource(super::describe_pull_request(number));
        Ok(request.json::<DataCenterPullRequest>().await?.into())
    }

    async fn list_own_comments(&self, number: u64) -> Result<Vec<PullRequestComment>, ForgeError> {
        let id = number.to_string();
        let request = self.client.get(self.path(&["pull-requests", &id, "activities"]));
        let request = request.resource(super::describe_pull_request(number));
        let comment = |activity: DataCenterActivity| activity.comment.filter(|_| activity.anchor.is_none());
        let (comments, answer) = request
            .pages_and_last_answer::<BitbucketPage<_>, _>(PAGES, "activities of a pull request", comment)
            .await?;
        // No call says who a token belongs to; every answer to one does.
        let account = answer.header("x-ausername").unwrap_or_default().to_lowercase();
        if account.is_empty() {
            let message = "it does not report whose token this is (the header X-AUSERNAME)".to_owned();
            return Err(ForgeError::Unauthorized { host: answer.host(), message });
        }
        // One activity a comment at its newest version, and one more for every edit.
        let mut newest: BTreeMap<u64, DataCenterComment> = BTreeMap::new();
        for note in comments {
            let own = note.author.as_ref().is_some_and(|user| user.name.to_lowercase() == account);
            if own && newest.get(&note.id).is_none_or(|known| known.version < note.version) {
                newest.insert(note.id, note);
            }
        }
        Ok(newest.into_values().map(PullRequestComment::from).collect())
    }

    async fn create_comment(&self, number: u64, body: &str) -> Result<PullRequestComment, ForgeError> {
        let id = number.to_string();
        let new = NewDataCenterComment { text: body, version: None };
        let request = self.client.post(self.path(&["pull-requests", &id, "comments"])).body(&new);
        Ok(request.resource(super::describe_pull_request(number)).json::<DataCenterComment>().await?.into())
    }

    async fn update_comment(
        &self,
        number: u64,
        comment: &PullRequestComment,
        body: &str,
    ) -> Result<PullRequestComment, ForgeError> {
        let (id, version) = self.comment_id_parts(comment)?;
        let number_text = number.to_string();
        let new = NewDataCenterComment { text: body, version: Some(version) };
        let request = self.client.put(self.path(&["pull-requests", &number_text, "comments", &id])).body(&new);
        let what = format!("comment {id} on {}", super::describe_pull_request(number));
        Ok(request.resource(what).json::<DataCenterComment>().await?.into())
    }

    async fn create_pull_request(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        let side = |name: &str| NewDataCenterRef { id: format!("refs/heads/{name}") };
        let body = NewDataCenterPullRequest {
            title: &new.title,
            description: &new.body,
            from_ref: side(&new.head),
            to_ref: side(&new.base),
        };
        let request = self.client.post(self.path(&["pull-requests"])).body(&body).resource("repository");
        Ok(request.json::<DataCenterPullRequest>().await?.into())
    }
}
