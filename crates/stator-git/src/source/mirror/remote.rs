//! What a mirror is a mirror of.

use crate::source::credentials::{Credentials, Tokens};
use crate::source::url::RepositoryUrl;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A repository to mirror, and how far to go for it.
#[derive(Clone)]
pub struct Remote {
    /// Where it is.
    pub url: RepositoryUrl,
    /// What to log in with, what to trust and what to go through.
    pub credentials: Credentials,
    /// Where the token comes from when the login is a GitHub App's.
    pub tokens: Option<Arc<dyn Tokens>>,
    /// How much is taken of it.
    pub limits: Limits,
    /// Ends whatever is under way.
    pub cancel: CancellationToken,
}

impl Remote {
    /// A repository, with the limits that hold unless told otherwise.
    pub fn new(url: RepositoryUrl, credentials: Credentials) -> Self {
        Self { url, credentials, tokens: None, limits: Limits::default(), cancel: CancellationToken::new() }
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("url", &self.url).field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// How much is taken of a repository, and how long is waited for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// To get a connection.
    pub connect: Duration,
    /// For one conversation, from the first byte asked to the last answered.
    pub whole: Duration,
    /// Bytes a second that must come, over each [`Limits::window`].
    pub floor: u64,
    /// What the floor is measured over.
    pub window: Duration,
    /// Bytes of one answer.
    pub pack: u64,
    /// Objects of one answer.
    pub objects: usize,
    /// Packs that lie beside one another before they are made one.
    pub packs: usize,
    /// Branches, tags and other refs that a repository may have.
    pub refs: usize,
    /// Files of ours in one commit.
    pub files: usize,
    /// Entries of git trees that are looked at for one commit. Trees may share subtrees, so a few kilobytes can spell
    /// out billions of paths.
    pub entries: usize,
    /// Bytes of all files of ours in one commit.
    pub bytes: usize,
    /// Bytes of files that are remembered from one commit to the next.
    pub cache: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            whole: Duration::from_secs(300),
            floor: 1024,
            window: Duration::from_secs(60),
            pack: 256 << 20,
            objects: 1_000_000,
            packs: 50,
            refs: 50_000,
            files: 100_000,
            entries: 2_000_000,
            bytes: 512 << 20,
            cache: 64 << 20,
        }
    }
}
