//! A repository of a git host, and how far to go for it. Below the transport, which reaches it, and the mirror of it.

use super::credentials::{GitCredentials, TokenProvider};
use super::url::RepositoryUrl;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A repository to mirror, and how far to go for it.
#[derive(Clone)]
pub struct RemoteRepository {
    /// Where it is.
    pub url: RepositoryUrl,
    /// What to log in with, what to trust and what to go through.
    pub credentials: GitCredentials,
    /// Where the token comes from when the login is a GitHub App's.
    pub tokens: Option<Arc<dyn TokenProvider>>,
    /// How much is taken of it.
    pub limits: FetchLimits,
    /// Ends whatever is under way.
    pub cancel: CancellationToken,
}

impl RemoteRepository {
    /// A repository, with the limits that hold unless configured otherwise.
    pub fn new(url: RepositoryUrl, credentials: GitCredentials) -> Self {
        Self { url, credentials, tokens: None, limits: FetchLimits::default(), cancel: CancellationToken::new() }
    }
}

impl fmt::Debug for RemoteRepository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("url", &self.url).field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// How much is taken of a repository, and how long is waited for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchLimits {
    /// To get a connection.
    pub connect_timeout: Duration,
    /// For one conversation, from the first byte asked to the last answered.
    pub total_timeout: Duration,
    /// Bytes a second that must come, over each [`FetchLimits::rate_window`].
    pub min_bytes_per_second: u64,
    /// What the floor is measured over.
    pub rate_window: Duration,
    /// Bytes of one answer.
    pub max_pack_bytes: u64,
    /// Objects of one answer.
    pub max_objects: usize,
    /// Bytes of one object, unpacked: libgit2 has whole objects in memory, and what a delta makes of another.
    pub max_object_bytes: u64,
    /// Bytes of all objects of one answer, unpacked.
    pub max_unpacked_bytes: u64,
    /// Bytes of all packs of the mirror; above that it is made anew with what was fetched last.
    pub max_disk_bytes: u64,
    /// Packs that lie beside one another before they are made one.
    pub max_packs: usize,
    /// Branches, tags and other refs that a repository may have.
    pub max_refs: usize,
    /// Files of ours in one commit.
    pub max_files: usize,
    /// Entries of git trees that are looked at for one commit. Trees may share subtrees, so a few kilobytes can spell
    /// out billions of paths.
    pub max_tree_entries: usize,
    /// Bytes of all files of ours in one commit and of their paths; a file counts at each of its paths.
    pub max_total_bytes: usize,
    /// Values (scalars, lists and maps) that all files of ours in one commit may spell out.
    pub max_values: usize,
    /// Bytes of one git tree.
    pub max_tree_bytes: usize,
    /// Bytes of files that are remembered from one commit to the next.
    pub cache_bytes: usize,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            total_timeout: Duration::from_secs(300),
            min_bytes_per_second: 1024,
            rate_window: Duration::from_secs(60),
            max_pack_bytes: 256 << 20,
            max_objects: 500_000,
            max_object_bytes: 64 << 20,
            max_unpacked_bytes: 2 << 30,
            max_disk_bytes: 1 << 30,
            max_packs: 50,
            max_refs: 50_000,
            max_files: 200_000,
            max_tree_entries: 500_000,
            max_total_bytes: 96 << 20,
            max_values: 10_000_000,
            max_tree_bytes: 16 << 20,
            cache_bytes: 128 << 20,
        }
    }
}

/// The most values that a text can spell out in YAML: each begins after one of these characters, but for the first.
pub fn count_values(text: &[u8]) -> usize {
    let begins = |byte: &&u8| matches!(byte, b'\n' | b'\r' | b':' | b'-' | b',' | b'[' | b'{' | b'?');
    1 + text.iter().filter(begins).count()
}

/// How much a commit would have stator read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitSize {
    /// Files of ours, by their paths.
    pub files: usize,
    /// Their bytes and those of their paths; a file counts at each of its paths.
    pub bytes: usize,
}

impl CommitSize {
    /// Bytes of memory that reading and planning it may take, at most: its text twice, what is kept of each file, and the
    /// values that the text can spell out, packed as read, packed as merged, and rendered.
    pub fn memory_estimate(&self, limits: &FetchLimits) -> usize {
        let values = (self.bytes / 2).min(limits.max_values);
        let text = self.bytes.saturating_mul(2).saturating_add(self.files.saturating_mul(4096));
        text.saturating_add(values.saturating_mul(40))
    }
}
