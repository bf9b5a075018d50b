//! Whether a commit is signed as the source asks for: the newest one when it is found, and one of earlier days again before
//! anything is taken from it.

use super::context::ReconcileContext;
use crate::controller::metrics::MirrorOperation;
use crate::controller::mirror_handle::GitError;
use jiff::Timestamp;
use stator_git::source::mirror::{Mirror, MirrorError, ResolvedRef};
use stator_git::source::secret::SecretValues;
use stator_git::source::signature::{self, SignatureError, SignedRevision};

impl ReconcileContext {
    /// Why the commit of a ref may not be rendered, where the source asks for signatures.
    pub(super) async fn verify_tip(&self, tip: &ResolvedRef) -> Result<Option<SignatureError>, GitError> {
        let of = tip.clone();
        self.verify_with(&tip.commit, move |mirror| mirror.signed_revision(&of)).await
    }

    /// Why a commit that an earlier process synced may not be rendered. That it was synced is said by the source's status,
    /// which proves nothing. The tag that once led to it is not known any more: where tags are signed, nothing but what this
    /// process verified is taken.
    pub(super) async fn verify_earlier_commit(&self, commit: &str) -> Result<Option<SignatureError>, GitError> {
        if self.repository.verified.contains(commit) {
            return Ok(None);
        }
        let of = commit.to_owned();
        self.verify_with(commit, move |mirror| mirror.signed_commit(&of)).await
    }

    async fn verify_with(
        &self,
        commit: &str,
        read: impl FnOnce(&mut Mirror) -> Result<SignedRevision, MirrorError> + Send + 'static,
    ) -> Result<Option<SignatureError>, GitError> {
        let Some(verify) = &self.source.spec.verify else { return Ok(None) };
        // The file is refused without the secret; should it ever come here without, nothing passes.
        let none = || SecretValues::new(verify.secret_ref.name.to_string(), std::iter::empty::<(String, Vec<u8>)>());
        let keys = self.source.secrets.verify.clone().unwrap_or_else(none);
        let mode = verify.mode;
        let signed = self.repository.git.with(MirrorOperation::Read, read).await?;
        let judged =
            tokio::task::spawn_blocking(move || signature::verify_revision(mode, &signed, &keys, Timestamp::now()));
        match judged.await {
            Ok(Ok(signers)) => {
                for signer in signers {
                    tracing::info!(source = %self.source.key, key = signer.key, signer = signer.name, "signed");
                }
                self.repository.verified.insert(commit);
                Ok(None)
            }
            Ok(Err(error)) => Ok(Some(error)),
            Err(_) => Err(GitError::Panicked),
        }
    }
}
