//! Why a git host could not be talked to.

use std::borrow::Cow;
use std::time::Duration;

/// Why a git host could not be talked to. Never holds a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The login is missing, wrong or expired (401).
    #[error("{host} does not accept the login{}", message_suffix(.message))]
    Unauthorized {
        /// Who answered.
        host: String,
        /// What it said, cut short; may be empty.
        message: String,
    },
    /// The login may not read the repository (403).
    #[error("{host} forbids reading the repository{}", message_suffix(.message))]
    Forbidden {
        /// Who answered.
        host: String,
        /// What it said, cut short; may be empty.
        message: String,
    },
    /// There is no such repository, or the login may not see it (404, 410).
    #[error("{host} has no repository `{path}`, or the login may not see it")]
    NotFound {
        /// Who answered.
        host: String,
        /// What was asked for.
        path: String,
    },
    /// Too many requests (429).
    #[error("{host} limits the rate of requests")]
    RateLimited {
        /// Who answered.
        host: String,
        /// How long it says to wait, if it does.
        after: Option<Duration>,
    },
    /// The host is in trouble (5xx).
    #[error("{host} reports a server error: {status}")]
    Unavailable {
        /// Who answered.
        host: String,
        /// The HTTP status.
        status: u16,
        /// How long it says to wait, if it does.
        after: Option<Duration>,
    },
    /// An answer that git does not give: a login page, a proxy's message, another program.
    #[error("{host} does not answer as a git server: {what}")]
    NotGit {
        /// Who answered.
        host: String,
        /// What came in place of git's answer.
        what: String,
    },
    /// A redirect that is not followed.
    #[error("{host} redirects to {to}, and redirects are followed only to the same host, at most three times")]
    Redirected {
        /// Who answered.
        host: String,
        /// Scheme and host of where to.
        to: String,
    },
    /// No connection: no such name, nobody listens, the TLS handshake fails.
    #[error("{host} cannot be reached: {reason}")]
    Unreachable {
        /// Who was asked.
        host: String,
        /// Why.
        reason: String,
    },
    /// The server's certificate is not trusted.
    #[error("the certificate of {host} is not trusted: {reason}")]
    Certificate {
        /// Who was asked.
        host: String,
        /// Why.
        reason: String,
    },
    /// The connection ended in the middle of an answer.
    #[error("{host} closed the connection in the middle of a response")]
    CutShort {
        /// Who answered.
        host: String,
    },
    /// The time for the whole conversation is over.
    #[error("{host} took longer than {}", format_seconds(.limit))]
    TimedOut {
        /// Who was asked.
        host: String,
        /// The limit.
        limit: Duration,
    },
    /// Less comes than a slow line gives.
    #[error("{host} sends less than {floor} bytes a second")]
    TooSlow {
        /// Who was asked.
        host: String,
        /// The least that must come.
        floor: u64,
    },
    /// More comes than is read.
    #[error("{host} sends more than {limit} {what}")]
    TooMuch {
        /// Who answered.
        host: String,
        /// The limit.
        limit: u64,
        /// Of what.
        what: &'static str,
    },
    /// The answer breaks git's protocol.
    #[error("{host} breaks git's protocol: {reason}")]
    Protocol {
        /// Who answered.
        host: String,
        /// How.
        reason: String,
    },
    /// git on the other side reports an error.
    #[error("git on {host} says: {message}")]
    Remote {
        /// Who answered.
        host: String,
        /// What it said, cut short.
        message: String,
    },
    /// The credentials cannot be used for this address.
    #[error("the credentials for {host} cannot be used: {reason}")]
    Credentials {
        /// Who was to be asked.
        host: String,
        /// Why, without the credential.
        reason: String,
    },
    /// No token of a GitHub App.
    #[error("no token for {host}: {reason}")]
    Token {
        /// Who was to be asked.
        host: String,
        /// Why, without the key.
        reason: String,
    },
    /// The key that an SSH server shows is not the one that is known.
    #[error("the host key of {host} is not trusted: {reason}")]
    HostKey {
        /// Who was asked.
        host: String,
        /// Why, with the key's fingerprint.
        reason: String,
    },
    /// Somebody asked to stop.
    #[error("stopped")]
    Cancelled,
    /// This process cannot do it: threads, memory, libraries.
    #[error("this process cannot talk to git hosts: {reason}")]
    Local {
        /// Why.
        reason: String,
    },
}

impl TransportError {
    /// Whether the same call may work in a moment, and how long the host asks to be left alone before.
    pub fn retry_delay(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { after, .. } => Some(after.unwrap_or(Duration::from_secs(60))),
            Self::Unavailable { after, .. } => Some(after.unwrap_or_default()),
            Self::Unreachable { .. }
            | Self::CutShort { .. }
            | Self::TimedOut { .. }
            | Self::TooSlow { .. }
            | Self::Remote { .. }
            | Self::Token { .. }
            | Self::NotGit { .. }
            | Self::NotFound { .. }
            | Self::Protocol { .. } => Some(Duration::ZERO),
            Self::Unauthorized { .. }
            | Self::Forbidden { .. }
            | Self::Redirected { .. }
            | Self::Certificate { .. }
            | Self::TooMuch { .. }
            | Self::Credentials { .. }
            | Self::HostKey { .. }
            | Self::Cancelled
            | Self::Local { .. } => None,
        }
    }

    /// What a user can do about it, as the end of a sentence.
    pub fn help(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Unauthorized { .. } => {
                "put a valid login into the secret that `spec.secretRef` names: `username` and `password`, \
                 `bearerToken`, the keys of a GitHub App, or `tls.crt` and `tls.key`"
            }
            Self::Forbidden { .. } => "let the login read the repository",
            Self::NotFound { .. } => {
                "compare `spec.url` with the repository's address, and let the login in `spec.secretRef` read it"
            }
            Self::RateLimited { .. } => {
                "no action needed: stator waits; a longer `spec.interval` or a webhook reduces the requests"
            }
            Self::Unavailable { .. } => "no action needed: stator retries",
            Self::NotGit { .. } => {
                "compare `spec.url` with the address that `git clone` takes; a login page instead of git means that \
                 the host wants a login in `spec.secretRef`"
            }
            Self::Redirected { .. } => "write the new address into `spec.url`",
            Self::Unreachable { .. } => "compare `spec.url` with the host's address, and check DNS, firewall and proxy",
            Self::Certificate { .. } => {
                "put the CA certificates of the host into the secret that `spec.secretRef` names, \
                 key `ca.crt`"
            }
            Self::CutShort { .. } | Self::TimedOut { .. } | Self::TooSlow { .. } => {
                "no action needed: stator retries; if it persists, check the network and the host's load"
            }
            Self::TooMuch { .. } => "move the intents into a repository of their own, or delete unused refs",
            Self::Protocol { .. } => "check the proxies between stator and the host: they may change responses",
            Self::Remote { .. } => "check the repository on its host; `git fsck` there shows what is damaged",
            Self::Credentials { .. } => "correct the secret that `spec.secretRef` names",
            Self::Token { .. } => "check the GitHub App's keys in the secret that `spec.secretRef` names",
            Self::HostKey { .. } => {
                "if the host's key was changed, put its line from `ssh-keyscan` into the secret's `known_hosts` after \
                 comparing the fingerprint with the one that the host publishes"
            }
            Self::Cancelled => "run it again",
            Self::Local { .. } => "check the limits of this process: files, threads, memory",
        })
    }
}

fn message_suffix(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

fn format_seconds(limit: &Duration) -> String {
    match limit.as_secs() {
        0 => format!("{} ms", limit.as_millis()),
        1 => "1 second".to_owned(),
        seconds => format!("{seconds} seconds"),
    }
}
