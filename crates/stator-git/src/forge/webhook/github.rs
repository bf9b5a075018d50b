//! Payloads of GitHub, and of Gitea and Forgejo, which have the same shape.

use super::delivery::{WebhookError, WebhookHint, parse_body, ref_hint};
use serde::Deserialize;

#[derive(Deserialize)]
struct GithubPushEvent {
    #[serde(rename = "ref")]
    name: String,
}

#[derive(Deserialize)]
struct GithubPullRequestEvent {
    number: u64,
}

pub(super) fn parse_hints(event: Option<&str>, body: &[u8]) -> Result<Vec<WebhookHint>, WebhookError> {
    Ok(match event {
        // A branch's or tag's creation and deletion are pushes as well.
        Some("push") => ref_hint(&parse_body::<GithubPushEvent>(body)?.name).into_iter().collect(),
        // Gitea sends new commits of a pull request as an event of its own.
        Some("pull_request" | "pull_request_sync") => {
            vec![WebhookHint::PullRequest { number: parse_body::<GithubPullRequestEvent>(body)?.number }]
        }
        // Hosts add events whenever they like, and a webhook may be set to send them all.
        Some(_) | None => Vec::new(),
    })
}
