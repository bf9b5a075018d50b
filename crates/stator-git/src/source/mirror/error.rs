//! Why a mirror cannot say what is in a repository.

use crate::source::transport::TransportError;
use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

/// Why a mirror cannot say what is in a repository. Nothing is ever pruned over one of these: what cannot be seen does
/// not count as removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MirrorError {
    /// The host cannot be talked to.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// There is no git repository at the local path.
    #[error("there is no git repository at {}: {reason}", .path.display())]
    NoRepository {
        /// As given.
        path: PathBuf,
        /// In git's words.
        reason: String,
    },
    /// The repository has no commit yet.
    #[error("the repository is empty")]
    Empty,
    /// There is no such branch.
    #[error("there is no branch `{branch}`{}", default_branch_note(.default.as_deref()))]
    NoBranch {
        /// The branch.
        branch: String,
        /// What the repository's default branch is now, where it says.
        default: Option<String>,
    },
    /// There is no such tag.
    #[error("there is no tag `{tag}`")]
    NoTag {
        /// The tag.
        tag: String,
    },
    /// There is no such ref.
    #[error("there is no ref `{name}`")]
    NoRef {
        /// The whole name: `refs/pull/7/head`.
        name: String,
    },
    /// No tag is in the range.
    #[error("none of {tags} tags is a version in `{range}`{}", newest_version_note(.newest.as_deref()))]
    NoVersion {
        /// The range.
        range: String,
        /// How many tags there are.
        tags: usize,
        /// The highest version among them.
        newest: Option<String>,
    },
    /// The range cannot be understood.
    #[error("`{range}` is not a valid version range: {reason}")]
    BadRange {
        /// The range.
        range: String,
        /// Why.
        reason: String,
    },
    /// A name that git does not allow.
    #[error("`{name}` cannot be the name of a {what}")]
    BadName {
        /// As given, escaped.
        name: String,
        /// `branch`, `tag`, `ref` or `commit`.
        what: &'static str,
    },
    /// The host does not give out the commit, or has none of that name.
    #[error("the host does not serve commit {commit}")]
    NoCommit {
        /// The commit.
        commit: String,
    },
    /// A tag that leads to something other than a commit.
    #[error("`{name}` points to a {kind}, not to a commit")]
    NotACommit {
        /// The ref.
        name: String,
        /// What it leads to.
        kind: String,
    },
    /// The commit does not have the folder.
    #[error("commit {commit} has no folder `{folder}`")]
    NoFolder {
        /// The full commit.
        commit: String,
        /// The folder from the repository's root.
        folder: String,
    },
    /// There is more than stator is willing to look at.
    #[error("commit {commit} holds more than {limit} {what}")]
    TooMany {
        /// The full commit.
        commit: String,
        /// The limit.
        limit: usize,
        /// Of what.
        what: &'static str,
    },
    /// The repository names objects by SHA-256.
    #[error("the repository uses SHA-256 object names, which stator does not read")]
    Sha256,
    /// Another process uses the mirror.
    #[error("another process is using the mirror at {}", .path.display())]
    Busy {
        /// The mirror's folder.
        path: PathBuf,
    },
    /// The mirror's folder cannot be written.
    #[error("the mirror at {} cannot be used: {reason}", .path.display())]
    Folder {
        /// The mirror's folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The mirror is damaged, and so it was after it had been rebuilt.
    #[error("the repository cannot be read, not even after a fresh fetch: {reason}")]
    Damaged {
        /// In git's words.
        reason: String,
    },
}

impl MirrorError {
    /// Whether the same call may work in a moment, and how long the host asks to be left alone before. A ref that is
    /// not there may be pushed again, and so may a repository's first commit.
    pub fn retry_delay(&self) -> Option<Duration> {
        match self {
            Self::Transport(error) => error.retry_delay(),
            Self::Empty
            | Self::NoBranch { .. }
            | Self::NoTag { .. }
            | Self::NoRef { .. }
            | Self::NoVersion { .. }
            | Self::NoCommit { .. }
            | Self::NoRepository { .. }
            | Self::Busy { .. }
            | Self::Folder { .. } => Some(Duration::ZERO),
            Self::BadRange { .. }
            | Self::BadName { .. }
            | Self::NotACommit { .. }
            | Self::NoFolder { .. }
            | Self::TooMany { .. }
            | Self::Sha256
            | Self::Damaged { .. } => None,
        }
    }

    /// What a user can do about it, as the end of a sentence.
    pub fn help(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Transport(error) => return error.help(),
            Self::NoRepository { .. } => "compare `spec.url` with the repository's path",
            Self::Empty => "push a commit; until then nothing is synced and nothing is pruned",
            Self::NoBranch { .. } => {
                "push the branch, or name another in `spec.ref.branch`; until then nothing is synced and nothing is pruned"
            }
            Self::NoTag { .. } => {
                "push the tag, or name another in `spec.ref.tag`; until then nothing is synced and nothing is pruned"
            }
            Self::NoRef { .. } => "no action needed: the host removes the refs of closed pull requests",
            Self::NoVersion { .. } => {
                "push a tag in the range (`v1.2.3`), or widen `spec.ref.semver`; prereleases count only where the range \
                 names one: `>=1.0.0-0`"
            }
            Self::BadRange { .. } => "write `spec.ref.semver` as in `>=1.0.0 <2.0.0`, `1.x`, `^1.2` or `~1.2.3`",
            Self::BadName { .. } => {
                "correct `spec.ref`: a branch or tag as `git branch` and `git tag` show it, or all 40 digits of a commit"
            }
            Self::NoCommit { .. } => {
                "compare `spec.ref.commit` with `git log`; some hosts serve only commits that a branch or tag contains"
            }
            Self::NotACommit { .. } => "point the tag at a commit",
            Self::NoFolder { .. } => {
                "compare `spec.path` with the repository; until then nothing is synced and nothing is pruned"
            }
            Self::TooMany { .. } => {
                "move the intents into a repository or folder of their own and name it in `spec.path`"
            }
            Self::Sha256 => "convert the repository to SHA-1 object names",
            Self::Busy { .. } => "stop the other process, or give this one another `--data` folder",
            Self::Folder { .. } => {
                "make the folder writable for this user and give it space, or name another with `--data`"
            }
            Self::Damaged { .. } => "`git fsck` on the host shows what is damaged",
        })
    }
}

fn default_branch_note(default: Option<&str>) -> String {
    default.map_or_else(String::new, |default| format!("; the repository's default branch is `{default}`"))
}

fn newest_version_note(newest: Option<&str>) -> String {
    newest.map_or_else(String::new, |newest| format!("; the highest is {newest}"))
}
