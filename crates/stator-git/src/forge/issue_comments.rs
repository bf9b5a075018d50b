//! What is one API at GitHub and at Gitea, which copies it: states, comments and new pull requests.

use super::api::{NewPullRequest, PullRequestComment, StatusState};
use serde::{Deserialize, Serialize};

/// The state of a commit's status. GitHub has the four; the aliases are Gitea's.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum WireStatusState {
    Pending,
    #[serde(alias = "skipped")]
    Success,
    #[serde(alias = "warning")]
    Failure,
    /// Also what a later version may add.
    #[serde(other)]
    Error,
}

impl From<StatusState> for WireStatusState {
    fn from(state: StatusState) -> Self {
        match state {
            StatusState::Pending => Self::Pending,
            StatusState::Success => Self::Success,
            StatusState::Failure => Self::Failure,
            StatusState::Error => Self::Error,
        }
    }
}

impl From<WireStatusState> for StatusState {
    fn from(state: WireStatusState) -> Self {
        match state {
            WireStatusState::Pending => Self::Pending,
            WireStatusState::Success => Self::Success,
            WireStatusState::Failure => Self::Failure,
            WireStatusState::Error => Self::Error,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum OpenOrClosed {
    Open,
    Closed,
}

#[derive(Deserialize)]
pub(super) struct IssueComment {
    pub id: u64,
    body: Option<String>,
    user: Option<LoginName>,
}

impl IssueComment {
    /// The comment with its number, if this account wrote it. `account` is in lower case.
    pub fn written_by(self, account: &str) -> Option<(u64, PullRequestComment)> {
        let own = self.user.as_ref().is_some_and(|user| user.login.to_lowercase() == account);
        own.then(|| (self.id, self.into()))
    }
}

impl From<IssueComment> for PullRequestComment {
    fn from(note: IssueComment) -> Self {
        Self { id: note.id.to_string(), body: note.body.unwrap_or_default() }
    }
}

/// An account by its name.
#[derive(Deserialize)]
pub(super) struct LoginName {
    pub login: String,
}

#[derive(Serialize)]
pub(super) struct IssueCommentBody<'a> {
    pub body: &'a str,
}

#[derive(Serialize)]
pub(super) struct NewPullRequestBody<'a> {
    title: &'a str,
    body: &'a str,
    base: &'a str,
    head: &'a str,
}

impl<'a> From<&'a NewPullRequest> for NewPullRequestBody<'a> {
    fn from(new: &'a NewPullRequest) -> Self {
        Self { title: &new.title, body: &new.body, base: &new.base, head: &new.head }
    }
}
