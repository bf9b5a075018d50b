//! Payloads of Bitbucket: of the cloud, and of Data Center, which have little in common. One delivery may hold several
//! changes of refs.

use super::{Hint, Refusal, moved, parse};
use serde::Deserialize;

#[derive(Deserialize)]
struct CloudPush {
    push: CloudChanges,
}

#[derive(Deserialize)]
struct CloudChanges {
    #[serde(default)]
    changes: Vec<CloudChange>,
}

#[derive(Deserialize)]
struct CloudChange {
    #[serde(default)]
    old: Option<CloudRef>,
    #[serde(default)]
    new: Option<CloudRef>,
}

#[derive(Deserialize)]
struct CloudRef {
    #[serde(rename = "type")]
    kind: String,
    name: String,
}

#[derive(Deserialize)]
struct CloudPullRequest {
    pullrequest: Numbered,
}

#[derive(Deserialize)]
struct CenterPush {
    #[serde(default)]
    changes: Vec<CenterChange>,
}

#[derive(Deserialize)]
struct CenterChange {
    #[serde(rename = "refId")]
    name: String,
}

#[derive(Deserialize)]
struct CenterPullRequest {
    #[serde(rename = "pullRequest")]
    pull_request: Numbered,
}

#[derive(Deserialize)]
struct Numbered {
    id: u64,
}

pub(super) fn hints(event: Option<&str>, body: &[u8]) -> Result<Vec<Hint>, Refusal> {
    Ok(match event {
        Some("repo:push") => {
            let changes = parse::<CloudPush>(body)?.push.changes;
            // A deleted ref has no `new`, a created one no `old`.
            changes.iter().filter_map(|change| change.new.as_ref().or(change.old.as_ref())).filter_map(cloud).collect()
        }
        Some("repo:refs_changed") => {
            parse::<CenterPush>(body)?.changes.iter().filter_map(|change| moved(&change.name)).collect()
        }
        Some(event) if event.starts_with("pullrequest:") => {
            vec![Hint::PullRequest { number: parse::<CloudPullRequest>(body)?.pullrequest.id }]
        }
        Some(event) if event.starts_with("pr:") => {
            vec![Hint::PullRequest { number: parse::<CenterPullRequest>(body)?.pull_request.id }]
        }
        Some(_) | None => Vec::new(),
    })
}

fn cloud(changed: &CloudRef) -> Option<Hint> {
    match changed.kind.as_str() {
        "branch" | "named_branch" => moved(&format!("refs/heads/{}", changed.name)),
        "tag" | "annotated_tag" => moved(&format!("refs/tags/{}", changed.name)),
        _ => None,
    }
}
