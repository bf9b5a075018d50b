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
        let built = reqwest::Client::builder()
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
