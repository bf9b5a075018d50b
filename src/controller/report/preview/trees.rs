//! The files that a preview is made of, out of the source's mirror.

use super::planner::PullRequestTrees;
use stator_git::forge::PullRequest;
use stator_git::source::mirror::{Mirror, MirrorError};
use stator_git::source::model_source::Reference;
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
    /// The three sides of a pull request, by [`read_trees`] on a thread that may wait.
    ///
    /// # Errors
    /// Why they cannot be read, and what to do about it, in a line without credentials.
    fn read_trees(&self, wanted: PullRequestRefs) -> impl Future<Output = Result<PullRequestTrees, String>> + Send;
}

/// Reads the three sides, fetching what is not here.
///
/// # Errors
/// What the mirror says. A pull request that has no commit in common with its base branch is compared with nothing.
pub fn read_trees(mirror: &mut Mirror, wanted: &PullRequestRefs) -> Result<PullRequestTrees, MirrorError> {
    let tip_commit = match &wanted.tip {
        Some(tip) => tip.clone(),
        None => {
            let tip = mirror.poll(&Reference::Branch(wanted.branch.clone()))?;
            mirror.fetch(&tip)?.commit
        }
    };
    let (head, head_commit) = match read_fetched_head(mirror, wanted) {
        Some(known) => known,
        None => {
            let commit = mirror.fetch_ref(&wanted.fetch)?;
            (mirror.tree(&commit, &wanted.folder)?, commit)
        }
    };
    let tip = mirror.tree(&tip_commit, &wanted.folder)?;
    let (base, base_commit) = match mirror.merge_base(&tip_commit, &head_commit)? {
        Some(commit) if commit == tip_commit => (tip.clone(), commit),
        Some(commit) => match mirror.tree(&commit, &wanted.folder) {
            Ok(tree) => (tree, commit),
            // The folder came after the two had parted.
            Err(MirrorError::NoFolder { .. }) => (stator_model::intent::SourceTree::default(), commit),
            Err(error) => return Err(error),
        },
        None => (stator_model::intent::SourceTree::default(), String::new()),
    };
    Ok(PullRequestTrees { tip, tip_commit, base, base_commit, head, head_commit })
}

/// The head where it was fetched before: a base that moves asks for all of them again.
fn read_fetched_head(
    mirror: &mut Mirror,
    wanted: &PullRequestRefs,
) -> Option<(stator_model::intent::SourceTree, String)> {
    if wanted.head.len() < 40 {
        return None;
    }
    Some((mirror.tree(&wanted.head, &wanted.folder).ok()?, wanted.head.clone()))
}
