//! Payloads of the hosts' webhooks.
//!
//! GitHub, Gitea and Forgejo have the same shape. GitLab and Azure DevOps have the kind of the event in the body; Azure
//! DevOps its id as well. The two Bitbuckets, the cloud and Data Center, have little in common, and one delivery of theirs
//! may hold several changes of refs.

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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AzureEvent {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    event_type: String,
    #[serde(default)]
    resource: Option<AzureEventResource>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AzureEventResource {
    #[serde(default)]
    ref_updates: Vec<AzureRefUpdate>,
    #[serde(default)]
    pull_request_id: Option<u64>,
}

#[derive(Deserialize)]
struct AzureRefUpdate {
    name: String,
}

pub(super) fn parse_azure_delivery(body: &[u8]) -> Result<(Option<String>, Vec<WebhookHint>), WebhookError> {
    let event: AzureEvent = parse_body(body)?;
    let resource = event.resource.unwrap_or_default();
    let hints = match event.event_type.as_str() {
        "git.push" => resource.ref_updates.iter().filter_map(|update| ref_hint(&update.name)).collect(),
        kind if kind.starts_with("git.pullrequest.") => {
            vec![WebhookHint::PullRequest { number: resource.pull_request_id.ok_or(WebhookError::Unreadable)? }]
        }
        _ => Vec::new(),
    };
    Ok((event.id, hints))
}

#[derive(Deserialize)]
struct GithubPushEvent {
    #[serde(rename = "ref")]
    name: String,
}

#[derive(Deserialize)]
struct GithubPullRequestEvent {
    number: u64,
}

pub(super) fn parse_github_hints(event: Option<&str>, body: &[u8]) -> Result<Vec<WebhookHint>, WebhookError> {
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

#[derive(Deserialize)]
struct GitlabEvent {
    #[serde(default)]
    object_kind: String,
    #[serde(default, rename = "ref")]
    name: Option<String>,
    #[serde(default)]
    object_attributes: Option<GitlabEventAttributes>,
}

#[derive(Deserialize)]
struct GitlabEventAttributes {
    #[serde(default)]
    iid: Option<u64>,
}

pub(super) fn parse_gitlab_hints(body: &[u8]) -> Result<Vec<WebhookHint>, WebhookError> {
    let payload: GitlabEvent = parse_body(body)?;
    Ok(match payload.object_kind.as_str() {
        "push" | "tag_push" => ref_hint(&payload.name.ok_or(WebhookError::Unreadable)?).into_iter().collect(),
        "merge_request" => {
            let number =
                payload.object_attributes.and_then(|attributes| attributes.iid).ok_or(WebhookError::Unreadable)?;
            vec![WebhookHint::PullRequest { number }]
        }
        _ => Vec::new(),
    })
}
