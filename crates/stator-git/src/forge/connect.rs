//! From what a source says to a client.

use super::any::ConnectedForge;
use super::auth::ForgeAuth;
use super::endpoint::{self, ForgeBackend, ForgeEndpoint};
use super::github_app::{GithubTokenScope, InstallationTokens};
use super::repository_client::RepositoryClient;
use super::{AnyForge, ForgeError, ForgeHttp};
use crate::source::credentials::GithubApp;
use crate::source::model_source;
use crate::source::secret::SecretValues;
use crate::source::url::RepositoryUrl;
use ::http::HeaderName;
use ::http::header::AUTHORIZATION;
use secrecy::{ExposeSecret as _, SecretString};
use std::sync::Arc;

impl AnyForge {
    /// A client for a repository, as `spec.forge` of its source describes the host. Nothing is asked of the host yet.
    ///
    /// The secret holds a `token`; with a `username` beside it, as Bitbucket's API tokens need it (there the e-mail address of
    /// the account). For GitHub it may hold the keys of an App in place of a token: `githubAppID`,
    /// `githubAppInstallationID` or `githubAppInstallationOwner`, `githubAppPrivateKey`.
    ///
    /// # Errors
    /// [`ForgeError::Misconfigured`] with the field at fault.
    pub fn connect(
        spec: &model_source::Forge,
        url: &RepositoryUrl,
        secret: &SecretValues,
        http: ForgeHttp,
    ) -> Result<Self, ForgeError> {
        Self::connect_with_scope(spec, url, secret, http, GithubTokenScope::Report)
    }

    /// As [`AnyForge::connect`], for opening a pull request: an App's token then has the rights for that, and no others.
    ///
    /// # Errors
    /// As there.
    pub fn connect_to_propose(
        spec: &model_source::Forge,
        url: &RepositoryUrl,
        secret: &SecretValues,
        http: ForgeHttp,
    ) -> Result<Self, ForgeError> {
        Self::connect_with_scope(spec, url, secret, http, GithubTokenScope::Propose)
    }

    fn connect_with_scope(
        spec: &model_source::Forge,
        url: &RepositoryUrl,
        secret: &SecretValues,
        http: ForgeHttp,
        rights: GithubTokenScope,
    ) -> Result<Self, ForgeError> {
        let (place, login) = resolve_endpoint_and_auth(spec, url, secret, &http, rights)?;
        Ok(Self(match place.backend {
            ForgeBackend::Github => ConnectedForge::Github(RepositoryClient::new(http, place, login)),
            ForgeBackend::Gitlab => ConnectedForge::Gitlab(RepositoryClient::new(http, place, login)),
            ForgeBackend::Gitea => ConnectedForge::Gitea(RepositoryClient::new(http, place, login)),
            ForgeBackend::BitbucketCloud => ConnectedForge::BitbucketCloud(RepositoryClient::new(http, place, login)),
            ForgeBackend::BitbucketDataCenter => {
                ConnectedForge::BitbucketDataCenter(RepositoryClient::new(http, place, login))
            }
            ForgeBackend::Azure => ConnectedForge::Azure(RepositoryClient::new(http, place, login)),
        }))
    }
}

/// Where the repository's API is, and how to log in there.
pub(super) fn resolve_endpoint_and_auth(
    spec: &model_source::Forge,
    url: &RepositoryUrl,
    secret: &SecretValues,
    http: &ForgeHttp,
    rights: GithubTokenScope,
) -> Result<(ForgeEndpoint, ForgeAuth), ForgeError> {
    let app = GithubApp::read(secret).map_err(|error| ForgeError::Misconfigured {
        field: "spec.forge.secretRef",
        message: error.to_string(),
        fix: "put all keys of the App there, or a `token` instead",
    })?;
    let given = spec.url.as_deref().or_else(|| app.as_ref().and_then(|app| app.api.as_deref()));
    let place = endpoint::resolve_endpoint(spec.kind, given, url)?;
    let login = auth_from_secret(&place, secret, app.as_ref(), http, rights)?;
    Ok((place, login))
}

fn auth_from_secret(
    place: &ForgeEndpoint,
    secret: &SecretValues,
    app: Option<&GithubApp>,
    http: &ForgeHttp,
    rights: GithubTokenScope,
) -> Result<ForgeAuth, ForgeError> {
    let token = single_line_value(secret, "token");
    match app {
        Some(_) if token.is_some() => {
            return Err(misconfigured_secret(
                "token",
                "is set together with the keys of a GitHub App",
                "keep one of the two in the secret",
            ));
        }
        Some(_) if place.backend != ForgeBackend::Github => {
            let fix = "put a `token` of this host there";
            return Err(misconfigured_secret(
                "githubAppID",
                "is only for GitHub, but `spec.forge.type` is another host",
                fix,
            ));
        }
        Some(app) => {
            let tokens = InstallationTokens::new(http.clone(), place.api.clone(), app, &place.name, rights)?;
            return Ok(ForgeAuth::App(Arc::new(tokens)));
        }
        None => {}
    }
    let Some(token) = token else {
        let message = format!("is not in the secret `{}`", secret.name());
        return Err(misconfigured_secret("token", &message, "put the token of an account at the git host there"));
    };
    let user = single_line_value(secret, "username");
    match place.backend {
        ForgeBackend::Github => ForgeAuth::bearer(&token),
        ForgeBackend::Gitlab => ForgeAuth::header(HeaderName::from_static("private-token"), "", &token),
        ForgeBackend::Gitea => ForgeAuth::header(AUTHORIZATION, "token ", &token),
        ForgeBackend::BitbucketCloud | ForgeBackend::BitbucketDataCenter => match user {
            Some(user) => ForgeAuth::basic(user.expose_secret(), &token),
            None => ForgeAuth::bearer(&token),
        },
        // A personal access token has no user. What Entra gives has three parts, as every JSON web token.
        ForgeBackend::Azure if token.expose_secret().split('.').count() == 3 => ForgeAuth::bearer(&token),
        ForgeBackend::Azure => ForgeAuth::basic("", &token),
    }
}

/// A value of one line. Files end in a line break, and secrets are often made of files.
fn single_line_value(secret: &SecretValues, key: &str) -> Option<SecretString> {
    let text = secret.text(key)?;
    let trimmed = text.expose_secret().trim();
    (!trimmed.is_empty()).then(|| SecretString::from(trimmed.to_owned()))
}

fn misconfigured_secret(field: &'static str, message: &str, fix: &'static str) -> ForgeError {
    ForgeError::Misconfigured { field, message: message.to_owned(), fix }
}
