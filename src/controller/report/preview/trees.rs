//! The files that a preview is made of, out of the source's mirror.

use super::planner::PullRequestTrees;
use stator_git::forge::PullRequest;
use stator_git::source::mirror::{Mirror, MirrorError};
use stator_git::source::model_source::Reference;
use stator_model::intent::SourceTree;
use std::future::Future;

/// What is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequestRefs {
    /// The branch that pull requests are to go into.
    pub branch: String,
    /// Its newest commit, where the source's own look has found it already.
    pub tip: Option<String>,
    /// The ref that brings the pull request's commits, in the base repository: never a fork's.
    pub fetch: String,
    /// The pull request's commit, as the host says; twelve characters of it will do.
    pub head: String,
    /// The folder of the repository that holds its root `stator.yaml`.
    pub folder: String,
}

impl PullRequestRefs {
    /// For a pull request. `None` where its commits cannot be had from the base repository.
    pub fn from_pull_request(pull: &PullRequest, tip: Option<String>, folder: &str) -> Option<Self> {
        let own_branch = || pull.branch.as_ref().filter(|_| !pull.fork).map(|branch| format!("refs/heads/{branch}"));
        Some(Self {
            branch: pull.base.clone(),
            tip,
            fetch: pull.fetch.clone().or_else(own_branch)?,
            head: pull.head.clone(),
            folder: folder.to_owned(),
        })
    }
}

/// Whoever has the files: the mirror that the source's syncs read as well.
pub trait PullRequestReader: Send + Sync + 'static {
    /// The three sides of a pull request, on a thread that may wait.
    ///
    /// # Errors
    /// Why they cannot be read.
    fn read_trees(
        &self,
        wanted: PullRequestRefs,
    ) -> impl Future<Output = Result<PullRequestTrees, PullRequestReadError>> + Send;

    /// Nobody asks for a pull request's commits any more.
    fn forget_ref(&self, name: String) -> impl Future<Output = ()> + Send;
}

/// Why a pull request cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullRequestReadError {
    /// Something that may pass: why, and what to do about it, in a line without credentials.
    Git(String),
    /// The pull request itself is at fault.
    Faulty {
        /// Why.
        reason: String,
        /// What to do about it.
        help: String,
    },
}

/// The commits of the three sides, in full. The base is missing where head and tip have no commit in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequestCommits {
    tip: String,
    base: Option<String>,
    head: String,
}

/// Fetches what is not here of the three sides.
///
/// # Errors
/// What the mirror says.
pub fn fetch_sides(mirror: &mut Mirror, wanted: &PullRequestRefs) -> Result<PullRequestCommits, MirrorError> {
    let tip = match &wanted.tip {
        Some(tip) => tip.clone(),
        None => {
            let tip = mirror.poll(&Reference::Branch(wanted.branch.clone()))?;
            mirror.fetch(&tip)?.commit
        }
    };
    // The head where it was fetched before: a base that moves asks for all of them again.
    let is_known = wanted.head.len() >= 40 && mirror.measure(&wanted.head, &wanted.folder).is_ok();
    let head = if is_known { wanted.head.clone() } else { mirror.fetch_ref(&wanted.fetch)? };
    let base = mirror.merge_base(&tip, &head)?;
    Ok(PullRequestCommits { tip, base, head })
}

/// The memory that reading and planning the three sides may take. Files that are the same in two of them are there once,
/// which is not counted on here.
///
/// # Errors
/// What the mirror says.
pub fn measure_sides(mirror: &mut Mirror, sides: &PullRequestCommits, folder: &str) -> Result<usize, MirrorError> {
    let mut bytes = 0_usize;
    let other_base = sides.base.as_ref().filter(|base| **base != sides.tip);
    for commit in [Some(&sides.tip), Some(&sides.head), other_base].into_iter().flatten() {
        let size = match mirror.measure(commit, folder) {
            Ok(size) => size,
            Err(MirrorError::NoFolder { .. }) if Some(commit) == other_base => continue,
            Err(error) => return Err(error),
        };
        bytes = bytes.saturating_add(size.memory_estimate(mirror.limits()));
    }
    Ok(bytes)
}

/// Reads the three sides. A pull request that has no commit in common with its base branch is compared with nothing.
///
/// # Errors
/// What the mirror says.
pub fn read_sides(
    mirror: &mut Mirror,
    sides: PullRequestCommits,
    folder: &str,
) -> Result<PullRequestTrees, MirrorError> {
    let head = mirror.tree(&sides.head, folder)?;
    let tip = mirror.tree(&sides.tip, folder)?;
    let (base, base_commit) = match sides.base {
        Some(commit) if commit == sides.tip => (tip.clone(), commit),
        Some(commit) => match mirror.tree(&commit, folder) {
            Ok(tree) => (tree, commit),
            // The folder came after the two had parted.
            Err(MirrorError::NoFolder { .. }) => (SourceTree::default(), commit),
            Err(error) => return Err(error),
        },
        None => (SourceTree::default(), String::new()),
    };
    let (tip_commit, head_commit) = (sides.tip, sides.head);
    Ok(PullRequestTrees { tip, tip_commit, base, base_commit, head, head_commit, reading: None })
}
