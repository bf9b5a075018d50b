//! Why a rollback cannot be made.

use crate::source::SourceError;

/// Why an earlier state cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The repository cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// There is no commit yet.
    #[error("the git repository has no commits, so there is nothing to roll back to")]
    Unborn,
    /// No branch is checked out.
    #[error("no branch is checked out, so the rollback has no base branch")]
    Detached,
    /// History ends before what is looked for.
    #[error("this clone has only part of the history, without the model's newest change")]
    Shallow,
    /// A file that is none.
    #[error("{path} is not a regular file in commit {commit}")]
    NoFile {
        /// Its path.
        path: String,
        /// The commit.
        commit: String,
    },
    /// More than stator reads of any file.
    #[error("a file of the model has {size} bytes there; a model's files have at most 1 MiB")]
    TooLarge {
        /// How many bytes.
        size: usize,
    },
    /// A name that git does not take for a branch.
    #[error("`{branch}` is not a valid branch name")]
    BranchName {
        /// As given.
        branch: String,
    },
    /// The branch is another's.
    #[error("the branch `{branch}` exists already, and is not this rollback")]
    BranchExists {
        /// Its name.
        branch: String,
    },
    /// git does not know who commits.
    #[error("git does not know your name and email address")]
    Nobody,
    /// git cannot read or write.
    #[error("git failed: {reason}")]
    Git {
        /// In git's words.
        reason: String,
    },
}

impl From<git2::Error> for RestoreError {
    fn from(error: git2::Error) -> Self {
        Self::Git { reason: error.message().to_owned() }
    }
}

impl RestoreError {
    /// What to do next, in a sentence.
    pub fn help(&self) -> String {
        match self {
            Self::Source(error) => error.help(),
            Self::Unborn => "commit something first".to_owned(),
            Self::Detached => "git switch main, or whichever branch the cluster follows".to_owned(),
            Self::Shallow => "git fetch --unshallow, or name the state with --to".to_owned(),
            Self::NoFile { .. } => "choose another state with --to; links and submodules are not followed".to_owned(),
            Self::TooLarge { .. } => "choose another state with --to".to_owned(),
            Self::BranchName { .. } => "choose another with --branch".to_owned(),
            Self::BranchExists { branch } => {
                format!("choose another with --branch, or remove it: git branch -D {branch}")
            }
            Self::Nobody => "git config user.name NAME, and git config user.email ADDRESS".to_owned(),
            Self::Git { .. } => "`git fsck` shows what is damaged; a fresh clone repairs it".to_owned(),
        }
    }
}
