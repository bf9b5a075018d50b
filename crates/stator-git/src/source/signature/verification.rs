//! Whether a revision is signed by the keys of a secret.

use super::object::{SignatureFormat, SignedParts};
use super::{KeyFault, SignatureError, SignedRevision, TrustedSigner, openpgp, ssh};
use crate::source::model_source::VerifyMode;
use crate::source::secret::SecretValues;
use jiff::Timestamp;

/// The most bytes of keys that are looked at in one secret. An API server holds no larger one.
const MAX_KEYS_BYTES: usize = 1 << 20;

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
