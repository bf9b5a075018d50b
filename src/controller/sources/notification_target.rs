//! A receiver of notifications: a secret address, and the events to send there.

use secrecy::{ExposeSecret as _, SecretString};
use stator_git::source::addresses::AddressPolicy;
use stator_git::source::model_source::{Notification, NotificationEvent, NotificationKind};
use stator_git::source::secret::SecretValues;
use std::collections::BTreeSet;
use std::fmt;
use url::Url;

/// The longest address that is taken.
const MAX_URL_LENGTH: usize = 2048;

/// One receiver of notifications.
#[derive(Clone)]
pub struct NotificationTarget {
    /// What it takes.
    pub kind: NotificationKind,
    /// The events to send.
    pub events: BTreeSet<NotificationEvent>,
    /// The secret's name, which is what it is called in messages.
    pub name: String,
    /// Where to send to. Whoever knows it may post there, so it is shown to nobody.
    pub(in crate::controller) url: Url,
    /// What deliveries are signed with.
    pub(in crate::controller) token: Option<SecretString>,
    /// Certificates to trust in place of the public ones.
    pub(in crate::controller) roots: Vec<u8>,
    /// Which addresses may be connected to.
    pub(in crate::controller) addresses: AddressPolicy,
}

impl fmt::Debug for NotificationTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("kind", &self.kind).field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why no notification can be sent. Never contains a part of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotificationTargetError {
    /// The secret has no address.
    #[error("has no `url`, or an empty one")]
    Missing,
    /// It is no address.
    #[error("has no web address under `url`")]
    Address,
    /// It is sent in the clear.
    #[error("has an `http://` address under `url`, which is not encrypted")]
    Insecure,
}

impl NotificationTargetError {
    /// What to do about it.
    pub fn help(self) -> &'static str {
        match self {
            Self::Missing | Self::Address => "Put the whole address there, as the receiver shows it.",
            Self::Insecure => "Write an `https://` address; `http://` needs `allowInsecure: true`.",
        }
    }
}

impl NotificationTarget {
    /// Of what a source asks for, and the secret that it names. `insecure` lets the address be `http://`.
    ///
    /// # Errors
    /// See [`NotificationTargetError`].
    pub fn from_secret(
        wanted: &Notification,
        secret: &SecretValues,
        insecure: bool,
    ) -> Result<Self, NotificationTargetError> {
        let url = target_url(secret, insecure)?;
        let events = match wanted.events.as_slice() {
            [] => [NotificationEvent::Failed, NotificationEvent::Recovered, NotificationEvent::Held].into(),
            named => named.iter().copied().collect(),
        };
        let token = secret.text("token").map(|token| SecretString::from(token.expose_secret().trim()));
        Ok(Self {
            kind: wanted.kind,
            events,
            name: secret.name().to_owned(),
            url,
            token: token.filter(|token| !token.expose_secret().is_empty()),
            addresses: AddressPolicy::default(),
            roots: secret.get("ca.crt").or_else(|| secret.get("caFile")).unwrap_or_default().to_vec(),
        })
    }
}

/// The address in a secret.
///
/// # Errors
/// See [`NotificationTargetError`].
pub fn target_url(secret: &SecretValues, insecure: bool) -> Result<Url, NotificationTargetError> {
    let text = secret.text("url").ok_or(NotificationTargetError::Missing)?;
    let text = text.expose_secret().trim();
    if text.is_empty() {
        return Err(NotificationTargetError::Missing);
    }
    let url = Url::parse(text)
        .ok()
        .filter(|url| text.len() <= MAX_URL_LENGTH && url.has_host())
        .ok_or(NotificationTargetError::Address)?;
    match url.scheme() {
        "https" => Ok(url),
        "http" if insecure => Ok(url),
        "http" => Err(NotificationTargetError::Insecure),
        _ => Err(NotificationTargetError::Address),
    }
}
