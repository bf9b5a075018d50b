//! Payloads of Bitbucket: of the cloud, and of Data Center, which have little in common. One delivery may hold several
//! changes of refs.

use super::delivery::{WebhookError, WebhookHint, parse_body, ref_hint};
use serde::Deserialize;

#[derive(Deserialize)]
struct BitbucketCloudPushEvent {
    push: BitbucketCloudChanges,
}

#[derive(Deserialize)]
struct BitbucketCloudChanges {
    #[serde(default)]
    changes: Vec<BitbucketCloudChange>,
}

#[derive(Deserialize)]
struct BitbucketCloudChange {
    #[serde(default)]
    old: Option<BitbucketCloudRef>,
    #[serde(default)]
    new: Option<BitbucketCloudRef>,
}

#[derive(Deserialize)]
struct BitbucketCloudRef {
    #[serde(rename = "type")]
    kind: String,
    name: String,
}

#[derive(Deserialize)]
struct BitbucketCloudPullRequestEvent {
    pullrequest: PullRequestNumber,
}

#[derive(Deserialize)]
struct DataCenterPushEvent {
    #[serde(default)]
    changes: Vec<DataCenterRefChange>,
}

#[derive(Deserialize)]
struct DataCenterRefChange {
    #[serde(rename = "refId")]
    name: String,
}

#[derive(Deserialize)]
struct DataCenterPullRequestEvent {
    #[serde(rename = "pullRequest")]
    pull_request: PullRequestNumber,
}

#[derive(Deserialize)]
struct PullRequestNumber {
    id: u64,
}

pub(super) fn parse_hints(event: Option<&str>, body: &[u8]) -> Result<Vec<WebhookHint>, WebhookError> {
    Ok(match event {
        Some("repo:push") => {
            let changes = parse_body::<BitbucketCloudPushEvent>(body)?.push.changes;
            // A deleted ref has no `new`, a created one no `old`.
            changes
                .iter()
                .filter_map(|change| change.new.as_ref().or(change.old.as_ref()))
                .filter_map(cloud_ref_hint)
                .collect()
        }
        Some("repo:refs_changed") => parse_body::<DataCenterPushEvent>(body)?
            .changes
            .iter()
            .filter_map(|change| ref_hint(&change.name))
            .collect(),
        Some(event) if event.starts_with("pullrequest:") => {
            vec![WebhookHint::PullRequest {
                number: parse_body::<BitbucketCloudPullRequestEvent>(body)?.pullrequest.id,
            }]
        }
        Some(event) if event.starts_with("pr:") => {
            vec![WebhookHint::PullRequest { number: parse_body::<DataCenterPullRequestEvent>(body)?.pull_request.id }]
        }
        Some(_) | None => Vec::new(),
    })
}

fn cloud_ref_hint(changed: &BitbucketCloudRef) -> Option<WebhookHint> {
    match changed.kind.as_str() {
        "branch" | "named_branch" => ref_hint(&format!("refs/heads/{}", changed.name)),
        "tag" | "annotated_tag" => ref_hint(&format!("refs/tags/{}", changed.name)),
        _ => None,
    }
}
