//! Why a revision is not vouched for.

use jiff::Timestamp;

/// Why a revision does not pass. Every one of them means: nothing of it is rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The object has no signature.
    #[error("{object} is not signed")]
    Unsigned {
        /// What.
        object: String,
    },
    /// The key is none of the secret's.
    #[error("{object} is signed with the key {key}, which the secret does not have")]
    Unknown {
        /// What.
        object: String,
        /// The key by fingerprint or id, or what is known of it.
        key: String,
    },
    /// The signature is not one of these bytes: they were changed, or it was taken from elsewhere.
    #[error("{object} does not match its signature by {key}")]
    Mismatched {
        /// What.
        object: String,
        /// The key by fingerprint.
        key: String,
    },
    /// The key has expired.
    #[error("{object} is signed with the key {key}, which expired on {at}")]
    KeyExpired {
        /// What.
        object: String,
        /// The key by fingerprint.
        key: String,
        /// When.
        at: Timestamp,
    },
    /// The signature itself has expired.
    #[error("{object} has a signature by {key} that expired on {at}")]
    SignatureExpired {
        /// What.
        object: String,
        /// The key by fingerprint.
        key: String,
        /// When.
        at: Timestamp,
    },
    /// The key was revoked.
    #[error("{object} is signed with the key {key}, which was revoked{reason}")]
    Revoked {
        /// What.
        object: String,
        /// The key by fingerprint.
        key: String,
        /// Its owner's reason, after a colon; empty where none was given.
        reason: String,
    },
    /// The signature is older than its key, or from the future.
    #[error("{object} is signed with the key {key} at {at}, when {reason}")]
    Time {
        /// What.
        object: String,
        /// The key by fingerprint.
        key: String,
        /// When it says it was signed.
        at: Timestamp,
        /// What does not fit.
        reason: &'static str,
    },
    /// The key is there and not for this.
    #[error("{object} is signed with the key {key}, which {reason}")]
    NotForThis {
        /// What.
        object: String,
        /// The key by fingerprint.
        key: String,
        /// Why not.
        reason: String,
    },
    /// The signature is of a kind that nobody here can judge, or that proves nothing any more.
    #[error("{object} has a signature that is not accepted: {what}")]
    Unsupported {
        /// What.
        object: String,
        /// Why.
        what: String,
    },
    /// The signature, or the object around it, cannot be read.
    #[error("{object} has a signature that cannot be read: {reason}")]
    Malformed {
        /// What.
        object: String,
        /// Why.
        reason: String,
    },
    /// A tag is asked for and there is none.
    #[error("the source requires a signed tag, but the revision is not an annotated tag")]
    NoTag,
    /// The tag is signed, and for something else than it stands for.
    #[error("tag {name} is signed for something else: {reason}")]
    TagElsewhere {
        /// The tag that was fetched.
        name: String,
        /// What does not fit.
        reason: String,
    },
    /// The secret has no key.
    #[error("secret `{secret}` has no public key to verify signatures with")]
    NoKeys {
        /// Its name.
        secret: String,
    },
    /// Keys of the secret cannot be read.
    #[error("secret `{secret}` has public keys that cannot be read{}", listed(.faults))]
    Keys {
        /// Its name.
        secret: String,
        /// All that is wrong, sorted by key and line.
        faults: Vec<KeyFault>,
    },
}

/// One thing that is wrong with the public keys of a secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyFault {
    /// The secret's key; empty for the secret as a whole.
    pub key: String,
    /// The line, from 1; 0 for the whole.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

fn listed(faults: &[KeyFault]) -> String {
    let one = |KeyFault { key, line, reason }: &KeyFault| match line {
        0 => format!("\n  {key}: {reason}"),
        line => format!("\n  {key}, line {line}: {reason}"),
    };
    faults.iter().map(one).collect()
}

impl SignatureError {
    /// What to do next, in a sentence.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Unsigned { .. } => {
                "sign it (`git commit -S`, `git tag -s`) and push again; a git host signs its own merges with the \
                 host's key, if at all"
            }
            Self::Unknown { .. } => {
                "if the signer is to be trusted, add the public key to the secret: OpenPGP under `NAME.asc`, SSH under \
                 `NAME.sshpub` or `allowed_signers`"
            }
            Self::Mismatched { .. } => {
                "the object was changed after it was signed, or the signature was copied from another: find out who \
                 pushed it before signing it again"
            }
            Self::KeyExpired { .. } => {
                "let its owner extend the key and put the new public key into the secret, or sign with another key"
            }
            Self::SignatureExpired { .. } => "sign again, without an expiry (`default-sig-expire` of GnuPG)",
            Self::Revoked { .. } => "sign with another key, and review everything that this key signed",
            Self::Time { .. } => "set the signer's clock, or this machine's, and sign again",
            Self::NotForThis { .. } => "sign with a key that may sign git's objects, or change its entry in the secret",
            Self::Unsupported { .. } => {
                "sign with OpenPGP or SSH, by SHA-256 or SHA-512 (`gpg.format` of git; `personal-digest-preferences` \
                 of GnuPG)"
            }
            Self::Malformed { .. } => "sign again; if it was signed by git, the object was damaged in transit",
            Self::NoTag => {
                "follow a tag (`ref: {tag: …}` or `semver`), create it with `git tag -s`, or use `mode: Head`"
            }
            Self::TagElsewhere { .. } => {
                "create the tag again with `git tag -s`: one that was renamed or moved proves nothing about this commit"
            }
            Self::NoKeys { .. } => {
                "add OpenPGP keys under `NAME.asc`, SSH keys under `NAME.sshpub` or `allowed_signers`"
            }
            Self::Keys { .. } => {
                "fix or remove them; until then no signature is accepted, because one of them may be a revocation"
            }
        }
    }
}
