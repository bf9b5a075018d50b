//! Payloads of Azure DevOps. Kind and id of the event are in the body.

use super::delivery::{WebhookError, WebhookHint, parse_body, ref_hint};
use serde::Deserialize;

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

pub(super) fn parse_delivery(body: &[u8]) -> Result<(Option<String>, Vec<WebhookHint>), WebhookError> {
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
