//! Whether a branch leads on from the commit that was applied of it. Older commits were good once, their signatures are good
//! still, and whoever answers for the git host may show one again.

use super::attempt_cache::CommitLineage;
use super::context::ReconcileContext;
use crate::controller::metrics::MirrorOperation;
use crate::controller::mirror_handle::GitError;
use crate::controller::sources::resolved_source::ResolvedSource;
use stator_git::source::model_source::Reference;
use stator_model::plan::RewoundBranch;
use std::fmt;

/// A branch of a repository, as a source's status names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FollowedBranch {
    url: String,
    /// Its whole name, `refs/heads/` included.
    name: String,
}

impl FollowedBranch {
    /// The branch that a source follows. A tag, a version and a commit are chosen and not followed.
    pub(super) fn of_source(source: &ResolvedSource) -> Option<Self> {
        match &source.spec.reference {
            Reference::Branch(branch) => {
                Some(Self { url: source.url.to_string(), name: format!("refs/heads/{branch}") })
            }
            Reference::Tag(_) | Reference::Commit(_) | Reference::Semver(_) => None,
        }
    }
}

impl fmt::Display for FollowedBranch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.url, self.name)
    }
}

impl ReconcileContext {
    /// What became of the branch, where the newest commit does not follow the one that was applied.
    pub(super) async fn rewound_branch(
        &self,
        newest: &str,
        known: &mut Option<CommitLineage>,
    ) -> Result<Option<RewoundBranch>, GitError> {
        let Some(branch) = FollowedBranch::of_source(&self.source) else { return Ok(None) };
        let Some(applied) = self.applied_of(&branch).await?.filter(|applied| applied != newest) else {
            return Ok(None);
        };
        let is_known = |one: &&CommitLineage| one.applied == applied && one.newest == newest;
        let follows = match known.as_ref().filter(is_known) {
            Some(known) => known.follows,
            None => {
                let (later, earlier) = (newest.to_owned(), applied.clone());
                let asked =
                    self.repository.git.with(MirrorOperation::Read, move |mirror| mirror.follows(&later, &earlier));
                let follows = asked.await?;
                *known = Some(CommitLineage { applied: applied.clone(), newest: newest.to_owned(), follows });
                follows
            }
        };
        Ok((!follows).then(|| RewoundBranch {
            from: applied,
            to: newest.to_owned(),
            holds_unchanged: self.board.in_cluster,
        }))
    }

    /// The commit that was last applied of a branch: by this process, by another by the source's status, or by an earlier one
    /// that had the same mirror.
    async fn applied_of(&self, branch: &FollowedBranch) -> Result<Option<String>, GitError> {
        let from = Some(branch.to_string());
        let known = {
            let state = self.board.state.borrow();
            let own = state.applied.as_ref().filter(|_| state.applied_from == from).map(|one| one.commit.clone());
            let previous = state.previous.as_ref().filter(|previous| previous.applied_from == from);
            own.or_else(|| previous?.applied.clone())
        };
        if known.is_some() {
            return Ok(known);
        }
        let name = branch.name.clone();
        self.repository.git.with(MirrorOperation::Read, move |mirror| Ok(mirror.last_applied(&name))).await
    }

    /// Keeps what was applied, for a process that knows no status of the source.
    pub(super) async fn record_applied(&self, commit: &str) {
        let Some(branch) = FollowedBranch::of_source(&self.source) else { return };
        if self.board.state.borrow().applied.as_ref().is_some_and(|applied| applied.commit == commit) {
            return;
        }
        let of = commit.to_owned();
        let kept =
            self.repository.git.with(MirrorOperation::Read, move |mirror| mirror.record_applied(&branch.name, &of));
        if let Err(error) = kept.await {
            tracing::warn!(source = %self.source.key, "the applied commit is not kept in the mirror: {error}");
        }
    }
}
