//! Payloads of GitLab. The kind of event is in the body.

use super::delivery::{WebhookError, WebhookHint, parse_body, ref_hint};
use serde::Deserialize;

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

pub(super) fn parse_hints(body: &[u8]) -> Result<Vec<WebhookHint>, WebhookError> {
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
