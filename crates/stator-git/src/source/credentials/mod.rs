//! What a secret gives to log in to a git host with: the keys that Flux and Argo CD use, in one reading.
//!
//! A secret made for either tool works as it is. What cannot be right (halves, two logins at once, a key for another
//! way in, a value that a file or an editor has spoilt) is refused before anything is sent, all of it at once, with the
//! secret, the key and the fix, and never a value.

mod error;
mod keys;
mod read;
mod secret_reader;
#[cfg(test)]
mod tests;

pub use error::{CredentialError, CredentialFault};

use super::ssh_keys::{KnownHosts, SshPrivateKey};
use crate::source::addresses::AddressPolicy;
use secrecy::{SecretSlice, SecretString};

/// All that a secret says about how a repository is reached.
#[derive(Clone, Debug)]
pub struct GitCredentials {
    /// Who to log in as.
    pub login: GitLogin,
    /// Certificates to trust in place of the public ones, as PEM; empty for the public ones.
    pub roots: Vec<u8>,
    /// What to show a server that asks for a certificate.
    pub client: Option<ClientCertificate>,
    /// What to go through.
    pub proxy: Option<ProxySettings>,
    /// Which addresses may be connected to, the proxy's included.
    pub addresses: AddressPolicy,
}

/// Who to log in as.
#[derive(Clone, Debug)]
pub enum GitLogin {
    /// Nobody.
    Anonymous,
    /// A user and a password or token, by HTTP's basic scheme.
    Basic {
        /// The user; most hosts take anything with a token.
        username: SecretString,
        /// The password or token.
        password: SecretString,
    },
    /// A token, by HTTP's bearer scheme.
    Bearer(SecretString),
    /// A GitHub App, which trades its key for a token every hour.
    App(GithubApp),
    /// A key, by SSH.
    Ssh(SshIdentity),
}

/// A certificate for a server that asks for one.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// The certificate and what it was issued by, as PEM.
    pub certificate: Vec<u8>,
    /// Its key, as PEM.
    pub key: SecretSlice<u8>,
}

/// A proxy for HTTPS.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    /// Its address without a login: `http`, `https`, `socks5` or `socks5h`.
    pub url: String,
    /// The user and the password that it asks for.
    pub login: Option<(SecretString, SecretString)>,
    /// The hosts that are reached without it, as in `NO_PROXY`: separated by commas.
    pub bypass: Option<String>,
}

/// A GitHub App as one repository or organisation has installed it.
#[derive(Clone, Debug)]
pub struct GithubApp {
    /// Its id or client id: who its claims are from.
    pub id: String,
    /// Which installation to act for.
    pub installation: AppInstallation,
    /// Its private key, as PEM.
    pub key: SecretString,
    /// The API of an enterprise server: `https://HOST/api/v3`. `None` for the one that goes with the repository's host.
    pub api: Option<String>,
}

/// Which installation of a GitHub App to act for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppInstallation {
    /// By its number.
    Id(u64),
    /// By the organisation or user that installed it.
    Owner(String),
}

/// A key for SSH and the hosts that it may be shown to.
#[derive(Clone, Debug)]
pub struct SshIdentity {
    pub(in crate::source) key: SshPrivateKey,
    pub(in crate::source) known_hosts: KnownHosts,
}

/// Where the token of a [`GithubApp`] comes from: kept until shortly before it ends, then asked for anew.
pub trait TokenProvider: Send + Sync {
    /// A token that holds for some minutes yet. Blocks for a request when there is none; call it on a thread that may
    /// wait.
    ///
    /// # Errors
    /// A sentence that says what GitHub answered and what to do, without the key or a token.
    fn token(&self) -> Result<SecretString, String>;
}

impl GitCredentials {
    /// No login, and the roots that everybody trusts.
    fn anonymous() -> Self {
        Self {
            login: GitLogin::Anonymous,
            roots: Vec::new(),
            client: None,
            proxy: None,
            addresses: AddressPolicy::default(),
        }
    }
}
