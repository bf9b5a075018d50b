//! From what a source says to a client.

use super::address::{self, Make, Place};
use super::client::Login;
use super::github::app::{Rights, Tokens};
use super::{AnyForge, Azure, BitbucketCloud, BitbucketDataCenter, ForgeError, Gitea, Github, Gitlab, Http};
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
        http: Http,
    ) -> Result<Self, ForgeError> {
        Self::with_rights(spec, url, secret, http, Rights::Report)
    }

    /// As [`AnyForge::connect`], for opening a pull request: an App's token then has the rights for that, and no others.
    ///
    /// # Errors
    /// As there.
    pub fn connect_to_propose(
        spec: &model_source::Forge,
        url: &RepositoryUrl,
        secret: &SecretValues,
        http: Http,
    ) -> Result<Self, ForgeError> {
        Self::with_rights(spec, url, secret, http, Rights::Propose)
    }

    fn with_rights(
        spec: &model_source::Forge,
        url: &RepositoryUrl,
        secret: &SecretValues,
        http: Http,
        rights: Rights,
    ) -> Result<Self, ForgeError> {
        let (place, login) = place_and_login(spec, url, secret, &http, rights)?;
        Ok(match place.make {
            Make::Github => Self::Github(Github::new(http, place, login)),
            Make::Gitlab => Self::Gitlab(Gitlab::new(http, place, login)),
            Make::Gitea => Self::Gitea(Gitea::new(http, place, login)),
            Make::BitbucketCloud => Self::BitbucketCloud(BitbucketCloud::new(http, place, login)),
            Make::BitbucketDataCenter => Self::BitbucketDataCenter(BitbucketDataCenter::new(http, place, login)),
            Make::Azure => Self::Azure(Azure::new(http, place, login)),
        })
    }
}

/// Where the repository's API is, and how to log in there.
pub(super) fn place_and_login(
    spec: &model_source::Forge,
    url: &RepositoryUrl,
    secret: &SecretValues,
    http: &Http,
    rights: Rights,
) -> Result<(Place, Login), ForgeError> {
    let app = GithubApp::read(secret).map_err(|error| ForgeError::Misconfigured {
        field: "spec.forge.secretRef",
        message: error.to_string(),
        fix: "put all keys of the App there, or a `token` in their place",
    })?;
    let given = spec.url.as_deref().or_else(|| app.as_ref().and_then(|app| app.api.as_deref()));
    let place = address::place(spec.kind, given, url)?;
    let login = login(&place, secret, app.as_ref(), http, rights)?;
    Ok((place, login))
}

fn login(
    place: &Place,
    secret: &SecretValues,
    app: Option<&GithubApp>,
    http: &Http,
    rights: Rights,
) -> Result<Login, ForgeError> {
    let token = line(secret, "token");
    match app {
        Some(_) if token.is_some() => {
            return Err(wrong("token", "stands beside the keys of a GitHub App", "keep one of the two in the secret"));
        }
        Some(_) if place.make != Make::Github => {
            let fix = "put a `token` of this host there";
            return Err(wrong("githubAppID", "is for GitHub alone, and `spec.forge.type` is another host", fix));
        }
        Some(app) => {
            let tokens = Tokens::new(http.clone(), place.api.clone(), app, &place.name, rights)?;
            return Ok(Login::App(Arc::new(tokens)));
        }
        None => {}
    }
    let Some(token) = token else {
        let message = format!("is not in the secret `{}`", secret.name());
        return Err(wrong("token", &message, "put the token of an account at the git host there"));
    };
    let user = line(secret, "username");
    match place.make {
        Make::Github => Login::bearer(&token),
        Make::Gitlab => Login::header(HeaderName::from_static("private-token"), "", &token),
        Make::Gitea => Login::header(AUTHORIZATION, "token ", &token),
        Make::BitbucketCloud | Make::BitbucketDataCenter => match user {
            Some(user) => Login::basic(user.expose_secret(), &token),
            None => Login::bearer(&token),
        },
        // A personal access token has no user. What Entra gives has three parts, as every JSON web token.
        Make::Azure if token.expose_secret().split('.').count() == 3 => Login::bearer(&token),
        Make::Azure => Login::basic("", &token),
    }
}

/// A value of one line. Files end in a line break, and secrets are often made of files.
fn line(secret: &SecretValues, key: &str) -> Option<SecretString> {
    let text = secret.text(key)?;
    let trimmed = text.expose_secret().trim();
    (!trimmed.is_empty()).then(|| SecretString::from(trimmed.to_owned()))
}

fn wrong(field: &'static str, message: &str, fix: &'static str) -> ForgeError {
    ForgeError::Misconfigured { field, message: message.to_owned(), fix }
}
