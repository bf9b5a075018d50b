//! What a delivery says, and what all hosts' deliveries are read with.

use http::HeaderMap;
use serde::de::DeserializeOwned;

/// The most bytes of a body that are read. Nearly all have some kilobytes; GitHub sends up to 25 MB, of pushes with thousands
/// of files, which the next poll finds as well.
pub const MAX_BODY_BYTES: usize = 3 << 20;

/// What a genuine delivery says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookDelivery {
    /// The host's own name for it, the same when it is sent again; `None` where the host gives none.
    pub id: Option<String>,
    /// What to look at. Empty for a ping and for events that stator does nothing about.
    pub hints: Vec<WebhookHint>,
}

/// Something worth a look.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WebhookHint {
    /// A branch or tag moved, appeared or went.
    Ref {
        /// Its whole name: `refs/heads/main`.
        name: String,
    },
    /// A pull request was opened, changed or closed.
    PullRequest {
        /// Its number in its repository.
        number: u64,
    },
}

/// Why a delivery is turned away. Nothing here goes into the answer: it would help whoever guesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// There is no secret to check it with, or only empty ones.
    #[error("the webhook's secret is missing or empty; put a `token` into the secret that `spec.webhook` names")]
    NoSecret,
    /// It carries no signature, or none that the host signs with.
    #[error("the delivery is not signed; set the secret on the git host's webhook too")]
    Unsigned,
    /// The signature is another secret's, or another body's.
    #[error("the delivery's signature does not match; set the same secret here and on the git host's webhook")]
    Forged,
    /// It was signed too long ago, or in the future.
    #[error("the delivery's signature is too old or in the future; compare this machine's clock with the git host's")]
    Stale,
    /// Its body is larger than [`MAX_BODY_BYTES`].
    #[error("the delivery's body is larger than 3 MiB; the next poll finds the change")]
    TooLarge,
    /// It is genuine, but no JSON of the shape that the host documents.
    #[error("the delivery is genuine, but cannot be read; set its content type to application/json")]
    Unreadable,
}

pub(super) fn header_text_owned(headers: &HeaderMap, name: &str) -> Option<String> {
    header_text(headers, name).map(str::to_owned)
}

pub(super) fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().filter(|value| !value.is_empty())
}

pub(super) fn parse_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, WebhookError> {
    serde_json::from_slice(body).map_err(|_| WebhookError::Unreadable)
}

/// A ref's hint; nothing for a name that git would not take for a branch or tag.
pub(super) fn ref_hint(name: &str) -> Option<WebhookHint> {
    let is_ref = name.starts_with("refs/heads/") || name.starts_with("refs/tags/");
    is_ref.then(|| WebhookHint::Ref { name: name.to_owned() })
}
