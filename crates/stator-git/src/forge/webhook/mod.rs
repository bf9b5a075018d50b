//! Webhooks: whether a delivery is genuine, and what it hints at.
//!
//! A delivery only ever schedules a look at the refs that a source names itself. No URL, branch or path of a payload is
//! fetched from, because whoever can write to a repository shapes much of it.

mod delivery;
mod payloads;
mod signature;
#[cfg(test)]
mod tests;

pub use delivery::{MAX_BODY_BYTES, WebhookDelivery, WebhookError, WebhookHint};
pub use signature::DeliveryProof;

use crate::source::model_source::ForgeKind;
use delivery::{header_text, header_text_owned};
use http::HeaderMap;
use secrecy::{ExposeSecret as _, SecretString};

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
    let mut refusal = WebhookError::NoSecret;
    let has_secret = secrets.iter().any(|secret| !secret.expose_secret().is_empty());
    let proof = if has_secret { DeliveryProof::from_headers(host, headers)? } else { return Err(refusal) };
    for secret in secrets.iter().filter(|secret| !secret.expose_secret().is_empty()) {
        match proof.verify(secret, body, now) {
            Ok(()) => return parse(host, headers, body),
            Err(error) => refusal = error,
        }
    }
    Err(refusal)
}

/// Reads a delivery that [`DeliveryProof::verify`] found to be genuine.
///
/// # Errors
/// [`WebhookError::Unreadable`].
pub fn parse(host: ForgeKind, headers: &HeaderMap, body: &[u8]) -> Result<WebhookDelivery, WebhookError> {
    let (id, mut hints) = match host {
        ForgeKind::Github => (
            header_text_owned(headers, "x-github-delivery"),
            payloads::parse_github_hints(header_text(headers, "x-github-event"), body)?,
        ),
        // Gitea's payloads have GitHub's shape.
        ForgeKind::Gitea => (
            header_text_owned(headers, "x-gitea-delivery"),
            payloads::parse_github_hints(header_text(headers, "x-gitea-event"), body)?,
        ),
        ForgeKind::Gitlab => {
            let ids = ["idempotency-key", "webhook-id", "x-gitlab-event-uuid"];
            (ids.iter().find_map(|name| header_text_owned(headers, name)), payloads::parse_gitlab_hints(body)?)
        }
        ForgeKind::Bitbucket => {
            let id =
                header_text_owned(headers, "x-request-uuid").or_else(|| header_text_owned(headers, "x-request-id"));
            (id, payloads::parse_hints(header_text(headers, "x-event-key"), body)?)
        }
        ForgeKind::Azure => payloads::parse_azure_delivery(body)?,
    };
    hints.sort();
    hints.dedup();
    Ok(WebhookDelivery { id, hints })
}
