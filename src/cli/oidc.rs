//! The options of signing in at an OpenID Connect provider.

use super::error::CliError;
use crate::web::{OidcSettings, is_protected};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueHint};
use secrecy::SecretString;
use std::path::PathBuf;
use url::Url;

/// The path that the provider sends browsers back to.
const CALLBACK: &str = "sign-in/callback";

/// Where people sign in who have no token, and what they are called in the cluster, as with the API server's `--oidc-*` flags.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Pages")]
pub struct OidcArgs {
    /// Let people sign in at this OpenID Connect provider. Its redirect URI is the address of --web-url, followed by sign-in/callback
    #[arg(long, value_name = "URL", value_parser = issuer, requires = "web_url", requires = "web_oidc_client")]
    web_oidc_issuer: Option<Issuer>,
    /// Client ID of the pages at the provider
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new(), requires = "web_oidc_issuer")]
    web_oidc_client: Option<String>,
    /// File with the client secret. Default: a public client, which has none
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "web_oidc_issuer")]
    web_oidc_secret_file: Option<PathBuf>,
    /// File with the certificates to trust for the provider (PEM). Default: those of the system
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "web_oidc_issuer")]
    web_oidc_ca_file: Option<PathBuf>,
    /// Claim with the name of a user
    #[arg(long, value_name = "CLAIM", default_value = "sub")]
    web_oidc_username_claim: String,
    /// Prefix of user names in the cluster; `-` for none. Default: none for `email`, otherwise the issuer and `#`
    #[arg(long, value_name = "PREFIX")]
    web_oidc_username_prefix: Option<String>,
    /// Claim with the groups of a user. Default: users have no groups
    #[arg(long, value_name = "CLAIM")]
    web_oidc_groups_claim: Option<String>,
    /// Prefix of groups in the cluster
    #[arg(long, value_name = "PREFIX", default_value = "")]
    web_oidc_groups_prefix: String,
}

impl OidcArgs {
    /// Whether a provider is named.
    pub fn is_on(&self) -> bool {
        self.web_oidc_issuer.is_some()
    }

    /// The provider, of pages at an address; `None` where none is named.
    ///
    /// # Errors
    /// Where a file cannot be read.
    pub fn settings(&self, url: Option<&Url>) -> Result<Option<OidcSettings>, CliError> {
        let (Some(issuer), Some(client), Some(url)) = (&self.web_oidc_issuer, &self.web_oidc_client, url) else {
            return Ok(None);
        };
        let secret = self.web_oidc_secret_file.as_ref().map(fs_err::read_to_string).transpose()?;
        let username_prefix = match self.web_oidc_username_prefix.as_deref() {
            Some("-") => String::new(),
            Some(prefix) => prefix.to_owned(),
            None if self.web_oidc_username_claim == "email" => String::new(),
            None => format!("{}#", issuer.text),
        };
        let mut redirect = url.clone();
        redirect.set_path(CALLBACK);
        Ok(Some(OidcSettings {
            issuer: issuer.url.clone(),
            client: client.clone(),
            secret: secret.map(|secret| SecretString::from(secret.trim())),
            roots: self.web_oidc_ca_file.as_ref().map(fs_err::read).transpose()?,
            username_claim: self.web_oidc_username_claim.clone(),
            username_prefix,
            groups_claim: self.web_oidc_groups_claim.clone(),
            groups_prefix: self.web_oidc_groups_prefix.clone(),
            redirect,
        }))
    }
}

/// A provider as it names itself, to the letter: names of users begin with it.
#[derive(Clone, Debug)]
struct Issuer {
    text: String,
    url: Url,
}

fn issuer(text: &str) -> Result<Issuer, String> {
    let url = Url::parse(text).map_err(|error| format!("it is not a URL: {error}"))?;
    let is_plain =
        url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
    match (is_protected(&url), is_plain) {
        (true, true) => Ok(Issuer { text: text.to_owned(), url }),
        (false, _) => Err("it must begin with https://".to_owned()),
        (true, false) => Err("write a scheme, a host and a path only".to_owned()),
    }
}
