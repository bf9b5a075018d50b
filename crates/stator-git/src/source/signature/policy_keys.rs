//! Keys that a policy of the administrators names inline: whether one of them signed a commit.

use super::{SignatureError, SignedRevision, TrustedSigner, verify_revision};
use crate::source::model_source::VerifyMode;
use crate::source::secret::SecretValues;
use jiff::Timestamp;

/// How the types of SSH keys begin. What begins otherwise is a line of allowed signers, or armour.
const SSH_KEY_TYPES: [&str; 4] = ["ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-"];

/// Judges the commit of a revision by keys of a policy: each an OpenPGP public key block, SSH public keys, or lines of
/// allowed signers.
///
/// # Errors
/// Why none of them vouches for it, in words. Where one of them cannot be read, none vouches for anything.
pub fn verify_with_policy_keys(
    keys: &[String],
    signed: &SignedRevision,
    now: Timestamp,
) -> Result<Vec<TrustedSigner>, String> {
    let secret = SecretValues::new("signatures.keys", key_files(keys));
    verify_revision(VerifyMode::Head, signed, &secret, now).map_err(|error| match error {
        SignatureError::NoKeys { .. } => "the policy has no keys".to_owned(),
        SignatureError::Keys { secret: _, faults } => {
            let described: Vec<String> = faults
                .iter()
                .map(|fault| match (fault.key.as_str(), fault.line) {
                    ("", _) => fault.reason.clone(),
                    (key, 0) => format!("{key} {}", fault.reason),
                    (key, line) => format!("{key}, line {line}, {}", fault.reason),
                })
                .collect();
            format!("the keys of the policy cannot be read: {}", described.join("; "))
        }
        SignatureError::Unknown { object, key } => {
            format!("{object} is signed with the key {key}, which the policy does not name")
        }
        error @ (SignatureError::Unsigned { .. }
        | SignatureError::Mismatched { .. }
        | SignatureError::KeyExpired { .. }
        | SignatureError::SignatureExpired { .. }
        | SignatureError::Revoked { .. }
        | SignatureError::Time { .. }
        | SignatureError::NotForThis { .. }
        | SignatureError::Unsupported { .. }
        | SignatureError::Malformed { .. }
        | SignatureError::NoTag
        | SignatureError::TagElsewhere { .. }) => error.to_string(),
    })
}

/// The keys as a secret would hold them. Lines of allowed signers are one file, as one list decides which key holds.
fn key_files(keys: &[String]) -> Vec<(String, Vec<u8>)> {
    let (mut files, mut allowed) = (Vec::new(), String::new());
    for (number, key) in keys.iter().enumerate() {
        let text = key.trim();
        if text.starts_with("-----") {
            files.push((format!("key {}.asc", number + 1), text.as_bytes().to_vec()));
        } else if SSH_KEY_TYPES.iter().any(|kind| text.starts_with(kind)) {
            files.push((format!("key {}.sshpub", number + 1), text.as_bytes().to_vec()));
        } else {
            allowed.push_str(text);
            allowed.push('\n');
        }
    }
    if !allowed.is_empty() {
        files.push(("allowed_signers".to_owned(), allowed.into_bytes()));
    }
    files
}
