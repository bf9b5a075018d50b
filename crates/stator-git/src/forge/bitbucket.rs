//! What the two Bitbuckets share, which have little but the statuses of commits in common.

use super::api::{CommitStatus, StatusState};
use super::repository_client::StateWords;
use super::status_text::bitbucket_status_key;
use serde::Deserialize;
use serde_json::{Value, json};

/// Others may have stopped or cancelled a build, which is neither's fault.
pub(super) const STATES: StateWords = StateWords {
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
pub(super) fn read_status(one: BitbucketStatus) -> Option<CommitStatus> {
    let ours = one.key == bitbucket_status_key(&one.name);
    STATES.status(one.name, &one.state, one.description, one.url).filter(|_| ours)
}

/// The body that posts a status.
pub(super) fn new_status(status: &CommitStatus) -> Value {
    json!({
        "key": bitbucket_status_key(&status.context),
        "state": STATES.word(status.state),
        "name": status.context,
        "description": status.description,
        "url": status.target_url,
    })
}
