//! How hosts are reached.

use super::ForgeError;
use std::time::Duration;

/// How hosts are reached: one pool of connections for all of them.
#[derive(Clone, Debug)]
pub struct Http(reqwest::Client);

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
        let mut builder = reqwest::Client::builder();
        if !roots.is_empty() {
            let roots = reqwest::Certificate::from_pem_bundle(roots).ok().filter(|roots| !roots.is_empty());
            builder = builder.tls_certs_only(roots.ok_or_else(|| ForgeError::Misconfigured {
                field: "caFile",
                message: "is not PEM".to_owned(),
                fix: "put the certificate there, from -----BEGIN CERTIFICATE----- on",
            })?);
        }
        let built = builder
            .user_agent(concat!("stator/", env!("CARGO_PKG_VERSION")))
            // Redirects are followed by hand, within the host.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10))
            .build();
        built.map(Self).map_err(|error| ForgeError::Unavailable {
            host: "TLS".to_owned(),
            message: error.to_string(),
            after: None,
        })
    }

    /// The client for calls that do not block.
    pub fn client(&self) -> &reqwest::Client {
        &self.0
    }
}
