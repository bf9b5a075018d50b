//! Signatures of commits and tags: who vouches for what is about to be rendered.
//!
//! Everything is judged in this process, from the bytes of the object and the public keys of one secret, and against
//! them: what cannot be judged does not pass. The keys of the secret are
//!
//! | Key | Holds |
//! |-|-|
//! | `*.asc` | OpenPGP certificates, in armour or not |
//! | `*.sshpub` | SSH public keys, a line each |
//! | `allowed_signers` | SSH public keys with principals and conditions, as `ssh-keygen` reads them |
//! | `revoked_keys` | SSH public keys that no signature may be from, a line each |
//!
//! A key that has expired or was revoked vouches for nothing, also not for what it signed before: the time in a
//! signature is what the signer says it is.

mod error;
mod object;
mod openpgp;
mod policy_keys;
mod ssh;
#[cfg(test)]
mod tests;
mod verification;

pub use error::{KeyFault, SignatureError};
pub use object::{SignedObject, SignedRevision, SignedTag};
pub use policy_keys::verify_with_policy_keys;
pub use verification::{check_keys, verify_revision};

/// How far ahead of this machine's clock a signer's may be.
const MAX_CLOCK_SKEW_SECONDS: i64 = 60 * 60;

/// Who vouches for an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrustedSigner {
    /// What was signed: `commit 4b825dc642cb`, `tag v1.2.0`.
    pub object: String,
    /// The key by its fingerprint: `SHA256:…` for SSH, hexadecimal for OpenPGP.
    pub key: String,
    /// What the secret calls the signer: a user id, a principal, or a key's comment. May be empty.
    pub name: String,
}
