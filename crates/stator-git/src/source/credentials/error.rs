//! What can be wrong with a secret for git. Nothing here ever holds a value.

use super::super::url::{RepositoryUrl, UrlScheme};
use std::fmt;

/// Why a secret cannot be used for a repository: all of its faults, sorted by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialError {
    /// The secret's name; `None` when the source names none.
    pub secret: Option<String>,
    /// What is wrong with it, at least one.
    pub faults: Vec<CredentialFault>,
}

/// One thing that is wrong with a secret for git, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum CredentialFault {
    /// The address is SSH and the source names no secret.
    #[error(
        "an SSH address needs `secretRef` with a secret that has `identity` and `known_hosts`; \
         for a public repository write the `https://` address"
    )]
    NoSecret,
    /// The secret has nothing in it that logs in, trusts or leads anywhere.
    #[error("has none of the keys for {way}; add {add}")]
    Nothing {
        /// What the address is.
        way: GitTransport,
        /// Which keys to add.
        add: &'static str,
    },
    /// A key is there and the other that it needs is not.
    #[error("`{have}` needs {want}; {fix}")]
    Missing {
        /// The key that is there.
        have: &'static str,
        /// The key or keys that are not.
        want: &'static str,
        /// What to put there.
        fix: &'static str,
    },
    /// Two keys that say different things about the same.
    #[error("`{one}` and `{other}` conflict: both define {question}; keep one of them")]
    Ambiguous {
        /// The one.
        one: &'static str,
        /// The other.
        other: &'static str,
        /// What they are both about.
        question: &'static str,
    },
    /// The key is for another way to reach a repository than the address has.
    #[error("`{key}` has no effect for {way}; {fix}")]
    Unfit {
        /// The key.
        key: &'static str,
        /// What the address is.
        way: GitTransport,
        /// What to do.
        fix: &'static str,
    },
    /// The key is nearly one that is known, and that one is not there.
    #[error("`{key}` is an unknown key; did you mean `{meant}`?")]
    Misspelled {
        /// As it stands there.
        key: String,
        /// What it would be.
        meant: &'static str,
    },
    /// The key is another tool's, for something that stator does not do.
    #[error("`{key}` is not supported: {fix}")]
    Unsupported {
        /// The key.
        key: &'static str,
        /// What to do.
        fix: &'static str,
    },
    /// The value is empty.
    #[error("`{key}` is empty; set it or remove it")]
    Empty {
        /// The key.
        key: &'static str,
    },
    /// The value is not UTF-8.
    #[error("`{key}` is not text (not UTF-8); was it encoded as base64 twice, or made from a binary file?")]
    NotText {
        /// The key.
        key: &'static str,
    },
    /// The value ends in a line break, which would be sent.
    #[error(
        "`{key}` ends in a line break, which would be sent with it; remove it (`printf %s` instead of `echo`, \
         `--from-literal` instead of `--from-file`)"
    )]
    LineBreak {
        /// The key.
        key: &'static str,
    },
    /// The value has a line break, a NUL or another control character inside.
    #[error("`{key}` has a line break or another control character in it; copy it again")]
    Control {
        /// The key.
        key: &'static str,
    },
    /// The value is not what the key is for.
    #[error("`{key}` is not {what}; {fix}")]
    Malformed {
        /// The key.
        key: &'static str,
        /// What it should be.
        what: String,
        /// What to do.
        fix: &'static str,
    },
    /// The secret says that it is for another host.
    #[error("`url` is for `{host}`, but the repository is on another host; use the secret of its host")]
    OtherHost {
        /// The host that the secret is for.
        host: String,
    },
}

/// How the address reaches a repository, as faults say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GitTransport {
    /// `https://` or `http://`.
    Http,
    /// SSH.
    Ssh,
    /// A path of this machine.
    Local,
}

impl CredentialFault {
    /// The key that it is about; empty for a secret as a whole.
    pub fn key(&self) -> &str {
        match self {
            Self::NoSecret | Self::Nothing { .. } => "",
            Self::Misspelled { key, .. } => key,
            Self::OtherHost { .. } => "url",
            Self::Missing { have: key, .. }
            | Self::Ambiguous { one: key, .. }
            | Self::Unfit { key, .. }
            | Self::Unsupported { key, .. }
            | Self::Empty { key }
            | Self::NotText { key }
            | Self::LineBreak { key }
            | Self::Control { key }
            | Self::Malformed { key, .. } => key,
        }
    }
}

impl GitTransport {
    pub(super) fn for_url(url: &RepositoryUrl) -> Self {
        match url.scheme() {
            UrlScheme::Https | UrlScheme::Http => Self::Http,
            UrlScheme::Ssh => Self::Ssh,
            UrlScheme::Local => Self::Local,
        }
    }
}

impl fmt::Display for GitTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "an `https://` address",
            Self::Ssh => "an SSH address",
            Self::Local => "a local path",
        })
    }
}

impl fmt::Display for CredentialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(secret) = &self.secret {
            write!(f, "secret `{secret}`: ")?;
        }
        if let [fault] = self.faults.as_slice() {
            return write!(f, "{fault}");
        }
        write!(f, "{} errors", self.faults.len())?;
        for fault in &self.faults {
            write!(f, "\n  {fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for CredentialError {}
