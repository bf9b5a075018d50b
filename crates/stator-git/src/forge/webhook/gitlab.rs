//! Payloads of GitLab. The kind of event is in the body.

use super::{Hint, Refusal, moved, parse};
use serde::Deserialize;

#[derive(Deserialize)]
struct Payload {
    #[serde(default)]
    object_kind: String,
    #[serde(default, rename = "ref")]
    name: Option<String>,
    #[serde(default)]
    object_attributes: Option<Attributes>,
}

#[derive(Deserialize)]
struct Attributes {
    #[serde(default)]
    iid: Option<u64>,
}

pub(super) fn hints(body: &[u8]) -> Result<Vec<Hint>, Refusal> {
    let payload: Payload = parse(body)?;
    Ok(match payload.object_kind.as_str() {
        "push" | "tag_push" => moved(&payload.name.ok_or(Refusal::Unreadable)?).into_iter().collect(),
        "merge_request" => {
            let number = payload.object_attributes.and_then(|attributes| attributes.iid).ok_or(Refusal::Unreadable)?;
            vec![Hint::PullRequest { number }]
        }
        _ => Vec::new(),
    })
}
