//! Keys for SSH as secrets hold them: the private key to log in with, and the hosts' keys to compare with.
//!
//! Below both the credentials, which read them, and the transport, which uses them; knows neither.

mod known_hosts;
mod private_key;

pub(in crate::source) use known_hosts::HostKeyError;
pub use known_hosts::KnownHosts;
pub(in crate::source) use private_key::{RsaSignError, RsaSigner, SshKeyError, SshSigningKey};
pub use private_key::{SshPrivateKey, new_deploy_key};
