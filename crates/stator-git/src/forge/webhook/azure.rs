//! Payloads of Azure DevOps. Kind and id of the event are in the body.

use super::{Hint, Refusal, moved, parse};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    event_type: String,
    #[serde(default)]
    resource: Option<Resource>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    #[serde(default)]
    ref_updates: Vec<RefUpdate>,
    #[serde(default)]
    pull_request_id: Option<u64>,
}

#[derive(Deserialize)]
struct RefUpdate {
    name: String,
}

pub(super) fn delivery(body: &[u8]) -> Result<(Option<String>, Vec<Hint>), Refusal> {
    let event: Event = parse(body)?;
    let resource = event.resource.unwrap_or_default();
    let hints = match event.event_type.as_str() {
        "git.push" => resource.ref_updates.iter().filter_map(|update| moved(&update.name)).collect(),
        kind if kind.starts_with("git.pullrequest.") => {
            vec![Hint::PullRequest { number: resource.pull_request_id.ok_or(Refusal::Unreadable)? }]
        }
        _ => Vec::new(),
    };
    Ok((event.id, hints))
}
