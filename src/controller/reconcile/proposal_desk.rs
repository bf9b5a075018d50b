//! Where pull requests of a source are opened: its mirror makes the commit, and its git host takes it.

use super::context::ReconcileContext;
use crate::controller::metrics::MirrorOperation;
use crate::controller::mirror_handle::MirrorHandle;
use crate::observation::{ProposalDesk, ProposalHost, ProposalRepository};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use stator_git::forge::{AnyForge, BranchPusher, ForgeError, ForgeHttp};
use stator_git::source::model_source::Reference;
use stator_git::source::proposal::{ProposalAuthor, ProposalError, ProposedCommit, ProposedFile};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A source's mirror, and the folder of it that the source is about.
struct MirrorProposals {
    git: MirrorHandle,
    folder: String,
}

impl MirrorProposals {
    fn path(&self, below: &str) -> String {
        if self.folder.is_empty() { below.to_owned() } else { format!("{}/{below}", self.folder) }
    }
}

impl ProposalRepository for MirrorProposals {
    fn commit(
        &self,
        base: String,
        file: ProposedFile,
        message: String,
        author: ProposalAuthor,
    ) -> BoxFuture<'_, Result<ProposedCommit, ProposalError>> {
        let file = ProposedFile { path: self.path(&file.path), ..file };
        async move {
            let made =
                self.git.with(MirrorOperation::Read, move |mirror| Ok(mirror.propose(&base, &file, &message, &author)));
            made.await.map_err(|error| ProposalError::Git(error.to_string()))?
        }
        .boxed()
    }

    fn files_at(
        &self,
        commit: String,
        folder: String,
    ) -> BoxFuture<'_, Result<BTreeMap<String, Vec<u8>>, ProposalError>> {
        let folder = self.path(&folder);
        async move {
            let read = self.git.with(MirrorOperation::Fetch, move |mirror| Ok(mirror.files_at(&commit, &folder)));
            read.await.map_err(|error| ProposalError::Git(error.to_string()))?
        }
        .boxed()
    }
}

impl ReconcileContext {
    /// Where pull requests of the source are opened, or why none can be.
    pub(super) fn proposal_desk(&self) -> ProposalDesk {
        let repository = MirrorProposals { git: self.repository.git.clone(), folder: self.source.folder.clone() };
        ProposalDesk::new(Arc::new(repository), self.proposal_host())
    }

    fn proposal_host(&self) -> Result<ProposalHost, String> {
        let spec = &self.source.spec;
        let Reference::Branch(base) = &spec.reference else {
            return Err("the source does not follow a branch".to_owned());
        };
        let (Some(forge), Some(secret)) = (&spec.forge, &self.source.secrets.forge) else {
            return Err("the source names no git host with a token: set `spec.forge` with a `secretRef`".to_owned());
        };
        let explain = |error: ForgeError| format!("{error}; {}", error.help());
        let credentials = self.source.git_credentials().map_err(|error| error.to_string())?;
        let http = ForgeHttp::for_repository(&credentials, Some(secret)).map_err(explain)?;
        let http = http.with_observer(self.board.metrics.forge_observer());
        let pusher = BranchPusher::connect(forge, &self.source.url, secret, &http).map_err(explain)?;
        let forge = AnyForge::connect_to_propose(forge, &self.source.url, secret, http).map_err(explain)?;
        Ok(ProposalHost { forge, pusher, base: base.clone() })
    }
}
