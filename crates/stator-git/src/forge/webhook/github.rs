//! Payloads of GitHub, and of Gitea and Forgejo, which have the same shape.

use super::{Hint, Refusal, moved, parse};
use serde::Deserialize;

#[derive(Deserialize)]
struct Push {
    #[serde(rename = "ref")]
    name: String,
}

#[derive(Deserialize)]
struct PullRequest {
    number: u64,
}

pub(super) fn hints(event: Option<&str>, body: &[u8]) -> Result<Vec<Hint>, Refusal> {
    Ok(match event {
        // A branch's or tag's creation and deletion are pushes as well.
        Some("push") => moved(&parse::<Push>(body)?.name).into_iter().collect(),
        // Gitea sends new commits of a pull request as an event of its own.
        Some("pull_request" | "pull_request_sync") => {
            vec![Hint::PullRequest { number: parse::<PullRequest>(body)?.number }]
        }
        // Hosts add events whenever they like, and a webhook may be set to send them all.
        Some(_) | None => Vec::new(),
    })
}
