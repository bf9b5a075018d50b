//! How a client proves who it is.

use super::api::ForgeError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use std::sync::Arc;

/// How a client proves who it is.
#[derive(Clone)]
pub(super) enum ForgeAuth {
    /// A header that never changes, with what must not be seen of it.
    Header(HeaderName, HeaderValue, Vec<SecretString>),
    /// The tokens of a GitHub App, an hour each.
    App(Arc<dyn AppTokens>),
}

/// Tokens that end, with the account behind them.
pub(super) trait AppTokens: Send + Sync {
    /// A token that holds for some minutes yet.
    fn current_token(&self) -> BoxFuture<'_, Result<SecretString, ForgeError>>;

    /// Has the next token be a new one, as the host did not know the last.
    fn discard_token(&self) -> BoxFuture<'_, ()>;

    /// What comments are signed with that are written with these tokens.
    fn account_login(&self) -> BoxFuture<'_, Result<String, ForgeError>>;

    /// What an answer must not repeat into a message.
    fn recent_secrets(&self) -> Vec<SecretString>;
}

impl ForgeAuth {
    /// `Authorization: Bearer`.
    pub fn bearer(token: &SecretString) -> Result<Self, ForgeError> {
        Self::header(AUTHORIZATION, "Bearer ", token)
    }

    /// A header that is a prefix and the token.
    pub fn header(name: HeaderName, prefix: &str, token: &SecretString) -> Result<Self, ForgeError> {
        Ok(Self::Header(name, header_value(prefix, token)?, vec![token.clone()]))
    }

    /// `Authorization: Basic`.
    pub fn basic(user: &str, password: &SecretString) -> Result<Self, ForgeError> {
        if password.expose_secret().is_empty() {
            return Err(unusable_token_error("is empty"));
        }
        let both = SecretString::from(STANDARD.encode(format!("{user}:{}", password.expose_secret())));
        Ok(Self::Header(AUTHORIZATION, header_value("Basic ", &both)?, vec![password.clone(), both]))
    }

    /// The header to send now.
    pub async fn current_header(&self) -> Result<(HeaderName, HeaderValue), ForgeError> {
        match self {
            Self::Header(name, value, _) => Ok((name.clone(), value.clone())),
            Self::App(tokens) => Ok((AUTHORIZATION, header_value("Bearer ", &tokens.current_token().await?)?)),
        }
    }

    /// What must not be seen of it.
    pub fn secrets(&self) -> Vec<SecretString> {
        match self {
            Self::Header(_, _, secrets) => secrets.clone(),
            Self::App(tokens) => tokens.recent_secrets(),
        }
    }
}

fn header_value(prefix: &str, token: &SecretString) -> Result<HeaderValue, ForgeError> {
    let text = token.expose_secret();
    if text.is_empty() {
        return Err(unusable_token_error("is empty"));
    }
    let mut value = HeaderValue::from_str(&format!("{prefix}{text}"))
        .map_err(|_| unusable_token_error("contains an invalid character, such as a line break"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn unusable_token_error(message: &str) -> ForgeError {
    ForgeError::Misconfigured {
        field: "token",
        message: format!("of the secret that `spec.forge.secretRef` names {message}"),
        fix: "put only the token there, as the git host showed it",
    }
}
