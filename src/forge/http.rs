//! How hosts are reached.

use super::ForgeError;
use crate::source::secret::SecretValues;
use crate::source::transport::TransportError;
use crate::source::transport::http::{self, HttpSettings};

/// How hosts are reached: one pool of connections for all of them, the same that repositories are fetched with.
#[derive(Clone, Debug)]
pub struct Http(http::Http);

impl Http {
    /// Connections as the system has them: its roots, its proxy.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new() -> Result<Self, ForgeError> {
        Self::with_roots(&[])
    }

    /// Connections that trust these certificates, as PEM, in place of the system's; the system's where there are none.
    ///
    /// # Errors
    /// When they are not PEM, or TLS cannot be set up.
    pub fn with_roots(roots: &[u8]) -> Result<Self, ForgeError> {
        let settings = HttpSettings { roots: roots.to_vec(), ..HttpSettings::default() };
        Self::with_settings(&settings).map_err(|error| ForgeError::Misconfigured {
            field: "caFile",
            message: format!("cannot be used: {error}"),
            fix: "put the certificate there, from -----BEGIN CERTIFICATE----- on",
        })
    }

    /// Connections with roots, proxy and client certificate as a repository's credentials have them.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub fn with_settings(settings: &HttpSettings) -> Result<Self, TransportError> {
        http::Http::new("the git host", settings).map(Self)
    }

    /// Connections that trust the certificates of the first of these secrets that has some, under `ca.crt` or `caFile`; the
    /// system's where none has.
    ///
    /// # Errors
    /// As [`Http::with_roots`].
    pub fn trusting<'a>(secrets: impl IntoIterator<Item = &'a SecretValues>) -> Result<Self, ForgeError> {
        let roots = secrets.into_iter().find_map(|secret| secret.get("ca.crt").or_else(|| secret.get("caFile")));
        Self::with_roots(roots.unwrap_or_default())
    }

    /// The client for calls that do not block. It follows no redirect.
    pub fn client(&self) -> &reqwest::Client {
        self.0.client()
    }
}

impl From<http::Http> for Http {
    fn from(http: http::Http) -> Self {
        Self(http)
    }
}
