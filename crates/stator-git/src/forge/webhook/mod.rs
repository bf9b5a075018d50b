//! Webhooks: whether a delivery is genuine, and what it hints at.
//!
//! A delivery only ever schedules a look at the refs that a source names itself. No URL, branch or path of a payload is
//! fetched from, because whoever can write to a repository shapes much of it.

mod azure;
mod bitbucket;
mod delivery;
mod github;
mod gitlab;
mod signature;
#[cfg(test)]
mod tests;

pub use delivery::{MAX_BODY_BYTES, WebhookDelivery, WebhookError, WebhookHint};

use crate::source::model_source::ForgeKind;
use delivery::{header_text, header_text_owned};
use http::HeaderMap;
use secrecy::SecretString;

/// Checks a delivery against any of the secrets, over the raw body and before anything of it is parsed, and reads it.
///
/// The host is the one that the source is configured for. Hosts send one another's headers, and whoever could choose
/// the check would choose the weakest. Several secrets are for changing one without missing a delivery.
///
/// # Errors
/// See [`WebhookError`]. All but [`WebhookError::Unreadable`] say that the sender is not known to be the host.
pub fn receive(
    host: ForgeKind,
    secrets: &[SecretString],
    headers: &HeaderMap,
    body: &[u8],
    now: jiff::Timestamp,
) -> Result<WebhookDelivery, WebhookError> {
    if body.len() > MAX_BODY_BYTES {
        return Err(WebhookError::TooLarge);
    }
    signature::verify_delivery(host, secrets, headers, body, now)?;
    let (id, mut hints) = match host {
        ForgeKind::Github => (
            header_text_owned(headers, "x-github-delivery"),
            github::parse_hints(header_text(headers, "x-github-event"), body)?,
        ),
        // Gitea's payloads have GitHub's shape.
        ForgeKind::Gitea => (
            header_text_owned(headers, "x-gitea-delivery"),
            github::parse_hints(header_text(headers, "x-gitea-event"), body)?,
        ),
        ForgeKind::Gitlab => {
            let ids = ["idempotency-key", "webhook-id", "x-gitlab-event-uuid"];
            (ids.iter().find_map(|name| header_text_owned(headers, name)), gitlab::parse_hints(body)?)
        }
        ForgeKind::Bitbucket => {
            let id =
                header_text_owned(headers, "x-request-uuid").or_else(|| header_text_owned(headers, "x-request-id"));
            (id, bitbucket::parse_hints(header_text(headers, "x-event-key"), body)?)
        }
        ForgeKind::Azure => azure::parse_delivery(body)?,
    };
    hints.sort();
    hints.dedup();
    Ok(WebhookDelivery { id, hints })
}
