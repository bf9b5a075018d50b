//! What administrators allow the source: read anew for each commit, with what their keys say of it; and what their windows
//! say of the moment.

use super::context::ReconcileContext;
use super::failure::{AttemptFailure, RetryPolicy};
use super::gather::{DISCOVERY_TIMEOUT, RenderedCommit};
use crate::controller::metrics::MirrorOperation;
use futures_util::FutureExt as _;
use jiff::Timestamp;
use stator_cluster::sync::GatherError;
use stator_git::source::signature;
use stator_model::fleet_policy::{ClosedWindows, FleetPolicies, JudgedSource, KeyVerdict, SourcePolicies};
use stator_model::intent::TreeSize;
use std::sync::Arc;

impl ReconcileContext {
    /// What administrators allow the source, as it is now, and what their keys say of a commit of a size. Nothing is
    /// done while that is not known.
    pub(super) async fn read_policies(
        &self,
        commit: &str,
        size: Option<TreeSize>,
    ) -> Result<Arc<SourcePolicies>, AttemptFailure> {
        let facts = self.read_policy_facts().await?;
        let read = tokio::time::timeout(DISCOVERY_TIMEOUT, self.rules.policies.read())
            .await
            .map_err(|_| AttemptFailure::timeout("the policies of the fleet could not be read", DISCOVERY_TIMEOUT))?;
        let policies = read.map_err(|cause| {
            AttemptFailure::from(GatherError { what: "the policies of the fleet".to_owned(), cause })
        })?;
        if let Some(reason) = policies.unreadable().next() {
            let message = format!("nothing is written: a policy of the fleet has errors: {reason}");
            let help = "an administrator has to correct the policy";
            return Err(AttemptFailure::error(message, help, RetryPolicy::Slowly));
        }
        let signatures = Some(self.verify_with_policies(commit, &policies).boxed().await?);
        let earlier = Some(self.rules.order.before(&self.source.key));
        Ok(Arc::new(SourcePolicies { policies, source: JudgedSource { signatures, earlier, size, ..facts } }))
    }

    async fn read_policy_facts(&self) -> Result<JudgedSource, AttemptFailure> {
        let source = Arc::clone(&self.source);
        let facts = tokio::task::spawn_blocking(move || source.policy_facts());
        facts.await.map_err(|_| AttemptFailure::panicked("reading the policies"))
    }

    /// What the keys of policies say of a commit, whomever they bind: which do is known when its files are read.
    async fn verify_with_policies(
        &self,
        commit: &str,
        policies: &FleetPolicies,
    ) -> Result<Vec<KeyVerdict>, AttemptFailure> {
        let keys: Vec<Vec<String>> = policies.signing_keys().into_iter().map(<[String]>::to_vec).collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let of = commit.to_owned();
        let signed = self.repository.git.with(MirrorOperation::Read, move |mirror| mirror.signed_commit(&of)).await?;
        let judged = tokio::task::spawn_blocking(move || {
            let now = Timestamp::now();
            let judge = |keys: Vec<String>| {
                let refusal = signature::verify_with_policy_keys(&keys, &signed, now).err();
                KeyVerdict { keys, refusal }
            };
            keys.into_iter().map(judge).collect()
        });
        judged.await.map_err(|_| AttemptFailure::panicked("verifying the signature"))
    }

    /// The windows of policies that let no sync of a commit in, and when they were asked. What cannot be read closes nothing
    /// here, and says so when the commit is read; the windows are asked again then.
    pub(super) async fn closed_policy_windows(&self, commit: &str) -> Option<(ClosedWindows, Timestamp)> {
        let policies = tokio::time::timeout(DISCOVERY_TIMEOUT, self.rules.policies.read()).await.ok()?.ok()?;
        if !policies.has_windows() {
            return None;
        }
        // Which policies bind a source depends on where it syncs to, and that its commit may decide.
        let destination = match self.source.named_destination() {
            Some(namespace) => Some(namespace),
            None => self.settings_at(commit).boxed().await.map(|found| found.environment.namespace.to_string()),
        };
        let facts = self.read_policy_facts().await.ok()?;
        let destination = destination.unwrap_or_else(|| self.source.key.namespace.clone());
        let (bound, now) = (policies.bind(&facts, &destination), self.rules.window_clock.now());
        let closed = tokio::task::spawn_blocking(move || bound.closed_windows(now)).await.ok()??;
        Some((closed, now))
    }

    /// Refuses to write a commit that the windows of a policy do not let in. The gate was asked before; here it is known for
    /// certain which policies bind.
    pub(super) async fn check_policy_windows(&self, rendered: &RenderedCommit) -> Result<(), AttemptFailure> {
        if !rendered.policies.policies.has_windows() {
            return Ok(());
        }
        let bound = rendered.policies.bind(&rendered.desired.target.namespace);
        let now = self.rules.window_clock.now();
        let asked = tokio::task::spawn_blocking(move || bound.closed_windows(now)).await;
        match asked.map_err(|_| AttemptFailure::panicked("asking the sync windows"))? {
            None => Ok(()),
            Some(closed) => {
                let message = format!("nothing is written: no sync window of fleet policy `{}` is open", closed.policy);
                let help = "stator syncs when the next one opens";
                Err(AttemptFailure::error(message, help, RetryPolicy::Soon))
            }
        }
    }
}
