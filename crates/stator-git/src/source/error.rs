//! Why a repository cannot be read.

use std::path::PathBuf;

/// Why a repository, or a commit of it, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// There is nothing at the path.
    #[error("{} does not exist", .path.display())]
    Missing {
        /// As given.
        path: PathBuf,
    },
    /// The path is neither a folder nor a `model.yaml`.
    #[error("{} is neither a folder nor a model.yaml", .path.display())]
    NotAnIntent {
        /// As given.
        path: PathBuf,
    },
    /// The paths of one command lie in different repositories.
    #[error("{} and {} are in different repositories", .first.display(), .other.display())]
    SeveralRepositories {
        /// As given.
        first: PathBuf,
        /// As given.
        other: PathBuf,
    },
    /// A folder, or the file that says where the root is, cannot be read.
    #[error("{} cannot be read: {reason}", .path.display())]
    Unreadable {
        /// What.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// There is more than stator is willing to look at.
    #[error("{} holds more than {limit} {what}", .path.display())]
    TooMany {
        /// The root.
        path: PathBuf,
        /// The limit.
        limit: usize,
        /// Of what.
        what: &'static str,
    },
    /// The folder is in no git repository.
    #[error("{} is not in a git repository", .path.display())]
    NoGit {
        /// The folder.
        path: PathBuf,
    },
    /// git refuses a repository that another user owns.
    #[error("the git repository at {} belongs to another user", .path.display())]
    NotOwned {
        /// The folder.
        path: PathBuf,
    },
    /// No branch, tag or commit has that name.
    #[error("`{revision}` is not a revision of the git repository at {}: {reason}", .path.display())]
    UnknownRevision {
        /// As given.
        revision: String,
        /// The folder.
        path: PathBuf,
        /// In git's words.
        reason: String,
    },
    /// The commit does not have the folder.
    #[error("commit {commit} has no folder `{folder}`")]
    NoSuchFolder {
        /// The full commit.
        commit: String,
        /// The folder from the git repository's root.
        folder: String,
    },
    /// The object database cannot be read.
    #[error("the git repository at {} cannot be read: {reason}", .path.display())]
    Git {
        /// The folder.
        path: PathBuf,
        /// In git's words.
        reason: String,
    },
}

impl SourceError {
    /// What to do next, in a sentence.
    pub fn help(&self) -> String {
        match self {
            Self::Missing { .. } => "check the spelling, or start a repository with `stator init`".to_owned(),
            Self::NotAnIntent { .. } => {
                "pass a folder, or the model.yaml itself; overlays and stator.yaml are read along with it".to_owned()
            }
            Self::SeveralRepositories { .. } => "run the command once for each repository".to_owned(),
            Self::Unreadable { .. } => "make it readable for this user; until then nothing is planned, because what \
                                        cannot be read must not count as removed"
                .to_owned(),
            Self::TooMany { .. } => "pass a folder that contains only intents".to_owned(),
            Self::NoGit { .. } => "revisions need git: run this in a clone".to_owned(),
            Self::NotOwned { path } => {
                format!("if you trust it: git config --global --add safe.directory {}", path.display())
            }
            Self::UnknownRevision { .. } => {
                "pass a branch, a tag, a commit or HEAD~1; a branch that exists only on the remote is origin/<branch>, \
                 and a shallow clone lacks old commits (git fetch --unshallow)"
                    .to_owned()
            }
            Self::NoSuchFolder { .. } => "pass a commit in which the folder exists".to_owned(),
            Self::Git { .. } => "`git fsck` shows what is damaged; a fresh clone repairs it".to_owned(),
        }
    }
}
