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
mod ssh;
#[cfg(test)]
mod tests;

pub use error::{KeyFault, SignatureError};
pub use object::{SignedObject, SignedRevision, SignedTag};

use super::model_source::VerifyMode;
use super::secret::SecretValues;
use jiff::Timestamp;
use object::{SignatureFormat, SignedParts};

/// The most bytes of keys that are looked at in one secret. An API server holds no larger one.
const MAX_KEYS_BYTES: usize = 1 << 20;

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

/// Judges a revision: every object that the mode asks for must be signed by a key of the secret that holds at `now`.
///
/// `Head` asks for the commit and for all of [`SignedRevision::ancestors`], `Tag` for the tag, `TagAndHead` for both.
///
/// # Errors
/// The first object that does not pass, and why. See [`SignatureError`].
pub fn verify_revision(
    mode: VerifyMode,
    signed: &SignedRevision,
    keys: &SecretValues,
    now: Timestamp,
) -> Result<Vec<TrustedSigner>, SignatureError> {
    let keys = TrustedKeys::read(keys)?;
    let mut signers = Vec::new();
    let (tag, head) = match mode {
        VerifyMode::Head => (false, true),
        VerifyMode::Tag => (true, false),
        VerifyMode::TagAndHead => (true, true),
    };
    if tag {
        let tag = signed.tag.as_ref().ok_or(SignatureError::NoTag)?;
        signers.push(keys.verify_signature(&tag.parts(&signed.commit)?, now)?);
    }
    if head {
        for commit in std::iter::once(&signed.commit).chain(&signed.ancestors) {
            signers.push(keys.verify_signature(&commit.parts()?, now)?);
        }
    }
    Ok(signers)
}

/// Whether the public keys of a secret can be read, before there is anything to judge by them.
///
/// # Errors
/// [`SignatureError::NoKeys`] and [`SignatureError::Keys`], as [`verify_revision`] would give them.
pub fn check_keys(keys: &SecretValues) -> Result<(), SignatureError> {
    TrustedKeys::read(keys).map(drop)
}

struct TrustedKeys {
    openpgp: openpgp::OpenPgpKeyring,
    ssh: ssh::AllowedSigners,
}

impl TrustedKeys {
    /// All keys of the secret, or everything that is wrong with them: a revocation that cannot be read would let pass
    /// what it was made against.
    fn read(secret: &SecretValues) -> Result<Self, SignatureError> {
        let size: usize = secret.keys().filter_map(|key| secret.get(key)).map(<[u8]>::len).sum();
        let mut faults = Vec::new();
        if size > MAX_KEYS_BYTES {
            faults.push(KeyFault {
                key: String::new(),
                line: 0,
                reason: format!("holds more than {MAX_KEYS_BYTES} bytes"),
            });
            return Err(SignatureError::Keys { secret: secret.name().to_owned(), faults });
        }
        let (mut openpgp, mut ssh) = (openpgp::OpenPgpKeyring::default(), ssh::AllowedSigners::default());
        for key in secret.keys() {
            let Some(bytes) = secret.get(key) else { continue };
            let found = if key.ends_with(".asc") {
                openpgp.add(bytes)
            } else if key.ends_with(".sshpub") {
                ssh.add_keys(bytes)
            } else if key == "allowed_signers" {
                ssh.add_allowed(bytes)
            } else if key == "revoked_keys" {
                ssh.add_revoked(bytes)
            } else {
                continue;
            };
            faults.extend(found.into_iter().map(|(line, reason)| KeyFault { key: key.to_owned(), line, reason }));
        }
        if !faults.is_empty() {
            return Err(SignatureError::Keys { secret: secret.name().to_owned(), faults });
        }
        if openpgp.is_empty() && ssh.is_empty() {
            return Err(SignatureError::NoKeys { secret: secret.name().to_owned() });
        }
        Ok(Self { openpgp, ssh })
    }

    fn verify_signature(&self, parts: &SignedParts<'_>, now: Timestamp) -> Result<TrustedSigner, SignatureError> {
        let Some(signature) = &parts.signature else {
            return Err(SignatureError::Unsigned { object: parts.name.clone() });
        };
        match SignatureFormat::detect(signature) {
            Some(SignatureFormat::Ssh) => self.ssh.verify_signature(parts, signature, now),
            Some(SignatureFormat::OpenPgp) => self.openpgp.verify_signature(parts, signature, now),
            Some(SignatureFormat::X509) => Err(SignatureError::Unsupported {
                object: parts.name.clone(),
                what: "it is of the kind X.509".to_owned(),
            }),
            None => Err(SignatureError::Malformed {
                object: parts.name.clone(),
                reason: "git does not know its format".to_owned(),
            }),
        }
    }
}
